"""`podium accept run`: which attempt or rehearsal it begins or goes on with, and what it passes to
the campaign. Real campaigns run in tests/end_to_end/test_accept.py.
"""

import shutil
from pathlib import Path
from typing import Any

import ledgers
import pytest
from contracted_bundles import Parties, call, other_try

from submissions.accept import run as contract_run
from submissions.accept.contract import AcceptanceContract
from submissions.campaign.state import CampaignStage, locate_campaign_state
from suite.files.json_files import write_json
from suite.ledger.contract_challenge import TryChallenge, TryKind, format_try_challenge
from suite.terms import Profile

Agreed = tuple[Path, AcceptanceContract]


class Campaigns:
    """Stands for `podium run`, and remembers what it was told."""

    def __init__(self, bundle: Path) -> None:
        self.bundle = bundle
        self.told: list[dict[str, Any]] = []

    def __call__(self, name: str, options: Any, **given: Any) -> list[Path]:
        self.told.append({"name": name, "options": options, **given})
        return [self.bundle]


@pytest.fixture
def campaigns(monkeypatch: pytest.MonkeyPatch, delivered: Path, tmp_path: Path) -> Campaigns:
    made = Campaigns(Path(shutil.copy(delivered, tmp_path)))
    monkeypatch.setattr(contract_run, "run_campaigns", made)
    return made


def remember(results: Path, contract: AcceptanceContract, *tries: tuple[TryKind, int]) -> None:
    """Leave a ledger with tries that began."""
    path = results / ledgers.LEDGER
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(ledgers.chained([other_try(contract, number, kind) for kind, number in tries]))


def keep_state(
    results: Path, contract: AcceptanceContract, kind: TryKind, number: int, stage: CampaignStage
) -> None:
    """Leave the state of a campaign."""
    digits = format_try_challenge(TryChallenge(digest=contract.digest, kind=kind, number=number))
    path = locate_campaign_state(results, "resnet50")
    path.parent.mkdir(parents=True, exist_ok=True)
    asked = {"training": {"challenge": digits}, "serving": {}}
    write_json(path, {"asked": asked, "stage": stage.value, "earlier": []})


def run(agreed: Agreed, results: Path, *words: object) -> Any:
    return call("accept", "run", agreed[0], "--results", results, *words)


def test_the_campaign_has_the_contracts_terms(
    agreed: Agreed, parties: Parties, campaigns: Campaigns, tmp_path: Path
) -> None:
    outcome = run(agreed, tmp_path / "r", "--key", parties.key("seller"), "--engine", "torch")
    assert outcome.exit_code == 2, outcome.stdout
    (told,) = campaigns.told
    assert told["name"] == "resnet50" and told["options"].profile is Profile.SMOKE
    assert (told["seed"], told["runs"], told["serving_runs"]) == (None, None, 1)
    assert told["challenge"] == f"{agreed[1].digest}01000001"
    assert told["options"].engine == "torch"
    assert "clauses: 1 met, 1 not shown" in outcome.stdout


def test_settings_of_the_contract_are_passed_on(
    parties: Parties, campaigns: Campaigns, tmp_path: Path
) -> None:
    path = tmp_path / "c.toml"
    parties.write(path, "top1 >= 0.1", scenario="training", runs=3, set="data.skip_broken=true")
    call("accept", "run", path, "--rehearse", "--set", "data.workers=2", "--results", tmp_path)
    (told,) = campaigns.told
    assert told["options"].assignments == ("data.skip_broken=true", "data.workers=2")
    assert (told["runs"], told["serving_runs"]) == (3, 3)
    assert told["challenge"].endswith("00000001")


def test_a_rehearsal_uses_no_attempt(agreed: Agreed, campaigns: Campaigns, tmp_path: Path) -> None:
    remember(
        tmp_path, agreed[1], (TryKind.ATTEMPT, 1), (TryKind.ATTEMPT, 2), (TryKind.REHEARSAL, 1)
    )
    run(agreed, tmp_path, "--rehearse")
    assert campaigns.told[0]["challenge"].endswith("00000002")


CASES: list[tuple[str, list[tuple[TryKind, int]], tuple[int, CampaignStage] | None, bool, str]] = [
    ("the first", [], None, False, "1"),
    ("resumed", [(TryKind.ATTEMPT, 1)], (1, CampaignStage.RUNNING), False, "1"),
    ("resumed in spite of --again", [(TryKind.ATTEMPT, 1)], (1, CampaignStage.RUNNING), True, "1"),
    ("shown again", [(TryKind.ATTEMPT, 1)], (1, CampaignStage.FINISHED), False, "1"),
    ("the next", [(TryKind.ATTEMPT, 1)], (1, CampaignStage.FINISHED), True, "2"),
    ("the next after a miss", [(TryKind.ATTEMPT, 1)], (1, CampaignStage.MISSED), True, "2"),
    (
        "not after a miss alone",
        [(TryKind.ATTEMPT, 1)],
        (1, CampaignStage.MISSED),
        False,
        "attempt 1 of 2 is over; --again begins attempt 2, which counts",
    ),
    (
        "not where the state is gone",
        [(TryKind.ATTEMPT, 1)],
        None,
        False,
        "attempt 1 of 2 is over; --again begins attempt 2, which counts",
    ),
    (
        "none is left",
        [(TryKind.ATTEMPT, 1), (TryKind.ATTEMPT, 2)],
        (2, CampaignStage.FINISHED),
        True,
        "2 of 2 attempts are used; none is left",
    ),
]


@pytest.mark.parametrize(
    ("tries", "state", "again", "told"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_which_attempt_is_run(
    agreed: Agreed,
    parties: Parties,
    campaigns: Campaigns,
    tmp_path: Path,
    tries: list[tuple[TryKind, int]],
    state: tuple[int, CampaignStage] | None,
    again: bool,
    told: str,
) -> None:
    if tries:
        remember(tmp_path, agreed[1], *tries)
    if state:
        keep_state(tmp_path, agreed[1], TryKind.ATTEMPT, *state)
    words = ("--again",) if again else ()
    outcome = run(agreed, tmp_path, "--key", parties.key("seller"), *words)
    if told.isdecimal():
        assert campaigns.told[0]["challenge"].endswith(f"01{int(told):06x}")
    else:
        assert outcome.exit_code == 2 and told in str(outcome.exception)
        assert not campaigns.told


def test_nothing_is_run_that_cannot_be_delivered(
    agreed: Agreed, parties: Parties, campaigns: Campaigns, tmp_path: Path
) -> None:
    """Without the key that must sign, with a contract that the buyer did not sign, and late."""
    outcome = run(agreed, tmp_path)
    assert outcome.exit_code == 2 and "give --key FILE, or --rehearse" in str(outcome.exception)
    outcome = run(agreed, tmp_path, "--key", tmp_path / "none")
    assert outcome.exit_code == 2 and "no such key file" in str(outcome.exception)
    path = Path(shutil.copy(agreed[0], tmp_path))
    parties.sign(path, "other")
    outcome = call("accept", "run", path, "--rehearse", "--results", tmp_path)
    assert outcome.exit_code == 2 and "is not ops@buyer.example's signature" in str(
        outcome.exception
    )
    path.with_name("contract.toml.sig").unlink()
    path.write_text(path.read_text().replace("2099-", "2023-"))
    outcome = call("accept", "run", path, "--rehearse", "--results", tmp_path)
    assert outcome.exit_code == 2 and "2023-01-01 00:00:00 UTC has passed" in str(outcome.exception)
    assert not campaigns.told
