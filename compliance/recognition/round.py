"""Recognises a path's round from its content: podium's own log header, LoadGen's seeds, a log's
dialect and date.

For a set, an entry or a tree a few logs are read: one with podium's stamps decides, else the
majority, unless a sizeable
share belongs to a later round, which may contain results of an earlier one. If the content gives no
evidence, the names of the
parent folders do; they also distinguish an unknown round from an earlier one that its logs could
belong to.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final

from compliance.recognition.evidence import Witness, witness
from compliance.recognition.path_kind import MODES, Kind, Target
from compliance.recognition.training_rounds import allows, excludes, is_stray, round_of
from compliance.recognition.tree_path import Place, filed_logs, folders, homes, is_file
from suite import registry
from suite.files.layout import DETAIL, RUN_RECORD, SUMMARY

ASKED: Final = 24
"""Number of logs of a set or tree that are read."""
SETS: Final = 8_192
"""Number of logs of a tree of training results that are read, two of each set: one may be of
another benchmark.
"""
WHOLE: Final = (Kind.TREE, Kind.ORGANISATION)
"""Kinds that may hold results of several rounds."""
LATER_SHARE: Final = 0.25
"""Share of the logs from which on a result belongs to the later round that they indicate."""
UNROUNDED: Final = (Kind.BUNDLE, Kind.CHECKPOINT, Kind.DOCUMENT, Kind.EMPTY, Kind.STUDY)
"""Kinds judged by podium's own round wherever they lie."""
NAMED: Final = re.compile(r"(training|inference|hpc)(?:_results)?[_-](v\d+\.\d+)")
"""A folder named like the published repositories."""


def recognised(target: Target) -> Witness | None:
    """Recognise the round of a path, with the evidence; None if neither its content nor its folders
    give any.
    """
    if target.kind in UNROUNDED:
        return None
    own = told(witnesses(target)) or told(neighbours(target))
    if target.kind is Kind.LOG and target.place and own and any(map(is_stray, own.logs)):
        own = told(neighbours(target)) or own  # it is one of its set's all the same
    found = with_others(target, own) or own
    named, logs = (
        of_names(target),
        (own.logs if own and target.kind not in WHOLE else found.logs if found else ()),
    )
    if named and named.round and logs and found and found.logs and allows(named.round, logs):
        return named
    overruled = found is None or (
        named and named.round is None and found.round and not is_podiums(found.round)
    )
    return named if overruled else found


def with_others(target: Target, own: Witness | None) -> Witness | None:
    """Recognise a path by its organisation's other results too, or a tree by all of its sets; None
    if they say nothing about it.
    """
    if target.kind in WHOLE and own and own.logs:
        return told(sets_of(target), SETS)
    if target.place and (own is None or not own.sure):
        return told(filed_at(target.place))
    if target.place and own and own.logs:  # an older log may have been filed again with newer ones
        around = told(
            distinct(chain(islice(witnesses(target), ASKED // 4), filed_at(target.place)))
        )
        return None if around and excludes(around.round, own.logs) else around
    return None


def told(files: Iterable[Path], asked: int = ASKED) -> Witness | None:
    """Read the first `asked` files: podium's stamps decide, then later rounds, then the majority;
    in a tie the first.
    """
    found = [told for file in islice(files, asked) if (told := witness(file))]
    heard = together([each for each in found if each.sure] or found)
    votes = Counter(each.round for each in heard)
    winner = next(filter(is_podiums, votes), None)
    if winner is None and votes.get(None, 0) < LATER_SHARE * len(heard):
        winner = max((name for name in votes if name), key=votes.__getitem__, default=None)
    return next((each for each in heard if each.round == winner), None)


def together(heard: list[Witness]) -> list[Witness]:
    """Merge the evidence of training logs that could belong to several rounds."""
    logs = tuple(log for each in heard for log in each.logs)
    if len(logs) < 2:
        return heard
    newest = max((each for each in heard if each.logs), key=lambda each: each.logs[0].began_s or 0)
    one = newest._replace(
        round=round_of(logs),
        logs=logs,
        seen=f"{len(logs)} training logs, among them {newest.seen.removeprefix('a training log ')}",
    )
    return [one if each.logs else each for each in heard]


def is_podiums(name: str | None) -> bool:
    """Return whether podium runs a round."""
    return name is not None and registry.kind_of_round(name) == "podium"


def of_names(target: Target) -> Witness | None:
    """Read the round from folder names in the style of the published repositories."""
    for part in reversed(target.path.parts):
        if match := NAMED.search(part):
            name = f"{match[1]}-{match[2]}"
            return Witness(
                name if name in registry.round_names() else None, f"a folder called {part}"
            )
    return None


def witnesses(target: Target) -> Iterator[Path]:
    """Yield the files that can indicate a path's round, nearest first."""
    path, place = target.path, target.place
    match target.kind:
        case Kind.LOG | Kind.SYSTEM_FILE:
            yield path
            if target.kind is Kind.SYSTEM_FILE and place and place.system:
                yield from of_system(place.home / "results" / place.system)
        case Kind.SET:
            yield from filed_logs(path)
        case Kind.RUN | Kind.RUNS | Kind.ENTRY | Kind.AUDIT:
            yield from of_runs(path)
        case Kind.MEASUREMENTS if place:
            yield path
            yield from of_runs(
                place.home / "results" / path.parent.relative_to(place.home / "measurements")
            )
        case Kind.BENCHMARK:
            yield from of_benchmark(path)
        case Kind.SYSTEM:
            yield from of_system(path)
        case Kind.ORGANISATION if place:
            yield from of_home(place)
        case Kind.TREE:
            yield from spread(of_home(Place(home=home)) for home in homes(path))


def sets_of(target: Target) -> Iterator[Path]:
    """Yield two logs of every training set of an organisation or a tree."""
    for home in homes_of(target):
        for system in folders(home / "results"):
            for folder in (system, *folders(system)):
                yield from islice(filed_logs(folder), 2)


def homes_of(target: Target) -> list[Path]:
    """Return the organisations' folders of a tree, or that of an organisation."""
    return (
        sorted(homes(target.path))
        if target.kind is Kind.TREE
        else [target.place.home]
        if target.place
        else []
    )


def neighbours(target: Target) -> Iterator[Path]:
    """Yield the files next to a log or run that gives no evidence."""
    above = target.path.parent
    if target.kind is Kind.LOG:
        yield from filed_logs(above)
    if target.kind in (Kind.RUN, Kind.RUNS):
        yield from of_runs(above.parent if above.name.casefold() in MODES else above)


def of_home(place: Place) -> Iterator[Path]:
    """Yield logs of every system of an organisation, alternating between systems."""
    return spread(of_system(system) for system in folders(place.home / "results"))


def distinct(files: Iterable[Path]) -> Iterator[Path]:
    """Yield each file once."""
    seen: set[Path] = set()
    for file in files:
        if file not in seen:
            seen.add(file)
            yield file


def filed_at(place: Place) -> Iterator[Path]:
    """Yield an organisation's logs and its system descriptions, alternating."""
    return spread([of_home(place), (place.home / "systems").glob("*.json")])


def of_system(system: Path) -> Iterator[Path]:
    """Yield logs of every benchmark of a system, alternating; for a flat set its own."""
    return chain(filed_logs(system), spread(of_benchmark(folder) for folder in folders(system)))


def of_benchmark(folder: Path) -> Iterator[Path]:
    """Yield the training logs of a benchmark, and the LoadGen files of its scenarios."""
    return chain(filed_logs(folder), spread(of_runs(scenario) for scenario in folders(folder)))


def of_runs(path: Path, depth: int = 3) -> Iterator[Path]:
    """Yield LoadGen files in a folder and below it: an audit, an entry, its performance runs, or
    one run.
    """
    if found := [name for name in (RUN_RECORD, DETAIL, SUMMARY) if is_file(f"{path}/{name}")]:
        yield from (path / name for name in found)
        if path.name.casefold() not in MODES and not path.name.startswith("run_"):
            return
    for folder in folders(path) if depth else ():
        yield from of_runs(folder, depth - 1)


def spread(sources: Iterable[Iterator[Path]]) -> Iterator[Path]:
    """Take one file from each source in turn, so that a few files represent a whole tree."""
    waiting = list(islice(sources, 4 * ASKED))
    while waiting:
        left = []
        for source in waiting:
            file = next(source, None)
            if file is not None:
                yield file
                left.append(source)
        waiting = left
