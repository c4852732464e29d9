"""The verdicts of compliance tests, from numbers alone."""

import tomllib
from dataclasses import replace
from importlib.resources import files

import pytest

from suite.audits.names import AUDIT_RULE_NAMES, AuditTest
from suite.audits.rules import (
    compute_audit_seed,
    format_audit_config,
    read_audit_rules,
    require_audit_rules,
)
from suite.audits.verdict import (
    compare_audit_runs,
    count_differing_answers,
    describe_compared_speeds,
    format_figure_range,
    format_speed_ratio,
)
from suite.errors import RequestError
from suite.loadgen import early_stopping
from suite.loadgen.scenario import Scenario
from suite.rounds import ScenarioRow

OWN = require_audit_rules("podium-v1")


def verdict(
    rules: str,
    test: AuditTest,
    scenario: Scenario,
    reference: tuple[float, ...],
    found: tuple[float, ...],
) -> bool:
    return compare_audit_runs(
        require_audit_rules(rules),
        require_audit_rules(rules).tests[test],
        scenario,
        reference,
        found,
    ).passed


def test_the_command_line_has_all_rules_and_each_number_has_a_source() -> None:
    """Rules that no option names are dead, and a limit without a source is a guess."""
    assert tuple(read_audit_rules()) == AUDIT_RULE_NAMES
    tables = tomllib.loads(files("suite.audits").joinpath("rules.toml").read_text())
    assert all(
        row["source"]
        for table in tables.values()
        for row in (*table["tests"].values(), *table.get("proof", {}).values())
    )


def test_runs_prove_what_is_compared_and_no_more() -> None:
    """Medians need fewer queries than a result's 99th percentile; a result that needs as few keeps
    its own conditions.
    """
    row = ScenarioRow(percentile=99.0, min_duration_ms=5000, min_queries=662, samples_per_query=8)
    shorter = replace(row, percentile=90.0, min_queries=64)
    assert OWN.resolve_run_conditions(Scenario.MULTI_STREAM, row) == shorter
    assert (
        OWN.resolve_run_conditions(
            Scenario.MULTI_STREAM, replace(shorter, percentile=50.0)
        ).percentile
        == 50.0
    )
    assert all(
        require_audit_rules(name).resolve_run_conditions(Scenario.MULTI_STREAM, row) == row
        for name in AUDIT_RULE_NAMES
        if name != "podium-v1"
    )
    assert all(
        OWN.resolve_run_conditions(each, row) == row
        for each in Scenario
        if each is not Scenario.MULTI_STREAM
    )


@pytest.mark.parametrize("rules", AUDIT_RULE_NAMES)
def test_early_stopping_can_prove_what_runs_have_to(rules: str) -> None:
    """Otherwise LoadGen would call each of them INVALID."""
    assert all(
        proof.min_queries >= early_stopping.compute_queries_needed(1, proof.percentile)
        for proof in require_audit_rules(rules).proof.values()
    )


def test_a_server_that_caches_keeps_its_rate_and_is_shown_by_its_median_latency() -> None:
    """By MLCommons' own measure, the paced rate, it passes."""
    assert verdict("v4.1", AuditTest.TEST04, Scenario.SERVER, (98.8, 98.8), (98.8, 98.8))
    assert not verdict("podium-v1", AuditTest.TEST04, Scenario.SERVER, (6e6, 6e6), (1e5, 1e5))


def test_slower_with_one_sample_is_no_cache_and_faster_is_one() -> None:
    """The wrong direction would refuse honest systems and accept those that cache."""
    assert verdict("podium-v1", AuditTest.TEST04, Scenario.OFFLINE, (100.0, 100.0), (80.0, 82.0))
    assert not verdict(
        "podium-v1", AuditTest.TEST04, Scenario.OFFLINE, (100.0, 100.0), (112.0, 111.0)
    )
    assert not verdict(
        "podium-v1", AuditTest.TEST05, Scenario.SINGLE_STREAM, (1e6, 1e6), (1.2e6, 1.2e6)
    )
    assert verdict(
        "podium-v1", AuditTest.TEST05, Scenario.SINGLE_STREAM, (1e6, 1e6), (0.5e6, 0.5e6)
    )


def test_slow_turns_decide_nothing_while_one_was_undisturbed() -> None:
    """Busy moments would fail an honest system; a cheat is fast in all of its runs of one kind, and
    in none of the other.
    """
    assert verdict(
        "podium-v1", AuditTest.TEST05, Scenario.OFFLINE, (100.0, 101.0, 99.0), (40.0, 60.0, 99.0)
    )
    assert verdict(
        "podium-v1", AuditTest.TEST05, Scenario.SERVER, (1.2e6, 9e6, 8e6), (8e6, 1.3e6, 9e6)
    )
    assert not verdict(
        "podium-v1", AuditTest.TEST05, Scenario.SERVER, (1.2e6, 1.3e6, 8e6), (8e6, 7e6, 9e6)
    )


LUCKY = 340_429.0
USUAL = (274_618_097.0, 275_087_018.0, 256_657_268.0, 280_000_000.0)


@pytest.mark.parametrize(
    ("test", "reference", "found", "passed"),
    [
        (AuditTest.TEST05, (LUCKY, *USUAL), (*USUAL, USUAL[0]), True),
        (AuditTest.TEST05, (LUCKY,) * 4 + USUAL[:1], (*USUAL, USUAL[0]), False),
        (AuditTest.TEST05, (LUCKY,) * 5, (*USUAL, USUAL[0]), False),
        (AuditTest.TEST04, (*USUAL, USUAL[0]), (LUCKY, *USUAL), True),
        (AuditTest.TEST04, (*USUAL, USUAL[0]), (LUCKY,) * 4 + USUAL[:1], False),
        (AuditTest.TEST04, (*USUAL, USUAL[0]), (LUCKY,) * 5, False),
    ],
)
def test_one_fast_run_among_slow_ones_proves_nothing(
    test: AuditTest, reference: tuple[float, ...], found: tuple[float, ...], passed: bool
) -> None:
    """Two reference runs 800-fold apart failed a test that was as fast as one of them; a cheat is
    fast in all runs of one kind, even if one of them was disturbed.
    """
    assert verdict("podium-v1", test, Scenario.SERVER, reference, found) is passed


def test_a_line_has_every_figure_with_its_unit_and_its_reference() -> None:
    """`0.00 times the reference's speed` of two reference runs 800-fold apart said nothing."""
    reference, found = (LUCKY, USUAL[0]), (275_087_018.0, 256_657_268.0)
    rules = require_audit_rules("podium-v1")
    compared = compare_audit_runs(
        rules, rules.tests[AuditTest.TEST05], Scenario.SERVER, reference, found
    )
    assert describe_compared_speeds(compared, reference, found) == (
        "median latency 256.7 to 275.1 ms against median latency 0.3404 to 274.6 ms in the"
        " reference runs, 0.0013 times the speed"
    )


@pytest.mark.parametrize(("latency", "passed"), [(190_000.0, True), (2_000_000.0, False)])
def test_short_latencies_have_wider_limits_where_the_round_gives_them(
    latency: float, passed: bool
) -> None:
    """v0.7: a fifth for SingleStream latencies up to 0.2 ms, else a twentieth."""
    assert (
        verdict("v0.7", AuditTest.TEST05, Scenario.SINGLE_STREAM, (latency,), (latency * 1.15,))
        is passed
    )


def test_a_run_that_took_no_time_is_far_too_fast() -> None:
    """A division by zero would be a crash of the judge."""
    assert not verdict("podium-v1", AuditTest.TEST04, Scenario.SERVER, (1e6,), (0.0,))


def test_whole_answers_are_compared() -> None:
    """MLCommons' script looks at the first element of an answer: wrong bytes behind it pass
    there.
    """
    right, wrong = b"\x07\x00\x00\x00\x05", b"\x07\x00\x00\x00\x00"
    assert count_differing_answers({3: [right, right]}, {3: right}, lambda a, b: False) == (2, 0)
    assert count_differing_answers(
        {3: [right, wrong], 9: [right]}, {3: right}, lambda a, b: False
    ) == (3, 2)


def test_seeds_hang_on_campaign_checkpoint_and_test() -> None:
    """Who knows the seeds beforehand prepares for them."""
    drawn = {
        compute_audit_seed(nonce, sha, test, place)
        for nonce in "ab"
        for sha in "cd"
        for test in AuditTest
        for place in range(3)
    }
    assert len(drawn) == 2 * 2 * 3 * len(AuditTest)
    assert all(0 <= each < 1 << 63 for each in drawn)


def test_figures_have_no_exponents() -> None:
    """32,650 samples/s were 3.265e+04."""
    assert format_figure_range("samples_per_second", (32650.4, 1234567.0)) == (
        "32,650 to 1,234,567 samples/s"
    )
    assert format_speed_ratio(0.0000123) == "0.000012"


def test_settings_are_written_in_the_form_of_audit_config() -> None:
    """LoadGen reads integers there, and a probability in hundredths."""
    assert (
        format_audit_config({"performance_issue_same": True, "accuracy_log_probability": 0.1})
        == "*.*.mode = 2\n*.*.accuracy_log_probability = 10\n*.*.performance_issue_same = 1\n"
    )


def test_an_unknown_name_names_the_nearest() -> None:
    with pytest.raises(RequestError, match="v0.7"):
        require_audit_rules("v0.77")
