"""The mean energy of several runs."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, Final

from suite.records import EnergyRecord

MEAN_FIELDS: Final = (
    "joules",
    "average_w",
    "mlperf_mean_w",
    "per_sample_j",
    "samples_per_s_per_w",
    "mj_per_query",
    "per_token_j",
)


def average_energies(runs: Sequence[Sequence[EnergyRecord]]) -> tuple[EnergyRecord, ...]:
    """Return the mean energy of runs, for each channel that all have with the same parts."""
    named = [{each.name: each for each in run} for run in runs]
    first, *others = named or [{}]
    return tuple(
        average_channel_energy([run[name] for run in named])
        for name, one in first.items()
        if all(name in run and has_same_parts(run[name], one) for run in others)
    )


def has_same_parts(one: EnergyRecord, other: EnergyRecord) -> bool:
    """Return whether two energies are of the same parts, from the same source by the same grade."""
    return (one.source, one.grade, {*one.scope}) == (other.source, other.grade, {*other.scope})


def average_channel_energy(runs: Sequence[EnergyRecord]) -> EnergyRecord:
    """Return the mean energy and powers of several runs, and the worst of each other field."""
    means: dict[str, Any] = {}
    for name in MEAN_FIELDS:
        known = [value for run in runs if (value := getattr(run, name)) is not None]
        means[name] = fmean(known) if len(known) == len(runs) else None
    return replace(
        runs[0],
        edge_j=max(run.edge_j for run in runs),
        readings=min(run.readings for run in runs),
        longest_gap_ms=max(run.longest_gap_ms for run in runs),
        **means,
    )
