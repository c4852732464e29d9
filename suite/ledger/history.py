"""What a ledger's steps come to: which files stand, what was begun and never ended, how often something was tried."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, TypeAlias

from suite.ledger.steps import MAKING, Step, StepKind, What

Files: TypeAlias = Mapping[str, str]
"""Path in the results folder -> SHA-256."""
RUN_FOLDERS: Final = (What.ACCURACY, What.PERFORMANCE)
"""Folders of a scenario below which its runs lie."""


def standing(steps: Iterable[Step]) -> Mapping[int, Files]:
    """Return what stands of each step, by its number: the files that it made without those that were superseded since; steps without any are left out.

    By steps, and not by files: two runs may give equal files, as an accuracy run's score.
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
    """Split files into what comes and goes as one: the files of a LoadGen run; any other file alone."""
    found: dict[str, dict[str, str]] = {}
    for name, sha256 in files.items():
        folder = PurePosixPath(name).parent
        of_run = folder.name in RUN_FOLDERS or folder.parent.name in RUN_FOLDERS
        found.setdefault(str(folder) if of_run else name, {})[name] = sha256
    yield from found.values()


def unended(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield each `begin` that no later step ends: of a LoadGen run a `served` or `aborted` at its folder, of a training set as many ends as it has runs."""
    for place, begun in enumerate(steps):
        if begun.step is StepKind.BEGIN and not ended(begun, steps[place + 1 :]):
            yield begun


def ended(begun: Step, later: Sequence[Step]) -> bool:
    """Return whether what was begun came to an end, good or bad."""
    own = [step for step in later if (step.what, step.of, step.nonce) == (begun.what, begun.of, begun.nonce)]
    if begun.what != What.TRAINING:
        return any(step.step in (StepKind.SERVED, StepKind.ABORTED) for step in own)
    runs = {path for step in own if step.step in MAKING for path in step.files}
    given_up = any(step.step is StepKind.ABORTED and not step.files for step in own)
    wanted = begun.options.get("runs")
    return given_up or (isinstance(wanted, int) and len(runs) >= wanted)


def begun(steps: Iterable[Step], what: What, folder: str) -> int:
    """Count the attempts at one result: of a training set the sets that were begun at its folder, of a scenario's folder its performance runs."""
    own = [step.of for step in steps if step.step is StepKind.BEGIN and step.what == what]
    return sum(of == folder or (what is not What.TRAINING and of.startswith(f"{folder}/")) for of in own)
