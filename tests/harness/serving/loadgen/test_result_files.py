"""LoadGen's files read back, whole or torn; the files are LoadGen's own."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from podium_fakes.served import ROW, LoadGenJob, job, run_with_errors, schedule, system

from harness.children.process import run_in_child
from harness.serving.loadgen.result_files import check_loadgen_files
from harness.serving.loadgen.session import run_loadgen
from suite.errors import JudgedError
from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, QUERY_RECORD_FILE, SUMMARY_LOG
from suite.loadgen.detail_log import DetailLog, read_detail_log
from suite.loadgen.loadgen_errors import RAN_OUT_OF_QUERIES
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario

LINE = (
    ':::MLLOG {{"key": "{}", "value": {}, "time_ms": 1.5, "metadata": {{"is_error": {}, "pid":'
    " 1}}}}\n"
)
ENDINGS = {
    "quiet": "No errors encountered during test.",
    "ran-out": "1 ERROR encountered. See detailed log.",
    "errors": "2 ERRORS encountered. See detailed log.",
}


def line(key: str, value: str, is_error: str = "false") -> str:
    return LINE.format(key, value, is_error)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three LoadGen runs: without an error, with one since it ran out of queries, and with two."""
    root = tmp_path_factory.mktemp("runs")
    expected = {"single_stream.expected_latency_us": 1_000_000}
    jobs = {
        "quiet": (run_loadgen, job(root, Scenario.OFFLINE).schedule),
        "ran-out": (
            run_loadgen,
            schedule(Scenario.SINGLE_STREAM, row=replace(ROW, min_duration_ms=5_000), **expected),
        ),  # on a busy machine, too
        "errors": (run_with_errors, schedule(Scenario.SERVER)),
    }
    for name, (task, asked) in jobs.items():
        (root / name).mkdir()
        run_in_child(
            task, LoadGenJob(system=system(root / "sut"), schedule=asked, folder=root / name)
        )
    return root


@pytest.fixture
def copy(runs: Path, tmp_path: Path) -> Callable[..., Path]:
    """Copies of them that a test may tear."""
    return lambda name="quiet": Path(shutil.copytree(runs / name, tmp_path / name))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ending"), ENDINGS.items())
def test_whole_files_pass_whatever_loadgen_says_of_errors(
    copy: Callable[..., Path], name: str, ending: str
):
    """A summary that ends with errors is whole; MLCommons' layout has three files, beside them is
    the record of queries, and the empty trace goes.
    """
    folder = copy(name)
    assert (folder / SUMMARY_LOG).read_text().endswith(f"\n{ending}\n")
    check_loadgen_files(folder)
    assert {path.name for path in folder.iterdir()} == {
        SUMMARY_LOG,
        DETAIL_LOG,
        ACCURACY_LOG,
        QUERY_RECORD_FILE,
    }


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("cut", [1, 3, 10, 40])
def test_a_summary_is_torn_wherever_it_is_cut(copy: Callable[..., Path], name: str, cut: int):
    """A full disk leaves any beginning of it."""
    summary = copy(name) / SUMMARY_LOG
    summary.write_bytes(summary.read_bytes()[:-cut])
    with pytest.raises(JudgedError, match=f"{SUMMARY_LOG} is truncated"):
        check_loadgen_files(summary.parent)


def test_errors_are_read_in_loadgens_words(runs: Path):
    """What voids a run has to be quoted; what is an error stands in the line's metadata alone."""
    assert read_detail_log(runs / "quiet").errors == ()
    (error,) = read_detail_log(runs / "ran-out").errors
    assert error.startswith("Ending early: ") and RAN_OUT_OF_QUERIES.is_in(error)
    rate, count = read_detail_log(runs / "errors").errors
    assert (
        rate.startswith("Invalid value for server_target_qps requested.")
        and "Max query count reached" in count
    )


def test_a_rate_over_no_time_is_no_number(runs: Path):
    """LoadGen writes `-nan`, which no JSON has, into the log of a Server run of one query."""
    assert b"nan, " in (runs / "errors" / DETAIL_LOG).read_bytes()
    with pytest.raises(JudgedError, match="no numeric 'result_scheduled_samples_per_sec'"):
        read_detail_log(runs / "errors").require_number("result_scheduled_samples_per_sec")


def test_a_harmless_race_of_the_logger_is_no_error(copy: Callable[..., Path]):
    """Accepted published results have it."""
    folder = copy("quiet")
    with (folder / DETAIL_LOG).open("a") as stream:
        stream.write(line("error_runtime", '"CAS failed."', "true"))
    assert read_detail_log(folder).errors == ()


def changed(folder: Path, name: str, change: Callable[[str], str]) -> Path:
    """Change one of the files."""
    (folder / name).write_text(change((folder / name).read_text()))
    return folder


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (SUMMARY_LOG, lambda text: text[: text.index("No warnings")]),
        (DETAIL_LOG, lambda text: text[:-3]),
        (DETAIL_LOG, lambda text: text[: text.index(':::MLLOG {"key": "power_end"')]),
        (DETAIL_LOG, lambda text: ":::MLLOG {nonsense}}\n" + text),
        (DETAIL_LOG, lambda text: text.replace('"is_error": false', '"is_error": "no"', 1)),
        (ACCURACY_LOG, lambda text: text[:-3]),
        (ACCURACY_LOG, lambda text: text[:40]),
        (ACCURACY_LOG, lambda text: ""),
        (ACCURACY_LOG, lambda text: text.replace('"data" : "', '"data" : "F', 1)),
        (ACCURACY_LOG, lambda text: text.replace('"qsl_idx" : ', '"qsl_idx" : "x', 1)),
    ],
)
def test_a_torn_file_is_named(copy: Callable[..., Path], name: str, change: Callable[[str], str]):
    """A full disk tears files without LoadGen noticing."""
    with pytest.raises(JudgedError, match=name):
        check_loadgen_files(changed(copy(), name, change))


@pytest.mark.parametrize("name", [SUMMARY_LOG, DETAIL_LOG, ACCURACY_LOG])
def test_a_missing_file_is_named(copy: Callable[..., Path], name: str):
    """LoadGen that cannot write says nothing."""
    folder = copy()
    (folder / name).unlink()
    with pytest.raises(JudgedError, match=name):
        check_loadgen_files(folder)


def test_answers_are_bytes_by_sample(tmp_path: Path):
    """seq_id is the order of issue; scoring by it would mix up the samples."""
    (tmp_path / ACCURACY_LOG).write_text(
        '[\n{ "seq_id" : 0, "qsl_idx" : 7, "data" : "0AFF" },\n{ "seq_id" : 1, "qsl_idx" : 3,'
        ' "data" : "" }\n]\n'
    )
    assert dict(read_logged_answers(tmp_path)) == {7: b"\x0a\xff", 3: b""}


def test_the_last_value_of_a_key_counts(tmp_path: Path):
    """LoadGen repeats generic messages."""
    (tmp_path / DETAIL_LOG).write_text(line("a", '"first"') + line("a", '"last"') + line("n", "12"))
    facts = read_detail_log(tmp_path)
    assert facts.values["a"] == "last" and facts.require_number("n") == 12.0
    with pytest.raises(JudgedError, match="no numeric 'a'"):
        facts.require_number("a")


def test_a_flag_that_is_not_logged_holds():
    """Only Server has performance constraints."""
    facts = DetailLog(values={"result_min_duration_met": False})
    assert facts.is_flag_set("result_perf_constraints_met") and not facts.is_flag_set(
        "result_min_duration_met"
    )


@pytest.mark.parametrize(
    "record",
    [
        b'{"qsl_idx": 1, "data": "\xff"}',
        b'{"data": ' + b"[" * 100_000,
        b'{"qsl_idx": ' + b"9" * 5000 + b', "data": ""}',
    ],
)
def test_an_answer_of_any_bytes_is_told(copy: Callable[..., Path], record: bytes):
    """An accuracy log that is no UTF-8 was a traceback."""
    folder = copy()
    (folder / ACCURACY_LOG).write_bytes(b"[\n" + record + b"\n]\n")
    with pytest.raises(JudgedError, match=ACCURACY_LOG):
        check_loadgen_files(folder)


@pytest.mark.parametrize("value", [b'"\xff"', b"[" * 100_000])
def test_an_event_of_any_bytes_is_told(copy: Callable[..., Path], value: bytes):
    """So was a detail log."""
    folder = copy()
    with (folder / DETAIL_LOG).open("ab") as stream:
        stream.write(line("key", "VALUE").encode().replace(b"VALUE", value))
    with pytest.raises(JudgedError, match=DETAIL_LOG):
        read_detail_log(folder)
