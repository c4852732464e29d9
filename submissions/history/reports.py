"""What a history says, in the formats of `podium history check`."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from xml.etree import ElementTree

from compliance.reports.github import (
    escape_markdown,
    format_workflow_command,
    iterate_table_lines,
)
from compliance.reports.junit import build_xml_element, replace_illegal_characters
from submissions.cells import format_metric_value
from submissions.history.commits import shorten_commit
from submissions.history.series import Series
from submissions.history.verdicts import (
    REGRESSION_RULE,
    CheckedSeries,
    CheckSettings,
    SeriesChange,
    Standing,
    describe_share,
)
from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import format_share_as_percent

GITHUB_LEVELS: Final = {Standing.REGRESSED: "error", Standing.ACCEPTED: "notice"}
"""Changes that are annotated; the summary has all others."""
JUNIT_NAME: Final = "podium history check"


def describe_noise(checked: CheckedSeries) -> str:
    """Say how far results of one commit lie apart."""
    if checked.noise is None:
        return "noise floor unknown (no two results of one commit)"
    noise, pairs = checked.noise, checked.noise.pairs
    told = f"{pairs} A/A pair{'s' * (pairs != 1)}"
    return f"noise floor {format_share_as_percent(noise.share)} ({told})"


def describe_latest(series: Series) -> str:
    """Say what the latest commit has."""
    last = series.points[-1]
    value = format_metric_value(last.value, series.first.unit)
    return f"{value} at {shorten_commit(last.commit)}"


def describe_change(found: SeriesChange, series: Series) -> str:
    """Say in a line what changed, and where."""
    unit = series.first.unit
    levels = " to ".join(
        format_metric_value(each, unit) for each in (found.change.before, found.change.after)
    )
    told = (
        f"{found.standing}: {describe_share(found.change)}, {levels}, at"
        f" {shorten_commit(found.first.commit)} of {found.first.committed[:10]}"
    )
    if found.accepted:
        return f"{told}; accepted {replace_unprintable(str(found.accepted))}"
    return told


def describe_commits(found: SeriesChange) -> str:
    """Say which commits lie between both levels."""
    before, first = shorten_commit(found.before.commit), shorten_commit(found.first.commit)
    if found.commits is None:
        return f"behind {before}, up to {first}; git does not know the commits between here"
    count = found.commits.count
    return f"{count} commit{'s' * (count != 1)} behind {before}, up to {first}"


def iterate_change_details(found: SeriesChange, settings: CheckSettings) -> Iterator[str]:
    """Yield what helps to find the cause of a change, a sentence each."""
    yield describe_commits(found)
    if found.commits:
        yield from (f"  {each}" for each in found.commits.listed)
        if more := found.commits.count - len(found.commits.listed):
            yield f"  and {more} more"
    if found.also:
        yield f"also changed: {'; '.join(found.also)}"
    if found.standing is Standing.REGRESSED:
        yield f'a waiver of it: rule = "{REGRESSION_RULE}", path = "{settings.path / found.place}"'


def iterate_series_lines(checked: CheckedSeries, settings: CheckSettings) -> Iterator[str]:
    """Yield the lines about one series."""
    series = checked.series
    yield f"{series.title} ({series.settings}): {checked.standing}"
    if not series.points:
        yield "  no result since the baseline"
        return
    commits = len(series.points)
    yield (
        f"  {commits} commit{'s' * (commits != 1)}, {describe_noise(checked)}; latest"
        f" {describe_latest(series)}"
    )
    if checked.untested:
        yield f"  not tested: {checked.untested}"
    for each in checked.changes:
        yield f"  {describe_change(each, series)}"
        if each.standing is Standing.REGRESSED:
            yield from (f"    {line}" for line in iterate_change_details(each, settings))


def iterate_commit_lines(checked: CheckedSeries) -> Iterator[str]:
    """Yield the lines of a series with its results by commit, and its changes where they are."""
    series = checked.series
    yield f"{series.title} ({series.settings}), {series.first.unit}: {checked.standing}"
    yield f"  {describe_noise(checked)}"
    changes = {each.first.commit: each for each in checked.changes}
    for point in series.points:
        value = format_metric_value(point.value, series.first.unit)
        told = f"  {point.committed[:10]}  {shorten_commit(point.commit):12}  {value:>18}"
        if len(point.lines) > 1:
            told += f"  n = {len(point.lines)}"
        if change := changes.get(point.commit):
            told += f"  {change.standing}: {describe_share(change.change)}"
        yield told
    if checked.untested:
        yield f"  not tested: {checked.untested}"


def count_open_changes(found: Sequence[CheckedSeries]) -> int:
    """Count the changes that are open."""
    return sum(len(each.open_changes) for each in found)


def format_history_summary(found: Sequence[CheckedSeries], settings: CheckSettings) -> str:
    """Say in a line what the check found."""
    count = count_open_changes(found)
    bound = format_share_as_percent(settings.difference)
    series = f"{len(found)} series"
    untested = sum(bool(each.untested) for each in found)
    if untested == len(found):
        return f"{series}, none of them tested"
    if untested:
        series += f", {untested} not tested"
    if not count:
        return f"{series}; none slower by {bound} or more"
    return f"{series}; {count} regression{'s' * (count != 1)} of {bound} or more"


def render_history_text(found: Sequence[CheckedSeries], settings: CheckSettings) -> str:
    """Render lines for a person."""
    lines = [line for each in found for line in iterate_series_lines(each, settings)]
    return "".join(f"{line}\n" for line in (*lines, "", format_history_summary(found, settings)))


def render_history_github(found: Sequence[CheckedSeries], settings: CheckSettings) -> str:
    """Render GitHub's annotations at the lines of the history: regressions, then what is known."""
    commands = [
        (GITHUB_LEVELS[change.standing], render_annotation(each.series, change, settings))
        for each in found
        for change in each.changes
        if change.standing in GITHUB_LEVELS
    ]
    commands.sort(key=lambda command: list(GITHUB_LEVELS.values()).index(command[0]))
    level = "error" if count_open_changes(found) else "notice"
    summary = format_workflow_command(
        level, format_history_summary(found, settings), title=JUNIT_NAME
    )
    return "".join(f"{text}\n" for text in (summary, *(text for _, text in commands)))


def render_history_summary(found: Sequence[CheckedSeries], settings: CheckSettings) -> str:
    """Render the summary of a workflow's step as Markdown: a row for each series, then what is
    open.
    """
    title = f"{settings.path}: {format_history_summary(found, settings)}"
    lines = [f"### {escape_markdown(title)}"]
    rows = [
        (each.series.title, each.series.settings, each.standing, describe_noise(each))
        for each in found
    ]
    lines += ["", *iterate_table_lines(("series", "configuration", "standing", "noise"), rows)]
    for each in found:
        for change in each.open_changes:
            told = f"{each.series.title}: {describe_change(change, each.series)}"
            lines += [
                f"- {escape_markdown(told)}",
                *(f"  - {escape_markdown(x)}" for x in iterate_change_details(change, settings)),
            ]
    return "".join(f"{line}\n" for line in lines)


def render_annotation(series: Series, change: SeriesChange, settings: CheckSettings) -> str:
    """Render a change as an annotation at the first result behind it."""
    text = "\n".join(
        [
            f"{series.title}: {describe_change(change, series)}",
            *iterate_change_details(change, settings),
        ]
    )
    return format_workflow_command(
        GITHUB_LEVELS[change.standing],
        text,
        file=settings.path.as_posix(),
        line=str(change.line),
        title=REGRESSION_RULE,
    )


def render_history_junit(found: Sequence[CheckedSeries], settings: CheckSettings) -> str:
    """Render JUnit XML: a case for each series, which fails if it has an open change."""
    counts = {
        "tests": str(len(found)),
        "failures": str(sum(bool(each.open_changes) for each in found)),
        "errors": "0",
        "skipped": str(sum(bool(each.untested) for each in found)),
    }
    root = build_xml_element(None, "testsuites", {"name": JUNIT_NAME})
    for name in ("tests", "failures"):
        root.set(name, counts[name])
    suite = build_xml_element(root, "testsuite", {"name": str(settings.path), **counts})
    for each in found:
        add_series_case(suite, each, settings)
    ElementTree.indent(root)
    return (
        '<?xml version="1.0"'
        f' encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'
    )


def add_series_case(
    suite: ElementTree.Element, checked: CheckedSeries, settings: CheckSettings
) -> None:
    """Add the case of one series."""
    series = checked.series
    attributes = {
        "name": f"{series.title} ({series.settings})",
        "classname": str(settings.path),
        "file": str(settings.path),
    }
    if opened := checked.open_changes:
        attributes["line"] = str(opened[0].line)
    case = build_xml_element(suite, "testcase", attributes)
    text = "\n".join(iterate_series_lines(checked, settings))
    if opened:
        message = describe_change(opened[0], series)
        failure = build_xml_element(case, "failure", {"type": REGRESSION_RULE, "message": message})
        failure.text = replace_illegal_characters(text)
        return
    if checked.untested:
        build_xml_element(case, "skipped", {"message": checked.untested})
    build_xml_element(case, "system-out", {}).text = replace_illegal_characters(text)


def describe_change_data(found: SeriesChange) -> dict[str, Any]:
    """Return a change as JSON types."""
    accepted = found.accepted
    return {
        "standing": found.standing.value,
        "share": found.change.ratio - 1,
        "p": found.change.p,
        "before": found.change.before,
        "after": found.change.after,
        "last_before": found.before.commit,
        "first_after": found.first.commit,
        "committed": found.first.committed,
        "line": found.line,
        "commits": found.commits.count if found.commits else None,
        "listed": list(found.commits.listed) if found.commits else [],
        "also": list(found.also),
        "place": found.place,
        "accepted": str(accepted) if accepted else None,
    }


def describe_series_data(checked: CheckedSeries) -> dict[str, Any]:
    """Return a series as JSON types, with its values."""
    series = checked.series
    return {
        "machine": series.machine,
        "workload": series.first.workload,
        "scenario": series.first.scenario,
        "metric": series.first.metric,
        "unit": series.first.unit,
        "configuration": dict(series.configuration),
        "place": str(series.place),
        "standing": checked.standing,
        "untested": checked.untested or None,
        "noise": checked.noise.share if checked.noise else None,
        "pairs": checked.noise.pairs if checked.noise else 0,
        "points": [
            {
                "commit": point.commit,
                "committed": point.committed,
                "value": point.value,
                "results": len(point.lines),
                "lines": [each.number for each in point.lines],
            }
            for point in series.points
        ],
        "changes": [describe_change_data(each) for each in checked.changes],
    }


def render_history_json(found: Sequence[CheckedSeries], settings: CheckSettings) -> str:
    """Render what a program reads."""
    document = {
        "file": str(settings.path),
        "difference": settings.difference,
        "baseline": settings.baseline,
        "regressions": count_open_changes(found),
        "series": [describe_series_data(each) for each in found],
    }
    return f"{json.dumps(document, indent=2)}\n"


HISTORY_REPORTS: Final[Mapping[str, Callable[[Sequence[CheckedSeries], CheckSettings], str]]] = {
    "text": render_history_text,
    "github": render_history_github,
    "json": render_history_json,
    "junit": render_history_junit,
}
"""Values of `--format`."""
