"""Builds the document of a report from paths: reads, judges, scores, and orders the sections."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from compliance.bundle import trailer
from compliance.recognition.path_kind import Kind, recognise
from compliance.recognition.tree_path import homes
from compliance.verdict import Finding, Severity, Verdict, verdict
from submissions import compliance_check
from submissions.attempts import tried
from submissions.compare.compared_results import Side, side
from submissions.pack.bundle import recollected
from submissions.pack.seal import inspect
from submissions.report.document import Document, Note, Part, Section, Tone
from submissions.report.sections import (
    episodes,
    examples,
    findings,
    formats,
    headlines,
    machine,
    orientation,
    provenance,
    serving,
    studies,
    training,
)
from submissions.result_index import Result, opened
from submissions.signatures import time_stamps
from submissions.signatures.bundled import checked
from submissions.signatures.ssh_keygen import Signers, Standing
from suite import __version__, registry
from suite.errors import JudgedError, PodiumError
from suite.studies.documents import STUDIES, STUDY


@dataclass(slots=True, kw_only=True)
class Subject:
    """One path and what was read from it."""

    path: Path
    bundle: bool
    found: tuple[Finding, ...] = ()
    problems: list[str] = field(default_factory=list)
    """Problems with its bytes, or files that could not be read."""
    damaged: bool = False
    """It is not the file that was packed, so that nothing in it was judged."""
    pairs: list[tuple[Result, Side]] = field(default_factory=list)
    attempts: list[int | None] = field(default_factory=list)
    """How often each was begun; read while a bundle is unpacked."""
    sections: list[Section] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        """The judge's verdict, combined with the check of the bytes."""
        return Verdict.BROKEN if self.problems else verdict(self.found)

    @property
    def word(self) -> str:
        """The verdict for people: a damaged file has broken no rule, and was not judged."""
        return findings.DAMAGED if self.damaged else findings.WORDS[self.verdict]

    def add(self, problem: str) -> None:
        """Note a problem once."""
        self.problems += [] if problem in self.problems else [problem]


def document(
    paths: Sequence[Path], against: Sequence[Path] = (), *, published: bool = True
) -> tuple[Document, list[str]]:
    """Build the report of some paths; return it with one sentence per path that does not count.
    JudgedError if a path does not exist.
    """
    for path in (*paths, *against):
        if not path.exists():
            raise JudgedError(f"{path}: no such file or folder")
    subjects = [subject(path) for path in paths]
    others = [compared_alone(path) for path in against]
    sides = [each for subject in (*others, *subjects) for _, each in subject.pairs]
    sections = []
    if len(subjects) + len(others) > 1 and sides:
        every = [str(each.path) for each in (*others, *subjects)]
        sections.append(orientation.comparison(sides, every, str(against[0]) if against else None))
    rows = orientation.published(sides) if sides and published else None
    sections += [rows] if rows else []
    parts = [part(each) for each in subjects]
    title = parts[0].title if len(parts) == 1 else f"{len(parts)} results"
    made = Document(
        title=title,
        parts=tuple(parts),
        sections=tuple(sections),
        legend=orientation.legend(rows is not None),
        version=__version__,
    )
    return made, [
        f"{each.path}: {each.word.casefold()}"
        for each in (*subjects, *others)
        if each.verdict is not Verdict.VALID
    ]


def subject(path: Path) -> Subject:
    """Read one path, with all sections that are drawn of it."""
    found = judged(path)
    if found.damaged:
        # part() shows its findings: figures of a file that is not the one that was packed would be
        # believed
        return found
    drawn = list(of_studies(path))
    if drawn and (recognise(path).kind is Kind.STUDY or not any(homes(path))):
        found.sections = [*drawn, findings.section(found.found, found.problems)]
        return found
    try:
        with opened(path) as results:
            read(found, results)
            found.sections = [*sections(found), *drawn]
    except JudgedError as error:
        found.add(str(error))
    return found


def of_studies(path: Path) -> Iterator[Section]:
    """Draw the studies of a path: itself, or those of a results folder."""
    for folder in (
        [path]
        if (path / STUDY).is_file()
        else sorted(path.glob(f"{STUDIES}/*"))
        if path.is_dir()
        else ()
    ):
        if (folder / STUDY).is_file():
            yield guarded(folder.name, f"study-{folder.name}", partial(studies.section, folder))


def compared_alone(path: Path) -> Subject:
    """Read one path that serves for comparison only."""
    found = judged(path)
    try:
        with opened(path) as results:
            read(found, results)
    except JudgedError as error:
        found.add(str(error))
    return found


def judged(path: Path) -> Subject:
    """Judge a path; for a bundle check its bytes first, as `podium verify` does."""
    bundle = path.is_file() and recognise(path).kind is Kind.BUNDLE
    problems = list(inspect(path)) if bundle else []
    damaged = bool(problems)
    found = compliance_check.findings(path)
    if bundle and not problems:
        found_behind = trailer.read(path)
        problems = [
            each.sentence
            for each in checked(path, found_behind, Signers())
            if each.standing is Standing.BAD
        ]
        problems += time_stamps.problems(found_behind)
    if bundle and not problems and not any(each.severity is Severity.ERROR for each in found):
        problems = list(recollected(path))
    return Subject(path=path, bundle=bundle, found=found, problems=problems, damaged=damaged)


def read(found: Subject, results: Sequence[Result]) -> None:
    """Score every result of a path; an unreadable one is recorded as a problem, and the rest
    continues.
    """
    judge = compliance_check.judge_for(results)
    for result in results:
        try:
            found.pairs.append((result, side(found.path, result, not found.problems, judge)))
            found.attempts.append(tried(result))
        except PodiumError as error:
            found.add(str(error))


def sections(found: Subject) -> Iterator[Section]:
    """Yield the sections of a path in order."""
    workloads = list(dict.fromkeys(result.workload for result, _ in found.pairs))
    for workload in workloads:
        parts = list(of_workload(found, workload))
        if len(workloads) > 1:
            yield Section(
                id=f"workload-{workload}", title=headlines.title_of(workload), parts=tuple(parts)
            )
        else:
            yield from parts
    for workload in workloads:
        yield from beside_precision(found, workload)
    yield findings.section(found.found, found.problems)
    yield provenance.section(
        [result for result, _ in found.pairs], found.path if found.bundle else None
    )


def beside_precision(found: Subject, workload: str) -> Iterator[Section]:
    """Yield engines and number formats beside one another: as `podium precision` measured them,
    else from the results.
    """
    roots = dict.fromkeys(
        result.root for result, _ in found.pairs if result.home and result.workload == workload
    )
    measured = list(filter(None, (orientation.precision(root, workload) for root in roots)))
    computed = None if measured else formats.section(found.pairs, workload)
    yield from measured or ([computed] if computed else [])


def of_workload(found: Subject, workload: str) -> Iterator[Section]:
    """Yield the sections of one workload."""
    pairs = [(result, each.score) for result, each in found.pairs if result.workload == workload]
    trained = [(result, score) for result, score in pairs if result.scenario is None]
    served = [(result, score) for result, score in pairs if result.scenario is not None]
    for result, score in trained:
        yield guarded(
            "Training",
            f"training-{workload}-{score.system}",
            partial(training.section, result, score),
        )
        shown = episodes.section(result, score)
        yield from [shown] if shown else []
    if served:
        parts = [
            guarded(
                str(s.scenario),
                f"serving-{workload}-{s.system}-{s.scenario}",
                partial(serving.section, r, s),
            )
            for r, s in served
        ]
        yield together(
            Section(
                id=f"serving-{workload}",
                title="Serving",
                intro="Each scenario of LoadGen with its performance runs.",
                parts=tuple(parts),
            )
        )
        shown = examples.section(served, workload)
        yield from [shown] if shown else []
    yield together(machine.section(pairs, workload))


def together(section: Section) -> Section:
    """State a note once if all parts of a section share it."""
    if not section.parts:
        return section
    common = [
        note for note in section.parts[0].notes if all(note in part.notes for part in section.parts)
    ]
    parts = tuple(
        replace(part, notes=tuple(note for note in part.notes if note not in common))
        for part in section.parts
    )
    return replace(section, notes=(*section.notes, *common), parts=parts)


def guarded(title: str, id: str, make: Callable[[], Section]) -> Section:
    """Build a section; an unreadable one states why, and the page continues."""
    try:
        return make()
    except PodiumError as error:
        return Section(id=id, title=title, notes=(Note(text=str(error), tone=Tone.CAUTION),))


def part(found: Subject) -> Part:
    """Build the part of the document about one path."""
    first = found.pairs[0][1].score if found.pairs else None
    return Part(
        name=found.path.name or str(found.path),
        title=headlines.title([each for _, each in found.pairs]) or found.path.name,
        verdict=found.word,
        tone=findings.TONES[found.verdict],
        summary=summary(found),
        facts=tuple(headlines.facts([each for _, each in found.pairs])),
        tiles=tuple(headlines.tiles([each for _, each in found.pairs])),
        headlines=tuple(
            headlines.headline(each, begun)
            for (_, each), begun in zip(found.pairs, found.attempts, strict=True)
        ),
        sections=(
            tuple(found.sections)
            if first or found.sections
            else (findings.section(found.found, found.problems),)
        ),
        seal=provenance.seal_of(found.path) if found.bundle else "",
        nonces=tuple(dict.fromkeys(each.campaign for _, each in found.pairs if each.campaign)),
    )


def summary(found: Subject) -> str:
    """Describe what the verdict covers."""
    if found.damaged:
        return (
            f"{found.problems[0]}. This is not the file that was packed, so nothing in it was"
            " judged, and nothing in it may be relied on."
        )
    rounds = (
        ", ".join(dict.fromkeys(each.score.round for _, each in found.pairs))
        or registry.DEFAULT_ROUND
    )
    judged = f"The judge of {rounds} has read every file: {findings.counted(found.found)}."
    if found.problems:
        return f"{found.problems[0]}. {judged} Nothing in this file may be relied on."
    if found.verdict is not Verdict.VALID:
        return f"{judged} The reasons stand under findings."
    told = sum(each.rule == compliance_check.UNSCORED for each in found.found)
    gaps = f", but for {told} accuracies that could not be" if told else ""
    sealed = "It is sealed and unchanged since. " if found.bundle else ""
    return (
        f"{sealed}{judged} Figures were recomputed from the logs{gaps}. That the runs took place on"
        " the machine described, no file can prove."
    )
