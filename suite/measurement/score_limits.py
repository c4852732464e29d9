"""What the scores of a served system must reach."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from suite.workload import Scores


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreLimits:
    """The limits of a system's scores, by metric."""

    reference: dict[str, float]
    """Reference accuracy of the checkpoint."""
    share: float
    """0-1: of the reference, that a score must reach."""
    threshold: dict[str, float] = field(default_factory=dict)
    """The round's own."""
    threshold_most: dict[str, float] = field(default_factory=dict)
    """The round's upper one."""

    def list_shortfalls(self, scores: Scores) -> list[str]:
        """List the scores that miss a limit, each in a sentence."""
        return [*self.iterate_low_scores(scores), *self.iterate_high_scores(scores)]

    def iterate_low_scores(self, scores: Scores) -> Iterator[str]:
        """Yield the scores below a limit; a metric that was not scored counts as 0."""
        needed = [
            (metric, self.share * value, f"{self.share:.0%} of the reference {value:.4f}")
            for metric, value in self.reference.items()
        ]
        needed += [(name, value, "the round's threshold") for name, value in self.threshold.items()]
        for metric, value, why in needed:
            found = scores.get(metric, 0.0)
            if found < value:
                yield f"{metric} is {found:.4f}, below {value:.4f} ({why})"

    def iterate_high_scores(self, scores: Scores) -> Iterator[str]:
        """Yield the scores above the upper threshold."""
        for metric, value in self.threshold_most.items():
            found = scores.get(metric, 0.0)
            if found > value:
                yield f"{metric} is {found:.4f}, above {value:.4f} (the round's upper threshold)"
