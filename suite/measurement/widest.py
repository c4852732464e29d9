"""The energies of a run that cover as much as was measured: a rate of the whole machine is divided
by these, never by those of one part of several.
"""

from collections.abc import Sequence

from suite.measurement.power_readings import COMPONENTS, outermost
from suite.power import SYSTEM, Grade
from suite.records import EnergyRecord


def widest(energy: Sequence[EnergyRecord]) -> tuple[EnergyRecord, ...]:
    """Return the energies of the system, the most direct first, then the sum of all parts, or the
    only part; parts that nobody added have none.
    """
    known = [each for each in energy if each.grade in list(Grade)]
    top = parts(energy)
    sums = (
        top
        if len(top) == 1
        else [each for each in known if each.source == COMPONENTS and SYSTEM not in each.scope]
    )
    return (*sorted((each for each in known if SYSTEM in each.scope), key=rank), *sums)


def parts(energy: Sequence[EnergyRecord]) -> list[EnergyRecord]:
    """Return the energies of the parts that no other part contains; of several of one part, the
    most direct.
    """
    known = [
        each
        for each in energy
        if each.grade in list(Grade) and SYSTEM not in each.scope and each.source != COMPONENTS
    ]
    return list(outermost(sorted(known, key=rank)))


def rank(energy: EnergyRecord) -> tuple[int, str]:
    """Order energies: the most direct first, then by name, so that the order of the sources does
    not matter.
    """
    return list(Grade).index(Grade(energy.grade)), energy.name
