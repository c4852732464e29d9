"""Check studies of rates: the results of a peak search and of speed-only runs, recomputed from the
LoadGen runs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import PurePosixPath
from typing import Any, Final

from compliance.documents.podium.rates import (
    AnyRateRow,
    PeakFile,
    RateRun,
    SpeedFile,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import QUERY_RECORD_FILE, RUN_RECORD, TOKEN_RECORD_FILE, is_inside_folder
from suite.loadgen.early_stopping import compute_queries_needed
from suite.loadgen.headline import (
    REQUESTED_TOKENS_KEY,
    TOKEN_BOUND_KEYS,
    select_headline_metric,
)
from suite.loadgen.percentiles import convert_to_fraction
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow
from suite.studies.rates import (
    NOT_SUBMITTABLE,
    RATE_ATTEMPT_FILE,
    RUN_PURPOSE,
    RUN_STAMP_FIELDS,
    VALID_VERDICT,
    PeakRequest,
    RateAttempt,
    SpeedRow,
    StudyStamps,
    build_peak_aim,
    build_run_observation,
    compute_peak_answer,
    count_attempt_queries,
    replay_peak_search,
    select_latency_keys,
)

RATE_FIGURE_TOLERANCE: Final = 1e-9
"""Tolerance between figures and their recomputed values: the same arithmetic on the same numbers.
"""
LOGGED_RATE_TOLERANCE: Final = 1e-5
"""Relative, for rates and shares: LoadGen logs six significant digits."""
SEARCH_DISABLED_SETTINGS: Final = (
    "performance_issue_unique",
    "performance_issue_same",
    "sample_concatenate_permutation",
    "max_duration_ms",
    "max_query_count",
)
"""LoadGen settings that change the measurement: false or 0."""
TRIAL_FOLDER_FORMAT: Final = "trial-{:02}"
MIN_DURATION_KEY: Final = "effective_min_duration_ms"
MAX_PROBE_MS: Final = 1
"""harness.serving.peak.trials: a probe is as long as its queries."""
UNPROVABLE_PERCENTILE: Final = 100.0
"""The percentile that no number of queries can prove."""


def find_labelled_scenario(label: str) -> Scenario | None:
    """Return the scenario with LoadGen's name."""
    return next((each for each in Scenario if each.label == label), None)


def is_equal_figure(stated: Any, made: Any) -> bool:
    """Return whether figures are equal."""
    if isinstance(stated, float | int) and isinstance(made, float | int):
        return math.isclose(
            stated, made, rel_tol=RATE_FIGURE_TOLERANCE, abs_tol=RATE_FIGURE_TOLERANCE
        )
    return bool(stated == made)


def check_row_folders(
    study: PeakFile | SpeedFile, rows: Sequence[SpeedRow | RateAttempt]
) -> Iterator[Fault]:
    """Yield rows without a separate run."""
    named = [row.folder for row in rows]
    for folder in sorted(
        {
            folder
            for folder in named
            if named.count(folder) > 1 or not folder or not is_inside_folder(folder)
        }
    ):
        yield study.build_fault(
            f"{named.count(folder)} rows for the run {folder!r}",
            "one folder of the study for each row",
        )


def check_unlisted_runs(
    study: PeakFile | SpeedFile, rows: Sequence[SpeedRow | RateAttempt]
) -> Iterator[Fault]:
    """Yield runs of a study that its table does not name."""
    for folder in sorted(set(study.folders) - {row.folder for row in rows}):
        yield study.build_fault(
            f"the run {folder!r} in the study's folder", "only the runs in the table"
        )


def check_run_stamps(run: RateRun, stamps: StudyStamps) -> Iterator[Fault]:
    """Yield differences between a run's record and the study."""
    for name in RUN_STAMP_FIELDS if run.record else ():
        if getattr(run.record, name) != getattr(stamps, name):
            yield run.build_fault(
                f"{name} {getattr(run.record, name)!r}",
                f"{getattr(stamps, name)!r}, as in the table",
                RUN_RECORD,
            )


@rule("peak.trials", PeakFile, About.SCORE)
def trials(study: PeakFile) -> Iterator[Fault]:
    """Each probe and run of a search is a separate LoadGen run with the rate, bound, percentile and
    length in the table, and without errors.

    Source: docs/STUDIES.md.
    Advice: run podium peak again: it measures missing runs and rewrites the table.
    """
    yield from check_row_folders(study, study.study.trials)
    names = [PurePosixPath(trial.folder).name for trial in study.study.trials]
    if names != (
        wanted := [TRIAL_FOLDER_FORMAT.format(number) for number in range(1, len(names) + 1)]
    ):
        yield study.build_fault(
            f"the runs {', '.join(names)}", f"{wanted[0]} to {wanted[-1]}, in order"
        )
    yield from check_unlisted_runs(study, study.study.trials)
    for run in study.runs:
        name = QUERY_RECORD_FILE if study.study.sought.per_token_ns is None else TOKEN_RECORD_FILE
        if list_bounded_latencies(study.study.sought, run) is None:
            yield run.build_fault(f"no {name}", f"{name}, which counts the late queries", name)
        yield from check_run_stamps(run, study.study.stamps)
        yield from check_trial_record(study, run)
        yield from check_search_settings(study, run)


def list_bounded_latencies(sought: PeakRequest, run: RateRun) -> Sequence[Any] | None:
    """Return the latencies that a search bounds, of queries or of tokens; None without a record."""
    if sought.per_token_ns is not None:
        return run.token_latencies_ns
    return None if run.latencies_ns is None else (run.latencies_ns,)


def check_trial_record(study: PeakFile, run: RateRun) -> Iterator[Fault]:
    """Yield differences between the record beside a run and the table."""
    if run.trial and run.trial.trial != run.table_row:
        yield run.build_fault("another trial", "the trial in the table", RATE_ATTEMPT_FILE)
    if run.trial and (run.trial.stamps, run.trial.sought) != (
        study.study.stamps,
        study.study.sought,
    ):
        yield run.build_fault(
            "a trial of another system or request",
            "the stamps and the request in the table",
            RATE_ATTEMPT_FILE,
        )


def check_search_settings(study: PeakFile, run: RateRun) -> Iterator[Fault]:
    """Yield LoadGen settings that are not those of the search."""
    for key, value in build_search_settings(study.study.sought, run.table_row).items():
        found = run.find_value(key)
        close = (
            isinstance(value, float)
            and isinstance(found, float | int)
            and math.isclose(found, value, rel_tol=LOGGED_RATE_TOLERANCE)
        )
        if not close and found != value:
            yield run.build_fault(f"{key} {found!r}", f"{value!r}", key=key)
    if isinstance(run.table_row, RateAttempt) and run.table_row.purpose == RUN_PURPOSE:
        least = study.study.sought
        for key, needed in (
            ("effective_min_query_count", least.min_queries),
            ("effective_min_duration_ms", least.min_duration_ms),
        ):
            if (run.find_number(key) or 0) < needed:
                yield run.build_fault(
                    f"{key} {run.find_value(key)!r}", f"at least {needed} for a full run", key=key
                )
    elif (
        isinstance(run.table_row, RateAttempt)
        and (run.find_number(MIN_DURATION_KEY) or 0) > MAX_PROBE_MS
    ):
        yield run.build_fault(
            f"{MIN_DURATION_KEY} {run.find_value(MIN_DURATION_KEY)!r} in a probe",
            f"{MAX_PROBE_MS}: the queries limit the length of a probe",
            key=MIN_DURATION_KEY,
        )


def build_search_settings(sought: PeakRequest, row: AnyRateRow) -> dict[str, Any]:
    """Return the settings that a run of a search has."""
    rate = row.rate if isinstance(row, RateAttempt) else 0.0
    wanted: dict[str, Any] = {
        "effective_scenario": sought.scenario,
        "effective_test_mode": "PerformanceOnly",
        "num_errors": 0,
    }
    wanted |= {f"effective_{name}": 0 for name in SEARCH_DISABLED_SETTINGS}
    wanted["effective_target_latency_percentile"] = convert_to_fraction(sought.percentile)
    if sought.scenario == Scenario.SERVER.label and sought.per_token_ns is not None:
        return wanted | {
            "effective_target_qps": rate,
            REQUESTED_TOKENS_KEY: True,
            TOKEN_BOUND_KEYS["first_token_ns"]: sought.bound_ns,
            TOKEN_BOUND_KEYS["per_token_ns"]: sought.per_token_ns,
        }
    if sought.scenario == Scenario.SERVER.label:
        return wanted | {
            "effective_target_qps": rate,
            "effective_target_latency_ns": sought.bound_ns,
        }
    return wanted | {"effective_samples_per_query": int(rate)}


@rule("peak.figures", PeakFile, About.SCORE)
def figures(study: PeakFile) -> Iterator[Fault]:
    """The verdict, the counts over the bound, their dispersion and the latency of each run match
    its LoadGen log and its record of queries.

    Source: docs/STUDIES.md.
    Advice: run podium peak again: it rewrites the table from the existing runs.
    """
    for run in study.runs:
        if not isinstance(run.table_row, RateAttempt):
            continue
        for name, value in recompute_trial_figures(study.study.sought, run, run.table_row).items():
            if not is_equal_figure(getattr(run.table_row, name), value):
                yield study.build_fault(
                    f"{name} {getattr(run.table_row, name)!r} of {run.table_row.folder}",
                    f"{value!r}, as in its files",
                )


def recompute_trial_figures(
    sought: PeakRequest, run: RateRun, trial: RateAttempt
) -> dict[str, Any]:
    """Recompute the figures of a run."""
    made: dict[str, Any] = {}
    server, full = sought.scenario == Scenario.SERVER.label, trial.purpose == RUN_PURPOSE
    latencies = list_bounded_latencies(sought, run)
    if latencies is not None:
        skipped = 0 if full else build_peak_aim(sought).compute_skipped_queries(trial.rate)
        made["queries"], made["over"], made["dispersion"] = count_attempt_queries(
            sought, latencies, skipped
        )
    if full and server and sought.per_token_ns is None:
        made |= {
            "queries": run.find_number("result_query_count"),
            "over": run.find_number("result_overlatency_query_count"),
        }
    key, token_key = select_latency_keys(sought)
    made["latency_ns"] = run.find_number(key)
    made["per_token_ns"] = run.find_number(token_key) if token_key else None
    within = server or (made["latency_ns"] is not None and made["latency_ns"] <= sought.bound_ns)
    made["verdict"] = (
        VALID_VERDICT
        if run.find_value("result_validity") == VALID_VERDICT and within
        else "INVALID"
    )
    return made


@rule("peak.answer", PeakFile, About.SCORE)
def answer(study: PeakFile) -> Iterator[Fault]:
    """The highest VALID rate, the lowest INVALID rate above it, and the chance to pass follow from
    the runs. Only the round's own bound gives a result.

    Source: docs/STUDIES.md.
    Advice: run podium peak again: it rewrites the table from the existing runs.
    """
    whole = study.study
    made = compute_peak_answer(whole.sought, whole.trials)
    for each in fields(made):
        stated, found = getattr(whole.answer, each.name), getattr(made, each.name)
        if not is_equal_figure(stated, found):
            yield study.build_fault(
                f"answer: {each.name} {stated!r}", f"{found!r}, as computed from the runs"
            )
    row, sought = find_searched_scenario(study), whole.sought
    if row is None:
        if sought.of_round:
            yield study.build_fault(
                "the round's bound, for a workload or profile that the round lacks", "false"
            )
        return
    server = sought.scenario == Scenario.SERVER.label
    bounds = list_round_bounds(row)
    asked = (sought.bound_ns, sought.per_token_ns)
    own = server and asked in bounds and row.percentile == sought.percentile
    if sought.of_round != own:
        known = " or ".join(f"{first} ns" for first, _ in bounds)
        yield study.build_fault(
            f"of_round {sought.of_round} for {asdict(sought)}",
            f"{own}: the row has {known} and p{row.percentile:g}",
        )
    fewest = (
        max(row.min_queries, compute_queries_needed(0 if server else 1, sought.percentile))
        if 0 < sought.percentile < UNPROVABLE_PERCENTILE
        else row.min_queries
    )
    for name, stated, found in (
        ("min_queries", sought.min_queries, fewest),
        ("min_duration_ms", sought.min_duration_ms, row.min_duration_ms),
    ):
        if stated != found:
            yield study.build_fault(
                f"{name} {stated} in a full run",
                f"{found}, as the round's row and the percentile require",
            )


def list_round_bounds(row: ScenarioRow) -> Sequence[tuple[int | None, int | None]]:
    """Return the bounds that a search may take from a row: of a query, or of first and of further
    tokens.
    """
    if row.per_token_ns is None:
        return ((row.bound_ns, None),)
    both = (row, row.interactive) if row.interactive else (row,)
    return tuple((each.first_token_ns, each.per_token_ns) for each in both)


def find_searched_scenario(study: PeakFile) -> ScenarioRow | None:
    """Return the round's row of a search's scenario; None if the round has none."""
    whole, scenario = study.study, find_labelled_scenario(study.study.sought.scenario)
    benchmark = study.round.benchmarks.get(whole.stamps.workload)
    halves = benchmark.inference.items() if benchmark and scenario else ()
    return next(
        (
            half.scenarios.get(scenario)
            for profile, half in halves
            if scenario and profile == whole.stamps.profile
        ),
        None,
    )


@rule("peak.steps", PeakFile, About.SCORE, severity=Severity.WARNING)
def steps(study: PeakFile) -> Iterator[Fault]:
    """Each run of a Server search is the next step after the runs before it, and the search ends
    when its rates are within the tolerance.

    A violation is a warning: another version of podium may have searched, or the budget ended
    first.

    Source: suite/studies/peak_search.py: the same runs always lead to the same next step.
    Advice: repeat the same podium peak command: it continues from the existing runs.
    """
    whole = study.study
    if whole.sought.scenario != Scenario.SERVER.label:
        return
    state = replay_peak_search(build_peak_aim(whole.sought), ())
    for trial in whole.trials:
        step = state.choose_next_run()
        rates = (step.rate, state.compute_promising_rate()) if step else ()
        if not any(math.isclose(trial.rate, rate, rel_tol=LOGGED_RATE_TOLERANCE) for rate in rates):
            wanted = (
                f"{' or '.join(f'{rate:.6g}' for rate in rates)} queries/s"
                if rates
                else "the end of the search"
            )
            yield study.build_fault(
                f"{trial.folder} at {trial.rate:.6g} queries/s",
                f"{wanted}, after the runs before it",
            )
            return
        state.record_run(build_run_observation(trial))
    if state.choose_next_run() is not None:
        yield study.build_fault(
            f"a search that ended before its rates were within {whole.sought.tolerance:g}",
            "another run, unless the budget was spent",
        )


@rule("speed.rows", SpeedFile, About.SCORE)
def speed(study: SpeedFile) -> Iterator[Fault]:
    """Each row of a speed-only table matches one LoadGen performance run with these weights, each
    run has a row, and the table states that it is not a result.

    Source: docs/STUDIES.md.
    Advice: run podium infer --weights again: it rewrites the table.
    """
    yield from check_row_folders(study, study.study.rows)
    yield from check_unlisted_runs(study, study.study.rows)
    if study.study.note != NOT_SUBMITTABLE:
        yield study.build_fault(f"note {study.study.note!r}", repr(NOT_SUBMITTABLE))
    for run in study.runs:
        yield from check_run_stamps(run, study.study.stamps)
        scenario = (
            find_labelled_scenario(run.table_row.scenario)
            if isinstance(run.table_row, SpeedRow)
            else None
        )
        if scenario is None or not isinstance(run.table_row, SpeedRow):
            yield study.build_fault(f"a row for {run.table_row!r}", "a LoadGen scenario")
            continue
        metric, key = select_headline_metric(scenario, bool(run.find_value(REQUESTED_TOKENS_KEY)))
        valid = (
            VALID_VERDICT
            if run.find_value("result_validity") == VALID_VERDICT
            and run.find_value("num_errors") == 0
            else "INVALID"
        )
        made = {"metric": metric, "value": run.find_number(key), "verdict": valid}
        for name, value in made.items():
            if not is_equal_figure(getattr(run.table_row, name), value):
                yield study.build_fault(
                    f"{name} {getattr(run.table_row, name)!r} of {run.table_row.folder}",
                    f"{value!r}, as in its LoadGen log",
                )
        for key, wanted in (
            ("effective_scenario", scenario.label),
            ("effective_test_mode", "PerformanceOnly"),
        ):
            if run.find_value(key) != wanted:
                yield run.build_fault(f"{key} {run.find_value(key)!r}", f"{wanted!r}", key=key)
