"""Recognises a path's round from its content: podium's own log header, LoadGen's seeds, a log's dialect and date.

Of a set, an entry or a tree a few logs are asked: one that bears podium's stamps decides, else the majority, unless a good
part of them is of a later round, which may hold results of an earlier one. Where no content tells, the names of the folders
above do; they also tell a round that is not known here from an earlier one that its logs could be of.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final

from compliance.recognition.evidence import Witness, witness
from compliance.recognition.path_kind import MODES, Kind, Target, is_run
from compliance.recognition.tree_path import Place, folders, homes, is_file, training_logs
from suite import registry
from suite.files.layout import DETAIL, RUN_RECORD, SUMMARY

ASKED: Final = 24
"""Logs of a set or tree that are asked."""
LATER_SHARE: Final = 0.25
"""Share of the logs from which on a result is of the later round that they tell."""
UNROUNDED: Final = (Kind.BUNDLE, Kind.CHECKPOINT, Kind.DOCUMENT, Kind.EMPTY, Kind.STUDY)
"""What is judged by podium's own round, whatever lies around it."""
NAMED: Final = re.compile(r"(training|inference|hpc)(?:_results)?[_-](v\d+\.\d+)")
"""A folder that is called as the published repositories are."""


def recognised(target: Target) -> Witness | None:
    """Tell the round of a path, and by what; None where neither its content nor its folders tell anything."""
    if target.kind in UNROUNDED:
        return None
    found = told(witnesses(target)) or told(neighbours(target))
    if target.place and (found is None or not found.sure):
        found = told(filed_at(target.place)) or found
    named = of_names(target)
    overruled = found is None or (named and named.round is None and found.round and not is_podiums(found.round))
    return named if overruled else found


def told(files: Iterable[Path]) -> Witness | None:
    """Ask the first few files: podium's stamps decide, then later rounds, then the majority; the first of two that are even."""
    found = [told for file in islice(files, ASKED) if (told := witness(file))]
    heard = [each for each in found if each.sure] or found
    votes = Counter(each.round for each in heard)
    winner = next(filter(is_podiums, votes), None)
    if winner is None and votes.get(None, 0) < LATER_SHARE * len(heard):
        winner = max((name for name in votes if name), key=votes.__getitem__, default=None)
    return next((each for each in heard if each.round == winner), None)


def is_podiums(name: str | None) -> bool:
    """Tell a round that podium runs."""
    return name is not None and registry.kind_of_round(name) == "podium"


def of_names(target: Target) -> Witness | None:
    """Read the round from the folders' names, as the published repositories have them."""
    for part in reversed(target.path.parts):
        if match := NAMED.search(part):
            name = f"{match[1]}-{match[2]}"
            return Witness(name if name in registry.round_names() else None, f"a folder called {part}")
    return None


def witnesses(target: Target) -> Iterator[Path]:
    """Yield the files that tell the round of a path, the nearest first."""
    path, place = target.path, target.place
    match target.kind:
        case Kind.LOG | Kind.SYSTEM_FILE:
            yield path
            if target.kind is Kind.SYSTEM_FILE and place and place.system:
                yield from of_system(place.home / "results" / place.system)
        case Kind.SET:
            yield from training_logs(path)
        case Kind.RUN | Kind.RUNS | Kind.ENTRY | Kind.AUDIT:
            yield from of_runs(path)
        case Kind.MEASUREMENTS if place:
            yield path
            yield from of_runs(place.home / "results" / path.parent.relative_to(place.home / "measurements"))
        case Kind.BENCHMARK:
            yield from of_benchmark(path)
        case Kind.SYSTEM:
            yield from of_system(path)
        case Kind.ORGANISATION if place:
            yield from of_home(place)
        case Kind.TREE:
            yield from spread(of_home(Place(home=home)) for home in homes(path))


def neighbours(target: Target) -> Iterator[Path]:
    """Yield the files beside a log or a run that tells nothing."""
    above = target.path.parent
    if target.kind is Kind.LOG:
        yield from training_logs(above)
    if target.kind in (Kind.RUN, Kind.RUNS):
        yield from of_runs(above.parent if above.name.casefold() in MODES else above)


def of_home(place: Place) -> Iterator[Path]:
    """Yield logs of every system of an organisation, in turn."""
    return spread(of_system(system) for system in folders(place.home / "results"))


def filed_at(place: Place) -> Iterator[Path]:
    """Yield an organisation's logs, and a description of its systems."""
    return spread([of_home(place), (place.home / "systems").glob("*.json")])


def of_system(system: Path) -> Iterator[Path]:
    """Yield logs of every benchmark of a system, in turn; of a flat set its own."""
    return chain(training_logs(system), spread(of_benchmark(folder) for folder in folders(system)))


def of_benchmark(folder: Path) -> Iterator[Path]:
    """Yield the training logs of a benchmark, and LoadGen's of its scenarios."""
    return chain(training_logs(folder), spread(of_runs(scenario) for scenario in folders(folder)))


def of_runs(path: Path, depth: int = 3) -> Iterator[Path]:
    """Yield LoadGen's files in a folder and below it: of an audit, an entry, its performance runs, or one run."""
    if is_run(path) or is_file(path / RUN_RECORD):
        yield from (path / name for name in (RUN_RECORD, DETAIL, SUMMARY) if is_file(path / name))
        if path.name.casefold() not in MODES and not path.name.startswith("run_"):
            return
    for folder in folders(path) if depth else ():
        yield from of_runs(folder, depth - 1)


def spread(sources: Iterable[Iterator[Path]]) -> Iterator[Path]:
    """Take one file of each source in turn, so that a few files speak for a whole tree."""
    waiting = list(islice(sources, 4 * ASKED))
    while waiting:
        left = []
        for source in waiting:
            file = next(source, None)
            if file is not None:
                yield file
                left.append(source)
        waiting = left
