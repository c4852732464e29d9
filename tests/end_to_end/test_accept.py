"""A contract about the fake workload, from the buyer's file to the buyer's verdict, between two
folders that share nothing but the files that are sent.
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

Podium = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.slow


def make_key(folder: Path) -> Path:
    """Make a key of one side."""
    folder.mkdir()
    key = folder / "key"
    words = ["-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(["ssh-keygen", *words], check=True, stdin=subprocess.DEVNULL)
    return key


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
@pytest.mark.timeout(1200)
def test_a_contract_is_rehearsed_run_twice_and_checked(
    podium: Podium, fake: Sequence[str], tmp_path: Path
) -> None:
    buyer, seller = tmp_path / "buyer", tmp_path / "seller"
    keys = [make_key(buyer), make_key(seller)]
    written = podium(
        *("accept", "new", buyer / "c.toml", "--workload", "fake", "--attempts", 2),
        *("--buyer", "ops@buyer.example", "--buyer-key", f"{keys[0]}.pub"),
        *("--seller", "lab@seller.example", "--seller-key", f"{keys[1]}.pub"),
        *("--bound", "samples_per_second >= 1 samples/s", "--bound", "top1 >= 0.5"),
        *("--set", "fake.sleep_ms=0.3"),
    )
    assert written.returncode == 0, written.stderr
    shutil.copy(buyer / "c.toml", seller)
    run = ("accept", "run", seller / "c.toml", *fake, "--results", seller / "results")
    bundles = [
        deliver(podium, buyer / f"{number}.tar.zst", seller, *run, *words)
        for number, words in enumerate(
            (["--rehearse"], ["--key", keys[1]], ["--key", keys[1], "--again"])
        )
    ]
    third = podium(*run, "--key", keys[1], "--again")
    assert third.returncode == 2 and "2 of 2 attempts are used" in third.stderr
    shutil.rmtree(seller)
    codes, told = zip(*(check(podium, buyer, bundle) for bundle in bundles), strict=True)
    assert codes == (4, 0, 0)
    assert {each["name"] for each in told[0]["refusals"]} == {"rehearsal", "another signer"}
    assert "2 of 2 used" in told[2]["evidence"]["attempts"]
    assert "1 rehearsal, not counted" in told[2]["evidence"]["attempts"]
    assert [each["state"] for each in told[2]["clauses"]] == ["met", "met"]
    assert check(podium, buyer, bundles[2], "--earlier", bundles[1])[0] == 0
    code, answer = check(podium, buyer, bundles[1], "--earlier", bundles[2])
    assert (code, answer["conclusion"]) == (4, "refused: older bundle")


def deliver(podium: Podium, target: Path, seller: Path, *words: object) -> Path:
    """Run a rehearsal or an attempt, and send its bundle."""
    outcome = podium(*words)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    (bundle,) = seller.glob("results/bundles/*.tar.zst")
    return Path(shutil.copy(bundle, target))


def check(podium: Podium, buyer: Path, bundle: Path, *words: object) -> tuple[int, dict[str, Any]]:
    """Check a bundle on the buyer's side."""
    outcome = podium("accept", "check", buyer / "c.toml", bundle, "--format", "json", *words)
    return outcome.returncode, json.loads(outcome.stdout)
