"""What `podium serve` serves, whatever the API."""

import platform
from pathlib import Path
from typing import Any

from harness.machine.system_description import describe_system
from harness.serving.network.wire import (
    ServerDescription,
    compute_machine_id,
    convert_settings_to_json,
)
from harness.serving.setup import ServingSetup, set_up_serving
from suite import __version__, registry
from suite.cli import RunOptions
from suite.errors import RequestError


def set_up_served_system(
    workload: str, options: RunOptions, checkpoint: Path | None
) -> ServingSetup:
    """Resolve a request to serve in this process, whatever the API; RequestError for several
    devices.
    """
    serving_setup = set_up_serving(workload, options, checkpoint)
    if serving_setup.system.placement:
        raise RequestError(
            "podium serve answers in one process: start one for each device, and give podium infer"
            " an --endpoint for each"
        )
    serving_setup.check_precision()
    return serving_setup.settle_threads()


def describe_served_system(
    serving_setup: ServingSetup, recorder: Any, *, server: str, software: str
) -> ServerDescription:
    """Describe what is served, for clients' records."""
    request, run = serving_setup.request, serving_setup.system.run
    return ServerDescription(
        workload=request.name,
        round=request.round.name,
        profile=request.profile.value,
        checkpoint_sha256=serving_setup.checkpoint.record.sha256,
        engine=request.engine,
        engine_package=registry.describe_engine_package(request.engine),
        precision=serving_setup.precision.value,
        framework=request.framework,
        device=run.device,
        threads=serving_setup.threads,
        settings=convert_settings_to_json(request.settings),
        built={
            network: convert_settings_to_json(facts) for network, facts in recorder.built.items()
        },
        calibrated=dict(recorder.calibrated),
        system=serving_setup.entry.system,
        description=convert_settings_to_json(
            describe_system(serving_setup.entry, request.described)
        ),
        machine=compute_machine_id(),
        node=platform.node(),
        server=server,
        software=software,
        version=__version__,
    )
