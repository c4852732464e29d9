"""Writes the records of a finished LoadGen run: LoadGen's verdict, its metric, podium's run.json,
accuracy.txt.
"""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from harness.serving.energy import Measured
from harness.serving.loadgen.result_files import Facts, read_answers
from harness.serving.loadgen.session import Outcome
from harness.serving.loadgen.test_settings import Schedule
from harness.serving.setup import Bench
from suite import __version__, registry
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_LOG, ACCURACY_TEXT, RUN_RECORD, compute_file_sha256
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen import advice, loadgen_errors
from suite.loadgen.advice import Hint
from suite.loadgen.headline import HEADLINE_METRICS, LATENCY_METRIC
from suite.loadgen.scenario import Scenario
from suite.records import InstanceRecord, NetworkRecord, RunRecord, write_record
from suite.rounds import HyperValue, ScenarioRow
from suite.workload import Mode, Scores

NS_PER_S: Final = 1e9
NS_PER_MS: Final = 1e6
RECORD: Final = msgspec.json.Decoder(RunRecord)
STREAM_LATENCIES: Final = {
    Scenario.SINGLE_STREAM: ("result_mean_latency_ns", "result_50.00_percentile_latency_ns"),
    Scenario.MULTI_STREAM: (
        "result_mean_query_latency_ns",
        "result_50.00_percentile_per_query_latency_ns",
    ),
}
"""LoadGen's names of a query's mean and median latency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """LoadGen's verdict on a performance run."""

    valid: bool
    metric: str
    value: float
    """Nanoseconds or samples/s."""
    rate: float
    """The value as samples/s, for comparison with the harness ceiling."""
    hints: tuple[Hint, ...]
    errors: tuple[str, ...] = ()
    """Errors that void the run, in LoadGen's words."""

    @property
    def passing(self) -> bool:
        """Check whether the same run could be VALID if repeated: only the machine was at fault."""
        return (
            bool(self.errors)
            and not self.hints
            and all(map(loadgen_errors.is_transient_error, self.errors))
        )


def judge(bench: Bench, schedule: Schedule, facts: Facts) -> Verdict:
    """Read LoadGen's verdict, and give advice if it is INVALID."""
    scenario, row = schedule.scenario, bench.rules(schedule.scenario)
    metric, key = HEADLINE_METRICS[scenario]
    value = facts.number(key)
    rate = (
        schedule.samples_per_query * NS_PER_S / max(value, 1.0)
        if metric == LATENCY_METRIC
        else value
    )
    valid = facts.values.get("result_validity") == "VALID"
    hints = (
        ()
        if valid
        else advice.collect_run_hints(
            scenario, effective(row, schedule), advice_facts(scenario, facts)
        )
    )
    return Verdict(
        valid=valid and not facts.errors,
        metric=metric,
        value=value,
        rate=rate,
        hints=hints,
        errors=facts.errors,
    )


def effective(row: ScenarioRow, schedule: Schedule) -> ScenarioRow:
    """Return the row with the limits that LoadGen was given: the user may request a longer run."""
    return replace(
        row,
        percentile=schedule.percentile,
        min_duration_ms=schedule.min_duration_ms,
        min_queries=schedule.min_queries,
    )


def advice_facts(scenario: Scenario, facts: Facts) -> advice.PerformanceFigures:
    """Extract from the detail log what advice needs."""
    mean_key, median_key = STREAM_LATENCIES.get(scenario, ("result_mean_latency_ns", None))
    latency_key = target_key(facts) if scenario is Scenario.SERVER else mean_key
    return advice.PerformanceFigures(
        duration_met=facts.flag("result_min_duration_met"),
        queries_met=facts.flag("result_min_queries_met"),
        early_stopping_met=facts.flag("early_stopping_met"),
        bound_met=facts.flag("result_perf_constraints_met"),
        queries=int(facts.number("result_query_count")),
        over_bound=(
            int(facts.number("result_overlatency_query_count"))
            if scenario is Scenario.SERVER
            else 0
        ),
        latency_ns=facts.number(latency_key),
        median_ns=facts.number(median_key) if median_key else 0.0,
        rate=(
            facts.number(HEADLINE_METRICS[scenario][1])
            if scenario in (Scenario.SERVER, Scenario.OFFLINE)
            else 0.0
        ),
    )


def target_key(facts: Facts) -> str:
    """Return the percentile that LoadGen compared with the latency bound; it prints 50, 90, 95, 97,
    99 and 99.9.
    """
    percentile = 100 * facts.number("effective_target_latency_percentile")
    return f"result_{percentile:.2f}_percentile_latency_ns"


def score(bench: Bench, folder: Path) -> Scores:
    """Score an accuracy run with the workload's scorer against the packed truth; JudgedError if
    that fails.
    """
    answers = dict(read_answers(folder))
    scores = registry.load_scorer(bench.request.name)(
        answers, bench.entry.locate_ground_truth(bench.request.name)
    )
    for metric, value in scores.items():
        if not math.isfinite(value):
            raise JudgedError(f"{bench.request.name}: {metric} is {value}, not a number")
    sha256 = compute_file_sha256(folder / ACCURACY_LOG)
    lines = [f"{metric}={value:.6f}, hash={sha256}\n" for metric, value in scores.items()]
    (folder / ACCURACY_TEXT).write_text("".join(lines), "utf-8")
    return scores


def shortfalls(bench: Bench, scores: Scores) -> list[str]:
    """List the scores that miss the required share of the reference accuracy, or the round's own
    threshold.
    """
    share = bench.request.round.loadgen.accuracy_share
    record = bench.checkpoint.record
    needed = [
        (metric, share * value, f"{share:.0%} of the reference {value:.4f}")
        for metric, value in record.reference_accuracy.items()
    ]
    needed += [
        (metric, value, "the round's threshold") for metric, value in bench.row.threshold.items()
    ]
    return [
        f"{metric} is {scores.get(metric, 0.0):.4f}, below {value:.4f} ({why})"
        for metric, value, why in needed
        if scores.get(metric, 0.0) < value
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Fields of run.json besides the stamps."""

    verdict: str
    metric: str
    value: float
    ceiling: float | None = None
    above: bool = False
    hints: tuple[Hint, ...] = ()
    measured: Measured = Measured()


def write_run_record(
    bench: Bench, schedule: Schedule, outcome: Outcome, result: Result, folder: Path
) -> None:
    """Write run.json into a run's folder."""
    request, record = bench.request, bench.checkpoint.record
    write_record(
        folder / RUN_RECORD,
        RunRecord(
            workload=request.name,
            round=request.round.name,
            profile=request.profile,
            **{name: getattr(bench.entry, name) for name in ("division", "org", "system")},
            scenario=schedule.scenario.label,
            mode=schedule.mode,
            framework=request.options.framework,
            engine=request.options.engine,
            input=request.options.input,
            device=bench.device,
            precision=bench.precision,
            threads=bench.threads,
            nonce=record.nonce,
            checkpoint_sha256=record.sha256,
            sample_count=outcome.sample_count,
            settings={**request.settings, **asked(schedule)},
            command=tuple(sys.argv),
            **{
                name: getattr(result, name)
                for name in ("verdict", "metric", "value", "ceiling", "hints")
            },
            above_ceiling_share=result.above,
            batches=batches_of(outcome),
            energy=result.measured.energy,
            idle=result.measured.idle,
            no_energy=result.measured.reasons,
            lost=outcome.lost,
            engine_package=bench.engine_package,
            network=network_of(bench, outcome),
            instances=answered_by(bench, outcome),
            loadgen_cores=bench.system.loadgen_cores,
            version=__version__,
        ),
    )


def network_of(bench: Bench, outcome: Outcome) -> NetworkRecord | None:
    """Describe the network that the run went over, with its traffic."""
    if bench.network is None or outcome.traffic is None:
        return None
    return replace(bench.network, bytes_out=outcome.traffic[0], bytes_in=outcome.traffic[1])


def answered_by(bench: Bench, outcome: Outcome) -> tuple[InstanceRecord, ...]:
    """Tell what each instance answered; its workers are every n-th of n instances."""
    placed = bench.system.placement
    sums = [
        [sum(column) for column in zip(*outcome.workers[number :: len(placed)], strict=True)]
        for number in range(len(placed))
    ]
    several = len({place.device for place in placed}) > 1
    return tuple(
        InstanceRecord(
            device=place.device if several else "",
            cores=place.cores,
            batches=batches,
            samples=samples,
        )
        for place, (batches, samples) in zip(placed, sums, strict=True)
    )


def batches_of(outcome: Outcome) -> dict[str, float]:
    """Summarise the batches."""
    return {
        "count": float(outcome.batches),
        "mean_size": outcome.samples / max(outcome.batches, 1),
        "by_length": float(outcome.by_length),
    }


def record_in(folder: Path) -> RunRecord | None:
    """Read a run's record; None if it is missing or unreadable."""
    try:
        return read_untrusted_file(folder / RUN_RECORD, RECORD.decode)
    except UnreadableError:
        return None


def asked(schedule: Schedule) -> Mapping[str, HyperValue]:
    """Return LoadGen's settings in the form that would reproduce them."""
    own: dict[Scenario, dict[str, HyperValue]] = {
        Scenario.SERVER: {"server.target_qps": schedule.rate},
        Scenario.OFFLINE: {"offline.expected_qps": schedule.rate},
        Scenario.SINGLE_STREAM: {
            "single_stream.expected_latency_us": schedule.expected_latency_ns // 1000
        },
        Scenario.MULTI_STREAM: {
            "multi_stream.expected_latency_us": schedule.expected_latency_ns // 1000
        },
    }
    return {
        "loadgen.min_duration_ms": schedule.min_duration_ms,
        "loadgen.min_queries": schedule.min_queries,
        **own[schedule.scenario],
    }


def words(schedule: Schedule, verdict: Verdict, ceiling: float | None) -> str:
    """Format a performance run's verdict and metric in one line."""
    latency = f"p{schedule.percentile:g} latency {verdict.value / NS_PER_MS:.2f} ms"
    value = latency if verdict.metric == LATENCY_METRIC else f"{verdict.value:,.1f} samples/s"
    share = (
        f" (harness ceiling {ceiling:,.0f} samples/s: {100 * verdict.rate / ceiling:.1f} %)"
        if ceiling
        else ""
    )
    return (
        f"{schedule.scenario.label} {Mode.PERFORMANCE}: {'VALID' if verdict.valid else 'INVALID'},"
        f" {value}{share}"
    )
