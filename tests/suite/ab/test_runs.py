"""What is recorded beside runs sets a block aside: other programs, a held clock, an interruption."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from suite.ab.runs import AbFigures, AbMeasured, has_own_server_here, list_blocks
from suite.ab.sides import AbPoint
from suite.studies.points import MeasuredRun, StudiedPoint
from suite.units import NS_PER_S

RUN_S = 10


def make_point(number: int, **figures: Any) -> AbMeasured:
    """The run with this number, from 0, of blocks in the order ABBA."""
    block, turn = divmod(number, 4)
    point = AbPoint(run="block", side="abba"[turn], block=block + 1, turn=turn + 1)
    known = AbFigures(
        rate=100.0 + number % 3 / 10,
        metric="samples_per_second",
        starts_ns=number * RUN_S * NS_PER_S,
        ends_ns=(number * RUN_S + 5) * NS_PER_S,
        others_share=0.3,
        throttled_share=None,
    )
    run = MeasuredRun(
        point=point,
        figures=replace(known, **figures),
        number=number + 1,
        repeat=1,
        seconds=8.0,
        folder=str(number),
    )
    return StudiedPoint(point=point, runs=(run,), figures=run.figures)


def list_reasons(changed: dict[int, dict[str, Any]], runs: int = 12) -> list[str]:
    points = [make_point(each, **changed.get(each, {})) for each in range(runs)]
    return [each.measured.disturbed for each in list_blocks(points)]


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        ({"others_share": 0.45}, "other programs used 30 to 45 % of the cores"),
        ({"throttled_share": 0.2}, "a GPU's clock was held down in up to 20 % of a run"),
        ({"rate": 150.0}, "the two runs of A differ by"),
    ],
)
def test_a_block_that_was_disturbed_is_set_aside(figures: dict[str, Any], reason: str) -> None:
    first, second, third = list_reasons({4: figures})
    assert (first, third) == ("", "")
    assert second.startswith(reason)


def test_a_block_that_was_interrupted_is_set_aside() -> None:
    late = {
        each: {"starts_ns": (each * RUN_S + 900) * NS_PER_S, "ends_ns": 10**13 + each}
        for each in range(6, 12)
    }
    assert "passed between two of its runs" in list_reasons(late)[1]


def test_at_most_a_third_of_the_blocks_is_set_aside() -> None:
    noisy = {each: {"others_share": 0.9} for each in range(0, 32, 4)}
    aside = [bool(each) for each in list_reasons(noisy, 32)]
    assert aside == [True, False, False, False, False, True, False, False]


@pytest.mark.parametrize(
    ("network", "is_here"),
    [
        (None, False),
        (SimpleNamespace(loopback=True, loadgen_machine="m", machines=("",)), True),
        (SimpleNamespace(loopback=False, loadgen_machine="m", machines=("m",)), True),
        (SimpleNamespace(loopback=False, loadgen_machine="m", machines=("n",)), False),
    ],
)
def test_a_server_of_this_machine_is_no_other_program(network: Any, is_here: bool) -> None:
    facts: Any = SimpleNamespace(record=SimpleNamespace(network=network))
    assert has_own_server_here(facts) is is_here
