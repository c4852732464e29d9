"""Statistics over ten time slices of one performance run, shown as "within this run" and never used
for a verdict.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from compliance import within_run
from compliance.kinds.podium.documents.conditions import is_sorted_by_length
from compliance.kinds.podium.documents.inference import LoadGenRun, read_loadgen_run
from compliance.kinds.podium.rules.inference import queries
from compliance.within_run import WithinRunInterval
from suite import registry
from suite.loadgen.scenario import Scenario
from suite.result import WithinRun
from suite.workload import Mode


def iterate_within_run_figures(folders: Sequence[Path], scenario: Scenario) -> Iterator[WithinRun]:
    """Yield the figures of the runs whose query record is consistent with their logs."""
    for number, folder in enumerate(folders, 1):
        run = read_loadgen_run(folder, Mode.PERFORMANCE, scenario, registry.load_round())
        if run.queries is None or any(
            finding
            for rule in (queries.times, queries.count, queries.latencies)
            for finding in rule(run)
        ):
            continue
        metric, found = compute_slice_figure(run, scenario)
        if found is not None:
            unit = "samples/s" if scenario is Scenario.OFFLINE else "ns"
            slices = tuple(found.slices)
            yield WithinRun(
                run=number,
                metric=metric,
                unit=unit,
                value=found.value,
                slices=slices,
                low=found.low,
                high=found.high,
                problem=found.problem,
            )


def compute_slice_figure(
    run: LoadGenRun, scenario: Scenario
) -> tuple[str, WithinRunInterval | None]:
    """Compute Offline's rate, or another scenario's latency percentile, per slice; Server's queries
    start when scheduled.
    """
    assert run.queries is not None  # checked by the caller
    if scenario is Scenario.OFFLINE:
        return "samples_per_second", within_run.estimate_offline_rate(
            run.queries, is_sorted_by_length(run)
        )
    if run.rule:
        percentile = run.rule.percentile
    else:
        percentile = 100 * (run.find_number("effective_target_latency_percentile") or 0.0)
    metric = f"latency_p{percentile:g}"
    began = (
        queries.recompute_due_times(run) if scenario is Scenario.SERVER else run.queries.issued_ns
    )
    if began is None or not 1 <= percentile < 100:
        return metric, None
    return metric, within_run.estimate_latency_percentile(began, run.queries.done_ns, percentile)
