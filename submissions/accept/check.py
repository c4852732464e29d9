"""`podium accept check`: judges a bundle by a contract, with the evidence for each clause."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from compliance.bundle.trailer import FrameKind
from submissions import compliance_check
from submissions.accept import refusals, signers
from submissions.accept.clauses import (
    ClauseFinding,
    ClauseState,
    judge_clauses,
    summarise_clauses,
)
from submissions.accept.contract import PER_HOUR, AcceptanceContract, format_moment
from submissions.accept.delivery import Delivery, open_delivery
from submissions.accept.ledger_attempts import (
    ContractTry,
    count_uncounted_runs,
    count_used_attempts,
    select_attempts,
)
from submissions.accept.refusals import REFUSAL_FINDERS, Refusal, RefusalKind
from submissions.pack.bundle import describe_recomputed_figures, list_uninstalled_workloads
from submissions.signatures.ssh_keygen import SignatureCheck
from submissions.signatures.time_stamps import find_time_stamp_verifier
from submissions.signatures.verification import NOT_SHOWN
from suite.errors import JudgedError, MissingError, RefusedError, RequestError
from suite.files.layout import compute_file_sha256
from suite.files.untrusted_files import replace_unprintable
from suite.human_numbers import format_plain_number
from suite.ledger.contract_challenge import TryKind
from suite.result import Result
from suite.rounds import HyperValue

SELLERS_WORD: Final = "by the seller's clock alone, so the time is the seller's word"
SETTING_SHOWN: Final = 12
"""Settings that a line names; a command line has fewer."""


class AcceptanceCode(IntEnum):
    """Exit codes of `podium accept check`."""

    MET = 0
    NOT_MET = 1
    NOT_SHOWN = 2
    REFUSED = RefusedError.exit_code
    """The bundle is no evidence for this contract."""


STATE_CODES: Final = {
    ClauseState.MET: AcceptanceCode.MET,
    ClauseState.NOT_MET: AcceptanceCode.NOT_MET,
    ClauseState.NOT_SHOWN: AcceptanceCode.NOT_SHOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One line about the bundle."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """What a bundle is worth for a contract."""

    contract: AcceptanceContract
    bundle: str
    bundle_sha256: str
    """Of the file, with the signatures behind its seal."""
    refusals: tuple[Refusal, ...]
    evidence: tuple[Evidence, ...]
    clauses: tuple[ClauseFinding, ...]
    """Empty if the bundle is refused."""

    @property
    def code(self) -> AcceptanceCode:
        """The exit code."""
        if self.refusals:
            return AcceptanceCode.REFUSED
        return STATE_CODES[summarise_clauses(self.clauses)]

    @property
    def conclusion(self) -> str:
        """The outcome in a sentence."""
        if self.refusals:
            names = dict.fromkeys(each.kind.value for each in self.refusals)
            return f"refused: {', '.join(names)}"
        counts = {state: sum(each.state is state for each in self.clauses) for state in ClauseState}
        words = ", ".join(f"{count} {state.value}" for state, count in counts.items() if count)
        return f"clauses: {words}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptanceRequest:
    """What to check."""

    contract: AcceptanceContract
    contract_path: Path
    bundle: Path
    authorities: Path | None = None
    """Certificates of trusted time-stamping authorities (PEM)."""
    earlier: tuple[Path, ...] = ()
    """Bundles for this contract that were received before."""
    wanted: TryKind = TryKind.ATTEMPT


def check_acceptance(request: AcceptanceRequest) -> Acceptance:
    """Judge a bundle by a contract. RequestError for a bundle that is none, MissingError if it
    cannot be judged on this machine.
    """
    contract, bundle = request.contract, request.bundle
    if not bundle.is_file():
        raise RequestError(f"{bundle}: no such bundle (*.tar.zst)")
    damage = tuple(refusals.find_damage(bundle))
    if damage:
        return build_acceptance(request, damage, ())
    if lacking := list_uninstalled_workloads(bundle):
        raise MissingError(
            f"{bundle}: cannot be judged here: the package of {', '.join(lacking)} is not installed"
        )
    try:
        with open_delivery(contract, bundle, request.wanted) as found:
            return judge_delivery(request, found)
    except RequestError:
        raise
    except JudgedError as error:
        rejected = Refusal(kind=RefusalKind.REJECTED, sentence=replace_unprintable(str(error)))
        return build_acceptance(request, (rejected,), ())


def judge_delivery(request: AcceptanceRequest, found: Delivery) -> Acceptance:
    """Judge a bundle whose bytes are whole: refusals first, clauses if there are none."""
    contract = request.contract
    refused = [*signers.find_unsigned_contract(request.contract_path, contract.terms.buyer)]
    refused += refusals.find_spoilt_stamps(found)
    refused += refusals.find_rejected_content(found)
    missing = tuple(refusals.find_missing_result(found))
    if missing:
        return build_acceptance(request, (*refused, *missing), ())
    for find_refusal in REFUSAL_FINDERS:
        refused += find_refusal(found)
    refused += refusals.check_earlier_bundles(found, request.earlier)
    signed = signers.check_delivered_signatures(found)
    if request.wanted is TryKind.ATTEMPT:
        refused += signers.find_other_signer(found, signed)
    evidence = [*list_evidence(request, found, signed)]
    clauses: tuple[ClauseFinding, ...] = ()
    if not refused:
        clauses = tuple(judge_clauses(contract, found.result))
    return build_acceptance(request, tuple(refused), tuple(evidence), clauses)


def build_acceptance(
    request: AcceptanceRequest,
    refused: tuple[Refusal, ...],
    evidence: tuple[Evidence, ...],
    clauses: tuple[ClauseFinding, ...] = (),
) -> Acceptance:
    """Put the answer together; what both files are is always evidence."""
    return Acceptance(
        contract=request.contract,
        bundle=request.bundle.name,
        bundle_sha256=compute_file_sha256(request.bundle),
        refusals=refused,
        evidence=(*describe_contract(request), *evidence),
        clauses=clauses,
    )


def describe_contract(request: AcceptanceRequest) -> Iterator[Evidence]:
    """Describe the contract's file and who signed it."""
    contract, beside = request.contract, signers.locate_contract_signature(request.contract_path)
    signature = f"no {beside.name} beside it, so not signed by {contract.terms.buyer.name}"
    if beside.exists():
        fault = signers.find_contract_signature_fault(request.contract_path, contract.terms.buyer)
        signature = fault or f"signed by {contract.terms.buyer.name} ({beside.name})"
    yield Evidence(name="contract", text=f"sha256:{contract.digest}; {signature}")
    yield Evidence(name="about", text=contract.subject)


def list_evidence(
    request: AcceptanceRequest, found: Delivery, signed: Sequence[SignatureCheck]
) -> Iterator[Evidence]:
    """Yield what a reader needs to know of a bundle with one result."""
    seal = found.trailer.digest.hex()
    files = len(found.manifest.files)
    yield Evidence(name="bundle", text=f"{files} files, seal sha256:{seal}")
    yield Evidence(
        name="judge",
        text=f"{found.manifest.round}, podium {found.manifest.version};"
        f" {describe_recomputed_figures(found.bundle)}",
    )
    if warned := list(describe_warnings(found)):
        yield Evidence(name="warnings", text="; ".join(warned))
    yield Evidence(name="attempts", text="; ".join(describe_attempt_history(found)))
    yield Evidence(name="measured", text=describe_conditions(found))
    yield Evidence(name="machine", text=describe_delivery_machine(found))
    yield Evidence(name="time", text="; ".join(describe_times(request, found)))
    by = [signers.describe_signer(found, each) for each in signed]
    yield Evidence(name="signed", text="; ".join(by) or "not signed")
    if found.contract.terms.price:
        yield Evidence(name="price", text=describe_price(found.contract))
    yield Evidence(name="limit", text=NOT_SHOWN)


def describe_warnings(found: Delivery) -> Iterator[str]:
    """Yield what the judge warns of in the bundle, by rule; noise stands beside each clause."""
    warned = compliance_check.list_warnings(found.bundle)
    rules = Counter(each.rule for each in warned)
    for rule, count in sorted(rules.items()):
        if rule.startswith(compliance_check.NOISE_RULE_PREFIX):
            continue
        first = next(each for each in warned if each.rule == rule)
        more = f", and {count - 1} more" if count > 1 else ""
        yield f"{rule}: found {first.found}; expected {first.required}{more}"


def describe_attempt_history(found: Delivery) -> Iterator[str]:
    """Yield how many attempts were used, and what became of each; rehearsals behind them."""
    attempts = select_attempts(found.tries)
    used = count_used_attempts(found.tries, found.contract.scenario)
    yield f"{used} of {found.contract.terms.attempts} used"
    for each in attempts:
        yield describe_try(found, each)
    rehearsals = [each for each in found.tries if each.kind is TryKind.REHEARSAL]
    if rehearsals:
        yield f"{len(rehearsals)} rehearsal{'s' * (len(rehearsals) > 1)}, not counted"
    others = sum(step.what == "training" and step.step == "begin" for step in found.steps) - len(
        found.tries
    )
    if others:
        yield f"{others} other campaign{'s' * (others > 1)} of this workload in the ledger"


def describe_try(found: Delivery, attempt: ContractTry) -> str:
    """Describe an attempt: when it began, how its training ended, and whether it is this one."""
    words = f"{attempt.words} began {attempt.steps[0].utc}, {attempt.ending}"
    takes = attempt.count_takes(found.contract.scenario) if found.contract.scenario else 1
    if takes > 1:
        words += f", served {takes} times"
    if found.contract.scenario:
        invalid, unfinished = count_uncounted_runs(attempt, found.contract.scenario)
        words += f", {invalid} INVALID run{'s' * (invalid > 1)}" if invalid else ""
        words += f", {unfinished} not ended" if unfinished else ""
    return words + (", judged here" if attempt is found.made_by else "")


def describe_conditions(found: Delivery) -> str:
    """Describe with what the result was made, and the settings that the seller chose."""
    result = found.result
    made = [f"engine {result.engine_words}"] if result.scenario else []
    made += [
        f"precision {result.precision_words}",
        f"{len(result.runs)} run{'s' * (len(result.runs) != 1)}",
    ]
    chosen = list(iterate_chosen_settings(found))
    if chosen:
        shown = ", ".join(chosen[:SETTING_SHOWN])
        made.append(f"settings of the seller's: {shown}{' ...' * (len(chosen) > SETTING_SHOWN)}")
    return ", ".join(made)


def iterate_chosen_settings(found: Delivery) -> Iterator[str]:
    """Yield the settings that are neither the profile's nor the contract's."""
    agreed = refusals.resolve_agreed_settings(found)
    for key, value in sorted(found.settings.items()):
        if key in agreed and agreed[key] not in (value, "auto"):
            yield f"{key}={format_clause_setting(value)}"


def format_clause_setting(value: HyperValue) -> str:
    """Format a setting for a reader."""
    if isinstance(value, float):
        return format_plain_number(value)
    return str(value)


def describe_delivery_machine(found: Delivery) -> str:
    """Describe the machine, and whether the contract names one."""
    result = found.result
    named = found.contract.terms.machine
    if named:
        fields = ", ".join(f"{name} {result.described.get(name)}" for name in named)
        return f"{result.system}; as the contract names: {fields}"
    return f"{result.system}; {describe_hardware(result)}; the contract names none"


def describe_hardware(result: Result) -> str:
    """Describe accelerators, or the processors of a machine without any."""
    if result.machine.accelerators:
        return str(result.machine)
    cores = result.described.get("host_processor_core_count")
    return f"{result.described.get('host_processor_model_name')}, {cores} cores"


def describe_times(request: AcceptanceRequest, found: Delivery) -> Iterator[str]:
    """Yield when the attempt ran, and who says so."""
    made_by = found.made_by
    if made_by:
        steps = made_by.measured_steps
        yield f"from {steps[0].utc} to {steps[-1].utc}"
    yield f"deadline {format_moment(found.contract.terms.deadline)}"
    stamps = list(describe_stamps(request, found))
    yield from stamps or [SELLERS_WORD]


def describe_stamps(request: AcceptanceRequest, found: Delivery) -> Iterator[str]:
    """Yield what time stamps say, which show only that the bundle existed then."""
    verifier = find_time_stamp_verifier()
    for frame in found.trailer.frames:
        if frame.kind is not FrameKind.TIME:
            continue
        if isinstance(verifier, str):
            yield f"time stamp not checked: {verifier}; {SELLERS_WORD}"
            continue
        try:
            stamp = verifier.verify_time_stamp(
                frame.content, found.trailer.digest, request.authorities
            )
        except JudgedError as error:
            yield f"{error}; {SELLERS_WORD}"
            continue
        words = f"existed at {format_moment(stamp.utc)}, authority {stamp.authority}"
        if request.authorities is None:
            yield f"{words}, not verified without --ca; {SELLERS_WORD}"
        elif stamp.utc > found.contract.terms.deadline:
            yield f"{words}, after the deadline; that it ran earlier is the seller's word"
        else:
            yield f"{words}, before the deadline"


def describe_price(contract: AcceptanceContract) -> str:
    """Describe the agreed price."""
    price = contract.terms.price
    if price is None:
        return "none"
    what = "all of the contract"
    if price.per == PER_HOUR:
        what = "an hour of the machine, energy included"
    return f"{price.amount:,.2f} {price.currency} for {what}"
