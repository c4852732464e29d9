"""Check which runs an inference entry of a published round has, and that they belong together."""

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from compliance.kinds.inference_text.documents.copied_run import (
    identify_run_start,
    list_summary_latencies,
)
from compliance.kinds.inference_text.documents.entry import TextEntry
from compliance.kinds.inference_text.logs.legacy_detail import HEAD_KEYS
from compliance.kinds.inference_text.logs.legacy_detail import LegacyTestMode as LoadGenMode
from compliance.recognition.path_kind import PLACEHOLDER_FILES
from compliance.recognition.tree_path import is_file
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.loadgen.scenario import Scenario
from suite.terms import Division

SHARED_SETTINGS = (
    "samples_per_query",
    "target_latency_ns",
    "min_duration_ms",
    "min_query_count",
    "performance_sample_count",
)
"""Settings that the runs of an entry share."""
SHARED_NAMES: Final = (
    "QSL total size",
    "Query Sample Library (QSL) name",
    "System Under Test (SUT) name",
)
"""Lines of the log's head, likewise."""


@rule(
    "inference-text.benchmark",
    TextEntry,
    About.IDENTITY,
    doubt="which benchmark it is a result of",
    former="filed.benchmark",
)
def benchmark(entry: TextEntry) -> Iterator[Fault]:
    """A closed entry belongs to a benchmark of the round, in a scenario of that benchmark.

    Source: inference_rules.adoc, Benchmarks; submission-checker.py: VALID_MODELS, and the
    scenarios' names.
    Advice: use the round's folder names, or submit to the open division.
    """
    if entry.position is None:
        return
    if entry.scenario is None or entry.position.scenario.casefold() not in [
        scenario.folder.casefold() for scenario in Scenario
    ]:
        yield entry.build_fault(
            f"the folder {entry.position.scenario}",
            f"a scenario: {', '.join(scenario.folder for scenario in Scenario)}",
        )
    if entry.closed and entry.benchmark is None:
        yield entry.build_fault(
            f"the folder {entry.position.model}",
            f"a benchmark of the round: {', '.join(sorted(entry.round.benchmarks))}",
            file=entry.folder.parent,
        )
    elif entry.closed and entry.scenario and entry.rule is None:
        yield entry.build_fault(
            f"{entry.position.model} in {entry.scenario.folder}",
            "one of the round's scenarios for the benchmark",
        )


@rule(
    "inference-text.division",
    TextEntry,
    About.IDENTITY,
    doubt="which division it is a result of",
    former="filed.division",
)
def division(entry: TextEntry) -> Iterator[Fault]:
    """An organisation's folder is inside a division's folder.

    Source: submission_rules.adoc, Directory structure: closed and open; submission-checker.py,
    VALID_DIVISIONS.
    Advice: name the folder closed or open; results elsewhere do not count.
    """
    if entry.position and entry.position.division not in (Division.CLOSED, Division.OPEN):
        yield entry.build_fault(
            f"the folder {entry.position.organisation_folder.parent.name}",
            "closed or open",
            file=entry.position.organisation_folder.parent,
        )


@rule("inference-text.inferred", TextEntry, former="filed.inferred", severity=Severity.INFO)
def inferred(entry: TextEntry) -> Iterator[Fault]:
    """A result inferred from SingleStream logs belongs to an edge system, and all of its runs are
    SingleStream.

    Source: submission-checker.py of branch r0.7, check_results_dir: Offline and MultiStream of edge
    systems may be inferred.
    Advice: run LoadGen in the scenario that the folder's name states.
    """
    if not entry.inferred or entry.scenario is None:
        return
    yield entry.build_fault(
        f"SingleStream's logs in {entry.folder.name}",
        f"{entry.scenario.folder} logs, since this scenario's result is inferred",
    )
    if entry.system_type not in (None, "edge"):
        found = f"{entry.scenario.folder} inferred on a system of type {entry.system_type}"
        yield entry.build_fault(found, "an edge system", severity=Severity.ERROR)
    for run in entry.runs:
        if run.scenario is not Scenario.SINGLE_STREAM:
            yield entry.build_fault(
                f"a {run.scenario} run",
                "SingleStream, as in the other runs",
                file=run.folder,
                severity=Severity.ERROR,
            )


@rule(
    "inference-text.runs",
    TextEntry,
    About.SCORE,
    doubt="the figure, which rests on the round's number of runs",
    former="filed.runs",
)
def runs(entry: TextEntry) -> Iterator[Fault]:
    """An entry has one accuracy run and the scenario's number of performance runs.

    Source: inference_rules.adoc v0.5, Scenarios: five runs of Server; submission-checker.py: run_1
    to run_5.
    Advice: add the missing runs; existing runs can stay.
    """
    if entry.accuracy is None:
        yield entry.build_fault("no accuracy folder", "accuracy/ with the logs of an accuracy run")
    required = 1
    if entry.rule and not entry.inferred:
        required = entry.rule.runs
    if len(entry.performance) < required:
        fewest = (entry.rule.fewest_runs if entry.rule else None) or required
        weight = None
        if len(entry.performance) >= fewest:
            weight = Severity.WARNING
        yield entry.build_fault(
            f"{len(entry.performance)} performance run(s)", f"{required}", severity=weight
        )
    elif entry.rule and len(entry.performance) > required:
        yield entry.build_fault(
            f"{len(entry.performance)} performance runs", f"{required}", severity=Severity.WARNING
        )


@rule(
    "inference-text.distinct",
    TextEntry,
    About.SCORE,
    doubt="the figure: one run is counted twice",
    former="filed.distinct",
)
def distinct(entry: TextEntry) -> Iterator[Fault]:
    """Each run was made separately: no two have the same start time, or identical latencies to the
    nanosecond.

    Source: inference_rules.adoc v0.5, Scenarios: five runs; no accepted entry contains a run twice.
    Advice: submit each run once, and repeat missing runs.
    """
    for first, second in combinations(entry.runs, 2):
        both = (
            LoadGenMode.SUBMISSION in (first.logged_mode, second.logged_mode)
            and first.mode is not second.mode
        )
        if (
            (begun := identify_run_start(first))
            and begun == identify_run_start(second)
            and not both
        ):
            yield entry.build_fault(
                f"the same start as {first.folder.name}: {begun[0]}",
                "a separate run",
                file=second.folder,
            )
        if (
            (found := list_summary_latencies(first))
            and found == list_summary_latencies(second)
            and not both
        ):
            yield entry.build_fault(
                f"the same latencies as {first.folder.name}", "a separate run", file=second.folder
            )


@rule("inference-text.claimed_version", TextEntry, former="filed.version")
def version(entry: TextEntry) -> Iterator[Fault]:
    """All runs of an entry use the same LoadGen, built from the same sources.

    Source: inference_rules.adoc v0.5, Load generator; no accepted entry of v0.5 has two versions,
    and each source of a revision has one SHA-1.
    Advice: repeat the runs made with another LoadGen.
    """
    yield from check_loadgen_sources(entry)
    versions = [(run, run.detail.version) for run in entry.runs if run.detail.version]
    for run, found in versions[1:]:
        if found and versions[0][1] and found.text != versions[0][1].text:
            yield run.build_fault(
                f"LoadGen {found.text}",
                f"{versions[0][1].text}, as in {versions[0][0].folder.name}",
                found.line,
            )


def check_loadgen_sources(entry: TextEntry) -> Iterator[Fault]:
    """Compare the SHA-1 sums of LoadGen's sources in the runs' detail logs."""
    hashed_runs = [run for run in entry.runs if run.detail.hashes]
    for run in hashed_runs[1:]:
        first, other = hashed_runs[0].detail.hashes, run.detail.hashes
        for name in sorted(first.keys() | other.keys()):
            mine, theirs = other.get(name), first.get(name)
            if (mine and mine.text) != (theirs and theirs.text):
                found, required = (
                    f"{name} {mine.text if mine else 'missing'}",
                    f"{theirs.text if theirs else 'none'}, as in {hashed_runs[0].folder.name}",
                )
                yield run.build_fault(found, required, mine.line if mine else None)


@rule(
    "inference-text.alike",
    TextEntry,
    About.RULES,
    doubt="whether the runs are of one configuration",
    former="filed.alike",
)
def alike(entry: TextEntry) -> Iterator[Fault]:
    """The performance runs of an entry have the same data set and settings.

    Source: inference_rules.adoc v0.5, Scenarios: five runs on one system with one setting.
    Advice: submit runs of the same benchmark, scenario and settings.
    """
    known = [run for run in entry.performance if run.detail.stamped_lines]
    for run in known[1:]:
        first = known[0]
        for name in SHARED_SETTINGS:
            key = f"effective_{name}"
            if run.find_number(key) != first.find_number(key):
                yield run.build_fault(
                    f"{name} {run.find_number(key)}",
                    f"{first.find_number(key)}, as in {first.folder.name}",
                    key,
                    severity=None if entry.closed else Severity.WARNING,
                )
        for name in SHARED_NAMES:
            key = HEAD_KEYS[name]
            if run.find_value(key) != first.find_value(key):
                yield run.build_fault(
                    f"{name}: {run.find_value(key)}",
                    f"{first.find_value(key)}, as in {first.folder.name}",
                    severity=Severity.WARNING,
                )


@rule("inference-text.strays", TextEntry, former="filed.strays", severity=Severity.WARNING)
def strays(entry: TextEntry) -> Iterator[Fault]:
    """An entry contains no folders besides its runs. A run contains only files that the round
    lists. Another file is an error in a performance run, and a warning elsewhere.

    Source: submission-checker.py, files_diff, which logs a mismatch as an error;
    submission_rules.adoc, Directory structure. Accuracy scripts write additional files.
    Advice: name runs run_1, run_2 and so on, and store other files elsewhere.
    """
    for path in entry.unexpected_folders:
        yield entry.build_fault(
            f"the folder {path.name}", "accuracy, and performance/run_<number>", file=path
        )
    filing = entry.round.filing
    for run in entry.runs:
        known = {
            *filing.accuracy_files,
            *filing.performance_files,
            *filing.optional_performance_files,
        }
        try:
            names = sorted(
                path.name
                for path in run.folder.iterdir()
                if is_file(path)
                and path.name.casefold() not in known
                and path.name not in PLACEHOLDER_FILES
            )
        except OSError:
            continue
        for name in names:
            yield entry.build_fault(
                f"the file {name}",
                ", ".join(sorted(known)),
                file=run.folder / name,
                severity=Severity.ERROR if run.performance else None,
            )


@rule("inference-text.system", TextEntry, former="filed.system")
def system(entry: TextEntry) -> Iterator[Fault]:
    """The system of an entry has a description.

    Source: submission_rules.adoc, systems/<system_desc_id>.json; submission-checker.py,
    check_system_desc_id.
    Advice: describe the system in systems/<folder name>.json.
    """
    if entry.system_file is not None and not is_file(entry.system_file):
        yield entry.build_fault(
            f"no description of {entry.system_file.stem}",
            f"systems/{entry.system_file.name}",
            file=entry.system_file,
        )


@rule("inference-text.audit", TextEntry, former="filed.audit", severity=Severity.WARNING)
def audit(entry: TextEntry) -> Iterator[Fault]:
    """An entry contains its compliance tests.

    Source: mlcommons/inference, v0.5/audit/nvidia; thirty accepted entries have none.
    Advice: run the round's compliance tests and submit them in audit/ (v0.7: compliance/), below it
    <system>/<benchmark>/<scenario>.
    """
    if entry.position and entry.audit is None:
        yield entry.build_fault(
            "no compliance tests",
            f"{entry.round.filing.tests_folder}/{'/'.join(entry.position.parts)}",
        )
