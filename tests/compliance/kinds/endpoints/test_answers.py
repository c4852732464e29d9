"""What the events of a run of the Endpoints client say about its answers: chunks, tokens, repeats,
and what the warm-up asked.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from kinds.endpoints import (
    CHARACTERS,
    OFFLINE,
    asked_before,
    blank_chunks,
    change_events,
    client_run,
    counted_run,
    edited,
    in_text,
    longer_answers,
    same_answers,
)

from compliance.cli import check
from compliance.judge import Judge
from compliance.kinds.endpoints.documents.answers import parse_answer
from compliance.token_counter import load_token_counter
from compliance.verdict import PathJudgement, Severity
from suite.errors import PodiumError
from suite.files.untrusted_files import MAX_DOCUMENT_BYTES

SUMMARY = "performance/result_summary.json"


def judge(path: Path, tokenizer: Path | None = None) -> PathJudgement:
    counter = load_token_counter(tokenizer) if tokenizer else None
    return Judge(counter=counter).judge_path(str(path))


def list_rules(result: PathJudgement) -> dict[str, Severity]:
    return {each.rule.removeprefix("endpoints."): each.severity for each in result.findings}


@pytest.fixture
def characters(tmp_path: Path) -> Path:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(CHARACTERS))
    return path


def test_tokens_are_recounted(tmp_path: Path) -> None:
    counted_run()(tmp_path)
    assert judge(tmp_path / "run", tmp_path / "tokenizer.json").findings == ()


def test_more_tokens_than_were_counted_are_found(tmp_path: Path) -> None:
    counted_run(longer_answers)(tmp_path)
    result = judge(tmp_path / "run", tmp_path / "tokenizer.json")
    assert list_rules(result) == {"recount_tokens": Severity.ERROR}
    assert judge(tmp_path / "run").findings == ()


def test_few_other_tokens_are_a_warning(tmp_path: Path) -> None:
    """Another version of the tokenizer counts a few answers otherwise."""
    counted_run(in_text("events.jsonl", " is is", " is is is"))(tmp_path)
    result = judge(tmp_path / "run", tmp_path / "tokenizer.json")
    assert list_rules(result) == {"recount_tokens": Severity.WARNING}


def test_an_answer_that_was_not_counted_is_found(tmp_path: Path) -> None:
    """The total alone may hide it."""
    series = ("output_sequence_lengths", "histogram", "counts", 0)
    counted_run(edited(SUMMARY, *series, value=lambda count: count + 1))(tmp_path)
    result = judge(tmp_path / "run", tmp_path / "tokenizer.json")
    assert any(
        each.rule == "endpoints.recount_tokens" and "count" in each.found
        for each in result.findings
    )


def test_answers_with_reasoning_are_not_recounted(tmp_path: Path) -> None:
    """The client counts them through the model's chat template."""

    def reason(event: dict[str, object]) -> None:
        if event["event_type"] == "sample.complete":
            event["data"] = ["TextModelOutput", "It is", ["Let", " me see"], None]

    counted_run(lambda run: change_events(run, reason))(tmp_path)
    result = judge(tmp_path / "run", tmp_path / "tokenizer.json")
    assert list_rules(result)["recount_tokens"] is Severity.INFO
    assert "first_chunk" not in list_rules(result)


FIRST_CHUNKS: dict[str, tuple[list[object], str | None]] = {
    "of text": ([["It", " is"]], "It"),
    "of reasoning": (["It is", ["Let", " me see"]], "Let"),
    "of reasoning in one chunk": (["It is", [" "]], " "),
    "of an answer in one chunk": ([["It"]], None),
    "of an answer that was not streamed": (["It is", "Let me see"], None),
    "of a call": ([["It", " is"], None, [{"type": "function"}]], None),
    "of nothing": ([[]], None),
    "of null": ([None], None),
}


@pytest.mark.parametrize("name", FIRST_CHUNKS)
def test_a_stream_has_a_first_chunk(name: str) -> None:
    data, first = FIRST_CHUNKS[name]
    answer = parse_answer(msgspec.Raw(msgspec.json.encode(["TextModelOutput", *data])))
    assert answer is not None and answer.first_chunk == first


FOUND: dict[str, tuple[Callable[[Path], object], str, Severity]] = {
    "a blank first chunk": (blank_chunks, "first_chunk", Severity.WARNING),
    "the same answers again": (same_answers, "repeated", Severity.WARNING),
    "a warm-up with measured data": (asked_before, "warm_up_data", Severity.ERROR),
}


@pytest.mark.parametrize("name", FOUND)
def test_suspicious_answers_are_found(tmp_path: Path, name: str) -> None:
    change, rule, severity = FOUND[name]
    client_run(change)(tmp_path)
    assert list_rules(judge(tmp_path / "run")) == {rule: severity}


def test_a_warm_up_with_salt_may_ask_the_same(tmp_path: Path) -> None:
    client_run(
        lambda run: (
            asked_before(run),
            edited(SUMMARY, "run_config", "warmup", "salt", value=True)(run),
        )
    )(tmp_path)
    assert judge(tmp_path / "run").findings == ()


def test_greedy_answers_may_repeat(tmp_path: Path) -> None:
    client_run(
        lambda run: (
            same_answers(run),
            in_text("config.yaml", "temperature: 0.7", "temperature: 0.0")(run),
        )
    )(tmp_path)
    assert judge(tmp_path / "run").findings == ()


@pytest.mark.parametrize(("upside_down", "rules"), [(True, {"reordered"}), (False, set())])
def test_passes_of_an_offline_run_keep_their_order(
    tmp_path: Path, upside_down: bool, rules: set[str]
) -> None:
    client_run(pattern=OFFLINE, upside_down=upside_down, samples=200)(tmp_path)
    assert set(list_rules(judge(tmp_path / "run"))) == rules


def test_passes_that_nobody_answered_have_no_order(tmp_path: Path) -> None:
    def drop_completions(run: Path) -> None:
        lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
        kept = [line for line in lines if "sample.complete" not in line]
        (run / "events.jsonl").write_text("".join(kept))

    client_run(drop_completions, pattern=OFFLINE, upside_down=True, samples=200)(tmp_path)
    assert "recount" in list_rules(judge(tmp_path / "run"))


@pytest.mark.parametrize("rate", [1e-310, 1e300, 0.0, -1.0])
def test_a_rate_that_no_run_has_is_found(tmp_path: Path, rate: float) -> None:
    client_run(edited(SUMMARY, "run_config", "load_pattern", "target_qps", value=rate))(tmp_path)
    assert list_rules(judge(tmp_path / "run"))["schedule"] is Severity.ERROR


def test_an_error_behind_its_completion_is_found(tmp_path: Path) -> None:
    def append_error(run: Path) -> None:
        lines = (run / "events.jsonl").read_text().splitlines()
        done = next(json.loads(line) for line in lines if "sample.complete" in line)
        late = {**done, "event_type": "error.timeout", "data": None}
        lines.insert(-1, json.dumps(late))
        (run / "events.jsonl").write_text("\n".join(lines) + "\n")

    client_run(append_error)(tmp_path)
    result = judge(tmp_path / "run")
    assert [each.rule for each in result.findings] == ["file.record"]


def repeat_event(run: Path, kind: str) -> None:
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    marked = next(line for line in lines if kind in line)
    (run / "events.jsonl").write_text("".join([*lines, marked]))


def stop_before_start(run: Path) -> None:
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    (run / "events.jsonl").write_text("".join([lines[-1], *lines]))


def take_identifier(run: Path) -> None:
    in_text("events.jsonl", f'"{0:032x}"', '""')(run)


IMPOSSIBLE_EVENTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "tracking starts twice": (lambda run: repeat_event(run, "start_perf"), "out of turn"),
    "tracking stops twice": (lambda run: repeat_event(run, "stop_perf"), "out of turn"),
    "tracking stops before it starts": (stop_before_start, "out of turn"),
    "a sample without a name": (take_identifier, "without an identifier"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE_EVENTS)
def test_events_that_cannot_be_are_found(tmp_path: Path, name: str) -> None:
    change, words = IMPOSSIBLE_EVENTS[name]
    client_run(change)(tmp_path)
    found = [each.found for each in judge(tmp_path / "run").findings if each.rule == "file.record"]
    assert any(words in each for each in found)


def check_with_tokenizer(path: Path, folder: Path) -> PodiumError:
    """Return what stops the command."""
    result = CliRunner().invoke(
        check, ["--tokenizer", str(path), str(folder)], standalone_mode=False
    )
    assert isinstance(result.exception, PodiumError)
    return result.exception


WRONG_TOKENIZERS: dict[str, tuple[bytes, str]] = {
    "no json": (b"root:x:0", "no usable tokenizer.json"),
    "no text": (b"\xff", "not UTF-8 text"),
    "merges of unknown tokens": (
        b'{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}}',
        "no usable tokenizer.json",
    ),
}


@pytest.mark.parametrize("name", WRONG_TOKENIZERS)
def test_what_is_no_tokenizer_is_a_wrong_request(tmp_path: Path, name: str) -> None:
    """The library answers some of them with a panic, which is no Exception."""
    content, words = WRONG_TOKENIZERS[name]
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    error = check_with_tokenizer(path, tmp_path)
    assert error.exit_code == 2 and f"--tokenizer {path}: " in str(error) and words in str(error)


def test_a_tokenizer_that_is_missing_is_a_wrong_request(tmp_path: Path) -> None:
    error = check_with_tokenizer(tmp_path / "none.json", tmp_path)
    assert error.exit_code == 2 and "No such file" in str(error)


def test_a_tokenizer_that_does_not_know_an_answer_is_a_wrong_request(tmp_path: Path) -> None:
    client_run()(tmp_path)
    path = tmp_path / "tokenizer.json"
    vocabulary = {"type": "WordLevel", "vocab": {"It": 0}, "unk_token": "[UNK]"}
    path.write_text(json.dumps({"added_tokens": [], "model": vocabulary}))
    error = check_with_tokenizer(path, tmp_path / "run")
    assert error.exit_code == 2 and "[UNK]" in str(error)


def test_a_tokenizer_may_be_larger_than_other_documents(characters: Path) -> None:
    """Vocabularies of large models are."""
    characters.write_text(characters.read_text() + " " * MAX_DOCUMENT_BYTES)
    assert load_token_counter(characters)(["It is"]) == [5]


def test_a_tokenizer_that_cuts_texts_counts_them_whole(characters: Path) -> None:
    """Files of models for short texts say where to cut; a server does not."""
    document = json.loads(characters.read_text())
    document["truncation"] = {
        "max_length": 2,
        "strategy": "LongestFirst",
        "stride": 0,
        "direction": "Right",
    }
    characters.write_text(json.dumps(document))
    assert load_token_counter(characters)(["It is"]) == [5]


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / "x.json").write_text("{}")
    error = check_with_tokenizer(tmp_path / "x.json", tmp_path)
    assert error.exit_code == 3 and "[tokenizer]" in str(error)
