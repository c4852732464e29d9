"""Probes the system under test of a command, and says what it found."""

from pathlib import Path

import click

from harness.children.process import run_in_child
from harness.serving.loadgen.probe import ProbeJob, ProbeResult, run_probe_job
from harness.serving.setup import ServingSetup
from suite.console.screen import print_progress_note
from suite.files.scratch import create_temporary_folder
from suite.units import NS_PER_MS


def probe_serving_speed(
    serving_setup: ServingSetup, truth: Path | None = None, query_samples: int = 1
) -> ProbeResult:
    """Probe the system under test in a child process, for its rate and latency.

    Args:
        serving_setup: what is probed.
        truth: empty folder that gets the ground truth; None: it is not kept.
        query_samples: of a MultiStream query.
    """
    if truth is None:
        with create_temporary_folder() as folder:
            return probe_serving_speed(serving_setup, folder, query_samples)
    print_progress_note(
        f"{serving_setup.request.name}: preparing: model, accuracy set, and a probe of its speed"
    )
    found = run_in_child(
        run_probe_job,
        ProbeJob(system=serving_setup.system, query_samples=query_samples, truth=truth),
    )
    click.echo(
        f"probe: {found.probe.samples_per_second:,.1f} samples/s,"
        f" {found.probe.latency_ns / NS_PER_MS:.2f} ms for one sample"
    )
    return found
