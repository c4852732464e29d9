"""The energies of a run that cover as much as was measured: a rate of the whole machine is divided
by these, never by those of one part of several.
"""

from collections.abc import Sequence

from suite.measurement.power_readings import COMPONENTS_SOURCE, select_outermost_parts
from suite.power import GPU_SCOPE_PATTERN, SYSTEM, Grade
from suite.records import EnergyRecord


def select_widest_energies(energy: Sequence[EnergyRecord]) -> tuple[EnergyRecord, ...]:
    """Return the energies of the system, the most direct first, then the sum of all parts, or the
    only part; parts that nobody added have none.
    """
    known = [each for each in energy if each.grade in list(Grade)]
    top = select_part_energies(energy)
    if len(top) == 1:
        sums = top
    else:
        sums = [
            each for each in known if each.source == COMPONENTS_SOURCE and SYSTEM not in each.scope
        ]
    return (*sorted((each for each in known if SYSTEM in each.scope), key=rank_energy), *sums)


def select_part_energies(energy: Sequence[EnergyRecord]) -> list[EnergyRecord]:
    """Return the energies of the parts that no other part contains; of several of one part, the
    most direct.
    """
    known = [
        each
        for each in energy
        if each.grade in list(Grade)
        and SYSTEM not in each.scope
        and each.source != COMPONENTS_SOURCE
    ]
    return list(select_outermost_parts(sorted(known, key=rank_energy)))


def select_gpu_energies(energy: Sequence[EnergyRecord]) -> tuple[EnergyRecord, ...]:
    """Return the energies of single GPUs, in the order of their names; of several of one GPU, the
    most direct.
    """
    found: dict[str, EnergyRecord] = {}
    for each in sorted(energy, key=rank_energy):
        if len(each.scope) == 1 and GPU_SCOPE_PATTERN.fullmatch(each.scope[0]):
            found.setdefault(each.scope[0], each)
    return tuple(found[scope] for scope in sorted(found))


def rank_energy(energy: EnergyRecord) -> tuple[int, str]:
    """Order energies: the most direct first, then by name, so that the order of the sources does
    not matter.
    """
    return list(Grade).index(Grade(energy.grade)), energy.name
