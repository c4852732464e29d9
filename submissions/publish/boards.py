"""The boards of a site: one page for the results of each workload and scenario."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from submissions.publish.groups import GroupedRows, build_site_table_key, group_site_rows
from submissions.publish.rows import REPORTED_KIND
from suite import registry
from suite.files.layout import convert_to_slug
from suite.result import Result
from suite.rounds.compatibility import INFERENCE_HALF, TRAINING_HALF

TITLES_WITHOUT_SCENARIO: Final = {
    TRAINING_HALF: "training",
    INFERENCE_HALF: "inference without a scenario",
}
"""Page names for results without a scenario."""
PROFILE_ORDER: Final = ("full", "quick", "smoke", "published")
"""Order of profiles on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBoard:
    """One page: the results of one workload and scenario."""

    workload: str
    half: str
    scenario: str
    tables: tuple[GroupedRows, ...]

    @property
    def label(self) -> str:
        """The scenario, or what there is in place of one."""
        return self.scenario or TITLES_WITHOUT_SCENARIO[self.half]

    @property
    def title(self) -> str:
        """The title for display."""
        row = registry.load_round().benchmarks.get(self.workload)
        return f"{row.title if row else self.workload}: {self.label}"

    @property
    def count(self) -> int:
        """The number of its rows."""
        return sum(len(table.rows) for table in self.tables)

    @property
    def reported(self) -> int:
        """The number of figures that documents report."""
        return sum(
            len(table.rows) for table in self.tables if table.rows[0].origin.kind == REPORTED_KIND
        )

    @property
    def path(self) -> str:
        """Path in the site."""
        page = convert_to_path_part(self.scenario.casefold() or self.half)
        return f"{convert_to_path_part(self.workload)}/{page}.html"


def iterate_result_boards(rows: Sequence[Result]) -> Iterator[ResultBoard]:
    """Yield a board per workload and scenario, its tables by profile, round and division."""
    for workload, half, scenario in dict.fromkeys(
        (row.workload, row.half, row.scenario or "") for row in rows
    ):
        board_rows = [
            row
            for row in rows
            if (row.workload, row.half, row.scenario or "") == (workload, half, scenario)
        ]
        kinds = sorted(
            {build_site_table_key(row) for row in board_rows},
            key=lambda kind: (
                PROFILE_ORDER.index(kind[1]) if kind[1] in PROFILE_ORDER else len(PROFILE_ORDER),
                kind[-1],
                kind,
            ),
        )
        yield ResultBoard(
            workload=workload,
            half=half,
            scenario=scenario,
            tables=tuple(
                group_site_rows([row for row in board_rows if build_site_table_key(row) == kind])
                for kind in kinds
            ),
        )


def convert_to_path_part(name: str) -> str:
    """Convert an untrusted name to a path component."""
    return convert_to_slug(name)
