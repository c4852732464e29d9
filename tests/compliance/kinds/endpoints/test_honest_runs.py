"""Run folders as honest clients write them that differ from the usual: conversations, older builds,
a run that its longest time stopped, and answers of a few tokens.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kinds.endpoints import (
    CLOSED_LOOP,
    SUMMARY,
    Simulated,
    client_run,
    edited,
    in_text,
    scaled,
    series,
    simulate,
    swapped_samples,
    write_json,
)

from compliance.judge import Judge
from compliance.verdict import Severity

CONVERSATIONS = {"type": "agentic_inference", "target_qps": None, "target_concurrency": 1}
TURNS = 160


def list_errors(run: Path) -> list[str]:
    found = Judge().judge_path(str(run)).findings
    return [each.rule for each in found if each.severity is Severity.ERROR]


def build_run(folder: Path, change: Callable[[Path], object], **asked: Any) -> Path:
    client_run(change, **asked)(folder)
    return folder / "run"


def issue_conversations(run: Path) -> None:
    """Number the samples as the client issues them: conversations are shuffled, turns are not."""
    turns, start = list[list[int]](), 0
    drawn = random.Random(5)
    while start < TURNS:
        count = min(drawn.randint(5, 25), TURNS - start)
        turns.append([*range(start, start + count)])
        start += count
    random.Random(42).shuffle(turns)
    order = [each for conversation in turns for each in conversation]
    names = {f"{place:032x}": index for place, index in enumerate(order)}
    write_json(run / "sample_idx_map.json", {"performance": names})


def test_turns_of_conversations_are_issued_in_their_own_order(tmp_path: Path) -> None:
    run = build_run(tmp_path, issue_conversations, pattern=CONVERSATIONS, data_set=TURNS)
    assert list_errors(run) == []
    names = json.loads((run / "sample_idx_map.json").read_text())["performance"]
    write_json(run / "sample_idx_map.json", {"performance": dict([*names.items()][1:])})
    assert list_errors(run) == ["endpoints.order"]


def test_conversations_of_a_build_without_settings_in_its_summary(tmp_path: Path) -> None:
    def change(run: Path) -> None:
        issue_conversations(run)
        drop_field("run_config")(run)

    assert list_errors(build_run(tmp_path, change, pattern=CONVERSATIONS, data_set=TURNS)) == []


def drop_field(name: str) -> Callable[[Path], None]:
    """Leave a field out of the summary, as builds did that did not know it."""

    def change(run: Path) -> None:
        document = json.loads((run / SUMMARY).read_text())
        del document[name]
        write_json(run / SUMMARY, document)

    return change


@pytest.mark.parametrize("name", ["input_sequence_lengths", "run_config", "finish_reason_counts"])
def test_a_build_that_wrote_less_is_no_error(tmp_path: Path, name: str) -> None:
    assert list_errors(build_run(tmp_path, drop_field(name))) == []


def test_a_legacy_window_that_the_configuration_does_not_ask_for(tmp_path: Path) -> None:
    def change(run: Path) -> None:
        drop_field("run_config")(run)
        in_text("config.yaml", "qps_metrics: true", "qps_metrics: false")(run)

    assert list_errors(build_run(tmp_path, change)) == ["endpoints.config_differs"]


@pytest.mark.parametrize(("share", "errors"), [(0.99, []), (2.0, ["endpoints.config_differs"])])
def test_a_run_that_its_longest_time_stopped_issued_fewer(
    tmp_path: Path, share: float, errors: list[str]
) -> None:
    """160 of 1,000 samples; a run that had time left lost the others."""

    def change(run: Path) -> None:
        took_ms = json.loads((run / SUMMARY).read_text())["duration_ns"] / 1e6
        path = run / "config.yaml"
        document = yaml.safe_load(path.read_text())
        limits = {"n_samples_to_issue": 1000, "max_duration_ms": int(took_ms * share)}
        document["settings"]["runtime"] |= limits
        path.write_text(yaml.safe_dump(document))

    assert list_errors(build_run(tmp_path, change)) == errors


def test_more_samples_than_were_asked_for_are_an_error(tmp_path: Path) -> None:
    change = in_text(
        "config.yaml", "runtime:", "runtime:\n    n_samples_to_issue: 100\n    max_duration_ms: 9"
    )
    assert list_errors(build_run(tmp_path, change)) == ["endpoints.config_differs"]


def answer_briefly(folder: Path, low: int, high: int, chunk: int, noise: float) -> Path:
    """A run with one request in flight and answers of a few tokens at one speed, of which the first
    chunk has several; an answer of no more has no time per token.
    """
    run = folder / "run"
    simulate(run, Simulated(samples=300, pattern=CLOSED_LOOP), events=False)
    drawn = random.Random(2)
    latencies, firsts, lengths, times = list[int](), list[int](), list[int](), list[float]()
    for _ in range(300):
        length, first = drawn.randint(low, high), 10_000_000
        rest = max(0, length - chunk)
        latency = first + int(rest * 8_000_000 * drawn.uniform(1 - noise, 1 + noise)) + 1_000
        latencies.append(latency)
        firsts.append(first)
        lengths.append(length)
        times += [(latency - first) / rest] if rest else []
    seconds = (sum(latencies) + 1_000_000) / 1e9
    document = json.loads((run / SUMMARY).read_text())
    document |= {
        "latency": series(latencies),
        "ttft": series(firsts) if len(set(firsts)) > 1 else flat_series(firsts),
        "tpot": series(times),
        "output_sequence_lengths": series(lengths, proven=False),
        "duration_ns": sum(latencies) + 1_000_000,
        "qps": 300 / seconds,
        "tps": sum(lengths) / seconds,
    }
    write_json(run / SUMMARY, document)
    in_text("config.yaml", "max_new_tokens: 64", "max_new_tokens: 1024")(run)
    return run


def flat_series(values: list[int]) -> dict[str, Any]:
    return {**series(values), "std_dev": 0.0}


BRIEF = {
    "2 to 20 tokens": (2, 20, 1, 0.002),
    "chunks of 8 tokens": (9, 128, 8, 0.002),
    "1 to 4 tokens": (1, 4, 1, 0.05),
    "some within the first chunk": (2, 40, 8, 0.01),
}


@pytest.mark.parametrize("kind", BRIEF)
def test_brief_answers_at_one_speed_raise_no_alarm(tmp_path: Path, kind: str) -> None:
    assert list_errors(answer_briefly(tmp_path, *BRIEF[kind])) == []


def test_times_of_tokens_above_what_latencies_allow_are_found(tmp_path: Path) -> None:
    """A first chunk of eight tokens at most is what they may hide behind."""
    run = answer_briefly(tmp_path, 100, 128, 1, 0.002)
    edited(SUMMARY, "tpot", value=lambda each: scaled(each, 1.2))(run)
    assert "endpoints.token_time" in list_errors(run)


def test_exchanged_samples_of_a_closed_loop_are_found(tmp_path: Path) -> None:
    """Conversations alone have an order of their own."""
    run = build_run(tmp_path, swapped_samples, pattern=CLOSED_LOOP)
    assert list_errors(run) == ["endpoints.order"]
