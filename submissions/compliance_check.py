"""The only module of this package that calls the judge."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from compliance.judge import Judge
from compliance.kinds.podium.documents.ledger import LedgerFile
from compliance.recognition.path_kind import PathKind, RecognisedPath, recognise_path
from compliance.results.indexed_result import IndexedResult
from compliance.rules import is_published_round, load_rules
from compliance.verdict import (
    INSTALLED_RULE,
    Finding,
    PathJudgement,
    Severity,
    Verdict,
    compute_verdict,
)
from submissions.result_index import UNPACKED_BUNDLES, list_organisation_folders
from suite.files.layout import LEDGER_FOLDER, compute_file_sha256, locate_absolutely
from suite.files.untrusted_files import replace_unprintable

NOISE_RULE_PREFIX: Final = "noise."
"""Prefix of rules that detect that a run was disturbed."""
HOST_RULE: Final = "tree.host"
"""The judge's rule for telemetry of another host than the described one."""
UNSCORED_RULE: Final = "accuracy.unscored"
"""The judge's rule for an accuracy that was reported but not recomputed."""
JUDGED_BUNDLES: Final[dict[str | None, tuple[tuple[Finding, ...], Path]]] = {}
"""SHA-256 of the last valid bundle -> its findings, and the name that it had."""


def judge_path(
    path: Path, kind: PathKind | None = None, judge: Judge | None = None
) -> tuple[Finding, ...]:
    """Judge one path as a requested kind, or as the kind that it is. A judge shared by several
    paths reads common files once.
    """
    if kind is None:
        if judge:
            return judge.judge_path(str(path)).findings
        return judge_path_as_found(path)
    return (judge or Judge()).judge_as(path, kind)


def judge_path_as_found(path: Path) -> tuple[Finding, ...]:
    """Judge one path as the kind that it is. A valid bundle is judged once, since packing, scoring
    and reporting all need its findings and no other file affects them.
    """
    try:
        sha256 = None
        if path.is_file() and recognise_path(path).kind is PathKind.BUNDLE:
            sha256 = compute_file_sha256(path)
    except OSError:  # the judge reports this error
        sha256 = None
    if sha256 in JUDGED_BUNDLES:
        return rename_bundle_findings(JUDGED_BUNDLES[sha256], path)
    found = Judge().judge_path(str(path)).findings
    # not cached if invalid: the cause may have been a full disk
    if sha256 and compute_verdict(found) is Verdict.VALID:
        JUDGED_BUNDLES.clear()
        JUDGED_BUNDLES[sha256] = found, path
    return found


def rename_bundle_findings(
    judged: tuple[tuple[Finding, ...], Path], path: Path
) -> tuple[Finding, ...]:
    """Return a bundle's findings with the name under which it was judged replaced."""
    found, earlier_path = judged
    if earlier_path == path:
        return found
    names = {}
    for name in {each.file for each in found}:
        names[name] = name
        if Path(name).is_relative_to(earlier_path):
            names[name] = str(path / Path(name).relative_to(earlier_path))
    return tuple(replace(each, file=names[each.file]) for each in found)


@lru_cache(maxsize=8)
def build_unpacked_bundle_judge(root: Path) -> Judge:
    """Return the judge of an unpacked bundle. It is shared, since scoring and reporting need the
    same findings and the files do not change.
    """
    return Judge()


def choose_shared_judge(results: Sequence[IndexedResult]) -> Judge:
    """Return a judge to share between some results."""
    roots = {result.results_root for result in results if result.organisation_folder}
    unpacked = roots & set(UNPACKED_BUNDLES.values())
    if len(roots) == 1 and unpacked:
        return build_unpacked_bundle_judge(unpacked.pop())
    return Judge()


def list_error_sentences(path: Path, source: Path | None = None) -> list[str]:
    """Judge one path; return one sentence per finding that invalidates it. Files of a bundle that
    will not stay are named in `source`, the folder that they were packed from.
    """
    found = judge_path(path)
    if source is not None:
        found = rename_bundle_findings((found, path), source)
    return [format_finding_line(finding) for finding in found if finding.severity is Severity.ERROR]


def list_host_warnings(path: Path) -> list[Finding]:
    """Return where telemetry saw another host than the described one."""
    return [each for each in list_warnings(path) if each.rule == HOST_RULE]


def list_warnings(path: Path) -> list[Finding]:
    """Judge one path; return what does not invalidate it, and a reader should know."""
    return [each for each in judge_path(path) if each.severity is Severity.WARNING]


def is_valid_result(result: IndexedResult, judge: Judge | None = None) -> bool:
    """Return whether the judge accepts a result as far as a repetition of it could tell: with the
    documents of its organisation, but without the ledger, which no run mends.
    """
    judge = judge or Judge()
    own = judge_single_result(result, judge)
    return compute_verdict(own) is Verdict.VALID and not any(
        load_rules()[each.rule].document is not LedgerFile
        for each in list_shared_errors(result, judge)
    )


def is_valid_alone(result: IndexedResult) -> bool:
    """Return whether a result is valid by its own files, whatever the documents beside it say."""
    return compute_verdict(judge_single_result(result)) is Verdict.VALID


def judge_single_result(result: IndexedResult, judge: Judge | None = None) -> tuple[Finding, ...]:
    """Judge a single result."""
    return judge_path(result.single_log or result.folder, resolve_result_kind(result), judge)


def is_accepted_result(
    result: IndexedResult, own: tuple[Finding, ...], judge: Judge | None = None
) -> bool:
    """Return whether the judge accepts a result, given its own findings: neither they nor the
    documents that it shares with other results invalidate it.
    """
    return compute_verdict(own) is Verdict.VALID and not list_shared_errors(
        result, judge or Judge()
    )


def list_shared_errors(result: IndexedResult, judge: Judge) -> tuple[Finding, ...]:
    """Return the errors that `podium check` finds in a result's tree, or of a published round in
    its organisation, that belong to no single result and bear on this one.
    """
    if result.organisation_folder is None or result.single_log:
        return ()
    published = is_published_round(resolve_result_round(result))
    if published:
        root = result.organisation_folder
    else:
        root = result.results_root
    return select_shared_errors(judge.judge_path_once(str(root)), result, root)


def select_shared_errors(
    judged: PathJudgement, result: IndexedResult, root: Path
) -> tuple[Finding, ...]:
    """Return the errors of a judgement of `root` that belong to no single result and bear on this
    one.
    """
    return tuple(
        each
        for each in judged.findings_besides
        if each.is_open_error and has_bearing_on(each, result, root)
    )


def has_bearing_on(shared: Finding, result: IndexedResult, root: Path) -> bool:
    """Return whether a finding that belongs to no single result bears on this one. By its place
    that may be a system, a workload or a folder above results; anything else bears on the whole
    organisation, since what two results contradict each other in is wrong in either.
    """
    home, place = (
        locate_absolutely(result.known_organisation_folder),
        locate_absolutely(shared.file),
    )
    if not place.is_relative_to(home):
        return not any(
            place.is_relative_to(locate_absolutely(other))
            for other in list_organisation_folders(root)
        )
    match place.relative_to(home).parts:
        case ("systems", name):
            return Path(name).stem == result.system
        case (folder, name) if folder == LEDGER_FOLDER:
            return Path(name).stem == result.workload
        case ("results", _) | ("results", _, _):
            return locate_absolutely(result.folder).is_relative_to(place)
        case _:
            return True


def describe_missing_workload(found: Sequence[Finding]) -> str:
    """Say that findings leave no verdict on this machine; empty if they give one."""
    lacking = dict.fromkeys(each.found for each in found if each.rule == INSTALLED_RULE)
    if not lacking or compute_verdict(found) is not Verdict.UNKNOWN:
        return ""
    return (
        f"cannot be judged here: the package of {', '.join(lacking)} is not installed; install it,"
        " or take a machine that has it"
    )


def list_noise_rules(own: tuple[Finding, ...]) -> tuple[str, ...]:
    """Return the rules that detected a disturbance of a result's runs."""
    return tuple(
        sorted({finding.rule for finding in own if finding.rule.startswith(NOISE_RULE_PREFIX)})
    )


def is_accuracy_unscored(result: IndexedResult, judge: Judge) -> bool:
    """Return whether an accuracy is only the run's claim and was not recomputed."""
    return result.scenario is not None and any(
        each.rule == UNSCORED_RULE
        for each in judge_path(result.folder, resolve_result_kind(result), judge)
    )


def resolve_result_kind(result: IndexedResult) -> PathKind:
    """Return the kind that a result is judged as."""
    found = recognise_path(result.folder).kind
    if found is PathKind.ENDPOINTS_RUN:
        return found
    if result.scenario:
        return PathKind.ENTRY
    if result.single_log:
        return PathKind.LOG
    return PathKind.SET


def resolve_path_round(path: Path) -> str:
    """Return the round that a path is judged by, as the kind that it is."""
    return Judge().resolve_round_name(recognise_path(path))


def resolve_result_round(result: IndexedResult) -> str:
    """Return the round that a result is judged and scored by."""
    path = result.single_log or result.folder
    return Judge().resolve_round_name(
        RecognisedPath(
            path=path, kind=resolve_result_kind(result), position=recognise_path(path).position
        )
    )


def format_finding_line(finding: Finding) -> str:
    """Format a finding in one line."""
    if finding.line is None:
        position = finding.file
    else:
        position = f"{finding.file}:{finding.line}"
    return replace_unprintable(
        f"{position}: {finding.rule}: found {finding.found}; expected {finding.required};"
        f" {finding.advice}"
    )
