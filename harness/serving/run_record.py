"""Writes the records of a finished LoadGen run: LoadGen's verdict, its metric, podium's run.json,
accuracy.txt.
"""

import math
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from harness.serving.energy import NO_ENERGY, MeasuredEnergy
from harness.serving.loadgen.session import LoadGenOutcome
from harness.serving.loadgen.test_settings import LoadGenSchedule
from harness.serving.setup import ServingSetup
from suite import __version__, registry
from suite.errors import JudgedError
from suite.files.layout import (
    ACCURACY_LOG,
    ACCURACY_TEXT,
    LOGPROB_FILE,
    REFERENCE_LOGPROB_FILE,
    RUN_RECORD,
    compute_file_sha256,
)
from suite.files.untrusted_files import UnreadableError
from suite.loadgen import advice, loadgen_errors
from suite.loadgen.advice import Hint
from suite.loadgen.detail_log import DetailLog
from suite.loadgen.headline import (
    FIRST_TOKEN_KEY,
    HEADLINE_METRICS,
    LATENCY_METRIC,
    OUTPUT_TOKEN_KEY,
    SAMPLE_RATE_UNIT,
    TOKEN_RATE_UNIT,
    VALID_RUN,
    VERDICT_KEY,
    convert_to_ceiling_unit,
    get_rate_unit,
)
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario
from suite.loadgen.server_counters import Counted, list_counted_words
from suite.loadgen.token_figures import TokenFigures, read_token_figures
from suite.loadgen.token_record import is_streaming_credible
from suite.loadgen.usage_record import format_cached_tokens
from suite.records import (
    InstanceRecord,
    NetworkRecord,
    RunRecord,
    ServedRun,
    SystemUnderTest,
    locate_system_folder,
    read_served_run,
    read_system_record,
    write_record,
    write_system_record,
)
from suite.rounds import HyperValue, ScenarioRow
from suite.rounds.settings import PERFORMANCE_PREFIXES, can_affect_run
from suite.units import NS_PER_MS
from suite.workload import Mode, Scores

LATENCY_KEY: Final = "result_{:.2f}_percentile_latency_ns"
STREAM_LATENCY_KEYS: Final = {
    Scenario.SINGLE_STREAM: ("result_mean_latency_ns", "result_50.00_percentile_latency_ns"),
    Scenario.MULTI_STREAM: (
        "result_mean_query_latency_ns",
        "result_50.00_percentile_per_query_latency_ns",
    ),
}
"""LoadGen's names of a query's mean and median latency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadGenVerdict:
    """LoadGen's verdict on a performance run."""

    valid: bool
    metric: str
    value: float
    """Nanoseconds, samples/s or tokens/s."""
    rate: float
    """The value in the unit of the harness ceiling: latencies as samples/s."""
    hints: tuple[Hint, ...]
    errors: tuple[str, ...] = ()
    """Errors that void the run, in LoadGen's words."""
    tokens: TokenFigures | None = None
    """None if LoadGen did not measure tokens."""

    @property
    def is_repeatable(self) -> bool:
        """Check whether the same run could be VALID if repeated: only the machine was at fault."""
        return (
            bool(self.errors)
            and not self.hints
            and all(map(loadgen_errors.is_transient_error, self.errors))
        )


def judge_performance_run(
    serving_setup: ServingSetup, schedule: LoadGenSchedule, detail_log: DetailLog
) -> LoadGenVerdict:
    """Read LoadGen's verdict, and give advice if it is INVALID."""
    scenario, row = schedule.scenario, serving_setup.require_scenario_rules(schedule.scenario)
    headline = detail_log.require_headline(scenario)
    valid = detail_log.values.get(VERDICT_KEY) == VALID_RUN
    hints: tuple[Hint, ...] = ()
    if not valid:
        hints = advice.collect_run_hints(
            scenario,
            apply_schedule_limits(row, schedule),
            collect_advice_facts(scenario, detail_log),
        )
    return LoadGenVerdict(
        valid=valid and not detail_log.errors,
        metric=headline.metric,
        value=headline.value,
        rate=convert_to_ceiling_unit(headline, schedule.samples_per_query),
        hints=hints,
        errors=detail_log.errors,
        tokens=read_token_figures(detail_log.find_number) if detail_log.measures_tokens else None,
    )


def apply_schedule_limits(row: ScenarioRow, schedule: LoadGenSchedule) -> ScenarioRow:
    """Return the row with the limits that LoadGen was given: the user may request a longer run."""
    return replace(
        row,
        percentile=schedule.percentile,
        min_duration_ms=schedule.min_duration_ms,
        min_queries=schedule.min_queries,
    )


def collect_advice_facts(scenario: Scenario, detail_log: DetailLog) -> advice.PerformanceFigures:
    """Extract from the detail log what advice needs."""
    mean_key, median_key = STREAM_LATENCY_KEYS.get(scenario, ("result_mean_latency_ns", None))
    latency_key = format_target_key(detail_log) if scenario is Scenario.SERVER else mean_key
    over_bound, rate, mean_ns = 0, 0.0, 0.0
    if scenario is Scenario.SERVER:
        over_bound = int(detail_log.require_number("result_overlatency_query_count"))
        mean_ns = detail_log.find_number("result_mean_latency_ns") or 0.0
    if scenario in (Scenario.SERVER, Scenario.OFFLINE):
        rate = detail_log.require_number(HEADLINE_METRICS[scenario][1])
    return advice.PerformanceFigures(
        duration_met=detail_log.is_flag_set("result_min_duration_met"),
        queries_met=detail_log.is_flag_set("result_min_queries_met"),
        early_stopping_met=detail_log.is_flag_set("early_stopping_met"),
        bound_met=detail_log.is_flag_set("result_perf_constraints_met"),
        queries=int(detail_log.require_number("result_query_count")),
        over_bound=over_bound,
        latency_ns=detail_log.require_number(latency_key),
        median_ns=detail_log.require_number(median_key) if median_key else 0.0,
        rate=rate,
        mean_ns=mean_ns,
        first_token_ns=find_token_time(scenario, detail_log, FIRST_TOKEN_KEY),
        per_token_ns=find_token_time(scenario, detail_log, OUTPUT_TOKEN_KEY),
    )


def format_target_key(detail_log: DetailLog, form: str = LATENCY_KEY) -> str:
    """Return the percentile that LoadGen compared with the latency bound; it prints 50, 90, 95, 97,
    99 and 99.9.
    """
    return form.format(100 * detail_log.require_number("effective_target_latency_percentile"))


def find_token_time(scenario: Scenario, detail_log: DetailLog, form: str) -> float:
    """Return Server's time of first or of further tokens at that percentile; 0 if LoadGen did not
    measure tokens.
    """
    key = format_target_key(detail_log, form) if scenario is Scenario.SERVER else ""
    return detail_log.require_number(key) if key in detail_log.values else 0.0


def score_accuracy_run(serving_setup: ServingSetup, folder: Path) -> Scores:
    """Score an accuracy run with the workload's scorer against the packed truth; JudgedError if
    that fails.
    """
    answers = dict(read_logged_answers(folder))
    scores = registry.load_scorer(serving_setup.request.name)(
        answers, serving_setup.entry.locate_ground_truth(serving_setup.request.name)
    )
    for metric, value in scores.items():
        if not math.isfinite(value):
            raise JudgedError(f"{serving_setup.request.name}: {metric} is {value}, not a number")
    write_accuracy_text(folder, scores)
    return scores


def write_accuracy_text(folder: Path, scores: Scores) -> None:
    """Write the scores of an accuracy run, with the hash of the answers."""
    sha256 = compute_file_sha256(folder / ACCURACY_LOG)
    lines = [f"{metric}={value:.6f}, hash={sha256}\n" for metric, value in scores.items()]
    (folder / ACCURACY_TEXT).write_text("".join(lines), "utf-8")


def build_system_record(serving_setup: ServingSetup, sample_count: int) -> SystemUnderTest:
    """Describe what all runs of an entry have in common."""
    request, record = serving_setup.request, serving_setup.checkpoint.record
    identity = serving_setup.identity
    return SystemUnderTest(
        workload=request.name,
        round=request.round.name,
        profile=request.profile,
        division=serving_setup.entry.division,
        org=serving_setup.entry.org,
        name=serving_setup.entry.system,
        framework=serving_setup.framework,
        engine=identity.engine.text,
        engine_package=serving_setup.engine_package,
        input=request.options.input,
        precision=identity.precision.text,
        device=identity.device.text,
        threads=serving_setup.threads,
        checkpoint_sha256=record.sha256,
        nonce=record.nonce,
        settings={
            key: value
            for key, value in request.settings.items()
            if not key.startswith(PERFORMANCE_PREFIXES)
        },
        sample_count=sample_count,
        version=__version__,
        served=identity if serving_setup.host.network else None,
    )


def write_run_record(
    serving_setup: ServingSetup,
    schedule: LoadGenSchedule,
    outcome: LoadGenOutcome,
    folder: Path,
    *,
    ceiling: float | None = None,
    measured: MeasuredEnergy = NO_ENERGY,
    system_folder: Path | None = None,
) -> None:
    """Write run.json into a run's folder, and its system's record into that of the entry, or into
    `system_folder`.
    """
    system = build_system_record(serving_setup, outcome.sample_count)
    store_system_record(system_folder or locate_system_folder(folder), system)
    write_record(
        folder / RUN_RECORD,
        RunRecord(
            system_sha256=system.compute_digest(),
            changed=collect_run_settings(serving_setup, schedule),
            command=tuple(sys.argv),
            ceiling=ceiling,
            batches=summarise_batches(outcome),
            telemetry_sha256=measured.telemetry_sha256,
            logprobs_sha256=hash_present_file(folder / LOGPROB_FILE),
            reference_logprobs_sha256=hash_present_file(folder / REFERENCE_LOGPROB_FILE),
            began_idle=bool(measured.idle),
            lost=outcome.lost,
            network=build_network_record(serving_setup, outcome),
            instances=build_instance_records(serving_setup, outcome),
            loadgen_cores=serving_setup.system.loadgen_cores,
        ),
    )


def hash_present_file(path: Path) -> str:
    """Return the SHA-256 of a file; "" without it."""
    return compute_file_sha256(path) if path.is_file() else ""


def store_system_record(folder: Path, system: SystemUnderTest) -> None:
    """Write a system's record, unless it is there."""
    with suppress(UnreadableError):
        if read_system_record(folder).compute_digest() == system.compute_digest():
            return
    write_system_record(folder, system)


def collect_run_settings(
    serving_setup: ServingSetup, schedule: LoadGenSchedule
) -> Mapping[str, HyperValue]:
    """Return LoadGen's settings that affect a run."""
    requested = {
        key: value
        for key, value in serving_setup.request.settings.items()
        if key.startswith(PERFORMANCE_PREFIXES)
        and can_affect_run(key, schedule.scenario.label, Mode.PERFORMANCE)
    }
    return {**requested, **build_repeat_settings(schedule)}


def build_network_record(
    serving_setup: ServingSetup, outcome: LoadGenOutcome
) -> NetworkRecord | None:
    """Describe the network that the run went over, with its traffic."""
    network = serving_setup.host.network
    if network is None or outcome.traffic is None:
        return None
    bytes_out, bytes_in = outcome.traffic
    found = asdict(outcome.answered_tokens) if outcome.answered_tokens else {}
    return replace(
        network,
        bytes_out=bytes_out,
        bytes_in=bytes_in,
        counters=outcome.server_counters,
        **found,
    )


def describe_unstreamed_answers(outcome: LoadGenOutcome) -> str:
    """Return a sentence if many answers came with all their tokens at once; "" otherwise."""
    tokens = outcome.answered_tokens
    if tokens is None or is_streaming_credible(tokens.answers_in_one_read, outcome.samples):
        return ""
    return (
        f"{tokens.answers_in_one_read:,} of {outcome.samples:,} answers came with all"
        " their tokens at once: no time per token can be had of them, and that of all answers is"
        " too low"
    )


def describe_cached_prompts(outcome: LoadGenOutcome) -> str:
    """Return a sentence if servers had tokens of prompts in a cache; "" otherwise."""
    tokens = outcome.answered_tokens
    if tokens is None or not tokens.cached_tokens:
        return ""
    return format_cached_tokens(tokens.cached_tokens, tokens.prompt_tokens)


def describe_server_counts(outcome: LoadGenOutcome) -> str:
    """Return a sentence with what the servers counted themselves, and podium's count beside it; ""
    if they publish no counters.
    """
    tokens = outcome.answered_tokens
    if tokens is None or not outcome.server_counters:
        return ""
    own = {
        Counted.GENERATED: tokens.tokens_logged,
        Counted.PROMPT: tokens.prompt_tokens,
        Counted.PREFIX_HITS: tokens.cached_tokens,
    }
    words = [
        f"{name} {stated}" + (f" (podium: {counted})" if counted else "")
        for name, stated, counted in list_counted_words(outcome.server_counters, own)
    ]
    return f"by the servers' own counters: {', '.join(words)}" if words else ""


def build_instance_records(
    serving_setup: ServingSetup, outcome: LoadGenOutcome
) -> tuple[InstanceRecord, ...]:
    """Return what each instance answered; its workers are every n-th of n instances."""
    placed = serving_setup.system.placement
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


def summarise_batches(outcome: LoadGenOutcome) -> dict[str, float]:
    """Summarise the batches; a generator's are its steps, each of which adds a token to every live
    sequence.
    """
    if outcome.generated:
        live = {"mean_live": outcome.generated / outcome.batches, "slots": float(outcome.slots)}
    else:
        live = {}
    return {
        "count": float(outcome.batches),
        "mean_size": outcome.samples / max(outcome.batches, 1),
        "by_length": float(outcome.by_length),
        **live,
    }


def find_served_run(folder: Path) -> ServedRun | None:
    """Read a run's records; None if one is missing or unreadable."""
    try:
        return read_served_run(folder)
    except UnreadableError:
        return None


def build_repeat_settings(schedule: LoadGenSchedule) -> Mapping[str, HyperValue]:
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


def format_run_verdict(
    schedule: LoadGenSchedule, verdict: LoadGenVerdict, ceiling: float | None
) -> str:
    """Format a performance run's verdict and metric in one line."""
    latency = f"p{schedule.percentile:g} latency {verdict.value / NS_PER_MS:.2f} ms"
    unit = get_rate_unit(verdict.metric)
    value = latency if verdict.metric == LATENCY_METRIC else f"{verdict.value:,.1f} {unit}"
    tokens = format_token_figures(schedule, verdict.tokens) if verdict.tokens else ""
    if ceiling:
        share = f" (harness ceiling {ceiling:,.0f} {unit}: {100 * verdict.rate / ceiling:.1f} %)"
    else:
        share = ""
    return (
        f"{schedule.scenario.label} {Mode.PERFORMANCE}: {'VALID' if verdict.valid else 'INVALID'},"
        f" {value}{tokens}{share}"
    )


def format_token_figures(schedule: LoadGenSchedule, tokens: TokenFigures) -> str:
    """Format what stands beside the metric of a run that measures tokens: the rate that the metric
    is not, and tokens' latencies at the scenario's percentile.
    """
    if schedule.scenario is Scenario.SINGLE_STREAM:
        rate, unit = (tokens.tokens_per_s, TOKEN_RATE_UNIT)
    else:
        rate, unit = (tokens.answers_per_s, SAMPLE_RATE_UNIT)
    percentile = f"p{schedule.percentile:g}"
    latencies = [
        f", {name} {percentile} {found[percentile] / NS_PER_MS:.2f} ms"
        for name, found in (("TTFT", tokens.ttft_ns), ("TPOT", tokens.tpot_ns))
        if percentile in found
    ]
    return "".join([f", {rate:,.1f} {unit}" if rate else "", *latencies])
