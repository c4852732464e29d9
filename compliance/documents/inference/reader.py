"""Reads published inference results from their folders."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from compliance.documents.inference.entry import (
    RUN,
    AuditTest,
    Filed,
    FiledEntry,
    ServedRun,
    child,
    performance_folders,
)
from compliance.documents.inference.entry_files import (
    Claims,
    Measurements,
    read_claims,
    read_measurements,
)
from compliance.documents.inference.organisation import system_type
from compliance.documents.inference.top1 import LABELS, Top1, count, labels
from compliance.logs.loadgen import accuracy_counts, legacy_detail, legacy_summary
from compliance.logs.loadgen.accuracy_counts import Tally
from compliance.logs.source_file import Kind, SourceFile
from compliance.recognition.path_kind import KEEPERS, is_run
from compliance.recognition.tree_path import Place, folders, is_file, is_folder, scenario_of
from suite.audits.filed import BESIDE
from suite.files.layout import ACCURACY, ACCURACY_TEXT, DETAIL, SUMMARY, fold
from suite.loadgen.scenario import Scenario
from suite.rounds.published_inference import PublishedInference
from suite.workload import Mode

BASELINE, COMPLIANCE = "baseline_accuracy.txt", "compliance_accuracy.txt"
SAMPLED: Final = "TEST01"
"""The test that logs a sample of a performance run's answers."""
SCORES: Final = (ACCURACY_TEXT, BASELINE, COMPLIANCE)
"""Files in a compliance test's accuracy/. Source: submission-checker.py of branch r0.7,
REQUIRED_TEST01_ACC_FILES; v0.5 has only the first.
"""
VERDICT_FILES: Final = ("verify", "verification")
"""Substrings in the names of files that state a compliance test's outcome."""


def filed_at(place: Place, folder: Path) -> Filed | None:
    """Read the tree levels above an entry's folder, or above one of its measurements or audits;
    None above a scenario.
    """
    if not folder.is_relative_to(place.home):
        return None
    parts = folder.relative_to(place.home).parts
    if len(parts) < 4:
        return None
    return Filed(
        home=place.home, division=place.division, system=parts[1], model=parts[2], scenario=parts[3]
    )


def read_run(
    folder: Path,
    mode: Mode,
    round: PublishedInference,
    scenario: Scenario | None = None,
    benchmark: str | None = None,
    closed: bool = False,
) -> ServedRun:
    """Read a run's three logs; problems are recorded as flaws of its source."""
    summary, detail, accuracy = (
        SourceFile(path_of(folder, name)) for name in (SUMMARY, DETAIL, ACCURACY)
    )
    read_summary, read_detail = legacy_summary.read(summary), legacy_detail.read(detail)
    told = read_detail.effective.get("Scenario") or read_summary.values.get("Scenario")
    logged = scenario_of(told.text.replace(" ", "")) if told else None
    inferred = logged is Scenario.SINGLE_STREAM and scenario in round.loadgen.inferred
    return ServedRun(
        folder=folder,
        mode=mode,
        scenario=logged if inferred else scenario or logged,
        benchmark=benchmark,
        closed=closed,
        summary=read_summary,
        detail=read_detail,
        tally=accuracy_counts.read(accuracy),
        summary_source=summary,
        detail_source=detail,
        accuracy_source=accuracy,
        round=round,
    )


def path_of(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder, ignoring the case of its name."""
    return child(folder, name) or folder / name


def mode_of(folder: Path) -> Mode:
    """Return the run's mode from its folder name."""
    return Mode.ACCURACY if folder.name.casefold() == Mode.ACCURACY else Mode.PERFORMANCE


def read_entry(
    folder: Path, filed: Filed | None, round: PublishedInference, truth: Path | None
) -> FiledEntry:
    """Read an entry with everything that belongs to it."""
    scenario = scenario_of(folder.name)
    benchmark = benchmark_of(folder, filed, round)
    closed = filed is not None and filed.division == "closed"
    accuracy = child(folder, "accuracy")
    run = (
        read_run(accuracy, Mode.ACCURACY, round, scenario, benchmark, closed) if accuracy else None
    )
    runs = [
        read_run(each, Mode.PERFORMANCE, round, scenario, benchmark, closed)
        for each in performance_folders(folder)
    ]
    top1, untold = recount(run.tally if run else None, benchmark, round, truth)
    system_file = filed.home / "systems" / f"{filed.system}.json" if filed else None
    return FiledEntry(
        folder=folder,
        filed=filed,
        benchmark=benchmark,
        scenario=scenario
        or next((each.scenario for each in (run, *runs) if each and each.scenario), None),
        accuracy=run,
        performance=runs,
        claims=read_claims(path_of(accuracy or folder / "accuracy", ACCURACY_TEXT)),
        top1=top1,
        untold=untold,
        measurements=measurements_of(filed),
        system_file=system_file,
        system_type=system_type(system_file, round) if system_file else None,
        audit=audit_of(filed, round.filing.tests_folder),
        strays=tuple(strays(folder)),
        round=round,
    )


def benchmark_of(folder: Path, filed: Filed | None, round: PublishedInference) -> str | None:
    """Return an entry's benchmark: in a tree its folder's name, else that of the parent folder."""
    return (
        round.benchmark_of(filed.model, filed.division)
        if filed
        else round.benchmark_of(folder.parent.name, None)
    )


def recount(
    tally: Tally | None, benchmark: str | None, round: PublishedInference, truth: Path | None
) -> tuple[Top1 | None, str | None]:
    """Recompute top-1, or return why that is impossible."""
    row = round.benchmarks.get(benchmark) if benchmark else None
    if tally is None or row is None or row.metric != "accuracy":
        return None, f"no scorer of {row.metric} here" if row else "an unknown benchmark"
    if round.filing.truncated_accuracy_bytes is not None:
        return None, "accuracy logs of this round are filed cut short"
    if truth is None:
        return None, f"no labels: give the folder that holds {LABELS} with --truth"
    if not tally.whole:
        return None, "the accuracy log cannot be read whole"
    try:
        found = count(tally, labels(truth / LABELS))
    except (OSError, ValueError, IndexError) as error:
        return None, f"{truth / LABELS}: {error}"
    return found, None if found else "the answers are no single numbers"


def measurements_of(filed: Filed | None) -> Measurements | None:
    """Read the measurements of an entry in a tree."""
    if filed is None:
        return None
    return read_measurements(
        below(filed.home / "measurements", filed.parts), filed.system, filed.scenario
    )


def below(folder: Path, parts: Sequence[str]) -> Path:
    """Descend some levels, ignoring case if there is no exact match."""
    for part in parts:
        folder = child(folder, part) or folder / part
    return folder


def audit_of(filed: Filed | None, tests_folder: str) -> Path | None:
    """Find the compliance tests of an entry in a tree."""
    if filed is None:
        return None
    folder = below(filed.home / tests_folder, filed.parts)
    return folder if is_folder(folder) else None


def strays(folder: Path) -> Iterator[Path]:
    """Yield unexpected folders among an entry's runs."""
    performance = child(folder, "performance")
    for parent, known in (
        (folder, lambda name: name in ("accuracy", "performance")),
        (performance, RUN.fullmatch),
    ):
        if parent is None or is_run(parent):
            continue
        try:
            yield from (
                path
                for path in sorted(parent.iterdir())
                if is_folder(path) and not known(path.name.casefold()) and path.name not in KEEPERS
            )
        except OSError:
            return


def read_tests(
    audit: Path, entry: FiledEntry, round: PublishedInference, truth: Path | None
) -> Iterator[AuditTest]:
    """Read the compliance tests of an entry."""
    for folder in folders(audit):
        yield read_test(folder, entry, round, truth)


def read_test(
    folder: Path, entry: FiledEntry, round: PublishedInference, truth: Path | None
) -> AuditTest:
    """Read one compliance test: its performance run, and the files that state its outcome."""
    performance = next(performance_folders(folder), None)
    accuracy = child(folder, "accuracy")
    name = test_name(folder.name, round)
    log = (
        accuracy / ACCURACY
        if accuracy and is_file(accuracy / ACCURACY)
        else performance / ACCURACY
        if performance
        else None
    )
    answers = accuracy_counts.read(SourceFile(log)) if log and name == SAMPLED else None
    return AuditTest(
        folder=folder,
        name=name,
        run=read_test_run(folder, entry, round),
        beside=(
            read_test_run(below(folder.parent, (BESIDE[name],)), entry, round)
            if name in BESIDE
            else None
        ),
        answers=answers,
        verdicts=tuple(verdict_files(folder)),
        claims=(
            {name: read_claims(accuracy / name) for name in SCORES if is_file(accuracy / name)}
            if accuracy
            else {}
        ),
        top1=recount(answers, entry.benchmark, round, truth)[0],
        entry=entry,
        round=round,
    )


def read_test_run(folder: Path, entry: FiledEntry, round: PublishedInference) -> ServedRun | None:
    """Read the performance run of a compliance test; None if there is none."""
    performance = next(performance_folders(folder), None)
    return (
        read_run(performance, Mode.PERFORMANCE, round, entry.scenario, entry.benchmark)
        if performance
        else None
    )


def test_name(folder: str, round: PublishedInference) -> str:
    """Return the round's name for the test in a folder."""
    return next((name for name in round.audit if fold(name) == fold(folder)), folder)


def verdict_files(folder: Path) -> Iterator[SourceFile]:
    """Yield the files that state the outcome of a compliance test."""
    try:
        paths = sorted(
            path
            for path in folder.iterdir()
            if path.suffix == ".txt" and any(word in path.name.casefold() for word in VERDICT_FILES)
        )
    except OSError:
        return
    yield from (
        SourceFile(path, leniency={Kind.ENCODING: legacy_detail.LENIENCY[Kind.ENCODING]})
        for path in paths
    )


def claims_missing(claims: Claims) -> bool:
    """Return whether accuracy.txt cannot be read at all."""
    return claims.source.has(Kind.MISSING, Kind.UNREADABLE)
