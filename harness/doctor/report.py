"""`podium doctor`: what this machine can run, and what is missing."""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Final

import click

from harness.data_workers import (
    WORKER_SHARED_MEMORY_MIB,
    describe_shared_memory_limit,
    measure_worker_limits,
)
from harness.doctor.dtype_trials import WorkloadHalf
from harness.doctor.findings import ReadinessFinding, ReadinessState, confirm_findings
from harness.engine_choice import describe_missing_calibration, describe_missing_generator
from harness.failures import (
    SHARED_MEMORY,
    SHARED_MEMORY_ADVICE,
    describe_exception,
    read_shared_memory_mib,
)
from harness.machine import system_description
from harness.machine.device import resolve_device, resolve_serving_devices
from harness.machine.gpus import list_gpus
from harness.machine.placement import choose_default_core_groups, pin_instances
from harness.machine.power.report import list_readable_channels
from harness.machine.power.selection import resolve_power_root
from harness.request import build_reading_options, resolve_request
from suite import registry
from suite.console.screen import get_output_level
from suite.errors import MissingError, PodiumError, RequestError, build_unknown_name_error
from suite.files.cache import LOCK_SUFFIX, check_cache_writable, locate_cache_folder
from suite.files.layout import PARTIAL_SUFFIX, find_existing_parent
from suite.files.scratch import create_temporary_folder
from suite.human_numbers import format_whole_digits
from suite.process.devices import CUDA, format_number_list
from suite.process.installation import (
    DISTRIBUTION_NAME,
    INSTALL_PREFIX,
    RUN_EXTRA,
    format_install_command,
)
from suite.rounds import Profile
from suite.rounds.settings import resolve_settings
from suite.terms import DEFAULT_FRAMEWORK, Precision
from suite.units import GIB

MEMORY_NEEDED_GIB: Final = 4.0  # house rule: a smoke campaign stays below it
# house rule: embedded data, compiled engines, two checkpoints of the largest smoke workload
DISK_NEEDED_GIB: Final = 3.0
DEVELOPER_EXTRAS: Final = frozenset({"test", "dev"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFinding:
    """One input pipeline on one device."""

    name: str
    place: str
    """A value of the setting input.device; empty if the pipeline could not be queried."""
    state: ReadinessState
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineResources:
    """The machine's resources."""

    processor: str | None
    cores: int
    memory_gib: float | None
    """None if psutil is missing."""
    memory_free_gib: float | None
    cache: str | None
    """None if the user has no home folder."""
    cache_problem: str
    """Why the cache cannot be written; empty if it can."""
    is_cache_full: bool
    disk_free_gib: float
    instances: tuple[str, ...]
    """Cores of each instance where there is one for each NUMA node, at least two: `--set
    sut.instances`.
    """
    loadgen_core: int
    """The first core: the one to keep for LoadGen where it has to have one alone."""
    placement: Mapping[str, str]
    """Device of each instance -> its cores, where there is one for each GPU; empty without GPUs,
    and where there are more of them than cores.
    """
    gpus: tuple[str, ...]
    device: str
    """Device that `--device auto` selects."""
    power: tuple[str, ...]
    """Channels of power that can be read (`podium power`)."""
    short_of: tuple[str, ...]


def print_readiness_report(workload: str | None, data: Path | None, output_format: str) -> None:
    """Print what can run; MissingError if the named workload cannot, RequestError if its data is
    unusable.
    """
    if data is not None and workload is None:
        raise RequestError(
            "--data needs the WORKLOAD that is to read it: podium doctor WORKLOAD --data DIR"
        )
    if workload is not None and workload not in registry.map_entry_points(registry.WORKLOAD_GROUP):
        raise build_unknown_name_error(
            "workload", workload, registry.map_entry_points(registry.WORKLOAD_GROUP)
        )
    if workload:
        names = [workload]
    else:
        names = list(registry.map_entry_points(registry.WORKLOAD_GROUP))
    resources = inspect_machine(names)
    findings = confirm_findings(
        [finding for name in names for finding in examine_workload(name, resources.device)],
        resources.device,
    )
    inputs = list(examine_inputs(resources.device))
    problem = None
    if workload and data:
        problem = find_data_problem(workload, data)
    if output_format == "json":
        looked = None
        if data:
            looked = {"path": str(data), "usable": problem is None, "why": problem or ""}
        listed = {"workloads": [asdict(f) for f in findings], "inputs": [asdict(f) for f in inputs]}
        click.echo(
            json.dumps(
                {
                    "machine": asdict(resources),
                    "extras": list_missing_packages(),
                    **listed,
                    "data": looked,
                }
            )
        )
    else:
        from harness.doctor.screen import print_readiness

        print_readiness(resources, findings, inputs, verbose=get_output_level().verbose)
    if problem:
        raise RequestError(f"--data {data}: {problem}")
    if workload and not any(
        finding.state in (ReadinessState.READY, ReadinessState.UNTRIED) for finding in findings
    ):
        raise MissingError(f"{workload} cannot run here: {findings[0].why}")
    if resources.cache_problem and (
        resources.is_cache_full or not has_cache_content(resources.cache)
    ):
        # a read-only one that holds data may hold all that is needed, and reading needs no lock
        raise MissingError(resources.cache_problem)
    if data and output_format == "text":
        click.echo(f"data       {data} can be used by {workload}")


def inspect_machine(workloads: Iterable[str] = ()) -> MachineResources:
    """Inspect processor, memory, disk and GPUs, and what these workloads need of them."""
    total_gib, free_gib = read_memory_gib()
    cache, cache_error = inspect_cache()
    cache_problem = str(cache_error or "")
    place = cache or Path.cwd()
    disk_gib = shutil.disk_usage(find_existing_parent(place)).free / GIB
    device = resolve_default_device()
    have = {
        "memory": (free_gib, MEMORY_NEEDED_GIB),
        f"disk at {place}": (disk_gib, DISK_NEEDED_GIB),
    }
    return MachineResources(
        processor=system_description.read_cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=total_gib,
        memory_free_gib=free_gib,
        cache=None if cache is None else str(cache),
        cache_problem=cache_problem,
        is_cache_full=isinstance(cache_error, MissingError),
        disk_free_gib=round(disk_gib, 1),
        instances=tuple(map(format_number_list, choose_default_core_groups())),
        loadgen_core=min(os.sched_getaffinity(0)),
        placement=map_gpu_cores(device),
        gpus=tuple(gpu.name for gpu in list_gpus()),
        device=device,
        power=tuple(list_readable_channels(resolve_power_root())),
        short_of=(
            *(
                f"{what}: {free:.1f} GiB free, smoke needs {need:.0f}"
                for what, (free, need) in have.items()
                if free is not None and free < need
            ),
            *filter(None, (cache_problem, find_shared_memory_problem(workloads))),
        ),
    )


def find_shared_memory_problem(workloads: Iterable[str]) -> str:
    """Return why the data workers of these workloads lack shared memory, or ""."""
    if not any(map(has_data_workers, workloads)):
        return ""
    sizes = read_shared_memory_mib()
    if sizes is None or sizes[1] < WORKER_SHARED_MEMORY_MIB:
        free = f"{format_whole_digits(sizes[1])} MiB free" if sizes else "does not exist"
        return (
            f"{SHARED_MEMORY}: {free}, data workers need {WORKER_SHARED_MEMORY_MIB:.0f} MiB;"
            f" {SHARED_MEMORY_ADVICE}"
        )
    try:
        return describe_shared_memory_limit(measure_worker_limits())
    except ImportError:  # core install without extras, which trains nothing
        return ""


def has_data_workers(workload: str) -> bool:
    """Return whether a workload's training decodes its data in other processes."""
    round = registry.load_round()
    row = round.benchmarks.get(workload)
    return row is not None and any(
        resolve_settings(round, workload, profile, {}).get("data.workers")
        for profile in row.training
    )


def inspect_cache() -> tuple[Path | None, PodiumError | None]:
    """Return the cache folder and why it cannot be written; a full disk is a MissingError."""
    try:
        cache = locate_cache_folder()
    except RequestError as error:
        return None, error
    try:
        check_cache_writable(cache)
    except PodiumError as error:
        return cache, error
    return cache, None


def has_cache_content(cache: str | None) -> bool:
    """Return whether a cache folder can be read and holds a finished file."""
    return cache is not None and any(
        not name.endswith((LOCK_SUFFIX, PARTIAL_SUFFIX))
        for _, _, names in os.walk(cache)
        for name in names
    )


def read_memory_gib() -> tuple[float | None, float | None]:
    """Return total and free memory."""
    try:
        import psutil
    except ImportError:  # core install without extras: doctor reports below what is missing
        return None, None
    memory = psutil.virtual_memory()
    return round(memory.total / GIB, 1), round(memory.available / GIB, 1)


def resolve_default_device() -> str:
    """Return the device that `--device auto` selects; cpu if no framework is installed to query."""
    try:
        return resolve_device("auto")
    except ImportError:
        return "cpu"


def map_gpu_cores(device: str) -> dict[str, str]:
    """Return the cores of each instance where there is one for each GPU."""
    if device.startswith(CUDA):
        devices = resolve_serving_devices(f"{CUDA}:all")
    else:
        devices = ()
    if 0 < len(devices) <= len(os.sched_getaffinity(0)):
        return {place.device: format_number_list(place.cores) for place in pin_instances(devices)}
    return {}


def list_missing_packages() -> dict[str, list[str]]:
    """Return each user extra with its packages that are not installed."""
    found: dict[str, list[str]] = {}
    for requirement in requires(DISTRIBUTION_NAME) or []:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        name = re.match(r"[\w.-]+", requirement)
        if extra and name and extra[1] not in DEVELOPER_EXTRAS:
            found.setdefault(extra[1], []).extend(
                [] if is_distribution_installed(name[0]) else [name[0]]
            )
    return found


def is_distribution_installed(distribution: str) -> bool:
    """Check whether a distribution is installed, or another that provides the same package."""
    for name in system_description.FRAMEWORK_DISTRIBUTIONS.get(distribution, (distribution,)):
        with suppress(PackageNotFoundError):
            return bool(version(name))
    return False


def examine_workload(name: str, device: str) -> Iterator[ReadinessFinding]:
    """Yield the findings of one workload, for training and inference."""
    absent = list_missing_packages().get("run", [])
    missing = ""
    if absent:
        missing = f"{', '.join(absent)} not installed: {format_install_command(RUN_EXTRA)}"
    row = registry.load_round().benchmarks.get(name)
    frameworks = None
    try:
        frameworks = registry.load_workload(name).frameworks
    except MissingError as error:
        missing = missing or str(error)
    if row and row.training:
        for framework in sorted(frameworks or {DEFAULT_FRAMEWORK}):
            yield from examine_training(name, framework, device, missing)
    for engine in registry.map_entry_points(registry.ENGINE_GROUP):
        if frameworks is None or can_accept_networks(engine, frameworks):
            yield from examine_engine(name, engine, device, missing)


def examine_training(
    name: str, framework: str, device: str, missing: str
) -> Iterator[ReadinessFinding]:
    """Yield the precisions of training: all of them, each to be tried; a framework other than the
    default only if it is installed.
    """
    why = missing
    if not why and framework in registry.map_entry_points(registry.ENGINE_GROUP):
        why = describe_engine_problem(framework, device, Precision.FP32)
    if why and framework != DEFAULT_FRAMEWORK:
        return
    for precision in Precision:
        yield ReadinessFinding(
            workload=name,
            half=WorkloadHalf.TRAINING,
            engine=framework,
            precision=precision,
            state=determine_state(why),
            why=why,
            emulated=precision is Precision.BF16 and system_description.is_bf16_emulated(device),
        )


def can_accept_networks(engine: str, frameworks: frozenset[str]) -> bool:
    """Check whether an engine accepts networks of one of these frameworks; one that is not
    installed counts as accepting.
    """
    try:
        return bool(registry.load_engine(engine).accepts & frameworks)
    except MissingError:
        return True


def examine_engine(name: str, engine: str, device: str, missing: str) -> Iterator[ReadinessFinding]:
    """Yield one engine's finding for each precision."""
    row = registry.load_round().benchmarks.get(name)
    for precision in Precision:
        unlisted = ""
        ungenerated = ""
        if row:
            unlisted = next(
                (
                    describe_missing_calibration(row, each, precision)
                    for each in row.inference.values()
                ),
                "",
            )
            ungenerated = describe_missing_generator(row, engine, precision)
        why = (
            missing or ungenerated or describe_engine_problem(engine, device, precision) or unlisted
        )
        yield ReadinessFinding(
            workload=name,
            half=WorkloadHalf.INFERENCE,
            engine=engine,
            precision=precision,
            state=determine_state(why),
            why=why,
            caution=find_engine_caution(engine),
            emulated=precision is Precision.BF16 and system_description.is_bf16_emulated(device),
        )


def find_engine_caution(engine: str) -> str:
    """Return an engine's caution; "" if it is not installed."""
    try:
        return registry.get_engine_caution(registry.load_engine(engine))
    except MissingError:
        return ""


def determine_state(why: str) -> ReadinessState:
    """Derive the state from the reason: whether installing an extra would help."""
    if INSTALL_PREFIX in why:
        return ReadinessState.MISSING
    if why:
        return ReadinessState.CANNOT
    return ReadinessState.READY


def examine_inputs(device: str) -> Iterator[InputFinding]:
    """Yield the finding of each input pipeline for each device that it supports."""
    for name in registry.map_entry_points(registry.INPUT_GROUP):
        try:
            pipeline = registry.load_input_pipeline(name)
        except MissingError as error:
            yield InputFinding(name=name, place="", state=ReadinessState.MISSING, why=str(error))
            continue
        for place in pipeline.places:
            why = pipeline.missing(device, place) or ""
            yield InputFinding(name=name, place=place.value, state=determine_state(why), why=why)


def describe_engine_problem(name: str, device: str, precision: Precision) -> str:
    """Return what an engine lacks for a precision, or ""."""
    try:
        return registry.load_engine(name).missing(device, precision) or ""
    except MissingError as error:
        return str(error)


def find_data_problem(workload: str, data: Path) -> str | None:
    """Open a data folder as a training run does, and return why it is unusable."""
    with create_temporary_folder() as folder:
        row = registry.load_round().benchmark(workload)
        profile = next(
            (
                profile
                for profile in (Profile.QUICK, Profile.FULL, Profile.SMOKE)
                if profile in row.training
            ),
            Profile.SMOKE,
        )
        try:
            request = resolve_request(build_reading_options(profile, data, folder), workload)
            request.workload.build_training(request.build_run(0, Precision.FP32))
        except Exception as error:
            if isinstance(error, PodiumError):
                return describe_exception(error).removeprefix(f"--data {data}: ")
            return describe_exception(error)
    return None
