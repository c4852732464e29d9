"""`verify` as a command: output and exit code."""

import json
import os
from codecs import BOM_UTF8
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from submissions.pack.bundle import list_uninstalled_workloads
from submissions.signatures.ssh_keygen import TrustedSigners
from submissions.signatures.verification import (
    NOT_SHOWN,
    REQUIREMENT_LINES,
    TrustedParties,
    VerificationAnswer,
    VerificationLine,
    verify_bundle,
)
from suite.errors import JudgedError, MissingError, RequestError, build_unknown_name_error

REPEATED_LINE_NAMES: Final = ("signed", "time")
"""Lines that may occur several times for a bundle."""


def run_verify_command(
    bundle: Path,
    signers: Path | None,
    revoked: Path | None,
    authorities: Path | None,
    require: str | None,
    output_format: str,
) -> int:
    """Print the verification of a bundle; 0 if it is undamaged, valid and meets all requirements,
    else 1.

    RequestError for an unknown requirement, MissingError if the package of a workload is not
    installed.
    """
    required = parse_requirements(require)
    if bundle.is_dir():
        raise RequestError(
            f"{bundle} is a folder, not a bundle; use podium check to check results as they are,"
            " or podium pack to make a bundle of them"
        )
    if not bundle.exists():
        raise JudgedError(f"{bundle}: no such file; name a bundle (*.tar.zst)")
    check_files_exist({"--signers": signers, "--revoked": revoked, "--ca": authorities})
    if revoked is not None and signers is None:
        raise RequestError(
            "--revoked needs --signers FILE: without it, no key is trusted that could be revoked"
        )
    check_signers_encoding(signers)
    answer = verify_bundle(
        bundle,
        TrustedParties(
            signers=TrustedSigners(allowed=signers, revoked=revoked), authorities=authorities
        ),
        required,
    )
    if answer.problems and (lacking := list_uninstalled_workloads(bundle)):
        raise MissingError(
            f"{bundle}: cannot be judged here: the package of {', '.join(lacking)} is not "
            "installed; install it and verify again"
        )
    if output_format == "json":
        click.echo(json.dumps(build_verification_document(bundle, answer), indent=2))
    else:
        click.echo(format_verification_text(bundle, answer))
    return int(not answer.is_whole or bool(answer.unmet))


def check_signers_encoding(signers: Path | None) -> None:
    """RequestError for a byte order mark, which ssh-keygen takes for a part of the first name."""
    if signers is None:
        return
    with signers.open("rb") as stream:
        if stream.read(len(BOM_UTF8)) == BOM_UTF8:
            raise RequestError(
                f"--signers {signers}: begins with a byte order mark, which ssh-keygen takes for a"
                " part of the first name: save it as UTF-8 without one"
            )


def check_files_exist(files: Mapping[str, Path | None]) -> None:
    """Raise RequestError for the first option whose file does not exist, or may be read only once;
    the empty /dev/null is accepted.
    """
    for option, file in files.items():
        if file is None or file.is_file() or str(file) == os.devnull:
            continue
        if file.exists():
            raise RequestError(f"{option} {file}: not a regular file; name a file")
        raise RequestError(f"{option} {file}: no such file")


def parse_requirements(require: str | None) -> tuple[str, ...]:
    """Parse --require; RequestError names the nearest known requirement."""
    if require is not None:
        found = tuple(word.strip() for word in require.split(","))
    else:
        found = ()
    if "" in found:
        raise RequestError(
            f"--require {require!r}: give one or more of these, separated by commas:"
            f" {', '.join(REQUIREMENT_LINES)}"
        )
    for word in found:
        if word not in REQUIREMENT_LINES:
            raise build_unknown_name_error("requirement", word, REQUIREMENT_LINES)
    return found


def format_verification_text(bundle: Path, answer: VerificationAnswer) -> str:
    """Format for display: problems, the lines, unmet requirements, and what no check can show."""
    width = max(len(line.name) for line in answer.lines)
    lines = [f"{line.name:<{width}}  {line.text}" for line in answer.lines]
    unmet = []
    if answer.unmet:
        unmet.append(f"required but not shown: {', '.join(answer.unmet)}")
    return "\n".join(
        [*answer.problems, *lines, *unmet, NOT_SHOWN if answer.is_whole else f"{bundle}: broken"]
    )


def build_verification_document(bundle: Path, answer: VerificationAnswer) -> dict[str, object]:
    """Return data for JSON: one field per line of the answer; a list if a line may occur more than
    once.
    """
    line_records: dict[str, object] = {line.name: build_line_record(line) for line in answer.lines}
    line_records |= {
        name: [build_line_record(line) for line in answer.lines if line.name == name]
        for name in REPEATED_LINE_NAMES
        if name in line_records
    }
    summary = {
        "bundle": str(bundle),
        "whole": answer.is_whole,
        "problems": list(answer.problems),
        "unmet": list(answer.unmet),
    }
    return summary | line_records | {"not_shown": NOT_SHOWN}


def build_line_record(line: VerificationLine) -> dict[str, str]:
    """Return a line's state and text."""
    return {"state": line.state, "text": line.text}
