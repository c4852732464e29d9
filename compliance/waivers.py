"""Waivers: findings that somebody knows and accepts, from a TOML file (schema waivers.json).

A waiver names a rule, a path, who accepts it, until when, and why. An accepted finding is still
listed, but has no effect on a verdict.
"""

import datetime
import difflib
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from compliance.rules import load_rules
from compliance.verdict import Acceptance, Finding, PathJudgement, Verdict, change_findings
from suite.errors import RequestError
from suite.files.layout import locate_absolutely
from suite.files.untrusted_files import UnreadableError, read_untrusted_toml, replace_unprintable

StatedText: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\S")]
"""A text that is not blank."""


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[waiver]]`: accepts the findings of a rule in a file, or in all files of a folder."""

    rule: StatedText
    path: StatedText
    """A file or folder below the PATH that is judged, or below the working folder."""
    by: StatedText
    """Who accepts it."""
    until: datetime.date
    """The last day on which it holds."""
    why: StatedText

    @property
    def name(self) -> str:
        """Return how a message names it."""
        return replace_unprintable(f"the waiver of {self.rule} in {self.path}")

    def covers_finding(self, finding: Finding, judged: str) -> bool:
        """Return whether it accepts a finding about the PATH `judged`."""
        if finding.rule != self.rule:
            return False
        root, here = locate_absolutely(judged), locate_absolutely("")
        inside, printed = locate_absolutely(root / self.path), locate_absolutely(self.path)
        # a folder above these, as `..` is, would accept more than its reader sees
        places = []
        if inside.is_relative_to(root):
            places.append(inside)
        if printed.is_relative_to(root) or printed.is_relative_to(here):
            places.append(printed)
        return any(map(locate_absolutely(finding.file).is_relative_to, places))


class WaiverFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of waivers."""

    waiver: Annotated[tuple[Waiver, ...], msgspec.Meta(min_length=1)]


def read_waivers(
    file: Path, today: datetime.date, own_rules: Container[str] = ()
) -> tuple[Waiver, ...]:
    """Read a file of waivers; RequestError if it cannot be read, violates its schema, or has a
    waiver that has expired or whose rule does not exist or cannot be accepted. `own_rules` are
    those of a command that are none of the judge's.
    """
    try:
        read = msgspec.convert(read_untrusted_toml(file), WaiverFile)
    except UnreadableError as error:
        raise RequestError(str(error)) from error
    except msgspec.ValidationError as error:
        raise RequestError(
            replace_unprintable(
                f"{file}: {error}; a waiver is [[waiver]] with rule, path, by, until (a date) and"
                " why"
            )
        ) from error
    for each in read.waiver:
        require_valid_day(each, file, today)
    return tuple(
        each if each.rule in own_rules else require_known_rule(each, file) for each in read.waiver
    )


def require_valid_day(waiver: Waiver, file: Path, today: datetime.date) -> None:
    """RequestError if a waiver has expired."""
    if waiver.until < today:
        raise RequestError(
            f"{file}: {waiver.name} expired on {waiver.until}; remove it, or agree on another day"
        )


def require_known_rule(waiver: Waiver, file: Path) -> Waiver:
    """Return a waiver with the present id of its rule; RequestError if the judge has no such rule,
    or one that cannot be accepted.
    """
    rules = load_rules()
    former = {old: rule.id for rule in rules.values() for old in rule.former.split()}
    rule = rules.get(former.get(waiver.rule, waiver.rule))
    if rule is None:
        near = difflib.get_close_matches(waiver.rule, sorted(rules), n=1)
        if near:
            hint = f"did you mean {near[0]}?"
        else:
            hint = "podium explain lists all rules"
        raise RequestError(f"{file}: {waiver.name}: there is no such rule; {hint}")
    if rule.weight is Verdict.UNKNOWN:
        raise RequestError(
            f"{file}: {waiver.name}: what the rule finds was not judged, which no waiver can accept"
        )
    return msgspec.structs.replace(waiver, rule=rule.id)


def apply_waivers(judged: PathJudgement, waivers: Sequence[Waiver]) -> PathJudgement:
    """Mark the findings that waivers accept; the first waiver that covers one counts."""
    return change_findings(
        judged,
        lambda findings: [accept_finding(each, judged.path, waivers) for each in findings],
    )


def accept_finding(finding: Finding, path: str, waivers: Iterable[Waiver]) -> Finding:
    """Return a finding about this PATH, marked if a waiver covers it."""
    waiver = next((each for each in waivers if each.covers_finding(finding, path)), None)
    if waiver is None:
        return finding
    return replace(finding, accepted=build_acceptance(waiver))


def build_acceptance(waiver: Waiver) -> Acceptance:
    """Return what a waiver says of a finding."""
    return Acceptance(
        by=replace_unprintable(waiver.by),
        until=waiver.until.isoformat(),
        why=replace_unprintable(waiver.why),
    )


def describe_idle_waivers(
    file: Path, judged: Iterable[PathJudgement], waivers: Iterable[Waiver]
) -> list[str]:
    """Return a sentence for each waiver of a file that no finding needs any more."""
    found = [(finding, each.path) for each in judged for finding in each.findings]
    return [
        f"{file}: {waiver.name} accepts nothing; remove it"
        for waiver in waivers
        if not any(waiver.covers_finding(finding, path) for finding, path in found)
    ]
