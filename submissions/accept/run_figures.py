"""The figure that a clause bounds, of each run of a result and as scores show it, or why it has
none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from submissions.accept.bounded_metrics import BoundedMetric, FigureKind
from suite.measurement.mean_energy import has_same_parts
from suite.measurement.widest import select_gpu_energies, select_widest_energies
from suite.power import SYSTEM
from suite.records import ROUGH_EDGE_SHARE, EnergyRecord
from suite.result import Result

MISSED_TARGET: Final = "a run missed its target, no interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """A figure in the result's own unit."""

    value: float | None = None
    """Of the run that gives the result, or over the trainings of a set."""
    runs: tuple[float | None, ...] = ()
    """Each run in the order of its number."""
    problem: str = ""
    """Why it shows nothing; empty if it does."""
    read_by: str = ""
    """By what an energy was read."""


def read_bounded_figures(metric: BoundedMetric, result: Result) -> RunFigures:
    """Read what a clause bounds, but for scores, which have no runs; a cost is computed from the
    result.
    """
    match metric.kind:
        case FigureKind.TOKEN_LATENCY:
            found = read_token_latencies(metric.name, result)
        case FigureKind.ENERGY:
            found = read_energies(metric, result)
        case _:
            found = RunFigures(value=result.value, runs=result.runs)
    if not found.problem and any(run is None for run in result.runs):
        return replace(found, problem=MISSED_TARGET)
    return found


def read_token_latencies(name: str, result: Result) -> RunFigures:
    """Read a latency of tokens, as LoadGen logged it."""
    tokens = result.figure.tokens
    value = tokens.find_latency_ns(name) if tokens else None
    runs = tuple(each.find_latency_ns(name) if each else None for each in result.figure.run_tokens)
    if value is None or None in runs:
        return RunFigures(problem=f"LoadGen logged no {name}")
    return RunFigures(value=value, runs=runs)


def read_energies(metric: BoundedMetric, result: Result) -> RunFigures:
    """Read an energy of the whole machine, or of all its GPUs."""
    chosen = choose_energies(metric, result)
    if problem := find_coverage_problem(metric, result, chosen):
        return RunFigures(problem=problem)
    read_by = f"read by {' + '.join(f'{each.name} ({each.grade})' for each in chosen)}"
    by_run = [find_same_energies(chosen, run) for run in result.run_energy]
    runs = tuple(sum_energies(metric.energy_field, each) for each in by_run)
    value = sum_energies(metric.energy_field, chosen)
    problem = ""
    if not all(by_run):
        problem = "a run was not read by it"
    elif value is None or None in runs:
        problem = "what it is divided by was not counted"
    elif any(map(is_rough_sum, by_run)):
        problem = f"its error at the edges of a run may be more than {100 * ROUGH_EDGE_SHARE:g} %"
    return RunFigures(value=value, runs=runs, problem=problem, read_by=read_by)


def choose_energies(metric: BoundedMetric, result: Result) -> tuple[EnergyRecord, ...]:
    """Choose the most direct reading of the whole machine, or of each GPU; empty without one."""
    if metric.is_of_gpus:
        return select_gpu_energies(result.energy)
    widest = select_widest_energies(result.energy)
    return tuple(each for each in widest if SYSTEM in each.scope)[:1]


def find_coverage_problem(
    metric: BoundedMetric, result: Result, chosen: Sequence[EnergyRecord]
) -> str:
    """Say why readings do not cover what the energy is of; empty if they do."""
    nodes, gpus = result.machine.nodes or 1, result.machine.accelerators
    if nodes > 1:
        return f"power was read on one of {nodes} nodes"
    if metric.is_of_gpus and not gpus:
        return "the machine has no accelerators"
    if not result.energy:
        return "power was not read in every run"
    if metric.is_of_gpus and len(chosen) != gpus:
        return f"power was read of {len(chosen)} of {gpus} accelerators"
    if not chosen:
        parts = sorted({part for each in result.energy for part in each.scope})
        return f"power was read of {', '.join(parts)}, and not of the whole machine"
    return ""


def find_same_energies(
    chosen: Sequence[EnergyRecord], run: Sequence[EnergyRecord]
) -> tuple[EnergyRecord, ...]:
    """Return the energies of a run by the same channels of the same parts; empty if one lacks."""
    found = tuple(
        other
        for each in chosen
        for other in run
        if other.name == each.name and has_same_parts(other, each)
    )
    return found if len(found) == len(chosen) else ()


def sum_energies(field: str, energies: Sequence[EnergyRecord]) -> float | None:
    """Add up a figure of separate parts; None if one does not have it."""
    values: list[float | None] = [getattr(each, field) for each in energies]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def is_rough_sum(energies: Sequence[EnergyRecord]) -> bool:
    """Return whether the error at the edges may be a large share of separate parts' energy."""
    joules = sum(each.joules for each in energies)
    return sum(each.edge_j for each in energies) > ROUGH_EDGE_SHARE * joules
