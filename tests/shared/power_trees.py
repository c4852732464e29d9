"""Made-up trees of the kernel's files, and what power sources find there."""

from pathlib import Path
from typing import Any

from suite.power import Channel


def write(root: Path, **files: object) -> None:
    for name, value in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")


def channels_of(source: Any, root: Path) -> dict[str, Channel]:
    found = source.probe(root)
    assert not isinstance(found, str), found
    return {channel.name: channel for channel in found}
