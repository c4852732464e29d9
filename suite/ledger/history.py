"""What a ledger's steps add up to: which files are in place, which attempts never ended, how often
a result was attempted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from suite.files.layout import AUDITS_FOLDER
from suite.ledger.steps import RESULT_STEPS, AttemptKind, LedgerStep, StepKind

FileHashes: TypeAlias = Mapping[str, str]
"""Path in the results folder -> SHA-256."""
RUN_FOLDERS: Final = (AttemptKind.ACCURACY, AttemptKind.PERFORMANCE)
"""Folders of a scenario that contain its runs."""
TRAINING_TELEMETRY: Final = re.compile(r"/telemetry_([0-9]+)\.jsonl$")
"""The telemetry of a training run, by the number of its log."""
AUDIT_TEST_DEPTH: Final = 5
"""Levels of a compliance test's folder: compliance/<system>/<benchmark>/<Scenario>/<test>."""


def collect_standing_files(steps: Iterable[LedgerStep]) -> Mapping[int, FileHashes]:
    """Return the files of each step, by its number, that were not superseded later, or restored
    since; steps without any are left out.

    Keyed by step, not by file: two runs may produce equal files, such as an accuracy run's score.
    """
    found: dict[int, dict[str, str]] = {}
    for step in steps:
        if step.step in RESULT_STEPS:
            found[step.n] = dict(step.files)
        elif step.step is StepKind.SUPERSEDED and step.made is not None:
            for name in step.files:
                found.get(step.made, {}).pop(name, None)
        elif step.step is StepKind.RESTORED and step.made in found:
            found[step.made].update(step.files)
    return {number: files for number, files in found.items() if files}


def group_superseded_units(files: FileHashes) -> Iterator[FileHashes]:
    """Split files into units that are created and superseded together: the files of a LoadGen run,
    those of a compliance test, a training log and its telemetry, or any other single file.
    """
    found: dict[str, dict[str, str]] = {}
    for name, sha256 in files.items():
        folder, parts = PurePosixPath(name).parent, PurePosixPath(name).parts
        if AUDITS_FOLDER in parts:
            found.setdefault("/".join(parts[: parts.index(AUDITS_FOLDER) + AUDIT_TEST_DEPTH]), {})[
                name
            ] = sha256
            continue
        of_run = folder.name in RUN_FOLDERS or folder.parent.name in RUN_FOLDERS
        key = str(folder) if of_run else TRAINING_TELEMETRY.sub(r"/result_\1.txt", name)
        found.setdefault(key, {})[name] = sha256
    yield from found.values()


def find_unended_attempts(steps: Sequence[LedgerStep]) -> Iterator[LedgerStep]:
    """Yield each `begin` that no later step ends: a LoadGen run needs one `served` or `aborted` for
    its folder, a run set one ending per run.
    """
    for index, begin_step in enumerate(steps):
        if begin_step.step is StepKind.BEGIN and not has_attempt_ended(
            begin_step, steps[index + 1 :]
        ):
            yield begin_step


def has_attempt_ended(begin_step: LedgerStep, later: Sequence[LedgerStep]) -> bool:
    """Return whether an attempt ended, successfully or not."""
    own = [
        step
        for step in later
        if (step.what, step.of, step.nonce) == (begin_step.what, begin_step.of, begin_step.nonce)
    ]
    if begin_step.what != AttemptKind.TRAINING:
        return any(step.step in (StepKind.SERVED, StepKind.ABORTED) for step in own)
    runs = {
        path
        for step in own
        if step.step in RESULT_STEPS
        for path in step.files
        if TRAINING_TELEMETRY.search(path) is None
    }
    given_up = any(step.step is StepKind.ABORTED and not step.files for step in own)
    wanted = begin_step.options.get("runs")
    return given_up or (isinstance(wanted, int) and len(runs) >= wanted)


def count_attempts(steps: Iterable[LedgerStep], what: AttemptKind, folder: str) -> int:
    """Count the attempts at one result: run sets that began in its folder, or performance runs
    of a scenario's folder.
    """
    own = [step.of for step in steps if step.step is StepKind.BEGIN and step.what == what]
    return sum(
        of == folder or (what is not AttemptKind.TRAINING and of.startswith(f"{folder}/"))
        for of in own
    )
