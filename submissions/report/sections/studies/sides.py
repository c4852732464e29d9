"""Two sides in a report: the ratio of their speeds, whose interval narrows from block to block, and
what each side is.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from submissions.report.document import Axis, Chart, Line, Mark, Note, Section, Table, Tone
from submissions.report.sections.studies.cells import NO_RESULT_NOTE
from submissions.report.sections.studies.measured import build_measured_section
from suite.ab.answer import WIDEST_RATIO, AbAnswer, AbStep
from suite.ab.decision import AbVerdict
from suite.ab.sides import SIDES, AbRequest, describe_side
from suite.files.untrusted_files import UnreadableError
from suite.records import read_system_record
from suite.studies.documents import StudyMachine
from suite.studies.kind import SIDE_SYSTEM_PREFIX
from suite.studies.measured import MeasuredStudy

PACKAGE_HASH: Final = ", SHA-256 "
"""What stands between an engine's package and its hash (suite/plugins.py)."""
TONES: Final = {
    AbVerdict.B_FASTER: Tone.GOOD,
    AbVerdict.A_FASTER: Tone.BAD,
    AbVerdict.NO_DIFFERENCE: Tone.GOOD,
    AbVerdict.OPEN: Tone.CAUTION,
}


def build_sides_section(study: MeasuredStudy, folder: Path) -> Section:
    """Build the section of a study of two sides."""
    answer: AbAnswer = study.answer
    section = build_measured_section(study, folder.name)
    first = Note(text=f"{answer.sentence}.", tone=TONES[AbVerdict(answer.verdict)])
    lost = [Note(text=f"{answer.lost}.", tone=Tone.BAD)] if answer.lost else []
    told = [each for each in section.notes if each.text not in (answer.sentence, answer.lost)]
    return replace(
        section,
        intro=f"{study.subject.describe_system()}: {study.kind.note}. {NO_RESULT_NOTE}",
        title=f"A and B of {study.subject.workload or folder.name}",
        charts=tuple(iterate_charts(study.request, answer, folder.name)),
        notes=(first, *lost, *told),
        tables=(
            build_sides_table(study.request, folder),
            *iterate_package_tables(study.record.machine),
            *section.tables,
        ),
    )


def iterate_package_tables(machine: StudyMachine) -> Iterator[Table]:
    """Yield the packages in which the installations of both sides differ, if any do."""
    if not machine.packages_of_b:
        return
    yield Table(
        title="Packages that differ",
        columns=("package", "A", "B"),
        rows=tuple(
            (name, machine.packages.get(name, "none"), version)
            for name, version in machine.packages_of_b.items()
        ),
    )


def iterate_charts(request: AbRequest, answer: AbAnswer, name: str) -> Iterator[Chart]:
    """Yield the chart of the ratio after each block, if there is one."""
    steps = [each for each in answer.steps if each.decision.ratio is not None]
    if not steps:
        return
    bound = 100 * request.difference
    yield Chart(
        id=f"study-{name}-ratio",
        title="Speed of B against A, after each block",
        description=f"{answer.sentence}. The interval holds however often it was looked at.",
        x=Axis(name="block", whole=True),
        y=Axis(name="B faster than A by", unit="%"),
        lines=(
            Line(
                name="all blocks so far",
                points=tuple((float(each.block), convert_ratio(each)) for each in steps),
                dots=True,
                y_intervals=tuple(find_interval(each) for each in steps),
            ),
            Line(
                name="this block alone",
                points=tuple((float(each.block), 100 * (each.ratio - 1)) for each in steps),
                loose=True,
            ),
        ),
        marks=(
            Mark(name=f"±{bound:g} %", value=bound, upright=False),
            Mark(name="", value=-bound, upright=False),
        ),
    )


def convert_ratio(step: AbStep) -> float:
    """Return the ratio after a block as a change, %."""
    return 100 * ((step.decision.ratio or 1.0) - 1)


def find_interval(step: AbStep) -> tuple[float, float] | None:
    """Return the interval after a block as changes, %; None without one."""
    low, high = step.decision.low, step.decision.high
    if low is None or high is None or high > WIDEST_RATIO * low:
        return None
    return 100 * (low - 1), 100 * (high - 1)


def build_sides_table(request: AbRequest, folder: Path) -> Table:
    """Build the table of what each side is: as the command says, and as its runs do."""
    rows = []
    for side in SIDES:
        try:
            system = read_system_record(folder / f"{SIDE_SYSTEM_PREFIX}{side}")
        except UnreadableError:
            continue
        rows.append(
            (
                side.upper(),
                describe_side(request.get_side(side)),
                f"{system.engine} {system.precision}",
                system.engine_package.partition(PACKAGE_HASH)[0],
                str(system.threads),
                system.device,
                system.checkpoint_sha256[:12],
                system.version,
            )
        )
    return Table(
        title="Sides",
        columns=(
            "side",
            "as asked for",
            "engine",
            "engine's package",
            "threads",
            "device",
            "weights",
            "podium",
        ),
        rows=tuple(rows),
    )
