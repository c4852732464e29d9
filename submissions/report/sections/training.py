"""The training half of a report: quality over time, and loss and rate of every epoch, read with the
judge's readers.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from compliance.documents.podium.training import TrainingLog, is_finite_number, read_training_log
from submissions.report.document import Axis, Chart, Line, Mark, Note, Section, Table, Tone
from submissions.report.records.telemetry import MINUTES_AXIS_UNIT
from submissions.result_index import IndexedResult
from submissions.score.score import Score
from submissions.tables import format_score_value
from suite import registry
from suite.events import EPOCH_NUM, RUN_START, SEED, SUCCESS, THROUGHPUT
from suite.rounds import RoundKind
from suite.units import MS_PER_MINUTE

EPOCH_AXIS: Final = Axis(name="epoch", whole=True)
THROUGHPUT_KEY: Final = "throughput"
LOSS_KEY: Final = "loss"


def build_training_section(result: IndexedResult, score: Score) -> Section:
    """Show a training set; for a published round, list its runs only."""
    runs: list[TrainingLog] = []
    if registry.load_round_kind(score.round) is RoundKind.PODIUM:
        runs = [
            read_training_log(log, registry.load_round(score.round), None)
            for log in result.training_logs
        ]
    where = f"{score.workload}-{score.system}"
    charts = [*build_quality_charts(runs, score, where), *build_epoch_stats_charts(runs, where)]
    notes = (
        ()
        if charts
        else (Note(text="The logs contain no evaluation that can be drawn.", tone=Tone.CAUTION),)
    )
    return Section(
        id=f"training-{where}",
        title="Training",
        intro=describe_training_runs(score),
        charts=tuple(charts),
        notes=notes,
        tables=(build_training_runs_table(result, runs, score),),
    )


def describe_training_runs(score: Score) -> str:
    """Describe what was trained, and the target."""
    target = " and ".join(
        f"{metric} {format_score_value(value)}" for metric, value in score.target.items()
    )
    reached = sum(run is not None for run in score.runs)
    goal = f" to the target of {target}" if target else ""
    return (
        f"{len(score.runs)} run{'s' if len(score.runs) != 1 else ''}{goal}; {reached} reached the "
        "target."
        if target
        else f"{len(score.runs)} runs."
    )


def build_quality_charts(runs: Sequence[TrainingLog], score: Score, where: str) -> Iterator[Chart]:
    """Draw each metric over time, one line per run."""
    for metric in dict.fromkeys(
        name for run in runs for each in run.iterate_evaluations() for name in each.scores
    ):
        lines = [
            Line(name=format_run_label(number, runs), points=points, dots=True)
            for number, run in enumerate(runs)
            if (points := list_timed_scores(run, metric))
        ]
        if not lines:
            continue
        target = score.target.get(metric)
        target_phrase = (
            "without a known target"
            if target is None
            else f"with the target of {format_score_value(target)}"
        )
        last = "; ".join(
            f"{line.name.capitalize()} ends with {format_score_value(line.points[-1][1])} after"
            f" {line.points[-1][0]:.2f} minutes"
            for line in lines[:5]
        )
        yield Chart(
            id=f"quality-{metric}-{where}",
            title=f"{metric} over time",
            description=f"{metric} after each evaluation, {target_phrase}. {last}.",
            x=build_training_time_axis(runs),
            y=Axis(name=metric, low=0.0),
            lines=tuple(lines),
            marks=(
                ()
                if target is None
                else (
                    Mark(name=f"target {format_score_value(target)}", value=target, upright=False),
                )
            ),
        )


def build_training_time_axis(runs: Sequence[TrainingLog]) -> Axis:
    """Return the time axis of a training set, to the end of its longest run; its quality and
    machine charts share it.
    """
    return Axis(
        name="time since run_start",
        unit=MINUTES_AXIS_UNIT,
        low=0.0,
        high=max((run.minutes for run in runs if run.minutes is not None), default=None),
    )


def format_run_label(number: int, runs: Sequence[TrainingLog]) -> str:
    """Label a run."""
    return f"run {number}" if len(runs) > 1 else "the run"


def list_timed_scores(run: TrainingLog, metric: str) -> tuple[tuple[float, float], ...]:
    """Return minutes and scores of a run's evaluations."""
    start = run.find_first_record(RUN_START)
    if start is None:
        return ()
    records = zip(run.list_records("eval_accuracy"), run.iterate_evaluations(), strict=True)
    timed_scores = (
        (record.event.time_ms - start.event.time_ms, each.scores.get(metric))
        for record, each in records
    )
    return tuple((ms / MS_PER_MINUTE, value) for ms, value in timed_scores if value is not None)


def build_epoch_stats_charts(runs: Sequence[TrainingLog], where: str) -> Iterator[Chart]:
    """Draw loss and rate per epoch."""
    for key, title, unit, low in (
        (LOSS_KEY, "Loss", "", None),
        (THROUGHPUT_KEY, "Training rate", "samples/s", 0.0),
    ):
        lines = [
            Line(name=format_run_label(number, runs), points=points, dots=True)
            for number, run in enumerate(runs)
            if (points := list_epoch_values(run, key))
        ]
        if lines:
            names = [f"{line.name}: " if len(lines) > 1 else "" for line in lines]
            first_and_last = [(line.points[0][1], line.points[-1][1]) for line in lines[:5]]
            ends = "; ".join(
                f"{name}{first:.4g} in the first, {last:.4g} in the last"
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


def list_epoch_values(run: TrainingLog, key: str) -> tuple[tuple[float, float], ...]:
    """Return epochs and values of a metric logged once per epoch."""
    epoch_stats = (
        (record.event.metadata.get(EPOCH_NUM), record.value)
        for record in run.list_records(THROUGHPUT)
    )
    return tuple(
        (float(epoch), float(value[key]))
        for epoch, value in epoch_stats
        if is_finite_number(epoch) and isinstance(value, dict) and is_finite_number(value.get(key))
    )


def build_training_runs_table(
    result: IndexedResult, runs: Sequence[TrainingLog], score: Score
) -> Table:
    """Show each run's minutes, epochs, quality and seed."""
    rows = []
    for number, (log, minutes) in enumerate(zip(result.training_logs, score.runs, strict=True)):
        run = runs[number] if runs else None
        rows.append(
            (
                log.name,
                "-" if minutes is None else f"{minutes:.4f}",
                *(format_run_end(run) if run else ("-", "-", "-", "-")),
            )
        )
    return Table(
        title="Runs",
        columns=("log", "minutes", "epochs", "last evaluation", "target reached", "seed"),
        rows=tuple(rows),
        numeric=(1, 2, 5),
    )


def format_run_end(run: TrainingLog) -> tuple[str, str, str, str]:
    """Format the values at the end of a log."""
    last = list(run.iterate_evaluations())[-1:]
    epochs = f"{last[0].epoch:g}" if last and is_finite_number(last[0].epoch) else "-"
    scores = ", ".join(
        f"{metric} {format_score_value(value)}"
        for each in last
        for metric, value in each.scores.items()
        if value is not None
    )
    return (
        epochs,
        scores or "-",
        "yes" if run.status == SUCCESS else "no",
        str(run.find_value(SEED) if run.find_value(SEED) is not None else "-"),
    )
