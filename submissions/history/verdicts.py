"""What a history says: where the level of a series changed, and which changes are open."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Final

from compliance.verdict import Acceptance, Finding, Severity
from compliance.waivers import Waiver, accept_finding
from submissions.compare.fitness import find_allowed_differences
from submissions.history.commits import (
    CommitRange,
    find_commit_hash,
    list_commits_between,
    shorten_commit,
)
from submissions.history.reading import restore_result
from submissions.history.series import NoiseFloor, Series, SeriesPoint
from suite.errors import RequestError
from suite.files.untrusted_files import replace_unprintable
from suite.history.book import NumberedLine
from suite.history.changes import MIN_AFTER, MIN_BEFORE, Change, find_changes
from suite.human_numbers import format_share_as_percent

REGRESSION_RULE: Final = "history.regression"
"""Rule of the waivers that accept a change."""
REGRESSION_SOURCE: Final = "house rule"
DEFAULT_DIFFERENCE: Final = "5%"
"""House rule: what the noise of two cores lets through within a few commits."""
MIN_TESTED_COMMITS: Final = MIN_BEFORE + MIN_AFTER
"""Fewer have no level before a change and none behind it."""

NEAR_COMMITS: Final = 5
"""House rule: a step of 5 % is found within 5 commits, so its place is as near."""


class Standing(StrEnum):
    """What a change means."""

    REGRESSED = "regressed"
    """Slower by the bound or more to this day, alone or with smaller ones behind it, and nobody
    accepts it.
    """
    ACCEPTED = "accepted"
    RECOVERED = "recovered"
    """Slower, but the series is as fast as before again."""
    SMALL = "below the bound"
    """Slower by less than the bound."""
    FASTER = "faster"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesChange:
    """A change of a series' level."""

    change: Change
    before: SeriesPoint
    """The last commit of the level before."""
    first: SeriesPoint
    """The first commit of the new level."""
    standing: Standing
    place: str
    """How a waiver names it, below the history's path."""
    earlier_place: str
    """How one may have named it when fewer results were known."""
    accepted: Acceptance | None = None
    commits: CommitRange | None = None
    """From the last one before to the first one behind; None if git does not know them."""
    also: tuple[str, ...] = ()
    """What else differs between both, as `podium compare` tells it."""

    @property
    def line(self) -> int:
        """Return the line of the first result behind the change."""
        return self.first.lines[0].number


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSeries:
    """A series with its changes."""

    series: Series
    noise: NoiseFloor | None
    changes: tuple[SeriesChange, ...] = ()
    untested: str = ""
    """Why no change is looked for; empty if it was."""

    @property
    def open_changes(self) -> tuple[SeriesChange, ...]:
        """Return the changes that nobody accepts."""
        return tuple(each for each in self.changes if each.standing is Standing.REGRESSED)

    @property
    def standing(self) -> str:
        """Return what is to be said of it in a word."""
        standings = [each.standing for each in self.changes]
        for worst in (Standing.REGRESSED, Standing.ACCEPTED, Standing.FASTER):
            if worst in standings:
                return worst.value
        return "not tested" if self.untested else "steady"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """How a history is checked."""

    path: Path
    difference: float
    """The bound, as a share."""
    baseline: str | None = None
    waivers: tuple[Waiver, ...] = ()


def check_series(found: Sequence[Series], settings: CheckSettings) -> list[CheckedSeries]:
    """Look for changes in each series; RequestError for a baseline that no line is of."""
    since = find_baseline_time(found, settings.baseline)
    return [check_one_series(select_points_since(each, since), settings) for each in found]


def find_baseline_time(found: Sequence[Series], baseline: str | None) -> str:
    """Return the time of the commit that a name, the beginning of a hash, or git means;
    RequestError if no line, or lines of several commits, have it.
    """
    if baseline is None:
        return ""
    times = {point.commit: point.committed for each in found for point in each.points}
    known = [commit for commit in times if baseline and commit.startswith(baseline)]
    if baseline in times:
        return times[baseline]
    if len(known) > 1:
        told = "several commits begin with it"
        raise RequestError(f"--baseline {replace_unprintable(baseline)}: {told}")
    commit = known[0] if known else find_commit_hash(baseline)
    if commit not in times:
        told = "the history has no result of this commit"
        raise RequestError(f"--baseline {replace_unprintable(baseline)}: {told}")
    return times[commit]


def select_points_since(series: Series, since: str) -> Series:
    """Return a series from a time on."""
    points = tuple(each for each in series.points if each.committed >= since)
    return replace(series, points=points)


def check_one_series(series: Series, settings: CheckSettings) -> CheckedSeries:
    """Look for changes in a series."""
    noise = series.noise
    untested = series.untested
    if not untested and len(series.points) < MIN_TESTED_COMMITS:
        untested = f"a change takes {MIN_TESTED_COMMITS} commits or more"
    if untested:
        return CheckedSeries(series=series, noise=noise, untested=untested)
    values = [each.value for each in series.points]
    changes = merge_changes(find_changes(values, noise.share if noise else None))
    described = tuple(iterate_series_changes(series, changes, settings))
    return CheckedSeries(series=series, noise=noise, changes=described)


def merge_changes(found: Sequence[Change]) -> list[Change]:
    """Merge a change with the next one of the same direction if the next level begins before the
    commit that showed it: both were shown by one step.
    """
    merged: list[Change] = []
    for each in found:
        last = merged[-1] if merged else None
        if last and each.index <= last.found_at and (each.ratio < 1) == (last.ratio < 1):
            merged[-1] = replace(each, before=last.before, ratio=each.after / last.before)
        else:
            merged.append(each)
    return merged


def locate_changes(values: Sequence[float], found: Sequence[Change]) -> list[int]:
    """Return the first commit of each new level, by all results of both levels: when a change was
    found, few were known of the new one. It is at most NEAR_COMMITS from where it was found.
    """
    logs = [math.log(each) for each in values]
    ends = [0, *(each.index for each in found), len(values)]
    places = []
    for number, each in enumerate(found):
        low, high = ends[number], ends[number + 2]
        near = range(
            max(low + 1, each.index - NEAR_COMMITS), min(high, each.found_at + NEAR_COMMITS)
        )
        squares = {at: sum_squares(logs[low:at]) + sum_squares(logs[at:high]) for at in near}
        places.append(min(near, key=squares.__getitem__))
    return places


def sum_squares(values: Sequence[float]) -> float:
    """Return the sum of squared deviations from the mean."""
    mean = fmean(values)
    return sum((each - mean) ** 2 for each in values)


def iterate_series_changes(
    series: Series, changes: Sequence[Change], settings: CheckSettings
) -> Iterator[SeriesChange]:
    """Yield the changes of a series with what they mean today."""
    values = [each.value for each in series.points]
    standings = choose_standings(
        [compute_loss(series, each.before, each.after) for each in changes],
        math.log1p(settings.difference),
    )
    places = locate_changes(values, changes)
    for change, index, standing in zip(changes, places, standings, strict=True):
        before, first = series.points[index - 1], series.points[index]
        found = SeriesChange(
            change=change,
            before=before,
            first=first,
            standing=standing,
            place=name_change(series, first),
            earlier_place=name_change(series, series.points[change.index]),
            commits=list_commits_between(before.commit, first.commit),
            also=tuple(find_also_changed(before.lines[-1], first.lines[0])),
        )
        yield accept_change(found, settings)


def name_change(series: Series, first: SeriesPoint) -> str:
    """Name a change by its series and the first commit behind it."""
    return str(series.place / shorten_commit(first.commit).replace("/", "-"))


def choose_standings(losses: Sequence[float], least: float) -> list[Standing]:
    """Say what each change means today. Small losses count together from the first of them on; a
    loss that is large by itself counts for itself alone.

    Args:
        losses: of the changes in order, as logarithms; a gain is negative.
        least: loss from which a change is a regression.
    """
    left = find_losses_left(losses)
    crept = 0.0
    standings = []
    for own, remaining in zip(reversed(losses), reversed(left), strict=True):
        if remaining < least:
            crept += remaining
        if own <= 0:
            standings.append(Standing.FASTER)
        elif remaining >= least or (remaining > 0 and crept >= least):
            standings.append(Standing.REGRESSED)
        elif own >= least:
            standings.append(Standing.RECOVERED)
        else:
            standings.append(Standing.SMALL)
    return standings[::-1]


def find_losses_left(losses: Sequence[float]) -> list[float]:
    """Return what is left of each loss: a gain takes back the latest ones first."""
    left = [0.0] * len(losses)
    for place, loss in enumerate(losses):
        left[place] = max(loss, 0.0)
        gain = max(-loss, 0.0)
        for earlier in reversed(range(place)):
            taken = min(gain, left[earlier])
            left[earlier] -= taken
            gain -= taken
    return left


def compute_loss(series: Series, before: float, after: float) -> float:
    """Return by which logarithm of its speed a series is slower; negative if it is faster."""
    loss = math.log(before) - math.log(after)
    if series.is_higher_better:
        return loss
    return -loss


def find_also_changed(before: NumberedLine, after: NumberedLine) -> Iterator[str]:
    """Yield what else differs between the last result before a change and the first behind it."""
    mine, others = (restore_result(each.line.machine, each.line.result) for each in (before, after))
    yield from map(replace_unprintable, find_allowed_differences(mine, others))


def accept_change(found: SeriesChange, settings: CheckSettings) -> SeriesChange:
    """Return a change, accepted if a waiver names it, its series or the history."""
    if found.standing is not Standing.REGRESSED:
        return found
    for place in (found.place, found.earlier_place):
        finding = build_change_finding(found, place, settings)
        accepted = accept_finding(finding, str(settings.path), settings.waivers).accepted
        if accepted:
            return replace(found, standing=Standing.ACCEPTED, accepted=accepted)
    return found


def build_change_finding(found: SeriesChange, place: str, settings: CheckSettings) -> Finding:
    """Return a change as a finding about a place, as waivers name it."""
    return Finding(
        rule=REGRESSION_RULE,
        severity=Severity.ERROR,
        file=str(settings.path / place),
        line=found.line,
        found=describe_share(found.change),
        required=f"less than {format_share_as_percent(settings.difference)} slower",
        source=REGRESSION_SOURCE,
        advice="find the cause among the commits, or accept it with a waiver",
    )


def describe_share(change: Change) -> str:
    """Describe a change in percent of the level before, with its sign."""
    share = change.ratio - 1
    sign = "+" if share > 0 else "-"
    return f"{sign}{format_share_as_percent(abs(share))}"
