"""The training half of a report: quality over time, loss and rate of every epoch, and the set's
comparison with its reference convergence point.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from compliance.results.indexed_result import IndexedResult
from compliance.results.training_runs import (
    LOSS_KEY,
    THROUGHPUT_KEY,
    DrawnTrainingRun,
    DrawnTrainingSet,
)
from submissions.cells import (
    format_metric_value,
    format_score_target,
    format_score_value,
)
from submissions.report.document import Axis, Chart, Line, Mark, Note, Section, Table, Tone
from submissions.report.records.training_runs import build_evaluation_axis, read_drawn_training_set
from submissions.report.sections import names
from submissions.report.shown_table import build_shown_table
from suite import columns
from suite.columns import UNKNOWN_CELL, Column
from suite.human_numbers import SINGLE_RUN_DIGITS, format_whole_digits
from suite.measurement.data_waiting import WAITED_FOR_DATA
from suite.result import Result

Evaluations: TypeAlias = Sequence[tuple[float, Mapping[str, float]]]
"""Position on an axis and scores of each evaluation of a run."""
TOKENS_AXIS: Final = Axis(name="tokens trained", low=0.0)
EPOCH_AXIS: Final = Axis(name="epoch", whole=True)
MAX_DESCRIBED_RUNS: Final = 5
"""Maximum number of runs in a chart's description; its table has all of them."""
LEAST_SHOWN_WAITING: Final = 0.05
"""Share of an epoch from which the waiting for data gets a chart."""
FAR_FROM_ZERO: Final = 0.5
"""If the lowest score is above this share of the highest, an axis from 0 would hide the course."""


def build_training_section(result: IndexedResult, score: Result) -> Section:
    """Show a run set: its evaluations, its runs, its reference convergence point."""
    drawn = read_drawn_training_set(result, score)
    where = names.build_result_id(score)
    charts = [
        *build_quality_charts(drawn, score, where),
        *build_token_quality_charts(drawn, score, where),
        *build_epoch_stats_charts(drawn.runs, where),
    ]
    notes = []
    if not charts:
        missing = "The logs contain no evaluation that can be drawn."
        notes.append(Note(text=missing, tone=Tone.CAUTION))
    return Section(
        id=f"training-{where}",
        title="Training",
        intro=describe_training_runs(score),
        charts=tuple(charts),
        notes=tuple(notes),
        tables=(build_training_runs_table(drawn, score), *build_convergence_tables(score)),
    )


def describe_training_runs(score: Result) -> str:
    """Describe what was trained, and the target."""
    target = " and ".join(
        f"{metric} {format_score_target(score, metric)}" for metric in score.target
    )
    reached = sum(run is not None for run in score.runs)
    if not target:
        return f"{len(score.runs)} runs."
    runs = f"{len(score.runs)} run{'s' if len(score.runs) != 1 else ''}"
    return f"{runs} to the target of {target}; {reached} reached the target."


def build_quality_charts(drawn: DrawnTrainingSet, score: Result, where: str) -> Iterator[Chart]:
    """Draw each metric over time, or over the progress at which it was evaluated, one line per
    run.
    """
    axis = build_evaluation_axis(drawn)
    if axis.unit:
        over, after = "time", "minutes"
    else:
        over, after = axis.name, drawn.progress_name
    yield from build_quality_courses(
        [run.evaluations for run in drawn.runs], axis, (over, after), score, where
    )


def build_token_quality_charts(
    drawn: DrawnTrainingSet, score: Result, where: str
) -> Iterator[Chart]:
    """Draw each metric of a language model over the tokens trained; nothing if its logs do not tell
    them.
    """
    yield from build_quality_courses(
        [run.token_evaluations for run in drawn.runs],
        TOKENS_AXIS,
        ("tokens", "tokens"),
        score,
        f"{where}-tokens",
    )


def build_quality_courses(
    runs: Sequence[Evaluations],
    axis: Axis,
    words: tuple[str, str],
    score: Result,
    where: str,
) -> Iterator[Chart]:
    """Draw each metric of some runs' evaluations over an axis, one line per run; `words` say over
    what, and in what.
    """
    over, after = words
    for metric in dict.fromkeys(name for run in runs for _, scores in run for name in scores):
        lines = [
            Line(name=format_run_label(number, runs), points=points, dots=True)
            for number, run in enumerate(runs)
            if (points := list_drawn_scores(run, metric))
        ]
        marks = []
        target_phrase = "without a known target"
        if (target := score.target.get(metric)) is not None:
            goal = format_score_target(score, metric)
            marks.append(Mark(name=f"target {goal}", value=target, upright=False))
            target_phrase = f"with the target of {goal}"
        last = "; ".join(
            f"{line.name.capitalize()} ends with {format_score_value(line.points[-1][1])} after"
            f" {format_axis_position(line.points[-1][0], axis)} {after}"
            for line in lines[:MAX_DESCRIBED_RUNS]
        )
        values = [value for line in lines for _, value in line.points]
        yield Chart(
            id=f"quality-{metric}-{where}",
            title=f"{metric} over {over}",
            description=f"{metric} after each evaluation, {target_phrase}. {last}.",
            x=axis,
            y=Axis(name=metric, low=None if min(values) > FAR_FROM_ZERO * max(values) else 0.0),
            lines=tuple(lines),
            marks=tuple(marks),
        )


def format_axis_position(value: float, axis: Axis) -> str:
    """Format a position on the axis of a run set: minutes, or progress."""
    if axis.unit:
        return format_whole_digits(value, SINGLE_RUN_DIGITS)
    return f"{value:,.12g}"


def format_run_label(number: int, runs: Sequence[object]) -> str:
    """Label a run."""
    if len(runs) > 1:
        return f"run {number}"
    return "the run"


def list_drawn_scores(run: Evaluations, metric: str) -> tuple[tuple[float, float], ...]:
    """Return positions and scores of a run's evaluations in one metric."""
    return tuple((position, scores[metric]) for position, scores in run if metric in scores)


def build_epoch_stats_charts(runs: Sequence[DrawnTrainingRun], where: str) -> Iterator[Chart]:
    """Draw loss and rate per epoch."""
    for key, title, unit, low in (
        (LOSS_KEY, "Loss", "", None),
        (THROUGHPUT_KEY, "Training rate", "samples/s", 0.0),
        (WAITED_FOR_DATA, "Share of the time that steps waited for data", "", 0.0),
    ):
        lines = [
            Line(name=format_run_label(number, runs), points=points, dots=True)
            for number, run in enumerate(runs)
            if (points := run.epoch_values.get(key, ()))
        ]
        if key == WAITED_FOR_DATA and not has_waited_for_data(lines):
            continue
        if lines:
            names = [f"{line.name}: " if len(lines) > 1 else "" for line in lines]
            first_and_last = [
                (line.points[0][1], line.points[-1][1]) for line in lines[:MAX_DESCRIBED_RUNS]
            ]
            ends = "; ".join(
                f"{name}{format_whole_digits(first)} in the first,"
                f" {format_whole_digits(last)} in the last"
                for name, (first, last) in zip(names, first_and_last, strict=False)
            )
            text = f"{title} of each epoch, as logged{f', in {unit}' if unit else ''}: {ends}."
            yield Chart(
                id=f"{key}-{where}",
                title=f"{title} per epoch",
                description=text,
                x=EPOCH_AXIS,
                y=Axis(name=key, unit=unit, low=low),
                lines=tuple(lines),
            )


def has_waited_for_data(lines: Sequence[Line]) -> bool:
    """Return whether the shares of waiting are worth a chart: most runs hardly wait."""
    return any(share >= LEAST_SHOWN_WAITING for line in lines for _, share in line.points)


class TrainedRunMinutes(NamedTuple):
    """A run of a run set with its scored minutes."""

    run: DrawnTrainingRun
    minutes: float | None


def format_last_scores(row: TrainedRunMinutes) -> str:
    """Format the scores at the end of a log; a dash if there are none."""
    scores = row.run.final.items()
    told = ", ".join(f"{metric} {format_score_value(value)}" for metric, value in scores)
    return told or UNKNOWN_CELL


def format_last_progress(row: TrainedRunMinutes) -> str:
    """Format the progress at the end of a log; a dash if it is unknown."""
    progress = row.run.progress
    if progress is None:
        return UNKNOWN_CELL
    return f"{progress:,.12g}"


def build_training_runs_table(drawn: DrawnTrainingSet, score: Result) -> Table:
    """Show each run's minutes, progress, quality and seed."""
    shown: columns.Table[TrainedRunMinutes] = columns.Table(
        columns=(
            Column("log", lambda row: row.run.log),
            Column("minutes", lambda row: row.minutes, digits=4),
            Column(drawn.progress_name, format_last_progress, numeric=True),
            Column("last evaluation", format_last_scores),
            Column("target reached", lambda row: row.run.reached),
            Column("seed", lambda row: row.run.seed, tell=format_seed, numeric=True),
        )
    )
    rows = [TrainedRunMinutes(*each) for each in zip(drawn.runs, score.runs, strict=True)]
    return build_shown_table("Runs", shown, rows)


def format_seed(row: TrainedRunMinutes) -> str:
    """Format the seed of a run; a dash if it is not logged."""
    if row.run.seed is None:
        return UNKNOWN_CELL
    return str(row.run.seed)


def build_convergence_tables(score: Result) -> Iterator[Table]:
    """Show a set's comparison with its reference convergence point, and the minutes that MLCommons
    publishes; nothing without such a comparison.
    """
    convergence = score.convergence
    if not convergence:
        return
    shown = {
        "outcome": convergence.outcome,
        "reference convergence point": convergence.point,
        "global batch size": convergence.batch,
        "mean of the reference's runs": convergence.reference_mean,
        "least mean that passes": convergence.least_mean,
        "mean of these runs": convergence.mean,
        "factor": convergence.factor,
        "minutes of these runs": format_metric_value(score.value, ""),
        "MLCommons' headline, in minutes": format_metric_value(score.headline, ""),
    }
    yield Table(
        title="Reference convergence",
        columns=("what", "value"),
        rows=tuple(
            (name, f"{value:,.9g}" if isinstance(value, float) else str(value))
            for name, value in shown.items()
            if value is not None
        ),
    )
