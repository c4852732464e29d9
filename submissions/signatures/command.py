"""`verify` and `timestamp` as commands: output and exit code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from submissions.pack.bundle import strangers
from submissions.signatures import timestamp
from submissions.signatures.ssh_keygen import Signers
from submissions.signatures.verification import (
    NOT_SHOWN,
    REQUIRED,
    Answer,
    Line,
    Trusted,
    verification,
)
from suite.errors import MissingError, RequestError, unknown

SEVERAL: Final = ("signed", "time")
"""Lines that a bundle may have several of."""


def report(
    bundle: Path,
    signers: Path | None,
    revoked: Path | None,
    authorities: Path | None,
    require: str | None,
    form: str,
) -> int:
    """Print the verification of a bundle; 0 if it is undamaged, valid and meets all requirements,
    else 1.

    RequestError for an unknown requirement, MissingError if the package of a workload is not
    installed.
    """
    required = words(require)
    there({"--signers": signers, "--revoked": revoked, "--ca": authorities})
    if revoked is not None and signers is None:
        raise RequestError(
            "--revoked needs --signers FILE: without it, no key is trusted that could be revoked"
        )
    answer = verification(
        bundle,
        Trusted(signers=Signers(allowed=signers, revoked=revoked), authorities=authorities),
        required,
    )
    if answer.problems and (lacking := strangers(bundle)):
        raise MissingError(
            f"{bundle}: cannot be judged here: {', '.join(lacking)} is of a package that is not"
            " installed; install it and verify again"
        )
    click.echo(
        json.dumps(facts(bundle, answer), indent=2) if form == "json" else text(bundle, answer)
    )
    return int(not answer.whole or bool(answer.unmet))


def there(files: Mapping[str, Path | None]) -> None:
    """RequestError for the first option whose file does not exist."""
    for option, file in files.items():
        if file is not None and not file.is_file():
            raise RequestError(f"{option} {file}: no such file")


def words(require: str | None) -> tuple[str, ...]:
    """Parse --require; RequestError names the nearest known requirement."""
    found = tuple(word.strip() for word in require.split(",")) if require is not None else ()
    if "" in found:
        raise RequestError(
            f"--require {require!r}: name what is required, separated by commas:"
            f" {', '.join(REQUIRED)}"
        )
    for word in found:
        if word not in REQUIRED:
            raise unknown("requirement", word, REQUIRED)
    return found


def text(bundle: Path, answer: Answer) -> str:
    """Format for people: problems, the lines, unmet requirements, and what nothing shows."""
    width = max(len(line.name) for line in answer.lines)
    lines = [f"{line.name:<{width}}  {line.text}" for line in answer.lines]
    unmet = [f"required and not shown: {', '.join(answer.unmet)}"] if answer.unmet else []
    return "\n".join(
        [*answer.problems, *lines, *unmet, NOT_SHOWN if answer.whole else f"{bundle}: broken"]
    )


def facts(bundle: Path, answer: Answer) -> dict[str, object]:
    """Format for programs: one field per line of the answer, a list if a line may occur more than
    once.
    """
    named: dict[str, object] = {line.name: fact(line) for line in answer.lines}
    named |= {
        name: [fact(line) for line in answer.lines if line.name == name]
        for name in SEVERAL
        if name in named
    }
    told = {
        "bundle": str(bundle),
        "whole": answer.whole,
        "problems": list(answer.problems),
        "unmet": list(answer.unmet),
    }
    return told | named | {"not_shown": NOT_SHOWN}


def fact(line: Line) -> dict[str, str]:
    """Return a line's state and text."""
    return {"state": line.state, "text": line.text}


def stamp(bundle: Path, query: Path | None, reply: Path | None, authorities: Path | None) -> None:
    """Write a time-stamp request, or attach an authority's reply; RequestError if neither or both
    are requested.
    """
    if (query is None) == (reply is None):
        raise RequestError(
            "give --query FILE to ask for a time stamp, or --reply FILE --ca FILE to take it"
        )
    there({"--reply": reply, "--ca": authorities})
    if query is not None:
        click.echo(
            f"{timestamp.query(bundle, query)}: the request; an authority's reply comes back with"
            f" podium timestamp {bundle} --reply FILE --ca FILE"
        )
    elif reply is not None and authorities is not None:
        made = timestamp.attach(bundle, reply, authorities)
        click.echo(
            f"{bundle}: stamped {made.utc:%Y-%m-%d %H:%M:%S} UTC, authority {made.authority}"
        )
    else:
        raise RequestError("--reply needs --ca FILE: the certificates of the authority, PEM")
