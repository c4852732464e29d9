"""The curves in a path as records: each point's figures, and what the judge says of it."""

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final, TypeAlias

from compliance.documents.endpoints.curve import EndpointsCurve, read_endpoints_curve
from compliance.documents.endpoints.point import EndpointsPoint
from compliance.documents.endpoints.power import W_PER_KW
from compliance.recognition.endpoints_files import RESULTS_FOLDER
from compliance.recognition.endpoints_tree import find_submission_folder, list_curve_folders
from compliance.recognition.path_kind import (
    PathKind,
    RecognisedPath,
    find_judgeable_parts,
    recognise_path,
)
from compliance.verdict import Finding, Severity
from submissions import compliance_check
from submissions.machines import ComparedMachine, build_compared_machine
from submissions.result_index import find_requested_results
from suite import registry
from suite.files.layout import locate_absolutely
from suite.rounds.endpoints_curve import Regions

WHOLE_RUN: Final = "whole_run"
STEADY_STATE: Final = "steady_state"
ENDPOINTS_ORIGIN: Final = "MLPerf Endpoints"
OFFLINE_REGION: Final = "offline"
"""Stands for a region at an Offline run of its own, which has none."""
ErrorIndex: TypeAlias = Mapping[Path, Sequence[tuple[Path, str]]]
"""File or folder -> the files in it with the rules that they break."""
CURVE_KINDS: Final = (PathKind.ENDPOINTS_SUBMISSION, PathKind.ENDPOINTS_CURVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredPoint:
    """The figures of one point."""

    path: str
    """As the user would write it."""
    concurrency: int | None
    region: str | None
    """By its concurrency; `offline` for an Offline run of its own, None out of range."""
    offline: str | None
    """`dedicated`, `elected`, or None if it is not the Offline result."""
    system_tps: float | None
    tps_per_user: float | None
    ttft_p90_ms: float | None
    tps_per_kw: float | None
    basis: str
    """What the figures are of: always the whole run, whose summary is submitted."""
    declared_basis: str
    """What the point's official figures are of: `steady_state` if it claims a steady window that
    supplies them.
    """
    compliant: bool
    failed_rules: tuple[str, ...] = ()
    """The rules with an error about the point."""

    @property
    def is_fixed(self) -> bool:
        """Whether it holds a number of requests in flight: all but an Offline run of its own."""
        return self.region != OFFLINE_REGION


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredCurve:
    """The figures of one system and model."""

    path: str
    org: str
    submission: str
    system: str
    model: str
    data_set: str
    """By the benchmark's row; empty if the round names none."""
    dataset: str
    """As disclosed, in free text."""
    division: str
    round: str
    cohort: str
    precision: str | None
    tokenizer: str
    """With which the client counted the tokens; empty if no configuration names it."""
    c_min: int | None
    c_max: int | None
    regions: Regions | None
    machine: ComparedMachine
    kw: float | None
    """Provisioned power of the whole system."""
    points: tuple[ScoredPoint, ...]
    """By rising concurrency; only the one that was asked for, if it was."""
    point_count: int
    """How many points the curve has."""
    peak: float | None
    """The highest system_tps of all points with a fixed number of requests in flight."""
    offline_tps: float | None
    """The rate of the Offline result."""
    compliant: bool
    """Whether the judge finds no error in the curve, its points, its system's power and what the
    submission's curves share.
    """
    failed_rules: tuple[str, ...] = ()
    """The rules with an error about the curve, but about none of its points."""
    origin: str = ENDPOINTS_ORIGIN
    """What its points are of, in words."""


def has_curves(path: Path) -> bool:
    """Return whether a path is, or contains, a curve of MLPerf Endpoints."""
    return any(list_curve_homes(recognise_path(path)))


def has_only_curves(path: Path) -> bool:
    """Return whether a path has curves, and no other results."""
    return has_curves(path) and not find_requested_results(path)


def read_path_curves(path: Path, found: Sequence[Finding] | None = None) -> list[ScoredCurve]:
    """Read and judge the curves in a path, each once; `found` are the judge's findings about the
    path, if it was judged before. Of a point's path only that point remains.
    """
    target = recognise_path(path)
    curves, homes = [], list_curve_homes(target)
    if found is None and len(homes) > 1:
        found = compliance_check.judge_path(path)  # at once: no two submissions share a run
    for home in homes:
        round = registry.load_endpoints_round(compliance_check.resolve_path_round(home))
        findings = compliance_check.judge_path(home) if found is None else found
        errors = index_errors(
            (locate_absolutely(each.file), each.rule)
            for each in findings
            if each.severity is Severity.ERROR
        )
        shared: dict[Path, Set[str]] = {}
        for folder in list_curve_folders(home):
            root = find_submission_folder(folder)
            if root not in shared:
                shared[root] = list_shared_rules(errors, root) if root != folder else set()
            curve = read_endpoints_curve(folder, root, round)
            failed = group_curve_errors(curve, errors, shared[root])
            curves.append(build_scored_curve(curve, *failed, target, path))
    return curves


def list_curve_homes(target: RecognisedPath) -> list[Path]:
    """Return the outermost folders with curves in a path: a submission, a part of it, or several;
    the curve of a single point.
    """
    if target.kind in CURVE_KINDS:
        return [target.path]
    if target.kind is PathKind.ENDPOINTS_POINT:
        return [target.path.parent]
    if target.kind is not PathKind.TREES:
        return []
    parts = find_judgeable_parts(target.path)
    return [each for each in parts if recognise_path(each).kind in CURVE_KINDS]


def build_scored_curve(
    curve: EndpointsCurve,
    of_points: Mapping[Path, tuple[str, ...]],
    own: tuple[str, ...],
    target: RecognisedPath,
    path: Path,
) -> ScoredCurve:
    """Build the record of a curve, with the rules that are broken in the folders of its points, and
    its own.
    """
    points = [
        build_scored_point(curve, each, of_points.get(each.folder, ()), path)
        for each in curve.points
    ]
    rates = [each.system_tps for each in points if each.is_fixed and each.system_tps is not None]
    watts = curve.power.watts
    return ScoredCurve(
        path=display_folder(curve.folder, path),
        org=curve.root.parent.name if curve.root != curve.folder else "",
        submission=curve.root.name if curve.root != curve.folder else "",
        system=curve.system,
        model=curve.folder.name,
        data_set=(curve.model.data_set if curve.model else None) or "",
        dataset=find_shared_text(curve, "dataset_name")
        or next((found for each in curve.points if (found := each.data_set_name)), ""),
        division=find_shared_text(curve, "division"),
        round=curve.round.name,
        cohort=find_shared_text(curve, "target_cohort"),
        precision=find_shared_text(curve, "model_precision") or None,
        tokenizer=find_tokenizer(curve),
        c_min=curve.c_min,
        c_max=curve.c_max,
        regions=curve.regions,
        machine=find_machine(curve),
        kw=watts / W_PER_KW if watts else None,
        points=tuple(select_requested_points(points, target, path)),
        point_count=len(points),
        peak=max(rates, default=None),
        offline_tps=next((each.system_tps for each in points if each.offline), None),
        compliant=not own and all(each.compliant for each in points),
        failed_rules=own,
    )


def index_errors(errors: Iterable[tuple[Path, str]]) -> ErrorIndex:
    """Index files with the rules that they break by the file and each folder above it."""
    found = defaultdict[Path, list[tuple[Path, str]]](list)
    for file, rule in errors:
        for place in (file, *file.parents):
            found[place].append((file, rule))
    return found


def group_curve_errors(
    curve: EndpointsCurve, errors: ErrorIndex, shared: Set[str]
) -> tuple[Mapping[Path, tuple[str, ...]], tuple[str, ...]]:
    """Group the rules that are broken: by the point's folder, and those about the curve but none of
    its points; `shared` are those that the submission's curves share.
    """
    of_points = {
        each.folder: sort_rules(errors.get(each.folder, ()))
        for each in curve.points
        if each.folder in errors
    }
    own = [
        (file, rule)
        for file, rule in errors.get(curve.folder, ())
        if of_points.keys().isdisjoint(file.parents) and file not in of_points
    ]
    own += errors.get(curve.power.source.path, ())
    return of_points, tuple(sorted({*sort_rules(own), *shared}))


def sort_rules(errors: Iterable[tuple[Path, str]]) -> tuple[str, ...]:
    """Return the rules of some errors, each once."""
    return tuple(sorted({rule for _, rule in errors}))


def list_shared_rules(errors: ErrorIndex, root: Path) -> Set[str]:
    """List the rules that are broken by what the curves of a submission share: all but its
    results.
    """
    results = root / RESULTS_FOLDER
    return {rule for file, rule in errors.get(root, ()) if not file.is_relative_to(results)}


def select_requested_points(
    points: Sequence[ScoredPoint], target: RecognisedPath, path: Path
) -> Sequence[ScoredPoint]:
    """Select the point that a path is; all points of any other path."""
    if target.kind is not PathKind.ENDPOINTS_POINT:
        return points
    return [each for each in points if each.path == display_folder(target.path, path)]


def build_scored_point(
    curve: EndpointsCurve,
    point: EndpointsPoint,
    failed: tuple[str, ...],
    path: Path,
) -> ScoredPoint:
    """Build the record of a point; `failed` are the rules that it breaks."""
    figures, kilowatts = point.compute_figures(), curve.compute_point_kw(point)
    rate = select_figure(figures.system_tps)
    return ScoredPoint(
        path=display_folder(point.folder, path),
        concurrency=point.concurrency,
        region=OFFLINE_REGION if point.is_offline_run else curve.find_region(point),
        offline=point.offline,
        system_tps=rate,
        tps_per_user=None if point.is_offline_run else select_figure(figures.tps_per_user),
        ttft_p90_ms=select_figure(figures.ttft_p90_ms),
        tps_per_kw=select_figure(rate / kilowatts) if rate and kilowatts else None,
        basis=WHOLE_RUN,
        declared_basis=STEADY_STATE if point.is_windowed else WHOLE_RUN,
        compliant=not failed,
        failed_rules=failed,
    )


def select_figure(value: float | None) -> float | None:
    """Return a figure that is finite and positive; None for any other, which measures nothing."""
    return value if value is not None and 0 < value < inf else None


def display_folder(folder: Path, given: Path) -> str:
    """Return a folder as the user would write it, after the path that was given."""
    return str(folder) if given.is_absolute() else os.path.relpath(folder)


def find_shared_text(curve: EndpointsCurve, name: str) -> str:
    """Return a text that the points disclose; empty if none does."""
    return next((found for each in curve.points if (found := each.find_text(name))), "")


def find_tokenizer(curve: EndpointsCurve) -> str:
    """Return the tokenizer in the client's configuration of a point; empty if none names it."""
    configs = [each.run.config for each in curve.points if each.run.config is not None]
    values = [each.find_value("model_params", "tokenizer_name") for each in configs]
    return next((each for each in values if isinstance(each, str) and each), "")


def find_machine(curve: EndpointsCurve) -> ComparedMachine:
    """Return the accelerators and nodes in a system's description: the sum over its types of nodes,
    or those of a description without types.
    """
    system = next((each.system for each in curve.points if each.system), {})
    types = list_tables(system.get("node_types")) or [system]
    groups = [
        build_compared_machine({**node, **info})
        for node in types
        for info in list_tables(node.get("accelerator_info")) or [{}]
    ]
    names = dict.fromkeys(each.accelerator for each in groups if each.accelerator)
    counts = [each.accelerators for each in groups]
    nodes = [build_compared_machine(each).nodes for each in types]
    return ComparedMachine(
        accelerator=" and ".join(names) or None,
        accelerators=None if None in counts else sum(each or 0 for each in counts),
        nodes=None if None in nodes else sum(each or 0 for each in nodes),
    )


def list_tables(value: object) -> list[Mapping[str, Any]]:
    """List the tables in a value of a description: in a list, or a single one."""
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, dict)]
