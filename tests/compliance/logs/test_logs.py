"""Parsers: true lines and offsets, every oddity a flaw, never a traceback, never more memory than
the limits.
"""

import json
import os
import warnings
from pathlib import Path
from typing import Any

import msgspec
import pytest
from examples import EXAMPLES
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from compliance.kinds.podium.documents.inference import read_accuracy_scores, read_loadgen_run
from compliance.kinds.podium.documents.training import read_training_log
from compliance.logs import source_file as source
from compliance.logs.loadgen import accuracy_log, summary
from compliance.logs.mllog import mllog_lines, record_json
from compliance.logs.source_file import ParseErrorKind, SourceFile
from suite import registry
from suite.workload import Mode

EVENT = (
    b':::MLLOG {"key": "%s", "value": %s, "time_ms": 5, "event_type": "POINT_IN_TIME",'
    b' "metadata": {}}'
)
BASE = EXAMPLES / "base"


def parse(path: Path, content: bytes) -> tuple[list[mllog_lines.MllogRecord], SourceFile]:
    path.write_bytes(content)
    found = SourceFile(path)
    return list(mllog_lines.read_mllog_records(found)), found


def kinds(found: SourceFile) -> list[tuple[ParseErrorKind, int | None]]:
    return [(flaw.kind, flaw.line) for flaw in found.parse_errors]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "result_0.txt"


def test_lines_and_offsets_are_those_of_the_file(path: Path) -> None:
    """A finding that points at record 2 instead of line 4 sends people to the wrong place."""
    first, second = EVENT % (b"a", b"1"), EVENT % (b"b", b"2")
    records, found = parse(path, b"noise\n" + first + b"\nmore\r\nnoise\n" + second + b"\n")
    assert [(record.key, record.line, record.value) for record in records] == [
        ("a", 2, 1),
        ("b", 5, 2),
    ]
    assert [
        path.read_bytes()[record.offset :].startswith(each)
        for record, each in zip(records, (first, second), strict=True)
    ] == [True, True]
    assert kinds(found) == [(ParseErrorKind.FOREIGN, 1), (ParseErrorKind.FOREIGN, 3)]


def test_lines_and_offsets_hold_across_chunks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that a chunk cuts in two is found all the same."""
    content = b"".join(
        b"x" * (number % 7) + b"\n" + EVENT % (b"k%d" % number, b"0") + b"\n"
        for number in range(60)
    )
    whole = [tuple(record) for record in parse(path, content)[0]]
    for size in (1, 5, 64, 1000):
        monkeypatch.setattr(mllog_lines, "MLLOG_CHUNK_BYTES", size)
        assert [tuple(record) for record in parse(path, content)[0]] == whole


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", [(ParseErrorKind.CUT, None)]),
        (EVENT % (b"a", b"1"), [(ParseErrorKind.CUT, 1)]),
        ((EVENT % (b"a", b"1"))[:40] + b"\n", [(ParseErrorKind.RECORD, 1)]),
        (EVENT % (b"a", b"NaN") + b"\n", [(ParseErrorKind.NUMBER, 1)]),
        (EVENT % (b"a", b"-Infinity") + b"\n", [(ParseErrorKind.NUMBER, 1)]),
        (EVENT % (b"a", b"1e999") + b"\n", [(ParseErrorKind.SHAPE, 1)]),
        (EVENT % (b"a", b'1, "value": 2') + b"\n", [(ParseErrorKind.DUPLICATE, 1)]),
        (EVENT % (b"a", b'1, "\\u0076alue": 2') + b"\n", [(ParseErrorKind.DUPLICATE, 1)]),
        (EVENT % (b"a", b'{"x": 1, "x": 2}') + b"\n", [(ParseErrorKind.DUPLICATE, 1)]),
        (EVENT % (b"a", b"1") + b" " + EVENT % (b"b", b"1") + b"\n", [(ParseErrorKind.GLUED, 1)]),
        (EVENT % (b"a", b'":::MLLOG {"') + b"\n", []),
        (b"[1,0]<stdout>: " + EVENT % (b"a", b"1") + b"\n", [(ParseErrorKind.GLUED, 1)]),
        (EVENT % (b"a", b"1") + b" tail\n", [(ParseErrorKind.RECORD, 1)]),
        (
            EVENT % (b"a", b"1") + b"\nx\0y\n",
            [(ParseErrorKind.ENCODING, 2), (ParseErrorKind.FOREIGN, 2)],
        ),
        (
            EVENT % (b"a", b'"\xff"') + b"\n",
            [(ParseErrorKind.ENCODING, 1), (ParseErrorKind.RECORD, 1)],
        ),
        (
            EVENT % (b"a", b"1") + b"\ncaf\xe9\n",
            [(ParseErrorKind.ENCODING, 2), (ParseErrorKind.FOREIGN, 2)],
        ),
        (
            (EVENT % (b"a", b"1") + b"\n").decode().encode("utf-16"),
            [(ParseErrorKind.ENCODING, 1), (ParseErrorKind.CUT, 2), (ParseErrorKind.FOREIGN, 1)],
        ),
        (EVENT % (b"a", b"[" * 100_000) + b"\n", [(ParseErrorKind.RECORD, 1)]),
        (
            (
                b':::MLLOG {"key": 5, "value": 1, "time_ms": 5, "event_type": "POINT_IN_TIME",'
                b' "metadata": {}}\n'
            ),
            [(ParseErrorKind.SHAPE, 1)],
        ),
        (
            b':::MLLOG {"key": "a", "value": 1, "event_type": "POINT_IN_TIME", "metadata": {}}\n',
            [(ParseErrorKind.SHAPE, 1)],
        ),
        (b":::MLLOG\n", [(ParseErrorKind.RECORD, 1)]),
        (b":::MLLOG []\n", [(ParseErrorKind.SHAPE, 1)]),
    ],
)
def test_each_oddity_is_a_flaw_at_its_line(
    path: Path, content: bytes, expected: list[tuple[ParseErrorKind, int | None]]
) -> None:
    assert kinds(parse(path, content)[1]) == expected


def test_each_of_several_records_on_a_line_is_read(path: Path) -> None:
    """The official parsers drop all but the last: an honest record could hide another."""
    records, _ = parse(
        path,
        (EVENT % (b"a", b"1"))
        + (EVENT % (b"b", b'":::MLLOG"'))
        + b"  "
        + (EVENT % (b"c", b"3"))
        + b"\n",
    )
    assert [record.key for record in records] == ["a", "b", "c"]


def test_a_line_without_end_does_not_fill_the_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mllog_lines, "MAX_MLLOG_LINE_BYTES", 2000)
    monkeypatch.setattr(mllog_lines, "MLLOG_CHUNK_BYTES", 500)
    _, found = parse(path, b"y" * 50_000 + b"\n")
    assert (ParseErrorKind.RECORD, 1) in kinds(found)


def test_flaws_of_garbage_are_counted_only_so_far(path: Path) -> None:
    _, found = parse(path, b":::MLLOG {\n" * 5000)
    assert len(found.parse_errors) == 100


@pytest.mark.parametrize("name", ["folder", "nowhere", "loop", "pipe", "no\0name", "x" * 5000])
def test_what_is_no_plain_file_is_a_flaw(tmp_path: Path, name: str) -> None:
    """A pipe would block for ever, a loop of links raises where nobody looks."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    os.mkfifo(tmp_path / "pipe")
    documents = (
        lambda found: list(mllog_lines.read_mllog_records(found)),
        lambda found: source.read_json_document(found, mllog_lines.EVENT_DECODER),
    )
    for read in (
        *documents,
        accuracy_log.index_accuracy_log,
        summary.read_loadgen_summary,
        read_accuracy_scores,
    ):
        found = SourceFile(tmp_path / name)
        read(found)
        assert found.has_parse_error(ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE)


def test_a_file_that_vanishes_while_read_is_a_flaw(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network file systems do that: the read fails in the middle."""

    def scan(*_: object) -> None:
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(mllog_lines, "scan_stream_blocks", scan)
    assert kinds(parse(path, b"x\n")[1]) == [(ParseErrorKind.UNREADABLE, None)]


def test_a_document_that_is_too_large_is_not_read(path: Path) -> None:
    path.write_text(json.dumps(["x" * source.MAX_DOCUMENT_BYTES]))
    found = SourceFile(path)
    assert source.read_json_document(found, mllog_lines.EVENT_DECODER) is None
    assert found.has_parse_error(ParseErrorKind.UNREADABLE)


@pytest.mark.parametrize(
    ("text", "flawed"),
    [
        (
            '{"package": "podium-suite 0.2.0, SHA-256 1234567890123456789012345678901234567890"}',
            False,
        ),
        ('{"count": 12345678901234567890123456}', True),
    ],
)
def test_digits_of_a_hash_are_no_number(path: Path, text: str, flawed: bool) -> None:
    """One hash in some hundred thousand begins with so many digits; its run must not be broken by
    that.
    """
    path.write_text(text)
    found = SourceFile(path)
    source.read_json_document(found, msgspec.json.Decoder(dict[str, Any]))
    assert found.has_parse_error(ParseErrorKind.NUMBER) is flawed


def test_a_summary_is_read_with_its_lines() -> None:
    path = BASE / "server" / "Server" / "performance" / "run_1" / "mlperf_log_summary.txt"
    found = summary.read_loadgen_summary(SourceFile(path))
    for name, value in found.values.items():
        assert value.text in path.read_text().splitlines()[value.line - 1], name
    assert found.find_text("Result is") == "VALID"
    assert found.parameters["target_latency"].text == "400000000"
    assert "No errors encountered during test." in found.remarks


def test_a_summary_that_says_two_things_is_found_out(path: Path) -> None:
    path.write_text("Result is : INVALID\nResult is : VALID\n")
    found = SourceFile(path)
    assert summary.read_loadgen_summary(found).find_text("Result is") == "INVALID"
    assert kinds(found) == [(ParseErrorKind.DUPLICATE, 2)]


ANSWER = '{ "seq_id" : 0, "qsl_idx" : 4, "data" : "0A00" }'


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"[\n{ANSWER}\n]\n", []),
        ("[\n]\n", []),
        (f"[\n{ANSWER}\n", [(ParseErrorKind.CUT, 2)]),
        (f"[\n{ANSWER}\n]\n{ANSWER}\n", [(ParseErrorKind.RECORD, 4)]),
        ("[\n" + ANSWER.replace("0A00", "0A0") + "\n]\n", [(ParseErrorKind.SHAPE, 2)]),
        ("[\n" + ANSWER.replace("0A00", "zz") + "\n]\n", [(ParseErrorKind.SHAPE, 2)]),
        (
            "[\n" + ANSWER.replace("4", '4, "qsl_idx" : 5') + "\n]\n",
            [(ParseErrorKind.DUPLICATE, 2)],
        ),
        (
            "[\n" + ANSWER.replace("4", "99999999999999999999") + "\n]\n",
            [(ParseErrorKind.SHAPE, 2)],
        ),
        ("[\n" + ANSWER.replace("4", "NaN") + "\n]\n", [(ParseErrorKind.NUMBER, 2)]),
        ("[\n" + ANSWER[:-6] + "\n]\n", [(ParseErrorKind.RECORD, 2)]),
        ("", [(ParseErrorKind.CUT, None)]),
    ],
)
def test_an_accuracy_log_is_read_line_by_line(
    path: Path, content: str, expected: list[tuple[ParseErrorKind, int | None]]
) -> None:
    path.write_text(content)
    found = SourceFile(path)
    accuracy_log.index_accuracy_log(found)
    assert kinds(found) == expected


def test_answers_beyond_the_memory_limit_are_read_from_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy_log, "MAX_CACHED_ANSWER_BYTES", 10)
    rows = [
        f'{{ "seq_id" : {place}, "qsl_idx" : {50 - place}, "data" : "{place:04X}" }}'
        for place in range(20)
    ]
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n")
    found = accuracy_log.index_accuracy_log(SourceFile(path))
    assert len(found.ends) < len(found) == 20
    assert {sample: found[sample] for sample in found} == {
        50 - place: place.to_bytes(2, "big") for place in range(20)
    }


def test_void_records_are_parted_from_those_that_stand() -> None:
    log = read_training_log(
        EXAMPLES / "valid" / "training.resumed" / "result_0.txt", registry.load_round(), None
    )
    assert [record.key for record in log.void][0] == "block_start"
    assert len(log.list_records("eval_accuracy")) == 3


GARBAGE = st.binary(max_size=200) | st.text(
    alphabet=':ML OG{}[]",0123456789.eE+-\n\\u"nulkeyvatimsd', max_size=200
).map(str.encode)


@pytest.mark.slow
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        GARBAGE
        | st.sampled_from(
            [
                EVENT % (b"run_stop", b"null") + b"\n",
                b":::MLLOG ",
                b'{ "seq_id" : 1,',
                b"]\n",
                b"top1=",
            ]
        ),
        max_size=6,
    )
)
def test_no_garbage_makes_a_parser_fail(tmp_path: Path, pieces: list[bytes]) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(b"".join(pieces))
    read_training_log(path, registry.load_round(), None)
    for read in (
        accuracy_log.index_accuracy_log,
        summary.read_loadgen_summary,
        lambda found: source.read_json_document(found, mllog_lines.EVENT_DECODER),
        read_accuracy_scores,
    ):
        read(SourceFile(path))


@pytest.mark.slow
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    place=st.integers(0, 10**5),
    value=st.integers(0, 255),
    name=st.sampled_from(["mlperf_log_summary.txt", "mlperf_log_detail.txt", "run.json"]),
)
@example(
    place=384, value=128, name="run.json"
)  # in a field's name, which the schema does not know then
def test_no_flipped_byte_makes_reading_a_run_fail(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: int, name: str
) -> None:
    folder = tmp_path_factory.mktemp("run")
    for path in (BASE / "server" / "Server" / "performance" / "run_1").iterdir():
        content = bytearray(path.read_bytes())
        if path.name == name:
            content[place % len(content)] = value
        (folder / path.name).write_bytes(content)
    read_loadgen_run(folder, Mode.PERFORMANCE, None, registry.load_round())


@pytest.mark.parametrize(("name", "value"), [("MAX_SPARSE_SAMPLES", 3), ("MAX_INDEXED_ANSWERS", 3)])
def test_a_log_without_end_is_not_read_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: int
) -> None:
    """Memory grows with the answers: more than any data set has are refused, whatever their
    numbers.
    """
    monkeypatch.setattr(accuracy_log, name, value)
    path = tmp_path / "mlperf_log_accuracy.json"
    lines = [
        f'{{ "seq_id" : {number}, "qsl_idx" :'
        f' {-1 - number if name == "MAX_SPARSE_SAMPLES" else number}, "data" : "00" }}'
        for number in range(9)
    ]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    source = SourceFile(path)
    assert len(accuracy_log.index_accuracy_log(source).samples) == 4
    assert [flaw.kind for flaw in source.parse_errors] == [ParseErrorKind.UNREADABLE]


def test_what_python_thinks_of_somebody_elses_text_is_not_said() -> None:
    """`SyntaxWarning: invalid decimal literal`, on the terminal, of a line in a log."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert record_json.parse_python_dict("{'a': 1if 1else 2}") is None
    assert told == []
    assert record_json.parse_python_dict("{'a': 1}") == {"a": 1}
