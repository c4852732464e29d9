"""Why a bundle is no evidence for a contract: each refusal has a name and a sentence."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from submissions import compliance_check
from submissions.accept.contract import format_moment
from submissions.accept.delivery import Delivery, read_delivered_lines
from submissions.accept.ledger_attempts import count_used_attempts, select_attempts
from submissions.campaign.requested_options import convert_to_json_types
from submissions.pack.bundle import list_content_problems
from submissions.pack.seal import inspect_bundle
from submissions.signatures.time_stamps import find_time_stamp_problems
from suite import registry
from suite.errors import RequestError
from suite.files.layout import fold_name
from suite.files.untrusted_files import replace_unprintable
from suite.ledger.contract_challenge import SHOWN_DIGITS, TryKind, parse_try_challenge
from suite.rounds import HyperValue
from suite.rounds.settings import resolve_settings

TRADE_MARKS: Final = re.compile(r"\((?:R|TM|C)\)", re.IGNORECASE)
"""Marks that processors state in their names, and people leave out."""


class RefusalKind(StrEnum):
    """Names of refusals."""

    EDITED = "edited bundle"
    """Its bytes are not those that were sealed."""
    REJECTED = "rejected by the judge"
    """The results in it break a rule."""
    NO_RESULT = "no such result"
    """It has not exactly one result of what the contract is about."""
    OTHER_CONTRACT = "another contract"
    """It was run for another contract or none, or the contract was edited since."""
    REHEARSAL = "rehearsal"
    """It was run as a rehearsal."""
    OLDER = "older bundle"
    """There is a later attempt."""
    LEFT_OUT = "left-out attempt"
    """An attempt is not in the ledger."""
    TOO_MANY = "too many attempts"
    """More than the contract allows."""
    OTHER_RUNS = "other runs"
    """Not as many runs as the contract asks for."""
    OTHER_TASK = "another task"
    """Measured with other data, or with other settings than agreed."""
    OTHER_MACHINE = "another machine"
    """Measured on another machine than the contract names."""
    LATE = "after the deadline"
    """Measured after the deadline."""
    OTHER_SIGNER = "another signer"
    """Not signed with the key that the contract names for the seller."""
    UNSIGNED_CONTRACT = "contract's signature"
    """The signature beside the contract is not the buyer's, or not of this file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a bundle is no evidence."""

    kind: RefusalKind
    sentence: str


def find_damage(bundle: Path) -> Iterator[Refusal]:
    """Yield what is wrong with the bytes of a bundle; nothing else of it is looked at then."""
    for sentence in inspect_bundle(bundle):
        yield Refusal(kind=RefusalKind.EDITED, sentence=sentence)


def find_spoilt_stamps(found: Delivery) -> Iterator[Refusal]:
    """Yield what is wrong with the time stamps behind the seal, as `podium verify` does; whether
    their authority is trusted is told in the evidence.
    """
    for sentence in find_time_stamp_problems(found.trailer):
        yield Refusal(kind=RefusalKind.EDITED, sentence=replace_unprintable(sentence))


def find_rejected_content(found: Delivery) -> Iterator[Refusal]:
    """Yield why the judge rejects what is in the bundle."""
    for sentence in list_content_problems(found.bundle):
        yield Refusal(kind=RefusalKind.REJECTED, sentence=sentence)


def find_missing_result(found: Delivery) -> Iterator[Refusal]:
    """Yield a refusal unless there is one result; no further question can be asked then."""
    count = len(found.results)
    if count != 1:
        yield Refusal(
            kind=RefusalKind.NO_RESULT,
            sentence=f"{count or 'no'} results of {found.contract.subject}; a bundle for a contract"
            " has one",
        )


def find_other_contract(found: Delivery) -> Iterator[Refusal]:
    """Yield a refusal if the result's nonce is not derived from this contract's digest, or from the
    digest as a rehearsal.
    """
    begin, digest = found.begin, found.contract.digest
    parsed = parse_try_challenge(begin.challenge) if begin else None
    if parsed is None:
        sentence = "its campaign was not begun by podium accept run: no challenge names a contract"
        yield Refusal(kind=RefusalKind.OTHER_CONTRACT, sentence=sentence)
    elif parsed.digest != digest:
        sentence = (
            f"it was run for the contract {parsed.digest[:SHOWN_DIGITS]}, and this file is"
            f" {digest[:SHOWN_DIGITS]}: another contract, or this one was edited since"
        )
        yield Refusal(kind=RefusalKind.OTHER_CONTRACT, sentence=sentence)
    elif parsed.kind is TryKind.REHEARSAL and found.wanted is TryKind.ATTEMPT:
        sentence = f"it was run as rehearsal {parsed.number}, which is no attempt"
        yield Refusal(kind=RefusalKind.REHEARSAL, sentence=sentence)


def find_attempt_faults(found: Delivery) -> Iterator[Refusal]:
    """Yield refusals of the attempts in the ledger: one is missing or there twice, the result is
    not the last one's, or they are too many.
    """
    attempts = select_attempts(found.tries)
    counts = Counter(each.number for each in attempts)
    last = max(counts, default=0)
    if missing := [number for number in range(1, last) if number not in counts]:
        numbers = ", ".join(map(str, missing))
        sentence = f"the ledger has attempt {last}, but not {numbers}"
        yield Refusal(kind=RefusalKind.LEFT_OUT, sentence=sentence)
    for number, count in sorted(counts.items()):
        if count > 1:
            sentence = f"attempt {number} began {count} times"
            yield Refusal(kind=RefusalKind.TOO_MANY, sentence=sentence)
    made_by = found.made_by
    if made_by and made_by.kind is TryKind.ATTEMPT and made_by.number < last:
        sentence = f"it has the result of attempt {made_by.number}, and its ledger attempt {last}"
        yield Refusal(kind=RefusalKind.OLDER, sentence=sentence)
    used = count_used_attempts(found.tries, found.contract.scenario)
    allowed = found.contract.terms.attempts
    if used > allowed:
        sentence = f"{used} attempts in the ledger, and the contract allows {allowed}"
        if used > len(attempts):
            sentence += "; serving a scenario again after a VALID result counts as one"
        yield Refusal(kind=RefusalKind.TOO_MANY, sentence=sentence)


def find_other_runs(found: Delivery) -> Iterator[Refusal]:
    """Yield a refusal if there are more or fewer runs than agreed: a seller could go on until the
    interval suits.
    """
    count, wanted = len(found.result.runs), found.contract.terms.runs
    if count != wanted:
        sentence = f"{count} run{'s' * (count != 1)}, and the contract asks for {wanted}"
        yield Refusal(kind=RefusalKind.OTHER_RUNS, sentence=sentence)


def find_other_task(found: Delivery) -> Iterator[Refusal]:
    """Yield refusals of settings that define the data, or that the contract names, and that are
    not as agreed.
    """
    agreed = resolve_agreed_settings(found)
    measured = {**found.settings, **found.result.made_with.task}
    for key in sorted({*found.contract.terms.settings, *found.result.made_with.task}):
        if key in agreed and measured.get(key) != agreed[key]:
            sentence = f"measured with {key} = {measured.get(key)}, and agreed is {agreed[key]}"
            yield Refusal(kind=RefusalKind.OTHER_TASK, sentence=sentence)


def resolve_agreed_settings(found: Delivery) -> dict[str, HyperValue]:
    """Return the settings of the profile with those of the contract."""
    terms = found.contract.terms
    return convert_to_json_types(
        resolve_settings(
            registry.load_round(),
            terms.workload,
            terms.profile,
            terms.settings,
            serving=found.contract.scenario is not None,
        )
    )


def find_other_machine(found: Delivery) -> Iterator[Refusal]:
    """Yield a refusal for each field of the system description that is not as named, and if the
    runs' telemetry saw another machine than the described one.
    """
    for name, wanted in found.contract.terms.machine.items():
        stated = found.result.described.get(name)
        if fold_hardware_name(stated) != fold_hardware_name(wanted):
            sentence = f"{name} is {stated!r}, and the contract names {wanted!r}"
            yield Refusal(kind=RefusalKind.OTHER_MACHINE, sentence=sentence)
    if not found.contract.terms.machine:
        return
    for each in compliance_check.list_host_warnings(found.bundle):
        sentence = f"telemetry saw {each.found}; expected {each.required}"
        yield Refusal(kind=RefusalKind.OTHER_MACHINE, sentence=sentence)


def fold_hardware_name(name: object) -> str:
    """Fold a name without trade marks: `Intel(R) Xeon(R) Processor` is Intel Xeon Processor."""
    return fold_name(TRADE_MARKS.sub("", str(name)))


def find_late_step(found: Delivery) -> Iterator[Refusal]:
    """Yield a refusal if the attempt's work went on after the deadline, by the seller's clock."""
    deadline, made_by = found.contract.terms.deadline, found.made_by
    if made_by is None or made_by.kind is TryKind.REHEARSAL:
        return
    for step in made_by.measured_steps:
        moment = parse_step_moment(step.utc)
        if moment is None or moment > deadline:
            sentence = (
                f"step {step.n} of its ledger, {step.step}, is of {step.utc}, and the deadline was"
                f" {format_moment(deadline)}"
            )
            yield Refusal(kind=RefusalKind.LATE, sentence=sentence)
            return


def parse_step_moment(utc: str) -> datetime | None:
    """Parse the time of a ledger's step; None if it is none."""
    try:
        return datetime.strptime(utc, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def check_earlier_bundles(found: Delivery, earlier: Sequence[Path]) -> Iterator[Refusal]:
    """Yield a refusal for each bundle received before whose ledger this one does not continue.
    RequestError for one that is damaged.
    """
    mine = read_delivered_lines(found.bundle, found.contract)
    for path in earlier:
        if damage := list(inspect_bundle(path)):
            raise RequestError(f"--earlier {path}: {damage[0]}")
        theirs = read_delivered_lines(path, found.contract)
        if theirs == mine[: len(theirs)]:
            continue
        if mine == theirs[: len(mine)]:
            sentence = f"{path.name}, received before, has a longer ledger that continues this one"
            yield Refusal(kind=RefusalKind.OLDER, sentence=sentence)
            continue
        pairs = enumerate(zip(mine, theirs, strict=False))
        first = next((number for number, pair in pairs if pair[0] != pair[1]), 0)
        sentence = (
            f"its ledger differs from that of {path.name}, received before, from line {first + 1}"
            " on: what was run between is left out"
        )
        yield Refusal(kind=RefusalKind.LEFT_OUT, sentence=sentence)


REFUSAL_FINDERS: Final[Sequence[Callable[[Delivery], Iterator[Refusal]]]] = (
    find_other_contract,
    find_attempt_faults,
    find_other_runs,
    find_other_task,
    find_other_machine,
    find_late_step,
)
"""Questions about a bundle with one result, in this order."""
