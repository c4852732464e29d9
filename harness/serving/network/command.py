"""`podium serve`: a checkpoint behind a network, until it is stopped."""

import platform
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click

from harness.distributed import SingleRank
from harness.doctor.dtype_trials import PrecisionTrial, WorkloadHalf, check_precision_runs
from harness.machine.system_description import describe_system
from harness.serving.network.access import Guard, guard
from harness.serving.network.builtin import Builtin, check_installed
from harness.serving.network.service import Service
from harness.serving.network.triton import TritonServer, check_request
from harness.serving.network.wire import Endpoint, Facts, machine, parse_listen, plain_settings
from harness.serving.setup import Bench, set_up
from harness.thread_count import resolve_thread_count
from suite import __version__, registry
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import RequestError
from suite.process import garbage
from suite.process.signals import Interrupted, raised_signals
from suite.workload import PayloadInference

TRITON: Final = "triton"


def serve(
    workload: str,
    options: RunOptions,
    *,
    checkpoint: Path | None,
    listen: str,
    server: str,
    files: tuple[Path | None, Path | None, Path | None],
) -> None:
    """Serve a checkpoint until a signal ends it. `files`: TLS certificate, its key, token."""
    check_installed()
    certificate, key, token = files
    address = parse_listen(listen, certificate is not None)
    lock = guard(address, certificate, key, token)
    if server == TRITON:
        check_request(address, lock)
    bench = set_up(workload, options, checkpoint)
    if bench.system.placement:
        raise RequestError(
            "podium serve answers in one process: start one for each device, and give podium infer"
            " an --endpoint for each"
        )
    check_precision_runs(
        PrecisionTrial(
            workload=workload,
            half=WorkloadHalf.INFERENCE,
            engine=options.engine,
            precision=bench.precision,
        ),
        bench.system.run.device,
    )
    bench = bench.on(resolve_thread_count(options.threads, SingleRank(), 0))
    print_progress_note(f"{workload}: preparing the model")
    inference, recorder = bench.system.open()
    if not isinstance(inference, PayloadInference):
        raise RequestError(
            f"{workload}: its Inference has no method `payload`: it cannot be served over a network"
            " (docs/guides/your-workload.md)"
        )
    service = Service(inference, bench.system.batching)
    service.start()
    garbage.freeze_loaded_objects()
    facts = facts_of(bench, recorder, server)
    with raised_signals():
        run(facts, service, address, lock)


def run(facts: Facts, service: Service, address: Endpoint, lock: Guard) -> None:
    """Serve until a signal comes."""
    built = (
        TritonServer(facts, service, address)
        if facts.server == TRITON
        else Builtin(facts, service, address, lock)
    )
    port = built.start()
    where = Endpoint(tls=address.tls, host=address.host, port=port)
    click.echo(
        f"{facts.workload}: {facts.engine} {facts.precision} of checkpoint"
        f" {facts.checkpoint_sha256[:16]} on {where.url}; Ctrl-C ends it"
    )
    try:
        threading.Event().wait()
    except Interrupted as error:
        built.stop()
        raise type(error)(
            f"{facts.workload}: {error}; {service.answered:,} samples were answered"
        ) from error


def facts_of(bench: Bench, recorder: Any, server: str) -> Facts:
    """Describe what is served, for clients' records."""
    request, run = bench.request, bench.system.run
    return Facts(
        workload=request.name,
        round=request.round.name,
        profile=request.profile.value,
        checkpoint_sha256=bench.checkpoint.record.sha256,
        engine=request.options.engine,
        engine_package=registry.describe_engine_package(request.options.engine),
        precision=bench.precision.value,
        framework=request.options.framework,
        device=run.device,
        threads=bench.threads,
        settings=plain_settings(request.settings),
        built={network: plain_settings(facts) for network, facts in recorder.built.items()},
        calibrated=dict(recorder.calibrated),
        system=bench.entry.system,
        description=plain_settings(describe_system(bench.entry, request.described)),
        machine=machine(),
        node=platform.node(),
        server=server,
        software=f"grpcio {version('grpcio')}, tritonclient {version('tritonclient')}",
        version=__version__,
    )
