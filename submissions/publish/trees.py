"""Reads results trees of published rounds for a site: each organisation's results with verdicts,
scores and objections.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from compliance.judge import Judge
from compliance.recognition.path_kind import PathKind, recognise_path
from compliance.rules import is_published_round
from compliance.verdict import Finding, PathJudgement, Severity, Verdict, compute_verdict
from compliance.waivers import apply_waivers, describe_idle_waivers, read_waivers
from submissions.compliance_check import resolve_path_round
from submissions.curves.curve import has_curves
from submissions.machines import PUBLISHED_SYSTEM_FIELDS, format_field_value
from submissions.metrics import is_higher_better
from submissions.publish.references import Reference, build_reference_key, read_published_references
from submissions.report.sections.findings import VERDICT_LABELS
from submissions.result_index import (
    IndexedResult,
    find_requested_results,
    list_organisation_folders,
)
from submissions.score.mlcommons_table import DescribedScore, describe_score
from submissions.score.score import build_score, read_scored_values
from suite.errors import JudgedError, RequestError
from suite.files.layout import locate_absolutely

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
    """A training set or a scenario in a tree."""

    location: str
    """Its folder below the root of its tree."""
    round: str
    division: str
    org: str
    system: str
    accelerator: str
    accelerators: int | None
    nodes: int | None
    precision: str
    benchmark: str
    scenario: str
    """Empty for a training set."""
    metric: str
    unit: str
    value: float | None
    """As MLCommons' tables have it: a training set's minutes times its convergence factor."""
    runs: tuple[float | None, ...]
    accuracy: Mapping[str, float]
    convergence_factor: float | None
    """None if the set was not compared with a reference convergence point."""
    convergence: str
    """The outcome of that comparison, with the point; empty without one."""
    inferred: bool
    published: float | None
    """The published value, in `unit`; None if none is known."""
    published_source: str
    deviation: float | None
    """How far the value is from the published one, as a share of it."""
    verdict: str
    errors: int
    warnings: int
    accepted: int
    problem: str
    """Why it has no value; empty if it has one."""


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
    described: tuple[DescribedScore, ...]

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
    results: dict[Path, list[tuple[TreeResult, DescribedScore | None]]] = {}
    for result in find_requested_results(path):
        folder = locate_absolutely(result.known_organisation_folder)
        own = verdicts.get(locate_absolutely(result.folder))
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
        described=tuple(
            described for each in results.values() for _, described in each if described
        ),
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
    results: Sequence[tuple[TreeResult, DescribedScore | None]],
    judged: PathJudgement,
) -> TreeOrganisation:
    """Build an organisation's part of a tree."""
    findings = [each for each in judged.findings if is_finding_below(each, folder)]
    position = recognise_path(folder).position
    division = str(position.division or "") if position else ""
    return TreeOrganisation(
        name=folder.name,
        division=division or next((each.division for each, _ in results), ""),
        folder=os.path.relpath(folder, root),
        verdict=VERDICT_LABELS[compute_verdict(findings)] if results else "No results",
        systems=tuple(list_tree_systems(results)),
        results=tuple(each for each, _ in results),
        findings=tuple(name_file_from(each, root) for each in findings),
    )


def list_tree_systems(
    results: Sequence[tuple[TreeResult, DescribedScore | None]],
) -> list[TreeSystem]:
    """List the systems of some results, each once."""
    found: dict[str, TreeSystem] = {}
    for result, described in results:
        fields: Mapping[str, Any] = described.description if described else {}
        found.setdefault(
            result.system,
            TreeSystem(
                name=result.system,
                machine=str(described.score.machine) if described else "",
                described={
                    name: text
                    for name in PUBLISHED_SYSTEM_FIELDS
                    if (text := format_field_value(fields.get(name)))
                },
            ),
        )
    return list(found.values())


def read_tree_result(
    result: IndexedResult,
    own: Sequence[Finding] | None,
    references: Mapping[str, Reference],
) -> tuple[TreeResult, DescribedScore | None]:
    """Read one result with its own findings; None if it was not judged as a result of its own. A
    result that cannot be scored says why.
    """
    verdict = Verdict.UNKNOWN if own is None else compute_verdict(own)
    own = own or ()
    counted: dict[str, Any] = {
        "verdict": VERDICT_LABELS[verdict],
        "errors": sum(each.is_open_error for each in own),
        "warnings": count_open_findings(own, Severity.WARNING),
        "accepted": sum(each.accepted is not None for each in own),
    }
    try:
        score = build_score(result, read_scored_values(result), compliant=verdict is Verdict.VALID)
    except JudgedError as error:
        return build_unscored_result(result, counted, str(error)), None
    described = describe_score(score, result)
    convergence = score.convergence or {}
    factor = convergence.get("factor")
    reference = references.get(build_reference_key(score.round, described.location))
    headline = described.headline
    return (
        TreeResult(
            location=described.location,
            round=score.round,
            division=score.division,
            org=score.org,
            system=score.system,
            accelerator=score.machine.accelerator or "",
            accelerators=score.machine.accelerators,
            nodes=score.machine.nodes,
            precision=score.precision or "",
            benchmark=described.benchmark,
            scenario=score.scenario or "",
            metric=score.metric,
            unit=score.unit,
            value=headline,
            runs=score.runs,
            accuracy=dict(score.accuracy),
            convergence_factor=factor if isinstance(factor, float) else None,
            convergence=": ".join(
                str(convergence[name])
                for name in ("outcome", "point")
                if convergence.get(name) is not None
            ),
            inferred=score.inferred,
            published=reference.value if reference else None,
            published_source=reference.source if reference else "",
            deviation=headline / reference.value - 1 if reference and headline else None,
            problem="",
            **counted,
        ),
        described,
    )


def count_open_findings(findings: Iterable[Finding], severity: Severity) -> int:
    """Count the findings of a severity that no waiver accepts."""
    return sum(each.severity is severity and each.accepted is None for each in findings)


def build_unscored_result(
    result: IndexedResult, counted: Mapping[str, Any], problem: str
) -> TreeResult:
    """Build a result without a value."""
    folder = result.folder.parent if result.scenario else result.folder
    location = result.folder.relative_to(result.results_root).as_posix()
    return TreeResult(
        location=location,
        round="",
        division=result.division,
        org=result.org,
        system=result.system,
        accelerator="",
        accelerators=None,
        nodes=None,
        precision="",
        benchmark=folder.name,
        scenario=result.scenario_name or "",
        metric="",
        unit="",
        value=None,
        runs=(),
        accuracy={},
        convergence_factor=None,
        convergence="",
        inferred=False,
        published=None,
        published_source="",
        deviation=None,
        problem=problem.replace(str(result.folder), location),
        **counted,
    )


def rank_tree_result(result: TreeResult) -> tuple[bool, bool, float, str]:
    """Return a sort key: the best value first, but behind all valid results those that are not:
    their values are in doubt; results without a value last.
    """
    if result.value is None:
        return (True, True, 0.0, result.location)
    worse = -result.value if is_higher_better(result.metric) else result.value
    return (False, result.verdict != VERDICT_LABELS[Verdict.VALID], worse, result.location)
