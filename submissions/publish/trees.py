"""Reads results trees of published rounds for a site: each organisation's results with verdicts,
scores and objections.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from compliance.judge import Judge
from compliance.recognition.path_kind import PathKind, recognise_path
from compliance.results.indexed_result import IndexedResult
from compliance.rules import is_published_round
from compliance.verdict import Finding, PathJudgement, Severity, Verdict, compute_verdict
from compliance.waivers import apply_waivers, describe_idle_waivers, read_waivers
from submissions.compliance_check import (
    format_finding_line,
    resolve_path_round,
    select_shared_errors,
)
from submissions.curves.curve import has_curves
from submissions.machines import describe_published_system
from submissions.publish.references import Reference, build_reference_key, read_published_references
from submissions.report.sections.findings import VERDICT_LABELS
from submissions.result_columns import (
    rename_column,
    select_columns,
    select_text_columns,
)
from submissions.result_index import find_requested_results, list_organisation_folders
from submissions.score.score import complete_result, read_scored_values
from suite.columns import Column, Table, build_part_column
from suite.errors import JudgedError, RequestError
from suite.files.layout import locate_absolutely
from suite.measurement.metrics import is_higher_better
from suite.result import Judgement, Result

TREE_KINDS: Final = (PathKind.TREE, PathKind.TREES, PathKind.ORGANISATION)
"""Kinds of paths that become pages of a site as they stand, if their round is a published one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOptions:
    """What is read beside the trees of a site."""

    accept: Path | None = None
    """A file of waivers."""
    tables: tuple[Path, ...] = ()
    """Tables with published values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeResult:
    """A run set or a scenario in a tree, with its published value."""

    result: Result
    reference: Reference | None = None
    """None if no published value is known."""

    @property
    def deviation(self) -> float | None:
        """How far the value is from the published one, as a share of it."""
        if self.reference is None or not self.result.headline:
            return None
        return self.result.headline / self.reference.value - 1

    @property
    def problem(self) -> str:
        """Why it has no value; empty if it has one."""
        return self.result.judgement.problem


def format_tree_verdict(row: TreeResult) -> str:
    """Format the judge's verdict."""
    return VERDICT_LABELS[Verdict(row.result.verdict)]


def describe_tree_convergence(row: TreeResult) -> str:
    """Describe the comparison with a reference convergence point; empty without one."""
    found = row.result.convergence
    if not found:
        return ""
    return ": ".join(filter(None, (found.outcome, found.point)))


def build_tree_column(column: Column[Result]) -> Column[TreeResult]:
    """Return a column of results for the results of a tree."""
    return build_part_column(column, lambda row: row.result)


TREE_TABLE: Final[Table[TreeResult]] = Table(
    columns=(
        *map(
            build_tree_column,
            (
                *select_columns("location", "round", "division", "org", "system"),
                *select_text_columns("accelerator"),
                *select_columns("accelerators", "nodes"),
                *select_text_columns("precision"),
                *select_columns("benchmark"),
                *select_text_columns("scenario"),
                *select_columns("metric", "unit"),
                rename_column("value", "headline"),
                *select_columns("runs", "accuracy"),
                rename_column("convergence_factor", "factor"),
            ),
        ),
        Column("convergence", describe_tree_convergence),
        *map(build_tree_column, select_columns("inferred")),
        Column("published", lambda row: row.reference.value if row.reference else None),
        Column("published_source", lambda row: row.reference.source if row.reference else ""),
        Column("deviation", lambda row: row.deviation),
        Column("verdict", format_tree_verdict),
        Column("errors", lambda row: len(row.result.errors)),
        *map(build_tree_column, select_columns("warnings", "accepted", "problem")),
    )
)
"""One result of a tree, in JSON and CSV; its value is as MLCommons' tables have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSystem:
    """A system with results."""

    name: str
    machine: str
    described: Mapping[str, str]
    """Fields of its description that MLCommons publishes beside a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeOrganisation:
    """An organisation's part of a tree."""

    name: str
    division: str
    folder: str
    """Below the tree that was published."""
    verdict: str
    systems: tuple[TreeSystem, ...]
    results: tuple[TreeResult, ...]
    findings: tuple[Finding, ...]
    """Their files are named from the tree that was published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTree:
    """A results tree on a site."""

    name: str
    round: str
    verdict: str
    organisations: tuple[TreeOrganisation, ...]
    findings: tuple[Finding, ...]
    """Findings that are about no single organisation."""

    @property
    def scored(self) -> tuple[Result, ...]:
        """All results that have a score."""
        return tuple(each.result for each in self.results if not each.problem)

    @property
    def results(self) -> tuple[TreeResult, ...]:
        """All results."""
        return tuple(result for each in self.organisations for result in each.results)


def is_site_tree(path: Path) -> bool:
    """Return whether a path is a results tree of a published round, or of several."""
    return (
        path.is_dir()
        and recognise_path(path).kind in TREE_KINDS
        and not has_curves(path)
        and any(map(is_published_round, resolve_path_rounds(path)))
    )


def resolve_path_rounds(path: Path) -> Sequence[str]:
    """Return the round of a tree, or those of the organisations in a folder of trees."""
    if recognise_path(path).kind is not PathKind.TREES:
        return (resolve_path_round(path),)
    return tuple(dict.fromkeys(map(resolve_path_round, list_organisation_folders(path))))


def read_site_trees(paths: Iterable[Path], options: TreeOptions) -> list[SiteTree]:
    """Read the trees of a site; RequestError for waivers or tables that cannot be used,
    or that no tree needs; JudgedError for a tree with a link out of it. Prints which waivers accept
    nothing.
    """
    paths = tuple(paths)
    for option, given in (("--accept", options.accept), ("--table", options.tables)):
        if given and not paths:
            raise RequestError(f"{option}: is for results trees of published rounds; none is given")
    waivers = read_waivers(options.accept, datetime.now(UTC).date()) if options.accept else ()
    rounds = {name for path in paths for name in resolve_path_rounds(path)}
    references = read_published_references(rounds, options.tables)
    for path in paths:
        check_tree_links(path)
    judged = [apply_waivers(Judge().judge_path(str(path)), waivers) for path in paths]
    if options.accept:
        for sentence in describe_idle_waivers(options.accept, judged, waivers):
            click.echo(f"podium: {sentence}", err=True)
    return [
        read_site_tree(path, found, references) for path, found in zip(paths, judged, strict=True)
    ]


def check_tree_links(path: Path) -> None:
    """Raise JudgedError for a link out of a tree: the pages would show what it leads to, which may
    be a file of the publisher's own.
    """
    root = path.resolve()
    for folder, folders, names in os.walk(path):
        for each in (Path(folder, name) for name in (*folders, *names)):
            # a loop leads nowhere, and Path.resolve fails on it
            target = Path(os.path.realpath(each)) if each.is_symlink() else root
            if target.exists() and not target.is_relative_to(root):
                raise JudgedError(
                    f"{each}: is a link out of {path}, and a site would show what it leads to;"
                    " remove it, or publish the folder that has both"
                )


def read_site_tree(
    path: Path, judged: PathJudgement, references: Mapping[str, Reference]
) -> SiteTree:
    """Score one tree that has been judged."""
    verdicts = {locate_absolutely(each.path): each.findings for each in judged.results}
    results: dict[Path, list[TreeResult]] = {}
    for result in find_requested_results(path):
        folder = locate_absolutely(result.known_organisation_folder)
        own = verdicts.get(locate_absolutely(result.folder))
        if own is not None:
            own = (*own, *select_shared_errors(judged, result, path))
        results.setdefault(folder, []).append(read_tree_result(result, own, references))
    folders = list(map(locate_absolutely, list_organisation_folders(path)))
    if not folders:  # the path is an organisation's own folder, or below a division
        folders = list(results)
    organisations = tuple(
        build_tree_organisation(folder, path, results.get(folder, []), judged) for folder in folders
    )
    besides = [
        name_file_from(finding, path)
        for finding in judged.findings
        if not any(is_finding_below(finding, folder) for folder in folders)
    ]
    return SiteTree(
        name=locate_absolutely(path).name,
        round=judged.round,
        verdict=VERDICT_LABELS[judged.verdict],
        organisations=organisations,
        findings=tuple(besides),
    )


def is_finding_below(finding: Finding, folder: Path) -> bool:
    """Return whether a finding is about a file in a folder."""
    return locate_absolutely(finding.file).is_relative_to(folder)


def name_file_from(finding: Finding, root: Path) -> Finding:
    """Name a finding's file, and files in its text, from the published tree, so that the
    publisher's folders stay private.
    """
    prefix = f"{root}/"
    return replace(
        finding,
        file=os.path.relpath(finding.file, root),
        found=finding.found.replace(prefix, ""),
        required=finding.required.replace(prefix, ""),
        advice=finding.advice.replace(prefix, ""),
    )


def build_tree_organisation(
    folder: Path,
    root: Path,
    results: Sequence[TreeResult],
    judged: PathJudgement,
) -> TreeOrganisation:
    """Build an organisation's part of a tree."""
    findings = [each for each in judged.findings if is_finding_below(each, folder)]
    position = recognise_path(folder).position
    division = str(position.division or "") if position else ""
    return TreeOrganisation(
        name=folder.name,
        division=division or next((each.result.division for each in results), ""),
        folder=os.path.relpath(folder, root),
        verdict=VERDICT_LABELS[compute_verdict(findings)] if results else "No results",
        systems=tuple(list_tree_systems(results)),
        results=tuple(results),
        findings=tuple(name_file_from(each, root) for each in findings),
    )


def list_tree_systems(
    results: Sequence[TreeResult],
) -> list[TreeSystem]:
    """List the systems of some results, each once."""
    found: dict[str, TreeSystem] = {}
    for each in results:
        result = each.result
        system = TreeSystem(
            name=result.system,
            machine="" if each.problem else str(result.machine),
            described=describe_published_system(result),
        )
        found.setdefault(result.system, system)
    return list(found.values())


def read_tree_result(
    result: IndexedResult,
    own: Sequence[Finding] | None,
    references: Mapping[str, Reference],
) -> TreeResult:
    """Read one result with its own findings; None if it was not judged as a result of its own. A
    result that cannot be scored says why.
    """
    verdict = Verdict.UNKNOWN if own is None else compute_verdict(own)
    own = own or ()
    judgement = Judgement(
        verdict=verdict.value,
        compliant=verdict is Verdict.VALID,
        errors=tuple(map(format_finding_line, (each for each in own if each.is_open_error))),
        warnings=count_open_findings(own, Severity.WARNING),
        accepted=sum(each.accepted is not None for each in own),
    )
    try:
        scored = complete_result(result, read_scored_values(result), judgement)
    except JudgedError as error:
        place = result.build_place("", "")
        problem = str(error).replace(str(result.folder), place.location)
        judgement = replace(judgement, problem=problem)
        return TreeResult(result=Result(place=place, judgement=judgement))
    key = build_reference_key(scored.round, scored.place.location)
    return TreeResult(result=scored, reference=references.get(key))


def count_open_findings(findings: Iterable[Finding], severity: Severity) -> int:
    """Count the findings of a severity that no waiver accepts."""
    return sum(each.severity is severity and each.accepted is None for each in findings)


def rank_tree_result(row: TreeResult) -> tuple[bool, bool, float, str]:
    """Return a sort key: the best value first, but behind all valid results those that are not:
    their values are in doubt; results without a value last.
    """
    result = row.result
    if result.headline is None:
        return (True, True, 0.0, result.place.location)
    worse = -result.headline if is_higher_better(result.metric) else result.headline
    return (False, result.verdict != Verdict.VALID, worse, result.place.location)
