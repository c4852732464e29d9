"""Install commands for an extra, matching how podium itself was installed: from a clone, a URL or
an index.
"""

import json
import shlex
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

DISTRIBUTION_NAME: Final = "podium-suite"
RUN_EXTRA: Final = "run"
"""The extra for training and serving."""
INSTALL_PREFIX: Final = "pip install "
"""Prefix of every install command in a message; `podium doctor` uses it to recognise what an
installation fixes.
"""
PINS_FILE: Final = "constraints.txt"


def format_install_command(*extras: str) -> str:
    """Return the command that installs extras, into an editable installation as editable; quoted,
    since brackets are special to a shell.
    """
    clone, wanted = find_source_folder(), ",".join(extras)
    if clone is None:
        address = read_install_origin()
        return INSTALL_PREFIX + shlex.quote(
            f"{DISTRIBUTION_NAME}[{wanted}]" + (f" @ {address}" if address else "")
        )
    here = Path() if clone == Path.cwd() else clone
    pins = ""
    if (clone / PINS_FILE).is_file():
        pins = f"-c {shlex.quote(str(here / PINS_FILE))} "
    edit = "-e " if is_installation_editable() else ""
    return f"{INSTALL_PREFIX}{pins}{edit}{shlex.quote(f'{here}[{wanted}]')}"


def describe_missing_module(module: str) -> str:
    """Return advice for a module that cannot be imported; if its package is present, installing
    does not help.
    """
    top = module.partition(".")[0]
    if top != module and find_spec(top) is not None:
        return (
            f"module {module} is missing from package {top}, which is broken or of another version"
        )
    return f"{module} is not installed: {format_install_command(RUN_EXTRA)}"


@cache
def read_install_record() -> Mapping[str, Any]:
    """Return the record of where podium was installed from (PEP 610); empty if it came from an
    index, or was not installed.
    """
    try:
        text = distribution(DISTRIBUTION_NAME).read_text("direct_url.json")
    except PackageNotFoundError:
        return {}
    return dict(json.loads(text)) if text else {}


def is_installation_editable() -> bool:
    """Return whether podium runs from its clone: an installation over it would be of a copy."""
    return bool(read_install_record().get("dir_info", {}).get("editable"))


def read_install_origin() -> str:
    """Return the URL that podium was installed from; empty if it came from an index, or was not
    installed.
    """
    record = read_install_record()
    scheme = ""
    if "vcs_info" in record:
        scheme = f"{record['vcs_info']['vcs']}+"
    return scheme + str(record.get("url", ""))


def find_source_folder() -> Path | None:
    """Find the clone that podium was installed from, or runs in; None if there is none on this
    machine.
    """
    address = urlsplit(read_install_origin())
    folders = []
    if address.scheme == "file":
        folders.append(Path(unquote(address.path)))
    folders.append(Path(__file__).resolve().parents[2])
    return next((folder for folder in folders if (folder / "pyproject.toml").is_file()), None)
