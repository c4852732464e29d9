"""`podium serve` and `podium infer --endpoint` as a user types them, between two hosts: network
namespaces with a pair of interfaces between.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from podium_fakes.kept import run_record
from podium_fakes.remote import ready, started

pytestmark = pytest.mark.slow
NEAR, FAR = "10.77.0.1", "10.77.0.2"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass(frozen=True)
class Hosts:
    """Names of the two namespaces."""

    near: str
    far: str


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """Two namespaces that see each other and nothing else."""
    made = Hosts(near=f"near{os.getpid()}", far=f"far{os.getpid()}")
    try:
        ip("netns", "add", made.near)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces here: {getattr(error, 'stderr', '') or error}")
    try:
        ip("netns", "add", made.far)
        ip(
            "link",
            "add",
            "v0",
            "netns",
            made.near,
            "type",
            "veth",
            "peer",
            "name",
            "v1",
            "netns",
            made.far,
        )
        for name, device, address in ((made.near, "v0", NEAR), (made.far, "v1", FAR)):
            ip("-n", name, "addr", "add", f"{address}/24", "dev", device)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", device, "up")
        yield made
    finally:
        for name in (made.near, made.far):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def measured(command: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run the command; again where a machine that stalled made its run INVALID."""
    for _ in range(5):
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if "Server performance: INVALID" not in ended.stdout:
            break
    return ended


def test_a_run_between_two_hosts(hosts: Hosts, folder: Path):
    """The server is not on loopback, and is still on the same machine: the result may not claim the
    Network Division.
    """
    results, log = folder / "results", folder / "far.log"
    common = ["fake", "--results", str(results)]
    serve = [
        "serve",
        *common,
        "--framework",
        "fake",
        "--engine",
        "fake",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--listen",
        f"{FAR}:8001",
    ]
    with log.open("w") as stream:
        server = started(
            ["ip", "netns", "exec", hosts.far, sys.executable, "-m", "harness", *serve],
            stream,
            dict(os.environ),
        )
        try:
            url = ready(server, log).url
            infer = [
                "infer",
                *common,
                "--org",
                "tests",
                "--endpoint",
                url,
                "--system",
                "hosts",
                "--set",
                "server.target_qps=200",
                "--set",
                "loadgen.min_duration_ms=20",
            ]
            inside = ["ip", "netns", "exec", hosts.near, sys.executable, "-m", "harness", *infer]
            ended = measured(inside)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    assert ended.returncode == 0, ended.stderr
    record = run_record(results / "open/tests/results/hosts/fake/Server/performance/run_1")
    assert (
        record.network
        and not record.network.loopback
        and not record.network.is_on_other_machines
        and record.system.division == "open"
    )
    assert record.network.endpoints == (f"grpc://{FAR}:8001",)
