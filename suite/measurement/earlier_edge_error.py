"""The edge error as earlier versions of podium computed it, one period long, so that their records
are still judged by their own arithmetic.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from suite.energy import NS_PER_S, UNITS, NoEnergyError, covering, unwrapped
from suite.measurement.power_readings import COMPONENTS, Track, outermost
from suite.power import Quantity
from suite.records import EnergyRecord


def edge_j(
    told: EnergyRecord,
    measured: Iterable[EnergyRecord],
    tracks: Mapping[str, Track],
    window: tuple[int, int],
) -> float | None:
    """Return the edge error of a channel, or of a sum of parts, as earlier versions computed it;
    None if the readings do not give it.
    """
    parts = [
        each for each in measured if each.source != COMPONENTS and {*each.scope} <= {*told.scope}
    ]
    names = [each.name for each in outermost(parts)] if told.source == COMPONENTS else [told.name]
    try:
        return sum(edge_of(tracks[name], *window) for name in names)
    except (NoEnergyError, KeyError):
        return None


def edge_of(track: Track, begin_ns: int, end_ns: int) -> float:
    """Return 2 x the largest power between two readings x the period."""
    series = covering(track.series, begin_ns, end_ns)
    if track.quantity is Quantity.POWER:
        return 2 * max(series.values) / UNITS * series.period_ms / 1000
    steps = zip(pairwise(unwrapped(series)), pairwise(series.times_ns), strict=True)
    return (
        2
        * max(
            (high - low) / UNITS * NS_PER_S / (after - before)
            for (low, high), (before, after) in steps
        )
        * series.period_ms
        / 1000
    )
