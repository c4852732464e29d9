"""Check studies of every kind: which runs they have, whether these follow their plan, and whether
their figures and their answer can be computed.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from compliance.kinds.podium.documents.measured_study import (
    AnyKind,
    JudgedStudy,
    StudyRun,
)
from compliance.kinds.podium.rules.inference.accuracy import (
    check_stated_hashes,
    compare_stated_scores,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import RUN_RECORD, is_inside_folder
from suite.records import ServedRun, SystemUnderTest
from suite.studies.kind import STUDY_FIELD_KEYS, PlannedRun
from suite.studies.measured import FIGURE_EXCEPTIONS
from suite.studies.points import iterate_walks
from suite.studies.run_facts import ACCURACY_MODE, RunFacts
from suite.studies.subject import build_study_subject
from suite.units import NS_PER_S
from suite.workload import Mode

LOGGED_TOLERANCE: Final = 1e-5
"""Relative, for rates and shares: LoadGen logs six significant digits."""
CHANGING_SETTINGS: Final = (
    "performance_issue_unique",
    "performance_issue_same",
    "sample_concatenate_permutation",
    "max_duration_ms",
    "max_query_count",
)
"""LoadGen settings that change the measurement: false or 0, unless the round asks for them."""
OWN_SYSTEM_FIELDS: Final = ("engine", "precision", "framework", "name", "served")
PERCENTILE_FIELD: Final = "percentile"
LOGGED_MODES: Final = {Mode.PERFORMANCE: "PerformanceOnly", Mode.ACCURACY: ACCURACY_MODE}
SETTING_KEYS: Final = {
    "server.target_qps": "effective_target_qps",
    "loadgen.min_duration_ms": "effective_min_duration_ms",
    "loadgen.min_queries": "effective_min_query_count",
}
"""Setting of a point -> LoadGen's key of it in the detail log."""


@rule(
    "study.points",
    JudgedStudy,
    About.SCORE,
    former="curve.points peak.trials speed.rows sweep.points",
)
def points(study: JudgedStudy) -> Iterator[Fault]:
    """Each run of a study is a separate, counting LoadGen run of one system, with the settings of
    its point, and the study lists each run in its folder. No run takes less time than its queries.

    Source: docs/reference/studies.md; suite/studies/kind.py.
    Advice: repeat the same command: it measures missing points, and moves aside what belongs to
    another system.
    """
    record = study.record
    if study.kind is None or study.unread:
        yield study.build_fault(
            f"kind {record.kind!r}: {study.unread}", "a kind of study that is installed"
        )
        return
    for place, count in Counter(record.runs).items():
        if count > 1 or not is_inside_folder(place):
            yield study.build_fault(f"{count} points for the run {place!r}", "a run for each")
    for place in sorted(set(study.folders) - set(record.runs)):
        yield study.build_fault(f"the run {place!r} in the study's folder", "only runs it names")
    numbers = [run.record.number for run in study.runs if run.record]
    counted = list(range(1, len(numbers) + 1)) if study.kind.is_ordered else sorted(set(numbers))
    if numbers != counted or min(numbers, default=1) < 1:
        wanted = "all numbers from 1, in order" if study.kind.is_ordered else "rising numbers"
        yield study.build_fault(f"runs with the numbers {', '.join(map(str, numbers))}", wanted)
    if record.machine.processors is not None and record.machine.processors < 1:
        yield study.build_fault(f"{record.machine.processors} processors", "1 or more")
    for run in study.runs:
        yield from check_study_run(study, study.kind, run)
    yield from check_failed_points(study, study.kind)


def check_failed_points(study: JudgedStudy, kind: AnyKind) -> Iterator[Fault]:
    """Yield points that are said to be impossible to measure, and have a run, no reason, or no
    place in a study of this kind.
    """
    if len(study.failed) != len(study.record.failed):
        yield study.build_fault(
            f"{len(study.record.failed)} points that could not be measured",
            f"points of a {study.record.kind} that says why",
        )
    for point in study.failed:
        same = [each for each in study.points if kind.is_same_point(each.point, point.point)]
        if len(same) > 1 or not point.why:
            yield study.build_fault(
                f"no reason {point.why!r} for {point.point}", "a run, or a reason for its absence"
            )


def check_study_run(study: JudgedStudy, kind: AnyKind, run: StudyRun) -> Iterator[Fault]:
    """Yield what a run has against its point and the study."""
    if run.record is None:
        return
    if run.point is None or run.planned is None:
        yield run.build_fault("another point", f"a point of a {kind.name}")
        return
    if run.facts is None:
        return
    suffix = f"-run-{run.record.repeat}" if run.record.repeat > 1 else ""
    wanted = f"{run.facts.record.system.name}/{kind.name_point(run.point)}{suffix}"
    if run.place != wanted:
        yield run.build_fault(f"the point of {wanted}", f"the point of {run.place}")
    lasted_s = measure_answering_s(run.facts)
    is_taken = kind.takes_results and run.record.seconds == 0
    if run.record.seconds < lasted_s and not is_taken:
        yield run.build_fault(
            f"a run of {run.record.seconds:g} s", f"at least {lasted_s:.2f} s, as its queries took"
        )
    yield from check_run_settings(study, kind, run, run.planned)
    yield from check_planned_log(run, run.planned)
    if not run.is_complete and not kind.follows_advice:
        told = run.facts.errors[0] if run.facts.errors else run.facts.values.get("result_validity")
        yield run.build_fault(f"a run that does not count: {told}", "a run that counts")


def measure_answering_s(facts: RunFacts) -> float:
    """Return the seconds from the first query of a run to the last answer; 0 without their
    record.
    """
    queries = facts.queries
    if queries is None or not len(queries):
        return 0.0
    return (int(queries.done_ns.max()) - int(queries.issued_ns.min())) / NS_PER_S


def check_run_settings(
    study: JudgedStudy, kind: AnyKind, run: StudyRun, planned: PlannedRun
) -> Iterator[Fault]:
    """Yield what the record of a run has against the others: system, servers and settings."""
    record, system = run.run.record, study.system
    first = find_first_record(study, planned)
    if record is None or system is None or first is None:
        return
    found, wanted = describe_run_subjects(study, kind, record.system, planned)
    if planned.side:
        found, wanted = (
            asdict(build_study_subject(each, study.record.origin))
            for each in (record.system, first.system)
        )
        wanted["system"] = planned.name_system("")
    elif planned.has_own_system:
        found |= select_own_fields(record.system)
        wanted |= select_own_fields(first.system)
        wanted["name"] = planned.name_system(wanted["system"])
        found["has_network"] = record.network is not None
        wanted["has_network"] = bool(planned.server)
        stated = {"engine": planned.engine, "precision": planned.precision}
        wanted |= {name: value for name, value in stated.items() if value}
    found["system_sha256"] = record.system_sha256
    wanted["system_sha256"] = record.system.compute_digest()
    for name in ("endpoints", "tokenizer"):
        found[name] = getattr(record.network, name) if record.network else None
        wanted[name] = getattr(first.network, name) if first.network else None
    if planned.server:
        found["endpoints"], wanted["endpoints"] = compare_server_addresses(record, planned)
    for name, value in planned.settings.items():
        found[name], wanted[name] = record.settings.get(name), value
    for name, value in wanted.items():
        if not is_close(found[name], value):
            yield run.build_fault(
                f"{name} {found[name]!r}", f"{value!r}, as in the study", file=RUN_RECORD
            )


def describe_run_subjects(
    study: JudgedStudy, kind: AnyKind, system: SystemUnderTest, planned: PlannedRun
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a run has in common with its study, and what it should have: device and threads
    are those of all systems in LoadGen's process, and a server's are its own.
    """
    origin, first = study.record.origin, study.system or system
    if not kind.has_several_systems:
        alone = (asdict(build_study_subject(each, origin)) for each in (system, first))
        return next(alone), next(alone)
    subject = build_study_subject(system, origin, planned.own_name)
    pairs = [
        (each.planned, each.run.record.system)
        for each in study.runs
        if each.planned is not None and each.run.record is not None
    ]
    common = [build_study_subject(each, origin, one.own_name) for one, each in pairs]
    here = (one for one, (made, _) in zip(common, pairs, strict=True) if not made.server)
    wanted = common[0].copy_without_process()
    local = next(here, None)
    if not planned.server and local is not None:
        wanted = replace(wanted, device=local.device, threads=local.threads)
    return asdict(subject), asdict(wanted)


def compare_server_addresses(record: ServedRun, planned: PlannedRun) -> tuple[Any, Any]:
    """Return the endpoints of a server's run, and those that its point asks for: its address; of a
    server that podium started, whose port may change, that it is on LoadGen's machine.
    """
    network = record.network
    if planned.is_address:
        return network and network.endpoints, (planned.server,)
    return network and network.loopback, True


def select_own_fields(system: SystemUnderTest) -> dict[str, Any]:
    """Return what each system of a study of several has of its own."""
    return {name: getattr(system, name) for name in OWN_SYSTEM_FIELDS}


def find_first_record(study: JudgedStudy, planned: PlannedRun) -> ServedRun | None:
    """Return the record of the first run of the same system; None if none has one."""
    return next(
        (
            each.run.record
            for each in study.runs
            if each.run.record and each.planned and each.planned.own_name == planned.own_name
        ),
        None,
    )


def check_planned_log(run: StudyRun, planned: PlannedRun) -> Iterator[Fault]:
    """Yield settings that LoadGen logged and that are not those of the point."""
    for key, value in list_logged_settings(planned).items():
        found = run.run.find_value(key)
        if not is_close(found, value):
            yield run.run.build_fault(f"{key} {found!r}", f"{value!r}, by {run.path.name}", key)


def list_logged_settings(planned: PlannedRun) -> Mapping[str, Any]:
    """Return LoadGen's keys of what the point decides, with their values."""
    wanted: dict[str, Any] = {
        "effective_scenario": planned.scenario.label,
        "effective_test_mode": LOGGED_MODES[planned.mode],
    }
    if not planned.keeps_round:  # else the rules about runs know what the round asks for
        wanted |= {f"effective_{name}": 0 for name in CHANGING_SETTINGS}
    wanted |= {
        key: planned.settings[name]
        for name, key in SETTING_KEYS.items()
        if name in planned.settings
    }
    for name, value in planned.fields.items():
        if value is not None:
            share = name == PERCENTILE_FIELD
            wanted[STUDY_FIELD_KEYS[name]] = value / 100 if share else value
    return wanted


def is_close(found: Any, value: Any) -> bool:
    """Return whether a value is the same, as far as LoadGen logs digits."""
    if isinstance(found, float | int) and isinstance(value, float):
        return math.isclose(found, value, rel_tol=LOGGED_TOLERANCE)
    return bool(found == value)


@rule("study.plan", JudgedStudy, About.SCORE, former="peak.steps study.request study.length")
def plan(study: JudgedStudy) -> Iterator[Fault]:
    """The points of a study are the points that its plan gives for its request, each measured
    equally often. The request is the round's if the study claims so. An unfinished study is a
    warning. So is a search whose points follow from one another and do not follow its plan, since
    another machine may round differently.

    Source: suite/studies/kind.py: the same points always lead to the same next one.
    Advice: repeat the same command: it continues from the runs that are there.
    """
    kind = study.kind
    if kind is None or study.unread:
        return  # study.points finds it
    try:
        yield from check_walks(study, kind)
        for request, _ in study.requests:
            for found, required in kind.find_request_faults(request, study.conditions):
                yield study.build_fault(found, required)
    except FIGURE_EXCEPTIONS as error:
        yield study.build_fault(
            f"what no {kind.name} can ask for: {type(error).__name__}", "a request that can be"
        )


def check_walks(study: JudgedStudy, kind: AnyKind) -> Iterator[Fault]:
    """Yield points that no plan gives, and plans that are not finished."""
    measured = study.points
    walks = list(iterate_walks(kind, study.requests, measured))
    planned = [each for walk in walks for each in (*walk.done, *filter(None, (walk.begun,)))]
    severity = Severity.WARNING if kind.is_ordered and not kind.is_exact else None
    for point in measured:
        if not any(point is each for each in planned):
            yield study.build_fault(
                f"the point {kind.name_point(point.point)}",
                "only points that follow from what was asked",
                severity=severity,
            )
    most = max((repeats for _, repeats in study.requests), default=1)
    for point in measured:
        if len(point.runs) > most:
            yield study.build_fault(
                f"{len(point.runs)} runs of {kind.name_point(point.point)}", f"at most {most}"
            )
    for walk in walks:
        if walk.step is not None:
            yield study.build_fault(
                f"an unfinished study: {kind.name_point(walk.step.point)} is not measured",
                "all points",
                severity=Severity.WARNING,
            )
            return


@rule(
    "study.answer",
    JudgedStudy,
    About.SCORE,
    former="peak.figures peak.answer study.figures study.summary study.accuracy",
)
def answer(study: JudgedStudy) -> Iterator[Fault]:
    """The files of each run give its figures, and the points the study's answer. Neither is stored:
    whoever reads a study computes them, as this rule does.

    Source: suite/studies/kind.py.
    Advice: keep the records of a run together; repeat the command if one is lost.
    """
    kind = study.kind
    if kind is None or study.unread:
        return
    for run in study.runs:
        if run.figures is None and run.planned is not None and run.facts is not None:
            yield run.build_fault("files that give no figures", "the records of the run")
    try:
        kind.compute_answer([each for each, _ in study.requests], study.points)
    except FIGURE_EXCEPTIONS as error:
        yield study.build_fault(f"no answer: {type(error).__name__}", "points that give one")


@rule("study.scores", JudgedStudy, About.QUALITY, former="precision.rows")
def scores(study: JudgedStudy) -> Iterator[Fault]:
    """The answers of each accuracy run of a study can be scored with its ground truth, and
    accuracy.txt beside them has these scores and the hash of the answers.

    Source: house rule, as for results: answers and ground truth are kept, so that anybody can score
    them.
    Advice: keep the files of a run together, and truth/ as it is; repeat the command if one is
    lost.
    """
    for each in study.runs:
        if each.run.mode is not Mode.ACCURACY or each.facts is None:
            continue
        if each.facts.scores is None:
            yield each.build_fault("answers that cannot be scored", "answers, and ground truth")
        else:
            yield from compare_stated_scores(each.run, each.accuracy_text, each.facts.scores)
        yield from check_stated_hashes(each.run, each.accuracy_text)
