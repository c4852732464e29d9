"""Provenance of a result: nonce, checkpoints, commands, seeds, ledger, machine, packages and
hashes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from compliance.bundle import trailer
from compliance.bundle.manifest import (
    Manifest,
    read_run_environment_or_none,
    read_unpacked_manifest_or_none,
)
from compliance.results.indexed_result import IndexedResult
from submissions.pack.manifest import iterate_run_stamps
from submissions.report.document import Note, Section, Table
from submissions.report.sections.shell_commands import format_repeatable_command
from submissions.signatures import bundled
from submissions.signatures.ssh_keygen import TrustedSigners
from suite.errors import JudgedError, PodiumError
from suite.files import untrusted_files
from suite.files.untrusted_files import UnreadableError
from suite.ledger.steps import LedgerStep, StepKind, parse_ledger

MAX_LISTED_BUNDLE_FILES: Final = 300
MAX_LISTED_LEDGER_STEPS: Final = 200
"""Maximum number of rows in a table on the page; the rest are counted."""
MAX_LEDGER_BYTES: Final = 16 << 20
NO_LEDGER_NOTE: Final = (
    "There is no ledger: the number of attempts before these results is unknown."
)


def build_provenance_section(results: Sequence[IndexedResult], bundle: Path | None) -> Section:
    """Show the provenance of the results of one path; `bundle` is that path if it is a bundle."""
    seal = ""
    if bundle:
        seal = read_seal_digest(bundle)
    organised_results = [result for result in results if result.organisation_folder]
    manifest = None
    if organised_results:
        manifest = read_unpacked_manifest_or_none(organised_results[0].results_root)
    ledgers = list(build_ledger_tables(organised_results))
    if bundle and seal:
        signed = list(describe_bundle_signatures(bundle))
    else:
        signed = []
    tables = [*ledgers, *build_environment_tables(organised_results)]
    if manifest:
        commands = order_repeated_commands(manifest, organised_results)
        tables = [
            *build_identity_tables(manifest, seal, signed, commands),
            *tables,
            *build_bundle_files_table(manifest),
        ]
    notes = []
    if not ledgers:
        notes.append(Note(text=NO_LEDGER_NOTE))
    return Section(
        id="provenance",
        title="Provenance",
        intro="Everything needed to check this result and to repeat it.",
        notes=tuple(notes),
        tables=tuple(tables),
    )


def order_repeated_commands(
    manifest: Manifest, results: Sequence[IndexedResult]
) -> Sequence[object]:
    """Return a bundle's commands in the order in which they began, according to its ledgers;
    commands of which they say nothing come last, in the manifest's order.
    """
    begun = {
        step.of: step.utc
        for path in list_ledger_paths(results)
        for step in read_ledger_steps(path) or ()
        if step.step is StepKind.BEGIN
    }
    first: dict[str, str] = {}
    try:
        stamps = list(iterate_run_stamps(results))
    except PodiumError:  # the findings name the file
        return manifest.commands
    for stamp in stamps:
        command = format_shell_command(stamp.command)
        folder = stamp.folder.relative_to(stamp.result.results_root).as_posix()
        if folder in begun:
            first[command] = min(begun[folder], first.get(command, begun[folder]))
    last = max(first.values(), default="")
    return sorted(
        manifest.commands,
        key=lambda words: (
            (command := format_shell_command(words)) not in first,
            first.get(command, last),
        ),
    )


def build_identity_tables(
    manifest: Manifest,
    seal: str,
    signed: Sequence[tuple[str, str]],
    commands: Sequence[object],
) -> Iterator[Table]:
    """Yield the properties that identify a bundle, and the commands that produced its content."""
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
    yield Table(
        title="Commands to repeat it",
        columns=("command",),
        rows=tuple((format_shell_command(words),) for words in commands),
    )


def describe_bundle_signatures(bundle: Path) -> Iterator[tuple[str, str]]:
    """Yield the signatures and time stamps after a seal; the reader decides whom to trust, with
    `podium verify --signers`.
    """
    seal_trailer = trailer.read_bundle_trailer(bundle)
    checked = [
        each.sentence
        for each in bundled.verify_bundle_signatures(bundle, seal_trailer, TrustedSigners())
    ]
    yield "signed", "; ".join(checked) or "not signed"
    stamps = sum(frame.kind is trailer.FrameKind.TIME for frame in seal_trailer.frames)
    time = "the machine's own clock only"
    if stamps:
        plural = "s" if stamps != 1 else ""
        time = f"{stamps} time stamp{plural}; to check, run podium verify --ca"
    yield "time", time


def format_shell_command(words: object) -> str:
    if isinstance(words, list | tuple):
        return format_repeatable_command(words)
    return str(words)


def build_environment_tables(results: Sequence[IndexedResult]) -> Iterator[Table]:
    """Yield each system's hardware and packages."""
    for path in dict.fromkeys(result.system_file for result in results):
        environment = read_run_environment_or_none(path)
        if environment is None:
            continue
        hardware = {
            **format_environment_fields(environment.get("hardware")),
            **format_environment_fields(
                {
                    key: value
                    for key, value in environment.items()
                    if key not in ("hardware", "packages")
                }
            ),
        }
        yield Table(
            title=f"Machine {path.stem}",
            columns=("what", "value"),
            rows=tuple(hardware.items()),
            folded=True,
        )
        packages = format_environment_fields(environment.get("packages"))
        if packages:
            yield Table(
                title=f"Packages on {path.stem}",
                columns=("package", "version"),
                rows=tuple(packages.items()),
                folded=True,
            )


def format_environment_fields(fields: object) -> dict[str, str]:
    """Format fields as text, empty values as "unknown"; empty if `fields` is not a mapping."""
    if not isinstance(fields, Mapping):
        return {}
    formatted = {
        str(key).replace("_", " "): value if isinstance(value, str) else json.dumps(value)
        for key, value in fields.items()
    }
    return {
        key: "unknown" if value in ("", "null", "[]") else value for key, value in formatted.items()
    }


def build_bundle_files_table(manifest: Manifest) -> Iterator[Table]:
    """List the files of a bundle with their hashes."""
    rows = [(path, str(each.size), each.sha256) for path, each in sorted(manifest.files.items())]
    more = ""
    if len(rows) > MAX_LISTED_BUNDLE_FILES:
        more = f"; the first {MAX_LISTED_BUNDLE_FILES} are listed"
    title = f"Files: {len(rows)}{more}"
    yield Table(
        title=title,
        columns=("file", "bytes", "SHA-256"),
        rows=tuple(rows[:MAX_LISTED_BUNDLE_FILES]),
        numeric=(1,),
        folded=True,
    )


def read_ledger_steps(path: Path) -> list[LedgerStep] | None:
    """Read a ledger's steps; None if there is none, or it cannot be read."""
    try:
        return untrusted_files.read_untrusted_file(
            path, lambda content: list(parse_ledger(content)), MAX_LEDGER_BYTES
        )
    except UnreadableError:
        return None


def list_ledger_paths(results: Sequence[IndexedResult]) -> list[Path]:
    """Return where the ledgers of results are."""
    return list(
        dict.fromkeys(
            result.known_organisation_folder / "ledger" / f"{result.workload}.jsonl"
            for result in results
        )
    )


def build_ledger_tables(results: Sequence[IndexedResult]) -> Iterator[Table]:
    """Yield the attempts at each workload that has a ledger."""
    for path in list_ledger_paths(results):
        if (steps := read_ledger_steps(path)) is None:
            continue
        begun = sum(step.step is StepKind.BEGIN for step in steps)
        rows = tuple(
            (str(step.n), step.step.value, describe_step_subject(step), step.utc or "-")
            for step in steps
        )
        title = f"Ledger of {path.stem}: {len(steps)} steps, {begun} attempts"
        if len(rows) > MAX_LISTED_LEDGER_STEPS:
            title += f"; the last {MAX_LISTED_LEDGER_STEPS} are listed"
        yield Table(
            title=title,
            columns=("n", "step", "of what", "time (UTC)"),
            rows=rows[-MAX_LISTED_LEDGER_STEPS:],
            numeric=(0,),
            folded=len(rows) > 12,
        )


def describe_step_subject(step: LedgerStep) -> str:
    return " ".join(filter(None, (step.what, step.of))) or f"{len(step.files)} files"


def read_seal_digest(bundle: Path) -> str:
    """Return the SHA-256 in a bundle's seal, as hex; empty if it does not end with a seal."""
    try:
        return trailer.read_bundle_trailer(bundle).digest.hex()
    except (JudgedError, OSError):
        return ""
