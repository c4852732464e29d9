"""Efficiencies that can stand beside each other: energies of the widest scope that was measured, of
one grade and one set of parts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.files.untrusted_files import printable
from suite.measurement.power_readings import COMPONENTS
from suite.measurement.widest import parts, widest
from suite.records import EnergyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The properties that two energies must share to be comparable."""

    grade: str
    parts: tuple[tuple[str, str], ...]
    """Each part with the grade that it was measured by, in the order of names."""

    @property
    def words(self) -> str:
        """Format the grade and the parts; a part's own grade is added where it is a better one than
        the sum's.
        """
        parts = [part if grade == self.grade else f"{part} ({grade})" for part, grade in self.parts]
        return f"grade {self.grade} of {' + '.join(parts)}"


def wholes(energy: Sequence[EnergyRecord]) -> dict[Kind, EnergyRecord]:
    """Return the energies of the widest scope by kind, the best first."""
    found: dict[Kind, EnergyRecord] = {}
    for each in widest(energy):
        found.setdefault(kind(each, parts(energy)), each)
    return found


def kind(energy: EnergyRecord, added: Sequence[EnergyRecord]) -> Kind:
    """Return what an energy has to share with another; `added` are those that a sum consists of."""
    graded = (
        {scope: part.grade for part in added for scope in part.scope}
        if energy.source == COMPONENTS
        else {}
    )
    return Kind(
        grade=energy.grade,
        parts=tuple(sorted((scope, graded.get(scope, energy.grade)) for scope in energy.scope)),
    )


def common(first: Sequence[EnergyRecord], others: Sequence[Sequence[EnergyRecord]]) -> Kind | None:
    """Return the kind by which a baseline is compared: the best of those that most of the others
    have too; None if it has no energy.
    """
    theirs: Sequence[Mapping[Kind, EnergyRecord]] = [wholes(each) for each in others]
    return max(wholes(first), key=lambda each: sum(each in other for other in theirs), default=None)


def unlike(
    first: Sequence[EnergyRecord], other: Sequence[EnergyRecord], shared: Kind | None
) -> str | None:
    """Explain why a result's watts are not compared with the baseline's; None if they are, or
    neither has any.
    """
    if not first and not other or shared is not None and shared in wholes(other):
        return None
    if not first or not other:
        return "efficiency is not compared: one side has no energy"
    return printable(
        f"efficiency is not compared: {told(other)} against"
        f" {shared.words if shared else told(first)}"
    )


def rough(energy: Sequence[EnergyRecord], shared: Kind | None) -> str | None:
    """Describe the error at the edges of the energy that an efficiency is computed from; None if it
    is small.
    """
    found = wholes(energy).get(shared) if shared else None
    return (
        f"its energy: {found.joules:,.1f} J, {found.about.removeprefix(', ')}"
        if found and found.rough
        else None
    )


def told(energy: Sequence[EnergyRecord]) -> str:
    """Format the kinds of the widest energies."""
    return ", ".join(each.words for each in wholes(energy)) or "parts without a sum"
