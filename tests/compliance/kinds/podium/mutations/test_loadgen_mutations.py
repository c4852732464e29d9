"""Good LoadGen runs with one line of their detail log or summary touched: each key deleted,
doubled, nulled, changed.

What is let through is named here with the reason; anything else that passes is a hole in the rules.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from making import LOADS, write_run
from rewriting import rewrite
from spoiling import swap

from compliance.judge import Judge
from compliance.logs.loadgen.summary_keys import LOGGED_PERCENTILES
from compliance.verdict import Severity
from suite.files.layout import DETAIL_LOG, SUMMARY_LOG
from suite.loadgen.scenario import Scenario

SINGLE, MULTI, SERVER, OFFLINE = (
    Scenario.SINGLE_STREAM,
    Scenario.MULTI_STREAM,
    Scenario.SERVER,
    Scenario.OFFLINE,
)
TOKEN = ":::MLLOG "
BOTH = pytest.mark.parametrize("mode", ["performance", "accuracy"])
EACH = pytest.mark.parametrize("scenario", list(Scenario))
pytestmark = pytest.mark.usefixtures("counted_once")


def made(folder: Path, scenario: Scenario, mode: str) -> Path:
    return write_run(
        folder / scenario.folder / ("accuracy" if mode == "accuracy" else "performance/run_1"),
        LOADS[scenario],
        mode,
    )


def broken(folder: Path) -> bool:
    return any(
        finding.severity is Severity.ERROR for finding in Judge().judge_path(str(folder)).findings
    )


class Log:
    """A detail log, line by line, that is put back after each change."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / DETAIL_LOG
        self.lines = self.path.read_text().splitlines(keepends=True)
        self.documents = [json.loads(line.removeprefix(TOKEN)) for line in self.lines]

    def passes(self, place: int, *lines: str) -> bool:
        """Tell whether the judge takes the log with other lines in one's place."""
        rewrite(self.path, "".join([*self.lines[:place], *lines, *self.lines[place + 1 :]]))
        try:
            return not broken(self.folder)
        finally:
            rewrite(self.path, "".join(self.lines))

    def holes(self, values: Sequence[Any]) -> Iterator[str]:
        """Name the keys whose value may become another unnoticed; `...` takes the line out."""
        for place, document in enumerate(self.documents):
            for value in values:
                changed = (
                    "" if value is ... else TOKEN + json.dumps({**document, "value": value}) + "\n"
                )
                if value != document["value"] and self.passes(place, changed):
                    yield document["key"]


@EACH
@BOTH
def test_a_good_run_is_good(tmp_path: Path, scenario: Scenario, mode: str) -> None:
    """Or all that follows would prove nothing."""
    assert not broken(made(tmp_path, scenario, mode))


@pytest.mark.slow
@EACH
@BOTH
def test_no_line_can_be_taken_out(tmp_path: Path, scenario: Scenario, mode: str) -> None:
    """What is not there is not judged: its absence has to be."""
    assert set(Log(made(tmp_path, scenario, mode)).holes([...])) == set()


@pytest.mark.slow
@EACH
@BOTH
@pytest.mark.parametrize("value", [None, []], ids=["null", "list"])
def test_no_value_can_be_emptied(
    tmp_path: Path, scenario: Scenario, mode: str, value: object
) -> None:
    """A null in a bound's place would switch off every rule about it."""
    assert set(Log(made(tmp_path, scenario, mode)).holes([value])) == set()


@pytest.mark.slow
@EACH
@BOTH
def test_no_line_can_be_doubled(tmp_path: Path, scenario: Scenario, mode: str) -> None:
    """Which of the two would count? What an accuracy run has per set of samples, it has once for
    each.
    """
    log = Log(made(tmp_path, scenario, mode))
    assert [
        document["key"]
        for place, document in enumerate(log.documents)
        if log.passes(place, log.lines[place], log.lines[place])
    ] == []


ALONE = {"generated_query_duration"}
"""How long the planned queries take, to the six digits in which the rate is logged; of an accuracy
run nothing hangs on it.
"""
SAMPLES = {
    f"result_{name}_latency_ns"
    for name in ("min", "mean", *(f"{share}_percentile" for share in LOGGED_PERCENTILES))
}
"""What MultiStream's samples took, as far as their queries took no less: results are of queries,
and nothing is read from these.
"""
CHANGED = {
    (SINGLE, "performance"): {
        "requested_single_stream_expected_latency_ns",
        "generated_query_count",
    },
    (SINGLE, "accuracy"): {"requested_single_stream_expected_latency_ns"},
    (MULTI, "performance"): (
        {"requested_multi_stream_expected_latency_ns", "generated_query_count"} | SAMPLES
    ),
    (MULTI, "accuracy"): {"requested_multi_stream_expected_latency_ns"},
    (SERVER, "performance"): set(),
    (SERVER, "accuracy"): set(),
    (OFFLINE, "performance"): {"requested_min_query_count"},
    (OFFLINE, "accuracy"): {"requested_min_query_count"},
}
"""What a run alone lets pass: a nanosecond in a million; one query of thousands that were planned
and not needed; Offline's minimum below
what it issued, which the record's settings tell."""


@pytest.mark.slow
@EACH
@BOTH
def test_no_number_can_be_changed(tmp_path: Path, scenario: Scenario, mode: str) -> None:
    """By one, by a hundredth, to twice: counts, seeds, bounds, percentiles and latencies prove one
    another.
    """
    log = Log(made(tmp_path, scenario, mode))
    found: set[str] = set()
    for place, document in enumerate(log.documents):
        value = document["value"]
        if type(value) not in (int, float):
            continue
        for other in (value + 1, value - 1, value * 1.01 + 1, value * 2 + 3):
            if log.passes(place, TOKEN + json.dumps({**document, "value": other}) + "\n"):
                found.add(document["key"])
    assert found - ALONE == CHANGED[scenario, mode]


@EACH
@BOTH
def test_no_flag_or_text_can_be_changed(tmp_path: Path, scenario: Scenario, mode: str) -> None:
    """A run that was another scenario's, or coalesced its queries; an accuracy run's system is
    compared with the others' in its entry.
    """
    log = Log(made(tmp_path, scenario, mode))
    found: set[str] = set()
    for place, document in enumerate(log.documents):
        if isinstance(document["value"], bool | str):
            other = not document["value"] if isinstance(document["value"], bool) else "zzz"
            if log.passes(place, TOKEN + json.dumps({**document, "value": other}) + "\n"):
                found.add(document["key"])
    assert found == ({"sut_name"} if mode == "accuracy" else set())


@EACH
@BOTH
@pytest.mark.parametrize("change", ["fewer", "strange", "repeated"])
def test_the_list_of_loaded_samples_cannot_be_changed(
    tmp_path: Path, scenario: Scenario, mode: str, change: str
) -> None:
    """A benchmark of fewer pictures is a faster one."""
    log = Log(made(tmp_path, scenario, mode))
    place = next(
        place for place, document in enumerate(log.documents) if document["key"] == "loaded_qsl_set"
    )
    samples = log.documents[place]["value"]
    other = {
        "fewer": samples[1:],
        "strange": [*samples[:-1], 999_999],
        "repeated": [*samples[:-1], samples[0]],
    }[change]
    assert not log.passes(
        place, TOKEN + json.dumps({**log.documents[place], "value": other}) + "\n"
    )


# ---- summaries ----


@EACH
def test_no_line_of_a_summary_can_be_taken_out(tmp_path: Path, scenario: Scenario) -> None:
    """Scores are read from it."""
    folder = made(tmp_path, scenario, "performance")
    lines = (folder / SUMMARY_LOG).read_text().splitlines(keepends=True)
    passed = []
    for place, line in enumerate(lines):
        rewrite(folder / SUMMARY_LOG, "".join([*lines[:place], *lines[place + 1 :]]))
        if line.strip() and "=" not in line and not broken(folder):
            passed.append(line.strip())
    quiet = {
        "MLPerf Results Summary",
        "Additional Stats",
        "Early Stopping Result:",
        "Per-query latency:",
    }
    assert set(passed) <= quiet


@EACH
def test_no_number_of_a_summary_can_be_changed(tmp_path: Path, scenario: Scenario) -> None:
    """By one in its last digit, wherever it stands behind a colon; of rates, the hundredths are
    rounded.
    """
    folder = made(tmp_path, scenario, "performance")
    lines = (folder / SUMMARY_LOG).read_text().splitlines(keepends=True)
    for place, line in enumerate(lines):
        name, colon, text = line.rstrip("\n").partition(":")
        if not (colon and text.strip().isdigit()):
            continue
        rewrite(
            folder / SUMMARY_LOG,
            "".join([*lines[:place], f"{name}: {int(text) + 1}\n", *lines[place + 1 :]]),
        )
        assert broken(folder), line


@pytest.mark.parametrize(("scenario", "percentile"), [(SINGLE, "90.0"), (MULTI, "99.0")])
def test_the_estimate_of_a_stream_is_its_result(
    tmp_path: Path, scenario: Scenario, percentile: str
) -> None:
    """Without it, or with that of another percentile, a score would be read from the percentile
    itself, which is lower.
    """
    for change in (
        swap(r" \* Early stopping [^\n]*\n", ""),
        swap(rf"stopping {percentile}th", "stopping 50.0th"),
        swap(r"(estimate: \d+)\d", r"\g<1>"),
    ):
        folder = made(tmp_path / str(id(change)), scenario, "performance")
        change(folder / SUMMARY_LOG)
        assert broken(folder)
