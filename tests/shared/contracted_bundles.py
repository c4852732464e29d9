"""Contracts between a buyer and a seller with keys of their own, and bundles of small results that
the judge accepts, delivered for them.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from submissions.accept.contract import AcceptanceContract, read_contract
from submissions.pack import bundle as package
from submissions.pack.bundle import pack_results
from submissions.signatures.signing import sign_bundle
from suite.cli import group
from suite.errors import PodiumError
from suite.ledger.contract_challenge import TryChallenge, TryKind, format_try_challenge
from suite.ledger.steps import LedgerStep, compute_campaign_nonce
from suite.loadgen.scenario import Scenario

BUILDERS = str(Path(__file__).resolve().parents[1] / "compliance" / "builders")
sys.path.insert(0, BUILDERS)

import ledgers  # noqa: E402 - from that folder
import making  # noqa: E402
import making_llama  # noqa: E402, F401 - for the tests of tokens
import tampering  # noqa: E402, F401 - for the tests of forgeries

sys.path.remove(BUILDERS)

if shutil.which("ssh-keygen") is None:
    pytest.skip("ssh-keygen is not installed (Debian: openssh-client)", allow_module_level=True)

TERMS = {
    "workload": "resnet50",
    "scenario": "single-stream",
    "runs": 1,
    "attempts": 2,
    "deadline": "2099-01-01T00:00:00Z",
}
CLAUSES = ("top1 >= 0.8", "latency_p90 <= 20 ms")
Edit = Callable[[list[LedgerStep]], Sequence[LedgerStep]]


@dataclass(frozen=True, slots=True)
class Parties:
    """A folder with keys of buyer, seller and somebody else."""

    folder: Path

    def key(self, name: str) -> Path:
        return self.folder / name

    def write(self, path: Path, *clauses: str, **terms: object) -> AcceptanceContract:
        """Write a contract as `podium accept new` does."""
        words = [f"--{name.replace('_', '-')}={value}" for name, value in (TERMS | terms).items()]
        bounds = [word for clause in clauses or CLAUSES for word in ("--bound", clause)]
        call(
            *("accept", "new", path, "--force", *words, *bounds),
            *("--buyer", "ops@buyer.example", "--buyer-key", self.key("buyer.pub")),
            *("--seller", "lab@seller.example", "--seller-key", self.key("seller.pub")),
        )
        return read_contract(path)

    def sign(self, contract: Path, name: str = "buyer") -> Path:
        """Sign a contract's file."""
        signature = contract.with_name(f"{contract.name}.sig")
        signature.unlink(missing_ok=True)
        words = ["-Y", "sign", "-q", "-n", "podium-contract", "-f", str(self.key(name))]
        subprocess.run(["ssh-keygen", *words, str(contract)], check=True, capture_output=True)
        return signature


def call(*words: object) -> Result:
    """Call podium; its exit code is that of the process."""
    outcome = CliRunner().invoke(group, [str(word) for word in words], standalone_mode=False)
    if isinstance(outcome.exception, PodiumError):
        outcome.exit_code = outcome.exception.exit_code
    elif outcome.exception is not None:
        raise outcome.exception
    else:
        outcome.exit_code = int(outcome.return_value or 0)
    return outcome


@pytest.fixture(scope="session")
def parties(tmp_path_factory: pytest.TempPathFactory) -> Parties:
    folder = tmp_path_factory.mktemp("parties")
    for name in ("buyer", "seller", "other"):
        words = ["-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(["ssh-keygen", *words], check=True, stdin=subprocess.DEVNULL)
    return Parties(folder)


@contextmanager
def campaign_of(
    contract: AcceptanceContract, number: int = 1, kind: TryKind = TryKind.ATTEMPT
) -> Iterator[TryChallenge]:
    """Let what the builders make be of an attempt of a contract."""
    found = TryChallenge(digest=contract.digest, kind=kind, number=number)
    digits = format_try_challenge(found)
    original = ledgers.steps_of

    def challenged(root: Path) -> list[LedgerStep]:
        first, *others = original(root)
        return [replace(first, challenge=digits, random=ledgers.RANDOM), *others]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(making, "NONCE", compute_campaign_nonce(digits, ledgers.RANDOM))
        patched.setattr(ledgers, "steps_of", challenged)
        yield found


def deliver(
    contract: AcceptanceContract,
    folder: Path,
    *,
    number: int = 1,
    kind: TryKind = TryKind.ATTEMPT,
    edit: Edit = list,
    key: Path | None = None,
    scenario: Scenario = Scenario.SINGLE_STREAM,
    subject: making.Subject = making.RESNET50,
) -> Path:
    """Make the bundle of an attempt, with a ledger that was changed before it was linked."""
    with campaign_of(contract, number, kind):
        made = making.write_tree(folder / "tree", scenario, subject=subject)
        tree = ledgers.keep(made, edit)
    bundle = seal(tree, folder / "mine.tar.zst")
    if key is not None:
        sign_bundle(bundle, key, "lab@seller.example", detached=False)
    return bundle


def seal(tree: Path, bundle: Path) -> Path:
    """Pack a tree past the check that `pack` ends with."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(package, "list_packed_bundle_problems", lambda *_: [])
        return pack_results(tree, bundle)


def other_try(
    contract: AcceptanceContract, number: int, kind: TryKind = TryKind.ATTEMPT
) -> LedgerStep:
    """The begin of an attempt whose results are not there, and that ended without any."""
    digits = format_try_challenge(TryChallenge(digest=contract.digest, kind=kind, number=number))
    random = f"{number + 16:02x}" * 32
    return ledgers.step(
        ledgers.StepKind.BEGIN,
        utc="2023-11-14T22:00:00Z",
        nonce=compute_campaign_nonce(digits, random),
        what=ledgers.AttemptKind.TRAINING,
        of="open/acme/results/box-torch-bf16/resnet",
        options={"runs": 1},
        challenge=digits,
        random=random,
        system="5c" * 32,
    )


def with_others(*begins: LedgerStep) -> Edit:
    """A ledger that has other attempts before this one, each of which was aborted."""

    def edit(steps: list[LedgerStep]) -> list[LedgerStep]:
        earlier = [
            each
            for begin in begins
            for each in (
                begin,
                ledgers.step(
                    ledgers.StepKind.ABORTED,
                    utc=begin.utc,
                    nonce=begin.nonce,
                    what=begin.what,
                    of=begin.of,
                ),
            )
        ]
        moved = [
            step if step.made is None else replace(step, made=step.made + len(earlier))
            for step in steps
        ]
        return [*earlier, *moved]

    return edit
