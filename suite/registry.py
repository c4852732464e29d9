"""Loads entry points: workloads with their parts, bare networks, kinds of studies, engines, rounds,
rules, inputs, schemas, sources of power and commands.

The seven workloads use the same interface as third-party packages.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, partial
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from tomllib import TOMLDecodeError
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from suite import plugins
from suite.contracts import (
    find_misfits,
    find_name_misfits,
    find_part_misfits,
    find_unknown_parts,
    list_part_functions,
)
from suite.errors import (
    MissingError,
    RequestError,
    UninstalledKindError,
    build_unknown_name_error,
)
from suite.extra_parts import EXTRA_PARTS
from suite.files.layout import compute_file_sha256
from suite.files.package_files import PackageFile, find_point_package, read_package_files
from suite.process.installation import RUN_EXTRA, format_install_command
from suite.terms import DEFAULT_FRAMEWORK

if TYPE_CHECKING:  # only names are needed for the command line's help
    from click import Command

    from suite.engine import Engine
    from suite.input import Input
    from suite.measurement.paired import ScoreSampler
    from suite.power import ExternalMeters, PowerSource
    from suite.prices import PriceReader
    from suite.rounds import Round
    from suite.rounds.endpoints_curve import EndpointsRound
    from suite.rounds.kind import RoundKind
    from suite.serving_sites import ServerStarter, SiteBuilder
    from suite.studies.bare_network import BareNetwork, BareNetworkRecord
    from suite.studies.kind import StudyKind
    from suite.terms import Precision
    from suite.time_stamps import TimeStampVerifier
    from suite.workload import Scores, Workload, WorkloadFramework

WORKLOAD_GROUP: Final = "podium.workloads"
ROUND_GROUP: Final = "podium.rounds"
RULE_GROUP: Final = "podium.rules"
SCHEMA_GROUP: Final = "podium.schemas"
ENGINE_GROUP: Final = "podium.engines"
INPUT_GROUP: Final = "podium.inputs"
NETWORK_GROUP: Final = "podium.networks"
FRAMEWORK_GROUP: Final = "podium.frameworks"
STUDY_GROUP: Final = "podium.studies"
COMMAND_GROUP: Final = "podium.commands"
OPTION_GROUP: Final = "podium.options"
SITE_GROUP: Final = "podium.sites"
SERVER_GROUP: Final = "podium.servers"
POWER_GROUP: Final = "podium.power"
METER_GROUP: Final = "podium.meters"
PRICE_GROUP: Final = "podium.prices"
TIME_STAMP_GROUP: Final = "podium.time_stamps"
ROUND_KIND_GROUP: Final = "podium.round_kinds"

DEFAULT_ROUND: Final = "podium-v1"
COMPATIBILITY_STEM: Final = "compatibility"
"""A file among the rounds that is not a round: it states which of them are comparable
(suite.rounds.compatibility).
"""
FOREIGN_WEIGHTS_FILE: Final = "foreign-weights.toml"
"""A file in a workload's package that is not a round either: names of other sources' weights
(harness.serving.weights.layouts).
"""
WORKLOAD_FILES: Final = {ROUND_GROUP: "podium-v*.toml", SCHEMA_GROUP: "training.*.json"}
"""Group of packages -> names of the files of this kind in a workload's package."""
PUBLISHED_ROUND_NAME: Final = re.compile(r"(?:training|inference|endpoints|hpc)-v\d+\.\d+")
"""Names of published rounds."""

R = TypeVar("R")

Scorer: TypeAlias = "Callable[[Mapping[int, bytes], Path], Scores]"
SamplerBuilder: TypeAlias = "Callable[[Mapping[int, bytes], Path], ScoreSampler]"
Agreement: TypeAlias = Callable[[bytes, bytes], bool]
"""Decides whether two answers to one sample may come from the same model: sums of floats depend on
the batch size.
"""


@cache
def map_entry_points(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name; on a name clash the first one wins. No package
    takes the place of what podium has itself, such as its judge.
    """
    points = sorted(
        plugins.select_entry_points(group), key=lambda each: not plugins.is_own_entry_point(each)
    )
    found: dict[str, EntryPoint] = {}
    for point in points:
        if found.setdefault(point.name, point) is not point and group == ROUND_KIND_GROUP:
            plugins.warn_about_package(
                point,
                f"kind of round '{point.name}' of {plugins.describe_package(point)} is left out:"
                " another one has that name",
            )
    return dict(sorted(found.items()))


def load_entry_point(group: str, kind: str, name: str) -> Any:
    """Load one entry point; RequestError names the nearest, MissingError names what is not
    installed, or is broken in another package.
    """
    require_entry_point(group, kind, name)
    point = map_entry_points(group)[name]
    return load_from_package(point, kind, name, point.load)


def require_entry_point(group: str, kind: str, name: str) -> None:
    """Check that an installed package offers an entry point; raises as `build_unlisted_name_error`
    returns.
    """
    known = map_entry_points(group)
    if name not in known:
        raise build_unlisted_name_error(group, kind, name, known)


def build_unlisted_name_error(
    group: str, kind: str, name: str, known: Iterable[str]
) -> MissingError | RequestError:
    """Return an error for a name that no installed package offers: MissingError says how to install
    one of podium's extras, RequestError names the nearest.
    """
    extra = EXTRA_PARTS.get((group, name))
    if extra is None:
        return build_unknown_name_error(kind, name, known)
    return MissingError(f"{kind} '{name}' is not installed: {format_install_command(extra)}")


def load_from_package(point: EntryPoint, kind: str, name: str, load: Callable[[], Any]) -> Any:
    """Load something of an entry point's package; MissingError names what is not installed, or is
    broken in another package.
    """
    try:
        return load()
    except ImportError as error:
        if plugins.is_own_entry_point(point):
            raise MissingError(
                f"{kind} '{name}' needs {error.name or error}:"
                f" {format_install_command(find_required_extra(point))}"
            ) from error
        raise MissingError(
            f"{kind} '{name}' cannot be loaded: {plugins.describe_broken_package(point, error)}"
        ) from error
    except (Exception, SystemExit) as error:  # another package's module may raise anything
        if plugins.is_own_entry_point(point):
            raise
        raise MissingError(
            f"{kind} '{name}' cannot be loaded: {plugins.describe_broken_package(point, error)}"
        ) from error


def iterate_loaded_points(
    group: str, kind: str, names: Iterable[str] | None = None
) -> Iterator[tuple[str, Any]]:
    """Load the entry points of a group, all or some; broken ones of other packages cause a warning
    and are skipped.
    """
    if names is None:
        names = map_entry_points(group)
    for name in names:
        try:
            yield name, load_entry_point(group, kind, name)
        except MissingError as error:
            if plugins.is_own_entry_point(map_entry_points(group)[name]):
                raise
            plugins.warn_about_package(map_entry_points(group)[name], str(error))


def build_plugin_object(
    group: str, kind: str, name: str, contract: type[Any], optional: type[Any] | None = None
) -> Any:
    """Load a class and instantiate it; MissingError if it is broken in another package, or does
    not fit its contract.
    """
    maker = load_entry_point(group, kind, name)
    point = map_entry_points(group)[name]
    try:
        built = maker()
    except (Exception, SystemExit) as error:
        if plugins.is_own_entry_point(point):
            raise
        raise MissingError(
            f"{kind} '{name}' cannot be made: {plugins.describe_broken_package(point, error)}"
        ) from error
    misfits = (*find_misfits(built, contract, optional), *find_name_misfits(built, name))
    plugins.require_fit(point, kind, misfits)
    return built


def load_function(group: str, kind: str, name: str, contract: type[Any]) -> Any:
    """Load a function; MissingError if it is broken in another package, or does not fit its
    contract.
    """
    function = load_entry_point(group, kind, name)
    plugins.require_fit(map_entry_points(group)[name], kind, find_misfits(function, contract))
    return function


def find_required_extra(point: EntryPoint) -> str:
    """Return the extra that an entry point depends on; `run` if it names none."""
    return point.extras[0] if point.extras else RUN_EXTRA


def load_workload(name: str) -> "Workload":
    """Return the record of the workload of that name, with its parts in frameworks that other
    packages bring.
    """
    from suite.workload import Workload

    workload = load_record(Workload, WORKLOAD_GROUP, "workload", name)
    for point in map_entry_points(FRAMEWORK_GROUP):
        if point.partition(".")[0] == name and (parts := load_workload_framework(point)):
            workload = workload.add_framework(parts)
    return workload


def load_workload_framework(name: str) -> "WorkloadFramework | None":
    """Return the record `WORKLOAD.FRAMEWORK` of a package that brings one; a broken one of another
    package causes a warning.
    """
    from suite.workload import WorkloadFramework

    try:
        return load_record(WorkloadFramework, FRAMEWORK_GROUP, "framework", name)
    except MissingError as error:
        point = map_entry_points(FRAMEWORK_GROUP)[name]
        if plugins.is_own_entry_point(point):
            raise
        plugins.warn_about_package(point, str(error))
        return None


def list_frameworks() -> Sequence[str]:
    """Return the default framework, and those that workloads have parts in by other packages."""
    brought = {name.partition(".")[2] for name in map_entry_points(FRAMEWORK_GROUP)}
    return (DEFAULT_FRAMEWORK, *sorted(brought - {DEFAULT_FRAMEWORK}))


def load_record(record_class: type[R], group: str, kind: str, name: str) -> R:
    """Load one entry point that names a record of a class, or an object of another class;
    MissingError if it names something else, or if a field of it does not fit.
    """
    require_entry_point(group, kind, name)
    try:
        record = load_entry_point(group, kind, name)
    except MissingError as error:
        unknown = find_unknown_parts(error.__cause__, record_class)
        plugins.require_fit(map_entry_points(group)[name], kind, unknown)
        raise
    misfits = list(find_misfits(record, record_class))
    if is_dataclass(record) or group == STUDY_GROUP:
        misfits += find_name_misfits(record, name)
    plugins.require_fit(map_entry_points(group)[name], kind, misfits)
    return cast(R, record)


def load_click_command(name: str) -> "Command":
    """Return the command of that name."""
    from click import Command

    return load_record(Command, COMMAND_GROUP, "command", name)


def load_workload_part(workload: str, kind: str, part: str) -> Any:
    """Load a part of a workload that is one function; None if the workload has none, or is not
    installed.
    """
    if workload not in map_entry_points(WORKLOAD_GROUP):
        return None
    return load_part(WORKLOAD_GROUP, kind, workload, load_workload(workload), part)


def load_part(group: str, kind: str, name: str, record: object, part: str) -> Any:
    """Load the `module:attribute` that a record has as a part, None if it has none; MissingError
    as for an entry point, or if it cannot be called as the record's class says.
    """
    target = getattr(record, part)
    if target is None:
        return None
    point = map_entry_points(group)[name]
    loaded = load_from_package(point, kind, name, partial(resolve_name, target))
    plugins.require_fit(point, kind, find_part_misfits(record, part, loaded))
    return loaded


def load_engine(name: str) -> "Engine[Any]":
    """Return the inference engine of that name; MissingError if two packages provide it: it would
    be unclear which one served.
    """
    from suite.engine import Engine, OptionalEngineParts

    found = [point for point in plugins.select_entry_points(ENGINE_GROUP) if point.name == name]
    if len(found) > 1:
        raise MissingError(
            f"engine '{name}' comes from"
            f" {' and from '.join(sorted(map(plugins.describe_package, found)))}: uninstall all but"
            " one of them"
        )
    return cast(
        "Engine[Any]",
        build_plugin_object(ENGINE_GROUP, "engine", name, Engine, OptionalEngineParts),
    )


def describe_engine_package(name: str) -> str:
    """Return the distribution of an engine, with its version and the SHA-256 of its module."""
    point = map_entry_points(ENGINE_GROUP)[name]
    spec = find_spec(point.module)
    file = Path(spec.origin) if spec and spec.origin else None
    return (
        f"{plugins.describe_package(point)}, SHA-256"
        f" {compute_file_sha256(file) if file and file.is_file() else 'unknown'}"
    )


def get_engine_caution(engine: "Engine[Any]") -> str:
    """Return an engine's caveat about its results, if it defines `caution`."""
    return str(getattr(engine, "caution", ""))


def find_engine_trial(engine: "Engine[Any]") -> "Callable[[str, Precision], None] | None":
    """Return an engine's own tiny run, if it defines `trial`."""
    return getattr(engine, "trial", None)


def find_engine_options(engine: "Engine[Any]") -> frozenset[str] | None:
    """Return the settings `engine.*` that an engine accepts, if it defines `options`."""
    return getattr(engine, "options", None)


def load_input_pipeline(name: str) -> "Input":
    """Return the input pipeline of that name."""
    from suite.input import Input

    return cast("Input", build_plugin_object(INPUT_GROUP, "input pipeline", name, Input))


def load_power_source(name: str) -> "PowerSource":
    """Return the power source of that name."""
    from suite.power import PowerSource

    return cast("PowerSource", build_plugin_object(POWER_GROUP, "power source", name, PowerSource))


def load_external_meters(name: str | None = None) -> "ExternalMeters":
    """Return the reader of external meters of that name, or the first; MissingError if no
    installed package offers one.
    """
    from suite.power import ExternalMeters

    kind = "reader of external meters"
    name = name or require_any_entry_point(METER_GROUP, kind)
    return cast("ExternalMeters", build_plugin_object(METER_GROUP, kind, name, ExternalMeters))


def load_price_reader(name: str | None = None) -> "PriceReader":
    """Return what reads files of prices by that name, or the first; MissingError if no installed
    package does.
    """
    from suite.prices import PriceReader

    kind = "reader of prices"
    name = name or require_any_entry_point(PRICE_GROUP, kind)
    return cast("PriceReader", load_function(PRICE_GROUP, kind, name, PriceReader))


def load_site_builder(scheme: str) -> "SiteBuilder":
    """Return what builds the site of servers whose addresses have a scheme; MissingError if it is
    not installed, or does not fit.
    """
    from suite.serving_sites import SiteBuilder

    return cast("SiteBuilder", load_function(SITE_GROUP, "kind of server", scheme, SiteBuilder))


def load_server_starter(api: str) -> "ServerStarter":
    """Return what `podium serve` calls for an API; MissingError if it is not installed, or does
    not fit.
    """
    from suite.serving_sites import ServerStarter

    return cast("ServerStarter", load_function(SERVER_GROUP, "API", api, ServerStarter))


def load_time_stamp_verifier(name: str | None = None) -> "TimeStampVerifier":
    """Return the verifier of time stamps of that name, or the first; MissingError if no installed
    package offers one.
    """
    from suite.time_stamps import TimeStampVerifier

    kind = "verifier of time stamps"
    name = name or require_any_entry_point(TIME_STAMP_GROUP, kind)
    return cast(
        "TimeStampVerifier", build_plugin_object(TIME_STAMP_GROUP, kind, name, TimeStampVerifier)
    )


def require_any_entry_point(group: str, kind: str) -> str:
    """Return the first name of a group, podium's own before others; MissingError if no installed
    package offers one.
    """
    points = map_entry_points(group)
    own = [each for each in points if plugins.is_own_entry_point(points[each])]
    name = next(iter((*own, *points)), None)
    if name is None:
        raise MissingError(f"no {kind} is installed: no package offers one in {group}")
    return name


def load_network_record(name: str) -> "BareNetworkRecord":
    """Return the record of the bare network of that name."""
    from suite.studies.bare_network import BareNetworkRecord

    return load_record(BareNetworkRecord, NETWORK_GROUP, "network", name)


def load_bare_network(name: str) -> "BareNetwork":
    """Return the bare network of that name."""
    from suite.studies.bare_network import BareNetwork

    maker = load_part(NETWORK_GROUP, "network", name, load_network_record(name), "network")
    network = maker()
    point = map_entry_points(NETWORK_GROUP)[name]
    plugins.require_fit(point, "network", find_misfits(network, BareNetwork))
    return cast("BareNetwork", network)


@cache
def load_study_kind(name: str) -> "StudyKind[Any, Any, Any]":
    """Return the kind of study of that name; MissingError if it is not installed, or broken in
    another package.
    """
    from suite.studies.kind import StudyKind

    if name not in map_entry_points(STUDY_GROUP):
        raise MissingError(f"the kind of study '{name}' is not installed")
    kind: type[Any] = StudyKind
    return load_record(kind, STUDY_GROUP, "kind of study", name)


def load_scorer(name: str) -> Scorer:
    """Return the function that turns answers and truth into scores: of a workload, or else of a
    bare network.
    """
    kind = "scorer"
    if name in map_entry_points(WORKLOAD_GROUP):
        return cast(Scorer, load_workload_part(name, kind, "score"))
    if name not in (networks := map_entry_points(NETWORK_GROUP)):
        known = {*map_entry_points(WORKLOAD_GROUP), *networks}
        raise build_unlisted_name_error(NETWORK_GROUP, kind, name, known)
    scorer = load_part(NETWORK_GROUP, kind, name, load_network_record(name), "score")
    if scorer is None:
        raise RequestError(f"the network {name} has no scorer")
    return cast(Scorer, scorer)


def find_score_sampler(workload: str) -> "SamplerBuilder | None":
    """Return the function that scores any choice of a workload's samples; None if it has none."""
    found: SamplerBuilder | None = load_workload_part(workload, "score sampler", "sample_scores")
    return found


def load_agreement(workload: str) -> Agreement:
    """Return the function that compares two answers to one sample; workloads without one compare
    bytes.
    """
    return load_workload_part(workload, "agreement", "agree") or bytes.__eq__


def list_end_tokens(workload: str, profile: str) -> Collection[int]:
    """Return the ids of the tokens that end a workload's generated answers; none if it has none."""
    end_tokens = load_workload_part(workload, "end tokens", "end_tokens")
    return tuple(end_tokens(profile)) if end_tokens else ()


@cache
def list_round_names() -> tuple[str, ...]:
    """Return the names of all rounds that results can be judged by."""
    from suite.rounds.kind_checks import find_round_obstacle

    names = {file.round for file in list_round_files() if file.round}
    return tuple(sorted(name for name in names if find_round_obstacle(name) is None))


@cache
def load_round(name: str = DEFAULT_ROUND) -> "Round":
    """Load a runnable round; RequestError names the nearest, or says that a published round cannot
    be run.
    """
    from suite.rounds.load import build_round

    if load_round_kind(name).published:
        raise RequestError(
            f"round {name} is a published round: its results can be checked and scored, but it"
            " cannot be run"
        )
    return build_round(name, collect_round_texts(name))


@cache
def load_round_kind(name: str) -> "RoundKind":
    """Return the kind of a round; RequestError names the nearest round, MissingError a kind that
    cannot be loaded.
    """
    from suite.rounds.load import read_round_kind

    for file in list_round_files():
        brought = file.point.group == ROUND_KIND_GROUP and plugins.is_own_entry_point(file.point)
        if brought and file.round == name:
            return load_kind(file.point.name)  # without parsing it: there are dozens
    return load_kind(read_round_kind(name, collect_round_texts(name)))


@cache
def load_kind(name: str) -> "RoundKind":
    """Return the kind of round of that name; UninstalledKindError if it, or a kind whose rules it
    shares, is not installed, MissingError if it is broken in another package.
    """
    kind = load_kind_record(name)
    if obstacle := describe_missing_kind(kind):
        raise UninstalledKindError(obstacle)
    return kind


def load_kind_record(name: str) -> "RoundKind":
    """Return the record of a kind of round, whatever other kinds it needs."""
    from suite.rounds.kind import RoundKind
    from suite.rounds.kind_checks import check_kind

    points = map_entry_points(ROUND_KIND_GROUP)
    if name not in points:
        raise UninstalledKindError(f"the kind of round '{name}' is not installed")
    kind = load_record(RoundKind, ROUND_KIND_GROUP, "kind of round", name)
    if not plugins.is_own_entry_point(points[name]):
        load_from_package(points[name], "kind of round", name, partial(check_kind, kind))
        for part in list_part_functions(RoundKind):
            load_part(ROUND_KIND_GROUP, "kind of round", name, kind, part)
    return kind


def describe_missing_kind(kind: "RoundKind") -> str:
    """Describe a kind of round that another one needs and that is not installed; empty if all
    are.
    """
    for other in kind.shared_rules:
        if other not in map_entry_points(ROUND_KIND_GROUP):
            return f"the kind of round '{kind.name}' needs '{other}', which is not installed"
    return ""


def iterate_kinds() -> "Iterator[RoundKind]":
    """Yield the kinds of rounds that results can be judged by; one that needs a kind that is not
    installed causes a warning and is skipped.
    """
    for kind in iterate_kind_records():
        if obstacle := describe_missing_kind(kind):
            plugins.warn_about_package(map_entry_points(ROUND_KIND_GROUP)[kind.name], obstacle)
        else:
            yield kind


def iterate_kind_records() -> "Iterator[RoundKind]":
    """Yield the records of the kinds of rounds; broken ones of other packages cause a warning and
    are skipped.
    """
    for name, point in map_entry_points(ROUND_KIND_GROUP).items():
        try:
            kind = load_kind_record(name)
        except MissingError as error:
            if plugins.is_own_entry_point(point):
                raise
            plugins.warn_about_package(point, str(error))
        else:
            yield kind


def load_kind_part(kind: "RoundKind", part: str) -> Any:
    """Load a part of a kind of round; None if the kind has none."""
    return load_part(ROUND_KIND_GROUP, "kind of round", kind.name, kind, part)


def load_round_part(round_name: str, part: str) -> Any:
    """Load a part of a round's kind; None if the kind has none."""
    return load_kind_part(load_round_kind(round_name), part)


@cache
def load_endpoints_round(name: str) -> "EndpointsRound":
    """Load a round of MLPerf Endpoints."""
    from suite.rounds.endpoints_curve import build_endpoints_round

    return build_endpoints_round(name, *collect_round_tables(name, "suite.rounds"))


def collect_round_tables(name: str, package: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the tables of a published round with the rows of its benchmarks, which are in
    `package`, and the sources by dotted path.
    """
    from suite.rounds.rows import merge_round_rows

    return merge_round_rows(name, collect_round_texts(name), package)


@cache
def collect_round_texts(name: str) -> Sequence[str]:
    """Return the TOML texts of a round, without those of other packages that do not fit it.

    RequestError names the nearest round, or, for an unknown published round, all rounds: no other
    has its rules.
    """
    found = [file for file in list_round_files() if file.round == name]
    if not found and PUBLISHED_ROUND_NAME.fullmatch(name):
        raise RequestError(f"unknown round '{name}'; known: {', '.join(list_round_names())}")
    if not found:
        raise build_unknown_name_error("round", name, list_round_names())
    base = [file for file in found if plugins.is_own_entry_point(file.point)] or found[:1]
    texts = [file.text for file in base]
    for file in found:
        if file not in base and can_join_round(name, texts, file):
            texts.append(file.text)
    return texts


def can_join_round(name: str, texts: Sequence[str], file: PackageFile) -> bool:
    """Return whether another package's file can join a round; warn about what is wrong with it."""
    from suite.rounds.load import check_round

    try:
        check_round(name, [*texts, file.text])
    except (RequestError, TOMLDecodeError, RecursionError) as error:
        plugins.warn_about_package(
            file.point,
            f"{file.path} of package {plugins.describe_package(file.point)} is ignored in round"
            f" {name}: {error}",
        )
        return False
    return True


@cache
def list_round_files() -> Sequence[PackageFile]:
    """Return every round file of workloads' packages, of kinds of rounds and of the group
    `podium.rounds`; broken packages of others cause a warning and are skipped.
    """
    found = (
        file
        for file in (*iterate_package_files(ROUND_GROUP, "*.toml"), *iterate_kind_files())
        if file.round != COMPATIBILITY_STEM and Path(file.path).name != FOREIGN_WEIGHTS_FILE
    )
    return tuple(
        file
        for file in found
        if plugins.is_own_entry_point(file.point) or has_loadable_rules(file.point)
    )


def iterate_kind_files() -> Iterator[PackageFile]:
    """Yield the files of the rounds of each kind."""
    for kind in iterate_kind_records():
        if kind.rounds:
            point = map_entry_points(ROUND_KIND_GROUP)[kind.name]
            yield from read_package_files(point, kind.rounds, "*.toml")


def has_loadable_rules(point: EntryPoint) -> bool:
    """Return whether another package's own rules can be loaded: without them, the judge would
    accept results that it must reject.
    """
    rules = [
        name
        for name, each in map_entry_points(RULE_GROUP).items()
        if plugins.describe_package(each) == plugins.describe_package(point)
    ]
    return len(list(iterate_loaded_points(RULE_GROUP, "rules", rules))) == len(rules)


def iterate_package_files(group: str, pattern: str) -> Iterator[PackageFile]:
    """Yield the files of the packages of a group whose names match, and the files of this kind of
    workloads' packages, podium's first.
    """
    points = [
        *((point, pattern) for point in map_entry_points(group).values()),
        *((point, WORKLOAD_FILES[group]) for point in map_entry_points(WORKLOAD_GROUP).values()),
    ]
    return read_point_files(points)


def iterate_workload_files(name: str) -> Iterator[PackageFile]:
    """Yield the files of that name of workloads' packages, podium's first."""
    return read_point_files([(point, name) for point in map_entry_points(WORKLOAD_GROUP).values()])


def read_point_files(points: Iterable[tuple[EntryPoint, str]]) -> Iterator[PackageFile]:
    """Yield the files of entry points' packages, each package once, podium's first; warn about
    packages that cannot be read.
    """
    seen = {""}
    for point, pattern in sorted(
        points, key=lambda each: (not plugins.is_own_entry_point(each[0]), each[0].module)
    ):
        try:
            package = find_point_package(point)
            if package not in seen:
                seen.add(package)
                yield from read_package_files(point, package, pattern)
        except Exception as error:  # reading a package imports it
            if plugins.is_own_entry_point(point):
                raise
            plugins.warn_about_package(
                point, f"{point.group} of {plugins.describe_broken_package(point, error)}"
            )
