"""What a ledger's steps add up to: which files are in place, which attempts never ended, how often
a result was attempted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from suite.files.layout import AUDITS
from suite.ledger.steps import MAKING, Step, StepKind, What

Files: TypeAlias = Mapping[str, str]
"""Path in the results folder -> SHA-256."""
RUN_FOLDERS: Final = (What.ACCURACY, What.PERFORMANCE)
"""Folders of a scenario that contain its runs."""
TEST_DEPTH: Final = 5
"""Levels of a compliance test's folder: compliance/<system>/<benchmark>/<Scenario>/<test>."""


def standing(steps: Iterable[Step]) -> Mapping[int, Files]:
    """Return the files of each step, by its number, that were not superseded later; steps without
    any are left out.

    Keyed by step, not by file: two runs may produce equal files, such as an accuracy run's score.
    """
    found: dict[int, dict[str, str]] = {}
    for step in steps:
        if step.step in MAKING:
            found[step.n] = dict(step.files)
        elif step.step is StepKind.SUPERSEDED and step.made is not None:
            for name in step.files:
                found.get(step.made, {}).pop(name, None)
    return {number: files for number, files in found.items() if files}


def units(files: Files) -> Iterator[Files]:
    """Split files into units that are created and superseded together: the files of a LoadGen run,
    those of a compliance test, or any other single file.
    """
    found: dict[str, dict[str, str]] = {}
    for name, sha256 in files.items():
        folder, parts = PurePosixPath(name).parent, PurePosixPath(name).parts
        if AUDITS in parts:
            found.setdefault("/".join(parts[: parts.index(AUDITS) + TEST_DEPTH]), {})[name] = sha256
            continue
        of_run = folder.name in RUN_FOLDERS or folder.parent.name in RUN_FOLDERS
        found.setdefault(str(folder) if of_run else name, {})[name] = sha256
    yield from found.values()


def unended(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield each `begin` that no later step ends: a LoadGen run needs one `served` or `aborted` for
    its folder, a training set one ending per run.
    """
    for place, begun in enumerate(steps):
        if begun.step is StepKind.BEGIN and not ended(begun, steps[place + 1 :]):
            yield begun


def ended(begun: Step, later: Sequence[Step]) -> bool:
    """Return whether an attempt ended, successfully or not."""
    own = [
        step
        for step in later
        if (step.what, step.of, step.nonce) == (begun.what, begun.of, begun.nonce)
    ]
    if begun.what != What.TRAINING:
        return any(step.step in (StepKind.SERVED, StepKind.ABORTED) for step in own)
    runs = {path for step in own if step.step in MAKING for path in step.files}
    given_up = any(step.step is StepKind.ABORTED and not step.files for step in own)
    wanted = begun.options.get("runs")
    return given_up or (isinstance(wanted, int) and len(runs) >= wanted)


def begun(steps: Iterable[Step], what: What, folder: str) -> int:
    """Count the attempts at one result: training sets that began in its folder, or performance runs
    of a scenario's folder.
    """
    own = [step.of for step in steps if step.step is StepKind.BEGIN and step.what == what]
    return sum(
        of == folder or (what is not What.TRAINING and of.startswith(f"{folder}/")) for of in own
    )
