"""What a ledger's steps come to: which files stand, what was begun and never ended, how often something was tried."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from suite.ledger.steps import MAKING, Step, StepKind, What

Pair: TypeAlias = tuple[str, str]
"""Path in the results folder, SHA-256."""


def standing(steps: Iterable[Step]) -> Mapping[Pair, Sequence[Step]]:
    """Give the steps that made each file that stands: those since it was last superseded; of a file that does not stand none."""
    found: dict[Pair, list[Step]] = {}
    for step in steps:
        for pair in step.files.items():
            if step.step is StepKind.SUPERSEDED:
                found[pair] = []
            elif step.step in MAKING:
                found.setdefault(pair, []).append(step)
    return {pair: makers for pair, makers in found.items() if makers}


def unended(steps: Sequence[Step]) -> Iterator[Step]:
    """Yield each `begin` that no later step ends: of a LoadGen run a `served` or `aborted` at its folder, of a training set as many ends as it has runs."""
    for place, begun in enumerate(steps):
        if begun.step is StepKind.BEGIN and not ended(begun, steps[place + 1 :]):
            yield begun


def ended(begun: Step, later: Sequence[Step]) -> bool:
    """Tell whether what was begun came to an end, good or bad."""
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
