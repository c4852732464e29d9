"""The study of two sides: `podium ab`. Its plan is the block design and the sequential decision."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from suite.ab.answer import (
    AbAnswer,
    AbStep,
    compute_ab_answer,
    describe_ab,
    describe_ends,
    is_settled,
)
from suite.ab.runs import AbFigures, AbMeasured, compute_ab_figures, list_blocks
from suite.ab.sides import (
    AB_KIND,
    ACCURACY_RUN,
    BLOCK_RUN,
    AbPoint,
    AbRequest,
    list_preparations,
    plan_block,
)
from suite.columns import Column, Table
from suite.loadgen.scenario import Scenario, parse_scenarios
from suite.studies.kind import PlannedRun, StudiedRow, StudiedSystem, StudyKind
from suite.studies.points import StudiedPoint, describe_figures
from suite.studies.run_facts import RunFacts
from suite.units import MS_PER_S
from suite.workload import Mode

DURATION_SETTING: Final = "loadgen.min_duration_ms"
ONCE: Final = 1


def find_step(row: StudiedRow) -> AbStep | None:
    """Return what is known after the block of a row; None of a run before the blocks."""
    steps: Sequence[AbStep] = row.answer.steps
    return next((each for each in steps if each.block == row.point.block), None)


def tell_speeds(row: StudiedRow, side: str) -> str:
    """Format the speeds of a side in a block."""
    step = find_step(row)
    if step is None:
        return ""
    return ", ".join(f"{each:,.1f}" for each in getattr(step, side))


def tell_interval(row: StudiedRow) -> str:
    """Format the interval of the ratio after the block of a row."""
    step = find_step(row)
    if step is None:
        return ""
    return describe_ends(step.decision)


def read_step(row: StudiedRow, name: str) -> Any:
    """Return a field of what is known after a block; None of another run."""
    step = find_step(row)
    return None if step is None else getattr(step, name)


def read_decision(row: StudiedRow, name: str) -> Any:
    """Return a field of the decision after a block; None of another run."""
    decision = read_step(row, "decision")
    return getattr(decision, name, None)


AB_TABLE: Final[Table[StudiedRow]] = Table(
    columns=(
        Column("block", lambda row: row.point.block, numeric=True),
        Column("order", lambda row: read_step(row, "order")),
        Column(
            "a", lambda row: read_step(row, "a"), title="A", tell=lambda row: tell_speeds(row, "a")
        ),
        Column(
            "b", lambda row: read_step(row, "b"), title="B", tell=lambda row: tell_speeds(row, "b")
        ),
        Column("ratio", lambda row: read_step(row, "ratio"), title="B/A", digits=3),
        Column("so_far", lambda row: read_decision(row, "ratio"), title="so far", digits=3),
        Column(
            "interval",
            lambda row: (read_decision(row, "low"), read_decision(row, "high")),
            tell=tell_interval,
            numeric=True,
        ),
        Column(
            "disturbed",
            lambda row: read_step(row, "disturbed") or read_step(row, "remark") or None,
            optional=True,
        ),
    )
)


class AbComparison(StudyKind[AbRequest, AbPoint, AbFigures]):
    """Two sides in turn, until it is known which one is faster."""

    name = AB_KIND
    note = "two sides in turn, each run in processes of its own; a study, not a result"
    request = AbRequest
    point = AbPoint
    table = AB_TABLE
    has_several_systems = True
    is_ordered = True
    is_exact = True
    compares_sides = True
    plan_unit = "run"

    def build_request(self, values: Mapping[str, Any], system: StudiedSystem) -> AbRequest:
        """Return the request that the command has resolved: no system is set up in its process."""
        found: AbRequest = values["request"]
        return found

    def adopt_request(self, earlier: AbRequest, now: AbRequest) -> AbRequest | None:
        """Continue a comparison of the same sides, whatever its budget, in its own order."""
        again = replace(now, seed=earlier.seed)
        if replace(again, minutes=earlier.minutes) != earlier:
            return None
        return again

    def choose_next_point(self, request: AbRequest, done: Sequence[AbMeasured]) -> AbPoint | None:
        """Return the next run before the blocks, or of the block that is begun, or of a new one
        unless it is settled; nothing once the budget holds no block.
        """
        measured = {each.point for each in done}
        for point in list_preparations(request):
            if point not in measured:
                return None if is_settled(request, done) else point
        last = max((each.point.block for each in done), default=0)
        left = [each for each in plan_block(request, last) if each not in measured] if last else []
        if left:
            return left[0]
        if is_settled(request, done):
            return None
        return plan_block(request, last + 1)[0]

    def limit_repeats(self, point: AbPoint, repeats: int) -> int:
        """Measure each run once: the blocks repeat them."""
        return ONCE

    def name_point(self, point: AbPoint) -> str:
        """Return the name of a run's folder."""
        if point.run == BLOCK_RUN:
            return f"block-{point.block:03}-turn-{point.turn}"
        return point.run

    def describe_run(self, request: AbRequest, point: AbPoint) -> PlannedRun:
        """Describe a run: as long as the command asks for, with what its side has."""
        settings = request.get_side(point.side).settings
        if point.run == ACCURACY_RUN:
            return PlannedRun(
                scenario=Scenario.OFFLINE,
                settings=settings,
                mode=Mode.ACCURACY,
                side=point.side,
                keeps_round=False,
            )
        (scenario,) = parse_scenarios(request.scenario)
        length = {DURATION_SETTING: round(request.seconds * MS_PER_S)}
        return PlannedRun(
            scenario=scenario,
            settings={**settings, **length},
            side=point.side,
            keeps_round=False,
            is_training=request.training,
        )

    def is_complete(self, request: AbRequest, point: AbPoint, run: RunFacts) -> bool:
        """Return whether a run has a speed or answers, and LoadGen logged no error that voids it.
        One that ended sooner than asked for is as good.
        """
        return not run.errors

    def compute_figures(
        self, request: AbRequest, point: AbPoint, run: RunFacts
    ) -> AbFigures | None:
        """Compute speed, times and what disturbed a run."""
        return compute_ab_figures(run, training=request.training)

    def arrange_rows(
        self, requests: Sequence[AbRequest], points: Sequence[AbMeasured]
    ) -> Sequence[AbMeasured]:
        """Return a row for each block that is complete."""
        return [*iterate_block_rows(points)]

    def compute_answer(
        self, requests: Sequence[AbRequest], points: Sequence[AbMeasured]
    ) -> AbAnswer:
        """Return what the blocks say."""
        return compute_ab_answer(requests[-1], points)

    def describe_answer(
        self, request: AbRequest, answer: AbAnswer, points: Sequence[AbMeasured]
    ) -> Sequence[str]:
        """Say who is faster, and how that was found."""
        return describe_ab(request, answer, points)

    def describe_failure(self, answer: AbAnswer) -> str:
        """Return which accuracy was lost."""
        return answer.lost

    def describe_row(self, row: StudiedRow) -> Mapping[str, Any]:
        """Return a block as JSON."""
        step = find_step(row)
        figures = dict(describe_figures(row.studied))
        figures.pop("answers", None)
        return figures if step is None else asdict(step)

    def describe_point(self, row: StudiedRow) -> str:
        """Describe a run in one line."""
        rate = row.find_figure("rate")
        scores = row.find_figure("scores") or {}
        told = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
        return f"{self.name_point(row.point)} {row.point.side.upper()}: " + (
            told if rate is None else f"{rate:,.1f} /s"
        )


def iterate_block_rows(points: Sequence[AbMeasured]) -> Iterator[AbMeasured]:
    """Yield a point for each complete block, with its four runs."""
    for block in list_blocks(points):
        runs = [each for each in points if each.point.block == block.number and each.runs]
        first = min(runs, key=lambda each: each.point.turn)
        yield StudiedPoint(
            point=first.point,
            runs=tuple(run for each in runs for run in each.runs),
            figures=first.figures,
        )


AB: Final = AbComparison()
