"""`podium accept check`: what a bundle shows, and each forgery that is refused by its name."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from contracted_bundles import (
    Edit,
    Parties,
    call,
    campaign_of,
    deliver,
    other_try,
    seal,
    with_others,
)
from kinds import ledger as ledger_examples

from submissions.accept.contract import AcceptanceContract, read_contract
from submissions.accept.refusals import RefusalKind
from suite.ledger.contract_challenge import TryKind
from suite.ledger.steps import AttemptKind, LedgerStep, StepKind

Agreed = tuple[Path, AcceptanceContract]


def refused(contract: Path, bundle: Path, *words: object) -> set[str]:
    """Names of what a check refuses; it says so with exit code 4 and judges no clause."""
    outcome = call("accept", "check", contract, bundle, "--format", "json", *words)
    told = json.loads(outcome.stdout)
    if told["refusals"]:
        assert outcome.exit_code == told["code"] == 4
        assert told["clauses"] == []
        assert told["conclusion"].startswith("refused: ")
    return {each["name"] for each in told["refusals"]}


def test_a_delivered_bundle_is_judged_clause_by_clause(agreed: Agreed, delivered: Path) -> None:
    """One run has no interval: the latency is not shown, and the score is."""
    outcome = call("accept", "check", agreed[0], delivered)
    assert outcome.exit_code == 2, outcome.stdout
    lines = outcome.stdout.splitlines()
    score, latency = (
        next(line for line in lines if line.startswith(f"{name} at"))
        for name in ("top1", "latency_p90")
    )
    assert " met " in score and "0.8750" in score
    assert "not shown" in latency and "one run, no interval" in latency
    assert lines[-1] == "clauses: 1 met, 1 not shown"
    assert "attempts  1 of 2 used; attempt 1 began" in outcome.stdout
    assert "by the seller's clock alone, so the time is the seller's word" in outcome.stdout
    assert "signed    lab@seller.example, ED25519 SHA256:" in outcome.stdout


@pytest.mark.parametrize(("bound", "code"), [("top1 >= 0.8", 0), ("top1 >= 0.9", 1)])
def test_the_exit_code_says_whether_all_clauses_are_met(
    parties: Parties, tmp_path: Path, bound: str, code: int
) -> None:
    contract = parties.write(tmp_path / "c.toml", bound)
    bundle = deliver(contract, tmp_path, key=parties.key("seller"))
    assert call("accept", "check", tmp_path / "c.toml", bundle).exit_code == code


def test_the_two_sides_share_nothing_but_files(
    agreed: Agreed, delivered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in (agreed[0], delivered):
        shutil.copy(source, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert call("accept", "check", "contract.toml", delivered.name).exit_code == 2


# ten of the contract's own


def test_another_contract_and_one_that_was_edited_are_refused(
    parties: Parties, agreed: Agreed, delivered: Path, tmp_path: Path
) -> None:
    """Another nonce, other terms under the same nonce, and a comment more."""
    parties.write(tmp_path / "other.toml")
    assert refused(tmp_path / "other.toml", delivered) == {RefusalKind.OTHER_CONTRACT}
    text = agreed[0].read_text()
    for name, edited in (
        ("bound", text.replace("bound = 20.0", "bound = 30.0")),
        ("unit", text.replace('"ms"', '"s"')),
        ("attempts", text.replace("attempts = 2", "attempts = 3")),
        ("comment", f"{text}# agreed\n"),
    ):
        assert edited != text, name
        (tmp_path / "edited.toml").write_text(edited)
        assert refused(tmp_path / "edited.toml", delivered) == {RefusalKind.OTHER_CONTRACT}, name


def test_a_campaign_of_no_contract_is_refused(agreed: Agreed, tmp_path: Path) -> None:
    """The nonce of a campaign that somebody else challenged, or nobody."""

    def unchallenged(steps: list[LedgerStep]) -> list[LedgerStep]:
        return [replace(steps[0], challenge="", random=""), *steps[1:]]

    bundle = deliver(agreed[1], tmp_path, edit=unchallenged)
    assert RefusalKind.OTHER_CONTRACT in refused(agreed[0], bundle)


def test_a_clause_in_another_direction_is_no_contract(agreed: Agreed, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(agreed[0].read_text().replace("at most", "at least"))
    outcome = call("accept", "check", tmp_path / "c.toml", tmp_path / "x.tar.zst")
    assert outcome.exit_code == 2
    assert 'latency_p90 is bounded by "at most", not "at least"' in str(outcome.exception)


def test_a_rehearsal_is_not_sold_as_an_attempt(
    parties: Parties, agreed: Agreed, tmp_path: Path
) -> None:
    bundle = deliver(agreed[1], tmp_path / "1", kind=TryKind.REHEARSAL, key=parties.key("seller"))
    assert refused(agreed[0], bundle) == {RefusalKind.REHEARSAL}

    def renamed(steps: list[LedgerStep]) -> list[LedgerStep]:
        digits = steps[0].challenge
        return [replace(steps[0], challenge=f"{digits[:64]}01{digits[66:]}"), *steps[1:]]

    forged = deliver(agreed[1], tmp_path / "2", kind=TryKind.REHEARSAL, edit=renamed)
    assert RefusalKind.REJECTED in refused(agreed[0], forged)


def test_the_ledger_shows_rehearsals_and_does_not_count_them(
    parties: Parties, agreed: Agreed, tmp_path: Path
) -> None:
    rehearsed = with_others(*(other_try(agreed[1], n, TryKind.REHEARSAL) for n in (1, 2, 3)))
    bundle = deliver(agreed[1], tmp_path, edit=rehearsed, key=parties.key("seller"))
    outcome = call("accept", "check", agreed[0], bundle)
    assert outcome.exit_code == 2, outcome.stdout
    assert "1 of 2 used" in outcome.stdout and "3 rehearsals, not counted" in outcome.stdout
    verified = call("verify", bundle).stdout
    assert f"fresh: derived from attempt 1 of the contract {agreed[1].digest[:12]}" in verified


ATTEMPTS: list[tuple[str, int, tuple[int, ...], set[str]]] = [
    ("both are there", 2, (1,), set()),
    ("the first is left out", 2, (), {RefusalKind.LEFT_OUT}),
    ("the second is left out", 3, (1,), {RefusalKind.LEFT_OUT}),
    ("one more than allowed", 3, (1, 2), {RefusalKind.TOO_MANY}),
    ("the first is there twice", 2, (1, 1), {RefusalKind.TOO_MANY}),
    ("an older one than the last", 1, (2,), {RefusalKind.OLDER}),
]


@pytest.mark.parametrize(
    ("number", "others", "names"),
    [case[1:] for case in ATTEMPTS],
    ids=[case[0] for case in ATTEMPTS],
)
def test_attempts_are_counted(
    parties: Parties,
    agreed: Agreed,
    tmp_path: Path,
    number: int,
    others: tuple[int, ...],
    names: set[str],
) -> None:
    """A missing one shows in the number that the nonce of the others is derived from."""
    before = with_others(*(other_try(agreed[1], other) for other in others))
    bundle = deliver(agreed[1], tmp_path, number=number, edit=before, key=parties.key("seller"))
    assert refused(agreed[0], bundle) == names


def test_a_scenario_that_is_served_again_uses_an_attempt(parties: Parties, tmp_path: Path) -> None:
    """Else the best of many takes would be sold as the first."""
    contract = parties.write(tmp_path / "c.toml", attempts=1)

    def served_again(steps: list[LedgerStep]) -> list[LedgerStep]:
        return [
            replace(step, verdict="VALID") if step.verdict == "INVALID" else step for step in steps
        ]

    bundle = deliver(contract, tmp_path, edit=served_again, key=parties.key("seller"))
    assert refused(tmp_path / "c.toml", bundle) == {RefusalKind.TOO_MANY}


def test_runs_that_use_no_attempt_are_shown(
    parties: Parties, agreed: Agreed, tmp_path: Path
) -> None:
    """A seller may end a run that looks slow: its begin is in the ledger."""

    def ended(steps: list[LedgerStep]) -> list[LedgerStep]:
        return [step for step in steps if step.verdict != "INVALID"]

    for name, edit, words in (
        ("invalid", list, ", 1 INVALID run,"),
        ("ended", ended, ", 1 not ended,"),
    ):
        bundle = deliver(agreed[1], tmp_path / name, edit=edit, key=parties.key("seller"))
        told = call("accept", "check", agreed[0], bundle).stdout
        assert words in told, told


def test_bundles_received_before_must_be_continued(
    parties: Parties, agreed: Agreed, delivered: Path, tmp_path: Path
) -> None:
    """What was delivered before is an older bundle, or an attempt between them is left out."""
    rehearsed = with_others(other_try(agreed[1], 1, TryKind.REHEARSAL))
    forked = deliver(agreed[1], tmp_path / "1", edit=rehearsed, key=parties.key("seller"))
    assert refused(agreed[0], delivered, "--earlier", forked) == {RefusalKind.LEFT_OUT}
    assert refused(agreed[0], delivered, "--earlier", delivered) == set()

    def continued(steps: list[LedgerStep]) -> list[LedgerStep]:
        return [*steps, replace(steps[-1], utc="2023-11-14T23:10:00Z")]

    later = deliver(agreed[1], tmp_path / "2", edit=continued, key=parties.key("seller"))
    assert refused(agreed[0], later, "--earlier", delivered) == set()
    assert refused(agreed[0], delivered, "--earlier", later) == {RefusalKind.OLDER}
    (tmp_path / "cut.tar.zst").write_bytes(later.read_bytes()[:-1])
    outcome = call("accept", "check", agreed[0], delivered, "--earlier", tmp_path / "cut.tar.zst")
    assert outcome.exit_code == 2 and "--earlier" in str(outcome.exception)


def test_another_machine_is_refused(parties: Parties, tmp_path: Path) -> None:
    for machine, names in (
        ("host_processor_model_name=Example(R) 9000", set()),
        ("host_processor_model_name=Other 9000", {RefusalKind.OTHER_MACHINE}),
        ("accelerators_per_node=8", {RefusalKind.OTHER_MACHINE}),
    ):
        contract = parties.write(tmp_path / "c.toml", machine=machine)
        bundle = deliver(
            contract, tmp_path / str(len(names)) / machine[:8], key=parties.key("seller")
        )
        assert refused(tmp_path / "c.toml", bundle) == names, machine


def test_an_attempt_after_the_deadline_is_refused(parties: Parties, tmp_path: Path) -> None:
    """Of the contract, whose text says an earlier deadline than `accept new` accepts."""
    path = tmp_path / "c.toml"
    parties.write(path)
    path.write_text(path.read_text().replace("2099-01-01", "2023-11-01"))
    bundle = deliver(read_contract(path), tmp_path, key=parties.key("seller"))
    assert refused(path, bundle) == {RefusalKind.LATE}


def test_another_signer_is_refused(
    parties: Parties, agreed: Agreed, delivered: Path, tmp_path: Path
) -> None:
    for name in ("other", "buyer"):
        bundle = deliver(agreed[1], tmp_path / name, key=parties.key(name))
        assert refused(agreed[0], bundle) == {RefusalKind.OTHER_SIGNER}, name
    unsigned = deliver(agreed[1], tmp_path / "unsigned")
    assert refused(agreed[0], unsigned) == {RefusalKind.OTHER_SIGNER}


def test_the_signature_beside_the_contract_is_the_buyers(
    parties: Parties, agreed: Agreed, delivered: Path, tmp_path: Path
) -> None:
    path = Path(shutil.copy(agreed[0], tmp_path))
    parties.sign(path)
    told = call("accept", "check", path, delivered).stdout
    assert "signed by ops@buyer.example (contract.toml.sig)" in told
    parties.sign(path, "seller")
    assert refused(path, delivered) == {RefusalKind.UNSIGNED_CONTRACT}
    told = call("accept", "check", path, delivered).stdout
    assert "is not ops@buyer.example's signature" in told and "; signed by ops@" not in told
    signature = path.with_name("contract.toml.sig")
    signature.unlink()
    signature.mkdir()
    assert refused(path, delivered) == {RefusalKind.UNSIGNED_CONTRACT}


def test_another_task_and_other_runs_are_refused(parties: Parties, tmp_path: Path) -> None:
    """The result is of pictures of 32 pixels and of one run."""
    contract = parties.write(tmp_path / "1.toml", set="data.picture_size=64")
    bundle = deliver(contract, tmp_path / "1", key=parties.key("seller"))
    assert refused(tmp_path / "1.toml", bundle) == {RefusalKind.OTHER_TASK}
    contract = parties.write(tmp_path / "2.toml", runs=3)
    bundle = deliver(contract, tmp_path / "2", key=parties.key("seller"))
    assert refused(tmp_path / "2.toml", bundle) == {RefusalKind.OTHER_RUNS}


def test_a_bundle_of_another_scenario_is_refused(parties: Parties, tmp_path: Path) -> None:
    contract = parties.write(
        tmp_path / "c.toml", "samples_per_second >= 1 samples/s", scenario="offline"
    )
    bundle = deliver(contract, tmp_path, key=parties.key("seller"))
    assert refused(tmp_path / "c.toml", bundle) == {RefusalKind.NO_RESULT}


def test_a_contract_about_training(parties: Parties, tmp_path: Path) -> None:
    clauses = ("time_to_train <= 5 minutes", "top1 >= 0.86")
    contract = parties.write(tmp_path / "c.toml", *clauses, scenario="training")
    bundle = deliver(contract, tmp_path, key=parties.key("seller"))
    outcome = call("accept", "check", tmp_path / "c.toml", bundle)
    assert outcome.exit_code == 2, outcome.stdout
    assert "the worst of 1 trainings' last evaluations" in outcome.stdout


# every forgery of the ledger and of bundles that the judge's own tests have


@pytest.mark.parametrize("rule", ledger_examples.INVALID)
def test_every_forged_ledger_is_refused(agreed: Agreed, tmp_path: Path, rule: str) -> None:
    with campaign_of(agreed[1]):
        ledger_examples.INVALID[rule](tmp_path / "made")
    bundles = list((tmp_path / "made").glob("*.tar.zst"))
    bundle = bundles[0] if bundles else seal(tmp_path / "made", tmp_path / "x.tar.zst")
    names = refused(agreed[0], bundle)
    assert names & {RefusalKind.REJECTED, RefusalKind.EDITED}, names


def flip(data: bytes, place: int) -> bytes:
    """Change one bit."""
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize(
    "change",
    [
        *(lambda data, share=share: flip(data, int(share * len(data))) for share in (0, 0.3, 0.9)),
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data + b"\0",
        lambda data: data + data,
        lambda data: b"",
    ],
    ids=["first", "early", "late", "cut", "half", "longer", "twice", "empty"],
)
def test_every_edited_bundle_is_refused(
    agreed: Agreed, delivered: Path, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    bundle = tmp_path / "edited.tar.zst"
    bundle.write_bytes(change(delivered.read_bytes()))
    assert refused(agreed[0], bundle) & {RefusalKind.EDITED, RefusalKind.OTHER_SIGNER}


LEDGER_EDITS: dict[str, Edit] = {
    "a begin fewer": lambda steps: steps[1:],
    "another nonce": lambda steps: [replace(step, nonce="ab" * 32) for step in steps],
    "no random digits": lambda steps: [replace(steps[0], random=""), *steps[1:]],
    "an attempt's number": lambda steps: [
        replace(steps[0], challenge=f"{steps[0].challenge[:-1]}2"),
        *steps[1:],
    ],
    "a training that never began": lambda steps: [
        step
        for step in steps
        if not (step.step is StepKind.BEGIN and step.what == AttemptKind.TRAINING)
    ],
}


@pytest.mark.parametrize("name", LEDGER_EDITS)
def test_a_ledger_written_by_hand_is_refused(agreed: Agreed, tmp_path: Path, name: str) -> None:
    """Linked again as if podium had written it."""
    assert refused(agreed[0], deliver(agreed[1], tmp_path, edit=LEDGER_EDITS[name]))


def test_another_bundles_ledger_is_refused(agreed: Agreed, tmp_path: Path) -> None:
    """The ledger of the second attempt beside the results of the first."""
    deliver(agreed[1], tmp_path / "1")
    deliver(agreed[1], tmp_path / "2", number=2)
    ledger = "open/acme/ledger/resnet50.jsonl"
    shutil.copy(tmp_path / "2" / "tree" / ledger, tmp_path / "1" / "tree" / ledger)
    bundle = seal(tmp_path / "1" / "tree", tmp_path / "x.tar.zst")
    assert RefusalKind.REJECTED in refused(agreed[0], bundle)


# the page, and what is no bundle


def test_the_page_shows_what_was_checked(
    parties: Parties, agreed: Agreed, delivered: Path, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    outcome = call("accept", "check", agreed[0], delivered, "--page", page)
    assert outcome.exit_code == 2 and f"page: {page}" in outcome.stdout
    text = page.read_text()
    for shown in (
        agreed[1].digest,
        agreed[1].terms.nonce,
        "lab@seller.example",
        agreed[1].terms.buyer.key,
        "not shown",
        "ssh-keygen -Y sign -n podium-acceptance -f KEY page.html",
    ):
        assert shown in text, shown
    call("accept", "check", agreed[0], delivered, "--page", page)
    assert page.read_text() == text
    other = deliver(agreed[1], tmp_path, key=parties.key("other"))
    call("accept", "check", agreed[0], other, "--page", page)
    assert "Why the bundle is refused" in page.read_text()


def test_what_is_no_bundle_is_a_wrong_request(agreed: Agreed, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing.tar.zst"):
        outcome = call("accept", "check", agreed[0], path)
        assert outcome.exit_code == 2 and "no such bundle" in str(outcome.exception)
    (tmp_path / "x.tar.zst").write_bytes(b"PK\x03\x04")
    assert call("accept", "check", agreed[0], tmp_path / "x.tar.zst").exit_code == 2
    outcome = call("accept", "check", agreed[0], agreed[0], "--page", agreed[0])
    assert outcome.exit_code == 2 and "is one of the inputs" in str(outcome.exception)
