"""`podium scaling`: the published table, and a step on the devices that are asked for."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import click

from compliance.documents.podium.training import finite, read_log
from submissions.result_index import Result, opened
from submissions.scaling.model import MS_PER_S, Fit, Parts, Point, data, left_out, parts, published
from suite import events, registry
from suite.cli import PATH
from suite.console.parameters import WORKLOAD, FiniteRange
from suite.errors import JudgedError, RequestError

NODE_GB_PER_S: Final = {4: 25.0, 8: 50.0, 16: 100.0}
"""Devices of a node -> the network cards of the published systems with as many; a default, which
--node-gb-per-s replaces.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """The rate of one device, from a user's own training."""

    rate: float
    """Samples/s of one device in a step without overhead."""
    devices: int
    batch: int
    """Samples of one device."""
    throughput: float


@click.command()
@click.argument("workload", type=WORKLOAD, metavar="WORKLOAD")
@click.option(
    "--devices",
    type=click.IntRange(min=1, max=1_000_000),
    required=True,
    help="Devices that train together.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    required=True,
    help="Samples of a step, over all devices.",
)
@click.option(
    "--kind",
    type=click.Choice(["V100", "V100-450W", "A100"]),
    default="V100",
    show_default=True,
    help="Device, where no results are named.",
)
@click.option(
    "--per-node",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    help="Devices of a node.",
)
@click.option(
    "--node-gb-per-s",
    type=FiniteRange(min=0, min_open=True),
    help="Network cards of a node, one way; without it, as published systems have.",
)
@click.option(
    "--from",
    "results",
    type=PATH,
    help="Results folder with a training of yours: the rate of one device is taken from its log.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def scaling(
    workload: str, devices: int, batch: int, results: Path | None, form: str, **node: Any
) -> None:
    """Predict a training step of WORKLOAD on many devices, by a model that is fitted to published
    ResNet-50 trainings.

    The table shows each published point beside the model's prediction from the others. A figure on
    paper: never a result.

    Example: podium scaling resnet50 --devices 2048 --batch 81920
    """
    document = predict(workload, devices, batch, results, **node)
    click.echo(json.dumps(document, indent=1) if form == "json" else text(document))


def predict(
    workload: str,
    devices: int,
    batch: int,
    results: Path | None,
    *,
    kind: str,
    per_node: int,
    node_gb_per_s: float | None,
) -> dict[str, Any]:
    """Compute the document; RequestError for a workload without published points or own results,
    and for a batch that does not divide.
    """
    registry.workload(workload)
    if workload not in data().parameters:
        raise RequestError(
            f"{workload}: the size of its network is not known; known are"
            f" {', '.join(sorted(data().parameters))}"
        )
    if batch % devices:
        raise RequestError(f"--batch {batch} is no multiple of {devices} devices")
    fit, own = published(), own_rate(results, workload) if results else None
    if own is None and workload != "resnet50":
        raise RequestError(
            f"{workload} has no published points here: name a training of yours with --from RESULTS"
        )
    wire = node_gb_per_s or NODE_GB_PER_S.get(per_node, NODE_GB_PER_S[8])
    point = Point(
        system="asked for",
        round="",
        group=kind,
        devices=devices,
        per_node=min(per_node, devices),
        node_gb_per_s=wire,
        batch=batch // devices,
    )
    rate = own.rate if own else fit.rates[kind]
    size = data().parameters[workload]
    return {
        "workload": workload,
        "model": {
            **{
                name: getattr(fit, name)
                for name in ("overhead_ms", "latency_us", "wire_share", "overlap", "error")
            },
            "rates": dict(fit.rates),
        },
        "points": [row(each, fit) for each in data().point],
        "own": (
            None
            if own is None
            else {name: getattr(own, name) for name in ("rate", "devices", "batch", "throughput")}
        ),
        "asked": step(point, parts(point, size, fit, rate)),
        "limits": [step(each, parts(each, size, fit, rate)) for each in ladder(point)],
    }


def ladder(point: Point) -> Iterator[Point]:
    """Yield the same work for a device on 1, 8, 64 and 2,048 devices."""
    for count in (1, 8, 64, 2048):
        yield replace(
            point, system=f"{count} devices", devices=count, per_node=min(point.per_node, count)
        )


def row(point: Point, fit: Fit) -> dict[str, Any]:
    """Give a published point beside its predictions."""
    measured, other = point.step_ms(data().images), left_out(point)
    own = parts(point, data().parameters["resnet50"], fit, fit.rates[point.group]).step_ms
    return {
        "system": point.system,
        "round": point.round,
        "kind": point.group,
        "devices": point.devices,
        "batch_per_device": point.batch,
        "measured_ms": measured,
        "samples_per_s": point.devices * point.batch / measured * MS_PER_S,
        "fitted_ms": own,
        "left_out_ms": other,
        "left_out_error": None if other is None else other / measured - 1,
    }


def step(point: Point, found: Parts) -> dict[str, Any]:
    """Give a predicted step."""
    return {
        "devices": point.devices,
        "per_node": point.per_node,
        "batch_per_device": point.batch,
        "step_ms": found.step_ms,
        "overhead_ms": found.overhead_ms,
        "compute_ms": found.compute_ms,
        "exchange_ms": found.exchange_ms,
        "exposed_ms": found.exposed_ms,
        "samples_per_s": point.devices * point.batch / found.step_ms * MS_PER_S,
        "limit": found.limit,
    }


def own_rate(results: Path, workload: str) -> Own:
    """Take the rate of one device from a training log; JudgedError if the results hold none that
    tells it.
    """
    with opened(results) as found:
        logs = [log for result in found if is_training(result, workload) for log in result.logs]
        own = next((each for log in logs if (each := rate_in(log)) is not None), None)
    if own is None:
        raise JudgedError(
            f"{results}: no training of {workload} whose log tells its devices, batch and"
            " throughput"
        )
    return own


def is_training(result: Result, workload: str) -> bool:
    """Tell whether a result is a training set of a workload."""
    return result.scenario is None and result.workload == workload


def rate_in(log: Path) -> Own | None:
    """Compute the rate of one device: the batch in its time of a step, without the model's
    overhead; the exchange of gradients counts as work.
    """
    told = read_log(log, registry.round(), None)
    ranks, batch = told.value(events.WORLD_SIZE) or 1, told.value("global_batch_size")
    stats = [
        record.value.get("throughput")
        for record in told.index.get(events.THROUGHPUT, ())
        if isinstance(record.value, dict)
    ]
    rates = [float(rate) for rate in stats if finite(rate) and rate > 0]
    if not (rates and finite(batch) and batch > 0 and finite(ranks) and ranks > 0):
        return None
    throughput, each = median(rates), batch / ranks
    spent_ms = batch / throughput * MS_PER_S
    overhead_ms = min(published().overhead_ms, spent_ms / 2)  # what is left has to be work
    return Own(
        rate=each / ((spent_ms - overhead_ms) / MS_PER_S),
        devices=int(ranks),
        batch=int(each),
        throughput=throughput,
    )


def text(document: Mapping[str, Any]) -> str:
    """Format the document as tables."""
    fit, asked = document["model"], document["asked"]
    lines = [
        (
            f"T = {fit['overhead_ms']:g} ms + b / r + max(0, C - {fit['overlap']:.0%} of backward);"
            f" C: {fit['latency_us']:g} us, {fit['wire_share']:.0%} of the wire; rms"
            f" {fit['error']:.1%}"
        ),
        (
            f"{'published':14} {'devices x batch':>16} {'ms a step':>10} {'samples/s':>12}"
            f" {'left out':>9}"
        ),
    ]
    for each in document["points"]:
        other = "-" if each["left_out_error"] is None else f"{each['left_out_error']:+.0%}"
        place = f"{each['devices']:,} x {each['batch_per_device']}"
        lines.append(
            f"{each['system']:14} {place:>16} {each['measured_ms']:10.1f}"
            f" {each['samples_per_s']:12,.0f} {other:>9}"
        )
    lines.append(f"{document['workload']} on paper:")
    for each in (*document["limits"], asked):
        place = f"{each['devices']:,} x {each['batch_per_device']}"
        lines.append(
            f"{'':14} {place:>16} {each['step_ms']:10.1f} {each['samples_per_s']:12,.0f}   limited"
            f" by {each['limit']}"
        )
    return "\n".join(lines)
