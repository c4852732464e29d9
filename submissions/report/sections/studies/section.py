"""The section of a study, by its kind, with its machine and what disturbed its runs."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from compliance.verdict import Finding
from submissions.compliance_check import NOISE_RULE_PREFIX
from submissions.curves.podium_curve import read_podium_curve
from submissions.report.document import Note, Section, Table, Tone
from submissions.report.sections.curve import build_curve_section
from submissions.report.sections.shell_commands import format_repeatable_command
from submissions.report.sections.studies.cells import NO_RESULT_NOTE
from submissions.report.sections.studies.measured import (
    build_column_table,
    build_measured_section,
)
from submissions.report.sections.studies.peak import build_peak_section
from submissions.report.sections.studies.precision import build_precision_section
from submissions.report.sections.studies.sides import build_sides_section
from submissions.report.sections.studies.speed import build_speed_section
from submissions.report.sections.studies.sweep import build_sweep_section
from submissions.tradeoff.points import MeasuredPoint, iterate_curve_points, iterate_study_points
from suite.ab.sides import AB_KIND
from suite.errors import JudgedError
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.studies.concurrency_curve import CURVE_KIND
from suite.studies.documents import STUDY_FILE, StudyMachine
from suite.studies.measured import describe_subject, read_measured_study
from suite.studies.precision import PRECISION_KIND
from suite.studies.rates import PEAK_KIND
from suite.studies.speed import SPEED_KIND
from suite.studies.sweep import SWEEP_KIND


class StudyHeader(msgspec.Struct, frozen=True):
    """The fields that every study has."""

    kind: str = ""
    machine: StudyMachine | None = None


def build_study_section(folder: Path, findings: Sequence[Finding] = ()) -> Section:
    """Draw one study; JudgedError if its table cannot be read. `findings` are the judge's, of
    which the section tells what disturbed the runs.
    """
    header = read_study_table(folder, StudyHeader)
    kind = header.kind
    if kind == CURVE_KIND:
        section = build_traced_section(folder, findings)
    elif kind == PEAK_KIND:
        section = build_peak_section(read_measured_study(folder), folder.name)
    elif kind == PRECISION_KIND:
        section = build_precision_section(read_measured_study(folder), folder.name)
    elif kind == SPEED_KIND:
        section = build_speed_section(read_measured_study(folder), folder.name)
    elif kind == SWEEP_KIND:
        section = build_sweep_section(read_measured_study(folder), folder.name)
    elif kind == AB_KIND:
        section = build_sides_section(read_measured_study(folder), folder)
    else:
        section = build_measured_section(read_measured_study(folder), folder.name)
    tables = [*section.tables]
    if header.machine:
        tables += build_study_machine_tables(header.machine)
    return replace(
        section,
        notes=(*build_noise_notes(folder, findings), *section.notes),
        tables=tuple(tables),
    )


def read_study_points(folder: Path, findings: Sequence[Finding]) -> list[MeasuredPoint]:
    """Read the points of throughput against latency of a sweep or a curve; none of another study,
    or if its table cannot be read, which its section says.
    """
    try:
        kind = read_study_table(folder, StudyHeader).kind
        if kind == SWEEP_KIND:
            return [*iterate_study_points(folder, read_measured_study(folder), findings)]
        if kind == CURVE_KIND:
            return [*iterate_curve_points(read_podium_curve(folder, findings, folder))]
    except JudgedError:
        pass
    return []


def build_traced_section(folder: Path, findings: Sequence[Finding]) -> Section:
    """Draw a curve that podium traced."""
    curve = read_podium_curve(folder, findings, folder)
    section = build_curve_section(curve, several=True)
    study = read_measured_study(folder)
    told = study.kind.describe_answer(study.request, study.answer, study.points)
    has_more = curve.runs > 1 or bool(study.endpoints)  # intervals, or latencies of servers
    repeated = (build_column_table(study),) if has_more else ()
    return replace(
        section,
        intro=f"{section.intro} {describe_subject(study)}.",
        notes=(Note(text=NO_RESULT_NOTE), *section.notes, *(Note(text=each) for each in told)),
        tables=(*section.tables, *repeated),
    )


def build_study_machine_tables(machine: StudyMachine) -> Iterator[Table]:
    """Yield the processor and the commands of a study, and the packages."""
    count = ""
    if machine.processors:
        count = f"{machine.processors} x "
    yield Table(
        title="Machine",
        columns=("what", "value"),
        rows=(("processors", f"{count}{machine.processor or 'unknown'}"),),
    )
    yield Table(
        title="Commands to repeat it",
        columns=("command",),
        rows=tuple((format_repeatable_command(command),) for command in machine.commands),
    )
    yield Table(
        title="Packages",
        columns=("package", "version"),
        rows=tuple(machine.packages.items()),
        folded=True,
    )


def build_noise_notes(folder: Path, findings: Sequence[Finding]) -> Iterator[Note]:
    """Yield a note on the runs of a study that were disturbed, if there were any."""
    found = [
        each
        for each in findings
        if each.rule.startswith(NOISE_RULE_PREFIX) and Path(each.file).is_relative_to(folder)
    ]
    if found:
        runs = len({Path(each.file).parent for each in found})
        rules = ", ".join(dict.fromkeys(each.rule for each in found))
        yield Note(
            text=(
                f"The machine was disturbed in {runs} run{'s' if runs != 1 else ''} ({rules}); "
                "for what was found, see the findings."
            ),
            tone=Tone.CAUTION,
        )


def read_study_table(folder: Path, kind: type[Any]) -> Any:
    """Read the table; JudgedError if that fails."""
    try:
        return read_untrusted_file(folder / STUDY_FILE, msgspec.json.Decoder(kind).decode)
    except UnreadableError as error:
        raise JudgedError(str(error)) from error
