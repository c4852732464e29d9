"""Which of LoadGen's messages void a run."""

import pytest

from compliance.kinds.inference_text.round import load_inference_text_round
from suite.loadgen.loadgen_errors import (
    LOADGEN_MESSAGES,
    format_repeated_errors,
    is_harmless_error,
    is_transient_error,
)

RAN_OUT = (
    "Ending early: Ran out of generated queries to issue before the minimum query count and test"
    " duration were reached. Please update the relevant"
)
CLOCKS = "PerfClock and system_clock differ by more than 1%!  pc_sc_ratio: 1.02381"


@pytest.mark.parametrize(
    "line",
    [
        "CAS failed.",
        "ERROR : CAS failed. times: 3 line: 455",
        "Logging allocation detected: tid: 1 reserved_entries: 1024",
    ],
)
def test_races_of_the_logger_are_harmless(line: str):
    """Accepted published results have them; a run on a busy machine must not be lost to one."""
    assert is_harmless_error(line)


@pytest.mark.parametrize(
    "line",
    [
        RAN_OUT,
        CLOCKS,
        "Attempted to complete a sample twice.",
        "Loadgen built with uncommitted changes!",
        "never seen before",
    ],
)
def test_whatever_else_is_an_error_voids_the_run(line: str):
    """What is not listed is not known to be harmless."""
    assert not is_harmless_error(line)


def test_only_what_comes_from_the_machine_passes():
    """Doing again what ran out of queries, with the same settings, would run out again."""
    assert (
        is_transient_error(CLOCKS)
        and not is_transient_error(RAN_OUT)
        and not is_transient_error(CLOCKS.replace("1%", "0.1%"))
    )


@pytest.mark.parametrize("name", ["inference-v0.5", "inference-v0.7"])
def test_rounds_name_errors_of_the_list(name: str):
    """A name that is not listed would end the judge at the first error in a log."""
    assert set(load_inference_text_round(name).loadgen.accepted_errors) <= LOADGEN_MESSAGES.keys()


def test_equal_errors_are_counted_in_the_order_of_their_first():
    counted = format_repeated_errors(["one", "two", "one", *["two"] * 1_999])
    assert list(counted.items()) == [("one", "one (2 times)"), ("two", "two (2,000 times)")]
    assert format_repeated_errors(["one"]) == {"one": "one"}
