"""What an evaluation looked at, as its training log has it: pictures in their order, the policy's
own estimate, and the metric over epochs.
"""

from collections.abc import Iterator, Sequence

from compliance.documents.podium.training import TrainingLog, finite, read_log
from submissions.report.document import Axis, Chart, Gallery, Line, Mark, Note, Section, Tone
from submissions.report.sections.training import named
from submissions.result_index import Result
from submissions.score.score import Score
from submissions.tables import digits
from suite import registry
from suite.events import EPOCH_NUM, EXAMPLE
from suite.examples import Episode, ExampleKind
from suite.rounds import RoundKind

TITLE = "What the model does in an evaluation"
SHARE = "chances, 0 to 1"


def section(result: Result, score: Score) -> Section | None:
    """Draw the last evaluation's example of the first run; None where the workload shows none, or
    the logs are of a published round or an earlier podium.
    """
    if (
        score.workload not in registry.points(registry.EPISODES)
        or registry.kind_of_round(score.round) is not RoundKind.PODIUM
    ):
        return None
    runs = [read_log(log, registry.round(score.round), None) for log in result.logs]
    told = runs[0].all(EXAMPLE) if runs else ()
    if not told:
        return None
    where = f"episode-{score.workload}-{score.system}"
    try:
        episode: Episode = registry.resolve(
            registry.EPISODES, "episodes of workload", score.workload
        )(told[-1].value)
    except ValueError as error:
        return Section(
            id=where, title=TITLE, notes=(Note(text=f"No example: {error}.", tone=Tone.CAUTION),)
        )
    epoch = told[-1].event.metadata.get(EPOCH_NUM)
    return Section(
        id=where,
        title=episode.title,
        intro=f"After {episode.epoch_name} {epoch:g} of {named(0, runs)}." if finite(epoch) else "",
        charts=(estimate(episode, where), *over_epochs(runs, score, episode.epoch_name, where)),
        galleries=(
            Gallery(
                title=episode.title,
                description=episode.description,
                kind=ExampleKind.FRAMES,
                shown=episode.frames,
            ),
        ),
    )


def estimate(episode: Episode, where: str) -> Chart:
    """Draw how the policy saw its chances."""
    first, last = (f"{value:.2f}" for _, value in (episode.estimates[0], episode.estimates[-1]))
    return Chart(
        id=f"estimate-{where}",
        title="Winning estimate over the moves",
        description=(
            f"What the policy thought of its own chances at each of its moves: {first} at the"
            f" first, {last} at the last."
        ),
        x=Axis(name="move", low=0.0, whole=True),
        y=Axis(name=SHARE, low=0.0, high=1.0),
        lines=(Line(name="the policy", points=episode.estimates, dots=True),),
        marks=(Mark(name="even", value=0.5, upright=False),),
    )


def over_epochs(
    runs: Sequence[TrainingLog], score: Score, epoch_name: str, where: str
) -> Iterator[Chart]:
    """Draw each metric over epochs, one line per run."""
    for metric in dict.fromkeys(
        name for run in runs for each in run.evaluations() for name in each.scores
    ):
        lines = [
            Line(name=named(number, runs), points=points, dots=True)
            for number, run in enumerate(runs)
            if (points := scored(run, metric))
        ]
        target = score.target.get(metric)
        if lines:
            ends = "; ".join(
                f"{line.name.capitalize()}: {digits(line.points[-1][1])} after {epoch_name}"
                f" {line.points[-1][0]:g}"
                for line in lines[:5]
            )
            yield Chart(
                id=f"{metric}-{where}",
                title=f"{metric} over {epoch_name}s",
                description=f"{metric} at each evaluation. {ends}.",
                x=Axis(name=epoch_name, low=0.0, whole=True),
                y=Axis(name=metric, low=0.0, high=1.0),
                lines=tuple(lines),
                marks=(
                    ()
                    if target is None
                    else (Mark(name=f"target {digits(target)}", value=target, upright=False),)
                ),
            )


def scored(run: TrainingLog, metric: str) -> tuple[tuple[float, float], ...]:
    """Return epochs and scores of a run's evaluations."""
    told = ((each.epoch, each.scores.get(metric)) for each in run.evaluations())
    return tuple(
        (float(epoch), value) for epoch, value in told if finite(epoch) and value is not None
    )
