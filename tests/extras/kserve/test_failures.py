"""Servers that are not there, not trusted, die, freeze or answer wrongly: one sentence, the
documented exit code, nothing that looks like a result.
"""

import os
import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.certificates import Certificates
from podium_fakes.drive import listed
from podium_fakes.remote import Served, forked, measure, serving
from warm import Warm

from extras.kserve.messages import import_kserve_messages
from extras.kserve.triton import check_triton_request
from harness.serving.network.access import ServerCredentials
from harness.serving.network.endpoint_options import parse_network_scenarios
from harness.serving.network.wire import Endpoint
from suite.errors import JudgedError, MissingError, RequestError
from suite.loadgen.scenario import Scenario

LONG = ("loadgen.min_duration_ms=60000", "server.target_qps=50")
SOON_S = 30.0


@pytest.fixture(scope="module")
def server(light: Warm, folder: Path) -> Iterator[Served]:
    """One without TLS and token."""
    with forked(light, folder / "results") as ready:
        yield ready


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text("s3cret-of-the-server\n")
    return path


@pytest.fixture(scope="module")
def locked(light: Warm, folder: Path, certificates: Certificates, token: Path) -> Iterator[Served]:
    """One with TLS and a token."""
    files = [
        "--tls-cert",
        str(certificates.certificate),
        "--tls-key",
        str(certificates.key),
        "--token-file",
        str(token),
    ]
    with forked(light, folder / "results", *files) as ready:
        yield ready


def nothing_left(results: Path) -> bool:
    """No run, finished or not."""
    return not [
        *results.rglob("run.json"),
        *results.rglob("*.partial"),
        *results.rglob("mlperf_log_*"),
    ]


def refused(results: Path, error: type[Exception], why: str, *urls: str, **more: Any) -> None:
    with pytest.raises(error, match=why):
        measure(results, *urls, **more)
    assert nothing_left(results)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_nobody_there(folder: Path):
    """gRPC alone would wait, and say UNAVAILABLE."""
    refused(
        folder / "results",
        MissingError,
        "no server there: Connection refused",
        f"grpc://127.0.0.1:{free_port()}",
    )


def test_a_name_that_nobody_knows(folder: Path):
    refused(
        folder / "results",
        MissingError,
        "the name nowhere.invalid is not known",
        "grpc://nowhere.invalid:8001",
    )


def test_something_else_listens_there(folder: Path):
    """A port that belongs to another program accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def closing() -> None:
            with suppress(OSError):  # the test is over, and the listener closed
                for _ in range(8):
                    listener.accept()[0].close()

        threading.Thread(target=closing, daemon=True).start()
        refused(
            folder / "results",
            MissingError,
            "UNAVAILABLE|no server there",
            f"grpc://127.0.0.1:{listener.getsockname()[1]}",
        )


@pytest.mark.parametrize(
    ("url", "why"),
    [
        *((url, "write grpc://HOST:PORT") for url in ("h1:8001", "ftp://h1:8001", "grpc://h1")),
        ("grpc://h1:99999", "no port is above 65,535"),
        ("grpc://:8001", "write grpc://HOST:PORT"),
    ],
)
def test_an_endpoint_that_is_none(folder: Path, url: str, why: str):
    refused(folder / "results", RequestError, why, url)


@pytest.mark.slow
def test_the_same_server_twice(folder: Path, server: Served):
    """It would look like two."""
    refused(folder / "results", RequestError, "named twice", server.url, server.url)


@pytest.mark.slow
def test_tls_and_token_let_the_right_client_in(
    folder: Path, locked: Served, certificates: Certificates, token: Path, tmp_path: Path
):
    """And the token is nowhere in what is left behind."""
    measure(
        folder / "results",
        locked.url,
        mode="accuracy",
        ca=certificates.authority,
        token_file=token,
        system="locked",
    )
    made = folder / "results/open/tests"
    files = [path for path in (folder / "results").rglob("*") if path.is_file()]
    assert files and not any(b"s3cret" in path.read_bytes() for path in [*files, *locked.logs])
    for name in ("results", "measurements", "systems", "truth", "ledger"):
        shutil.rmtree(made / name, ignore_errors=True)


def test_tls_where_there_is_none(folder: Path, server: Served):
    refused(
        folder / "results",
        MissingError,
        "no TLS there; write grpc://",
        server.url.replace("grpc:", "grpcs:"),
    )


@pytest.mark.slow
def test_no_tls_where_it_is_wanted(folder: Path, locked: Served):
    refused(
        folder / "results",
        MissingError,
        "the server wants TLS; write grpcs://",
        locked.url.replace("grpcs:", "grpc:"),
    )


@pytest.mark.slow
def test_a_certificate_that_nobody_vouches_for(
    folder: Path, locked: Served, certificates: Certificates
):
    """Without --ca the system's authorities count; with a stranger's, nobody does."""
    refused(
        folder / "results", MissingError, "not trusted: .*; --ca names the certificates", locked.url
    )
    refused(
        folder / "results",
        MissingError,
        "not trusted: .*; --ca does not vouch",
        locked.url,
        ca=certificates.stranger,
    )


@pytest.mark.slow
def test_a_certificate_of_another_name(light: Warm, folder: Path, certificates: Certificates):
    """Whoever redirects a name would be measured instead."""
    with forked(
        light,
        folder / "results",
        "--tls-cert",
        str(certificates.certificate),
        "--tls-key",
        str(certificates.key),
        listen="127.0.0.2:0",
    ) as other:
        refused(
            folder / "results",
            MissingError,
            "not trusted: .*mismatch",
            other.url,
            ca=certificates.authority,
        )


@pytest.mark.slow
def test_a_token_that_is_missing_or_wrong(
    folder: Path, locked: Served, certificates: Certificates, tmp_path: Path
):
    """UNAUTHENTICATED alone does not say what to do."""
    (tmp_path / "wrong").write_text("guess\n")
    refused(
        folder / "results",
        MissingError,
        "wants a token: --token-file",
        locked.url,
        ca=certificates.authority,
    )
    refused(
        folder / "results",
        MissingError,
        "is not the server's",
        locked.url,
        ca=certificates.authority,
        token_file=tmp_path / "wrong",
    )


@pytest.mark.slow
def test_a_token_never_travels_in_the_clear(folder: Path, token: Path):
    """Not even to a server that is not there."""
    refused(
        folder / "results",
        RequestError,
        "travel in the clear",
        "grpc://h1.invalid:8001",
        token_file=token,
    )


@pytest.mark.parametrize("content", ["", "two words", "caf\u00e9"])
def test_a_token_file_without_a_token(folder: Path, server: Served, tmp_path: Path, content: str):
    (tmp_path / "token").write_text(content)
    refused(folder / "results", RequestError, "one line", server.url, token_file=tmp_path / "token")


@contextmanager
def once_running(results: Path, act: Callable[[], object]) -> Iterator[list[float]]:
    """Do something to a server half a second after LoadGen's performance run began; yields when."""
    when: list[float] = []

    def wait() -> None:
        while not (found := listed(results, "performance/*.partial/mlperf_log_detail.txt")):
            time.sleep(0.01)
        while found[0].stat().st_size == 0:
            time.sleep(0.01)
        time.sleep(0.5)
        act()
        when.append(time.monotonic())

    watcher = threading.Thread(target=wait, daemon=True)
    watcher.start()
    yield when


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [Scenario.SERVER, Scenario.OFFLINE])
def test_a_server_that_dies(light: Warm, folder: Path, tmp_path: Path, scenario: Scenario):
    """LoadGen would wait for its answers for ever."""
    results, slow = folder / "results", ("fake.sleep_ms=20.0", "offline.expected_qps=2000.0")
    with (
        forked(light, results, "--set", slow[0]) as mortal,
        once_running(results, lambda: os.killpg(mortal.process.pid, signal.SIGKILL)) as when,
    ):
        refused(
            results,
            JudgedError,
            r"went away after [\d,]+ of [\d,]+ answers; nothing of that run counts",
            mortal.url,
            settings=(*LONG, *slow),
            scenarios=(scenario,),
            mode="performance",
        )
    assert time.monotonic() - when[0] < SOON_S


@pytest.mark.slow
def test_a_server_that_freezes(light: Warm, folder: Path):
    """It holds its connections and never answers."""
    results = folder / "results"
    with (
        forked(light, results) as frozen,
        once_running(results, lambda: os.kill(frozen.process.pid, signal.SIGSTOP)) as when,
    ):
        refused(
            results,
            JudgedError,
            r"gave no answer for 1 s, after [\d,]+ of [\d,]+ answers",
            frozen.url,
            settings=(*LONG, "endpoint.timeout_ms=1000"),
            scenarios=(Scenario.SERVER,),
            mode="performance",
        )
    assert time.monotonic() - when[0] < SOON_S


WRONG = [
    ("empty", "1 answer that is not empty wanted"),
    ("raise", "refused a query .*broken on purpose"),
    ("few", "refused a query"),
]


@pytest.mark.slow
@pytest.mark.parametrize("fault, why", WRONG)
def test_a_server_that_answers_wrongly(
    light: Warm, folder: Path, tmp_path: Path, fault: str, why: str
):
    """An empty answer would be taken for one."""
    results, flag = folder / "results", tmp_path / "now"
    with (
        forked(light, results, fault=f"{fault} {flag}") as wrong,
        once_running(results, flag.touch),
    ):
        refused(
            results,
            JudgedError,
            why,
            wrong.url,
            settings=LONG,
            scenarios=(Scenario.SERVER,),
            mode="performance",
        )


@pytest.mark.slow
def test_a_server_slower_than_the_rate_is_invalid(light: Warm, folder: Path):
    """It is slow, not broken: LoadGen says INVALID, the hint names the rate, and nothing is asked
    twice.
    """
    results, slow = folder / "results", "fake.sleep_ms=5.0"
    with forked(light, results, "--set", slow, "--set", "batching.max_batch=1") as late:
        settings = (slow, "server.target_qps=1000", "loadgen.min_duration_ms=400")
        with pytest.raises(JudgedError, match="Server performance run 1 is INVALID"):
            measure(
                results,
                late.url,
                settings=settings,
                scenarios=(Scenario.SERVER,),
                mode="performance",
                system="late",
            )


@pytest.mark.parametrize("scenario", ["single-stream", "multi-stream"])
def test_only_server_and_offline_exist_over_a_network(scenario: str):
    """inference_rules.adoc, Network Division: the datacenter suite."""
    with pytest.raises(RequestError, match="only Server and Offline"):
        parse_network_scenarios(scenario)
    assert [each.value for each in parse_network_scenarios("all")] == ["offline", "server"]


@pytest.mark.slow
def test_what_triton_cannot_do_is_said_before_the_model_is_built(token: Path):
    """pytriton would put a token among arguments that everybody can read."""
    guarded, port = ServerCredentials(token="s3cret"), Endpoint(tls=False, host="127.0.0.1", port=0)
    with pytest.raises(RequestError, match="--token-file: pytriton starts a Triton without tokens"):
        check_triton_request(port, guarded)
    with pytest.raises(RequestError, match="cannot choose a free port"):
        check_triton_request(port, ServerCredentials())


@pytest.mark.slow
@pytest.mark.parametrize(
    "listen, why",
    [
        ("8001", "write HOST:PORT"),
        ("127.0.0.1:99999", "write HOST:PORT"),
        ("203.0.113.7:0", "--listen 203.0.113.7:0"),
    ],
)
def test_an_address_that_cannot_be_listened_on(light: Warm, folder: Path, listen: str, why: str):
    """One sentence, exit code 2."""
    ended = light.run([*serving(folder / "results"), "--listen", listen])
    assert ended.returncode == 2 and why in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_port_that_another_program_has(light: Warm, folder: Path, server: Served):
    """Two servers on one port would share its queries."""
    place = server.url.removeprefix("grpc://")
    ended = light.run([*serving(folder / "results"), "--listen", place])
    assert ended.returncode == 2 and place in ended.stderr


@pytest.mark.slow
def test_missing_packages_are_named_with_their_extra(monkeypatch: pytest.MonkeyPatch):
    """Exit code 3, and how to install them."""
    monkeypatch.setitem(sys.modules, "tritonclient.grpc", None)
    with pytest.raises(MissingError, match=r"pip install .*\[remote\]"):
        import_kserve_messages()
