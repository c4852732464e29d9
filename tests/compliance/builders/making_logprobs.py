"""Makes how likely a system and PyTorch find the answers of an accuracy run of Llama."""

from pathlib import Path
from typing import Any

import numpy
from spoiling import put

from suite.files.layout import (
    LOGPROB_FILE,
    REFERENCE_LOGPROB_FILE,
    RUN_RECORD,
    compute_file_sha256,
)
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.logprob_record import REFERENCE_COLUMNS, REFERENCE_FIELDS, SAID_FIELDS
from suite.loadgen.token_record import TOKEN_BYTES

PROMPT_TOKENS = 55
ERRORS = {"bf16": 0.03, "bf16_weights": 0.02, "fp16_weights": 0.003, "other_scaling": 0.1}
"""Standard deviation of each column, in nats; that of the others is 1."""


def write_log_probabilities(folder: Path, error: float = 1e-6, samples: int = 12) -> None:
    """Write both files of a run, of a system with errors of this size, and their hashes."""
    answers = dict(read_logged_answers(folder))
    rows = [
        (sample, place)
        for sample in sorted(answers)[:samples]
        for place in range(len(answers[sample]) // TOKEN_BYTES)
    ]
    random = numpy.random.Generator(numpy.random.PCG64(5))
    fp32 = -random.exponential(1.0, len(rows)) - 0.1
    said = numpy.zeros(len(rows), numpy.dtype(list(SAID_FIELDS)))
    reference = numpy.zeros(len(rows), numpy.dtype(list(REFERENCE_FIELDS)))
    for table in (said, reference):
        table["sample"], table["place"] = numpy.array(rows).T
    reference["position"] = PROMPT_TOKENS + reference["place"]
    for name in REFERENCE_COLUMNS:
        spread = 0.0 if name in ("fp32", "best") else ERRORS.get(name, 1.0)
        reference[name] = move_down(fp32, random.normal(0, 1, len(rows)) * spread)
    said["prompt_tokens"] = PROMPT_TOKENS
    said["said"] = move_down(fp32, random.normal(0, error, len(rows)))
    save_log_probabilities(folder, said, reference)


def move_down(fp32: Any, errors: Any) -> Any:
    """Add errors of logits to log-probabilities, which stay below 0."""
    return numpy.minimum(fp32 + (1 - numpy.exp(fp32)) * errors, -1e-4)


def save_log_probabilities(folder: Path, said: Any, reference: Any) -> None:
    """Save both files, and name them in run.json."""
    for name, table in ((LOGPROB_FILE, said), (REFERENCE_LOGPROB_FILE, reference)):
        numpy.save(folder / name, table)
        key = f"{name.removesuffix('.npy')}_sha256"
        put(**{key: compute_file_sha256(folder / name)})(folder / RUN_RECORD)
