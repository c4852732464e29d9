"""`pack` and `verify`: seals a results folder as one archive, and checks that an archive is
unchanged.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from compliance.bundle.manifest import read
from compliance.recognition.path_kind import Kind, recognise
from compliance.verdict import INSTALLED
from submissions import compliance_check
from submissions.pack.manifest import collect
from submissions.pack.seal import inspect, write
from submissions.result_index import find, opened, select
from suite import registry
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import FULL, MANIFEST, written
from suite.files.untrusted_files import printable
from suite.terms import Profile

RECOLLECTED: Final = (
    "round",
    "profile",
    "workloads",
    "nonce",
    "checkpoints",
    "environment",
    "commands",
    "seeds",
    "files",
    "ledger",
)
"""Manifest fields that follow from the bundle's content; format and version are those of the podium
that packed it.
"""
UNDRAWN: Final = "loadgen.library"
"""The judge's rule for a run whose LoadGen draws could not be reproduced."""


def pack(
    results: Path, bundle: Path, workloads: Iterable[str] = (), systems: Iterable[str] = ()
) -> Path:
    """Seal the results of these workloads and systems (all if none are named); return the bundle's
    path.

    RequestError for a folder or name that does not exist, JudgedError with all findings if the
    judge rejects the results, MissingError if the
    disk is full; a failure leaves no bundle behind.
    """
    if not results.is_dir():
        raise RequestError(f"{results}: no such results folder")
    found = select(find(results), workloads, systems)
    if not found:
        raise JudgedError(f"{results}: no results in it")
    try:
        manifest, sources = collect(found)
        with written(bundle.absolute()) as partial:
            write(partial, manifest, sources)
            refuse(partial, results)
    except OSError as error:
        sentence = f"{bundle}: not packed: {error.strerror or error}"
        raise (MissingError if error.errno in FULL else RequestError)(sentence) from error
    return bundle.absolute()


def refuse(partial: Path, results: Path) -> None:
    """Verify the new bundle like any recipient; JudgedError with one line per problem."""
    problems = verify(partial)
    if problems:
        raise JudgedError(
            "\n  ".join([f"{results}: not packed, because the judge rejects it:", *problems])
        )


def damage(path: Path) -> list[str]:
    """Return one sentence per problem with a bundle, packed or unpacked; empty if the path is not a
    bundle.
    """
    if recognise(path).kind is not Kind.BUNDLE:
        return []
    return verify(path) if path.is_file() else compliance_check.errors(path)


def verify(bundle: Path) -> list[str]:
    """Return one sentence per problem with a bundle: first its bytes, then, if they are undamaged,
    its content.
    """
    return list(inspect(bundle)) or problems_inside(bundle)


def problems_inside(bundle: Path) -> list[str]:
    """Return one sentence per problem with the content of a bundle whose bytes are undamaged."""
    return compliance_check.errors(bundle) or list(recollected(bundle))


def strangers(bundle: Path) -> list[str]:
    """Return why an undamaged bundle cannot be judged here: workloads whose package is not
    installed; empty for a damaged bundle.
    """
    found = [] if list(inspect(bundle)) else compliance_check.findings(bundle)
    return list(dict.fromkeys(finding.found for finding in found if finding.rule == INSTALLED))


def recollected(bundle: Path) -> Iterator[str]:
    """Yield differences between the manifest and the one that packing the content would produce: a
    manifest cannot claim other commands or machines.
    """
    try:
        with opened(bundle) as results:
            told = read(results[0].root)
            made, _ = collect(results)
    except JudgedError as error:
        yield printable(str(error))
        return
    for field in RECOLLECTED:
        if getattr(told, field) != getattr(made, field):
            yield f"{MANIFEST}: {field} is not what the results in it say"


def proven(bundle: Path) -> str:
    """Describe what was recomputed for a valid bundle, and what it does not contain."""
    rules = [finding.rule for finding in compliance_check.findings(bundle)]
    told, undrawn = rules.count(compliance_check.UNSCORED), rules.count(UNDRAWN)
    gaps = [f"{told} accuracies, which are told and not recomputed"] if told else []
    gaps += [f"{undrawn} LoadGen runs, whose draws could not be done again"] if undrawn else []
    recomputed = f" but for {' and '.join(gaps)}" if gaps else ""
    lacking = f"; not in it: {', '.join(missing)}" if (missing := list(absent(bundle))) else ""
    return f"figures were recomputed from the logs{recomputed}{lacking}"


def absent(bundle: Path) -> Iterator[str]:
    """Yield the round's scenarios without results, for each workload that the bundle serves."""
    with opened(bundle) as results:
        told, round = read(results[0].root), registry.round(read(results[0].root).round)
        for workload in sorted({result.workload for result in results if result.scenario}):
            rows = round.benchmark(workload).inference[Profile(told.profile)].scenarios
            held = {result.scenario for result in results if result.workload == workload}
            yield from (
                f"{workload}'s {scenario.label}" for scenario in rows if scenario not in held
            )
