"""`podium power`: what this machine can read, each channel with an actual reading, and why other
sources cannot be read.
"""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from suite import registry
from suite.errors import MissingError
from suite.power import ROOT, Channel, PowerSource, Quantity

COUNTER_INTERVAL_S: Final = 0.2
"""Time between a counter's two readings, from which watts are computed."""
MICRO_PER_UNIT: Final = 1e6


def print_power_sources(root: Path, output_format: str) -> None:
    """Print all sources."""
    found = [
        probe_power_source(name, root) for name in registry.map_entry_points(registry.POWER_GROUP)
    ]
    if output_format == "json":
        click.echo(
            json.dumps({"root": str(root), "rehearsal": root != ROOT, "sources": found}, indent=2)
        )
        return
    for each in found:
        for channel in each["channels"]:
            call = ""
            if "call" in channel["facts"]:
                call = f", by {channel['facts']['call']}"
            click.echo(
                f"{channel['name']:<24} {format_watts(channel):>10}  grade {channel['grade']},"
                f" scope {channel['scope']}{call}"
            )
        if each["absent"]:
            click.echo(f"{each['name']:<24} {'-':>10}  {each['absent']}")
    if not any(each["channels"] for each in found):
        click.echo(
            "no watts can be read here: runs have no energy; a meter can be given with --meter, see"
            " podium help meter"
        )


def format_watts(channel: dict[str, Any]) -> str:
    """Format a channel's reading."""
    if channel["watts"] is not None:
        return f"{channel['watts']:.2f} W"
    return "-"


def list_readable_channels(root: Path) -> list[str]:
    """Return the names of all channels that can be read."""
    return [
        channel["name"]
        for name in registry.map_entry_points(registry.POWER_GROUP)
        for channel in probe_power_source(name, root)["channels"]
        if channel["watts"] is not None
    ]


def probe_power_source(name: str, root: Path) -> dict[str, Any]:
    try:
        source = registry.load_power_source(name)
    except MissingError as error:
        return {"name": name, "channels": [], "absent": str(error)}
    try:
        answer = source.probe(root)
        if not isinstance(answer, str):
            channels = [describe_channel_reading(source, channel) for channel in answer]
        else:
            channels = []
    finally:
        source.close()
    return {
        "name": name,
        "channels": channels,
        "absent": answer if isinstance(answer, str) else None,
    }


def describe_channel_reading(source: PowerSource, channel: Channel) -> dict[str, Any]:
    """Read a channel once, a counter twice."""
    facts = asdict(channel)
    try:
        return {**facts, "watts": measure_channel_watts(source, channel)}
    except OSError as error:
        return {**facts, "watts": None, "error": str(error)}


def measure_channel_watts(source: PowerSource, channel: Channel) -> float | None:
    """Return a channel's watts; None if its counter restarted in between."""
    first = source.read(channel)
    if channel.quantity is Quantity.POWER:
        return first.value / MICRO_PER_UNIT
    time.sleep(COUNTER_INTERVAL_S)
    second = source.read(channel)
    passed_s = (second.t_ns - first.t_ns) / 1e9
    if second.value >= first.value:
        return (second.value - first.value) / MICRO_PER_UNIT / passed_s
    return None
