"""The limits of a container, as the kernel writes them down."""

import math
from pathlib import Path

import pytest

from harness.machine import container_limits
from harness.machine.container_limits import measure_allowed_cores, measure_allowed_memory_mib
from suite.units import GIB

VERSION_2 = {
    "memory.max": str(16 * GIB),
    "memory.current": str(6 * GIB),
    "memory.stat": f"anon {2 * GIB}\ninactive_file {4 * GIB}\n",
    "cpu.max": "400000 100000",
}
VERSION_1 = {
    "memory/memory.limit_in_bytes": str(16 * GIB),
    "memory/memory.usage_in_bytes": str(6 * GIB),
    "memory/memory.stat": f"inactive_file 0\ntotal_inactive_file {4 * GIB}\n",
    "cpu/cpu.cfs_quota_us": "400000",
    "cpu/cpu.cfs_period_us": "100000",
}
NO_LIMITS = {
    "memory.max": "max",
    "memory.current": "5",
    "cpu.max": "max 100000",
    "cpu/cpu.cfs_quota_us": "-1",
    "cpu/cpu.cfs_period_us": "100000",
}
BOTH_VERSIONS = "5:cpu,cpuacct:/\n4:memory:/{group}\n0::/{group}\n"


def write_group(
    folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], group: str, below: str
) -> None:
    for name, text in files.items():
        path = folder / below / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    own = folder / "own"
    own.write_text(BOTH_VERSIONS.format(group=group))
    monkeypatch.setattr(container_limits, "OWN_GROUPS", own)
    monkeypatch.setattr(container_limits, "GROUP_ROOT", folder)


@pytest.mark.parametrize(
    ("files", "group", "below"),
    [
        (VERSION_2, "", ""),
        (VERSION_2, "pod/container", "pod/container"),
        (VERSION_2, "pod/container", "pod"),
        (VERSION_2, "../..", ""),
        (VERSION_1, "docker/0123", ""),
    ],
)
def test_a_limit_holds_less_what_is_taken(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    group: str,
    below: str,
) -> None:
    """Of either version, of the own group or one above it, and where the group's name is the
    host's. Files that were read are given up when memory is asked for.
    """
    write_group(tmp_path, monkeypatch, files, group, below)
    assert measure_allowed_memory_mib() == 14 * 1024
    assert measure_allowed_cores() == 4.0


@pytest.mark.parametrize("files", [NO_LIMITS, {}, {"memory.max": "?", "cpu.max": ""}])
def test_nothing_limits_a_process_without_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    """Nor one whose groups cannot be read."""
    write_group(tmp_path, monkeypatch, files, "", "")
    assert measure_allowed_memory_mib() == measure_allowed_cores() == math.inf
    monkeypatch.setattr(container_limits, "OWN_GROUPS", tmp_path / "missing")
    assert measure_allowed_memory_mib() == measure_allowed_cores() == math.inf
