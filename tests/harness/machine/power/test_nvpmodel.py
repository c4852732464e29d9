"""The power mode of a Jetson is part of its name: a board in two modes is two systems."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.machine.power import nvpmodel
from harness.machine.system_description import build_system_name


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """The mode is asked for once per process."""
    nvpmodel.read_power_mode.cache_clear()
    yield
    nvpmodel.read_power_mode.cache_clear()


def program(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An nvpmodel that is the only one on the path."""
    path = folder / "nvpmodel"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


@pytest.mark.parametrize(
    ("told", "mode"),
    [
        ("NV Power Mode: MAXN\\n0", "MAXN"),
        ("NVPM WARN: fan mode is not set!\\nNV Power Mode: MAXQ\\n1", "MAXQ"),
        ("NV Power Mode: MODE_30W\\n2", "MODE_30W"),
    ],
)
def test_the_mode_is_read_and_names_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, mode: str
) -> None:
    """Forms that boards print."""
    program(tmp_path, f'[ "$1" = -q ] && printf "{told}\\n"', monkeypatch)
    assert nvpmodel.read_power_mode() == mode
    assert build_system_name("cpu").endswith(mode.lower())


@pytest.mark.parametrize("body", ["echo no mode", "exit 1", "printf '\\377\\376'"])
def test_a_program_that_does_not_tell_gives_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    """Needs root, is broken, or prints something else: nothing is invented."""
    program(tmp_path, body, monkeypatch)
    assert nvpmodel.read_power_mode() is None


def test_other_machines_have_no_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names stay as they are."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvpmodel.read_power_mode() is None
