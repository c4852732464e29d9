"""The log-probabilities of an accuracy run: `logprobs.npy`, which the system under test said, and
`reference_logprobs.npy`, which PyTorch computed of the same answers.

One row per token of an answer, or per class of a picture, by sample and place. NumPy format,
version 1.0, rows with fields, no pickled objects. All values are natural logarithms. The harness
writes the files, run.json has their hashes, and the judge reads them; a reference's columns beside
`fp32` are what known causes would make of it (suite/measurement/logprob_causes.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from suite.loadgen.usage_record import NOT_STATED

MAX_KEPT_SAMPLES: Final = 512
"""House rule: the first samples of the accuracy set have theirs kept; `smoke` has no more."""
MAX_LOGPROB_ROWS: Final = 1 << 20
MAX_LOG_PROBABILITY: Final = 1e-5
"""A sum of probabilities rounds, so that the logarithm of one may be a little above 0; in bf16's
logits, too, since the sum is of fp32.
"""
SAID_COLUMN: Final = "said"
SAID_FIELDS: Final = (
    ("sample", "<i4"),
    ("place", "<i4"),
    ("prompt_tokens", "<i4"),
    (SAID_COLUMN, "<f4"),
)
"""Sample number; number of the token in its answer, or of the class, from 0; tokens of the prompt
by the server's count (NOT_STATED of suite.loadgen.usage_record without one); what was said.
"""
BEST_COLUMN: Final = "best"
FP32_COLUMN: Final = "fp32"
BF16_COLUMN: Final = "bf16"
BF16_WEIGHTS_COLUMN: Final = "bf16_weights"
FP16_WEIGHTS_COLUMN: Final = "fp16_weights"
SCALING_COLUMN: Final = "other_scaling"
BASE_COLUMN: Final = "other_base"
PROMPT_COLUMN: Final = "shorter_prompt"
REFERENCE_COLUMNS: Final = (
    FP32_COLUMN,
    BEST_COLUMN,
    BF16_COLUMN,
    BF16_WEIGHTS_COLUMN,
    FP16_WEIGHTS_COLUMN,
    SCALING_COLUMN,
    BASE_COLUMN,
    PROMPT_COLUMN,
)
"""Of the token by PyTorch in fp32; of the likeliest token there; of the token in bf16, with weights
rounded to bf16 or to fp16 and computed in fp32, with the other scaling of positions (Llama 3.1's,
or none where the checkpoint has one), with another base of the rotations, and without the first
token of the prompt.
"""
REFERENCE_FIELDS: Final = (
    ("sample", "<i4"),
    ("place", "<i4"),
    ("position", "<i4"),
    *((name, "<f4") for name in REFERENCE_COLUMNS),
)
"""`position`: of the token in prompt and answer together, from 0: at place 0 it is the number of
the prompt's tokens.
"""


def compute_row_keys(table: Any) -> Any:
    """Return a number for each row, int64, that orders rows by sample and place."""
    import numpy as np

    return (np.int64(table["sample"]) << 32) + table["place"]


def select_common_rows(one: Any, other: Any) -> tuple[Any, Any]:
    """Return the rows of two files that are of the same sample and place, both in one order; of
    keys that occur twice the first rows.
    """
    import numpy as np

    keys, others = compute_row_keys(one), compute_row_keys(other)
    if len(keys) == len(others) and (keys == others).all():
        return one, other
    _, mine, its = np.intersect1d(keys, others, return_indices=True)
    return one[mine], other[its]


def find_logarithms(values: Any) -> Any:
    """Return where values are logarithms of probabilities above 0, as a mask."""
    import numpy as np

    return np.isfinite(values) & (values <= MAX_LOG_PROBABILITY)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidAnswer:
    """What a system said of one answer."""

    values: Sequence[float]
    """Of its tokens, in their order, or of all classes."""
    prompt_tokens: int = NOT_STATED
