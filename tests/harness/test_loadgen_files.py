"""LoadGen's files read back, whole or torn."""

from pathlib import Path

import pytest

from harness.loadgen.files import Facts, check_whole, read_answers, read_facts
from suite.errors import JudgedError
from suite.layout import ACCURACY, DETAIL, SUMMARY

LINE = ':::MLLOG {{"key": "{}", "value": {}, "time_ms": 1.5, "metadata": {{"pid": 1}}}}\n'
DETAIL_TEXT = LINE.format("a", '"first"') + LINE.format("a", '"last"') + LINE.format("n", "12") + LINE.format("power_end", '"11-21"')
ANSWERS = '[\n{ "seq_id" : 0, "qsl_idx" : 7, "data" : "0AFF" },\n{ "seq_id" : 1, "qsl_idx" : 3, "data" : "" }\n]\n'


def write(folder: Path, summary: str = "\nNo errors encountered during test.\n", detail: str = DETAIL_TEXT, accuracy: str = ANSWERS) -> Path:
    for name, text in ((SUMMARY, summary), (DETAIL, detail), (ACCURACY, accuracy)):
        (folder / name).write_text(text)
    return folder


def test_whole_files_pass_and_the_empty_trace_goes(tmp_path: Path):
    """MLCommons' layout has three files."""
    (tmp_path / "mlperf_log_trace.json").touch()
    check_whole(write(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((SUMMARY, DETAIL, ACCURACY))


@pytest.mark.parametrize("ending", ["3 ERRORS encountered. See detailed log.", "1 error encountered."])
def test_a_summary_that_ends_with_errors_is_whole(tmp_path: Path, ending: str):
    """LoadGen's errors are the judge's to weigh; the file is there."""
    check_whole(write(tmp_path, summary=ending.lower()))


@pytest.mark.parametrize(
    ("torn", "words"),
    [
        ({"summary": "Result is : VALID\n"}, SUMMARY),
        ({"detail": DETAIL_TEXT[:-3]}, DETAIL),
        ({"detail": LINE.format("a", "1")}, DETAIL),
        ({"detail": ":::MLLOG {nonsense}}\n"}, DETAIL),
        ({"accuracy": ANSWERS[:-3]}, ACCURACY),
        ({"accuracy": ANSWERS[:40]}, ACCURACY),
        ({"accuracy": ""}, ACCURACY),
        ({"accuracy": ANSWERS.replace("0AFF", "0AF")}, ACCURACY),
        ({"accuracy": ANSWERS.replace("7", '"x"')}, ACCURACY),
    ],
)
def test_a_torn_file_is_named(tmp_path: Path, torn: dict[str, str], words: str):
    """A full disk tears files without LoadGen noticing."""
    with pytest.raises(JudgedError, match=words):
        check_whole(write(tmp_path, **torn))


@pytest.mark.parametrize("name", [SUMMARY, DETAIL, ACCURACY])
def test_a_missing_file_is_named(tmp_path: Path, name: str):
    """LoadGen that cannot write says nothing."""
    (write(tmp_path) / name).unlink()
    with pytest.raises(JudgedError, match=name):
        check_whole(tmp_path)


def test_answers_are_bytes_by_sample(tmp_path: Path):
    """seq_id is the order of issue; scoring by it would mix up the samples."""
    assert dict(read_answers(write(tmp_path))) == {7: b"\x0a\xff", 3: b""}


def test_the_last_value_of_a_key_counts(tmp_path: Path):
    """LoadGen repeats generic messages."""
    facts = read_facts(write(tmp_path))
    assert facts.values["a"] == "last" and facts.number("n") == 12.0
    with pytest.raises(JudgedError, match="no number 'a'"):
        facts.number("a")


def test_a_flag_that_is_not_logged_holds():
    """Only Server has performance constraints."""
    facts = Facts(values={"result_min_duration_met": False})
    assert facts.flag("result_perf_constraints_met") and not facts.flag("result_min_duration_met")


@pytest.mark.parametrize("record", [b'{"qsl_idx": 1, "data": "\xff"}', b'{"data": ' + b"[" * 100_000, b'{"qsl_idx": ' + b"9" * 5000 + b', "data": ""}'])
def test_an_answer_of_any_bytes_is_told(tmp_path: Path, record: bytes):
    """An accuracy log that is no UTF-8 was a traceback."""
    (write(tmp_path) / ACCURACY).write_bytes(b"[\n" + record + b"\n]\n")
    with pytest.raises(JudgedError, match=ACCURACY):
        check_whole(tmp_path)


@pytest.mark.parametrize("value", [b'"\xff"', b"[" * 100_000])
def test_an_event_of_any_bytes_is_told(tmp_path: Path, value: bytes):
    """So was a detail log."""
    (write(tmp_path) / DETAIL).write_bytes(LINE.encode().replace(b"{}", b"%b").replace(b"{{", b"{").replace(b"}}", b"}") % (b"a", value))
    with pytest.raises(JudgedError, match=DETAIL):
        read_facts(tmp_path)
