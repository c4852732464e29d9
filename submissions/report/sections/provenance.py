"""Provenance of a result: nonce, checkpoints, commands, seeds, ledger, machine, packages and
hashes.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from compliance.bundle import trailer
from compliance.bundle.manifest import Manifest, environment_or_none, read_or_none
from submissions.report.document import Note, Section, Table
from submissions.result_index import Result
from submissions.signatures import bundled
from submissions.signatures.ssh_keygen import Signers
from suite.errors import JudgedError
from suite.files import untrusted_files
from suite.files.untrusted_files import UnreadableError
from suite.ledger.steps import Step, StepKind, parse_all

FILES_MOST: Final = 300
STEPS_MOST: Final = 200
"""Maximum number of rows in a table on the page; the rest are counted."""
LEDGER_LIMIT: Final = 16 << 20
NO_LEDGER: Final = (
    "There is no ledger: how many attempts there were before these results is not known."
)


def section(results: Sequence[Result], bundle: Path | None) -> Section:
    """Show the provenance of the results of one path; `bundle` is that path if it is a bundle."""
    seal = seal_of(bundle) if bundle else ""
    homed = [result for result in results if result.home]
    manifest = read_or_none(homed[0].root) if homed else None
    ledgers = list(ledger_tables(homed))
    signed = list(signatures(bundle)) if bundle and seal else []
    tables = [
        *(identity(manifest, seal, signed) if manifest else ()),
        *ledgers,
        *machines(homed),
        *(files(manifest) if manifest else ()),
    ]
    notes = [] if ledgers else [Note(text=NO_LEDGER)]
    return Section(
        id="provenance",
        title="Provenance",
        intro="What it takes to check this result, and to repeat it.",
        notes=tuple(notes),
        tables=tuple(tables),
    )


def identity(manifest: Manifest, seal: str, signed: Sequence[tuple[str, str]]) -> Iterator[Table]:
    """Yield what identifies a bundle, and the commands that produced its content."""
    rows = [
        ("sealed with", f"SHA-256 {seal}" if seal else "not sealed"),
        ("packed by", f"podium {manifest.version}"),
        *signed,
    ]
    rows += [(f"nonce of {workload}", nonce) for workload, nonce in manifest.nonce.items()]
    rows += [
        (f"checkpoint of {workload}", f"SHA-256 {sha256}")
        for workload, sha256 in manifest.checkpoints.items()
    ]
    rows += [("seeds", ", ".join(map(str, manifest.seeds)))]
    yield Table(title="Identity", columns=("what", "value"), rows=tuple(rows))
    commands = tuple((spelled(words),) for words in manifest.commands)
    yield Table(title="Commands to repeat it", columns=("command",), rows=commands)


def signatures(bundle: Path) -> Iterator[tuple[str, str]]:
    """Yield the signatures and time stamps after a seal; the reader decides whom to trust, by
    `podium verify --signers`.
    """
    found = trailer.read(bundle)
    checked = [each.sentence for each in bundled.checked(bundle, found, Signers())]
    yield "signed", "; ".join(checked) or "not signed"
    stamps = sum(frame.kind is trailer.Kind.TIME for frame in found.frames)
    yield (
        "time",
        (
            f"{stamps} time stamp{'s' if stamps != 1 else ''}; podium verify --ca checks"
            if stamps
            else "the machine's own clock only"
        ),
    )


def spelled(words: object) -> str:
    """Format a command line for a shell."""
    return shlex.join(map(str, words)) if isinstance(words, list | tuple) else str(words)


def machines(results: Sequence[Result]) -> Iterator[Table]:
    """Yield each system's hardware and packages."""
    for path in dict.fromkeys(result.system_file for result in results):
        told = environment_or_none(path)
        if told is None:
            continue
        hardware = {
            **texts(told.get("hardware")),
            **texts(
                {key: value for key, value in told.items() if key not in ("hardware", "packages")}
            ),
        }
        yield Table(
            title=f"Machine {path.stem}",
            columns=("what", "value"),
            rows=tuple(hardware.items()),
            folded=True,
        )
        packages = texts(told.get("packages"))
        if packages:
            yield Table(
                title=f"Packages on {path.stem}",
                columns=("package", "version"),
                rows=tuple(packages.items()),
                folded=True,
            )


def texts(fields: object) -> dict[str, str]:
    """Format fields as text, empty values as "not known"; empty if `fields` is not a mapping."""
    if not isinstance(fields, Mapping):
        return {}
    told = {
        str(key).replace("_", " "): value if isinstance(value, str) else json.dumps(value)
        for key, value in fields.items()
    }
    return {
        key: "not known" if value in ("", "null", "[]") else value for key, value in told.items()
    }


def files(manifest: Manifest) -> Iterator[Table]:
    """List the files of a bundle with their hashes."""
    rows = [(path, str(each.size), each.sha256) for path, each in sorted(manifest.files.items())]
    more = f"; the first {FILES_MOST} are listed" if len(rows) > FILES_MOST else ""
    title = f"Files: {len(rows)}{more}"
    yield Table(
        title=title,
        columns=("file", "bytes", "SHA-256"),
        rows=tuple(rows[:FILES_MOST]),
        numeric=(1,),
        folded=True,
    )


def ledger_of(path: Path) -> list[Step] | None:
    """Read a ledger's steps; None if there is none, or it cannot be read."""
    try:
        return untrusted_files.read(path, lambda content: list(parse_all(content)), LEDGER_LIMIT)
    except UnreadableError:
        return None


def ledger_tables(results: Sequence[Result]) -> Iterator[Table]:
    """Yield the attempts of each workload that has a ledger."""
    for path in dict.fromkeys(
        result.tree / "ledger" / f"{result.workload}.jsonl" for result in results
    ):
        if (steps := ledger_of(path)) is None:
            continue
        begun = sum(step.step is StepKind.BEGIN for step in steps)
        rows = tuple((str(step.n), step.step.value, what(step), step.utc or "-") for step in steps)
        title = (
            f"Ledger of {path.stem}: {len(steps)} steps, {begun} attempts"
            f" begun{'' if len(rows) <= STEPS_MOST else f'; the last {STEPS_MOST} are listed'}"
        )
        yield Table(
            title=title,
            columns=("n", "step", "of what", "time (UTC)"),
            rows=rows[-STEPS_MOST:],
            numeric=(0,),
            folded=len(rows) > 12,
        )


def what(step: Step) -> str:
    """Describe the subject of a ledger step."""
    return " ".join(filter(None, (step.what, step.of))) or f"{len(step.files)} files"


def seal_of(bundle: Path) -> str:
    """Return the SHA-256 in a bundle's seal, as hex; empty if it does not end with a seal."""
    try:
        return trailer.read(bundle).digest.hex()
    except (JudgedError, OSError):
        return ""
