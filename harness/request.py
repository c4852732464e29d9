"""Turns command-line options into a `Request`, validated before anything is timed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.machine.device import devices_of, resolve
from harness.machine.system_description import Described, host_name
from suite import registry
from suite.cli import Options
from suite.engine import Precision
from suite.errors import MissingError, RequestError, unknown
from suite.files.cache import cache_folder as cache_folder
from suite.files.layout import Entry, nearest, slug
from suite.process.devices import name_of
from suite.rounds import Benchmark, Division, HyperValue, Profile, Round
from suite.rounds.settings import catalogue, choose, settle
from suite.workload import Run, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A user's request, resolved: names looked up, settings filled in."""

    name: str
    options: Options
    workload: Workload
    round: Round
    row: Benchmark
    profile: Profile
    settings: Mapping[str, HyperValue]
    chosen: Mapping[str, HyperValue]
    """Settings that the user gave; the rest are the round's."""
    devices: tuple[str, ...]
    """The devices that serve; one to train."""

    def entry(self, division: Division, engine: str, precision: Precision) -> Entry:
        """Return the place of results for this engine and precision; a `--system` of the user's
        gets no suffix.
        """
        system = self.options.system or f"{host_name(name_of(self.devices))}-{engine}-{precision}"
        return Entry(
            results=self.options.results.absolute(),
            division=division,
            org=self.options.org,
            system=slug(system),
        )

    @property
    def described(self) -> Described:
        """Return what the system description holds besides the machine."""
        options = self.options
        return Described(
            round=self.round.name,
            profile=self.profile,
            framework=options.framework,
            system_file=options.system_file,
        )

    def run(
        self,
        seed: int,
        precision: Precision,
        rank: int = 0,
        local_rank: int = 0,
        world_size: int = 1,
    ) -> Run:
        """Build the run record that workloads receive."""
        return Run(
            round=self.round,
            profile=self.profile,
            seed=seed,
            data=self.options.data,
            cache=cache_folder(),
            framework=self.options.framework,
            input=self.options.input,
            device=(
                self.devices[0]
                if len(self.devices) > 1
                else resolve(self.options.device, local_rank)
            ),
            precision=precision,
            threads=self.options.threads or len(os.sched_getaffinity(0)),
            settings=self.settings,
            rank=rank,
            local_rank=local_rank,
            world_size=world_size,
        )


def prepare(
    options: Options, name: str, round_name: str = registry.DEFAULT_ROUND, *, serving: bool = False
) -> Request:
    """Resolve a request to train or serve; RequestError for unknown names and keys and for unusable
    folders, MissingError for what is not installed.
    """
    workload = registry.workload(name)
    round = registry.round(round_name)
    row = round.benchmark(name)
    profile = Profile(options.profile)
    row.check_data(name, profile, options.data)
    chosen = choose(catalogue(round, row), options.config, options.assignments)
    check_names(options)
    check_folders(options)
    devices = (
        devices_of(options.device) if serving else (resolve(options.device),)
    )  # refused here, before anything is written
    if serving:
        options = replace(
            options, framework=served_framework(options.engine, options.framework, workload)
        )
    return Request(
        name=name,
        options=options,
        workload=workload,
        round=round,
        row=row,
        profile=profile,
        settings=settle(round, name, profile, chosen, serving=serving),
        chosen=chosen,
        devices=devices,
    )


def reading(
    profile: Profile,
    data: Path | None,
    results: Path,
    config: Path | None = None,
    assignments: tuple[str, ...] = (),
) -> Options:
    """Build the options of a request that reads data and leaves no results."""
    return Options(
        profile=profile,
        framework="torch",
        engine="torch",
        input="default",
        data=data,
        results=results,
        device="cpu",
        precision=None,
        threads=0,
        config=config,
        assignments=assignments,
        org="nobody",
        system="none",
    )


def check_names(options: Options) -> None:
    """Refuse a framework, engine or input pipeline that no installed package provides."""
    if options.framework not in (
        frameworks := set(known_frameworks())
    ):  # before the engine: it defaults to the framework's own
        raise unknown("framework", options.framework, frameworks)
    engines = registry.points(registry.ENGINES)
    if options.engine not in engines:
        raise unknown("engine", options.engine, engines)
    if options.input not in (inputs := registry.points(registry.INPUTS)):
        raise unknown("input pipeline", options.input, inputs)


def served_framework(engine: str, asked: str, workload: Workload) -> str:
    """Return the framework whose networks an engine runs: the one requested, else one that both the
    engine and the workload support.
    """
    accepts = registry.engine(engine).accepts
    both = sorted(accepts & (registry.frameworks(workload) or frozenset()))
    return asked if asked in accepts or not both else both[0]


def known_frameworks() -> Iterator[str]:
    """Yield the frameworks that the engines accept; one that is not installed is reported when it
    is used.
    """
    for engine in registry.points(registry.ENGINES):
        with suppress(MissingError):
            yield from registry.engine(engine).accepts


def check_folders(options: Options) -> None:
    """Refuse a data folder that does not exist and a results folder that is not writable."""
    if options.data is not None and not options.data.is_dir():
        raise RequestError(f"--data {options.data}: no such folder")
    try:
        there = nearest(options.results)
    except OSError as error:
        raise RequestError(f"--results {options.results}: {error.strerror}") from error
    if not there.is_dir():
        raise RequestError(f"--results {options.results}: Not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise RequestError(f"--results {options.results}: not writable")
