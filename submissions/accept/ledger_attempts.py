"""Attempts and rehearsals of a contract in a ledger."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from suite.ledger.contract_challenge import TryChallenge, TryKind, parse_try_challenge
from suite.ledger.steps import AttemptKind, LedgerStep, StepKind
from suite.loadgen.headline import VALID_RUN
from suite.loadgen.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTry:
    """An attempt or a rehearsal that began."""

    kind: TryKind
    number: int
    nonce: str
    steps: tuple[LedgerStep, ...]
    """Its steps, the first is its begin."""

    @property
    def words(self) -> str:
        """Which one it is, for a reader."""
        return f"{self.kind.words} {self.number}"

    @property
    def measured_steps(self) -> tuple[LedgerStep, ...]:
        """The steps of its work: without what is only noted of its files later."""
        noted = (StepKind.SUPERSEDED, StepKind.RESTORED, StepKind.CHECKED, StepKind.PACKED)
        return tuple(step for step in self.steps if step.step not in noted)

    @property
    def ending(self) -> str:
        """How its training ended."""
        ended = [
            step.step
            for step in self.steps
            if step.step in (StepKind.TRAINED, StepKind.MISSED, StepKind.ABORTED)
            and step.what == AttemptKind.TRAINING
        ]
        return ended[-1] if ended else "not ended"

    def count_takes(self, scenario: Scenario) -> int:
        """Count how often a scenario gave a VALID result, on any system: all but the first were
        served although the seller had seen one. A run that LoadGen called INVALID was no result.
        """
        runs = Counter(
            step.of
            for step in self.steps
            if step.step is StepKind.SERVED
            and step.what == AttemptKind.PERFORMANCE
            and step.verdict == VALID_RUN
        )
        places: dict[PurePosixPath, int] = {}
        for of, count in runs.items():
            place = PurePosixPath(of).parent.parent  # SCENARIO/performance/run_1
            if place.name == scenario.folder:
                places[place] = max(places.get(place, 0), count)
        return sum(places.values())


def count_uncounted_runs(attempt: ContractTry, scenario: Scenario) -> tuple[int, int]:
    """Count the performance runs of a scenario that used no attempt: those that LoadGen called
    INVALID, and those that began and did not end, as a seller may end them who sees slow ones.
    """
    own = [
        step
        for step in attempt.steps
        if step.what == AttemptKind.PERFORMANCE
        and PurePosixPath(step.of).parent.parent.name == scenario.folder
    ]
    begun = sum(step.step is StepKind.BEGIN for step in own)
    served = [step for step in own if step.step is StepKind.SERVED]
    invalid = sum(step.verdict != VALID_RUN for step in served)
    return invalid, max(0, begun - len(served))


def collect_tries(steps: Sequence[LedgerStep], digest: str) -> list[ContractTry]:
    """Return what a ledger has of a contract, in the order in which it began."""
    return [
        ContractTry(
            kind=parsed.kind,
            number=parsed.number,
            nonce=begin.nonce,
            steps=(begin, *select_own_steps(steps, begin)),
        )
        for begin, parsed in iterate_contract_begins(steps)
        if parsed.digest == digest
    ]


def iterate_contract_begins(
    steps: Iterable[LedgerStep],
) -> Iterable[tuple[LedgerStep, TryChallenge]]:
    """Yield the begin of each campaign of any contract, with what its challenge says."""
    for step in steps:
        is_begin = step.step is StepKind.BEGIN and step.what == AttemptKind.TRAINING
        if is_begin and (parsed := parse_try_challenge(step.challenge)):
            yield step, parsed


def select_own_steps(steps: Iterable[LedgerStep], begin: LedgerStep) -> Iterable[LedgerStep]:
    """Yield the later steps of a campaign."""
    return (step for step in steps if step.nonce == begin.nonce and step.n > begin.n)


def select_attempts(tries: Iterable[ContractTry]) -> list[ContractTry]:
    """Leave out rehearsals."""
    return [each for each in tries if each.kind is TryKind.ATTEMPT]


def count_used_attempts(tries: Iterable[ContractTry], scenario: Scenario | None) -> int:
    """Count the attempts that were used: each that began, and each further result of a scenario
    within one.
    """
    attempts = select_attempts(tries)
    if scenario is None:
        return len(attempts)
    return sum(max(1, each.count_takes(scenario)) for each in attempts)
