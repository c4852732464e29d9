"""A hint on what to install is a command that works where it is read."""

import json
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from suite.process import installation

CLONE = Path(installation.__file__).parents[2]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Where podium comes from is looked up once a process."""
    installation.read_install_record.cache_clear()
    yield
    installation.read_install_record.cache_clear()


class Installed:
    """A distribution with that record of its origin."""

    def __init__(self, **record: object) -> None:
        self.text = json.dumps(record) if record else None

    def read_text(self, name: str) -> str | None:
        return self.text if name == "direct_url.json" else None


@pytest.mark.parametrize("editable", [False, True])
def test_from_a_clone_it_is_the_clone_that_is_installed_with_its_pins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, editable: bool
) -> None:
    """`podium-suite[run]` is on no index that a newcomer has, and zsh takes brackets for a
    pattern. An editable installation stays one.
    """
    record = {"url": CLONE.as_uri(), "dir_info": {"editable": True} if editable else {}}
    monkeypatch.setattr(installation, "distribution", lambda name: Installed(**record))
    monkeypatch.chdir(CLONE)
    edit = ["-e"] if editable else []
    assert installation.format_install_command("run") == " ".join(
        ["pip install -c constraints.txt", *edit, "'.[run]'"]
    )
    monkeypatch.chdir(tmp_path)
    assert shlex.split(installation.format_install_command("run", "onnx")) == [
        "pip",
        "install",
        "-c",
        str(CLONE / "constraints.txt"),
        *edit,
        f"{CLONE}[run,onnx]",
    ]


@pytest.mark.parametrize(
    ("record", "wanted"),
    [
        ({}, "pip install 'podium-suite[onnx]'"),
        (
            {"url": "https://example.org/podium.git", "vcs_info": {"vcs": "git", "commit_id": "0"}},
            "pip install 'podium-suite[onnx] @ git+https://example.org/podium.git'",
        ),
        (
            {"url": "file:///gone/podium.whl", "archive_info": {}},
            "pip install 'podium-suite[onnx] @ file:///gone/podium.whl'",
        ),
    ],
)
def test_elsewhere_it_is_where_podium_came_from(
    record: dict[str, object], wanted: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From an address by that address; from an index by the name."""
    monkeypatch.setattr(installation, "distribution", lambda name: Installed(**record))
    monkeypatch.setattr(
        installation, "__file__", str(tmp_path / "site-packages/suite/process/installation.py")
    )
    assert installation.format_install_command("onnx") == wanted


def test_a_module_that_a_package_lacks_is_brought_by_no_extra() -> None:
    """`podium_moons.training is not installed: pip install podium-suite[run]` sends its author the
    wrong way.
    """
    assert "missing from package json" in installation.describe_missing_module("json.no_such_part")
    assert installation.describe_missing_module("no_such_package.part").startswith(
        "no_such_package.part is not installed: pip install "
    )


def test_what_is_pinned_installs_on_the_oldest_python() -> None:
    """A pin that asks for 3.11.5 kept Debian 12, which has 3.11.2, from building the
    documentation.
    """
    oldest = (
        tomllib.loads((CLONE / "pyproject.toml").read_text())["project"][
            "requires-python"
        ].removeprefix(">=")
        + ".0"
    )
    asked = {}
    for name in (
        line.partition("==")[0] for line in (CLONE / "constraints.txt").read_text().splitlines()
    ):
        with suppress(PackageNotFoundError):
            asked[name] = metadata(name)["Requires-Python"] or ""
    assert (
        len(asked) > 20
        and {
            name: versions
            for name, versions in asked.items()
            if not SpecifierSet(versions).contains(oldest)
        }
        == {}
    )
