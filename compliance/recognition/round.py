"""Recognises a path's round from its content: podium's own log header, LoadGen's seeds, a log's
dialect and date.

For a set, an entry or a tree a few logs are read: one with podium's stamps decides, else the
majority, unless a sizeable share belongs to a later round, which may contain results of an earlier
one. If the content gives no evidence, the names of the parent folders do; they also distinguish an
unknown round from an earlier one that its logs could belong to.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final

from compliance.recognition.evidence import read_round_evidence
from compliance.recognition.path_kind import MODE_FOLDERS, PathKind, RecognisedPath
from compliance.recognition.result_places import list_summary_files, load_result_places
from compliance.recognition.round_evidence import RoundEvidence
from compliance.recognition.tree_path import (
    ROUND_FOLDER_PATTERN,
    TreePosition,
    is_file,
    iterate_published_logs,
    iterate_subfolders,
    iterate_tree_organisations,
)
from suite import registry
from suite.files.layout import DETAIL_LOG, RUN_RECORD, SUMMARY_LOG
from suite.rounds.kind_checks import find_round_obstacle

MAX_SAMPLED_LOGS: Final = 24
"""Number of logs of a set or tree that are read."""
MAX_TREE_LOGS: Final = 8_192
"""Number of logs of a tree of training results that are read, two of each set: one may be of
another benchmark.
"""
MULTI_ROUND_KINDS: Final = (PathKind.TREE, PathKind.ORGANISATION)
"""Kinds that may contain results of several rounds."""
LATER_ROUND_SHARE: Final = 0.25
"""Minimum share of the logs at which a result belongs to the later round that they indicate."""
OWN_ROUND_KINDS: Final = (
    PathKind.BUNDLE,
    PathKind.CHECKPOINT,
    PathKind.DOCUMENT,
    PathKind.EMPTY,
    PathKind.STUDY,
    PathKind.HISTORY,
)
"""Kinds that podium's own round judges in any place."""


def recognise_path_round(target: RecognisedPath) -> RoundEvidence | None:
    """Recognise the round of a path, with the evidence; None if neither its content nor its folders
    give any.
    """
    if target.kind in OWN_ROUND_KINDS:
        return None
    for places in load_result_places():
        if target.kind in places.rounds:
            return places.rounds[target.kind]
    own = decide_round_by_files(iterate_evidence_files(target)) or decide_round_by_files(
        iterate_neighbour_files(target)
    )
    if (
        target.kind is PathKind.LOG
        and target.position
        and own
        and own.logs
        and own.logs.has_other_benchmark()
    ):
        # it still belongs to its set
        own = decide_round_by_files(iterate_neighbour_files(target)) or own
    found = recognise_by_context(target, own) or own
    named = find_round_in_names(target)
    if own and target.kind not in MULTI_ROUND_KINDS:
        logs = own.logs
    elif found:
        logs = found.logs
    else:
        logs = None
    if (
        named
        and named.round
        and logs
        and found
        and found.logs
        and logs.can_belong_to_round(named.round)
    ):
        return named
    if named and found and named.round and is_made_for_another_round(named.round, found.round):
        return named._replace(
            indicated_by=f"{named.indicated_by}; its logs are of {found.indicated_by}"
        )
    overruled = found is None or (
        named and named.round is None and found.round and not is_podium_round(found.round)
    )
    if overruled:
        return named
    return found


def recognise_by_context(target: RecognisedPath, own: RoundEvidence | None) -> RoundEvidence | None:
    """Recognise a path by its organisation's other results as well, or a tree by all of its sets;
    None if they give no evidence.
    """
    if target.kind in MULTI_ROUND_KINDS and own and own.logs:
        return decide_round_by_files(iterate_set_logs(target), MAX_TREE_LOGS)
    if target.position and (own is None or not own.sure):
        return decide_round_by_files(iterate_organisation_evidence(target.position))
    if target.position and own and own.logs:  # an older log may be submitted again with newer ones
        around = decide_round_by_files(
            iterate_distinct_files(
                chain(
                    islice(iterate_evidence_files(target), MAX_SAMPLED_LOGS // 4),
                    iterate_organisation_evidence(target.position),
                )
            )
        )
        if around and own.logs.is_round_excluded(around.round):
            return None
        return around
    return None


def decide_round_by_files(
    files: Iterable[Path], max_files: int = MAX_SAMPLED_LOGS
) -> RoundEvidence | None:
    """Read the first `max_files` files: podium's stamps decide, then later rounds, then the
    majority; in a tie the first.
    """
    all_evidence = [
        evidence for file in islice(files, max_files) if (evidence := read_round_evidence(file))
    ]
    votable = merge_open_evidence([each for each in all_evidence if each.sure] or all_evidence)
    if decisive := next((each for each in votable if each.decisive), None):
        return decisive
    votes, winner = Counter(each.round for each in votable), None
    if votes.get(None, 0) < LATER_ROUND_SHARE * len(votable):
        winner = max((name for name in votes if name), key=votes.__getitem__, default=None)
    return next((each for each in votable if each.round == winner), None)


def merge_open_evidence(all_evidence: list[RoundEvidence]) -> list[RoundEvidence]:
    """Merge the evidence of logs that could belong to several rounds."""
    undecided = [each for each in all_evidence if each.logs]
    if len(undecided) < 2:
        return all_evidence
    logs = undecided[0].logs
    assert logs is not None
    merged = logs.merge_evidence(undecided)
    return [merged if type(each.logs) is type(logs) else each for each in all_evidence]


def is_podium_round(name: str | None) -> bool:
    """Return whether podium runs a round."""
    return name is not None and not registry.load_round_kind(name).published


def is_made_for_another_round(named: str, found: str | None) -> bool:
    """Return whether LoadGen's seeds belong to another inference round than the folder's name, or
    to none: then another round's mlperf.conf was used, which that round's rules find out.
    """
    return named != found and all(
        registry.load_round_kind(each).seed_table for each in (named, found) if each
    )


def find_round_in_names(target: RecognisedPath) -> RoundEvidence | None:
    """Read the round from folder names in the style of the published repositories."""
    for part in reversed(target.path.parts):
        if match := ROUND_FOLDER_PATTERN.search(part):
            name = f"{match[1]}-{match[2]}"
            known = name in registry.list_round_names()
            obstacle = "" if known else find_round_obstacle(name)
            return RoundEvidence(
                name if known else None,
                f"a folder called {part}" + (f"; {obstacle}" if obstacle else ""),
            )
    return None


def iterate_evidence_files(target: RecognisedPath) -> Iterator[Path]:
    """Yield the files that can indicate a path's round, nearest first."""
    path, position = target.path, target.position
    match target.kind:
        case PathKind.LOG | PathKind.SYSTEM_FILE:
            yield path
            if target.kind is PathKind.SYSTEM_FILE and position and position.system:
                yield from iterate_system_logs(
                    position.organisation_folder / "results" / position.system
                )
        case PathKind.SET:
            yield from iterate_published_logs(path)
        case PathKind.RUN | PathKind.RUNS | PathKind.ENTRY | PathKind.AUDIT:
            yield from iterate_loadgen_files(path)
        case PathKind.MEASUREMENTS if position:
            yield path
            yield from iterate_loadgen_files(
                position.organisation_folder
                / "results"
                / path.parent.relative_to(position.organisation_folder / "measurements")
            )
        case PathKind.BENCHMARK:
            yield from iterate_benchmark_logs(path)
        case PathKind.SYSTEM:
            yield from iterate_system_logs(path)
        case PathKind.ORGANISATION if position:
            yield from iterate_organisation_logs(position)
        case PathKind.TREE:
            yield from iterate_sources_in_turn(
                iterate_organisation_logs(TreePosition(organisation_folder=home))
                for home in iterate_tree_organisations(path)
            )


def iterate_set_logs(target: RecognisedPath) -> Iterator[Path]:
    """Yield two logs of every run set of an organisation or a tree."""
    for home in list_target_organisations(target):
        for system in iterate_subfolders(home / "results"):
            for folder in (system, *iterate_subfolders(system)):
                yield from islice(iterate_published_logs(folder), 2)


def list_target_organisations(target: RecognisedPath) -> list[Path]:
    """Return the organisations' folders of a tree, or that of an organisation."""
    if target.kind is PathKind.TREE:
        return sorted(iterate_tree_organisations(target.path))
    if target.position:
        return [target.position.organisation_folder]
    return []


def iterate_neighbour_files(target: RecognisedPath) -> Iterator[Path]:
    """Yield the files next to a log or run, or the descriptions of a tree's systems, if its own
    files give no evidence.
    """
    above = target.path.parent
    if target.kind is PathKind.TREE:
        for home in iterate_tree_organisations(target.path):
            yield from sorted((home / "systems").glob("*.json"))
    if target.kind is PathKind.LOG:
        yield from iterate_published_logs(above)
    if target.kind in (PathKind.RUN, PathKind.RUNS):
        yield from iterate_loadgen_files(
            above.parent if above.name.casefold() in MODE_FOLDERS else above
        )


def iterate_organisation_logs(position: TreePosition) -> Iterator[Path]:
    """Yield logs of every system of an organisation, alternating between systems."""
    return iterate_sources_in_turn(
        iterate_system_logs(system)
        for system in iterate_subfolders(position.organisation_folder / "results")
    )


def iterate_distinct_files(files: Iterable[Path]) -> Iterator[Path]:
    """Yield each file once."""
    seen: set[Path] = set()
    for file in files:
        if file not in seen:
            seen.add(file)
            yield file


def iterate_organisation_evidence(position: TreePosition) -> Iterator[Path]:
    """Yield an organisation's logs and its system descriptions, alternating."""
    return iterate_sources_in_turn(
        [
            iterate_organisation_logs(position),
            (position.organisation_folder / "systems").glob("*.json"),
        ]
    )


def iterate_system_logs(system: Path) -> Iterator[Path]:
    """Yield logs of every benchmark of a system, alternating; for a flat set its own."""
    return chain(
        iterate_published_logs(system),
        iterate_sources_in_turn(
            iterate_benchmark_logs(folder) for folder in iterate_subfolders(system)
        ),
    )


def iterate_benchmark_logs(folder: Path) -> Iterator[Path]:
    """Yield the training logs of a benchmark, and the LoadGen files of its scenarios."""
    return chain(
        iterate_published_logs(folder),
        iterate_sources_in_turn(
            iterate_loadgen_files(scenario) for scenario in iterate_subfolders(folder)
        ),
    )


def iterate_loadgen_files(path: Path, depth: int = 3) -> Iterator[Path]:
    """Yield LoadGen files in a folder and below it: an audit, an entry, its performance runs, or
    one run.
    """
    if found := [
        name
        for name in (RUN_RECORD, DETAIL_LOG, SUMMARY_LOG, *list_summary_files())
        if is_file(f"{path}/{name}")
    ]:
        yield from (path / name for name in found)
        if path.name.casefold() not in MODE_FOLDERS and not path.name.startswith("run_"):
            return
    if not depth:
        return
    for folder in iterate_subfolders(path):
        yield from iterate_loadgen_files(folder, depth - 1)


def iterate_sources_in_turn(sources: Iterable[Iterator[Path]]) -> Iterator[Path]:
    """Take one file from each source in turn, so that a few files represent a whole tree."""
    waiting = list(islice(sources, 4 * MAX_SAMPLED_LOGS))
    while waiting:
        left = []
        for source in waiting:
            file = next(source, None)
            if file is not None:
                yield file
                left.append(source)
        waiting = left
