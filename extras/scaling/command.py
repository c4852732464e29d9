"""`podium scaling`: compares published points with the model, and predicts a step on the requested
devices.
"""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from compliance.kinds.podium.documents.training import read_training_log
from compliance.logs.finite_numbers import is_finite_number
from compliance.results.indexed_result import IndexedResult
from extras.scaling.model import (
    GRADIENT_EXCHANGE,
    SHARD_EXCHANGE,
    TRAINED_NUMBER_BYTES,
    ScalingFit,
    StepParts,
    TrainingPoint,
    fit_published_points,
    predict_left_out_step,
    predict_step_parts,
    read_scaling_data,
)
from submissions.result_index import open_results
from suite import events, registry
from suite.errors import JudgedError, RequestError
from suite.human_numbers import format_plain_number, format_whole_digits
from suite.units import MS_PER_S

DEFAULT_NODE_GB_PER_S: Final = {4: 25.0, 8: 50.0, 16: 100.0}
"""Devices per node -> network cards per node in the published systems; the default for
--node-gb-per-s.
"""


EXPLANATION_WIDTH: Final = 80
"""Line width of the model's explanation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRate:
    """The rate of one device, from a user's own training."""

    rate: float
    """Samples/s of one device in a step without overhead."""
    devices: int
    batch: int
    """Samples per device and step."""
    throughput: float


def predict_training_step(
    workload: str,
    devices: int,
    batch: int,
    results: Path | None,
    *,
    kind: str,
    per_node: int,
    node_gb_per_s: float | None,
    shard: bool = False,
) -> dict[str, Any]:
    """Return the document. RequestError for a workload with neither published points nor own
    results, and for a batch that is not divisible by the devices.
    """
    check_predictable_step(workload, devices, batch)
    fit, own = fit_published_points(), read_device_rate(results, workload) if results else None
    if own is None and workload != "resnet50":
        raise RequestError(
            f"{workload} has no published points; specify a training of your own with --from "
            "RESULTS"
        )
    wire = node_gb_per_s or DEFAULT_NODE_GB_PER_S.get(per_node, DEFAULT_NODE_GB_PER_S[8])
    point = TrainingPoint(
        system="requested",
        round="",
        group=kind,
        devices=devices,
        per_node=min(per_node, devices),
        node_gb_per_s=wire,
        batch=batch // devices,
    )
    rate = own.rate if own else fit.rates[kind]
    size = read_scaling_data().parameters[workload]
    if shard:
        exchange = SHARD_EXCHANGE
    else:
        exchange = GRADIENT_EXCHANGE

    def describe_prediction(asked: TrainingPoint) -> dict[str, Any]:
        parts = predict_step_parts(asked, size, fit, rate, exchange)
        return describe_predicted_step(asked, parts)

    measured = None
    if own is not None:
        measured = {name: getattr(own, name) for name in ("rate", "devices", "batch", "throughput")}
    return {
        "workload": workload,
        "state_gb_per_device": size * TRAINED_NUMBER_BYTES / devices / 1e9 if shard else None,
        "model": {
            **{
                name: getattr(fit, name)
                for name in ("overhead_ms", "latency_us", "wire_share", "overlap", "error")
            },
            "rates": dict(fit.rates),
        },
        "points": [describe_published_point(each, fit) for each in read_scaling_data().point],
        "own": measured,
        "asked": describe_prediction(point),
        "limits": [describe_prediction(each) for each in iterate_scaled_points(point)],
    }


def check_predictable_step(workload: str, devices: int, batch: int) -> None:
    """RequestError for a network of unknown size, and for a batch that is not divisible by the
    devices.
    """
    registry.load_workload(workload)
    if workload not in read_scaling_data().parameters:
        raise RequestError(
            f"{workload}: the size of its network is unknown; known are"
            f" {', '.join(sorted(read_scaling_data().parameters))}"
        )
    if batch % devices:
        raise RequestError(f"--batch {batch} is not a multiple of {devices} devices")


def iterate_scaled_points(point: TrainingPoint) -> Iterator[TrainingPoint]:
    """Yield points with the same work per device, on 1, 8, 64 and 2,048 devices."""
    for count in (1, 8, 64, 2048):
        yield replace(
            point, system=f"{count} devices", devices=count, per_node=min(point.per_node, count)
        )


def describe_published_point(point: TrainingPoint, fit: ScalingFit) -> dict[str, Any]:
    measured, left_out_ms = (
        point.compute_step_ms(read_scaling_data().images),
        predict_left_out_step(point),
    )
    fitted_ms = predict_step_parts(
        point, read_scaling_data().parameters["resnet50"], fit, fit.rates[point.group]
    ).step_ms
    return {
        "system": point.system,
        "round": point.round,
        "kind": point.group,
        "devices": point.devices,
        "batch_per_device": point.batch,
        "measured_ms": measured,
        "samples_per_s": point.devices * point.batch / measured * MS_PER_S,
        "fitted_ms": fitted_ms,
        "left_out_ms": left_out_ms,
        "left_out_error": None if left_out_ms is None else left_out_ms / measured - 1,
    }


def describe_predicted_step(point: TrainingPoint, parts: StepParts) -> dict[str, Any]:
    return {
        "devices": point.devices,
        "per_node": point.per_node,
        "batch_per_device": point.batch,
        "step_ms": parts.step_ms,
        "overhead_ms": parts.overhead_ms,
        "compute_ms": parts.compute_ms,
        "exchange_ms": parts.exchange_ms,
        "exposed_ms": parts.exposed_ms,
        "samples_per_s": point.devices * point.batch / parts.step_ms * MS_PER_S,
        "limit": parts.limit,
    }


def read_device_rate(results: Path, workload: str) -> DeviceRate:
    """Read the rate of one device from a training log; JudgedError if no log contains it."""
    with open_results(results) as training_results:
        logs = [
            log
            for result in training_results
            if is_training_of_workload(result, workload)
            for log in result.training_logs
        ]
        own = next(
            (each for log in logs if (each := compute_logged_device_rate(log)) is not None), None
        )
    if own is None:
        raise JudgedError(
            f"{results}: no training log of {workload} contains devices, batch and throughput"
        )
    return own


def is_training_of_workload(result: IndexedResult, workload: str) -> bool:
    """Return whether a result is a run set of a workload."""
    return result.scenario is None and result.workload == workload


def compute_logged_device_rate(log: Path) -> DeviceRate | None:
    """Compute the rate of one device: its batch divided by its step time without the model's
    overhead. The exchange of gradients counts as work.
    """
    training_log = read_training_log(log, registry.load_round(), None)
    ranks, batch = (
        training_log.find_value(events.WORLD_SIZE) or 1,
        training_log.find_value("global_batch_size"),
    )
    stats = [
        record.value.get("throughput")
        for record in training_log.list_records(events.THROUGHPUT)
        if isinstance(record.value, dict)
    ]
    rates = [float(rate) for rate in stats if is_finite_number(rate) and rate > 0]
    if not (
        rates and is_finite_number(batch) and batch > 0 and is_finite_number(ranks) and ranks > 0
    ):
        return None
    throughput, each = median(rates), batch / ranks
    spent_ms = batch / throughput * MS_PER_S
    # the rest of the step must be work
    overhead_ms = min(fit_published_points().overhead_ms, spent_ms / 2)
    return DeviceRate(
        rate=each / ((spent_ms - overhead_ms) / MS_PER_S),
        devices=int(ranks),
        batch=int(each),
        throughput=throughput,
    )


def format_scaling_tables(document: Mapping[str, Any]) -> str:
    """Format the document as tables."""
    fit, requested = document["model"], document["asked"]
    overhead_ms, latency_us = (
        format_plain_number(fit[name], 6) for name in ("overhead_ms", "latency_us")
    )
    model = (
        f"A step takes {overhead_ms} ms of overhead, the devices' work, and the part of"
        f" the gradient exchange that is not hidden behind {fit['overlap']:.0%} of the backward"
        f" pass. The exchange uses {fit['wire_share']:.0%} of the network's rate and takes"
        f" {latency_us} us per step of its tree. The error over the published points is"
        f" {fit['error']:.1%} (root mean square); `left out` is that of a point predicted from all"
        " others."
    )
    lines = [
        *textwrap.wrap(model, EXPLANATION_WIDTH),
        "",
        (
            f"{'published':14} {'devices x batch':>16} {'ms a step':>10} {'samples/s':>12}"
            f" {'left out':>9}"
        ),
    ]
    for each in document["points"]:
        other = "-"
        if each["left_out_error"] is not None:
            other = f"{each['left_out_error']:+.0%}"
        size = f"{each['devices']:,} x {each['batch_per_device']}"
        lines.append(
            f"{each['system']:14} {size:>16} {each['measured_ms']:10.1f}"
            f" {each['samples_per_s']:12,.0f} {other:>9}"
        )
    if document["state_gb_per_device"] is not None:
        lines += textwrap.wrap(
            "With weights divided among the devices, the exchange gathers them for both passes and"
            " reduces the gradients, in fp32; no published point does, so this was not compared."
            f" {document['asked']['devices']:,} devices hold"
            f" {format_whole_digits(document['state_gb_per_device'], 3)} GB of weights, gradients"
            " and AdamW's moments each.",
            EXPLANATION_WIDTH,
        )
    lines.append(f"{document['workload']}, predicted:")
    others = [each for each in document["limits"] if each != requested]
    for each in (*others, requested):
        size = f"{each['devices']:,} x {each['batch_per_device']}"
        lines.append(
            f"{'':14} {size:>16} {each['step_ms']:10.1f} {each['samples_per_s']:12,.0f}   limited"
            f" by {each['limit']}"
        )
    return "\n".join(lines)
