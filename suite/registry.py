"""Loads entry points: workloads, engines, rounds, rules, scorers, agreements, inputs, schemas and commands.

The five workloads use exactly what a third party has.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from suite import plugins
from suite.errors import MissingError, RequestError, unknown
from suite.files.layout import file_sha256
from suite.process.installation import RUN, install

if TYPE_CHECKING:  # the command line's help needs names only
    from suite.bare_network import BareNetwork
    from suite.dataset import DataSet
    from suite.engine import Engine
    from suite.input import Input
    from suite.rounds import Round, RoundKind
    from suite.rounds.published_inference import PublishedInference
    from suite.rounds.published_training import PublishedTraining
    from suite.terms import Precision
    from suite.workload import Run, Scores, Trial, Workload

WORKLOADS: Final = "podium.workloads"
SCORERS: Final = "podium.scorers"
AGREEMENTS: Final = "podium.agreements"
ROUNDS: Final = "podium.rounds"
RULES: Final = "podium.rules"
SCHEMAS: Final = "podium.schemas"
ENGINES: Final = "podium.engines"
INPUTS: Final = "podium.inputs"
NETWORKS: Final = "podium.networks"
COMMANDS: Final = "podium.commands"

DEFAULT_ROUND: Final = "podium-v1"
COMPATIBILITY: Final = "compatibility"
"""Lies among the rounds and is none: which of them may be compared (suite.rounds.compatibility)."""
PUBLISHED: Final = re.compile(r"(?:training|inference|hpc)-v\d+\.\d+")
"""What published rounds are called."""

Scorer: TypeAlias = "Callable[[Mapping[int, bytes], Path], Scores]"
Agreement: TypeAlias = Callable[[bytes, bytes], bool]
"""Tells whether two answers to one sample may come from one model: sums of floats depend on the size of the batch."""


@cache
def points(group: str) -> Mapping[str, EntryPoint]:
    """Give the entry points of a group by name; the first of two with the same name counts."""
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        found.setdefault(point.name, point)
    return dict(sorted(found.items()))


def resolve(group: str, kind: str, name: str) -> Any:
    """Load one entry point; RequestError names the nearest, MissingError what is not installed, or is broken in another package."""
    if name not in points(group):
        raise unknown(kind, name, points(group))
    point = points(group)[name]
    try:
        return point.load()
    except ImportError as error:
        if plugins.own(point):
            raise MissingError(f"{kind} '{name}' needs {error.name or error}: {install(extra_of(point))}") from error
        raise MissingError(f"{kind} '{name}' cannot be loaded: {plugins.broken(point, error)}") from error
    except Exception as error:  # whatever a module of somebody else does when it is imported
        if plugins.own(point):
            raise
        raise MissingError(f"{kind} '{name}' cannot be loaded: {plugins.broken(point, error)}") from error


def loaded(group: str, kind: str, names: Iterable[str] | None = None) -> Iterator[tuple[str, Any]]:
    """Load the entry points of a group, all or some; another package's that is broken is warned of and passed over."""
    for name in points(group) if names is None else names:
        try:
            yield name, resolve(group, kind, name)
        except MissingError as error:
            if plugins.own(points(group)[name]):
                raise
            plugins.warn(points(group)[name], str(error))


def made(group: str, kind: str, name: str) -> Any:
    """Load a class and make its object."""
    maker = resolve(group, kind, name)
    point = points(group)[name]
    try:
        return maker()
    except Exception as error:
        if plugins.own(point):
            raise
        raise MissingError(f"{kind} '{name}' cannot be made: {plugins.broken(point, error)}") from error


def extra_of(point: EntryPoint) -> str:
    """Name the extra that an entry point depends on; `run` where it says none."""
    return point.extras[0] if point.extras else RUN


def workload(name: str) -> "Workload":
    """Make the workload of that name."""
    return cast("Workload", made(WORKLOADS, "workload", name))


def frameworks(workload: "Workload") -> frozenset[str] | None:
    """Give the frameworks that a workload has networks of, where it says so as `frameworks`."""
    return getattr(workload, "frameworks", None)


def trial(workload: "Workload", framework: str, device: str) -> "Trial | None":
    """Give a workload's tiny networks in a framework, where it says so as `trial`."""
    maker: Callable[[str, str], Trial] | None = getattr(workload, "trial", None)
    return maker(framework, device) if maker else None


def data_set(workload: "Workload", run: "Run") -> "DataSet | None":
    """Give the data that a run reads, to be looked over, where the workload says so as `data_set`."""
    maker: Callable[[Run], DataSet] | None = getattr(workload, "data_set", None)
    return maker(run) if maker else None


def engine(name: str) -> "Engine[Any]":
    """Make the inference engine of that name; MissingError where two packages have one: nobody could tell which of them served."""
    found = [point for point in entry_points(group=ENGINES) if point.name == name]
    if len(found) > 1:
        raise MissingError(f"engine '{name}' comes from {' and from '.join(sorted(map(plugins.package, found)))}: uninstall all but one of them")
    return cast("Engine[Any]", made(ENGINES, "engine", name))


def engine_package(name: str) -> str:
    """Name the distribution that an engine comes from, with its version and the SHA-256 of its module."""
    point = points(ENGINES)[name]
    spec = find_spec(point.module)
    file = Path(spec.origin) if spec and spec.origin else None
    return f"{plugins.package(point)}, SHA-256 {file_sha256(file) if file and file.is_file() else 'unknown'}"


def caution(engine: "Engine[Any]") -> str:
    """Give what an engine says must be known before its results are trusted, where it says so as `caution`."""
    return str(getattr(engine, "caution", ""))


def engine_trial(engine: "Engine[Any]") -> "Callable[[str, Precision], None] | None":
    """Give an engine's own tiny run, where it has one as `trial`."""
    return getattr(engine, "trial", None)


def options(engine: "Engine[Any]") -> frozenset[str] | None:
    """Give the settings `engine.*` that an engine takes, where it says so as `options`."""
    return getattr(engine, "options", None)


def input_pipeline(name: str) -> "Input":
    """Make the input pipeline of that name."""
    return cast("Input", made(INPUTS, "input pipeline", name))


def network(name: str) -> "BareNetwork":
    """Make the bare network of that name."""
    return cast("BareNetwork", made(NETWORKS, "network", name))


def scorer(name: str) -> Scorer:
    """Give the function that turns answers and truth into scores."""
    return cast(Scorer, resolve(SCORERS, "scorer", name))


def agreement(name: str) -> Agreement:
    """Give the function that compares two answers to one sample; where a workload has none, bytes are compared."""
    return cast(Agreement, resolve(AGREEMENTS, "agreement", name)) if name in points(AGREEMENTS) else bytes.__eq__


@cache
def round_names() -> tuple[str, ...]:
    """Name all rounds: those with a file in `suite.rounds`."""
    return tuple(sorted({file.round for file in round_files() if file.round}))


@cache
def round(name: str = DEFAULT_ROUND) -> "Round":
    """Load a round that is run; RequestError names the nearest, or says that a published round is not run."""
    from suite.rounds.load import load

    if kind_of_round(name) != "podium":
        raise RequestError(f"round {name} is a published round: its results can be checked and scored, but it cannot be run")
    return load(name, texts_of_round(name))


@cache
def kind_of_round(name: str) -> "RoundKind":
    """Say whether a round is run, or holds published training or inference results; RequestError names the nearest."""
    from suite.rounds.load import kind_of

    return kind_of(name, texts_of_round(name))


@cache
def published_training(name: str) -> "PublishedTraining":
    """Load a published training round."""
    from suite.rounds.load import merge
    from suite.rounds.published_training import from_tables

    return from_tables(name, *merge(name, texts_of_round(name)))


@cache
def published_inference(name: str) -> "PublishedInference":
    """Load a published inference round."""
    from suite.rounds.load import merge
    from suite.rounds.published_inference import from_tables

    return from_tables(name, *merge(name, texts_of_round(name)))


@cache
def texts_of_round(name: str) -> Sequence[str]:
    """Give the TOML texts of a round, without those of other packages that do not fit it.

    RequestError names the nearest, or all for another published round, whose rules no other has.
    """
    found = [file for file in round_files() if file.round == name]
    if not found and PUBLISHED.fullmatch(name):
        raise RequestError(f"unknown round '{name}'; known: {', '.join(round_names())}")
    if not found:
        raise unknown("round", name, round_names())
    base = [file for file in found if plugins.own(file.point)] or found[:1]
    texts = [file.text for file in base]
    for file in found:
        if file not in base and fits(name, texts, file):
            texts.append(file.text)
    return texts


def fits(name: str, texts: Sequence[str], file: "PackageFile") -> bool:
    """Tell whether another package's file can join a round; a warning says what is wrong with it."""
    from suite.rounds.load import check

    try:
        check(name, [*texts, file.text])
    except (RequestError, TOMLDecodeError, RecursionError) as error:
        plugins.warn(file.point, f"{file.path} of package {plugins.package(file.point)} is ignored in round {name}: {error}")
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """One file that a package of the group `podium.rounds` or `podium.schemas` holds."""

    point: EntryPoint
    path: str
    text: str

    @property
    def round(self) -> str:
        """The round that it belongs to."""
        return Path(self.path).stem


@cache
def round_files() -> Sequence[PackageFile]:
    """Give every file of the group `podium.rounds`; another package's that is broken is warned of and passed over."""
    found = (file for file in package_files(ROUNDS, ".toml") if file.round != COMPATIBILITY)
    return tuple(file for file in found if plugins.own(file.point) or judged(file.point))


def judged(point: EntryPoint) -> bool:
    """Tell whether another package's own rules can be loaded: a result that is judged without them would count where it must not."""
    rules = [name for name, each in points(RULES).items() if plugins.package(each) == plugins.package(point)]
    return len(list(loaded(RULES, "rules", rules))) == len(rules)


def package_files(group: str, ending: str) -> Iterator[PackageFile]:
    """Yield the files of the packages of a group, podium's first; a package that cannot be read is warned of."""
    by_package = {point.value: point for point in points(group).values()}
    for point in sorted(by_package.values(), key=lambda point: (not plugins.own(point), point.value)):
        try:
            yield from files_of(point, ending)
        except Exception as error:  # a package is imported to be read
            if plugins.own(point):
                raise
            plugins.warn(point, f"{group} of {plugins.broken(point, error)}")


def files_of(point: EntryPoint, ending: str) -> list[PackageFile]:
    """Read the files of one package."""
    from importlib.resources import files

    found = [file for file in files(point.value).iterdir() if file.name.endswith(ending)]
    return [PackageFile(point=point, path=str(file), text=file.read_text("utf-8")) for file in found]
