"""The episode that an evaluation logged: its images in order, the policy's own estimate, and the
metric over epochs.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compliance.kinds.podium.documents.training import TrainingLog, read_training_log
from compliance.logs.finite_numbers import is_finite_number
from compliance.results.indexed_result import IndexedResult
from submissions.cells import format_score_target, format_score_value
from submissions.report.document import Axis, Chart, Gallery, Line, Mark, Note, Section, Tone
from submissions.report.sections.training import format_run_label
from suite import registry
from suite.errors import MissingError
from suite.events import EPOCH_NUM, EXAMPLE
from suite.examples import Episode, ExampleKind
from suite.result import Result

EPISODE_TITLE = "What the model does in an evaluation"
CHANCES_AXIS_NAME = "winning probability, 0 to 1"


def build_episode_section(result: IndexedResult, score: Result) -> Section | None:
    """Show the example from the last evaluation of the first run; None if the workload defines
    none, or the logs are from a published round or an older podium.
    """
    build_episode = load_episode_builder(score.workload)
    if build_episode is None or registry.load_round_kind(score.round).published:
        return None
    runs = [
        read_training_log(log, registry.load_round(score.round), None)
        for log in result.training_logs
    ]
    if runs:
        example_records = runs[0].list_records(EXAMPLE)
    else:
        example_records = ()
    if not example_records:
        return None
    where = f"episode-{score.workload}-{score.system}"
    try:
        episode = build_episode(example_records[-1].value)
    except ValueError as error:
        return Section(
            id=where,
            title=EPISODE_TITLE,
            notes=(Note(text=f"No example: {error}.", tone=Tone.CAUTION),),
        )
    epoch = example_records[-1].event.metadata.get(EPOCH_NUM)
    intro = ""
    if is_finite_number(epoch):
        intro = f"After {episode.epoch_name} {epoch:g} of {format_run_label(0, runs)}."
    return Section(
        id=where,
        title=episode.title,
        intro=intro,
        charts=(
            build_winning_estimate_chart(episode, where),
            *build_epoch_score_charts(runs, score, episode.epoch_name, where),
        ),
        galleries=(
            Gallery(
                title=episode.title,
                description=episode.description,
                kind=ExampleKind.FRAMES,
                shown=episode.frames,
            ),
        ),
    )


def load_episode_builder(workload: str) -> Callable[[Any], Episode] | None:
    """Return the function that builds an evaluation's example; None if the workload has none, or
    its package is broken.
    """
    try:
        builder: Callable[[Any], Episode] | None = registry.load_workload_part(
            workload, "episodes of workload", "episode"
        )
    except MissingError:
        return None
    return builder


def build_winning_estimate_chart(episode: Episode, where: str) -> Chart:
    """Draw the policy's winning estimate."""
    first, last = (f"{value:.2f}" for _, value in (episode.estimates[0], episode.estimates[-1]))
    return Chart(
        id=f"estimate-{where}",
        title="Winning estimate over the moves",
        description=(
            f"The policy's estimate of its winning probability at each of its moves: {first} at the"
            f" first, {last} at the last."
        ),
        x=Axis(name="move", low=0.0, whole=True),
        y=Axis(name=CHANCES_AXIS_NAME, low=0.0, high=1.0),
        lines=(Line(name="the policy", points=episode.estimates, dots=True),),
        marks=(Mark(name="even", value=0.5, upright=False),),
    )


def build_epoch_score_charts(
    runs: Sequence[TrainingLog], score: Result, epoch_name: str, where: str
) -> Iterator[Chart]:
    """Draw each metric over epochs, one line per run."""
    for metric in dict.fromkeys(
        name for run in runs for each in run.iterate_evaluations() for name in each.scores
    ):
        lines = [
            Line(name=format_run_label(number, runs), points=points, dots=True)
            for number, run in enumerate(runs)
            if (points := list_epoch_scores(run, metric))
        ]
        marks = []
        if (target := score.target.get(metric)) is not None:
            goal = f"target {format_score_target(score, metric)}"
            marks.append(Mark(name=goal, value=target, upright=False))
        if lines:
            ends = "; ".join(
                f"{line.name.capitalize()}: {format_score_value(line.points[-1][1])} after"
                f" {epoch_name} {line.points[-1][0]:g}"
                for line in lines[:5]
            )
            yield Chart(
                id=f"{metric}-{where}",
                title=f"{metric} over {epoch_name}s",
                description=f"{metric} at each evaluation. {ends}.",
                x=Axis(name=epoch_name, low=0.0, whole=True),
                y=Axis(
                    name=metric,
                    low=0.0,
                    high=None if metric in score.quality.lower_is_better else 1.0,
                ),
                lines=tuple(lines),
                marks=tuple(marks),
            )


def list_epoch_scores(run: TrainingLog, metric: str) -> tuple[tuple[float, float], ...]:
    """Return epochs and scores of a run's evaluations."""
    scores = ((each.epoch, each.scores.get(metric)) for each in run.iterate_evaluations())
    return tuple(
        (float(epoch), value)
        for epoch, value in scores
        if is_finite_number(epoch) and value is not None
    )
