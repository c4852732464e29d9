"""Servers' own counters, read around a run: what podium keeps and shows of them, and what it does
where they are not there.
"""

import threading
from pathlib import Path

import pytest
from podium_fakes.kept import run_record
from podium_fakes.measuring import find_run, measure
from podium_fakes.scripted import (
    MODEL,
    Asked,
    Scripted,
    answering,
    reply,
    scripted,
    stream,
    vllm_metrics,
)

from harness.serving.network.access import ClientCredentials
from harness.serving.network.statements import metrics
from harness.serving.network.statements.metrics import parse_counters
from harness.serving.network.wire import parse_endpoint
from suite.loadgen.server_counters import (
    COUNTER_NAMES,
    Counted,
    ServerCounters,
    is_count_alike,
    list_counted_words,
    sum_counters,
)
from suite.records import read_served_run

LLAMA_CPP_PAGE = """# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 41
# HELP llamacpp:tokens_predicted_total Number of generation tokens processed.
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 85
# HELP llamacpp:prompt_tokens_seconds Average prompt throughput in tokens/s.
# TYPE llamacpp:prompt_tokens_seconds gauge
llamacpp:prompt_tokens_seconds 910.5
"""


def read_page(page: bytes) -> str:
    return page.partition(b"\r\n\r\n")[2].decode()


def test_the_counters_of_real_pages_are_found():
    text = read_page(vllm_metrics(4111, 16384, 512, model_name=MODEL))
    assert parse_counters(text, MODEL) == {
        "vllm:prefix_cache_queries_total": 16384,
        "vllm:prefix_cache_hits_total": 512,
        "vllm:num_preemptions_total": 3,
        "vllm:prompt_tokens_total": 16384,
        "vllm:generation_tokens_total": 4111,
    }
    assert parse_counters(LLAMA_CPP_PAGE, MODEL) == {
        "llamacpp:prompt_tokens_total": 41,
        "llamacpp:tokens_predicted_total": 85,
    }


def test_counters_are_summed_over_engines_and_kept_apart_by_models():
    pages = [
        read_page(vllm_metrics(10, 100, model_name=MODEL)),
        read_page(vllm_metrics(20, 200, model_name=MODEL, engine="1")),
        read_page(vllm_metrics(40, 400, model_name="another")),
    ]
    found = parse_counters("".join(pages), MODEL)
    assert found is not None and found["vllm:generation_tokens_total"] == 30
    every = parse_counters("".join(pages), "alias")
    assert every is not None and every["vllm:generation_tokens_total"] == 70


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("up 1\n", {}),
        ("<!doctype html><p>no such page</p>", None),
        ("vllm:generation_tokens_total NaN\n", {}),
        ("vllm:generation_tokens_total +Inf\n", {}),
        ("vllm:generation_tokens_total -1\n", {}),
        ("vllm:generation_tokens_total 1e300\n", {}),
        ('vllm:generation_tokens_total{model_name="a} 3\n', None),
        ("vllm:generation_tokens_total seven\n", None),
    ],
)
def test_a_page_of_another_form_says_nothing(text: str, found: object):
    assert parse_counters(text, MODEL) in (found, {} if found is None else found)


def counters(before: int, after: int, name: str = "vllm:generation_tokens_total") -> ServerCounters:
    return ServerCounters(endpoint="http://h1", before={name: before}, after={name: after})


def test_rises_are_summed_over_servers_that_count_alike():
    assert sum_counters([counters(100, 150), counters(7, 17)]) == {Counted.GENERATED: 60}
    assert sum_counters([counters(100, 150), counters(0, 9, "up")]) == {}
    assert sum_counters([counters(100, 50)]) == {} == sum_counters([])
    new = ServerCounters(endpoint="h", before={}, after={"vllm:num_preemptions_total": 2})
    assert sum_counters([new]) == {Counted.PREEMPTIONS: 2}
    assert counters(100, 50).list_fallen() == ["vllm:generation_tokens_total"]
    assert counters(5, 5).list_fallen() == []


def test_a_per_cent_is_alike():
    assert is_count_alike(1010, 1000) and is_count_alike(990, 1000)
    assert not is_count_alike(1011, 1000) and not is_count_alike(989, 1000)
    assert set(COUNTER_NAMES.values()) == set(Counted)


def test_shares_are_of_what_was_looked_for():
    before = dict.fromkeys(COUNTER_NAMES, 0)
    after = before | {
        "vllm:generation_tokens_total": 4111,
        "vllm:prefix_cache_queries_total": 16_384,
        "vllm:prefix_cache_hits_total": 4096,
        "vllm:spec_decode_num_draft_tokens_total": 800,
        "vllm:spec_decode_num_accepted_tokens_total": 520,
    }
    found = ServerCounters(endpoint="h", before=before, after=after)
    own = {Counted.GENERATED: 4111, Counted.PREFIX_HITS: 4096}
    assert list_counted_words([found], own) == [
        ("generated tokens", "4,111", "4,111"),
        ("prompt tokens", "0", ""),
        ("preemptions", "0", ""),
        ("prefix-cache hits", "4,096 of 16,384 (25.0%)", "4,096"),
        ("accepted drafts", "520 of 800 (65.0%)", ""),
    ]


class CountingServer:
    """Answers, and counts what it generates as vLLM does; `factor` times as much as it says."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor, self.generated = factor, 1000
        self.answer = answering(stream(counted=5))
        self.lock = threading.Lock()
        self.server: Scripted | None = None

    def __call__(self, asked: Asked) -> None:
        assert self.server is not None
        with self.lock:
            self.generated += 5
            shown = int(1000 + (self.generated - 1000) * self.factor)
            self.server.pages["/metrics"] = vllm_metrics(shown, 9 * shown, model_name=MODEL)
        self.answer(asked)


def measure_counting(results: Path, factor: float = 1.0) -> None:
    behave = CountingServer(factor)
    with scripted(behave, pages={"/metrics": vllm_metrics(1000, 0)}) as server:
        behave.server = server
        measure(results, server.url)


@pytest.mark.slow
def test_counters_are_kept_with_the_run(results: Path, capsys: pytest.CaptureFixture[str]):
    measure_counting(results)
    network = run_record(find_run(results)).network
    assert network is not None
    (found,) = network.counters
    assert found.endpoint == network.endpoints[0]
    assert sum_counters(network.counters)[Counted.GENERATED] == network.tokens_logged
    words = f"generated tokens {network.tokens_logged:,} (podium: {network.tokens_logged:,})"
    assert f"by the servers' own counters: {words}" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [reply(404, b"{}"), reply(200, b"<html>"), reply(500, b""), reply(200, b"up 1\n")]
)
def test_a_server_without_counters_is_measured_all_the_same(results: Path, page: bytes):
    with scripted(answering(stream(counted=5)), pages={"/metrics": page}) as server:
        measure(results, server.url)
    assert server.questions.count("/metrics") >= 1
    network = read_served_run(find_run(results)).network
    assert network is not None and network.counters == ()


def build_reader(url: str) -> metrics.CounterReader:
    endpoint = parse_endpoint(url)
    return metrics.CounterReader(
        endpoints=[endpoint], access=ClientCredentials(), headers={}, model=MODEL
    )


def test_a_missing_parser_is_a_lost_record(monkeypatch: pytest.MonkeyPatch):
    """It is told where there is something to be read, and ends nothing."""
    monkeypatch.setattr(metrics, "find_text_parser", lambda: None)
    with scripted(answering(stream()), pages={"/metrics": vllm_metrics(1, 1)}) as server:
        reader = build_reader(f"{server.url}/v1")
        reader.read_before()
    assert reader.problem.startswith("servers' counters were not read: prometheus-client is not")
    assert reader.read_after() == ()
    with scripted(answering(stream())) as server:
        reader = build_reader(server.url)
        reader.read_before()
    assert (reader.problem, reader.read_after()) == ("", ())


def test_counters_that_still_rise_are_waited_for():
    with scripted(answering(stream()), pages={"/metrics": vllm_metrics(1, 1)}) as server:
        reader = build_reader(server.url)
        reader.read_before()
        late = threading.Timer(0.05, server.pages.__setitem__, ("/metrics", vllm_metrics(6, 9)))
        late.start()
        (found,) = reader.read_after()
        late.join()
    assert found.after["vllm:generation_tokens_total"] == 6
    assert found.before["vllm:generation_tokens_total"] == 1


def test_a_server_that_goes_away_leaves_counters_that_fell():
    with scripted(answering(stream()), pages={"/metrics": vllm_metrics(1, 1)}) as server:
        reader = build_reader(server.url)
        reader.read_before()
    (found,) = reader.read_after()
    assert found.after == {} and len(found.list_fallen()) == 5
