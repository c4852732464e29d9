"""The ratios that the project aims at: ours beside another program, or beside ours alone, from the
lines of one run on one card.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_shared.lines import ItemResult, format_number, format_table

Values = Mapping[str, Mapping[str, float]]
"""Item -> variant -> value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One figure to reach."""

    name: str
    least: float
    compute: Callable[[Values], float | None]
    """None if a part of it was not measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachedGoal:
    """A goal and what was measured."""

    name: str
    least: float
    value: float

    @property
    def met(self) -> bool:
        """Whether the figure is reached."""
        return self.value >= self.least


def find_best(values: Values, item: str, begins: str = "") -> float | None:
    """Return the highest value of an item's variants whose names begin so."""
    found = [value for name, value in values.get(item, {}).items() if name.startswith(begins)]
    return max(found, default=None)


def find_least(values: Values, item: str, begins: str) -> float | None:
    """Return the lowest value of an item's variants whose names begin so."""
    found = [value for name, value in values.get(item, {}).items() if name.startswith(begins)]
    return min(found, default=None)


def find_ratio(ours: float | None, theirs: float | None) -> float | None:
    """Divide, if both were measured."""
    return ours / theirs if ours and theirs else None


def find_best_of(values: Values, items: Iterable[str], begins: str = "") -> float | None:
    """Return the highest value over several items."""
    found = [find_best(values, item, begins) for item in items]
    return max((value for value in found if value is not None), default=None)


OUR_RESNET50: Final = ("resnet50-step", "resnet50-compile")
GOALS: Final = (
    Goal(
        name="ResNet-50 from JPEG, ours / reference loop",
        least=1.2,
        compute=lambda values: find_ratio(
            find_best(values, "resnet50-files", "14"), find_best(values, "resnet50-files-peer")
        ),
    ),
    Goal(
        name="ResNet-50 from JPEG / on resident images, span 64",
        least=0.9,
        compute=lambda values: find_ratio(
            find_best(values, "resnet50-files", "14"),
            find_best(values, "resnet50-step", "64 eager"),
        ),
    ),
    Goal(
        name="ResNet-50 step, ours / compiled reference loop",
        least=1.0,
        compute=lambda values: find_ratio(
            find_best_of(values, OUR_RESNET50, "256"),
            find_best(values, "resnet50-peer-compile", "256"),
        ),
    ),
    Goal(
        name="ResNet-50 step, images/s",
        least=3000,
        compute=lambda values: find_best_of(values, OUR_RESNET50),
    ),
    Goal(
        name="Mask R-CNN step of 8, ours / torchvision's loop",
        least=1.5,
        compute=lambda values: find_ratio(
            find_best(values, "maskrcnn-step", "8"), find_best(values, "maskrcnn-peer", "8")
        ),
    ),
    Goal(
        name="SSD from files, images/s",
        least=1500,
        compute=lambda values: find_best(values, "ssd-files"),
    ),
    Goal(
        name="Transformer, ours / transformers eager, 4,096 tokens",
        least=1.5,
        compute=lambda values: find_ratio(
            find_best(values, "transformer-step", "4096"),
            find_best(values, "transformer-peer", "4096"),
        ),
    ),
    Goal(
        name="Transformer, ours / transformers compiled, 4,096 tokens",
        least=1.0,
        compute=lambda values: find_ratio(
            find_best(values, "transformer-step", "4096"),
            find_best(values, "transformer-peer-compile", "4096"),
        ),
    ),
    Goal(
        name="decoding, ours / generate, batch 8",
        least=1.5,
        compute=lambda values: find_best(values, "decoding", "8 ratio"),
    ),
    Goal(
        name="ResNet-50 predictor, ours / timm eager at its best batch",
        least=1.5,
        compute=lambda values: find_ratio(
            find_best(values, "serving"), find_best(values, "serving-peer")
        ),
    ),
    Goal(
        name="ResNet-50 predictor, ours / timm compiled",
        least=1.0,
        compute=lambda values: find_ratio(
            find_best(values, "serving"), find_best(values, "serving-peer-compile")
        ),
    ),
    Goal(
        name="ResNet-50 Offline, images/s",
        least=20_000,
        compute=lambda values: find_best(values, "offline"),
    ),
    Goal(
        name="ResNet-50 Offline under LoadGen / predictor alone",
        least=0.97,
        compute=lambda values: find_least(values, "offline", "share"),
    ),
)


def compare_with_goals(results: Iterable[ItemResult]) -> list[ReachedGoal]:
    """Compute the goals of which all parts were measured."""
    values = {
        result.item: {line.variant: line.value for line in result.lines if line.value is not None}
        for result in results
    }
    found = [(goal, goal.compute(values)) for goal in GOALS]
    return [
        ReachedGoal(name=goal.name, least=goal.least, value=value)
        for goal, value in found
        if value is not None
    ]


def format_goals(reached: Sequence[ReachedGoal]) -> str:
    """Return the goals as a table."""
    return format_table(
        ("goal", "at least", "measured", "met"),
        [
            (
                goal.name,
                format_number(goal.least),
                format_number(goal.value),
                "yes" if goal.met else "no",
            )
            for goal in reached
        ],
    )
