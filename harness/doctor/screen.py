"""Text output of `podium doctor`: versions, one row per workload and engine, each fix once; with
--verbose every reason.
"""

import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import click

from harness.doctor.dtype_trials import Half
from harness.doctor.findings import Finding, State
from harness.doctor.report import InputFinding, Machine, lacking
from harness.machine.gpus import gpus
from harness.machine.system_description import DISTRIBUTIONS
from suite import __version__
from suite.process.devices import name_of
from suite.process.installation import INSTALL
from suite.terms import Precision

PACKAGES: Final = {
    "torch": "torch",
    "LoadGen": "mlcommons-loadgen",
    "ONNX Runtime": "onnxruntime",
    "TensorFlow": "tensorflow",
    "TensorRT": "tensorrt-cu12",
    "DALI": "nvidia-dali-cuda120",
}
"""Package to name in a bug report -> its distribution."""


def show(
    here: Machine,
    findings: Sequence[Finding],
    inputs: Sequence[InputFinding],
    *,
    verbose: bool = False,
) -> None:
    """Print versions, the machine, a table of what can run, and how to install the rest; with
    `verbose` also the reasons.
    """
    click.echo(f"versions   {', '.join(versions())}")
    click.echo(
        f"processor  {here.processor or 'unknown'}, {here.cores} cores, {here.memory_gib or '?'}"
        f" GiB memory ({here.memory_free_gib or '?'} free)"
    )
    click.echo(
        f"placement  --set sut.instances={len(here.instances)}: cores {' | '.join(here.instances)},"
        " pinned where others leave them free (or by sut.pin)"
    )
    click.echo(
        f"           LoadGen takes any core; --set sut.loadgen_cores={here.loadgen_core} keeps that"
        " one for it"
    )
    if here.placement:
        told = " | ".join(f"{device} on cores {cores}" for device, cores in here.placement.items())
        click.echo(f"           --device {name_of(tuple(here.placement))}: {told}")
    click.echo(f"GPUs       {', '.join(here.gpus) or 'none'}; --device auto takes {here.device}")
    click.echo(f"power      {', '.join(here.power) or 'no watts can be read here (podium power)'}")
    click.echo(f"cache      {here.cache} ({here.disk_free_gib} GiB free)")
    for shortage in here.short_of:
        click.echo(f"short of   {shortage}")
    click.echo("\n" + "\n".join(line.rstrip() for line in table(findings)))
    for line in inputs_table(inputs):
        click.echo(line)
    click.echo()
    for name, caution in dict.fromkeys(
        (finding.engine, finding.caution) for finding in findings if finding.caution
    ):
        click.echo(f"caution: {name}: {caution}")
    for command, names in fixes([*findings, *inputs]).items():
        click.echo(f"to add {', '.join(names)}: {command}")
    if verbose:
        show_reasons(findings, inputs)
    elif any(finding.why for finding in findings):
        click.echo("podium doctor -v says why the others cannot run")


def versions() -> Iterator[str]:
    """Yield names and versions of podium, the interpreter, the installed packages and the
    driver.
    """
    yield f"podium {__version__}"
    yield f"Python {platform.python_version()}"
    for name, package in PACKAGES.items():
        found = None
        for distribution in DISTRIBUTIONS.get(package, (package,)):
            with suppress(PackageNotFoundError):
                found = found or version(distribution)
        if found:
            yield f"{name} {found}"
    yield from (f"NVIDIA driver {gpu.driver}" for gpu in gpus()[:1])


def table(findings: Sequence[Finding]) -> Iterator[str]:
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
            able([finding for finding in group if finding.half is half])
            for half in (Half.TRAINING, Half.INFERENCE)
        )
        yield f"{workload:<12} {engine:<12} {trains:<24} {serves}"


def able(findings: Sequence[Finding]) -> str:
    """List the precisions that run, and the untried ones; if there are none, the reason why fp32
    does not run.
    """
    ready = [finding.precision.value for finding in findings if finding.state is State.READY]
    untried = [
        f"{finding.precision} (not tried)" for finding in findings if finding.state is State.UNTRIED
    ]
    first = next((finding for finding in findings if finding.precision is Precision.FP32), None)
    none = (
        "-"
        if first is None
        else "not installed"
        if first.state is State.MISSING
        else f"- ({first.why})"
    )
    return ", ".join([*ready, *untried]) or none


def inputs_table(inputs: Sequence[InputFinding]) -> Iterator[str]:
    """Yield one line per input pipeline: the devices on which it works."""
    for name in dict.fromkeys(finding.name for finding in inputs):
        places = ", ".join(
            finding.place
            for finding in inputs
            if finding.name == name and finding.state is State.READY
        )
        absent = any(finding.state is State.MISSING for finding in inputs if finding.name == name)
        yield f"{'input':<12} {name:<12} {places or ('not installed' if absent else '-')}"


def fixes(findings: Sequence[Finding | InputFinding]) -> dict[str, list[str]]:
    """Map each install command to the engines and input pipelines that it enables."""
    found: dict[str, list[str]] = {}
    for finding in findings:
        _, install, rest = finding.why.partition(INSTALL)
        name = finding.engine if isinstance(finding, Finding) else finding.name
        if (
            finding.state is State.MISSING
            and install
            and name not in found.setdefault(install + rest, [])
        ):
            found[install + rest].append(name)
    return found


def show_reasons(findings: Sequence[Finding], inputs: Sequence[InputFinding]) -> None:
    """Print the missing packages of each extra, and each reason once with its subject."""
    for extra, absent in lacking().items():
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
