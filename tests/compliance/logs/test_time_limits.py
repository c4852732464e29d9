"""Small files that took minutes: the judge's time grows with the size of what it reads, and what it
quotes is short.
"""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from compliance.hyperparameter_check import find_toml_line
from compliance.judge import Judge
from compliance.kinds.inference_text.documents.entry_files import read_claims
from compliance.kinds.podium.documents.inference import read_accuracy_scores
from compliance.logs.loadgen import accuracy_counts
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.verdict import PathJudgement, Verdict
from suite.files.untrusted_files import MAX_DOCUMENT_BYTES

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "valid" / "checkpoint.record"
CPU_LIMIT_S: Final = 20.0
"""Several times what the slowest takes on a slow machine; each took more than that, and minutes at
its largest.
"""
PREFIX: Final = b":::MLLOG "


def judged(
    folder: Path, name: str, change: Callable[[bytes], bytes]
) -> tuple[PathJudgement, float]:
    """Judge a valid tree with one changed file; the processor seconds that it took."""
    tree = shutil.copytree(EXAMPLE, folder / "tree")
    for path in tree.rglob(name):
        path.write_bytes(change(path.read_bytes()))
    begin = time.process_time()
    result = Judge().judge_path(str(tree))
    return result, time.process_time() - begin


def remarked(text: bytes) -> bytes:
    """0.9 MB of early stopping's lines: they were kept in a tuple that grew."""
    return text.replace(b"\n", b"\n" + b"* x\n" * 230_000, 1)


def with_settings(text: bytes) -> bytes:
    """60,000 settings, one of them twice: each name was counted among all."""
    many = b"".join(b'"k%d": 1, ' % number for number in range(60_000))
    return text.replace(b'"settings": {', b'"settings": {"a": 1, ' + many + b'"a": 1, ', 1)


def unpaired(text: bytes) -> bytes:
    """30,000 epochs that begin and 30,000 blocks that end: each end looked through all that was
    open.
    """
    lines = text.split(b"\n")
    stop = next(at for at, line in enumerate(lines) if b'"run_stop"' in line)
    event = json.loads(lines[stop].removeprefix(PREFIX))
    marks = (("epoch_start", "INTERVAL_START"), ("block_stop", "INTERVAL_END"))
    begin, end = (
        PREFIX + json.dumps({**event, "key": name, "event_type": kind, "value": None}).encode()
        for name, kind in marks
    )
    many = [begin] * 30_000 + [end] * 30_000
    return b"\n".join(lines[:stop] + many + lines[stop:])


def nested(text: bytes) -> bytes:
    """An accuracy of 14 MB of lists: it was decoded, spelt, and quoted whole by several
    findings.
    """
    lines = text.split(b"\n")
    at = next(at for at, line in enumerate(lines) if b'"eval_accuracy"' in line)
    event = json.loads(lines[at].removeprefix(PREFIX))
    lines[at] = PREFIX + json.dumps({**event, "value": "@"}).encode().replace(
        b'"@"', b"[" + b",".join([b"[[[]]]"] * 2_000_000) + b"]"
    )
    return b"\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mlperf_log_summary.txt", remarked),
        ("system.json", with_settings),
        ("result_0.txt", unpaired),
        ("result_0.txt", nested),
    ],
)
def test_the_judge_is_done_in_seconds(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes]
) -> None:
    """Each of these took from 24 seconds to more than five minutes."""
    result, seconds = judged(tmp_path, name, change)
    assert seconds < CPU_LIMIT_S
    assert change is remarked or result.verdict is Verdict.BROKEN
    assert (
        max((len(finding.found) + len(finding.required) for finding in result.findings), default=0)
        < 2100
    )


@pytest.mark.parametrize(
    "name",
    ["run.json", "record.json", "box-torch-bf16.json", "box-torch-fp32_podium_SingleStream.json"],
)
def test_a_document_of_a_size_that_nobody_reads_is_a_finding(tmp_path: Path, name: str) -> None:
    """64 MB of JSON took 1.9 GB of memory."""
    result, _ = judged(tmp_path, name, lambda text: b" " * MAX_DOCUMENT_BYTES + text)
    assert any(
        finding.rule == "file.readable" and f"more than {MAX_DOCUMENT_BYTES} bytes" in finding.found
        for finding in result.findings
    )


@pytest.mark.parametrize(
    "text", [b" " * (1 << 20), b"\n" * (1 << 20), b"[\n" + b" " * (1 << 20) + b"x"]
)
def test_blanks_in_a_published_accuracy_log_take_no_time(tmp_path: Path, text: bytes) -> None:
    """Three patterns for blanks in a row had a megabyte of them divided in every way; that took
    hours.
    """
    path = tmp_path / "mlperf_log_accuracy.json"
    path.write_bytes(text)
    begin = time.process_time()
    source = SourceFile(path)
    accuracy_counts.count_accuracy_answers(source)
    assert time.process_time() - begin < CPU_LIMIT_S / 10 and source.parse_errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [b'[\n{"a": {' + b'"": {}, ' * 2_000_000, b'[\n{"a": "' + b"x" * (16 << 20)]
)
def test_an_answer_without_an_end_takes_no_time(tmp_path: Path, text: bytes) -> None:
    """An object in another layout than LoadGen's was looked through from its beginning with each
    piece that was read.
    """
    path = tmp_path / "mlperf_log_accuracy.json"
    path.write_bytes(text)
    begin = time.process_time()
    source = SourceFile(path)
    accuracy_counts.count_accuracy_answers(source)
    assert time.process_time() - begin < CPU_LIMIT_S / 2 and source.parse_errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["Word Error Rate:accuracy=" * 40_000, "accuracy=" + "1" * 1_000_000, "good=" * 200_000]
)
def test_a_line_of_a_published_score_takes_no_time(tmp_path: Path, text: str) -> None:
    """Patterns whose time grows with the square of a line."""
    path = tmp_path / "accuracy.txt"
    path.write_text(text)
    begin = time.process_time()
    assert not read_claims(path).counts
    assert time.process_time() - begin < CPU_LIMIT_S / 10


def test_digits_in_podiums_own_scores_take_no_time(tmp_path: Path) -> None:
    """A number's digits were shared out before and behind a point that is not there: half a minute
    for 24 kB.
    """
    path = tmp_path / "accuracy.txt"
    path.write_text("top1=" + "9" * 200_000)
    begin = time.process_time()
    source = SourceFile(path)
    assert (
        not read_accuracy_scores(source)
        and source.parse_errors
        and time.process_time() - begin < CPU_LIMIT_S / 10
    )


def test_a_line_of_a_settings_file_is_found_in_no_time() -> None:
    """A bracket and blanks looked like the beginning of a table's name."""
    begin = time.process_time()
    assert find_toml_line("a = [\n[" + " " * 60_000 + "\n]]\nb = 1\n[ c ]\nd = 2", "c.d") == 6
    assert time.process_time() - begin < CPU_LIMIT_S / 10


def test_garbage_of_many_lines_is_counted_and_not_kept(tmp_path: Path) -> None:
    """Each flaw was counted among those before it."""
    source = SourceFile(tmp_path / "x")
    begin = time.process_time()
    for number in range(300_000):
        for kind in (ParseErrorKind.RECORD, ParseErrorKind.SHAPE, ParseErrorKind.NUMBER):
            source.add_parse_error(kind, "x", "y", number)
    assert (
        len(source.parse_errors) == 300
        and source.counts[ParseErrorKind.SHAPE] == 300_000
        and time.process_time() - begin < CPU_LIMIT_S / 10
    )
