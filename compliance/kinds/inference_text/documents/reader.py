"""Read published inference results from their folders."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from compliance.kinds.inference_text.documents.entry import (
    EntryPosition,
    TextAuditTest,
    TextEntry,
    TextRun,
)
from compliance.kinds.inference_text.documents.entry_files import (
    Claims,
    MeasurementsFolder,
    read_claims,
    read_measurements_folder,
)
from compliance.kinds.inference_text.documents.organisation import read_system_type
from compliance.kinds.inference_text.documents.top1 import (
    LABELS_PATH,
    Top1,
    count_correct_answers,
    read_validation_labels,
)
from compliance.kinds.inference_text.logs import legacy_detail, legacy_summary
from compliance.kinds.inference_text.round import InferenceTextRound
from compliance.logs.loadgen import accuracy_counts
from compliance.logs.loadgen.accuracy_counts import AnswerCounts
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.recognition.loadgen_folders import (
    RUN_FOLDER_PATTERN,
    find_child_ignoring_case,
    find_performance_folders,
)
from compliance.recognition.path_kind import PLACEHOLDER_FILES, has_loadgen_logs
from compliance.recognition.tree_path import (
    TreePosition,
    is_file,
    is_folder,
    iterate_subfolders,
    match_scenario_folder,
)
from suite.audits.filed import COMPARED_TEST_FOLDERS
from suite.files.layout import ACCURACY_LOG, ACCURACY_TEXT, DETAIL_LOG, SUMMARY_LOG, fold_name
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

BASELINE_ACCURACY_TEXT, COMPLIANCE_ACCURACY_TEXT = (
    "baseline_accuracy.txt",
    "compliance_accuracy.txt",
)
SAMPLED_ANSWERS_TEST: Final = "TEST01"
"""The test that logs a sample of a performance run's answers."""
TEST_ACCURACY_FILES: Final = (ACCURACY_TEXT, BASELINE_ACCURACY_TEXT, COMPLIANCE_ACCURACY_TEXT)
"""Files in a compliance test's accuracy/. Source: submission-checker.py of branch r0.7,
REQUIRED_TEST01_ACC_FILES; v0.5 has only the first.
"""
VERDICT_NAME_PARTS: Final = ("verify", "verification")
"""Substrings in the names of files that state a compliance test's outcome."""


def parse_entry_position(place: TreePosition, folder: Path) -> EntryPosition | None:
    """Read the tree levels above an entry's folder, or above one of its measurements or audits;
    None above a scenario.
    """
    if not folder.is_relative_to(place.organisation_folder):
        return None
    parts = folder.relative_to(place.organisation_folder).parts
    if len(parts) < 4:
        return None
    return EntryPosition(
        organisation_folder=place.organisation_folder,
        division=place.division,
        system=parts[1],
        model=parts[2],
        scenario=parts[3],
    )


def read_text_run(
    folder: Path,
    mode: Mode,
    round: InferenceTextRound,
    scenario: Scenario | None = None,
    benchmark: str | None = None,
    closed: bool = False,
) -> TextRun:
    """Read a run's three logs; problems are recorded as parse errors of its source."""
    summary, detail, accuracy = (
        SourceFile(resolve_file_ignoring_case(folder, name))
        for name in (SUMMARY_LOG, DETAIL_LOG, ACCURACY_LOG)
    )
    read_summary, read_detail = (
        legacy_summary.read_legacy_summary(summary),
        legacy_detail.read_legacy_detail(detail),
    )
    stated = read_detail.index.find_record("effective_scenario") or read_summary.values.get(
        "Scenario"
    )
    logged = None
    if stated:
        logged = match_scenario_folder(stated.text.replace(" ", ""))
    inferred = logged is Scenario.SINGLE_STREAM and scenario in round.loadgen.inferred
    return TextRun(
        folder=folder,
        mode=mode,
        scenario=logged if inferred else scenario or logged,
        benchmark=benchmark,
        closed=closed,
        summary=read_summary,
        detail=read_detail,
        index=read_detail.index,
        tally=accuracy_counts.count_accuracy_answers(accuracy),
        summary_source=summary,
        detail_source=detail,
        accuracy_source=accuracy,
        round=round,
    )


def resolve_file_ignoring_case(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder, ignoring the case of its name."""
    return find_child_ignoring_case(folder, name) or folder / name


def parse_text_run_mode(folder: Path) -> Mode:
    """Return the run's mode from its folder name."""
    if folder.name.casefold() == Mode.ACCURACY:
        return Mode.ACCURACY
    return Mode.PERFORMANCE


def read_text_entry(
    folder: Path, position: EntryPosition | None, round: InferenceTextRound, truth: Path | None
) -> TextEntry:
    """Read an entry with everything that belongs to it."""
    scenario = match_scenario_folder(folder.name)
    benchmark = find_text_benchmark(folder, position, round)
    closed = position is not None and position.division == "closed"
    accuracy = find_child_ignoring_case(folder, "accuracy")
    run = None
    if accuracy:
        run = read_text_run(accuracy, Mode.ACCURACY, round, scenario, benchmark, closed)
    runs = [
        read_text_run(each, Mode.PERFORMANCE, round, scenario, benchmark, closed)
        for each in find_performance_folders(folder)
    ]
    top1, top1_problem = recompute_top1(run.tally if run else None, benchmark, round, truth)
    system_file = None
    if position:
        system_file = position.organisation_folder / "systems" / f"{position.system}.json"
    return TextEntry(
        folder=folder,
        position=position,
        benchmark=benchmark,
        scenario=scenario
        or next((each.scenario for each in (run, *runs) if each and each.scenario), None),
        accuracy=run,
        performance=runs,
        claims=read_claims(
            resolve_file_ignoring_case(accuracy or folder / "accuracy", ACCURACY_TEXT)
        ),
        top1=top1,
        top1_problem=top1_problem,
        measurements=read_entry_measurements(position),
        system_file=system_file,
        system_type=read_system_type(system_file, round) if system_file else None,
        audit=find_entry_audit_folder(position, round.filing.tests_folder),
        unexpected_folders=tuple(find_unexpected_run_folders(folder)),
        round=round,
    )


def find_text_benchmark(
    folder: Path, position: EntryPosition | None, round: InferenceTextRound
) -> str | None:
    """Return an entry's benchmark: in a tree its folder's name, else that of the parent folder."""
    if position:
        return round.find_benchmark(position.model, position.division)
    return round.find_benchmark(folder.parent.name, None)


def recompute_top1(
    tally: AnswerCounts | None, benchmark: str | None, round: InferenceTextRound, truth: Path | None
) -> tuple[Top1 | None, str | None]:
    """Recompute top-1, or return why that is impossible."""
    row = None
    if benchmark:
        row = round.benchmarks.get(benchmark)
    if tally is None or row is None or row.metric != "accuracy":
        return None, f"no scorer for {row.metric}" if row else "an unknown benchmark"
    if round.filing.truncated_accuracy_bytes is not None:
        return None, "accuracy logs of this round are submitted truncated"
    if truth is None:
        return None, f"no labels: use --truth to name the folder that contains {LABELS_PATH}"
    if not tally.whole:
        return None, "the accuracy log cannot be read completely"
    try:
        found = count_correct_answers(tally, read_validation_labels(truth / LABELS_PATH))
    except (OSError, ValueError, IndexError) as error:
        return None, f"{truth / LABELS_PATH}: {error}"
    return found, None if found else "the answers are not single numbers"


def read_entry_measurements(position: EntryPosition | None) -> MeasurementsFolder | None:
    if position is None:
        return None
    return read_measurements_folder(
        resolve_folder_ignoring_case(position.organisation_folder / "measurements", position.parts),
        position.system,
        position.scenario,
    )


def resolve_folder_ignoring_case(folder: Path, parts: Sequence[str]) -> Path:
    """Descend some levels, ignoring case if there is no exact match."""
    for part in parts:
        folder = find_child_ignoring_case(folder, part) or folder / part
    return folder


def find_entry_audit_folder(position: EntryPosition | None, tests_folder: str) -> Path | None:
    """Find the compliance tests of an entry in a tree."""
    if position is None:
        return None
    folder = resolve_folder_ignoring_case(
        position.organisation_folder / tests_folder, position.parts
    )
    if is_folder(folder):
        return folder
    return None


def find_unexpected_run_folders(folder: Path) -> Iterator[Path]:
    """Yield unexpected folders among an entry's runs."""
    performance = find_child_ignoring_case(folder, "performance")
    for parent, known in (
        (folder, lambda name: name in ("accuracy", "performance")),
        (performance, RUN_FOLDER_PATTERN.fullmatch),
    ):
        if parent is None or has_loadgen_logs(parent):
            continue
        try:
            yield from (
                path
                for path in sorted(parent.iterdir())
                if is_folder(path)
                and not known(path.name.casefold())
                and path.name not in PLACEHOLDER_FILES
            )
        except OSError:
            return


def read_text_audit_tests(
    audit: Path, entry: TextEntry, round: InferenceTextRound, truth: Path | None
) -> Iterator[TextAuditTest]:
    """Read the compliance tests of an entry."""
    for folder in iterate_subfolders(audit):
        yield read_text_audit_test(folder, entry, round, truth)


def read_text_audit_test(
    folder: Path, entry: TextEntry, round: InferenceTextRound, truth: Path | None
) -> TextAuditTest:
    """Read one compliance test: its performance run, and the files that state its outcome."""
    performance = next(find_performance_folders(folder), None)
    accuracy = find_child_ignoring_case(folder, "accuracy")
    name = resolve_test_name(folder.name, round)
    if accuracy and is_file(accuracy / ACCURACY_LOG):
        log = accuracy / ACCURACY_LOG
    elif performance:
        log = performance / ACCURACY_LOG
    else:
        log = None
    answers = None
    if log and name == SAMPLED_ANSWERS_TEST:
        answers = accuracy_counts.count_accuracy_answers(SourceFile(log))
    compared_run = None
    if name in COMPARED_TEST_FOLDERS:
        compared = resolve_folder_ignoring_case(folder.parent, (COMPARED_TEST_FOLDERS[name],))
        compared_run = read_text_audit_run(compared, entry, round)
    claims = {}
    if accuracy:
        claims = {
            file: read_claims(accuracy / file)
            for file in TEST_ACCURACY_FILES
            if is_file(accuracy / file)
        }
    return TextAuditTest(
        folder=folder,
        name=name,
        run=read_text_audit_run(folder, entry, round),
        compared_run=compared_run,
        answers=answers,
        verdicts=tuple(find_verdict_files(folder)),
        claims=claims,
        top1=recompute_top1(answers, entry.benchmark, round, truth)[0],
        entry=entry,
        round=round,
    )


def read_text_audit_run(
    folder: Path, entry: TextEntry, round: InferenceTextRound
) -> TextRun | None:
    """Read the performance run of a compliance test; None if there is none."""
    performance = next(find_performance_folders(folder), None)
    if not performance:
        return None
    return read_text_run(performance, Mode.PERFORMANCE, round, entry.scenario, entry.benchmark)


def resolve_test_name(folder: str, round: InferenceTextRound) -> str:
    """Return the round's name for the test in a folder."""
    return next((name for name in round.audit if fold_name(name) == fold_name(folder)), folder)


def find_verdict_files(folder: Path) -> Iterator[SourceFile]:
    """Yield the files that state the outcome of a compliance test."""
    try:
        paths = sorted(
            path
            for path in folder.iterdir()
            if path.suffix == ".txt"
            and any(word in path.name.casefold() for word in VERDICT_NAME_PARTS)
        )
    except OSError:
        return
    yield from (
        SourceFile(
            path,
            leniency={
                ParseErrorKind.ENCODING: legacy_detail.LEGACY_LOADGEN_LENIENCY[
                    ParseErrorKind.ENCODING
                ]
            },
        )
        for path in paths
    )


def is_claims_file_missing(claims: Claims) -> bool:
    """Return whether accuracy.txt cannot be read at all."""
    return claims.source.has_parse_error(ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE)
