"""Check that the records are there which podium writes beside each run, and the ledger beside them:
who leaves one out leaves out what it would have contradicted.
"""

from collections.abc import Iterator

from compliance.kinds.podium.documents.ledger import LedgerFile
from compliance.kinds.podium.documents.recorded_run import (
    FIRST_VERSION,
    AbsentRecord,
    RecordedRun,
    is_written_since,
)
from compliance.kinds.podium.documents.submission import Submission
from compliance.recognition.tree_path import is_file
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.files.layout import find_owning_results, locate_ledger_file
from suite.ledger.steps import StepKind


@rule("records.present", RecordedRun, About.SCORE)
def present(run: RecordedRun) -> Iterator[Fault]:
    """A run has the records that its version of podium writes beside it. A performance run has
    queries.npy and telemetry.jsonl, and tokens.npy if LoadGen measured tokens. A training run has
    telemetry_<n>.jsonl.

    One that is absent or unreadable is an error if a ledger or a study counts the run. It is a
    warning if nothing does, and if the run itself says why it could not be kept.

    Source: house rule: what is left out contradicts nothing; suite/records.py, RunRecord.lost;
    suite/events.py, TELEMETRY_LOST.
    Advice: copy the whole folder of the run again from the results folder; otherwise repeat the
    run.
    """
    for record in run.absent:
        severity = None if run.counted_by and not record.reason else Severity.WARNING
        required = f"{record.name}, which podium {run.version} writes beside such a run"
        if run.counted_by:
            required += f"; {run.counted_by} counts it"
        yield run.build_fault(describe_absence(record), required, severity=severity)


def describe_absence(record: AbsentRecord) -> str:
    """Say that a record is not there, or why."""
    if record.reason:
        return f"'{record.reason}'"
    if record.is_damaged:
        return f"{record.name} that cannot be read"
    return f"no {record.name}"


@rule("tree.ledger", Submission, About.SCORE)
def ledger(tree: Submission) -> Iterator[Fault]:
    """Each workload with results has its ledger, ledger/<workload>.jsonl, if the version of podium
    that ran them writes one.

    Source: house rule: podium writes the ledger of a workload before its first run begins, so that
    all attempts count.
    Advice: copy the ledger again from the results folder, with the results that it is about.
    """
    home, results = tree.organisation_folder, tree.organisation_folder.parent.parent
    owner = find_owning_results(results) / home.relative_to(results)
    for workload, version in sorted(map_newest_versions(tree).items()):
        if is_file(locate_ledger_file(owner, workload)):
            continue
        yield tree.build_fault(
            f"no ledger of {workload}",
            f"{locate_ledger_file(home, workload).relative_to(home)}, which podium {version} writes"
            " before the first run",
        )


@rule("ledger.begun", LedgerFile, About.SCORE)
def begun(ledger: LedgerFile) -> Iterator[Fault]:
    """No result is older than its ledger, if the version of podium that ran it writes one. Such a
    result stands in the ledger's first line, which names what was there before.

    Source: house rule: podium writes the ledger of a workload before its first run begins.
    Advice: copy the ledger that the results were made with again from the results folder.
    """
    stated = [
        (log.path, log.find_value(events.VERSION)) for group in ledger.sets for log in group.logs
    ]
    stated += [
        (run.path, run.record.system.version)
        for entry in ledger.entries
        for run in entry.runs
        if run.record
    ]
    for path, version in stated:
        steps = ledger.find_effective_steps([path])
        if not isinstance(version, str) or not is_written_since(version, FIRST_VERSION):
            continue
        if any(step.step is StepKind.BEGIN for step in steps):
            yield ledger.build_fault(
                f"{path.relative_to(ledger.root)}, of podium {version}, before the first step",
                "a step that made it",
                1,
            )


def map_newest_versions(tree: Submission) -> dict[str, str]:
    """Return workload -> a version that its results state and that writes a ledger."""
    stated = [
        (log.workload, log.find_value(events.VERSION)) for group in tree.sets for log in group.logs
    ]
    stated += [
        (run.record.system.workload, run.record.system.version)
        for entry in tree.entries
        for run in entry.runs
        if run.record
    ]
    return {
        workload: version
        for workload, version in stated
        if workload and isinstance(version, str) and is_written_since(version, FIRST_VERSION)
    }
