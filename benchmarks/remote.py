"""Measures the cost of a network: a system under test that does nothing, in LoadGen's process,
behind podium's server, and behind a real Triton.

All over loopback, one request per sample with a payload of 12,288 bytes (an image of 32 px in
fp32). Rate: Offline. Latency: the median of SingleStream, which podium infer --endpoint refuses,
and which here shows a round trip without a queue. CPU: of the server's process and its children,
per query; 1,500 queries/s on one core are 667 us. The sides alternate.

Usage: python benchmarks/remote.py [--pairs N] [--triton PYTHON] [--format text|json]
`--triton`: a Python with nvidia-pytriton (docs/reference/kserve.md); without it, only podium's
server is measured.
"""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil
from common.figures import hardware
from common.tiny import add_tiny_option, choose_size

from extras.kserve.builtin import BuiltinServer
from extras.kserve.forms import OpaqueForm
from extras.kserve.qdl import run_loadgen_over_network
from extras.kserve.remote import RemoteServers, RemoteSystem
from extras.kserve.service import PayloadService
from extras.kserve.triton import TritonServer
from harness.children.process import run_in_child
from harness.engines.null import NullInference
from harness.serving.harness_ceiling import build_null_schedule, build_null_system
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.loadgen.session import LoadedSystem, LoadGenJob, run_loadgen
from harness.serving.network.access import ClientCredentials, ServerCredentials
from harness.serving.network.wire import Endpoint, compute_machine_id
from harness.serving.network.wire import ServerDescription as ServerFacts
from suite.loadgen.detail_log import DetailLog, read_detail_log
from suite.loadgen.scenario import Scenario
from suite.records import NetworkRecord
from suite.units import NS_PER_MS, US_PER_S

PAYLOAD: Final = bytes(3 * 32 * 32 * 4)
MODEL: Final = "null"
BATCH: Final = 32
IN_FLIGHT: Final = 64
SAMPLES: Final = choose_size(6000, 200)
STREAM_MS: Final = choose_size(1500, 100)
START_S: Final = 120.0
GOAL_QPS: Final = 1500.0
GOAL_MS: Final = 1.0


class Samples(NullInference):
    """Samples of 12,288 bytes."""

    def payload(self, sample: int) -> bytes:
        """Return this many zeros."""
        return PAYLOAD


class Workload:
    """Serves them."""

    name = MODEL

    def build_inference(self, *_: Any) -> Samples:
        """Build the system under test."""
        return Samples()


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that is ready."""

    pid: int
    port: int

    def cpu_s(self) -> float:
        """Return the CPU time of its process and of all that it started."""
        processes = [psutil.Process(self.pid), *psutil.Process(self.pid).children(recursive=True)]
        return sum(sum(process.cpu_times()[:2]) for process in processes)


def facts(kind: str) -> ServerFacts:
    """Describe the null system."""
    texts = dict.fromkeys(
        ("round", "profile", "checkpoint_sha256", "engine_package", "node", "software", "version"),
        "none",
    )
    return ServerFacts(
        workload=MODEL,
        engine=MODEL,
        precision="fp32",
        framework="none",
        device="cpu",
        threads=1,
        settings={},
        system=MODEL,
        description={},
        machine=compute_machine_id(),
        server=kind,
        **texts,
    )


def serve(kind: str, port: int) -> None:
    """Run a server until a signal arrives."""
    service = PayloadService(Samples(), BatchingSettings(workers=1, max_batch=BATCH, window_us=0))
    service.start()
    listen = Endpoint(tls=False, host="127.0.0.1", port=port)
    server = (
        TritonServer(facts(kind), service, listen)
        if kind == "triton"
        else BuiltinServer(facts(kind), service, listen, ServerCredentials())
    )
    print(f"PORT {server.start()}", flush=True)
    signal.sigwait({signal.SIGTERM})
    server.stop()


@contextmanager
def started(python: str, kind: str, port: int) -> Iterator[Server]:
    """Start a server, on one core where there are two, and end it."""
    words = [python, str(Path(__file__).resolve()), "--serve", kind, "--port", str(port)]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        found = next(match for line in process.stdout if (match := re.match(r"PORT (\d+)", line)))
        cores = sorted(os.sched_getaffinity(0))
        for each in [
            psutil.Process(process.pid),
            *psutil.Process(process.pid).children(recursive=True),
        ]:
            each.cpu_affinity(cores[-1:])
        yield Server(pid=process.pid, port=int(found[1]))
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(START_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what a server left behind


def near(cache: Path) -> LoadedSystem:
    """The system in LoadGen's process."""
    return replace(build_null_system(cache, BATCH), workload=Workload())


def far(cache: Path, server: Server) -> RemoteSystem:
    """The system behind a server."""
    endpoint = Endpoint(tls=False, host="127.0.0.1", port=server.port)
    record = NetworkRecord(
        endpoints=(endpoint.url,),
        servers=("",),
        nodes=("",),
        machines=("",),
        loadgen_machine="",
        loopback=True,
        form="opaque",
        model=MODEL,
        round_trip_p50_ns=(),
        round_trip_p99_ns=(),
        bytes_out=0,
        bytes_in=0,
    )
    remote = RemoteServers(
        endpoints=(endpoint,),
        access=ClientCredentials(),
        form=OpaqueForm(model=MODEL),
        descriptions=(facts(""),),
        in_flight=IN_FLIGHT,
        timeout_ms=None,
        record=record,
    )
    base = near(cache)
    return RemoteSystem(
        workload=base.workload,
        engine=base.engine,
        run=base.run,
        checkpoint=base.checkpoint,
        batching=base.batching,
        driver=run_loadgen_over_network,
        remote=remote,
    )


def run(system: LoadedSystem, scenario: Scenario) -> DetailLog:
    """Do one LoadGen run."""
    schedule = build_null_schedule(scenario)
    offline = scenario is Scenario.OFFLINE
    schedule = (
        replace(schedule, min_queries=SAMPLES)
        if offline
        else replace(schedule, min_duration_ms=STREAM_MS, min_queries=100)
    )
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        run_in_child(run_loadgen, LoadGenJob(system=system, schedule=schedule, folder=Path(folder)))
        return read_detail_log(Path(folder))


def measured(system: LoadedSystem, server: Server | None = None) -> dict[str, float]:
    """Measure one side once."""
    before = server.cpu_s() if server else 0.0
    rate = run(system, Scenario.OFFLINE).require_number("result_samples_per_second")
    spent = (server.cpu_s() if server else 0.0) - before
    p50 = run(system, Scenario.SINGLE_STREAM).require_number("result_50.00_percentile_latency_ns")
    return {
        "samples_per_s": rate,
        "server_cpu_us": spent / SAMPLES * US_PER_S,
        "p50_ms": p50 / NS_PER_MS,
    }


def sides(pairs: int, triton: str | None) -> dict[str, list[dict[str, float]]]:
    """Alternate all sides."""
    cache = Path(os.environ.get("PODIUM_CACHE", "/tmp"))
    kinds = {"builtin": sys.executable} | ({"triton": triton} if triton else {})
    found: dict[str, list[dict[str, float]]] = {"in_process": [], **{kind: [] for kind in kinds}}
    for _ in range(pairs):
        found["in_process"].append(measured(near(cache)))
        for kind, python in kinds.items():
            with started(python, kind, 0 if kind == "builtin" else 18991) as server:
                measured(far(cache, server), server)  # warm
                found[kind].append(measured(far(cache, server), server))
    return found


def medians(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure."""
    return {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description="what a network costs")
    parser.add_argument("--pairs", type=int, default=choose_size(3, 1))
    add_tiny_option(parser)
    parser.add_argument("--triton", metavar="PYTHON")
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.add_argument("--serve", choices=["builtin", "triton"], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        serve(asked.serve, asked.port)
        return
    found = {side: medians(rows) for side, rows in sides(asked.pairs, asked.triton).items()}
    added = found["builtin"]["p50_ms"] - found["in_process"]["p50_ms"]
    per_core = US_PER_S / found["builtin"]["server_cpu_us"]
    goals = {
        "queries_per_s_on_one_core": per_core,
        "wanted_queries_per_s": GOAL_QPS,
        "p50_added_ms": added,
        "wanted_ms": GOAL_MS,
    }
    told = {
        **goals,
        "sides": found,
        "n": asked.pairs,
        "load": os.getloadavg()[0],
        "payload_bytes": len(PAYLOAD),
        "hardware": hardware(),
    }
    if asked.format == "json":
        print(json.dumps(told))
        return
    for side, figures in found.items():
        print(
            f"{side:<12}" + "".join(f"{key} {value:>12,.3f}   " for key, value in figures.items())
        )
    print(
        f"one core answers {goals['queries_per_s_on_one_core']:,.0f} queries/s; the network adds"
        f" {added:.3f} ms; n={asked.pairs}; {told['hardware']}"
    )


if __name__ == "__main__":
    main()
