"""A real bundle that the judge accepts, keys made by ssh-keygen, and podium as a user calls it."""

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from submissions.pack.bundle import pack_results
from suite import registry
from suite.errors import PodiumError

EXAMPLE = Path(__file__).parents[1] / "examples" / "valid" / "checkpoint.record"

if shutil.which("ssh-keygen") is None:
    pytest.skip("ssh-keygen is not installed (Debian: openssh-client)", allow_module_level=True)


@dataclass(frozen=True, slots=True)
class Lab:
    """A folder with a key `lab` of bench@lab.example and a key `other`, and files of signers made
    of them.
    """

    folder: Path

    @property
    def key(self) -> Path:
        return self.folder / "lab"

    def public(self, name: str = "lab") -> str:
        return " ".join((self.folder / f"{name}.pub").read_text().split()[:2])

    def signers(
        self,
        options: str = 'namespaces="podium-bundle"',
        *,
        principal: str = "bench@lab.example",
        key: str = "lab",
    ) -> Path:
        file = self.folder / "allowed_signers"
        file.write_text(f"{principal} {options} {self.public(key)}\n")
        return file

    def key_with(self, *arguments: str, name: str) -> Path:
        subprocess.run(
            ["ssh-keygen", "-q", "-f", str(self.folder / name), *arguments],
            check=True,
            stdin=subprocess.DEVNULL,
        )
        return self.folder / name


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    made = Lab(tmp_path_factory.mktemp("lab"))
    for name in ("lab", "other"):
        made.key_with("-t", "ed25519", "-N", "", name=name)
    return made


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packed once; the judge's own example."""
    return pack_results(EXAMPLE, tmp_path_factory.mktemp("packed") / "mine.tar.zst")


@pytest.fixture
def bundle(packed: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copy(packed, tmp_path / "mine.tar.zst"))


@pytest.fixture
def podium() -> Callable[..., Result]:
    """Call a command; its exit code is that of the process, its errors are the sentence of a
    PodiumError.
    """

    def call(name: str, *arguments: object) -> Result:
        outcome = CliRunner().invoke(
            registry.load_entry_point(registry.COMMAND_GROUP, "command", name),
            [str(each) for each in arguments],
            standalone_mode=False,
        )
        if isinstance(outcome.exception, PodiumError):
            outcome.exit_code = outcome.exception.exit_code
        elif outcome.exception is not None:
            raise outcome.exception
        else:
            outcome.exit_code = int(outcome.return_value or 0)
        return outcome

    return call


@pytest.fixture
def signed(bundle: Path, lab: Lab, podium: Callable[..., Result]) -> Path:
    """The bundle, signed by bench@lab.example."""
    assert podium("sign", bundle, "--key", lab.key, "--as", "bench@lab.example").exit_code == 0
    return bundle


@pytest.fixture
def without_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Sequence[str]], None]:
    """Make a machine on which some programs are not installed."""

    def hide(names: Sequence[str]) -> None:
        found = [
            path
            for folder in os.environ["PATH"].split(os.pathsep)
            for path in Path(folder).glob("*")
            if path.name not in names
        ]
        (tmp_path / "bin").mkdir()
        for path in found:
            if not (tmp_path / "bin" / path.name).exists():
                (tmp_path / "bin" / path.name).symlink_to(path)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    return hide
