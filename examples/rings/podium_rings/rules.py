"""The rules that this workload adds to the judge."""

from collections.abc import Iterator

from compliance.kinds.podium.documents.training import TrainingLog
from compliance.logs.finite_numbers import is_finite_number
from compliance.rules import rule
from compliance.verdict import Fault

WIDEST = 64


@rule("rings.width", TrainingLog, workload="rings")
def width(log: TrainingLog) -> Iterator[Fault]:
    """The hidden layer is not wider than the reference's.

    Source: README of this package.
    Advice: train with --set rings.width=64 or less.
    """
    found = log.find_value("rings.width")
    if not is_finite_number(found) or found > WIDEST:
        yield log.build_fault(f"{found}", f"at most {WIDEST}", log.find_line("rings.width"))
