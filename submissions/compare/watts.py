"""Comparable efficiencies: from energies of the widest measured scope, with the same grade and the
same parts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from suite.files.untrusted_files import replace_unprintable
from suite.measurement.power_readings import COMPONENTS_SOURCE
from suite.measurement.widest import select_part_energies, select_widest_energies
from suite.records import EnergyRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyKind:
    """The properties that two energies must share to be comparable."""

    grade: str
    parts: tuple[tuple[str, str], ...]
    """Each part with the grade of its measurement, sorted by name."""

    @property
    def description(self) -> str:
        """The grade and the parts; a part's own grade is added if it is better than the sum's."""
        parts = [part if grade == self.grade else f"{part} ({grade})" for part, grade in self.parts]
        return f"grade {self.grade} of {' + '.join(parts)}"


def group_widest_energies(energy: Sequence[EnergyRecord]) -> dict[EnergyKind, EnergyRecord]:
    """Return the energies of the widest scope, grouped by kind, the best first."""
    found: dict[EnergyKind, EnergyRecord] = {}
    for each in select_widest_energies(energy):
        found.setdefault(build_energy_kind(each, select_part_energies(energy)), each)
    return found


def build_energy_kind(energy: EnergyRecord, added: Sequence[EnergyRecord]) -> EnergyKind:
    """Return the kind of an energy; `added` are the energies that a sum consists of."""
    graded = {}
    if energy.source == COMPONENTS_SOURCE:
        graded = {scope: part.grade for part in added for scope in part.scope}
    return EnergyKind(
        grade=energy.grade,
        parts=tuple(sorted((scope, graded.get(scope, energy.grade)) for scope in energy.scope)),
    )


def choose_common_energy_kind(
    first: Sequence[EnergyRecord], others: Sequence[Sequence[EnergyRecord]]
) -> EnergyKind | None:
    """Return the kind used to compare with a baseline: the best of those that most of the others
    share. None if the baseline has no energy.
    """
    theirs: Sequence[Mapping[EnergyKind, EnergyRecord]] = [
        group_widest_energies(each) for each in others
    ]
    return max(
        group_widest_energies(first),
        key=lambda each: sum(each in other for other in theirs),
        default=None,
    )


def explain_energy_mismatch(
    first: Sequence[EnergyRecord], other: Sequence[EnergyRecord], shared: EnergyKind | None
) -> str | None:
    """Explain why a result's power is not compared with the baseline's; None if it is, or if
    neither has any.
    """
    if not first and not other or shared is not None and shared in group_widest_energies(other):
        return None
    if not first or not other:
        return "efficiency is not compared: one side has no energy"
    return replace_unprintable(
        f"efficiency is not compared: {format_energy_kinds(other)} against"
        f" {shared.description if shared else format_energy_kinds(first)}"
    )


def describe_energy_error(energy: Sequence[EnergyRecord], shared: EnergyKind | None) -> str | None:
    """Describe the error at the start and end of the energy that an efficiency is computed from;
    None if it is small.
    """
    found = group_widest_energies(energy).get(shared) if shared else None
    if found and found.is_rough:
        return f"its energy: {found.joules:,.1f} J, {found.edge_error_note.removeprefix(', ')}"
    return None


def format_energy_kinds(energy: Sequence[EnergyRecord]) -> str:
    """Format the kinds of the widest energies."""
    return (
        ", ".join(each.description for each in group_widest_energies(energy))
        or "parts without a sum"
    )
