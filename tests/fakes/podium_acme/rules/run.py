"""Check a run of Acme's."""

import math
from collections.abc import Iterator

from compliance.rules import rule
from compliance.verdict import About, Fault
from podium_acme.document import AcmeRun


@rule("acme.rate", AcmeRun, About.SCORE, doubt="the rate")
def rate(run: AcmeRun) -> Iterator[Fault]:
    """The rate is that of the items and seconds, and at least the round's.

    Source: Acme's rules, 1.
    Advice: repeat the run, and file its log as it was written.
    """
    stated, measured = run.values["rate"], run.values["items"] / run.values["seconds"]
    if not math.isclose(stated, measured):
        yield Fault(file=run.log, found=f"rate {stated:g}", required=f"{measured:g}", line=4)
    if measured < run.round.least_rate:
        yield Fault(file=run.log, found=f"{measured:g}", required=f"{run.round.least_rate:g}")
