"""Read the curve of one system and benchmark: its points, regions and power.

Source: Endpoints rules, 5 and 8.1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from compliance.documents.base import FolderDocument
from compliance.kinds.endpoints.documents.settings_table import select_tables
from compliance.kinds.endpoints_curve.documents.point import EndpointsPoint, read_endpoints_point
from compliance.kinds.endpoints_curve.documents.power import (
    POWER_FILE,
    SystemPower,
    find_count,
    read_system_power,
)
from compliance.kinds.endpoints_curve.tree import list_misnamed_folders, list_point_folders
from suite.rounds.endpoints_curve import EndpointsModel, EndpointsRound, PowerRules, Regions


@dataclass(frozen=True, kw_only=True, eq=False)
class EndpointsCurve(FolderDocument):
    """All points of one system and benchmark, in `results/<system>/<benchmark>`."""

    document_name: ClassVar[str] = "a curve of MLPerf Endpoints"

    root: Path
    """The submission's folder."""
    points: Sequence[EndpointsPoint]
    """By rising concurrency."""
    misnamed_folders: Sequence[Path]
    """Folders that hold a point's files, but do not count as points by their names."""
    power: SystemPower
    model: EndpointsModel | None
    round: EndpointsRound

    @property
    def system(self) -> str:
        """Name of the system's folder."""
        return self.folder.parent.name

    @property
    def is_agentic(self) -> bool:
        """Return whether the benchmark is agentic: by its row, or else by all points."""
        if self.model is not None:
            return self.model.agentic
        return bool(self.points) and all(each.is_agentic for each in self.points)

    @property
    def is_power_optional(self) -> bool:
        """Return whether the curve's division need not state power."""
        return may_omit_power(self.points, self.round.power)

    @property
    def fixed_points(self) -> Sequence[EndpointsPoint]:
        """The points with a fixed number of requests in flight: all but the Offline run."""
        return [each for each in self.points if not each.is_offline_run]

    @property
    def disclosed_points(self) -> Sequence[EndpointsPoint]:
        """Those of them whose disclosure can be read: any other may be the Offline run."""
        return [each for each in self.fixed_points if each.disclosure is not None]

    @property
    def offline_points(self) -> Sequence[EndpointsPoint]:
        """The points that are declared as the Offline result."""
        return [each for each in self.points if each.offline is not None]

    @cached_property
    def c_max(self) -> int | None:
        """The highest concurrency that the system supports, as first disclosed."""
        for point in self.points:
            found = find_integer(point.system or {}, "max_supported_concurrency")
            if found is None:
                found = point.find_integer("max_supported_concurrency")
            if found is not None:
                return found
        return None

    @cached_property
    def c_min(self) -> int | None:
        """The lowest concurrency of a point, or what the system's description puts in its place."""
        for point in self.points:
            found = find_integer(point.system or {}, "c_min_override")
            if found is not None:
                return found
        limit = self.round.regions.ultra_low_concurrency
        known = [each.concurrency for each in self.fixed_points if each.concurrency is not None]
        if known:
            return min(min(known), limit)
        return None

    @cached_property
    def regions(self) -> Regions | None:
        """The curve's regions; None if C_min or C_max is unknown, or out of range."""
        if self.c_min is None or self.c_max is None:
            return None
        return self.round.compute_regions(self.c_min, self.c_max)

    def find_region(self, point: EndpointsPoint) -> str | None:
        """Return the region of a point; None for the Offline run, and out of range."""
        if self.regions is None or point.is_offline_run or point.concurrency is None:
            return None
        return self.regions.find_region(point.concurrency)

    def compute_point_kw(self, point: EndpointsPoint) -> float | None:
        """Return the provisioned power that a point uses; None if it is not known."""
        used = {
            ensemble: float(nodes)
            for ensemble, nodes in list_used_nodes(point)
            if ensemble is not None and nodes is not None
        }
        return self.power.compute_point_kw(used)


def read_endpoints_curve(folder: Path, root: Path, round: EndpointsRound) -> EndpointsCurve:
    """Read a curve; every problem becomes a parse error of its file."""
    points = [read_endpoints_point(each, root, round) for each in list_point_folders(folder)]
    model = next((each.model for each in points if each.model), round.find_model(folder.name))
    cooling = next((found for each in points if (found := find_system_cooling(each))), None)
    return EndpointsCurve(
        folder=folder,
        root=root,
        points=sorted(points, key=lambda each: each.concurrency or 0),
        misnamed_folders=list_misnamed_folders(folder),
        power=read_system_power(
            folder.parent / POWER_FILE,
            cooling,
            round.power,
            required=not may_omit_power(points, round.power),
            cores=find_core_counts(points),
        ),
        model=model,
        round=round,
    )


def may_omit_power(points: Sequence[EndpointsPoint], rules: PowerRules) -> bool:
    """Return whether all points are of divisions that need not state power."""
    divisions = {each.find_text("division") for each in points if each.disclosure is not None}
    return bool(divisions) and divisions <= {*rules.optional_divisions}


def list_used_nodes(point: EndpointsPoint) -> list[tuple[int | None, int | None]]:
    """Return the sets of nodes that a point uses, and how many nodes of each; None for what is no
    whole number.
    """
    declared = point.find_value("nodes_used")
    if not isinstance(declared, list):
        return []
    entries = [each if isinstance(each, dict) else {} for each in declared]
    return [
        (find_integer(each, "system_node_ensemble_id"), find_integer(each, "nodes"))
        for each in entries
    ]


def find_system_cooling(point: EndpointsPoint) -> str | None:
    """Return how a point's system is cooled, as its description or that of its nodes says."""
    texts = [(point.system or {}).get("cooling")]
    texts += [each.get("cooling") for each in list_node_types(point)]
    return next((text for text in texts if isinstance(text, str) and text), None)


def find_core_counts(points: Sequence[EndpointsPoint]) -> Mapping[int, float]:
    """Return the cores of a processor in each set of nodes, as far as a description says them."""
    found = dict[int, float]()
    for node in (each for point in points for each in list_node_types(point)):
        ensemble, cores = (
            find_count(node, name)
            for name in ("system_node_ensemble_id", "host_processor_core_count")
        )
        if ensemble is not None and cores is not None:
            found.setdefault(int(ensemble), cores)
    return found


def list_node_types(point: EndpointsPoint) -> Sequence[Mapping[str, Any]]:
    """List the types of nodes in a system's description."""
    return select_tables((point.system or {}).get("node_types"))


def find_integer(values: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number of a table; None if there is none."""
    found = values.get(name)
    if isinstance(found, int) and not isinstance(found, bool):
        return found
    return None
