"""Entry points -> workloads, engines, rounds, rules, scorers, agreements, inputs, schemas and commands.

The five workloads use exactly what a third party has.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from suite.errors import MissingError, RequestError, unknown

if TYPE_CHECKING:  # the command line's help needs names only
    from suite.engine import Engine
    from suite.input import Input
    from suite.rounds import Round, RoundKind
    from suite.rounds.published_inference import PublishedInference
    from suite.rounds.published_training import PublishedTraining
    from suite.workload import Scores, Workload

WORKLOADS: Final = "podium.workloads"
SCORERS: Final = "podium.scorers"
AGREEMENTS: Final = "podium.agreements"
ROUNDS: Final = "podium.rounds"
RULES: Final = "podium.rules"
SCHEMAS: Final = "podium.schemas"
ENGINES: Final = "podium.engines"
INPUTS: Final = "podium.inputs"
COMMANDS: Final = "podium.commands"

DEFAULT_ROUND: Final = "podium-v1"
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
    """Load one entry point; RequestError names the nearest, MissingError the package that is not installed."""
    if name not in points(group):
        raise unknown(kind, name, points(group))
    try:
        return points(group)[name].load()
    except ImportError as error:
        raise MissingError(f"{kind} '{name}' needs {error.name or error}: install podium-suite[{extra_of(points(group)[name])}]") from error


def extra_of(point: EntryPoint) -> str:
    """Name the extra that an entry point depends on; `run` where it says none."""
    return point.extras[0] if point.extras else "run"


def workload(name: str) -> "Workload":
    """Make the workload of that name."""
    return cast("Workload", resolve(WORKLOADS, "workload", name)())


def frameworks(workload: "Workload") -> frozenset[str] | None:
    """Give the frameworks that a workload has networks of, where it says so as `frameworks`."""
    return getattr(workload, "frameworks", None)


def engine(name: str) -> "Engine[Any]":
    """Make the inference engine of that name."""
    return cast("Engine[Any]", resolve(ENGINES, "engine", name)())


def caution(engine: "Engine[Any]") -> str:
    """Give what an engine says must be known before its results are trusted, where it says so as `caution`."""
    return str(getattr(engine, "caution", ""))


def options(engine: "Engine[Any]") -> frozenset[str] | None:
    """Give the settings `engine.*` that an engine takes, where it says so as `options`."""
    return getattr(engine, "options", None)


def input_pipeline(name: str) -> "Input":
    """Make the input pipeline of that name."""
    return cast("Input", resolve(INPUTS, "input pipeline", name)())


def scorer(name: str) -> Scorer:
    """Give the function that turns answers and truth into scores."""
    return cast(Scorer, resolve(SCORERS, "scorer", name))


def agreement(name: str) -> Agreement:
    """Give the function that compares two answers to one sample; where a workload has none, bytes are compared."""
    return cast(Agreement, resolve(AGREEMENTS, "agreement", name)) if name in points(AGREEMENTS) else bytes.__eq__


@cache
def round_names() -> tuple[str, ...]:
    """Name all rounds: those with a file in `suite.rounds`."""
    return tuple(sorted({name for _, name, _ in round_files() if name}))


@cache
def round(name: str = DEFAULT_ROUND) -> "Round":
    """Load a round that is run; RequestError names the nearest, or says that a published round is not run."""
    from suite.rounds.load import load

    if kind_of_round(name) != "podium":
        raise RequestError(f"round {name} is a published one: its results are judged and scored, nothing is run by it")
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


def texts_of_round(name: str) -> list[str]:
    """Give the TOML texts of a round; RequestError names the nearest, or all for another published round, whose rules no other has."""
    texts = [text for _, stem, text in round_files() if stem == name]
    if not texts and PUBLISHED.fullmatch(name):
        raise RequestError(f"unknown round '{name}'; known: {', '.join(round_names())}")
    if not texts:
        raise unknown("round", name, round_names())
    return texts


@cache
def round_files() -> Sequence[tuple[str, str, str]]:
    """Give (package, round, TOML text) of every file that a package of the group holds."""
    return tuple(read_round_files())


def read_round_files() -> Iterator[tuple[str, str, str]]:
    """Read them."""
    from importlib.resources import files

    for package in sorted({point.value for point in points(ROUNDS).values()}):
        for file in files(package).iterdir():
            if file.name.endswith(".toml"):
                yield package, file.name.removesuffix(".toml"), file.read_text("utf-8")
