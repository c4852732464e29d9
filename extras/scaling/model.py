"""Models a step of data-parallel training as a sum: T = a + b / r + max(0, C - w B).

a: overhead of a step; b / r: the samples of one device at its rate; C: the all-reduce of the
gradients over the nodes, by bandwidth and latency (R. Thakur, R. Rabenseifner and W. Gropp,
Optimization of Collective Communication Operations in MPICH, 2005); B: the backward pass, two
thirds of the work; its share w hides communication.
"""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any, Final

from suite.rounds.load import build_typed_value, strip_sources
from suite.units import MS_PER_S

BACKWARD_SHARE: Final = 2 / 3
"""Share of a step's work: gradients of weights and of activations, against one forward pass."""
GRID_OVERHEADS_MS: Final = (4.0, 6.0, 8.0, 10.0, 12.0)
GRID_LATENCIES_US: Final = (0.0, 100.0, 200.0, 400.0, 800.0)
GRID_WIRE_SHARES: Final = (0.3, 0.5, 0.8)
GRID_OVERLAPS: Final = (0.0, 0.1, 0.3)
"""The grid of the fit: 13 points cannot distinguish finer values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPoint:
    """A published training, or a requested one."""

    system: str
    round: str
    group: str
    """The kind of device."""
    devices: int
    per_node: int
    node_gb_per_s: float
    batch: int
    """Samples per device and step."""
    epoch_s: float = 0.0
    """Seconds per epoch; 0 if not measured."""

    def compute_step_ms(self, samples: int) -> float:
        """Return the measured milliseconds per step, for an epoch of this many samples."""
        return MS_PER_S * self.epoch_s * self.devices * self.batch / samples


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExchange:
    """What devices exchange in a step."""

    passes: int
    """How often each number passes the network: once to be summed, once to be gathered."""
    number_bytes: int


GRADIENT_EXCHANGE: Final = StepExchange(passes=2, number_bytes=2)
"""An all-reduce in fp16, as of the published points: a reduction, then a gathering."""
SHARD_EXCHANGE: Final = StepExchange(passes=3, number_bytes=4)
"""Weights divided among all devices (workloads/common/optimisation/sharding.py): gathered for the
forward and for the backward pass, gradients reduced, all in fp32.
"""
TRAINED_NUMBER_BYTES: Final = 16
"""A weight, its gradient and the two moments of AdamW, in fp32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingData:
    """The published points, and the sizes of networks."""

    images: int
    point: tuple[TrainingPoint, ...]
    parameters: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingFit:
    """The model's constants."""

    overhead_ms: float
    latency_us: float
    wire_share: float
    """Achieved share of the network cards' rate, 0-1."""
    overlap: float
    """Share of the backward pass that hides communication, 0-1."""
    rates: Mapping[str, float]
    """Kind of device -> samples/s of one device, without overhead."""
    error: float
    """Root mean square of ln(predicted / measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """The parts of a step, in milliseconds."""

    overhead_ms: float
    compute_ms: float
    exchange_ms: float
    """The whole exchange, including its hidden part."""
    exposed_ms: float
    """The part of the exchange that the backward pass does not hide."""

    @property
    def step_ms(self) -> float:
        """The duration of the step."""
        return self.overhead_ms + self.compute_ms + self.exposed_ms

    @property
    def limit(self) -> str:
        """The largest part of the step that is not work on samples; the work itself if it
        dominates.
        """
        if self.compute_ms > BACKWARD_SHARE * self.step_ms:
            return "the devices"
        if self.overhead_ms >= self.exposed_ms:
            return "overhead of a step"
        return "exchange of gradients"


@cache
def read_scaling_data() -> ScalingData:
    """Read the published points."""
    tables: Any = strip_sources(
        tomllib.loads(files("extras.scaling").joinpath("points.toml").read_text("utf-8")),
        "",
        {},
    )
    scaling_data: ScalingData = build_typed_value(ScalingData, convert_points_to_floats(tables), "")
    return scaling_data


def convert_points_to_floats(tables: Any) -> Any:
    """Convert rates and times to floats, as the fields require."""
    exact = ("node_gb_per_s", "epoch_s")
    return {
        **tables,
        "point": tuple(
            {key: float(value) if key in exact else value for key, value in row.items()}
            for row in tables["point"]
        ),
    }


def compute_exchange_ms(
    point: TrainingPoint,
    parameters: int,
    latency_us: float,
    wire_share: float,
    exchange: StepExchange = GRADIENT_EXCHANGE,
) -> float:
    """Return the milliseconds of an exchange over the nodes: a ring for bandwidth, a tree for
    latency; 0 on one node.
    """
    nodes = math.ceil(point.devices / point.per_node)
    ring = (
        exchange.passes
        * (nodes - 1)
        / nodes
        * parameters
        * exchange.number_bytes
        / (point.node_gb_per_s * 1e9 * wire_share)
        * MS_PER_S
    )
    return (ring if nodes > 1 else 0.0) + exchange.passes * math.log2(nodes) * latency_us / 1e3


def predict_step_parts(
    point: TrainingPoint,
    parameters: int,
    fit: ScalingFit,
    rate: float,
    exchange: StepExchange = GRADIENT_EXCHANGE,
) -> StepParts:
    """Predict a step for devices with this rate (samples/s)."""
    compute = point.batch / rate * MS_PER_S
    exchanged = compute_exchange_ms(point, parameters, fit.latency_us, fit.wire_share, exchange)
    exposed = max(0.0, exchanged - fit.overlap * compute * BACKWARD_SHARE)
    return StepParts(
        overhead_ms=fit.overhead_ms, compute_ms=compute, exchange_ms=exchanged, exposed_ms=exposed
    )


def fit_scaling_model(points: Sequence[TrainingPoint]) -> ScalingFit:
    """Fit the constants to measured points of ResNet-50; the rate of a kind of device is that of
    its point with the largest batch on the fewest devices.
    """
    known = read_scaling_data()
    candidates = (
        evaluate_model_constants(points, known, *constants)
        for constants in product(
            GRID_OVERHEADS_MS, GRID_LATENCIES_US, GRID_WIRE_SHARES, GRID_OVERLAPS
        )
    )
    return min(candidates, key=lambda fit: fit.error)


def evaluate_model_constants(
    points: Sequence[TrainingPoint],
    known: ScalingData,
    overhead_ms: float,
    latency_us: float,
    wire_share: float,
    overlap: float,
) -> ScalingFit:
    """Return a fit with these constants and its error."""
    rates = {
        group: compute_base_device_rate(
            [each for each in points if each.group == group], known, overhead_ms
        )
        for group in {each.group for each in points}
    }
    draft = ScalingFit(
        overhead_ms=overhead_ms,
        latency_us=latency_us,
        wire_share=wire_share,
        overlap=overlap,
        rates=rates,
        error=math.inf,
    )
    errors = (
        math.log(predict_step_ms(each, draft) / each.compute_step_ms(known.images)) ** 2
        for each in points
    )
    return ScalingFit(
        overhead_ms=overhead_ms,
        latency_us=latency_us,
        wire_share=wire_share,
        overlap=overlap,
        rates=rates,
        error=compute_root_mean(errors, len(points)),
    )


def compute_base_device_rate(
    points: Sequence[TrainingPoint], known: ScalingData, overhead_ms: float
) -> float:
    """Return the samples/s of one device of a kind, from the point with the least communication."""
    base = max(points, key=lambda each: (each.batch, -each.devices))
    return base.batch / ((base.compute_step_ms(known.images) - overhead_ms) / MS_PER_S)


def compute_root_mean(squares: Iterable[float], count: int) -> float:
    return math.sqrt(sum(squares) / count)


def predict_step_ms(point: TrainingPoint, fit: ScalingFit) -> float:
    """Return the milliseconds of a step of ResNet-50."""
    return predict_step_parts(
        point, read_scaling_data().parameters["resnet50"], fit, fit.rates[point.group]
    ).step_ms


@cache
def fit_published_points() -> ScalingFit:
    """Return the fit to all points."""
    return fit_scaling_model(read_scaling_data().point)


def predict_left_out_step(point: TrainingPoint) -> float | None:
    """Predict a point from all others; None if no other point has its kind of device."""
    rest = [each for each in read_scaling_data().point if each != point]
    if any(each.group == point.group for each in rest):
        return predict_step_ms(point, fit_scaling_model(rest))
    return None
