"""The curves of this kind as records."""

from collections.abc import Mapping, Sequence, Set
from math import inf
from pathlib import Path
from typing import Any

from compliance.kinds.endpoints.documents.run import read_endpoints_run
from compliance.kinds.endpoints.recognition import POINT_SUMMARY, RESULTS_FOLDER
from compliance.kinds.endpoints_curve.documents.curve import EndpointsCurve, read_endpoints_curve
from compliance.kinds.endpoints_curve.documents.point import EndpointsPoint
from compliance.kinds.endpoints_curve.rules.submission import list_run_keys
from compliance.kinds.endpoints_curve.tree import find_submission_folder, list_curve_folders
from compliance.results.curves import STEADY_STATE, WHOLE_RUN, ScoredCurve
from compliance.results.errors import ErrorIndex, sort_rules
from compliance.results.machine import build_machine
from suite import registry
from suite.result import OFFLINE_REGION, Machine, ScoredPoint
from suite.units import W_PER_KW


def read_scored_curves(folder: Path, round_name: str, errors: ErrorIndex) -> list[ScoredCurve]:
    """Read the curves in a folder, with the judge's errors about it."""
    round = registry.load_endpoints_round(round_name)
    curves = []
    shared: dict[Path, Set[str]] = {}
    for each in list_curve_folders(folder):
        root = find_submission_folder(each)
        if root not in shared:
            if root != each:
                shared[root] = list_shared_rules(errors, root)
            else:
                shared[root] = set()
        curve = read_endpoints_curve(each, root, round)
        curves.append(build_scored_curve(curve, *group_curve_errors(curve, errors, shared[root])))
    return curves


def list_point_run_keys(folder: Path) -> Sequence[object]:
    """List what no other run has than that of a point."""
    return list_run_keys(read_endpoints_run(folder, folder / POINT_SUMMARY))


def build_scored_curve(
    curve: EndpointsCurve,
    of_points: Mapping[Path, tuple[str, ...]],
    own: tuple[str, ...],
) -> ScoredCurve:
    """Build the record of a curve, with the rules that are broken in the folders of its points, and
    its own.
    """
    points = [
        build_scored_point(curve, each, of_points.get(each.folder, ())) for each in curve.points
    ]
    rates = [each.system_tps for each in points if each.is_fixed and each.system_tps is not None]
    watts = curve.power.watts
    return ScoredCurve(
        path=str(curve.folder),
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
        points=tuple(points),
        point_count=len(points),
        peak=max(rates, default=None),
        offline_tps=next((each.system_tps for each in points if each.offline), None),
        compliant=not own and all(each.compliant for each in points),
        failed_rules=own,
    )


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


def list_shared_rules(errors: ErrorIndex, root: Path) -> Set[str]:
    """List the rules that are broken by what the curves of a submission share: all but its
    results.
    """
    results = root / RESULTS_FOLDER
    return {rule for file, rule in errors.get(root, ()) if not file.is_relative_to(results)}


def build_scored_point(
    curve: EndpointsCurve,
    point: EndpointsPoint,
    failed: tuple[str, ...],
) -> ScoredPoint:
    """Build the record of a point; `failed` are the rules that it breaks."""
    figures, kilowatts = point.compute_figures(), curve.compute_point_kw(point)
    rate = select_figure(figures.system_tps)
    return ScoredPoint(
        path=str(point.folder),
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
    if value is not None and 0 < value < inf:
        return value
    return None


def find_shared_text(curve: EndpointsCurve, name: str) -> str:
    """Return a text that the points disclose; empty if none does."""
    return next((found for each in curve.points if (found := each.find_text(name))), "")


def find_tokenizer(curve: EndpointsCurve) -> str:
    """Return the tokenizer in the client's configuration of a point; empty if none names it."""
    configs = [each.run.config for each in curve.points if each.run.config is not None]
    values = [each.find_value("model_params", "tokenizer_name") for each in configs]
    return next((each for each in values if isinstance(each, str) and each), "")


def find_machine(curve: EndpointsCurve) -> Machine:
    """Return the accelerators and nodes in a system's description: the sum over its types of nodes,
    or those of a description without types.
    """
    system = next((each.system for each in curve.points if each.system), {})
    types = list_tables(system.get("node_types")) or [system]
    groups = [
        build_machine({**node, **info})
        for node in types
        for info in list_tables(node.get("accelerator_info")) or [{}]
    ]
    names = dict.fromkeys(each.accelerator for each in groups if each.accelerator)
    counts = [each.accelerators for each in groups]
    nodes = [build_machine(each).nodes for each in types]
    return Machine(
        accelerator=" and ".join(names) or None,
        accelerators=None if None in counts else sum(each or 0 for each in counts),
        nodes=None if None in nodes else sum(each or 0 for each in nodes),
    )


def list_tables(value: object) -> list[Mapping[str, Any]]:
    """List the tables in a value of a description: in a list, or a single one."""
    if isinstance(value, list):
        values = value
    else:
        values = [value]
    return [each for each in values if isinstance(each, dict)]
