"""`podium doctor`: what this machine can run, and what is missing."""

import json
import os
import re
import shutil
from collections.abc import Iterator
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
from harness.machine.device import resolve
from harness.machine.gpus import gpus
from harness.request import prepare, reading
from suite import registry
from suite.console.screen import screen
from suite.errors import MissingError, PodiumError, RequestError, unknown
from suite.files.cache import cache_folder
from suite.files.layout import nearest
from suite.process.installation import DISTRIBUTION, INSTALL, RUN, install
from suite.rounds import Profile
from suite.terms import Precision

GIB: Final = 2**30
MEMORY_NEEDED_GIB: Final = 4.0  # house rule: a smoke campaign stays below it
DISK_NEEDED_GIB: Final = 3.0  # house rule: embedded data, compiled engines, two checkpoints of the largest smoke workload
USUAL: Final = "torch"
"""The framework that every workload is trained in, unless it says otherwise."""
FOR_DEVELOPERS: Final = frozenset({"test", "dev"})


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFinding:
    """One input pipeline in one place."""

    name: str
    place: str
    """A value of the setting input.device; empty where the pipeline could not be asked."""
    state: State
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What there is to run on."""

    processor: str | None
    cores: int
    memory_gib: float | None
    """None where the package that could tell is missing."""
    memory_free_gib: float | None
    cache: str
    disk_free_gib: float
    gpus: tuple[str, ...]
    device: str
    """What `--device auto` takes."""
    short_of: tuple[str, ...]


def report(workload: str | None, data: Path | None, form: str) -> None:
    """Print what can run; MissingError where the named workload cannot, RequestError where its data cannot be used."""
    if data is not None and workload is None:
        raise RequestError("--data needs the WORKLOAD that is to read it: podium doctor WORKLOAD --data DIR")
    if workload is not None and workload not in registry.points(registry.WORKLOADS):
        raise unknown("workload", workload, registry.points(registry.WORKLOADS))
    here = machine()
    names = [workload] if workload else list(registry.points(registry.WORKLOADS))
    findings = proved([finding for name in names for finding in examine(name, here.device)], here.device)
    inputs = list(examine_inputs(here.device))
    problem = data_problem(workload, data) if workload and data else None
    if form == "json":
        looked = {"path": str(data), "usable": problem is None, "why": problem or ""} if data else None
        told = {"workloads": [asdict(f) for f in findings], "inputs": [asdict(f) for f in inputs]}
        click.echo(json.dumps({"machine": asdict(here), "extras": lacking(), **told, "data": looked}))
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
    """Look at processor, memory, disk and GPUs."""
    total_gib, free_gib = memory_gib()
    cache = cache_folder()
    disk_gib = shutil.disk_usage(nearest(cache)).free / GIB
    have = {"memory": (free_gib, MEMORY_NEEDED_GIB), f"disk at {cache}": (disk_gib, DISK_NEEDED_GIB)}
    return Machine(
        processor=system_description.cpu_model(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=total_gib,
        memory_free_gib=free_gib,
        cache=str(cache),
        disk_free_gib=round(disk_gib, 1),
        gpus=tuple(gpu.name for gpu in gpus()),
        device=usual_device(),
        short_of=tuple(f"{what}: {free:.1f} GiB free, smoke needs {need:.0f}" for what, (free, need) in have.items() if free is not None and free < need),
    )


def memory_gib() -> tuple[float | None, float | None]:
    """Read the memory's size, and what of it is free."""
    try:
        import psutil
    except ImportError:  # the light core: doctor says below what is missing
        return None, None
    memory = psutil.virtual_memory()
    return round(memory.total / GIB, 1), round(memory.available / GIB, 1)


def usual_device() -> str:
    """Say what `--device auto` takes; cpu where no framework is installed that could ask."""
    try:
        return resolve("auto")
    except ImportError:
        return "cpu"


def lacking() -> dict[str, list[str]]:
    """Name each extra for users with the packages of it that are not installed."""
    found: dict[str, list[str]] = {}
    for requirement in requires(DISTRIBUTION) or []:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        name = re.match(r"[\w.-]+", requirement)
        if extra and name and extra[1] not in FOR_DEVELOPERS:
            found.setdefault(extra[1], []).extend([] if installed(name[0]) else [name[0]])
    return found


def installed(distribution: str) -> bool:
    """Tell whether a distribution is installed, or another that brings the same package."""
    for name in system_description.DISTRIBUTIONS.get(distribution, (distribution,)):
        with suppress(PackageNotFoundError):
            return bool(version(name))
    return False


def examine(name: str, device: str) -> Iterator[Finding]:
    """Yield what one workload can do here, in both halves."""
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
    """Yield the number formats to train in: all, where they are tried; a framework other than the usual one only where it is installed."""
    why = lack or (engine_problem(framework, device, Precision.FP32) if framework in registry.points(registry.ENGINES) else "")
    if why and framework != USUAL:
        return
    for precision in Precision:
        yield Finding(workload=name, half=Half.TRAINING, engine=framework, precision=precision, state=state_of(why), why=why)


def takes(engine: str, frameworks: frozenset[str]) -> bool:
    """Tell whether an engine takes networks of one of these frameworks; one that is not installed is asked for nothing more."""
    try:
        return bool(registry.engine(engine).accepts & frameworks)
    except MissingError:
        return True


def examine_engine(name: str, engine: str, device: str, lack: str) -> Iterator[Finding]:
    """Yield what one engine says of each number format."""
    row = registry.round().benchmarks.get(name)
    for precision in Precision:
        unlisted = next((not_offered(row, each, precision) for each in row.inference.values()), "") if row else ""
        why = lack or engine_problem(engine, device, precision) or unlisted
        yield Finding(workload=name, half=Half.INFERENCE, engine=engine, precision=precision, state=state_of(why), why=why, caution=caution_of(engine))


def caution_of(engine: str) -> str:
    """Say what an engine warns of; one that is not installed says nothing."""
    try:
        return registry.caution(registry.engine(engine))
    except MissingError:
        return ""


def state_of(why: str) -> State:
    """Tell by the reason whether an extra would help."""
    return State.MISSING if INSTALL in why else State.CANNOT if why else State.READY


def examine_inputs(device: str) -> Iterator[InputFinding]:
    """Yield what each input pipeline says of each place that it knows."""
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
    """Say what an engine lacks for a number format, or nothing."""
    try:
        return registry.engine(name).missing(device, precision) or ""
    except MissingError as error:
        return str(error)


def data_problem(workload: str, data: Path) -> str | None:
    """Open a data folder the way a training run does, and say why it cannot be used."""
    with TemporaryDirectory() as folder:
        row = registry.round().benchmark(workload)
        profile = next((profile for profile in (Profile.QUICK, Profile.FULL, Profile.SMOKE) if profile in row.training), Profile.SMOKE)
        try:
            request = prepare(reading(profile, data, Path(folder)), workload)
            request.workload.training(request.run(0, Precision.FP32))
        except Exception as error:
            return sentence(error).removeprefix(f"--data {data}: ") if isinstance(error, PodiumError) else sentence(error)
    return None
