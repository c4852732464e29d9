"""Rules about answers that came over an OpenAI-compatible API, on what Llama's Server writes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from examples import result_of
from kinds.network import PROMPTS, count_prompts
from kinds.tokens import Table, count_one_more, edit_table, write_generated
from spoiling import SRV, first_answer, put

from suite.files.layout import (
    ACCURACY_LOG,
    RUN_RECORD,
    TOKEN_RECORD_FILE,
    USAGE_RECORD_FILE,
)


def list_found(folder: Path, rule: str) -> list[str]:
    return [finding.found for finding in result_of(folder).findings if finding.rule == rule]


def test_servers_first_tokens_are_those_that_loadgen_measured(tmp_path: Path) -> None:
    """All tokens of all answers 50 ms earlier: the times per token stay as they are."""
    write_generated(SRV)(tmp_path)
    assert list_found(tmp_path, "tokens.times") == []
    edit_table(shift_tokens)(next(tmp_path.rglob(TOKEN_RECORD_FILE)))
    found = list_found(tmp_path, "tokens.times")
    assert sum("first_token" in each for each in found) == 3
    assert sum("last tokens at another time" in each for each in found) == 1


def shift_tokens(table: Table) -> Table:
    table[:, 1:3] -= 50_000_000
    return table


def write_prompted(folder: Path, **fields: Any) -> None:
    """A Server run whose tokens came over an OpenAI-compatible API."""
    write_generated(SRV)(folder)
    total = int(numpy.load(next(folder.rglob(TOKEN_RECORD_FILE)))[:, 3].sum())
    told = {"tokens_logged": total, "tokens_recounted": total, "answers_differing": 0}
    network = {**PROMPTS, **told, "streamed": True, **fields}
    put(network=network)(next(folder.rglob(RUN_RECORD)))


def unseen(table: Table) -> Table:
    table[:, 1] = 0
    return table


def count_twice(table: Table) -> Table:
    table[:, 3] *= 2
    return table


def test_tokens_of_prompts_agree_with_their_record(tmp_path: Path) -> None:
    write_prompted(tmp_path)
    assert list_found(tmp_path, "network.tokens") == list_found(tmp_path, "network.prompts") == []
    edit_table(count_twice)(next(tmp_path.rglob(TOKEN_RECORD_FILE)))
    (found,) = list_found(tmp_path, "network.tokens")
    assert found.endswith(" tokens")


def test_first_tokens_that_were_not_seen_are_not_early(tmp_path: Path) -> None:
    """Their times are 0 where answers are not streamed, and only there."""
    write_prompted(tmp_path, streamed=False)
    edit_table(unseen)(next(tmp_path.rglob(TOKEN_RECORD_FILE)))
    assert not any("before the query" in each for each in list_found(tmp_path, "tokens.times"))
    put(network__streamed=True)(next(tmp_path.rglob(RUN_RECORD)))
    assert any("before the query" in each for each in list_found(tmp_path, "tokens.times"))


@pytest.mark.parametrize("streamed", [True, False])
def test_first_tokens_were_seen_only_of_streams(tmp_path: Path, streamed: bool) -> None:
    write_prompted(tmp_path, streamed=streamed)
    assert bool(list_found(tmp_path, "network.tokens")) is not streamed
    assert bool(list_found(tmp_path, "network.prompts")) is not streamed
    edit_table(unseen)(next(tmp_path.rglob(TOKEN_RECORD_FILE)))
    assert bool(list_found(tmp_path, "network.tokens")) is streamed


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({"api": "rest"}, "api 'rest'"),
        ({"targets": []}, "targets none"),
        ({"targets": ["https://h2:8001/v1/chat/completions"]}, "targets https://h2:8001"),
        ({"tokenizer": "3D" * 32}, "tokenizer '3D"),
        ({"connections": 0}, "0 connections for 64 requests"),
        ({"connections": 65}, "65 connections for 64 requests"),
    ],
)
def test_the_record_says_how_prompts_were_asked(
    tmp_path: Path, fields: dict[str, Any], found: str
) -> None:
    write_prompted(tmp_path, **fields)
    (only,) = list_found(tmp_path, "network.prompts")
    assert only.startswith(found)


@pytest.mark.parametrize("over", [False, True])
def test_answers_come_token_by_token(tmp_path: Path, over: bool) -> None:
    """A quarter of them may come at once."""
    write_generated(SRV)(tmp_path)
    answers = len(numpy.load(next(tmp_path.rglob(TOKEN_RECORD_FILE))))
    write_prompted(tmp_path / "run", answers_in_one_read=answers // 4 + over)
    assert len(list_found(tmp_path / "run", "network.streams")) == over


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda rows: rows, []),
        (lambda rows: rows[1:], ["answers", "prompt_tokens", "cached_tokens"]),
        (lambda rows: rows + (0, 1), ["cached_tokens"]),
        (lambda rows: rows * (1, 3), ["prompts with more tokens in a cache", "cached_tokens"]),
        (lambda rows: rows * (0, 1) + (-1, 0), ["no prompt_tokens"]),
    ],
)
def test_counts_of_prompts_are_those_of_their_record(
    tmp_path: Path, change: Callable[[Any], Any], found: list[str]
) -> None:
    write_prompted(tmp_path)
    count_prompts(next(tmp_path.rglob(RUN_RECORD)))
    path = next(tmp_path.rglob(USAGE_RECORD_FILE))
    numpy.save(path, change(numpy.load(path)))
    told = list_found(tmp_path, "network.usage")
    assert len(told) == len(found)
    assert all(part in each for part, each in zip(found, told, strict=True))
    path.unlink()
    assert list_found(tmp_path, "network.usage") == ["no counts"]


@pytest.mark.parametrize(("differing", "faults"), [(0, 1), (1, 0)])
def test_servers_may_count_an_end_token_that_is_not_there(
    tmp_path: Path, differing: int, faults: int
) -> None:
    """One token of one answer, if run.json says so."""
    write_prompted(tmp_path, answers_differing=differing)
    log = next(tmp_path.rglob(ACCURACY_LOG))
    first_answer(count_one_more)(log)
    wrong = [each for each in list_found(tmp_path, "tokens.logged") if "other tokens" in each]
    assert len(wrong) == faults
