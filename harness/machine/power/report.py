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
from suite.power import ROOT, Channel, PowerSource, Quantity

APART_S: Final = 0.2
"""Time between a counter's two readings, from which watts are computed."""
UNITS: Final = 1e6


def report(root: Path, form: str) -> None:
    """Print all sources."""
    found = [probed(name, root) for name in registry.points(registry.POWER)]
    if form == "json":
        click.echo(
            json.dumps({"root": str(root), "rehearsal": root != ROOT, "sources": found}, indent=2)
        )
        return
    for each in found:
        for channel in each["channels"]:
            call = f", by {channel['facts']['call']}" if "call" in channel["facts"] else ""
            click.echo(
                f"{channel['name']:<24} {watts(channel):>10}  grade {channel['grade']}, scope"
                f" {channel['scope']}{call}"
            )
        if each["absent"]:
            click.echo(f"{each['name']:<24} {'-':>10}  {each['absent']}")
    if not any(each["channels"] for each in found):
        click.echo(
            "no watts can be read here: runs have no energy; a meter can be given with --meter, see"
            " docs/POWER.md"
        )


def watts(channel: dict[str, Any]) -> str:
    """Format a channel's reading."""
    return f"{channel['watts']:.2f} W" if channel["watts"] is not None else "-"


def readable(root: Path) -> list[str]:
    """Return the names of all channels that can be read."""
    return [
        channel["name"]
        for name in registry.points(registry.POWER)
        for channel in probed(name, root)["channels"]
        if channel["watts"] is not None
    ]


def probed(name: str, root: Path) -> dict[str, Any]:
    """Probe one source."""
    source = registry.power_source(name)
    try:
        answer = source.probe(root)
        channels = [] if isinstance(answer, str) else [told(source, channel) for channel in answer]
    finally:
        source.close()
    return {
        "name": name,
        "channels": channels,
        "absent": answer if isinstance(answer, str) else None,
    }


def told(source: PowerSource, channel: Channel) -> dict[str, Any]:
    """Read a channel once, a counter twice."""
    facts = asdict(channel)
    try:
        return {**facts, "watts": now(source, channel)}
    except OSError as error:
        return {**facts, "watts": None, "error": str(error)}


def now(source: PowerSource, channel: Channel) -> float | None:
    """Return a channel's watts; None if its counter restarted in between."""
    first = source.read(channel)
    if channel.quantity is Quantity.POWER:
        return first.value / UNITS
    time.sleep(APART_S)
    second = source.read(channel)
    passed_s = (second.t_ns - first.t_ns) / 1e9
    return (second.value - first.value) / UNITS / passed_s if second.value >= first.value else None
