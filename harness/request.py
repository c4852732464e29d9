"""Turns command-line options into a `RunRequest`, validated before anything is timed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.data_workers import choose_worker_count, measure_worker_limits
from harness.machine.device import resolve_device, resolve_serving_devices
from harness.machine.system_description import (
    DescriptionContext,
    build_system_name,
    is_bf16_emulated,
)
from suite import registry
from suite.cli import RunOptions
from suite.engine import Engine, Precision
from suite.errors import MissingError, RequestError
from suite.files.cache import locate_cache_folder as locate_cache_folder
from suite.files.layout import ResultsEntry, convert_to_slug, find_existing_parent
from suite.process.devices import format_device_name
from suite.rounds import Benchmark, Division, HyperValue, Profile, Round, TrainingRow
from suite.rounds.settings import (
    AUTOMATIC_VALUE,
    DATA_WORKERS_SETTING,
    collect_workload_settings,
    read_chosen_settings,
    resolve_settings,
)
from suite.terms import AUTOMATIC_ENGINE
from suite.workload import Run, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A user's request, resolved once: names looked up, devices found, settings filled in."""

    name: str
    options: RunOptions
    """The options as the user gave them."""
    workload: Workload
    round: Round
    row: Benchmark
    profile: Profile
    settings: Mapping[str, HyperValue]
    chosen: Mapping[str, HyperValue]
    """Settings that the user gave; the rest are the round's."""
    devices: tuple[str, ...]
    """The devices that serve; one to train: this rank's own."""
    framework: str
    """The framework that trains, or whose networks are served."""
    engine: str
    """The name of the engine that serves."""
    precision: Precision
    """The number format: the user's, else the training row's, and fp32 to serve."""
    workers_chosen: str = ""
    """Why `data.workers` is what `auto` stands for on this machine; empty if it was not `auto`."""

    @property
    def device(self) -> str:
        """Return the device to compute on; the first one where several serve."""
        return self.devices[0]

    def build_entry(self, division: Division, engine: str, precision: Precision) -> ResultsEntry:
        """Return the place of results for this engine and precision; a `--system` of the user's
        gets no suffix.
        """
        system = (
            self.options.system
            or f"{build_system_name(format_device_name(self.devices))}-{engine}-{precision}"
        )
        return ResultsEntry(
            results=self.options.results.absolute(),
            division=division,
            org=self.options.org,
            system=convert_to_slug(system),
        )

    @property
    def described(self) -> DescriptionContext:
        """Return what the system description holds besides the machine."""
        options = self.options
        return DescriptionContext(
            round=self.round.name,
            profile=self.profile,
            framework=self.framework,
            system_file=options.system_file,
        )

    def build_run(
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
            cache=locate_cache_folder(),
            framework=self.framework,
            input=self.options.input,
            device=self.device,
            precision=precision,
            threads=self.options.threads or len(os.sched_getaffinity(0)),
            settings=self.settings,
            rank=rank,
            local_rank=local_rank,
            world_size=world_size,
        )


def resolve_request(
    options: RunOptions,
    name: str,
    round_name: str = registry.DEFAULT_ROUND,
    *,
    serving: bool = False,
    local_rank: int = 0,
) -> RunRequest:
    """Resolve a request to train or serve; RequestError for unknown names and keys and for unusable
    folders, MissingError for what is not installed.

    `local_rank` selects this rank's GPU where `--device cuda` names none.
    """
    workload = registry.load_workload(name)
    round = registry.load_round(round_name)
    row = round.benchmark(name)
    profile = Profile(options.profile)
    row.check_data(name, profile, options.data)
    chosen = read_chosen_settings(
        collect_workload_settings(round, row), options.config, options.assignments
    )
    check_plugin_names(options)
    check_request_folders(options)
    # refused here, before anything is written
    if serving:
        devices = resolve_serving_devices(options.device)
    else:
        devices = (resolve_device(options.device, local_rank),)
    training_row = None if serving else row.training.get(profile)
    settings, workers_chosen = settle_data_workers(
        resolve_settings(round, name, profile, chosen, serving=serving)
    )
    return RunRequest(
        name=name,
        options=options,
        workload=workload,
        round=round,
        row=row,
        profile=profile,
        settings=settings,
        chosen=chosen,
        devices=devices,
        framework=options.framework,
        engine=options.engine,
        precision=resolve_precision(options, training_row, devices[0]),
        workers_chosen=workers_chosen,
    )


def settle_data_workers(settings: dict[str, HyperValue]) -> tuple[dict[str, HyperValue], str]:
    """Return the settings with a number of data workers in place of `auto`, and why that number;
    unchanged, and "", if they have no `auto`. Records hold the number alone.
    """
    if settings.get(DATA_WORKERS_SETTING) != AUTOMATIC_VALUE:
        return settings, ""
    count, why = choose_worker_count(measure_worker_limits())
    return settings | {DATA_WORKERS_SETTING: count}, why


def resolve_precision(
    options: RunOptions, training_row: TrainingRow | None, device: str
) -> Precision:
    """Return the number format: the user's, else the training row's, and fp32 to serve, or where
    the row's is bf16 and the processor would emulate it, which is slower.
    """
    if options.precision:
        return Precision(options.precision)
    if training_row:
        usual = Precision(training_row.precision)
    else:
        usual = Precision.FP32
    if usual is Precision.BF16 and is_bf16_emulated(device):
        return Precision.FP32
    return usual


def build_reading_options(
    profile: Profile,
    data: Path | None,
    results: Path,
    config: Path | None = None,
    assignments: tuple[str, ...] = (),
) -> RunOptions:
    """Build the options of a request that reads data and leaves no results."""
    return RunOptions(
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


def check_plugin_names(options: RunOptions) -> None:
    """Refuse a framework, engine or input pipeline that no installed package provides."""
    # before the engine: it defaults to the framework's own
    if options.framework not in (frameworks := set(iterate_known_frameworks())):
        raise registry.build_unlisted_name_error(
            registry.ENGINE_GROUP, "framework", options.framework, frameworks
        )
    if options.engine != AUTOMATIC_ENGINE:
        registry.require_entry_point(registry.ENGINE_GROUP, "engine", options.engine)
    registry.require_entry_point(registry.INPUT_GROUP, "input pipeline", options.input)


def choose_served_framework(engine: Engine[Any], requested: str, workload: Workload) -> str:
    """Return the framework whose networks an engine runs: the one requested, else one that both the
    engine and the workload support.
    """
    both = sorted(engine.accepts & (workload.frameworks or frozenset()))
    if requested in engine.accepts or not both:
        return requested
    return both[0]


def iterate_known_frameworks() -> Iterator[str]:
    """Yield the frameworks that the engines accept; one that is not installed is reported when it
    is used.
    """
    for engine in registry.map_entry_points(registry.ENGINE_GROUP):
        with suppress(MissingError):
            yield from registry.load_engine(engine).accepts


def check_request_folders(options: RunOptions) -> None:
    """Refuse a data folder that does not exist and a results folder that is not writable."""
    if options.data is not None and not options.data.is_dir():
        raise RequestError(f"--data {options.data}: no such folder")
    try:
        there = find_existing_parent(options.results)
    except OSError as error:
        raise RequestError(f"--results {options.results}: {error.strerror}") from error
    if not there.is_dir():
        raise RequestError(f"--results {options.results}: Not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        raise RequestError(f"--results {options.results}: not writable")
