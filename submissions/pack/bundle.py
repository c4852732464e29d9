"""`pack` and `verify`: seals a results folder as one archive, and checks that an archive is
unchanged.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from compliance.bundle.manifest import read_unpacked_manifest
from compliance.recognition.path_kind import PathKind, recognise_path
from compliance.unread_folders import find_unread_folders
from compliance.verdict import INSTALLED_RULE
from submissions import compliance_check
from submissions.pack.manifest import build_bundle_manifest
from submissions.pack.seal import inspect_bundle, write_bundle
from submissions.result_index import (
    check_tree_bounds,
    find_results,
    open_results,
    select_named_results,
)
from suite import registry
from suite.errors import JudgedError, MissingError, RequestError
from suite.files.layout import DISK_FULL_ERRORS, MANIFEST_FILE, replace_atomically
from suite.files.untrusted_files import replace_unprintable
from suite.terms import Profile

RECOMPUTED_MANIFEST_FIELDS: Final = (
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
"""Manifest fields that are determined by the bundle's content; format and version depend on the
podium that packed it.
"""
BUNDLE_SUFFIX: Final = ".tar.zst"
FAILED_AUDIT_RULE: Final = "audit.failed"
UNDRAWN_RULE: Final = "loadgen.library"
"""The judge's rule for a run whose LoadGen draws could not be reproduced."""


def check_bundle_path(bundle: Path, *, replace: bool) -> None:
    """Refuse a name of another kind of file and, unless `replace` is set, an existing file;
    RequestError.
    """
    if not bundle.name.endswith(BUNDLE_SUFFIX):
        raise RequestError(f"-o {bundle}: a bundle is a {BUNDLE_SUFFIX} file; name one")
    if bundle.exists() and not replace:
        raise RequestError(f"{bundle} exists; name another file, or replace it with --force")


def pack_results(
    results: Path, bundle: Path, workloads: Iterable[str] = (), systems: Iterable[str] = ()
) -> Path:
    """Seal the results of these workloads and systems (all if none are named); return the bundle's
    path.

    RequestError for a folder or name that does not exist, and for a folder that cannot be read,
    whose results would be left out; JudgedError with all findings if the judge rejects the results,
    MissingError if the disk is full. A failure leaves no bundle behind.
    """
    if not results.is_dir():
        raise RequestError(f"{results}: no such results folder")
    check_tree_bounds(results)
    for folder, reason in find_unread_folders(results):
        raise RequestError(f"{folder}: cannot be read, so nothing is packed: {reason}")
    found = select_named_results(find_results(results), workloads, systems)
    if not found:
        raise JudgedError(f"{results}: contains no results")
    try:
        manifest, sources = build_bundle_manifest(found)
        with replace_atomically(bundle.absolute()) as partial:
            write_bundle(partial, manifest, sources)
            check_new_bundle(partial, results)
    except OSError as error:
        sentence = f"{bundle}: not packed: {error.strerror or error}"
        raise (MissingError if error.errno in DISK_FULL_ERRORS else RequestError)(
            sentence
        ) from error
    return bundle.absolute()


def check_new_bundle(partial: Path, results: Path) -> None:
    """Verify the new bundle like any recipient; JudgedError with one line per problem."""
    problems = list_packed_bundle_problems(partial, results)
    if problems:
        raise JudgedError(
            "\n  ".join([f"{results}: not packed, because podium check rejects it:", *problems])
        )


def list_bundle_problems(path: Path) -> list[str]:
    """Return one sentence per problem with a bundle, packed or unpacked; empty if the path is not a
    bundle.
    """
    if recognise_path(path).kind is not PathKind.BUNDLE:
        return []
    if path.is_file():
        return list_packed_bundle_problems(path)
    return compliance_check.list_error_sentences(path)


def list_packed_bundle_problems(bundle: Path, source: Path | None = None) -> list[str]:
    """Return one sentence per problem with a packed bundle: with its bytes or, if they are
    undamaged, with its content. `source` is the folder that it was packed from, if the bundle will
    not stay.
    """
    return list(inspect_bundle(bundle)) or list_content_problems(bundle, source)


def list_content_problems(bundle: Path, source: Path | None = None) -> list[str]:
    """Return one sentence per problem with the content of a bundle whose bytes are undamaged."""
    return compliance_check.list_error_sentences(bundle, source) or list(
        compare_manifest_with_content(bundle)
    )


def list_uninstalled_workloads(bundle: Path) -> list[str]:
    """Return the workloads of an undamaged bundle whose package is not installed, so that it cannot
    be judged here; empty for a damaged bundle.
    """
    found = [] if list(inspect_bundle(bundle)) else compliance_check.judge_path(bundle)
    return list(dict.fromkeys(finding.found for finding in found if finding.rule == INSTALLED_RULE))


def compare_manifest_with_content(bundle: Path) -> Iterator[str]:
    """Yield differences from the manifest that packing the content would produce, so that a
    manifest cannot claim other commands or machines.
    """
    try:
        with open_results(bundle) as results:
            sealed_manifest = read_unpacked_manifest(results[0].results_root)
            rebuilt_manifest, _ = build_bundle_manifest(results)
    except JudgedError as error:
        yield replace_unprintable(str(error))
        return
    for field in RECOMPUTED_MANIFEST_FIELDS:
        if getattr(sealed_manifest, field) != getattr(rebuilt_manifest, field):
            yield f"{MANIFEST_FILE}: {field} differs from the results in the bundle"


def describe_recomputed_figures(bundle: Path) -> str:
    """Describe what was recomputed for a valid bundle, and what it does not contain."""
    rules = [finding.rule for finding in compliance_check.judge_path(bundle)]
    unscored, undrawn = rules.count(compliance_check.UNSCORED_RULE), rules.count(UNDRAWN_RULE)
    gaps = []
    if unscored:
        gaps.append(f"{unscored} accuracies, which were reported but not recomputed")
    if undrawn:
        gaps.append(f"{undrawn} LoadGen runs, whose random draws could not be repeated")
    recomputed = ""
    if gaps:
        recomputed = f" except for {' and '.join(gaps)}"
    lacking = ""
    if missing := list(find_absent_scenarios(bundle)):
        lacking = f"; not included: {', '.join(missing)}"
    return f"figures were recomputed from the logs{recomputed}{lacking}"


def list_failed_audits(bundle: Path) -> list[str]:
    """Name the compliance tests in a valid bundle that failed."""
    found = compliance_check.judge_path(bundle)
    return [finding.found for finding in found if finding.rule == FAILED_AUDIT_RULE]


def find_absent_scenarios(bundle: Path) -> Iterator[str]:
    """Yield the round's scenarios that have no results, for each workload with inference
    results.
    """
    with open_results(bundle) as results:
        manifest, round = (
            read_unpacked_manifest(results[0].results_root),
            registry.load_round(read_unpacked_manifest(results[0].results_root).round),
        )
        for workload in sorted({result.workload for result in results if result.scenario}):
            rows = round.benchmark(workload).inference[Profile(manifest.profile)].scenarios
            present_scenarios = {
                result.scenario for result in results if result.workload == workload
            }
            yield from (
                f"{workload}'s {scenario.label}"
                for scenario in rows
                if scenario not in present_scenarios
            )
