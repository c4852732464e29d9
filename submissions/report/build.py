"""Builds the document of a report from paths: reads, judges, scores, and orders the sections."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from compliance.bundle import trailer
from compliance.recognition.path_kind import PathKind, recognise_path
from compliance.recognition.tree_path import iterate_tree_organisations
from compliance.results.curves import ScoredCurve
from compliance.results.indexed_result import IndexedResult
from compliance.verdict import Finding, Severity, Verdict, compute_verdict
from submissions import compliance_check
from submissions.compare.compared_results import read_compared_result
from submissions.compare.per_unit import FigureRequest
from submissions.curves.comparison import (
    compare_with_baselines,
    iterate_unpaired_curves,
    select_first_curves,
)
from submissions.curves.curve import read_path_curves
from submissions.pack.bundle import compare_manifest_with_content
from submissions.pack.seal import inspect_bundle
from submissions.report.document import Document, Note, Part, Section, Tone
from submissions.report.headline_columns import HEADLINE_DATA
from submissions.report.records.dates import read_result_day
from submissions.report.sections import (
    curve,
    episodes,
    examples,
    findings,
    formats,
    headlines,
    machine,
    names,
    orientation,
    provenance,
    serving,
    training,
)
from submissions.report.sections.studies.section import build_study_section, read_study_points
from submissions.report.sections.thin_figures import replace_thin_figures
from submissions.report.sections.tradeoff import (
    build_drawn_tradeoffs,
    build_tradeoff_section,
    iterate_result_points,
)
from submissions.result_index import find_requested_results, open_results
from submissions.signatures import time_stamps
from submissions.signatures.bundled import verify_bundle_signatures
from submissions.signatures.ssh_keygen import SignatureStatus, TrustedSigners
from submissions.tradeoff.figures import Tradeoff
from submissions.tradeoff.points import MeasuredPoint, iterate_curve_points
from suite import __version__, registry
from suite.errors import JudgedError, PodiumError
from suite.loadgen.scenario import Scenario
from suite.result import Result
from suite.studies.documents import STUDIES_FOLDER, STUDY_FILE


@dataclass(slots=True, kw_only=True)
class ReportSubject:
    """One path and what was read from it."""

    path: Path
    bundle: bool
    findings: tuple[Finding, ...] = ()
    problems: list[str] = field(default_factory=list)
    """Problems with its bytes, and files that could not be read."""
    damaged: bool = False
    """Whether the file differs from the one that was packed, so that nothing in it was judged."""
    pairs: list[tuple[IndexedResult, Result]] = field(default_factory=list)
    points: list[MeasuredPoint] = field(default_factory=list)
    """Points of its studies: throughput against latency."""
    curves: list[ScoredCurve] = field(default_factory=list)
    """Its curves of MLPerf Endpoints."""
    sections: list[Section] = field(default_factory=list)
    among_others: bool = False
    """Whether the report is about other paths, too."""

    @property
    def several_systems(self) -> bool:
        """Whether the report has several systems, so that each figure names its own."""
        return (
            self.among_others
            or len({(each.org, each.system) for each in self.curves}) > 1
            or names.has_several_systems([each for _, each in self.pairs])
        )

    @property
    def verdict(self) -> Verdict:
        """The judge's verdict, combined with the check of the bytes."""
        if self.problems:
            return Verdict.BROKEN
        return compute_verdict(self.findings)

    @property
    def verdict_label(self) -> str:
        """The verdict for display: a damaged file was not judged, so it violates no rule."""
        if self.damaged:
            return findings.DAMAGED_LABEL
        return findings.VERDICT_LABELS[self.verdict]

    def add_problem(self, problem: str) -> None:
        """Add a problem, once."""
        if problem not in self.problems:
            self.problems.append(problem)


class BuiltReport(NamedTuple):
    """A report, and what it was built from."""

    document: Document
    problems: list[str]
    """One sentence for each path that is not valid."""
    results: tuple[Result, ...]


def judge_and_build_report(
    paths: Sequence[Path],
    against: Sequence[Path] = (),
    *,
    published: bool = True,
    per: FigureRequest | None = None,
) -> BuiltReport:
    """Build the report on some paths; return it with one sentence per path that is not valid. `per`
    is what throughput is divided by where it is drawn against latency. JudgedError if a path does
    not exist.
    """
    for path in (*paths, *against):
        if not path.exists():
            raise JudgedError(f"{path}: no such file or folder")
    among_others = len(paths) + len(against) > 1
    subjects = [read_report_subject(path, among_others) for path in paths]
    others = [read_compared_subject(path) for path in against]
    sides = [each for subject in (*others, *subjects) for _, each in subject.pairs]
    sections = []
    if len(subjects) + len(others) > 1 and sides:
        every = [str(each.path) for each in (*others, *subjects)]
        sections.append(
            orientation.build_comparison_section(sides, every, str(against[0]) if against else None)
        )
    curves = [found for each in (*others, *subjects) for found in each.curves]
    groups = [each.curves for each in (*others, *subjects) if each.curves]
    if len(groups) > 1:
        first = groups[0]
    else:
        first = select_first_curves(curves)
    if compared := compare_with_baselines(curves, first):
        if len(groups) > 1:
            unpaired = [*iterate_unpaired_curves(curves, first)]
        else:
            unpaired = []
        sections.append(curve.build_curve_comparison_section(compared, unpaired))
    rows = None
    if sides and published:
        rows = orientation.build_published_section(sides)
    if rows:
        sections.append(rows)
    parts = [build_report_part(each) for each in subjects]
    tradeoffs = build_report_tradeoffs(subjects, parts, per)
    if drawn := build_tradeoff_section(tradeoffs):
        sections.insert(0, drawn)
    if len(parts) == 1:
        title = parts[0].title
    else:
        title = f"{len(parts)} results"
    report = Document(
        title=title,
        parts=tuple(parts),
        sections=tuple(map(replace_thin_figures, sections)),
        legend=orientation.list_required_notes(rows is not None),
        version=__version__,
        tradeoffs=tuple(tradeoffs),
    )
    return BuiltReport(
        document=report,
        problems=[
            f"{each.path}: {each.verdict_label.casefold()}"
            for each in (*subjects, *others)
            if each.verdict is not Verdict.VALID
        ],
        results=tuple(each for subject in subjects for _, each in subject.pairs),
    )


def build_report_tradeoffs(
    subjects: Sequence[ReportSubject], parts: Sequence[Part], per: FigureRequest | None
) -> list[Tradeoff]:
    """Build the figures of throughput against latency over all paths: of sweeps, of several systems
    with results, and of several curves of one model.
    """
    points = [point for subject in subjects for point in subject.points]
    points += [
        point
        for subject, part in zip(subjects, parts, strict=True)
        for point in (
            *iterate_result_points([each for _, each in subject.pairs], str(subject.path)),
            *(each for curve in part.curves for each in iterate_curve_points(curve)),
        )
    ]
    return build_drawn_tradeoffs(points, per)


def read_report_subject(path: Path, among_others: bool = False) -> ReportSubject:
    """Read one path and build all of its sections; `among_others` means that the report is about
    other paths, too.
    """
    subject = judge_report_path(path)
    subject.among_others = among_others
    if subject.damaged:
        # the part shows its findings only: readers would believe figures from an altered file
        return subject
    studied = list(iterate_study_sections(path, subject.findings))
    subject.points = [
        point
        for folder in list_study_folders(path)
        for point in read_study_points(folder, subject.findings)
    ]
    several = among_others or len(subject.curves) > 1
    drawn = [
        *(curve.build_curve_section(each, several=several) for each in subject.curves),
        *studied,
    ]
    if drawn and not has_scored_results(subject):
        subject.sections = [
            *drawn,
            findings.build_findings_section(subject.findings, subject.problems),
        ]
        return subject
    try:
        with open_results(path) as results:
            score_subject_results(subject, results)
            subject.sections = [*iterate_subject_sections(subject), *drawn]
    except JudgedError as error:
        subject.add_problem(str(error))
    return subject


def has_scored_results(subject: ReportSubject) -> bool:
    """Return whether a path has results beside its curves or its studies."""
    if subject.curves:
        return bool(find_requested_results(subject.path))
    return recognise_path(subject.path).kind is not PathKind.STUDY and any(
        iterate_tree_organisations(subject.path)
    )


def iterate_study_sections(path: Path, found: Sequence[Finding]) -> Iterator[Section]:
    """Yield the sections about studies: about the path itself, or about those in a results folder;
    `found` are the judge's findings.
    """
    for folder in list_study_folders(path):
        yield build_section_or_note(
            folder.name,
            f"study-{folder.name}",
            partial(build_study_section, folder, found),
        )


def list_study_folders(path: Path) -> list[Path]:
    """Return the folders of studies: the path itself, or those in a results folder."""
    if (path / STUDY_FILE).is_file():
        folders = [path]
    else:
        folders = sorted(path.glob(f"{STUDIES_FOLDER}/*"))
    return [each for each in folders if (each / STUDY_FILE).is_file()]


def read_compared_subject(path: Path) -> ReportSubject:
    """Read one path that is used for comparison only."""
    subject = judge_report_path(path)
    if subject.curves and not has_scored_results(subject):
        return subject
    try:
        with open_results(path) as results:
            score_subject_results(subject, results)
    except JudgedError as error:
        subject.add_problem(str(error))
    return subject


def judge_report_path(path: Path) -> ReportSubject:
    """Judge a path; for a bundle check its bytes first, as `podium verify` does."""
    bundle = path.is_file() and recognise_path(path).kind is PathKind.BUNDLE
    if bundle:
        problems = list(inspect_bundle(path))
    else:
        problems = []
    damaged = bool(problems)
    judge_findings = compliance_check.judge_path(path)
    if bundle and not problems:
        bundle_trailer = trailer.read_bundle_trailer(path)
        problems = [
            each.sentence
            for each in verify_bundle_signatures(path, bundle_trailer, TrustedSigners())
            if each.standing is SignatureStatus.BAD
        ]
        problems += time_stamps.find_time_stamp_problems(bundle_trailer)
    if (
        bundle
        and not problems
        and not any(each.severity is Severity.ERROR for each in judge_findings)
    ):
        problems = list(compare_manifest_with_content(path))
    return ReportSubject(
        path=path,
        bundle=bundle,
        findings=judge_findings,
        problems=problems,
        damaged=damaged,
        curves=read_path_curves(path, judge_findings),
    )


def score_subject_results(subject: ReportSubject, results: Sequence[IndexedResult]) -> None:
    """Score every result of a path; an unreadable one is recorded as a problem, and the others are
    still scored.
    """
    judge = compliance_check.choose_shared_judge(results)
    for result in order_report_results(results):
        try:
            found = read_compared_result(subject.path, result, not subject.problems, judge)
            origin = replace(found.origin, date=read_result_day(result, found))
            subject.pairs.append((result, replace(found, origin=origin)))
        except PodiumError as error:
            subject.add_problem(str(error))


def order_report_results(results: Sequence[IndexedResult]) -> list[IndexedResult]:
    """Order results by workload, training first, then by scenario; results of a kind stay in their
    order.
    """
    workloads = list(dict.fromkeys(result.workload for result in results))
    scenarios = list(Scenario)
    return sorted(
        results,
        key=lambda result: (
            workloads.index(result.workload),
            -1 if result.scenario is None else scenarios.index(result.scenario),
            result.scenario_name or "",
        ),
    )


def iterate_subject_sections(subject: ReportSubject) -> Iterator[Section]:
    """Yield the sections of a path in order."""
    workloads = list(dict.fromkeys(result.workload for result, _ in subject.pairs))
    for workload in workloads:
        parts = list(iterate_workload_sections(subject, workload))
        if len(workloads) > 1:
            yield Section(
                id=f"workload-{workload}",
                title=headlines.find_workload_title(workload),
                parts=tuple(parts),
            )
        else:
            yield from parts
    compared = (formats.build_formats_section(subject.pairs, workload) for workload in workloads)
    yield from filter(None, compared)
    yield findings.build_findings_section(subject.findings, subject.problems)
    shown = provenance.build_provenance_section(
        [result for result, _ in subject.pairs], subject.path if subject.bundle else None
    )
    # a published round files nothing of what this section shows
    if shown.tables or not all(names.is_published_score(each) for _, each in subject.pairs):
        yield shown


def iterate_workload_sections(subject: ReportSubject, workload: str) -> Iterator[Section]:
    """Yield the sections of one workload."""
    pairs = [(result, each) for result, each in subject.pairs if result.workload == workload]
    served = [(result, side) for result, side in pairs if result.scenario is not None]
    for result, side in pairs:
        if result.scenario is not None:
            continue
        section = build_section_or_note(
            "Training",
            f"training-{names.build_result_id(side)}",
            partial(training.build_training_section, result, side),
        )
        yield name_result_section(subject, section, side)
        shown = episodes.build_episode_section(result, side)
        if shown:
            yield shown
    if served:
        parts = [
            name_result_section(
                subject,
                build_section_or_note(
                    str(side.scenario),
                    f"serving-{names.build_result_id(side)}-{side.scenario}",
                    partial(serving.build_scenario_section, result, side),
                ),
                side,
            )
            for result, side in served
        ]
        yield merge_shared_notes(
            Section(
                id=f"serving-{workload}",
                title="Serving",
                intro="LoadGen scenarios with their performance runs.",
                parts=tuple(parts),
            )
        )
        own = [(result, side) for result, side in served if not names.is_published_score(side)]
        shown = None
        if own:
            shown = examples.build_examples_section(own, workload)
        if shown:
            yield shown
    yield merge_shared_notes(
        machine.build_machine_section(pairs, workload, several=subject.several_systems)
    )


def name_result_section(subject: ReportSubject, section: Section, side: Result) -> Section:
    """Name the system of a result in its section, where the report has several."""
    several = subject.several_systems
    return names.add_section_origin(
        section,
        names.format_result_origin(side, several=several, machine=True),
        names.format_result_origin(side, several=several),
    )


def merge_shared_notes(section: Section) -> Section:
    """Move a note that all parts of a section share to the section itself."""
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


def build_section_or_note(title: str, id: str, make: Callable[[], Section]) -> Section:
    """Build a section; if its data cannot be read, the section gives the reason instead."""
    try:
        return make()
    except PodiumError as error:
        return Section(id=id, title=title, notes=(Note(text=str(error), tone=Tone.CAUTION),))


def build_report_part(subject: ReportSubject) -> Part:
    """Build the part of the document about one path."""
    facts = list(headlines.describe_measured_systems([each for _, each in subject.pairs]))
    if not subject.pairs:
        facts += curve.describe_curve_systems(subject.curves)
    sections = tuple(map(replace_thin_figures, subject.sections))
    if not subject.pairs and not sections:
        sections = (findings.build_findings_section(subject.findings, subject.problems),)
    return Part(
        name=subject.path.name or str(subject.path),
        title=headlines.format_results_title(
            [each for _, each in subject.pairs], several=subject.several_systems
        )
        or format_curves_title(subject),
        verdict=subject.verdict_label,
        tone=findings.VERDICT_TONES[subject.verdict],
        summary=describe_verdict_scope(subject),
        facts=tuple(facts),
        tiles=(
            *headlines.build_result_tiles(
                [each for _, each in subject.pairs], several=subject.among_others
            ),
            *(
                curve.build_curve_tile(each, several=subject.several_systems)
                for each in subject.curves
            ),
        ),
        headlines=tuple(HEADLINE_DATA.list_plain_rows(each for _, each in subject.pairs)),
        sections=sections,
        seal=provenance.read_seal_digest(subject.path) if subject.bundle else "",
        curves=tuple(subject.curves),
        nonces=tuple(
            dict.fromkeys(
                each.made_with.campaign for _, each in subject.pairs if each.made_with.campaign
            )
        ),
    )


def format_curves_title(subject: ReportSubject) -> str:
    """Return a title for curves: their models, with the system if there is only one; without
    curves the path's name.
    """
    models = " and ".join(dict.fromkeys(each.model for each in subject.curves))
    systems = list(dict.fromkeys(each.system for each in subject.curves))
    if not models:
        return subject.path.name
    if len(systems) == 1:
        return f"{models}: {systems[0]}"
    return models


def describe_verdict_scope(subject: ReportSubject) -> str:
    """Describe what the verdict covers."""
    if subject.damaged:
        return (
            f"{subject.problems[0]}. This is not the file that was packed, so podium judged "
            "nothing in it, and nothing in it can be relied on."
        )
    scored = [each.round for _, each in subject.pairs]
    drawn = [each.round for each in subject.curves]
    rounds = ", ".join(dict.fromkeys([*scored, *drawn])) or registry.DEFAULT_ROUND
    judged = (
        f"The judge checked every file by the rules of {rounds}: "
        f"{findings.format_finding_counts(subject.findings)}."
    )
    if subject.problems:
        return f"{subject.problems[0]}. {judged} Nothing in this file can be relied on."
    if subject.verdict is not Verdict.VALID:
        return f"{judged} For the reasons, see the findings."
    unscored = sum(each.rule == compliance_check.UNSCORED_RULE for each in subject.findings)
    gaps = ""
    if unscored:
        gaps = f", except for {unscored} accuracies that could not be"
    read = "logs"
    if drawn and not scored:
        read = "summaries of the runs"
    sealed = ""
    if subject.bundle:
        sealed = "The bundle is sealed and unchanged since. "
    return (
        f"{sealed}{judged} Figures were recomputed from the {read}{gaps}. No file can prove that "
        "the runs took place on the machine described."
    )
