"""Check the record of a search for Server's peak rate, beside the run that became the result."""

from collections.abc import Iterator

from compliance.documents.podium.inference import LoadGenRun
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.files.layout import RUN_RECORD
from suite.loadgen.scenario import Scenario


@rule("loadgen.searched", LoadGenRun, About.SCORE)
def searched(run: LoadGenRun) -> Iterator[Fault]:
    """A searched rate belongs to a VALID performance run of Server. The lowest INVALID rate of the
    search is above it and was measured.

    Source: house rule: `podium compare` gives ratios only between searched rates;
    harness/serving/adoption.py writes what the search proved.
    Advice: search again with --peak; do not edit run.json.
    """
    found = run.record.searched if run.record else None
    if found is None:
        return
    if (
        not run.performance
        or run.scenario is not Scenario.SERVER
        or run.find_value("result_validity") != "VALID"
    ):
        yield run.build_fault(
            RUN_RECORD, "a searched rate", "only in VALID performance runs of Server"
        )
    rate = run.find_number("requested_server_target_qps")
    if found.invalid_qps is not None and rate is not None and not found.invalid_qps > rate:
        yield run.build_fault(
            RUN_RECORD,
            f"a lowest INVALID rate of {found.invalid_qps:g} queries/s",
            f"above {rate:g}, the rate of this VALID run",
        )
    least = 1 if found.invalid_qps is None else 2
    if found.runs < least or found.probes < 0:
        yield run.build_fault(
            RUN_RECORD,
            f"{found.runs} full runs and {found.probes} probes",
            f"at least {least} full runs, for the stated search result",
        )
    if not 0 < found.tolerance < 1:
        yield run.build_fault(
            RUN_RECORD, f"a tolerance of {found.tolerance:g}", "above 0 and below 1"
        )
