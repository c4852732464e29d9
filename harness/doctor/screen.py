"""Text output of `podium doctor`: versions, one row per workload and engine, each fix once; with
--verbose every reason.
"""

import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import click

from harness.doctor.dtype_trials import WorkloadHalf
from harness.doctor.findings import ReadinessFinding, ReadinessState
from harness.doctor.report import InputFinding, MachineResources, list_missing_packages
from harness.machine.gpus import list_gpus
from harness.machine.system_description import FRAMEWORK_DISTRIBUTIONS
from suite import __version__
from suite.process.devices import format_device_name
from suite.process.installation import INSTALL_PREFIX
from suite.terms import Precision

REPORTED_PACKAGES: Final = {
    "torch": "torch",
    "LoadGen": "mlcommons-loadgen",
    "ONNX Runtime": "onnxruntime",
    "TensorFlow": "tensorflow",
    "TensorRT": "tensorrt-cu12",
    "TensorRT for RTX": "tensorrt-rtx-cu12-bindings",
    "DALI": "nvidia-dali-cuda120",
}
"""Package to name in a bug report -> its distribution."""


def print_readiness(
    resources: MachineResources,
    findings: Sequence[ReadinessFinding],
    inputs: Sequence[InputFinding],
    *,
    verbose: bool = False,
) -> None:
    """Print versions, the machine, a table of what can run, and how to install the rest; with
    `verbose` also the reasons.
    """
    click.echo(f"versions   {', '.join(iterate_package_versions())}")
    click.echo(
        f"processor  {resources.processor or 'unknown'}, {resources.cores} cores,"
        f" {resources.memory_gib or '?'} GiB memory ({resources.memory_free_gib or '?'} free)"
    )
    click.echo(
        f"placement  --set sut.instances={len(resources.instances)}: cores"
        f" {' | '.join(resources.instances)}, pinned where others leave them free (or by sut.pin)"
    )
    click.echo(
        f"           LoadGen takes any core; --set sut.loadgen_cores={resources.loadgen_core} keeps"
        " that one for it"
    )
    if resources.placement:
        cores_by_device = " | ".join(
            f"{device} on cores {cores}" for device, cores in resources.placement.items()
        )
        click.echo(
            f"           --device {format_device_name(tuple(resources.placement))}:"
            f" {cores_by_device}"
        )
    click.echo(
        f"GPUs       {', '.join(resources.gpus) or 'none'}; --device auto takes {resources.device}"
    )
    click.echo(
        f"power      {', '.join(resources.power) or 'no watts can be read here (podium power)'}"
    )
    click.echo(f"cache      {resources.cache or 'none'} ({resources.disk_free_gib} GiB free)")
    for shortage in resources.short_of:
        click.echo(f"short of   {shortage}")
    click.echo("\n" + "\n".join(line.rstrip() for line in format_readiness_rows(findings)))
    for line in format_input_rows(inputs):
        click.echo(line)
    click.echo()
    for name, caution in dict.fromkeys(
        (finding.engine, finding.caution) for finding in findings if finding.caution
    ):
        click.echo(f"caution: {name}: {caution}")
    for command, names in group_install_commands([*findings, *inputs]).items():
        click.echo(f"to add {', '.join(names)}: {command}")
    if verbose:
        print_reasons(findings, inputs)
    elif any(finding.why for finding in findings):
        click.echo("podium doctor -v says why the others cannot run")


def iterate_package_versions() -> Iterator[str]:
    """Yield names and versions of podium, the interpreter, the installed packages and the
    driver.
    """
    yield f"podium {__version__}"
    yield f"Python {platform.python_version()}"
    for name, package in REPORTED_PACKAGES.items():
        found = None
        for distribution in FRAMEWORK_DISTRIBUTIONS.get(package, (package,)):
            with suppress(PackageNotFoundError):
                found = found or version(distribution)
        if found:
            yield f"{name} {found}"
    yield from (f"NVIDIA driver {gpu.driver}" for gpu in list_gpus()[:1])


def format_readiness_rows(findings: Sequence[ReadinessFinding]) -> Iterator[str]:
    """Yield one line per workload and engine: the precisions in which it trains and serves."""
    yield f"{'workload':<12} {'engine':<12} {'trains in':<24} serves in"
    for workload, engine in dict.fromkeys(
        (finding.workload, finding.engine) for finding in findings
    ):
        group = [
            finding
            for finding in findings
            if (finding.workload, finding.engine) == (workload, engine)
        ]
        trains, serves = (
            format_runnable_precisions([finding for finding in group if finding.half is half])
            for half in (WorkloadHalf.TRAINING, WorkloadHalf.INFERENCE)
        )
        yield f"{workload:<12} {engine:<12} {trains:<24} {serves}"


def format_runnable_precisions(findings: Sequence[ReadinessFinding]) -> str:
    """List the precisions that run, and the untried ones; if there are none, the reason why fp32
    does not run.
    """
    ready = [
        f"{finding.precision}{' (emulated)' if finding.emulated else ''}"
        for finding in findings
        if finding.state is ReadinessState.READY
    ]
    untried = [
        f"{finding.precision} (not tried)"
        for finding in findings
        if finding.state is ReadinessState.UNTRIED
    ]
    first = next((finding for finding in findings if finding.precision is Precision.FP32), None)
    if first is None:
        none = "-"
    elif first.state is ReadinessState.MISSING:
        none = "not installed"
    else:
        none = f"- ({first.why})"
    return ", ".join([*ready, *untried]) or none


def format_input_rows(inputs: Sequence[InputFinding]) -> Iterator[str]:
    """Yield one line per input pipeline: the devices on which it works."""
    for name in dict.fromkeys(finding.name for finding in inputs):
        places = ", ".join(
            finding.place
            for finding in inputs
            if finding.name == name and finding.state is ReadinessState.READY
        )
        absent = any(
            finding.state is ReadinessState.MISSING for finding in inputs if finding.name == name
        )
        yield f"{'input':<12} {name:<12} {places or ('not installed' if absent else '-')}"


def group_install_commands(
    findings: Sequence[ReadinessFinding | InputFinding],
) -> dict[str, list[str]]:
    """Map each install command to the engines and input pipelines that it enables."""
    found: dict[str, list[str]] = {}
    for finding in findings:
        _, install, rest = finding.why.partition(INSTALL_PREFIX)
        if isinstance(finding, ReadinessFinding):
            name = finding.engine
        else:
            name = finding.name
        if (
            finding.state is ReadinessState.MISSING
            and install
            and name not in found.setdefault(install + rest, [])
        ):
            found[install + rest].append(name)
    return found


def print_reasons(findings: Sequence[ReadinessFinding], inputs: Sequence[InputFinding]) -> None:
    """Print the missing packages of each extra, and each reason once with its subject."""
    for extra, absent in list_missing_packages().items():
        click.echo(f"extra {extra}: {'missing ' + ', '.join(absent) if absent else 'ready'}")
    for workload, half, engine, state, why in dict.fromkeys(
        (f.workload, f.half, f.engine, f.state, f.why) for f in findings if f.why
    ):
        named = ", ".join(
            f.precision
            for f in findings
            if (f.workload, f.half, f.engine, f.why) == (workload, half, engine, why)
        )
        click.echo(f"{workload} {half} {engine}: {state}: {named}: {why}")
    for name, state, why in dict.fromkeys((f.name, f.state, f.why) for f in inputs if f.why):
        places = ", ".join(f.place for f in inputs if (f.name, f.why) == (name, why) and f.place)
        click.echo(f"input {name}: {state}: {places}{': ' if places else ''}{why}")
