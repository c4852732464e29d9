"""Scaling: results on more accelerators of the same kind, relative to the baseline.

Time to train scales worse than throughput if a larger batch needs more epochs, so both are reported
for training.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from submissions.compare.comparison import ComparedResult, Comparison
from suite.files.layout import fold_name
from suite.measurement.intervals import Interval
from suite.result import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingStep:
    """Scaling at one number of accelerators."""

    path: str
    system: str | None
    accelerators: int
    speed_up: float
    """Times as fast as the baseline."""
    ideal: float
    """Times as many accelerators."""
    efficiency: float
    """speed_up / ideal; 1 is linear scaling."""
    interval: Interval | None
    """Interval of the efficiency."""
    throughput: float | None
    """Training samples/s relative to the baseline's; None if the logs lack the necessary values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """The steps of one workload and scenario on one kind of accelerator."""

    workload: str
    scenario: str | None
    accelerator: str
    steps: tuple[ScalingStep, ...]


def build_scalings(found: Sequence[Comparison]) -> list[Scaling]:
    """Return the scaling for each kind of result with a known number of baseline accelerators and
    other results to compare.
    """
    return [scaling for each in found if (scaling := build_kind_scaling(each))]


def build_kind_scaling(found: Comparison) -> Scaling | None:
    """Return the scaling over the results that have a ratio and ran on the baseline's kind of
    accelerator; None if the baseline is the only one.
    """
    first = next((each for each in found.results if each.baseline), None)
    machine = first.result.machine if first else Machine()
    if first is None or not machine.accelerators or not machine.accelerator:
        return None
    alike = [
        each
        for each in (*found.results, *found.references)
        if fold_name(each.result.accelerator or "") == fold_name(machine.accelerator)
    ]
    steps = [
        step for each in alike if (step := build_scaling_step(first, machine.accelerators, each))
    ]
    if len({step.accelerators for step in steps}) < 2:
        return None
    ordered = tuple(sorted(steps, key=lambda step: step.accelerators))
    return Scaling(
        workload=found.workload,
        scenario=found.scenario,
        accelerator=machine.accelerator,
        steps=ordered,
    )


def build_scaling_step(
    first: ComparedResult, base: int, found: ComparedResult
) -> ScalingStep | None:
    """Return the step of one result; None if it has no ratio, or its accelerators are unknown."""
    accelerators = found.result.accelerators
    if not found.ratio or not accelerators:
        return None
    mine, others = (each.result.made_with.samples_per_second for each in (first, found))
    ideal = accelerators / base
    interval = None
    if of_ratio := found.ratio_interval:
        interval = Interval(low=of_ratio.low / ideal, high=of_ratio.high / ideal)
    return ScalingStep(
        path=found.path,
        system=found.result.system,
        accelerators=accelerators,
        speed_up=found.ratio,
        ideal=ideal,
        efficiency=found.ratio / ideal,
        interval=interval,
        throughput=others / mine if mine and others else None,
    )
