"""`podium doctor`: what this machine can run, and what is missing."""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from harness.doctor.dtype_trials import Half
from harness.doctor.findings import Finding, State, proved
from harness.engine_choice import not_offered
from harness.failures import sentence
from harness.machine import system_description
from harness.machine.device import devices_of, resolve
from harness.machine.gpus import gpus
from harness.machine.placement import pinned, usual_groups
from harness.machine.power.report import readable
from harness.machine.power.selection import power_root
from harness.request import prepare, reading
from suite import registry
from suite.console.screen import screen
from suite.errors import MissingError, PodiumError, RequestError, unknown
from suite.files.cache import cache_folder
from suite.files.layout import nearest
from suite.process.devices import CUDA, written
from suite.process.installation import DISTRIBUTION, INSTALL, RUN, install
from suite.rounds import Profile
from suite.terms import Precision

GIB: Final = 2**30
MEMORY_NEEDED_GIB: Final = 4.0  # house rule: a smoke campaign stays below it
# house rule: embedded data, compiled engines, two checkpoints of the largest smoke workload
DISK_NEEDED_GIB: Final = 3.0
USUAL: Final = "torch"
"""Default training framework of a workload."""
FOR_DEVELOPERS: Final = frozenset({"test", "dev"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFinding:
    """One input pipeline on one device."""

    name: str
    place: str
    """A value of the setting input.device; empty if the pipeline could not be queried."""
    state: State
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The machine's resources."""

    processor: str | None
    cores: int
    memory_gib: float | None
    """None if psutil is missing."""
    memory_free_gib: float | None
    cache: str
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


def report(workload: str | None, data: Path | None, form: str) -> None:
    """Print what can run; MissingError if the named workload cannot, RequestError if its data is
    unusable.
    """
    if data is not None and workload is None:
        raise RequestError(
            "--data needs the WORKLOAD that is to read it: podium doctor WORKLOAD --data DIR"
        )
    if workload is not None and workload not in registry.points(registry.WORKLOADS):
        raise unknown("workload", workload, registry.points(registry.WORKLOADS))
    here = machine()
    names = [workload] if workload else list(registry.points(registry.WORKLOADS))
    findings = proved(
        [finding for name in names for finding in examine(name, here.device)], here.device
    )
    inputs = list(examine_inputs(here.device))
    problem = data_problem(workload, data) if workload and data else None
    if form == "json":
        looked = (
            {"path": str(data), "usable": problem is None, "why": problem or ""} if data else None
        )
        told = {"workloads": [asdict(f) for f in findings], "inputs": [asdict(f) for f in inputs]}
        click.echo(
            json.dumps({"machine": asdict(here), "extras": lacking(), **told, "data": looked})
        )
    else:
        from harness.doctor.screen import show

        show(here, findings, inputs, verbose=screen().verbose)
    if problem:
        raise RequestError(f"--data {data}: {problem}")
    if workload and not any(finding.state in (State.READY, State.UNTRIED) for finding in findings):
        raise MissingError(f"{workload} cannot run here: {findings[0].why}")
    if data and form == "text":
        click.echo(f"data       {data} can be used by {workload}")


def machine() -> Machine:
    """Inspect processor, memory, disk and GPUs."""
    total_gib, free_gib = memory_gib()
    cache = cache_folder()
    disk_gib = shutil.disk_usage(nearest(cache)).free / GIB
    device = usual_device()
    have = {
        "memory": (free_gib, MEMORY_NEEDED_GIB),
        f"disk at {cache}": (disk_gib, DISK_NEEDED_GIB),
    }
    return Machine(
        processor=system_description.cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=total_gib,
        memory_free_gib=free_gib,
        cache=str(cache),
        disk_free_gib=round(disk_gib, 1),
        instances=tuple(map(written, usual_groups())),
        loadgen_core=min(os.sched_getaffinity(0)),
        placement=on_gpus(device),
        gpus=tuple(gpu.name for gpu in gpus()),
        device=device,
        power=tuple(readable(power_root())),
        short_of=tuple(
            f"{what}: {free:.1f} GiB free, smoke needs {need:.0f}"
            for what, (free, need) in have.items()
            if free is not None and free < need
        ),
    )


def memory_gib() -> tuple[float | None, float | None]:
    """Return total and free memory."""
    try:
        import psutil
    except ImportError:  # core install without extras: doctor reports below what is missing
        return None, None
    memory = psutil.virtual_memory()
    return round(memory.total / GIB, 1), round(memory.available / GIB, 1)


def usual_device() -> str:
    """Return the device that `--device auto` selects; cpu if no framework is installed to query."""
    try:
        return resolve("auto")
    except ImportError:
        return "cpu"


def on_gpus(device: str) -> dict[str, str]:
    """Return the cores of each instance where there is one for each GPU."""
    devices = devices_of(f"{CUDA}:all") if device.startswith(CUDA) else ()
    return (
        {place.device: written(place.cores) for place in pinned(devices)}
        if 0 < len(devices) <= len(os.sched_getaffinity(0))
        else {}
    )


def lacking() -> dict[str, list[str]]:
    """Return each user extra with its packages that are not installed."""
    found: dict[str, list[str]] = {}
    for requirement in requires(DISTRIBUTION) or []:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        name = re.match(r"[\w.-]+", requirement)
        if extra and name and extra[1] not in FOR_DEVELOPERS:
            found.setdefault(extra[1], []).extend([] if installed(name[0]) else [name[0]])
    return found


def installed(distribution: str) -> bool:
    """Check whether a distribution is installed, or another that provides the same package."""
    for name in system_description.DISTRIBUTIONS.get(distribution, (distribution,)):
        with suppress(PackageNotFoundError):
            return bool(version(name))
    return False


def examine(name: str, device: str) -> Iterator[Finding]:
    """Yield the findings of one workload, for training and inference."""
    absent = lacking().get("run", [])
    lack = f"{', '.join(absent)} not installed: {install(RUN)}" if absent else ""
    row = registry.round().benchmarks.get(name)
    frameworks = None
    try:
        frameworks = registry.frameworks(registry.workload(name))
    except MissingError as error:
        lack = lack or str(error)
    for framework in sorted(frameworks or {USUAL}) if row and row.training else ():
        yield from examine_training(name, framework, device, lack)
    for engine in registry.points(registry.ENGINES):
        if frameworks is None or takes(engine, frameworks):
            yield from examine_engine(name, engine, device, lack)


def examine_training(name: str, framework: str, device: str, lack: str) -> Iterator[Finding]:
    """Yield the precisions of training: all of them, each to be tried; a framework other than the
    default only if it is installed.
    """
    why = lack or (
        engine_problem(framework, device, Precision.FP32)
        if framework in registry.points(registry.ENGINES)
        else ""
    )
    if why and framework != USUAL:
        return
    for precision in Precision:
        yield Finding(
            workload=name,
            half=Half.TRAINING,
            engine=framework,
            precision=precision,
            state=state_of(why),
            why=why,
        )


def takes(engine: str, frameworks: frozenset[str]) -> bool:
    """Check whether an engine accepts networks of one of these frameworks; one that is not
    installed counts as accepting.
    """
    try:
        return bool(registry.engine(engine).accepts & frameworks)
    except MissingError:
        return True


def examine_engine(name: str, engine: str, device: str, lack: str) -> Iterator[Finding]:
    """Yield one engine's finding for each precision."""
    row = registry.round().benchmarks.get(name)
    for precision in Precision:
        unlisted = (
            next((not_offered(row, each, precision) for each in row.inference.values()), "")
            if row
            else ""
        )
        why = lack or engine_problem(engine, device, precision) or unlisted
        yield Finding(
            workload=name,
            half=Half.INFERENCE,
            engine=engine,
            precision=precision,
            state=state_of(why),
            why=why,
            caution=caution_of(engine),
        )


def caution_of(engine: str) -> str:
    """Return an engine's caution; "" if it is not installed."""
    try:
        return registry.caution(registry.engine(engine))
    except MissingError:
        return ""


def state_of(why: str) -> State:
    """Derive the state from the reason: whether installing an extra would help."""
    return State.MISSING if INSTALL in why else State.CANNOT if why else State.READY


def examine_inputs(device: str) -> Iterator[InputFinding]:
    """Yield the finding of each input pipeline for each device that it supports."""
    for name in registry.points(registry.INPUTS):
        try:
            pipeline = registry.input_pipeline(name)
        except MissingError as error:
            yield InputFinding(name=name, place="", state=State.MISSING, why=str(error))
            continue
        for place in pipeline.places:
            why = pipeline.missing(device, place) or ""
            yield InputFinding(name=name, place=place.value, state=state_of(why), why=why)


def engine_problem(name: str, device: str, precision: Precision) -> str:
    """Return what an engine lacks for a precision, or ""."""
    try:
        return registry.engine(name).missing(device, precision) or ""
    except MissingError as error:
        return str(error)


def data_problem(workload: str, data: Path) -> str | None:
    """Open a data folder as a training run does, and return why it is unusable."""
    with TemporaryDirectory() as folder:
        row = registry.round().benchmark(workload)
        profile = next(
            (
                profile
                for profile in (Profile.QUICK, Profile.FULL, Profile.SMOKE)
                if profile in row.training
            ),
            Profile.SMOKE,
        )
        try:
            request = prepare(reading(profile, data, Path(folder)), workload)
            request.workload.training(request.run(0, Precision.FP32))
        except Exception as error:
            return (
                sentence(error).removeprefix(f"--data {data}: ")
                if isinstance(error, PodiumError)
                else sentence(error)
            )
    return None
