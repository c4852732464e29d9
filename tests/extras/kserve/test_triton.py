"""A real Triton in front of the predictor: the same answers, by the same protocol."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from podium_fakes.drive import entry, options, until_valid
from podium_fakes.kept import run_record, verdict_of
from podium_fakes.remote import SHORT, measure, served

from harness.serving import infer
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario

PYTHON = os.environ.get("PODIUM_TEST_TRITON", sys.executable)
"""nvidia-pytriton wants NumPy 1: it usually lies in an environment of its own."""
LACK = (
    "import numpy, pytriton.triton; assert numpy.__version__ < '2', f'numpy {numpy.__version__},"
    " and it needs numpy<2'"
)


def lacking() -> str:
    """Say why there is no Triton here; empty where there is."""
    tried = subprocess.run([PYTHON, "-c", LACK], capture_output=True, text=True, check=False)
    return tried.stderr.strip().splitlines()[-1] if tried.returncode else ""


pytestmark = [pytest.mark.slow]


@pytest.fixture(autouse=True, scope="module")
def installed() -> None:
    """Skip with the reason where Triton cannot run."""
    if why := lacking():
        pytest.skip(f"no Triton for {PYTHON} (PODIUM_TEST_TRITON names another Python): {why}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_triton_gives_the_same_answers(folder: Path):
    """Offline and Server, byte for byte; the record names what answered."""
    results = folder / "results"
    with served(
        results, "--server", "triton", listen=f"127.0.0.1:{free_port()}", python=PYTHON
    ) as server:
        until_valid(
            lambda: measure(
                results, server.url, scenarios=(Scenario.OFFLINE, Scenario.SERVER), system="triton"
            )
        )
    infer.serve_workload(
        "fake",
        options(results, *SHORT, system="near"),
        scenarios=(Scenario.OFFLINE,),
        mode="accuracy",
        checkpoint=None,
    )
    systems = entry(results).locate_benchmark("fake").parents[1]
    near = dict(read_logged_answers(systems / "near/fake/Offline/accuracy"))
    for scenario in ("Offline", "Server"):
        assert dict(read_logged_answers(systems / f"triton/fake/{scenario}/accuracy")) == near
        record = run_record(systems / f"triton/fake/{scenario}/performance/run_1")
        assert (
            verdict_of(systems / f"triton/fake/{scenario}/performance/run_1") == "VALID"
            and record.network
            and record.network.servers == ("triton",)
        )


def test_a_users_own_model_is_asked_by_its_tensors(folder: Path, tmp_path: Path):
    """Another server's model says nothing of a checkpoint: names and shapes come from the settings,
    and the answer has to be a finished one.
    """
    results, port = folder / "results", free_port()
    log = tmp_path / "own.log"
    with (
        log.open("w") as stream,
        subprocess.Popen(
            [PYTHON, str(OWN), str(port)], stdout=stream, stderr=stream, start_new_session=True
        ) as server,
    ):
        try:
            wait_for(port)
            names = (
                "endpoint.model=own",
                "endpoint.input=number:INT32:1x1",
                "endpoint.output=class:INT32:1x1",
            )
            measure(results, f"grpc://127.0.0.1:{port}", settings=names, system="own")
        finally:
            os.killpg(server.pid, 9)
    run = entry(results).locate_benchmark("fake").parents[1] / "own/fake/Offline/performance/run_1"
    record = run_record(run)
    assert record.network and (
        record.network.form,
        record.network.model,
        record.system.division,
    ) == (
        "tensors",
        "own",
        "open",
    )


OWN = Path(__file__).with_name("own_model.py")


def wait_for(port: int) -> None:
    """Wait until a model is ready."""
    import time

    import grpc
    from tritonclient.grpc import service_pb2, service_pb2_grpc

    stub = service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(f"127.0.0.1:{port}"))
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if stub.ModelReady(service_pb2.ModelReadyRequest(name="own"), timeout=2).ready:
                return
        except grpc.RpcError:
            pass
        time.sleep(0.2)
    raise AssertionError("the model was never ready")
