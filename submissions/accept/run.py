"""`podium accept run`: the campaign of an attempt, or of a rehearsal, by a contract's terms."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from submissions import attempts
from submissions.accept.contract import (
    AcceptanceContract,
    list_setting_words,
    read_contract,
    require_open_deadline,
)
from submissions.accept.ledger_attempts import ContractTry, collect_tries, count_used_attempts
from submissions.accept.signers import find_contract_signature_fault
from submissions.campaign.run import run_campaigns
from submissions.campaign.state import CampaignStage, CampaignState, read_campaign_state
from submissions.signatures.signing import sign_bundle
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import RequestError
from suite.files.layout import locate_staged_campaign
from suite.ledger.contract_challenge import (
    TryChallenge,
    TryKind,
    format_try_challenge,
    parse_try_challenge,
)


def run_contract(
    path: Path, options: RunOptions, *, kind: TryKind, again: bool, key: Path | None
) -> tuple[AcceptanceContract, Path]:
    """Run, resume or show a contract's attempt; return the contract and its bundle, signed if there
    is a key. RequestError if the contract does not allow it; errors of `podium run`.
    """
    contract = read_contract(path)
    terms = contract.terms
    check_signing(contract, kind, key)
    if fault := find_contract_signature_fault(path, terms.buyer):
        raise RequestError(f"{path}: {fault}")
    agreed = list_setting_words(terms.settings)
    options = replace(options, profile=terms.profile, assignments=(*agreed, *options.assignments))
    chosen = choose_try(contract, options, kind, again)
    print_progress_note(f"{terms.workload}: {chosen.words}")
    (bundle,) = run_campaigns(
        terms.workload,
        options,
        seed=None,
        runs=contract.training_runs,
        serving_runs=terms.runs,
        challenge=format_try_challenge(chosen),
    )
    if key is not None and kind is TryKind.ATTEMPT:
        sign_once(bundle, key, terms.seller.name)
    return contract, bundle


def check_signing(contract: AcceptanceContract, kind: TryKind, key: Path | None) -> None:
    """RequestError before anything runs if the bundle must be signed and there is no key."""
    if key is not None and not key.is_file():
        raise RequestError(f"--key {key}: no such key file")
    if contract.terms.seller.key and key is None and kind is TryKind.ATTEMPT:
        raise RequestError(
            f"the contract names the key of {contract.terms.seller.name}: give --key FILE, or"
            " --rehearse"
        )


def choose_try(
    contract: AcceptanceContract, options: RunOptions, kind: TryKind, again: bool
) -> TryChallenge:
    """Choose which attempt or rehearsal to run: the unfinished or finished one of this results
    folder, or the next; RequestError if the contract allows no other, if `again` was not given, or
    after the deadline.
    """
    tries = collect_results_tries(contract, options)
    last = max((each.number for each in tries if each.kind is kind), default=0)
    state = read_present_state(options.results.absolute(), contract.terms.workload)
    present = None
    if state:
        present = parse_try_challenge(str(state.asked.training.get("challenge")))
    if state and present and (present.digest, present.kind) == (contract.digest, kind):
        is_wanted_anew = again and state.stage is not CampaignStage.RUNNING
        if state.stage is not CampaignStage.MISSED and not is_wanted_anew:
            return present
        last = max(last, present.number)
    require_open_deadline(contract.terms)
    if kind is TryKind.ATTEMPT:
        check_further_attempt(contract, tries, last, again)
    return TryChallenge(digest=contract.digest, kind=kind, number=last + 1)


def check_further_attempt(
    contract: AcceptanceContract, tries: Sequence[ContractTry], last: int, again: bool
) -> None:
    """RequestError if all attempts are used, or if a further one was not asked for."""
    used, allowed = count_used_attempts(tries, contract.scenario), contract.terms.attempts
    if max(used, last) >= allowed:
        raise RequestError(f"{max(used, last)} of {allowed} attempts are used; none is left")
    if last and not again:
        raise RequestError(
            f"attempt {last} of {allowed} is over; --again begins attempt {last + 1}, which counts"
        )


def collect_results_tries(contract: AcceptanceContract, options: RunOptions) -> list[ContractTry]:
    """Return what the ledgers of a results folder have of a contract."""
    return [
        each
        for ledger in attempts.iterate_workload_ledgers(
            options.results.absolute(), contract.terms.workload
        )
        for each in collect_tries(ledger.read_steps(), contract.digest)
    ]


def read_present_state(results: Path, workload: str) -> CampaignState | None:
    """Read the state of the campaign that is staged, or else of the one in place."""
    staged = read_campaign_state(locate_staged_campaign(results, workload), workload)
    return staged or read_campaign_state(results, workload)


def sign_once(bundle: Path, key: Path, name: str) -> None:
    """Sign a bundle as the seller, unless this key has signed it already."""
    try:
        sign_bundle(bundle, key, name, detached=False)
    except RequestError as error:
        if "already signed" not in str(error):
            raise
