"""Whether two translations may come from one model; no framework, since the judge runs it.

Sums of floats depend on the size of the batch, and where two words are nearly as likely, so does the one that is chosen; what follows
it may differ too. A sentence by another model, or to another source, has few tokens of the first in their order.
"""

from difflib import SequenceMatcher
from typing import Final

from workloads.common.text.token_answers import unpacked

LIKE_SHARE: Final = 0.5  # house rule: at least half of both answers' tokens, in their order


def agree(first: bytes, second: bytes) -> bool:
    """Compare two rows of token numbers; what is none agrees with nothing but itself."""
    one, other = unpacked(first), unpacked(second)
    if not one or not other:
        return first == second
    shared = sum(block.size for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks())
    return shared >= LIKE_SHARE * max(len(one), len(other))
