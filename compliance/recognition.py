"""By which round a path is judged, told from its content: the dialect of a log, the version of LoadGen, podium's own stamps.

A log tells its dialect in its first record, wherever that stands; the rest is not read. Of a set, an entry or a tree a
few logs are asked: one that bears podium's stamps decides, else the majority. Where no content tells, the names of the
folders above do.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final

from compliance.place import Place, folders, homes, is_file, training_logs
from compliance.tree import MODES, Kind, Target, is_run
from suite import registry
from suite.layout import DETAIL, RUN_RECORD, SUMMARY
from suite.reading import opened

PODIUM: Final = registry.DEFAULT_ROUND
CHUNK: Final = 1 << 20
READ_LIMIT: Final = 64 << 20
"""Bytes that are searched for a first record; 91 % of the lines of published training logs are none."""
HEAD: Final = 1 << 16
"""Bytes behind the first record in which podium's stamps stand."""
ASKED: Final = 24
"""Logs of a set or tree that are asked."""

RECORD: Final = re.compile(rb':::MLLOG|:::MLL (?=[-\d])|^MLPerf: \w+ \[\d|"ts": \d+ns : |^\S+ : LoadgenVersionInfo|version : \S+ @ ', re.MULTILINE)
"""The first record of a training log, or of LoadGen's detail log before 1.0, whose lines are text."""
STAMP: Final = re.compile(rb'"key": ?"podium_round", ?"value": ?"([^"\\]{1,40})"')
MARK: Final = re.compile(rb'"key": ?"(?:podium_\w+|campaign_nonce|loadgen_version)"')
"""Podium's own events; LoadGen's detail log has had JSON records since 1.0, later than the rounds that are history here."""
VERSION: Final = re.compile(rb"version : (\S+) @ ")
SEEDS: Final = {b"3133965575612453542": "inference-v0.5", b"12786827339337101903": "inference-v0.7"}
"""qsl_rng_seed of a round. Source: mlcommons/inference, v0.5/mlperf.conf and mlperf.conf of branch r0.7."""
NAMED: Final = re.compile(r"(training|inference)(?:_results)?[_-](v0\.\d)")


def round_of(target: Target) -> str | None:
    """Name the round of a path; None where neither its content nor its folders tell one."""
    if target.kind in (Kind.BUNDLE, Kind.CHECKPOINT):
        return None
    place = target.place
    return told(witnesses(target)) or told(neighbours(target)) or (told(of_home(place)) if place else None) or of_names(target)


def told(files: Iterable[Path]) -> str | None:
    """Ask the first few files: podium's stamps decide, else the round that most of them tell; the first of two that are even."""
    votes = Counter(name for file in islice(files, ASKED) if (name := round_of_file(file)))
    return next((name for name in votes if registry.kind_of_round(name) == "podium"), max(votes, key=votes.__getitem__, default=None))


def of_names(target: Target) -> str | None:
    """Read the round from the folders' names, as the published repositories have them."""
    for part in reversed(target.path.parts):
        match = NAMED.search(part)
        if match and f"{match[1]}-{match[2]}" in registry.round_names():
            return f"{match[1]}-{match[2]}"
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


def round_of_file(path: Path) -> str | None:
    """Name the round that one file tells; None for a file without a record, and for one that cannot be read."""
    if path.name == RUN_RECORD:
        return PODIUM
    head = first_record(path)
    if path.name.endswith(".json"):
        return PODIUM if b'"podium"' in head else None
    if head.startswith(b":::MLLOG"):
        stamp = STAMP.search(head)
        if stamp or MARK.search(head):
            return known(stamp[1].decode("latin-1") if stamp else PODIUM)
        return "training-v0.7"
    if head.startswith((b":::MLL ", b"MLPerf: ")):
        return "training-v0.6"
    return of_loadgen(head)


def known(name: str) -> str:
    """Give a stamped round where it is one that is run; podium's own where it is not: then the judge objects to the stamp."""
    return name if name in registry.round_names() and registry.kind_of_round(name) == "podium" else PODIUM


def of_loadgen(head: bytes) -> str | None:
    """Read LoadGen's version, else the seeds that it used, from a detail log or summary of text lines."""
    version = VERSION.search(head)
    if version:
        return "inference-v0.5" if version[1].startswith((b".5", b"0.5")) else "inference-v0.7"
    return next((name for seed, name in SEEDS.items() if seed in head), "inference-v0.5" if b"LoadgenVersionInfo" in head else None)


def first_record(path: Path) -> bytes:
    """Read what stands from the first record on; a document or summary, which has none, from its start; nothing where that fails."""
    try:
        with opened(path) as stream:
            block = stream.read(CHUNK)
            if path.name == SUMMARY or path.name.endswith(".json"):
                return block
            while not (match := RECORD.search(block)) and stream.tell() < READ_LIMIT:
                more = stream.read(CHUNK)
                if not more:
                    return b""
                block = block[-HEAD:] + more
            if match is None:
                return b""
            return block[match.start() :] + stream.read(HEAD)
    except (OSError, ValueError):
        return b""
