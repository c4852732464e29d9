"""The summary of a bundle's ledgers and nonces that `podium verify` prints."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from compliance.bundle.manifest import Manifest, read_unpacked_manifest
from compliance.results.indexed_result import IndexedResult
from submissions.result_index import open_results
from suite.errors import JudgedError
from suite.files.untrusted_files import replace_unprintable
from suite.ledger.book import Ledger
from suite.ledger.contract_challenge import parse_try_challenge
from suite.ledger.history import count_attempts
from suite.ledger.steps import AttemptKind, LedgerStep, StepKind

COUNT_WORDS: Final = {1: "once", 2: "twice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerAccount:
    """Summary of a bundle's ledgers and nonces."""

    ledger: str
    """Empty if there is none."""
    nonce: str
    challenged: bool
    """Whether its nonces are derived from a challenge chosen by someone else."""


def read_ledger_account(bundle: Path) -> LedgerAccount | None:
    """Read the ledgers of an undamaged bundle; None if it has no results."""
    try:
        with open_results(bundle) as results:
            ledgers = [book for book in list_bundle_ledgers(results) if book.read_bytes()]
            challenges_found = list_nonce_challenges(
                read_unpacked_manifest(results[0].results_root), ledgers
            )
            ledger = replace_unprintable(
                "; ".join(summarise_ledger(book, results) for book in ledgers)
            )
    except JudgedError:
        return None
    nonce = "no challenge was set"
    if challenges_found:
        nonce = f"fresh: {', '.join(map(describe_challenge, challenges_found))}"
    return LedgerAccount(
        ledger=ledger,
        nonce=replace_unprintable(nonce),
        challenged=bool(challenges_found),
    )


def list_bundle_ledgers(results: Sequence[IndexedResult]) -> list[Ledger]:
    """Return the ledger of each workload and organisation in these results."""
    found = {
        (result.known_organisation_folder, result.workload): result.results_root
        for result in results
    }
    return [
        Ledger(results=root, organisation_folder=home, workload=workload)
        for (home, workload), root in found.items()
    ]


def summarise_ledger(ledger: Ledger, results: Sequence[IndexedResult]) -> str:
    """Summarise a ledger: number of attempts, and how many of them are in the bundle."""
    steps = ledger.read_steps()
    own = [
        result
        for result in results
        if (result.known_organisation_folder, result.workload)
        == (ledger.organisation_folder, ledger.workload)
    ]
    opening = "unbroken:"
    if len(list_bundle_ledgers(results)) > 1:
        opening = ledger.workload
    parts = [
        f"{opening} {len(steps)} links",
        *describe_training_attempts(steps, own),
        *(
            part
            for result in own
            if result.scenario
            for part in describe_performance_attempts(steps, result)
        ),
    ]
    if first := len(steps[0].files) if steps else 0:
        parts.append(f"{first} files are older than the ledger")
    return "; ".join(parts)


def describe_training_attempts(
    steps: Sequence[LedgerStep], own: Sequence[IndexedResult]
) -> Iterator[str]:
    """Yield how many run sets began, and how many are in the bundle."""
    begun_count = sum(
        step.step is StepKind.BEGIN and step.what == AttemptKind.TRAINING for step in steps
    )
    retained_count = sum(result.scenario is None for result in own)
    if begun_count == 1:
        yield f"1 run set begun{' and kept' * bool(retained_count)}"
    elif begun_count:
        yield (
            f"{begun_count} run sets begun,"
            f" {'the last' if retained_count == 1 else retained_count} kept"
        )


def describe_performance_attempts(
    steps: Sequence[LedgerStep], result: IndexedResult
) -> Iterator[str]:
    """Yield how often a scenario's performance runs began and were served, if the bundle contains
    fewer.
    """
    folder = result.folder.relative_to(result.results_root).as_posix()
    begun_count, retained_count = (
        count_attempts(steps, AttemptKind.PERFORMANCE, folder),
        len(result.performance_folders),
    )
    served = sum(
        step.step is StepKind.SERVED
        and step.what == AttemptKind.PERFORMANCE
        and step.of.startswith(f"{folder}/")
        for step in steps
    )
    label = ""
    if result.scenario:
        label = result.scenario.label
    if begun_count == served == retained_count:
        return
    if begun_count == served and retained_count == 1:
        yield f"{label} served {COUNT_WORDS.get(served, f'{served} times')}, the last kept"
    elif begun_count:
        yield (
            f"{label}: {begun_count} performance runs begun, {served} served, {retained_count} kept"
        )


def describe_challenge(challenge: str) -> str:
    """Describe where a nonce comes from: a contract's attempt or rehearsal, or any challenge."""
    found = parse_try_challenge(challenge)
    if found:
        return f"derived from {found.words}"
    return f"derived from the challenge {challenge}"


def list_nonce_challenges(manifest: Manifest, ledgers: Sequence[Ledger]) -> list[str]:
    """Return the challenges that a bundle's nonces were derived from."""
    begins = [
        step
        for book in ledgers
        for step in book.read_steps()
        if step.step is StepKind.BEGIN and step.nonce in manifest.nonce.values()
    ]
    return list(dict.fromkeys(step.challenge for step in begins if step.challenge))
