"""Requests that are large in number or in size, and files that never end: others are answered, and
one line says what is wrong.
"""

import asyncio
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.certificates import Certificates

from extras.kserve.builtin import parse_request_payloads, wait_for_answers
from extras.kserve.messages import encode_bytes_element, import_kserve_messages
from extras.kserve.service import FinishedCall, PayloadService, PendingCall
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.network.access import MAX_CREDENTIAL_BYTES, read_server_credentials
from harness.serving.network.failure_lines import FailureLines
from harness.serving.network.wire import Endpoint
from suite.errors import RequestError

MOST = 128


def build_request(shape: Sequence[int], *, listed: int = 0, raw: bytes | None = None) -> Any:
    request = import_kserve_messages().ModelInferRequest(model_name="fake")
    tensor = request.inputs.add(name="payload", datatype="BYTES", shape=shape)
    tensor.contents.bytes_contents.extend([b""] * listed)
    if raw is not None:
        request.raw_input_contents.append(raw)
    return request


@pytest.mark.parametrize(
    "request_",
    [
        build_request([1_000_000, 1], listed=1_000_000),
        build_request([1_000_000, 1], raw=encode_bytes_element(b"") * 1_000_000),
        build_request([1, 1], raw=encode_bytes_element(b"") * 1_000_000),
        build_request([1], listed=MOST + 1),
        build_request([2**62] * 9, listed=1),
        build_request([2**62] * 100_000, listed=1),
        build_request([2**62] * 8, raw=b""),
    ],
    ids=["listed", "raw", "raw of another shape", "one too many", "cube", "dimensions", "huge"],
)
def test_more_payloads_than_a_request_may_have_are_refused_in_few_words(request_: Any) -> None:
    """A million empty ones kept the server busy for 20 s."""
    with pytest.raises(ValueError, match="payloads in one request|dimensions|elements") as caught:
        parse_request_payloads(request_, MOST)
    assert len(str(caught.value)) < 300


def test_as_many_payloads_as_a_request_may_have_are_taken() -> None:
    listed = build_request([MOST, 1], listed=MOST)
    raw = build_request([MOST], raw=encode_bytes_element(b"x") * MOST)
    assert parse_request_payloads(listed, MOST) == [b""] * MOST
    assert parse_request_payloads(raw, MOST) == [b"x"] * MOST


class Predictor:
    """Answers a payload with itself; fails on those that are empty."""

    def __init__(self) -> None:
        self.gate, self.seen = threading.Event(), list[bytes]()

    def warm_up(self) -> None:
        """Nothing to do."""

    def predict(self, samples: Sequence[int]) -> Any:
        raise NotImplementedError

    def answer(self, payloads: Sequence[bytes]) -> list[bytes]:
        assert self.gate.wait(20)
        self.seen += payloads
        if b"" in payloads:
            raise ValueError("an empty payload")
        return list(payloads)


class Inference:
    """Opens the predictor for one worker."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    def open(self, worker: int, max_batch: int) -> Predictor:
        return self.predictor


class Owner:
    """What a server is to those who wait."""

    def __init__(self, service: PayloadService) -> None:
        self.service, self.loop = service, asyncio.get_running_loop()

    def deliver_answers(self, done: Sequence[FinishedCall]) -> None:
        self.loop.call_soon_threadsafe(
            lambda: [
                each.caller.set_result(each)  # type: ignore[attr-defined]
                for each in done
                if not each.caller.done()  # type: ignore[attr-defined]
            ]
        )


def start_service(predictor: Predictor) -> PayloadService:
    batching = BatchingSettings(max_batch=4, window_us=0, workers=1)
    service = PayloadService(Inference(predictor), batching)  # type: ignore[arg-type]
    service.start()
    return service


def test_what_nobody_waits_for_is_not_answered() -> None:
    """Deadlines and disconnections did not stop the work on a request."""
    predictor = Predictor()
    service = start_service(predictor)

    async def leave_early() -> list[bytes]:
        owner: Any = Owner(service)
        left = asyncio.ensure_future(wait_for_answers(owner, [b"left"] * 1000))
        await asyncio.sleep(0)
        kept = asyncio.ensure_future(wait_for_answers(owner, [b"kept"] * 3))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.wait([left])
        predictor.gate.set()
        return [each.answer for each in await kept]

    assert asyncio.run(leave_early()) == [b"kept"] * 3
    service.stop()
    assert predictor.seen.count(b"kept") == 3 and len(predictor.seen) <= 3 + 2 * 4
    assert service.answered == len(predictor.seen)


def test_failures_are_no_answers_and_fill_no_disk(capfd: pytest.CaptureFixture[str]) -> None:
    """31,250 lines came from one request, and a million samples \"were answered\"."""
    predictor = Predictor()
    predictor.gate.set()
    service = start_service(predictor)
    now_s = 0.0
    service.failures = FailureLines(lambda: now_s)
    done: list[FinishedCall] = []
    for payload in [b""] * 4_000 + [b"x"] * 8:
        service.submit_call(PendingCall(payload=payload, finish=done.extend, caller=None))
    service.stop()
    assert len(done) == 4_008 and 0 < service.answered <= 8
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and "failed: ValueError: an empty payload" in lines[0]
    now_s = 1.0
    service.failures.print_failure("a batch of 4", ValueError("again"))
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("a batch of 4 failed: ValueError: again (")
    assert line.endswith("failures before it are not listed)")


LOCAL = Endpoint(tls=True, host="127.0.0.1", port=0)


def make_fifo(path: Path) -> None:
    subprocess.run(["mkfifo", str(path)], check=True)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.symlink_to("/dev/zero"), "not a plain file"),
        (make_fifo, "not a plain file"),
        (Path.mkdir, "not a plain file|Is a directory"),
        (lambda path: path.write_bytes(b"x" * (MAX_CREDENTIAL_BYTES + 1)), "larger than"),
        (lambda path: None, "No such file"),
    ],
    ids=["zero", "pipe", "folder", "large", "missing"],
)
@pytest.mark.parametrize("option", ["--token-file", "--tls-cert", "--tls-key"])
def test_a_file_of_an_option_that_never_ends_is_refused(
    certificates: Certificates,
    tmp_path: Path,
    option: str,
    make: Callable[[Path], None],
    why: str,
) -> None:
    """/dev/zero was read until the memory was full."""
    make(tmp_path / "file")
    files: dict[str, Path | None] = {
        "--tls-cert": certificates.certificate,
        "--tls-key": certificates.key,
        "--token-file": None,
    }
    files[option] = tmp_path / "file"
    with pytest.raises(RequestError, match=f"{option} .*({why})"):
        read_server_credentials(LOCAL, *files.values())


@pytest.mark.parametrize("spoil", ["authority", "none", "locked"])
def test_a_key_of_another_certificate_is_told_as_such(
    certificates: Certificates, tmp_path: Path, spoil: str
) -> None:
    """gRPC said \"Failed to bind to address\"."""
    key, words = tmp_path / "key", "certificate and key do not belong together"
    if spoil == "authority":
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True)
    elif spoil == "none":
        shutil.copy(certificates.certificate, key)
        words = "a certificate and a key in PEM form"
    else:
        lock = ["openssl", "pkey", "-aes256", "-passout", "pass:x"]
        subprocess.run([*lock, "-in", str(certificates.key), "-out", str(key)], check=True)
        words = "without a password"
    with pytest.raises(RequestError, match=words):
        read_server_credentials(LOCAL, certificates.certificate, key, None)


@pytest.mark.parametrize(
    ("host", "is_open"),
    [("0.0.0.0", True), ("::", True), ("node7", True), ("127.0.0.1", False), ("::1", False)],
)
def test_a_server_that_anybody_may_use_says_so(
    capsys: pytest.CaptureFixture[str], host: str, is_open: bool
) -> None:
    read_server_credentials(Endpoint(tls=False, host=host, port=8001), None, None, None)
    told = capsys.readouterr().err
    assert ("anybody who reaches" in told and "--token-file" in told) is is_open
