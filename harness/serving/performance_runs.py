"""Performance runs of a scenario: a run, its verdict, and repeats of an INVALID one with advised
settings.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import click

from harness.progress import WaitProgress
from harness.serving.adoption import adopt_searched_run
from harness.serving.attempts import record_attempt
from harness.serving.energy import (
    MeasuredEnergy,
    compute_loadgen_energy,
    describe_measured_energy,
)
from harness.serving.harness_ceiling import resolve_harness_ceiling
from harness.serving.loadgen.probe import ProbeResult
from harness.serving.loadgen.session import LoadGenJob, run_loadgen_in_child
from harness.serving.loadgen.test_settings import (
    LoadGenSchedule,
    ProbedSpeed,
    build_loadgen_schedule,
    estimate_minimum_s,
)
from harness.serving.run_record import (
    LoadGenVerdict,
    describe_cached_prompts,
    describe_server_counts,
    describe_unstreamed_answers,
    format_run_verdict,
    judge_performance_run,
    write_run_record,
)
from harness.serving.setup import (
    ServingSetup,
)
from suite.files.cache import locate_cache_folder
from suite.files.superseded import move_to_superseded
from suite.ledger.steps import AttemptKind
from suite.loadgen.advice import (
    EARLY_STOPPING_RULE,
    LATENCY_BOUND_RULE,
    SERVER_RATE_SETTING,
    Hint,
    format_without_exponent,
    round_to_significant,
)
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.headline import VALID_RUN
from suite.loadgen.loadgen_errors import format_repeated_errors
from suite.loadgen.scenario import Scenario
from suite.rounds import HyperValue, ScenarioRow
from suite.workload import Mode

SHORT_RUN_REMARK: Final = "shorter than the round requires: this run does not count"
ABOVE_CEILING_REMARK: Final = (
    "above a fifth of the harness ceiling: the measurement includes the harness"
)
MAX_INVALID_RETRIES: Final = 4
"""House rule: a probe may be optimistic, and a shared machine slow for a while; after five failures
the user decides.
"""


def build_mode_schedule(
    serving_setup: ServingSetup,
    scenario: Scenario,
    mode: Mode,
    probe_result: ProbeResult,
    changed: Mapping[str, HyperValue],
) -> LoadGenSchedule:
    """Build the schedule of one LoadGen run."""
    request = serving_setup.request
    return build_loadgen_schedule(
        request.round,
        serving_setup.require_scenario_rules(scenario),
        scenario,
        mode,
        {**request.settings, **changed},
        probe_result.probe,
        serving_setup.log_seed,
    )


def measure_performance(
    serving_setup: ServingSetup, scenario: Scenario, number: int, probe_result: ProbeResult
) -> list[str]:
    """Run a performance run and return what is wrong with it; repeat an INVALID one a few times
    with the advised settings, except settings that the user chose.

    A run that is void only because of the machine is repeated unchanged. The best run of a search
    stands for the first.
    """
    changed: dict[str, float] = {}
    if serving_setup.searched_run and scenario is Scenario.SERVER:
        changed = {SERVER_RATE_SETTING: serving_setup.searched_run.rate}
        if number == 1:
            adopt_searched_run(
                serving_setup,
                serving_setup.searched_run,
                build_mode_schedule(
                    serving_setup, scenario, Mode.PERFORMANCE, probe_result, changed
                ),
            )
            return []
    verdict = run_performance_once(
        serving_setup,
        build_mode_schedule(serving_setup, scenario, Mode.PERFORMANCE, probe_result, changed),
        number,
        probe_result.probe,
    )
    for _ in range(MAX_INVALID_RETRIES):
        advice = select_advised_settings(serving_setup, verdict.hints)
        if verdict.valid or not (advice or verdict.is_repeatable):
            break
        changed |= lower_missed_rate(advice, changed, verdict.hints)
        print_repeated_settings(scenario, changed)
        move_to_superseded(
            [
                serving_setup.entry.locate_performance_run(
                    serving_setup.request.row.inference_name, scenario, number
                )
            ],
            results=serving_setup.request.options.results.absolute(),
            relative_to=serving_setup.entry.results,
        )
        serving_setup.ledger.settle()
        verdict = run_performance_once(
            serving_setup,
            build_mode_schedule(serving_setup, scenario, Mode.PERFORMANCE, probe_result, changed),
            number,
            probe_result.probe,
        )
    if verdict.valid:
        return []
    reason = "".join(
        f"; LoadGen: {error}" for error in format_repeated_errors(verdict.errors).values()
    )
    reason += describe_last_hints(verdict.hints, changed)
    return [f"{scenario.label} performance run {number} is INVALID{reason}"]


def print_repeated_settings(scenario: Scenario, changed: Mapping[str, float]) -> None:
    """Say that an INVALID run is made again, and with which settings."""
    settings = ", ".join(
        f"{key}={format_without_exponent(value)}" for key, value in changed.items()
    )
    click.echo(f"{scenario.label} performance: repeating with {settings or 'the same settings'}")


def describe_last_hints(hints: Sequence[Hint], changed: Mapping[str, float]) -> str:
    """Say which of LoadGen's rules the last run did not meet; where lower rates missed a bound as
    well, that fewer queries may not help.
    """
    unmet = "".join(f"; {hint.rule}: {hint.found}" for hint in hints)
    if SERVER_RATE_SETTING not in changed or not has_missed_bound(hints):
        return unmet
    return (
        f"{unmet}; it was missed at every rate down to"
        f" {format_without_exponent(changed[SERVER_RATE_SETTING])} queries/s, so that fewer queries"
        " a second may not help: end other programs on these cores, or serve with a faster --engine"
        " or --precision"
    )


def has_missed_bound(hints: Sequence[Hint]) -> bool:
    """Return whether a Server run missed a bound of its latencies."""
    return any(
        hint.knob == SERVER_RATE_SETTING and hint.rule in (LATENCY_BOUND_RULE, EARLY_STOPPING_RULE)
        for hint in hints
    )


def lower_missed_rate(
    advice: Mapping[str, float], changed: Mapping[str, float], hints: Sequence[Hint]
) -> dict[str, float]:
    """Halve a rate that was already lowered and still missed: on a busy machine, one run predicts
    little about the next.
    """
    if not (
        has_missed_bound(hints) and SERVER_RATE_SETTING in advice and SERVER_RATE_SETTING in changed
    ):
        return dict(advice)
    return {
        **advice,
        SERVER_RATE_SETTING: min(
            advice[SERVER_RATE_SETTING], round_to_significant(changed[SERVER_RATE_SETTING] / 2)
        ),
    }


def is_below_round_minimum(schedule: LoadGenSchedule, row: ScenarioRow) -> bool:
    """Check whether the user's settings require less of LoadGen than the round does."""
    return schedule.min_duration_ms < row.min_duration_ms or schedule.min_queries < row.min_queries


def select_advised_settings(serving_setup: ServingSetup, hints: Sequence[Hint]) -> dict[str, float]:
    """Return the settings that the hints name, except the user's own; the most pressing hint
    wins.
    """
    return {
        hint.knob: hint.value
        for hint in reversed(hints)
        if hint.value is not None and hint.knob not in serving_setup.request.chosen
    }


def run_performance_once(
    serving_setup: ServingSetup, schedule: LoadGenSchedule, number: int, probe: ProbedSpeed
) -> LoadGenVerdict:
    """Run one performance run, report its verdict, and keep it."""
    name = serving_setup.request.row.inference_name
    run_folder, idle_s = (
        serving_setup.entry.locate_performance_run(name, schedule.scenario, number),
        serving_setup.get_idle_reading_s(schedule.scenario, number),
    )
    job = LoadGenJob(
        system=serving_setup.system,
        schedule=schedule,
        folder=run_folder,
        power=serving_setup.power,
        idle_s=idle_s,
    )
    ceiling = resolve_harness_ceiling(
        locate_cache_folder(),
        schedule.scenario,
        instances=len(serving_setup.system.placement),
        tokens=schedule.token_latencies,
    )
    title, what = f"{schedule.scenario.label} performance", AttemptKind.PERFORMANCE
    with (
        WaitProgress(title, idle_s + estimate_minimum_s(schedule, probe)) as shown,
        record_attempt(serving_setup, what, job.folder) as ledger_attempt,
        run_loadgen_in_child(job, shown.show_elapsed) as (folder, outcome),
    ):
        detail_log = read_detail_log(folder)
        verdict = judge_performance_run(serving_setup, schedule, detail_log)
        measured = compute_loadgen_energy(
            folder,
            schedule.scenario,
            detail_log,
            outcome.lost * serving_setup.power.requested,
            idle=idle_s > 0,
        )
        if ceiling is not None and verdict.valid and verdict.rate > ceiling:
            ceiling = resolve_harness_ceiling(
                locate_cache_folder(),
                schedule.scenario,
                reached_rate=verdict.rate,
                instances=len(serving_setup.system.placement),
                tokens=schedule.token_latencies,
            )
        above = (
            ceiling is not None
            and verdict.rate > serving_setup.request.round.loadgen.ceiling_share * ceiling
        )
        word = VALID_RUN if verdict.valid else "INVALID"
        write_run_record(
            serving_setup, schedule, outcome, folder, ceiling=ceiling, measured=measured
        )
        ledger_attempt.record_completion(folder, word)
    click.echo(format_run_verdict(schedule, verdict, ceiling))
    answers = (
        describe_unstreamed_answers(outcome),
        describe_cached_prompts(outcome),
        describe_server_counts(outcome),
    )
    remarks = list(filter(None, (*outcome.lost, *answers)))
    if above and verdict.valid:
        remarks.insert(0, ABOVE_CEILING_REMARK)
    if is_below_round_minimum(schedule, serving_setup.require_scenario_rules(schedule.scenario)):
        remarks.insert(0, SHORT_RUN_REMARK)
    print_performance_remarks(verdict, measured, remarks)
    return verdict


def print_performance_remarks(
    verdict: LoadGenVerdict, measured: MeasuredEnergy, remarks: Sequence[str]
) -> None:
    """Print what a performance run measured besides its figure, and why it may not count."""
    for sentence in (
        *describe_measured_energy(measured),
        *remarks,
        *(f"LoadGen: {error}" for error in format_repeated_errors(verdict.errors).values()),
        *(hint.sentence for hint in verdict.hints),
    ):
        click.echo(f"  {sentence}")
