"""Studies of rates: what a search for a peak proves, and speed alone, recomputed from the LoadGen
runs.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import PurePosixPath
from typing import Any, Final

from compliance.documents.podium.rates import STAMPED, PeakFile, RateRun, SpeedFile
from compliance.rules import rule
from compliance.verdict import Fault, Severity
from suite.files.layout import QUERIES, RUN_RECORD, stays_inside
from suite.loadgen.early_stopping import queries_needed
from suite.loadgen.headline import METRICS
from suite.loadgen.percentiles import fraction
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow
from suite.studies.rates import (
    NOT_SUBMITTABLE,
    RUN,
    TRIAL,
    VALID,
    Sought,
    SpeedRow,
    Stamps,
    Trial,
    aim_of,
    answer_of,
    counted,
    replayed,
    seen_of,
)

RELATIVE: Final = 1e-9
"""Of figures and of what they are recomputed from: the same arithmetic on the same numbers."""
DRAWN: Final = 1e-5
"""Relative, of rates and shares: LoadGen logs six significant digits."""
OFF: Final = (
    "performance_issue_unique",
    "performance_issue_same",
    "sample_concatenate_permutation",
    "max_duration_ms",
    "max_query_count",
)
"""LoadGen's settings that change what is measured: false or 0."""
NAME: Final = "trial-{:02}"
SHORTEST: Final = "effective_min_duration_ms"
PROBE_MS: Final = 1
"""harness.serving.peak.trials: a probe is as long as its queries."""
EVERY: Final = 100.0
"""The percentile that no number of queries proves."""


def scenario_of(label: str) -> Scenario | None:
    """Return the scenario of LoadGen's name."""
    return next((each for each in Scenario if each.label == label), None)


def alike(told: Any, made: Any) -> bool:
    """Tell equal figures."""
    if isinstance(told, float | int) and isinstance(made, float | int):
        return math.isclose(told, made, rel_tol=RELATIVE, abs_tol=RELATIVE)
    return bool(told == made)


def misplaced(study: PeakFile | SpeedFile, rows: Sequence[SpeedRow | Trial]) -> Iterator[Fault]:
    """Yield rows without a run of their own."""
    named = [row.folder for row in rows]
    for folder in sorted(
        {
            folder
            for folder in named
            if named.count(folder) > 1 or not folder or not stays_inside(folder)
        }
    ):
        yield study.fault(
            f"the run {folder!r} stands behind {named.count(folder)} rows",
            "a folder of the study for each row",
        )


def left_out(study: PeakFile | SpeedFile, rows: Sequence[SpeedRow | Trial]) -> Iterator[Fault]:
    """Yield runs of a study that its table does not name."""
    for folder in sorted(set(study.folders) - {row.folder for row in rows}):
        yield study.fault(
            f"the run {folder!r} in the study's folder", "only runs that the table names"
        )


def unstamped(run: RateRun, stamps: Stamps) -> Iterator[Fault]:
    """Yield what a run's record says otherwise than the study."""
    for name in STAMPED if run.record else ():
        if getattr(run.record, name) != getattr(stamps, name):
            yield run.fault(
                f"{name} {getattr(run.record, name)!r}",
                f"{getattr(stamps, name)!r}, as the table has it",
                RUN_RECORD,
            )


@rule("peak.trials", PeakFile)
def trials(study: PeakFile) -> Iterator[Fault]:
    """Each probe and run of a search is a LoadGen run of its own, asked for the rate, bound,
    percentile and length that the table says, without errors.

    Source: docs/STUDIES.md.
    Advice: run podium peak again: it measures what is missing and writes the table anew.
    """
    yield from misplaced(study, study.study.trials)
    names = [PurePosixPath(trial.folder).name for trial in study.study.trials]
    if names != (wanted := [NAME.format(number) for number in range(1, len(names) + 1)]):
        yield study.fault(
            f"the runs {', '.join(names)}", f"{wanted[0]} to {wanted[-1]}, in their order"
        )
    yield from left_out(study, study.study.trials)
    for run in study.runs:
        if run.latencies_ns is None:
            yield run.fault(
                f"no {QUERIES}", f"{QUERIES}, in which late queries are counted", QUERIES
            )
        yield from unstamped(run, study.study.stamps)
        yield from recorded(study, run)
        yield from settings(study, run)


def recorded(study: PeakFile, run: RateRun) -> Iterator[Fault]:
    """Yield what the record beside a run says otherwise than the table."""
    if run.trial and run.trial.trial != run.told:
        yield run.fault("another trial", "the trial that the table has", TRIAL)
    if run.trial and (run.trial.stamps, run.trial.sought) != (
        study.study.stamps,
        study.study.sought,
    ):
        yield run.fault(
            "a trial of another system or request", "the stamps and the request of the table", TRIAL
        )


def settings(study: PeakFile, run: RateRun) -> Iterator[Fault]:
    """Yield settings of LoadGen that are not the search's."""
    for key, value in asked(study.study.sought, run.told).items():
        found = run.value(key)
        close = (
            isinstance(value, float)
            and isinstance(found, float | int)
            and math.isclose(found, value, rel_tol=DRAWN)
        )
        if not close and found != value:
            yield run.fault(f"{key} {found!r}", f"{value!r}", key=key)
    if isinstance(run.told, Trial) and run.told.purpose == RUN:
        least = study.study.sought
        for key, needed in (
            ("effective_min_query_count", least.min_queries),
            ("effective_min_duration_ms", least.min_duration_ms),
        ):
            if (run.number(key) or 0) < needed:
                yield run.fault(
                    f"{key} {run.value(key)!r}", f"at least {needed}: a full run", key=key
                )
    elif isinstance(run.told, Trial) and (run.number(SHORTEST) or 0) > PROBE_MS:
        yield run.fault(
            f"{SHORTEST} {run.value(SHORTEST)!r} of a probe",
            f"{PROBE_MS}: a probe is as long as its queries",
            key=SHORTEST,
        )


def asked(sought: Sought, told: SpeedRow | Trial) -> dict[str, Any]:
    """Return the settings that a run of a search has."""
    rate = told.rate if isinstance(told, Trial) else 0.0
    wanted: dict[str, Any] = {
        "effective_scenario": sought.scenario,
        "effective_test_mode": "PerformanceOnly",
        "num_errors": 0,
    }
    wanted |= {f"effective_{name}": 0 for name in OFF}
    wanted["effective_target_latency_percentile"] = fraction(sought.percentile)
    if sought.scenario == Scenario.SERVER.label:
        return wanted | {
            "effective_target_qps": rate,
            "effective_target_latency_ns": sought.bound_ns,
        }
    return wanted | {"effective_samples_per_query": int(rate)}


@rule("peak.figures", PeakFile)
def figures(study: PeakFile) -> Iterator[Fault]:
    """Verdict, counts over the bound, their dispersion and the latency of each run are what its
    LoadGen log and record of queries have.

    Source: docs/STUDIES.md.
    Advice: run podium peak again: it writes the table anew from the runs that are there.
    """
    for run in study.runs:
        if not isinstance(run.told, Trial):
            continue
        for name, value in remade(study.study.sought, run, run.told).items():
            if not alike(getattr(run.told, name), value):
                yield study.fault(
                    f"{name} {getattr(run.told, name)!r} of {run.told.folder}",
                    f"{value!r}, as its files have it",
                )


def remade(sought: Sought, run: RateRun, told: Trial) -> dict[str, Any]:
    """Recompute the figures of a run."""
    made: dict[str, Any] = {}
    server, full = sought.scenario == Scenario.SERVER.label, told.purpose == RUN
    if run.latencies_ns is not None:
        skipped = 0 if full else aim_of(sought).skipped(told.rate)
        made["queries"], made["over"], made["dispersion"] = counted(
            run.latencies_ns, sought.bound_ns, skipped
        )
    if full and server:
        made |= {
            "queries": run.number("result_query_count"),
            "over": run.number("result_overlatency_query_count"),
        }
    key = (
        f"result_{sought.percentile:.2f}_percentile_latency_ns"
        if server
        else METRICS[Scenario.MULTI_STREAM][1]
    )
    made["latency_ns"] = run.number(key)
    within = server or (made["latency_ns"] is not None and made["latency_ns"] <= sought.bound_ns)
    made["verdict"] = VALID if run.value("result_validity") == VALID and within else "INVALID"
    return made


@rule("peak.answer", PeakFile)
def answer(study: PeakFile) -> Iterator[Fault]:
    """The highest VALID rate, the lowest INVALID one above it, and the chance to pass follow from
    the runs; only the round's own bound gives a result.

    Source: docs/STUDIES.md.
    Advice: run podium peak again: it writes the table anew from the runs that are there.
    """
    whole = study.study
    made = answer_of(whole.sought, whole.trials)
    for each in fields(made):
        told, found = getattr(whole.answer, each.name), getattr(made, each.name)
        if not alike(told, found):
            yield study.fault(f"answer: {each.name} {told!r}", f"{found!r}, as the runs have it")
    row, sought = row_of(study), whole.sought
    if row is None:
        if sought.of_round:
            yield study.fault(
                "the round's bound, said of a workload or profile that the round has not", "false"
            )
        return
    server = sought.scenario == Scenario.SERVER.label
    own = server and (row.bound_ns, row.percentile) == (sought.bound_ns, sought.percentile)
    if sought.of_round != own:
        yield study.fault(
            f"of_round {sought.of_round} of {asdict(sought)}",
            f"{own}: the row has {row.bound_ns} ns and p{row.percentile:g}",
        )
    fewest = (
        max(row.min_queries, queries_needed(0 if server else 1, sought.percentile))
        if 0 < sought.percentile < EVERY
        else row.min_queries
    )
    for name, told, found in (
        ("min_queries", sought.min_queries, fewest),
        ("min_duration_ms", sought.min_duration_ms, row.min_duration_ms),
    ):
        if told != found:
            yield study.fault(
                f"{name} {told} of a full run",
                f"{found}, as the round's row and the percentile ask for",
            )


def row_of(study: PeakFile) -> ScenarioRow | None:
    """Return the round's row of a search's scenario; None if the round has none."""
    whole, scenario = study.study, scenario_of(study.study.sought.scenario)
    bench = study.round.benchmarks.get(whole.stamps.workload)
    halves = bench.inference.items() if bench and scenario else ()
    return next(
        (
            half.scenarios.get(scenario)
            for profile, half in halves
            if scenario and profile == whole.stamps.profile
        ),
        None,
    )


@rule("peak.steps", PeakFile, severity=Severity.WARNING)
def steps(study: PeakFile) -> Iterator[Fault]:
    """Each run of a Server search is the step that follows from those before it, and the search
    ends when its rates are within the tolerance.

    A warning: another version of podium may have searched, or the budget ended first.

    Source: suite/studies/peak_search.py: the same runs always give the same next step.
    Advice: run the same podium peak again: it goes on from the runs that are there.
    """
    whole = study.study
    if whole.sought.scenario != Scenario.SERVER.label:
        return
    state = replayed(aim_of(whole.sought), ())
    for trial in whole.trials:
        step = state.next()
        rates = (step.rate, state.promising()) if step else ()
        if not any(math.isclose(trial.rate, rate, rel_tol=DRAWN) for rate in rates):
            wanted = (
                f"{' or '.join(f'{rate:.6g}' for rate in rates)} queries/s"
                if rates
                else "the end of the search"
            )
            yield study.fault(
                f"{trial.folder} at {trial.rate:.6g} queries/s",
                f"{wanted}, after the runs before it",
            )
            return
        state.took(seen_of(trial))
    if state.next() is not None:
        yield study.fault(
            f"a search that ended before its rates were within {whole.sought.tolerance:g}",
            "another run, unless the budget was spent",
        )


@rule("speed.rows", SpeedFile)
def speed(study: SpeedFile) -> Iterator[Fault]:
    """Each row of speed alone is what one LoadGen performance run of these weights has, each run
    has a row, and the table says that it is no result.

    Source: docs/STUDIES.md.
    Advice: run podium infer --weights again: it writes the table anew.
    """
    yield from misplaced(study, study.study.rows)
    yield from left_out(study, study.study.rows)
    if study.study.note != NOT_SUBMITTABLE:
        yield study.fault(f"note {study.study.note!r}", repr(NOT_SUBMITTABLE))
    for run in study.runs:
        yield from unstamped(run, study.study.stamps)
        scenario = scenario_of(run.told.scenario) if isinstance(run.told, SpeedRow) else None
        if scenario is None or not isinstance(run.told, SpeedRow):
            yield study.fault(f"a row of {run.told!r}", "a scenario of LoadGen")
            continue
        metric, key = METRICS[scenario]
        valid = (
            VALID
            if run.value("result_validity") == VALID and run.value("num_errors") == 0
            else "INVALID"
        )
        made = {"metric": metric, "value": run.number(key), "verdict": valid}
        for name, value in made.items():
            if not alike(getattr(run.told, name), value):
                yield study.fault(
                    f"{name} {getattr(run.told, name)!r} of {run.told.folder}",
                    f"{value!r}, as its LoadGen log has it",
                )
        for key, wanted in (
            ("effective_scenario", scenario.label),
            ("effective_test_mode", "PerformanceOnly"),
        ):
            if run.value(key) != wanted:
                yield run.fault(f"{key} {run.value(key)!r}", f"{wanted!r}", key=key)
