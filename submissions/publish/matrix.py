"""The front page's matrix: what each system reached in each workload."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from submissions.publish.boards import ResultBoard
from submissions.publish.groups import GroupedRows, is_group_letter
from submissions.publish.rows import (
    BUNDLE_KIND,
    format_row_verdict,
    get_row_bundle,
    get_row_processor,
)
from suite import registry
from suite.loadgen.scenario import Scenario
from suite.result import Result
from suite.rounds.compatibility import TRAINING_HALF

LONGEST_MATRIX: Final = 12
"""Systems above which the matrix scrolls in its own frame."""
FEWEST_DRAWN_ROWS: Final = 2
"""Of one result there is no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixFigure:
    """One figure in a cell."""

    label: str
    """The scenario, or training."""
    row: Result
    letter: str
    """Of its group in its table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """The figures of one system in one workload."""

    figures: tuple[MatrixFigure, ...] = ()

    @property
    def shared_reason(self) -> str:
        """Why no figure was tested, if it is the same for all; empty otherwise."""
        reasons = {figure.letter for figure in self.figures}
        if len(reasons) != 1 or any(map(is_group_letter, reasons)):
            return ""
        return reasons.pop()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixLine:
    """One system, in one round, profile and division."""

    system: Result
    """A result of the system, which names it."""
    bundle: str
    """What tells its bundle from others of the same system; empty if there are none."""
    cells: tuple[MatrixCell, ...]
    """For each workload of the matrix, in the order of its boards."""

    @property
    def verdicts(self) -> tuple[str, ...]:
        """The judge's verdicts on the line's results, each once."""
        rows = (figure.row for cell in self.cells for figure in cell.figures)
        return tuple(dict.fromkeys(format_row_verdict(row) for row in rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSummary:
    """One workload of the front page: a column of the matrix, and a section of its own."""

    workload: str
    boards: tuple[ResultBoard, ...]

    @property
    def title(self) -> str:
        """The title for display."""
        row = registry.load_round().benchmarks.get(self.workload)
        return row.title if row else self.workload

    @property
    def drawn_tables(self) -> tuple[tuple[ResultBoard, GroupedRows], ...]:
        """For each board its longest table of bundles that has at least two values."""
        return tuple(iterate_drawn_tables(self.boards))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultMatrix:
    """The front page's results: systems against workloads."""

    columns: tuple[WorkloadSummary, ...]
    """Workloads that a bundle has results of."""
    lines: tuple[MatrixLine, ...]

    @property
    def is_long(self) -> bool:
        """Whether it scrolls in a frame of its own."""
        return len(self.lines) > LONGEST_MATRIX


def group_boards_by_workload(boards: Sequence[ResultBoard]) -> tuple[WorkloadSummary, ...]:
    """Collect the boards of each workload: training, LoadGen's scenarios, then what has none."""
    found: dict[str, list[ResultBoard]] = defaultdict(list)
    for board in sorted(boards, key=rank_board):
        found[board.workload].append(board)
    return tuple(
        WorkloadSummary(workload=workload, boards=tuple(members))
        for workload, members in sorted(found.items())
    )


def rank_board(board: ResultBoard) -> tuple[bool, int]:
    """Return the place of a board among those of its workload."""
    known = [scenario.label for scenario in Scenario]
    place = known.index(board.scenario) if board.scenario in known else len(known)
    return board.half != TRAINING_HALF, place


def build_result_matrix(summaries: Sequence[WorkloadSummary]) -> ResultMatrix:
    """Arrange the results of bundles by system; published rows are on the boards alone."""
    figures = {each.workload: collect_system_figures(each) for each in summaries}
    columns = tuple(each for each in summaries if figures[each.workload])
    systems: dict[tuple[object, ...], Result] = {}
    for column in columns:
        for key, found in figures[column.workload].items():
            systems.setdefault(key, found[0].row)
    several = find_repeated_systems(systems)
    return ResultMatrix(
        columns=columns,
        lines=tuple(
            MatrixLine(
                system=row,
                bundle=get_row_bundle(row) if key[:-1] in several else "",
                cells=tuple(
                    MatrixCell(figures=tuple(figures[each.workload].get(key, ())))
                    for each in columns
                ),
            )
            for key, row in sorted(systems.items(), key=lambda item: str(item[0]))
        ),
    )


def collect_system_figures(
    summary: WorkloadSummary,
) -> Mapping[tuple[object, ...], Sequence[MatrixFigure]]:
    """Collect a workload's figures by system, each in the order of boards, the best first."""
    found: dict[tuple[object, ...], list[MatrixFigure]] = defaultdict(list)
    for board in summary.boards:
        for row, letter in iterate_bundle_rows(board):
            figure = MatrixFigure(label=board.label, row=row, letter=letter)
            found[identify_row_system(row)].append(figure)
    return found


def iterate_bundle_rows(board: ResultBoard) -> Iterator[tuple[Result, str]]:
    """Yield the rows of bundles with their letters."""
    for table in board.tables:
        for row, letter in zip(table.rows, table.letters, strict=True):
            if row.origin.kind == BUNDLE_KIND:
                yield row, letter


def iterate_drawn_tables(
    boards: Sequence[ResultBoard],
) -> Iterator[tuple[ResultBoard, GroupedRows]]:
    """Yield each board with the table that the front page draws, if it has one."""
    for board in boards:
        tables = [table for table in board.tables if count_drawn_rows(table) >= FEWEST_DRAWN_ROWS]
        if tables:
            yield board, max(tables, key=count_drawn_rows)


def count_drawn_rows(table: GroupedRows) -> int:
    """Count the bundles of a table that have a value."""
    return sum(row.origin.kind == BUNDLE_KIND and row.value is not None for row in table.rows)


def identify_row_system(row: Result) -> tuple[object, ...]:
    """Return what the results of one line of the matrix share: a system, and last its bundle."""
    machine = format_row_machine(row)
    return row.org, row.system, row.round, row.profile, row.division, machine, row.origin.id


def find_repeated_systems(keys: Iterable[tuple[object, ...]]) -> set[tuple[object, ...]]:
    """Find the systems that several bundles have results of."""
    counts = Counter(key[:-1] for key in keys)
    return {system for system, count in counts.items() if count > 1}


def format_row_machine(row: Result) -> str:
    """Format the number and kind of accelerators or processors."""
    if not row.accelerators:
        if row.accelerators == 0:
            return get_row_processor(row) or "CPU"
        return row.accelerator or "-"
    return (
        f"{row.accelerators} \u00d7 {row.accelerator}" if row.accelerator else str(row.accelerators)
    )
