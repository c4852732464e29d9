"""Clauses: met, not met or not shown, by the interval of all runs."""

from pathlib import Path

import pytest
from contracted_bundles import Parties

from submissions.accept.clauses import CLAUSE_TABLE, ClauseFinding, ClauseState, judge_clauses
from suite.result import Figure, Judgement, Quality, Result, ResultPlace

RATE = "samples_per_second >= {bound} samples/s"


def judged(
    parties: Parties, folder: Path, clause: str, result: Result, **terms: object
) -> ClauseFinding:
    contract = parties.write(folder / "c.toml", clause, **terms)
    (found,) = judge_clauses(contract, result)
    return found


def served(*runs: float | None, unit: str = "samples/s", noise: tuple[str, ...] = ()) -> Result:
    """Runs of Offline; the slowest counts."""
    known = [run for run in runs if run is not None]
    return Result(
        place=ResultPlace(workload="resnet50", scenario="Offline"),
        figure=Figure(unit=unit, value=min(known), runs=runs),
        judgement=Judgement(verdict="valid", compliant=True),
        noise=noise,
    )


@pytest.mark.parametrize(
    ("bound", "state"),
    [(900, ClauseState.MET), (990, ClauseState.NOT_SHOWN), (1100, ClauseState.NOT_MET)],
)
def test_a_rate_is_judged_by_its_interval(
    parties: Parties, tmp_path: Path, bound: int, state: ClauseState
) -> None:
    """990, 1000 and 1010: the interval around the slowest reaches from 966 to 1015."""
    found = judged(
        parties,
        tmp_path,
        RATE.format(bound=bound),
        served(990.0, 1000.0, 1010.0),
        scenario="offline",
        runs=3,
    )
    assert found.state is state
    assert found.evidence == "3 runs, 95 % interval"
    assert found.figure.low and found.figure.high
    assert found.figure.low < 990 < found.figure.high


def test_the_confidence_is_the_contracts(parties: Parties, tmp_path: Path) -> None:
    result = served(990.0, 1000.0, 1010.0)
    for confidence, state in ((0.5, ClauseState.MET), (0.99, ClauseState.NOT_SHOWN)):
        found = judged(
            parties,
            tmp_path,
            RATE.format(bound=980),
            result,
            scenario="offline",
            runs=3,
            confidence=confidence,
        )
        assert found.state is state
        assert f"{100 * confidence:g} % interval" in found.evidence


@pytest.mark.parametrize(
    ("runs", "why"),
    [
        ((2000.0,), "one run, no interval"),
        ((2000.0, 2000.5), "two runs, no interval"),
        ((2000.0, 2000.0, 2000.0), "3 equal runs, no interval"),
        ((2000.0, 2001.0, None), "a run missed its target, no interval"),
    ],
)
def test_without_an_interval_nothing_is_shown(
    parties: Parties, tmp_path: Path, runs: tuple[float | None, ...], why: str
) -> None:
    """However far from the bound the runs are."""
    found = judged(parties, tmp_path, RATE.format(bound=1), served(*runs), scenario="offline")
    assert (found.state, found.evidence) == (ClauseState.NOT_SHOWN, why)


def test_a_latency_is_bounded_in_its_unit(parties: Parties, tmp_path: Path) -> None:
    result = served(9.0e6, 9.1e6, 9.2e6, unit="ns")
    for clause, state in (
        ("latency_p90 <= 20 ms", ClauseState.MET),
        ("latency_p90 <= 0.02 s", ClauseState.MET),
        ("latency_p90 <= 8000 us", ClauseState.NOT_MET),
        ("latency_p90 <= 9 ms", ClauseState.NOT_SHOWN),
    ):
        assert judged(parties, tmp_path, clause, result).state is state, clause


def test_a_cost_follows_from_the_hours_price(parties: Parties, tmp_path: Path) -> None:
    """At 3.60 an hour, 1,000 samples a second cost one per million."""
    found = judged(
        parties,
        tmp_path,
        "cost_per_million_samples <= 1.2 EUR",
        served(1000.0, 1001.0, 1002.0),
        scenario="offline",
        runs=3,
        price="3.60 EUR/hour",
    )
    assert found.figure.value == pytest.approx(1.0)
    assert found.state is ClauseState.MET
    assert found.figure.low and found.figure.high
    assert found.figure.low < 1.0 < found.figure.high
    training = Result(figure=Figure(unit="minutes", value=30.0, runs=(29.9, 30.0, 30.1)))
    found = judged(
        parties,
        tmp_path,
        "cost_per_training <= 1.7 EUR",
        training,
        scenario="training",
        runs=3,
        price="3.60 EUR/hour",
    )
    assert found.figure.value == pytest.approx(1.8)
    assert found.state is ClauseState.NOT_MET


def test_a_score_is_exact(parties: Parties, tmp_path: Path) -> None:
    result = Result(
        place=ResultPlace(scenario="Offline"), quality=Quality(accuracy={"top1": 0.8115})
    )
    for bound, state in ((0.8115, ClauseState.MET), (0.8116, ClauseState.NOT_MET)):
        found = judged(parties, tmp_path, f"top1 >= {bound}", result, scenario="offline")
        assert found.state is state
        assert found.value_words == "0.8115"
    missing = judged(parties, tmp_path, "top1 >= 0.1", Result(), scenario="offline")
    assert missing.state is ClauseState.NOT_SHOWN


def test_a_disturbed_machine_is_named(parties: Parties, tmp_path: Path) -> None:
    found = judged(
        parties,
        tmp_path,
        RATE.format(bound=1),
        served(10.0, 11.0, 12.0, noise=("noise.others",)),
        scenario="offline",
        runs=3,
    )
    assert found.evidence.endswith("on a disturbed machine: noise.others")
    assert "noise.others" in CLAUSE_TABLE.format_aligned_text([found])
