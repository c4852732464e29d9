"""Decides whether two translations can come from one model; imports no framework, since the judge
runs it.

Floating-point sums depend on the batch size, and where two words are nearly equally likely, so does
the choice between them; the following words may then differ too. A translation by another model, or
of another source, shares few tokens with the first in the same order.
"""

from difflib import SequenceMatcher
from typing import Final

from workloads.common.text.token_answers import unpack_token_ids

MIN_COMMON_TOKEN_SHARE: Final = (
    0.5  # house rule: at least half of each answer's tokens in common, in order
)


def agree(first: bytes, second: bytes) -> bool:
    """Compare two answers as token sequences; an invalid answer agrees only with itself."""
    one, other = unpack_token_ids(first), unpack_token_ids(second)
    if not one or not other:
        return first == second
    shared = sum(
        block.size
        for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks()
    )
    return shared >= MIN_COMMON_TOKEN_SHARE * max(len(one), len(other))
