"""Every forgery of bundles and of results that podium's other tests have, delivered for a contract
by its seller: none passes, and what the judge only warns of is shown.
"""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from contracted_bundles import Parties, call, campaign_of, ledgers, making, seal, tampering
from forged_bundles import list_forgeries

from submissions.accept.contract import AcceptanceContract, read_contract
from submissions.accept.refusals import RefusalKind
from suite.errors import PodiumError

BENCHMARKS = str(Path(__file__).resolve().parents[3] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
from forged_runs.edits import LEFT_OUT, STATED_TWICE, TIMES, Forgery  # noqa: E402
from forged_runs.tree import ForgedTree, Inapplicable  # noqa: E402

sys.path.remove(BENCHMARKS)  # its openai.py would be taken for the package

Agreed = tuple[Path, AcceptanceContract]
FORGED_BYTES = list_forgeries()
del FORGED_BYTES["no bundle: zip"]  # every command asks to unpack it
WARNED = {"Z01", "Z02", "A14", "B12", "B18"}
"""What two documents state differently, and what the judge only warns of."""
REJECTED = {"B11", "D07", "D08", "D09", "D10"}
NOT_THERE = {"A09", "A10", "A12", "U04"}
"""What needs an engine that states what it built, or a compliance test."""


def check(contract: Path, bundle: Path) -> dict[str, object]:
    """The answer of a check, whose exit code is the one that it states."""
    outcome = call("accept", "check", contract, bundle, "--format", "json")
    told: dict[str, object] = json.loads(outcome.stdout)
    assert outcome.exit_code == told["code"]
    return told


def refused(contract: Path, bundle: Path) -> set[str]:
    """The names of what a check refuses."""
    told = check(contract, bundle)
    assert told["code"] == 4 and told["clauses"] == [], told
    return {each["name"] for each in told["refusals"]}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", FORGED_BYTES)
def test_every_forged_bundle_is_refused(
    agreed: Agreed, delivered: Path, tmp_path: Path, name: str
) -> None:
    """By its bytes alone: signatures are not needed for it."""
    bundle = Path(shutil.copy(delivered, tmp_path / "forged.tar.zst"))
    FORGED_BYTES[name](bundle)
    assert refused(agreed[0], bundle) == {RefusalKind.EDITED}


@pytest.fixture(scope="module")
def attempted(agreed: Agreed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a contract's attempt, as the seller has them."""
    with campaign_of(agreed[1]):
        return ledgers.keep(making.write_tree(tmp_path_factory.mktemp("attempted") / "tree"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "change"),
    [case[1:3] for case in tampering.TAMPERED],
    ids=[case[0] for case in tampering.TAMPERED],
)
def test_what_was_tampered_with_is_refused(
    agreed: Agreed,
    attempted: Path,
    tmp_path: Path,
    pattern: str,
    change: Callable[[Path], object],
) -> None:
    """With a ledger that is linked again, and hashes computed again."""
    tree = Path(shutil.copytree(attempted, tmp_path / "tree"))
    with campaign_of(agreed[1]):
        change(tampering.find_one(tree, pattern))
    try:
        if list(tree.glob(ledgers.LEDGER)):
            ForgedTree(tree).relink()
        bundle = seal(tree, tmp_path / "x.tar.zst")
    except (PodiumError, OSError):
        return  # nobody can pack it
    assert RefusalKind.REJECTED in refused(agreed[0], bundle)


@pytest.fixture(scope="module")
def served(parties: Parties, tmp_path_factory: pytest.TempPathFactory) -> Agreed:
    """A contract about Server, whose attempt has all records."""
    return write_served(parties, tmp_path_factory.mktemp("served") / "contract.toml")


def write_served(parties: Parties, path: Path, **terms: object) -> Agreed:
    """A contract about Server that names no key of the seller's."""
    parties.write(path, "completed_samples_per_second >= 1 samples/s", scenario="server", **terms)
    before, seller, after = path.read_text().partition("[seller]")
    path.write_text(before + seller + re.sub(r"\nkey = .*", "", after, count=1))
    return path, read_contract(path)


@pytest.fixture(scope="module")
def recorded(served: Agreed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of that attempt."""
    return record(served[1], tmp_path_factory.mktemp("recorded") / "tree")


def record(contract: AcceptanceContract, folder: Path) -> Path:
    """The results of an attempt with all records, whose ledger states what was requested."""
    with campaign_of(contract):
        tree = ledgers.recorded_tree(folder)
        return ledgers.keep(tree, ledgers.requested(tree))


def forge(recorded: Path, forgery: Forgery, folder: Path) -> Path | None:
    """Forge the results in the largest size, and seal them; None if there is nothing to edit."""
    tree = ForgedTree(Path(shutil.copytree(recorded, folder / "tree")))
    try:
        forgery.variants[0][1](tree)
        if tree.is_relinked:
            tree.relink()
    except Inapplicable:
        return None
    return seal(tree.root, folder / "forged.tar.zst")


def test_the_recorded_attempt_is_no_forgery(served: Agreed, recorded: Path, tmp_path: Path) -> None:
    told = check(served[0], seal(recorded, tmp_path / "x.tar.zst"))
    assert told["refusals"] == []
    assert "warnings" not in told["evidence"]  # type: ignore[operator]


@pytest.mark.parametrize("forgery", (*TIMES, *LEFT_OUT), ids=lambda forgery: forgery.id)
def test_what_is_left_out_or_squeezed_is_refused(
    served: Agreed, recorded: Path, tmp_path: Path, forgery: Forgery
) -> None:
    if bundle := forge(recorded, forgery, tmp_path):
        assert refused(served[0], bundle) & {RefusalKind.REJECTED, RefusalKind.OTHER_CONTRACT}


@pytest.mark.parametrize("forgery", STATED_TWICE, ids=lambda forgery: forgery.id)
def test_what_two_documents_state_differently_is_refused_or_shown(
    served: Agreed, recorded: Path, tmp_path: Path, forgery: Forgery
) -> None:
    bundle = forge(recorded, forgery, tmp_path)
    assert (bundle is None) == (forgery.id in NOT_THERE)
    if bundle is None:
        return
    told = check(served[0], bundle)
    assert (forgery.id in REJECTED) == (told["code"] == 4), told
    assert (forgery.id in WARNED) == ("warnings" in told["evidence"]), told  # type: ignore[operator]
    assert forgery.id in REJECTED | WARNED


def test_telemetry_of_another_machine_is_refused_where_the_contract_names_one(
    parties: Parties, tmp_path: Path
) -> None:
    """Else it is shown as a warning."""
    path, contract = write_served(
        parties, tmp_path / "contract.toml", machine="host_processor_core_count=2"
    )
    recorded = record(contract, tmp_path / "recorded")
    assert check(path, seal(recorded, tmp_path / "x.tar.zst"))["refusals"] == []
    for forgery in (each for each in STATED_TWICE if each.id in ("Z01", "Z02")):
        bundle = forge(recorded, forgery, tmp_path / forgery.id)
        assert bundle and refused(path, bundle) == {RefusalKind.OTHER_MACHINE}, forgery.id
