"""The edge error as earlier versions of podium computed it, one period long, so that their records
are still judged by their own arithmetic.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from suite.energy import (
    MICROS_PER_UNIT,
    NoEnergyError,
    select_covering_readings,
    unwrap_energy_counter,
)
from suite.measurement.power_readings import COMPONENTS_SOURCE, PowerTrack, select_outermost_parts
from suite.power import Quantity
from suite.records import EnergyRecord
from suite.units import NS_PER_S


def recompute_earlier_edge_j(
    stated: EnergyRecord,
    measured: Iterable[EnergyRecord],
    tracks: Mapping[str, PowerTrack],
    window: tuple[int, int],
) -> float | None:
    """Return the edge error of a channel, or of a sum of parts, as earlier versions computed it;
    None if the readings do not give it.
    """
    parts = [
        each
        for each in measured
        if each.source != COMPONENTS_SOURCE and {*each.scope} <= {*stated.scope}
    ]
    names = (
        [each.name for each in select_outermost_parts(parts)]
        if stated.source == COMPONENTS_SOURCE
        else [stated.name]
    )
    try:
        return sum(compute_earlier_edge_j(tracks[name], *window) for name in names)
    except (NoEnergyError, KeyError):
        return None


def compute_earlier_edge_j(track: PowerTrack, begin_ns: int, end_ns: int) -> float:
    """Return 2 x the largest power between two readings x the period."""
    inside = select_covering_readings(track.channel_readings, begin_ns, end_ns)
    if track.quantity is Quantity.POWER:
        return 2 * max(inside.values) / MICROS_PER_UNIT * inside.period_ms / 1000
    steps = zip(pairwise(unwrap_energy_counter(inside)), pairwise(inside.times_ns), strict=True)
    return (
        2
        * max(
            (high - low) / MICROS_PER_UNIT * NS_PER_S / (after - before)
            for (low, high), (before, after) in steps
        )
        * inside.period_ms
        / 1000
    )
