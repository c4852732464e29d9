"""Says first how much a study has to measure, and about how long that takes."""

from collections.abc import Iterator
from typing import Any, Final

from harness.progress import format_rough_duration
from harness.serving.studies.resume import StudyProgress
from harness.serving.studies.runs import StudySession
from suite.units import MS_PER_S
from suite.workload import Mode

DURATION_SETTING: Final = "loadgen.min_duration_ms"
PREPARATION_S: Final = 5.0
"""Roughly what a run takes besides its least duration: the start of processes, a share of the
probe, the answers of a small accuracy set on two cores.
"""


def describe_remaining_work(progress: StudyProgress) -> str:
    """Say how many systems or points a study has and about how long they take; empty if its plan
    does not know all points.
    """
    missing: dict[str, float] = {}
    for subject, left_s in iterate_missing_work(progress):
        missing[subject] = missing.get(subject, 0.0) + left_s
    if not missing:
        return ""
    unit = progress.session.kind.plan_unit
    told = f"{len(missing)} {unit}{'s' * (len(missing) != 1)}"
    done = sum(not left_s for left_s in missing.values())
    if done == len(missing):
        return f"{told}, nothing left to measure"
    known = f", {done} of them measured already" if done else ""
    return f"{told}{known}, about {format_rough_duration(sum(missing.values()))}"


def describe_kept_points(progress: StudyProgress) -> str:
    """Say which systems or points of earlier commands stay that this one does not ask for; empty if
    there are none, or the plan does not know all points.
    """
    session, kind = progress.session, progress.session.kind
    asked = kind.list_all_points(session.request)
    others = [each.point for each in progress.points if each.point not in asked]
    if not asked or not others:
        return ""
    names = dict.fromkeys(map(kind.name_plan_part, others))
    return f"kept from an earlier command: {', '.join(names)}"


def iterate_missing_work(progress: StudyProgress) -> Iterator[tuple[str, float]]:
    """Yield the system or the point of each point, and roughly how long its missing runs take at
    least, s.
    """
    session, kind = progress.session, progress.session.kind
    for point in kind.list_all_points(session.request):
        found = (each for each in progress.points if kind.is_same_point(each.point, point))
        runs = sum(len(each.runs) for each in found)
        left = max(kind.limit_repeats(point, progress.repeats) - runs, 0)
        yield kind.name_plan_part(point), left * estimate_least_s(session, point)


def estimate_least_s(session: StudySession, point: Any) -> float:
    """Return roughly how long a run of a point takes at least, s."""
    asked_s = session.kind.estimate_least_s(point)
    if asked_s is not None:
        return PREPARATION_S + asked_s
    planned = session.kind.describe_run(session.request, point)
    if planned.mode is Mode.ACCURACY:
        return PREPARATION_S
    system = session.system
    least_ms = system.require_scenario_rules(planned.scenario).min_duration_ms
    settings = {DURATION_SETTING: least_ms, **system.settings, **planned.settings}
    return PREPARATION_S + float(str(settings[DURATION_SETTING])) / MS_PER_S
