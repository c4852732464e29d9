"""Real LoadGen over HTTP: what comes of a scripted server's answers, and of requests and servers
that are wrong.
"""

import json
import socket
import ssl
import sys
import time
from pathlib import Path

import numpy
import pytest
from podium_fakes.certificates import Certificates
from podium_fakes.drive import options
from podium_fakes.kept import run_record
from podium_fakes.measuring import find_run, measure, nothing_left
from podium_fakes.scripted import (
    OPENING,
    Asked,
    Behaviour,
    answering,
    chunk,
    closing,
    delta,
    document,
    event,
    reply,
    scripted,
    sending,
    silent,
    stream,
    usage,
)

from harness.serving import infer
from harness.serving.network.openai import server_pool
from harness.serving.network.site_choice import choose_remote_site
from suite.errors import JudgedError, MissingError, PodiumError, RequestError
from suite.files.layout import (
    QUERY_RECORD_FILE,
    TOKEN_RECORD_FILE,
    USAGE_RECORD_FILE,
)
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario
from workloads.llama.serving_set import generate_serving_documents
from workloads.llama.vocabulary import (
    END_ID,
    compute_tokenizer_sha256,
    encode_prompt,
    encode_text,
)

TEXT = "Anna Bruno Dora sells"
IDS = [*encode_text(TEXT), END_ID]


def byte_by_byte(asked: Asked) -> None:
    content = OPENING + b"".join(map(chunk, stream(counted=5))) + b"0\r\n\r\n"
    for place in range(len(content)):
        asked.send(content[place : place + 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "behave",
    [
        answering(stream(counted=5)),
        answering(stream()),
        answering([event(delta("", role="assistant")), *stream(counted=5)]),
        byte_by_byte,
        answering(stream(["Anna Bruno", "Dora sells"])),
    ],
    ids=["counted", "not counted", "empty first chunk", "byte by byte", "two tokens a chunk"],
)
def test_a_server_run_has_the_same_tokens_in_every_form(results: Path, behave: Behaviour):
    with scripted(behave) as server:
        measure(results, server.url, settings=("loadgen.min_queries=64",))
    folder = find_run(results)
    tokens, queries = (numpy.load(folder / name) for name in (TOKEN_RECORD_FILE, QUERY_RECORD_FILE))
    assert len(tokens) == len(queries) >= 64
    assert set(tokens[:, 3]) == {5}
    assert (queries["issued_ns"] < tokens[:, 1]).all() and (tokens[:, 1] <= tokens[:, 2]).all()
    network = run_record(folder).network
    assert network is not None and network.form == "prompts" and network.api == "chat"
    assert network.tokens_logged == network.tokens_recounted == 5 * len(tokens)
    assert network.answers_differing == 0 and network.streamed and network.connections == 8
    assert network.tokenizer == compute_tokenizer_sha256() and network.server is None
    assert network.targets == (f"{server.url}/v1/chat/completions",)
    log = read_detail_log(folder)
    assert log.errors == ()
    assert dict(read_logged_answers(folder))[int(tokens[0, 0])] == numpy.array(IDS, "<i4").tobytes()


@pytest.mark.slow
def test_a_count_that_is_not_the_texts_is_recorded_beside_it(results: Path):
    with scripted(answering(stream(counted=6))) as server:
        measure(results, server.url)
    network = run_record(find_run(results)).network
    assert network is not None
    answers = network.answers_differing
    assert (network.tokens_logged, network.tokens_recounted) == (6 * answers, 5 * answers)
    assert set(numpy.load(find_run(results) / TOKEN_RECORD_FILE)[:, 3]) == {6}


@pytest.mark.slow
def test_cached_tokens_of_prompts_are_kept_per_answer(
    results: Path, capsys: pytest.CaptureFixture[str]
):
    told = event(usage(5, prompt_tokens_details={"cached_tokens": 8}))
    with scripted(answering([*stream()[:-1], told, b"data: [DONE]\n\n"])) as server:
        measure(results, server.url)
    folder = find_run(results)
    rows = numpy.load(folder / USAGE_RECORD_FILE)
    assert rows.tolist() == [[9, 8]] * len(numpy.load(folder / TOKEN_RECORD_FILE))
    network = run_record(folder).network
    assert network is not None
    assert (network.prompt_tokens, network.cached_tokens) == (9 * len(rows), 8 * len(rows))
    wanted = f"{8 * len(rows):,} of {9 * len(rows):,} tokens of the prompts were in a cache"
    assert wanted in capsys.readouterr().out


@pytest.mark.slow
def test_a_server_that_counts_no_prompts_leaves_no_record_of_them(results: Path):
    with scripted(answering(stream())) as server:
        measure(results, server.url)
    network = run_record(find_run(results)).network
    assert network is not None
    assert (network.prompt_tokens, network.cached_tokens) == (None, None)
    assert not (find_run(results) / USAGE_RECORD_FILE).exists()


@pytest.mark.slow
@pytest.mark.parametrize("counted", [50, 2])
def test_a_count_that_the_judge_would_refuse_ends_the_run(results: Path, counted: int):
    with (
        scripted(answering(stream(counted=counted))) as server,
        pytest.raises(JudgedError, match=r"the servers count [\d,]+ tokens in [\d,]+ answers"),
    ):
        measure(results, server.url)
    assert nothing_left(results)


@pytest.mark.slow
def test_answers_that_come_at_once_are_no_streams(
    results: Path, capsys: pytest.CaptureFixture[str]
):
    at_once = OPENING + b"".join(map(chunk, stream())) + b"0\r\n\r\n"
    with scripted(sending(at_once)) as server:
        measure(results, server.url)
    network = run_record(find_run(results)).network
    assert network is not None and network.answers_in_one_read is not None
    assert network.answers_in_one_read >= 0.9 * len(
        numpy.load(find_run(results) / TOKEN_RECORD_FILE)
    )
    assert "answers came with all their tokens at once" in capsys.readouterr().out


@pytest.mark.slow
def test_the_probe_waits_as_long_as_the_user_says(results: Path):
    began = time.monotonic()
    with (
        scripted(silent) as server,
        pytest.raises(JudgedError, match="did not end an answer within 0.5 s, in answer to"),
    ):
        measure(results, server.url, settings=("endpoint.timeout_ms=500",))
    assert time.monotonic() - began < 30
    assert nothing_left(results)


@pytest.mark.slow
@pytest.mark.parametrize("api", ["chat", "completions"])
def test_an_accuracy_run_asks_every_sample_once(results: Path, api: str):
    """Offline's answers are not streamed; the probe's were. Before both, one prompt of each form
    is asked.
    """
    streamed = answering(stream())

    def either(asked: Asked) -> None:
        if asked.body["stream"]:
            streamed(asked)
        else:
            asked.send(document(TEXT))

    with scripted(either) as server, pytest.raises(JudgedError, match="rougeL is .*, below 0.9"):
        measure(
            results,
            server.url,
            settings=(f"endpoint.api={api}",),
            scenario=Scenario.OFFLINE,
            mode="accuracy",
        )
    documents = generate_serving_documents()
    _, *asked = [each.body for each in server.requests if not each.body["stream"]]
    wanted = (
        [encode_prompt(each) for each in documents]
        if api == "completions"
        else [[{"role": "user", "content": each.article}] for each in documents]
    )
    found = [each["prompt" if api == "completions" else "messages"] for each in asked]
    assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, wanted))
    assert {each["max_tokens"] for each in asked} == {24}
    assert {each["temperature"] for each in asked} == {0}
    assert {each["model"] for each in asked} == {"llama"}
    answers = dict(read_logged_answers(find_run(results)))
    assert set(answers.values()) == {numpy.array(IDS, "<i4").tobytes()} and len(answers) == 512


@pytest.mark.slow
@pytest.mark.parametrize(
    ("behave", "why"),
    [
        (sending(OPENING, chunk(event(delta("Anna"))), then=closing), "cut a stream"),
        (sending(reply(503, b"{}")), "answered 503"),
        (closing, "closed the connection after the request was sent"),
        (silent, "did not end an answer within 0.5 s, in answer to sample"),
    ],
    ids=["cut", "503", "closes", "silent"],
)
def test_a_server_that_fails_leaves_nothing(results: Path, behave: Behaviour, why: str):
    """In the midst of a run, after a probe that went well."""
    good = answering(stream())

    def answer(asked: Asked) -> None:
        (behave if len(server.requests) > 2000 else good)(asked)

    with scripted(answer) as server:
        with pytest.raises(JudgedError, match=why) as error:
            measure(
                results,
                server.url,
                settings=(
                    "endpoint.timeout_ms=500",
                    "loadgen.min_duration_ms=60000",
                    "server.target_qps=400",
                ),
            )
        assert "nothing of that run counts" in str(error.value)
    assert nothing_left(results)


@pytest.mark.parametrize(
    ("settings", "error", "why"),
    [
        (
            ("endpoint.model=other",),
            RequestError,
            "does not serve the model 'other'; it serves llama",
        ),
        (("endpoint.tokenizer=/nowhere/t.json",), RequestError, "no tokenizer: /nowhere/t.json"),
        (("endpoint.api=rest",), RequestError, "unknown value of endpoint.api 'rest'"),
        (("endpoint.header.X-Key=/nowhere",), RequestError, "/nowhere: No such file"),
        (("endpoint.header.Host=/nowhere",), RequestError, "no header of this name"),
        (("endpoint.in_flight=0",), RequestError, "endpoint.in_flight"),
        (("batching.max_batch=3",), RequestError, "it is the server's"),
        (("endpoint.input=a:FP32:1",), RequestError, "http:// do not have it"),
    ],
)
def test_requests_that_are_wrong(
    results: Path, settings: tuple[str, ...], error: type[PodiumError], why: str
):
    with scripted(answering(stream())) as server:
        with pytest.raises(error, match=why):
            measure(results, server.url, settings=settings)
        assert server.requests == []
    assert nothing_left(results)


@pytest.mark.parametrize(
    ("page", "error", "why"),
    [
        (
            reply(503, b'{"error": "loading"}'),
            JudgedError,
            "answers 503 to GET /v1/models: loading",
        ),
        (reply(301, b"", "Location: http://h2"), JudgedError, "redirects with 301 to http://h2"),
        (reply(401, b""), MissingError, "the server wants a token: --token-file"),
        (reply(200, b"<html>"), JudgedError, "with '<html>', which is no list of models: is that"),
        (reply(200, b"{}", version="1.0"), JudgedError, "speaks HTTP/1.0"),
        (b"HTTP/1.1 200 OK\r\nX: " + bytes(1 << 17), JudgedError, "does not answer GET /v1/models"),
        (reply(200, b" " * (5 << 20)), JudgedError, "with more than 4,194,304 bytes"),
    ],
)
def test_servers_that_are_no_use(results: Path, page: bytes, error: type[PodiumError], why: str):
    with scripted(answering(stream()), pages={"/v1/models": page}) as server:
        with pytest.raises(error, match=why):
            measure(results, server.url)
        assert server.requests == [] and server.questions == ["/v1/models"]
    assert nothing_left(results)


@pytest.mark.parametrize(
    "page", [reply(404, b""), reply(200, b'{"object": "list", "data": []}')], ids=["none", "empty"]
)
def test_a_server_without_a_list_of_models_is_taken_at_its_word(results: Path, page: bytes):
    with (
        scripted(sending(reply(500, b"no")), pages={"/v1/models": page}) as server,
        pytest.raises(JudgedError, match="answered 500: no, in answer to sample"),
    ):
        measure(results, server.url, settings=("endpoint.model=anything",))
    assert server.requests[0].body["model"] == "anything"


def test_nobody_there(results: Path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(MissingError, match="no server there: Connection refused"):
        measure(results, f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("url", ["h1:8000", "localhost", "ftp://h1:8000", "http://", "http://h1:0"])
def test_an_address_that_is_none(results: Path, url: str):
    with pytest.raises(RequestError, match="http://HOST:PORT"):
        measure(results, url)


def test_servers_of_two_kinds_are_not_one_system(results: Path):
    with pytest.raises(RequestError, match="not one system"):
        measure(results, "http://h1:8000", "grpc://h2:8001")


@pytest.mark.parametrize("module", ["httptools", "tokenizers"])
def test_without_the_extra(results: Path, monkeypatch: pytest.MonkeyPatch, module: str):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingError, match=rf"{module} is not installed: pip install .*openai"):
        measure(results, "http://127.0.0.1:9")


def test_a_token_and_a_header_are_sent_and_not_recorded(results: Path, tmp_path: Path):
    for name in ("token", "key"):
        (tmp_path / name).write_text(f"secret-{name}\n")
    with scripted(sending(reply(500, b"no"))) as server, pytest.raises(JudgedError) as error:
        measure(
            results,
            server.url,
            settings=(f"endpoint.header.X-Key={tmp_path / 'key'}",),
            token_file=tmp_path / "token",
        )
    assert server.requests[0].headers["authorization"] == "Bearer secret-token"
    assert server.requests[0].headers["x-key"] == "secret-key"
    assert "secret" not in str(error.value)


def test_server_needs_streams(results: Path):
    with (
        scripted(lambda asked: asked.send(document(TEXT))) as server,
        pytest.raises(RequestError, match="Server measures the time to the first token"),
    ):
        measure(results, server.url, settings=("endpoint.stream=false",))
    assert server.requests == [] and nothing_left(results)


@pytest.mark.slow
def test_over_tls(results: Path, certificates: Certificates):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.certificate, certificates.key)
    with scripted(answering(stream()), context=context) as server:
        with pytest.raises(MissingError, match="its certificate is not trusted"):
            measure(results, server.url)
        with pytest.raises(JudgedError, match="does not answer GET /v1/models by HTTP/1.1"):
            measure(results, server.url.replace("https", "http"))
        assert server.requests == []
        measure(results, server.url, ca=certificates.authority)
    network = run_record(find_run(results)).network
    assert network is not None and network.targets[0].startswith("https://")


def test_without_tls(results: Path):
    with scripted(answering(stream())) as server, pytest.raises(MissingError, match="no TLS there"):
        measure(results, server.url.replace("http", "https"))


def test_a_token_does_not_travel_in_the_clear(results: Path, tmp_path: Path):
    (tmp_path / "token").write_text("secret\n")
    with pytest.raises(RequestError, match="in the clear to http://h1:8000; use https://"):
        measure(results, "http://h1:8000", token_file=tmp_path / "token")


def test_a_workload_without_prompts(results: Path):
    site = choose_remote_site(("http://127.0.0.1:9",), (Scenario.OFFLINE,))
    chosen = options(results, framework="torch", engine="torch", precision=None)
    with pytest.raises(RequestError, match="resnet50: its Workload names no `prompts`|checkpoint"):
        infer.serve_workload(
            "resnet50",
            chosen,
            scenarios=(Scenario.OFFLINE,),
            mode="accuracy",
            checkpoint=None,
            site=site,
        )


def test_the_loop_of_asyncio_serves_where_uvloop_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "uvloop", None)
    loop = server_pool.create_event_loop()
    assert type(loop).__module__.startswith("asyncio")
    loop.close()
