"""Loads entry points: workloads, engines, rounds, rules, scorers, agreements, examples, episodes,
inputs, schemas and commands.

The six workloads use the same interface as third-party packages.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from tomllib import TOMLDecodeError
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from suite import plugins
from suite.errors import MissingError, RequestError, unknown
from suite.files.layout import file_sha256
from suite.files.package_files import PackageFile, files_of
from suite.process.installation import RUN, install

if TYPE_CHECKING:  # only names are needed for the command line's help
    from suite.dataset import DataSet
    from suite.engine import Engine
    from suite.input import Input
    from suite.power import PowerSource
    from suite.rounds import Round, RoundKind
    from suite.rounds.published_inference import PublishedInference
    from suite.rounds.published_training import PublishedTraining
    from suite.rounds.served import ServedRound
    from suite.studies.bare_network import BareNetwork
    from suite.terms import Precision
    from suite.workload import Run, Scores, Trial, Workload

WORKLOADS: Final = "podium.workloads"
SCORERS: Final = "podium.scorers"
AGREEMENTS: Final = "podium.agreements"
EXAMPLES: Final = "podium.examples"
EPISODES: Final = "podium.episodes"
ROUNDS: Final = "podium.rounds"
RULES: Final = "podium.rules"
SCHEMAS: Final = "podium.schemas"
ENGINES: Final = "podium.engines"
INPUTS: Final = "podium.inputs"
NETWORKS: Final = "podium.networks"
IMPORTS: Final = "podium.imports"
"""Packages with a table of other sources' weights."""
COMMANDS: Final = "podium.commands"
POWER: Final = "podium.power"

DEFAULT_ROUND: Final = "podium-v1"
COMPATIBILITY: Final = "compatibility"
"""A file among the rounds that is not a round: it states which of them are comparable
(suite.rounds.compatibility).
"""
FOREIGN: Final = "foreign-weights"
"""Another such file, beside a workload: names of other sources' weights
(harness.serving.weights.layouts).
"""
PUBLISHED: Final = re.compile(r"(?:training|inference|hpc)-v\d+\.\d+")
"""Names of published rounds."""

Scorer: TypeAlias = "Callable[[Mapping[int, bytes], Path], Scores]"
Agreement: TypeAlias = Callable[[bytes, bytes], bool]
"""Decides whether two answers to one sample may come from the same model: sums of floats depend on
the batch size.
"""


@cache
def points(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name; on a name clash the first one wins."""
    found: dict[str, EntryPoint] = {}
    for point in plugins.offered(group):
        found.setdefault(point.name, point)
    return dict(sorted(found.items()))


def resolve(group: str, kind: str, name: str) -> Any:
    """Load one entry point; RequestError names the nearest, MissingError names what is not
    installed, or is broken in another package.
    """
    if name not in points(group):
        raise unknown(kind, name, points(group))
    point = points(group)[name]
    try:
        return point.load()
    except ImportError as error:
        if plugins.own(point):
            raise MissingError(
                f"{kind} '{name}' needs {error.name or error}: {install(extra_of(point))}"
            ) from error
        raise MissingError(
            f"{kind} '{name}' cannot be loaded: {plugins.broken(point, error)}"
        ) from error
    except Exception as error:  # importing another package's module may raise anything
        if plugins.own(point):
            raise
        raise MissingError(
            f"{kind} '{name}' cannot be loaded: {plugins.broken(point, error)}"
        ) from error


def loaded(group: str, kind: str, names: Iterable[str] | None = None) -> Iterator[tuple[str, Any]]:
    """Load the entry points of a group, all or some; broken ones of other packages cause a warning
    and are skipped.
    """
    for name in points(group) if names is None else names:
        try:
            yield name, resolve(group, kind, name)
        except MissingError as error:
            if plugins.own(points(group)[name]):
                raise
            plugins.warn(points(group)[name], str(error))


def made(group: str, kind: str, name: str) -> Any:
    """Load a class and instantiate it."""
    maker = resolve(group, kind, name)
    point = points(group)[name]
    try:
        return maker()
    except Exception as error:
        if plugins.own(point):
            raise
        raise MissingError(
            f"{kind} '{name}' cannot be made: {plugins.broken(point, error)}"
        ) from error


def extra_of(point: EntryPoint) -> str:
    """Return the extra that an entry point depends on; `run` if it names none."""
    return point.extras[0] if point.extras else RUN


def workload(name: str) -> "Workload":
    """Return the workload of that name."""
    return cast("Workload", made(WORKLOADS, "workload", name))


def frameworks(workload: "Workload") -> frozenset[str] | None:
    """Return the frameworks of a workload's networks, if it defines `frameworks`."""
    return getattr(workload, "frameworks", None)


def trial(workload: "Workload", framework: str, device: str) -> "Trial | None":
    """Return a workload's tiny networks in a framework, if it defines `trial`."""
    maker: Callable[[str, str], Trial] | None = getattr(workload, "trial", None)
    return maker(framework, device) if maker else None


def data_set(workload: "Workload", run: "Run") -> "DataSet | None":
    """Return the data set of a run, ready to survey, if the workload defines `data_set`."""
    maker: Callable[[Run], DataSet] | None = getattr(workload, "data_set", None)
    return maker(run) if maker else None


def engine(name: str) -> "Engine[Any]":
    """Return the inference engine of that name; MissingError if two packages provide it: it would
    be unclear which one served.
    """
    found = [point for point in plugins.offered(ENGINES) if point.name == name]
    if len(found) > 1:
        raise MissingError(
            f"engine '{name}' comes from {' and from '.join(sorted(map(plugins.package, found)))}:"
            " uninstall all but one of them"
        )
    return cast("Engine[Any]", made(ENGINES, "engine", name))


def engine_package(name: str) -> str:
    """Return the distribution of an engine, with its version and the SHA-256 of its module."""
    point = points(ENGINES)[name]
    spec = find_spec(point.module)
    file = Path(spec.origin) if spec and spec.origin else None
    return (
        f"{plugins.package(point)}, SHA-256"
        f" {file_sha256(file) if file and file.is_file() else 'unknown'}"
    )


def caution(engine: "Engine[Any]") -> str:
    """Return an engine's caveat about its results, if it defines `caution`."""
    return str(getattr(engine, "caution", ""))


def engine_trial(engine: "Engine[Any]") -> "Callable[[str, Precision], None] | None":
    """Return an engine's own tiny run, if it defines `trial`."""
    return getattr(engine, "trial", None)


def options(engine: "Engine[Any]") -> frozenset[str] | None:
    """Return the settings `engine.*` that an engine accepts, if it defines `options`."""
    return getattr(engine, "options", None)


def input_pipeline(name: str) -> "Input":
    """Return the input pipeline of that name."""
    return cast("Input", made(INPUTS, "input pipeline", name))


def power_source(name: str) -> "PowerSource":
    """Return the power source of that name."""
    return cast("PowerSource", made(POWER, "power source", name))


def network(name: str) -> "BareNetwork":
    """Return the bare network of that name."""
    return cast("BareNetwork", made(NETWORKS, "network", name))


def scorer(name: str) -> Scorer:
    """Return the function that turns answers and truth into scores."""
    return cast(Scorer, resolve(SCORERS, "scorer", name))


def agreement(name: str) -> Agreement:
    """Return the function that compares two answers to one sample; workloads without one compare
    bytes.
    """
    return (
        cast(Agreement, resolve(AGREEMENTS, "agreement", name))
        if name in points(AGREEMENTS)
        else bytes.__eq__
    )


@cache
def round_names() -> tuple[str, ...]:
    """Return the names of all rounds: those with a file in `suite.rounds`."""
    return tuple(sorted({file.round for file in round_files() if file.round}))


@cache
def round(name: str = DEFAULT_ROUND) -> "Round":
    """Load a runnable round; RequestError names the nearest, or says that a published round cannot
    be run.
    """
    from suite.rounds.load import load

    if kind_of_round(name) != "podium":
        raise RequestError(
            f"round {name} is a published round: its results can be checked and scored, but it"
            " cannot be run"
        )
    return load(name, texts_of_round(name))


@cache
def kind_of_round(name: str) -> "RoundKind":
    """Return whether a round is runnable, or has published training or inference results;
    RequestError names the nearest.
    """
    from suite.rounds.load import kind_of

    return kind_of(name, texts_of_round(name))


@cache
def published_training(name: str) -> "PublishedTraining":
    """Load a published training round."""
    from suite.rounds.published_training import from_tables
    from suite.rounds.rows import joined

    return from_tables(name, *joined(name, texts_of_round(name)))


@cache
def published_inference(name: str) -> "PublishedInference":
    """Load a published inference round."""
    from suite.rounds.published_inference import from_tables
    from suite.rounds.rows import joined

    return from_tables(name, *joined(name, texts_of_round(name)))


@cache
def served_round(name: str) -> "ServedRound":
    """Load a published inference round since v1.0."""
    from suite.rounds.rows import joined
    from suite.rounds.served import from_tables

    return from_tables(name, *joined(name, texts_of_round(name)))


@cache
def texts_of_round(name: str) -> Sequence[str]:
    """Return the TOML texts of a round, without those of other packages that do not fit it.

    RequestError names the nearest round, or, for an unknown published round, all rounds: no other
    has its rules.
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


def fits(name: str, texts: Sequence[str], file: PackageFile) -> bool:
    """Return whether another package's file can join a round; warn about what is wrong with it."""
    from suite.rounds.load import check

    try:
        check(name, [*texts, file.text])
    except (RequestError, TOMLDecodeError, RecursionError) as error:
        plugins.warn(
            file.point,
            f"{file.path} of package {plugins.package(file.point)} is ignored in round {name}:"
            f" {error}",
        )
        return False
    return True


@cache
def round_files() -> Sequence[PackageFile]:
    """Return every file of the group `podium.rounds`; broken ones of other packages cause a warning
    and are skipped.
    """
    found = (
        file
        for file in package_files(ROUNDS, ".toml")
        if file.round not in (COMPATIBILITY, FOREIGN)
    )
    return tuple(file for file in found if plugins.own(file.point) or judged(file.point))


def judged(point: EntryPoint) -> bool:
    """Return whether another package's own rules can be loaded: without them, the judge would
    accept results that it must reject.
    """
    rules = [
        name
        for name, each in points(RULES).items()
        if plugins.package(each) == plugins.package(point)
    ]
    return len(list(loaded(RULES, "rules", rules))) == len(rules)


def package_files(group: str, ending: str) -> Iterator[PackageFile]:
    """Yield the files of the packages of a group, podium's first; warn about packages that cannot
    be read.
    """
    by_package = {point.value: point for point in points(group).values()}
    for point in sorted(
        by_package.values(), key=lambda point: (not plugins.own(point), point.value)
    ):
        try:
            yield from files_of(point, ending)
        except Exception as error:  # reading a package imports it
            if plugins.own(point):
                raise
            plugins.warn(point, f"{group} of {plugins.broken(point, error)}")
