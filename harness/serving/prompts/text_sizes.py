"""Sizes of texts that are made: INPUTxOUTPUT tokens, each a number or a range."""

import random
import re
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError

SIZES_PATTERN: Final = re.compile(
    r"(?P<uniform>uniform:)?(?P<input>\d{1,7}(-\d{1,7})?)x(?P<output>\d{1,7}(-\d{1,7})?)"
)
MADE_PROMPTS: Final = 1024
"""House rule: as many texts are made, each another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSizes:
    """How long prompts and answers are, in tokens."""

    source: str
    """As the user wrote them."""
    inputs: range
    outputs: range

    def sample_sizes(self, generator: random.Random) -> tuple[int, int]:
        """Draw the tokens of a prompt and of its answer."""
        return generator.choice(self.inputs), generator.choice(self.outputs)


def parse_text_sizes(text: str) -> TextSizes | None:
    """Read `1024x256` or `uniform:200-2000x64-512`; None for what is written otherwise, such as a
    path. RequestError for a range that is none.
    """
    match = SIZES_PATTERN.fullmatch(text)
    if match is None:
        return None
    inputs, outputs = (parse_range(text, match[name]) for name in ("input", "output"))
    if match["uniform"] is None and len(inputs) + len(outputs) > 2:
        raise RequestError(f"--prompts {text}: write uniform:{text} for sizes in a range")
    return TextSizes(source=text, inputs=inputs, outputs=outputs)


def parse_range(text: str, part: str) -> range:
    """Read a number, or two with a dash between."""
    low, _, high = part.partition("-")
    first, last = int(low), int(high or low)
    if not 1 <= first <= last:
        raise RequestError(f"--prompts {text}: {part} is no range of tokens from 1")
    return range(first, last + 1)
