"""Contracts: what `podium accept new` writes, and which ones are refused in a sentence."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from contracted_bundles import Parties, call

from submissions.accept.bounded_metrics import list_bounded_metrics, parse_contracted_scenario
from submissions.accept.contract import AcceptanceContract, read_contract
from suite import registry
from suite.cli import group
from suite.errors import RequestError
from suite.ledger.contract_challenge import (
    TryChallenge,
    TryKind,
    format_try_challenge,
    parse_try_challenge,
)
from suite.ledger.steps import find_challenge_fault
from suite.loadgen.scenario import Scenario
from suite.terms import Profile

SMOKE = ("gnmt", "llama", "maskrcnn", "minigo", "resnet50", "ssd", "transformer")
HEADLINES = {
    "single-stream": "latency_p9X at most ms us s",
    "multi-stream": "latency_p9X at most ms us s",
    "server": "completed_samples_per_second at least samples/s",
    "offline": "samples_per_second at least samples/s",
    "training": "time_to_train at most minutes s h",
}
TOKEN_HEADLINES = {
    "server": "completed_tokens_per_second at least tokens/s",
    "offline": "tokens_per_second at least tokens/s",
}


@pytest.mark.parametrize("workload", SMOKE)
def test_every_smoke_workload_can_be_contracted(
    parties: Parties, tmp_path: Path, workload: str
) -> None:
    """In each of its scenarios, and its training: by its result, its scores and its cost."""
    row = registry.load_round().benchmark(workload)
    scenarios = [*row.inference[Profile.SMOKE].scenarios, "training"]
    for scenario in map(str, scenarios):
        metrics = list_bounded_metrics(workload, Profile.SMOKE, parse_contracted_scenario(scenario))
        first = next(iter(metrics.values()))
        headlines = HEADLINES
        if workload == "llama":
            headlines = HEADLINES | TOKEN_HEADLINES
        words = " ".join((first.name, first.direction, *first.units))
        assert re.sub(r"_p9\d", "_p9X", words) == headlines[scenario]
        assert [each for each in metrics if each in row.scored_metrics or each in row.metrics]
        bounds = [
            f"{each.name} {'>=' if each.more_is_better else '<='} 1"
            f" {next(iter(each.units)).replace('currency', 'EUR')}"
            for each in metrics.values()
        ]
        contract = parties.write(
            tmp_path / "c.toml",
            *bounds,
            workload=workload,
            scenario=scenario,
            runs=3,
            price="1 EUR/hour",
        )
        assert len(contract.terms.clause) == len(metrics)


def test_a_new_contract_has_a_nonce_of_its_own(parties: Parties, tmp_path: Path) -> None:
    first, other = (parties.write(tmp_path / name) for name in ("1.toml", "2.toml"))
    assert first.terms.nonce != other.terms.nonce
    assert first.digest != other.digest
    assert replace(first.terms, nonce="") == replace(other.terms, nonce="")
    outcome = call(
        *("accept", "new", tmp_path / "1.toml", "--workload", "resnet50"),
        *("--buyer", "a", "--buyer-key", parties.key("buyer.pub"), "--seller", "b"),
    )
    assert outcome.exit_code == 2 and "exists; name another file" in str(outcome.exception)


def test_without_a_clause_the_file_lists_what_can_be_bounded(
    parties: Parties, tmp_path: Path
) -> None:
    path = tmp_path / "c.toml"
    outcome = call(
        *("accept", "new", path, "--workload", "llama", "--scenario", "server"),
        *("--buyer", "a@b", "--buyer-key", parties.key("buyer.pub"), "--seller", "c@d"),
    )
    assert "written without a clause" in outcome.stdout
    text = path.read_text()
    assert '#metric = "completed_tokens_per_second"' in text
    assert '#metric = "cost_per_million_tokens"' in text
    with pytest.raises(RequestError, match="no \\[\\[clause\\]\\]"):
        read_contract(path)
    path.write_text(
        text.replace("\n#[[", "\n[[")
        .replace("\n#metric", "\nmetric")
        .replace("\n#direction", "\ndirection")
        .replace("\n#bound", "\nbound")
        .replace("\n#unit", "\nunit")
        .replace("# [price]", "[price]")
        .replace("# amount", "amount")
        .replace("# currency", "currency")
        .replace("# per", "per")
    )
    assert len(read_contract(path).terms.clause) == 16


BAD: list[tuple[str, tuple[str, str], str]] = [
    ("no TOML", ("runs = 1", "runs = "), "Invalid value"),
    ("an unknown key", ("runs = 1", "runz = 1"), "unknown key of the contract 'runz'; did you"),
    ("a key fewer", ("runs = 1", ""), "the contract lacks runs"),
    ("an unknown key of a side", ("[buyer]\n", "[buyer]\nkay = 1\n"), "did you mean 'key'?"),
    ("an unknown key of a clause", ("unit =", "units ="), "did you mean 'unit'?"),
    ("another type", ("runs = 1", 'runs = "one"'), "Expected `int`, got `str` - at `runs`"),
    ("no such workload", ('"resnet50"', '"resnet5"'), "did you mean 'resnet50'?"),
    ("no such scenario", ('"single-stream"', '"singlestreem"'), "unknown scenario"),
    ("no such profile", ('"smoke"', '"smok"'), "Invalid enum value 'smok'"),
    ("no such round", ('"podium-v1"', '"v1"'), "unknown round 'v1'"),
    ("no runs", ("runs = 1", "runs = 0"), "runs 0; required: 1 to 1000"),
    ("no attempts", ("attempts = 2", "attempts = 0"), "attempts 0; required: 1 to 1000"),
    ("certainty", ("0.95", "1.0"), "confidence 1; required: 0.5 to 0.999"),
    ("a local deadline", ("00:00:00Z", "00:00:00"), "has no offset from UTC"),
    (
        "a deadline before all years",
        ("2099-01-01T00:00:00Z", "0001-01-01T00:00:00+23:00"),
        "is outside of the years 1 to 9999 in UTC",
    ),
    ("a short nonce", ('nonce = "', 'nonce = "zz'), "nonce: not 64 of the hexadecimal digits"),
    ("no such metric", ('"latency_p90"', '"latency_p99"'), "did you mean 'latency_p90'?"),
    ("another unit", ('"ms"', '"samples/s"'), 'has the unit ms or us or s, not "samples/s"'),
    ("no direction", ('"at most"', '"below"'), 'is bounded by "at most", not "below"'),
    ("nothing", ("bound = 20.0", "bound = 0.0"), "bound 0 of latency_p90; required"),
    ("nan", ("bound = 20.0", "bound = nan"), "bound nan of latency_p90; required"),
    ("two names", ('"ops@buyer.example"', '"ops buyer"'), "[buyer] name 'ops buyer': give one"),
    ("no key", ('key = "ssh-ed25519', 'key = "ssh'), "[buyer] key: not an SSH public key"),
    ("a hardware field", ("[machine]", "[machine]\ncores = 2\n#"), "unknown field of [machine]"),
    ("a setting", ("[settings]", "[settings]\nsize = 2\n#"), "unknown setting 'size'"),
    (
        "a setting of another type",
        ("[settings]", '[settings]\n"data.picture_size" = "x"\n#'),
        "setting data.picture_size",
    ),
    (
        "a price of nobody",
        ("[machine]", '[price]\namount = 1.0\ncurrency = "euro"\nper = "hour"\n[machine]'),
        "required: three capital letters",
    ),
    (
        "a price for what",
        ("[machine]", '[price]\namount = 1.0\ncurrency = "EUR"\nper = "week"\n[machine]'),
        "unknown [price] per 'week'",
    ),
    (
        "a clause twice",
        (
            "[[clause]]",
            '[[clause]]\nmetric="top1"\ndirection="at least"\nbound=1\nunit="1"\n[[clause]]',
        ),
        "top1 at least is in two clauses",
    ),
]


@pytest.mark.parametrize(
    ("change", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_a_contract_that_makes_no_sense_is_refused_in_a_sentence(
    agreed: tuple[Path, AcceptanceContract], tmp_path: Path, change: tuple[str, str], words: str
) -> None:
    text = agreed[0].read_text()
    assert change[0] in text
    path = tmp_path / "c.toml"
    path.write_text(text.replace(*change))
    with pytest.raises(RequestError) as told:
        read_contract(path)
    assert words in str(told.value)
    assert str(path) in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"\0", b"[" * 5000, b"a." * 900 + b"a=1"])
def test_what_is_no_contract_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.toml"
    path.write_bytes(content)
    for words in (("check", path, "x.tar.zst"), ("run", path)):
        outcome = call("accept", *words)
        assert outcome.exit_code == 2 and str(path) in str(outcome.exception)
    with pytest.raises(RequestError, match="No such file"):
        read_contract(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--bound", "fast"), "write METRIC >= NUMBER UNIT"),
        (("--bound", "top1 >= 0.8 ms"), 'top1 has the unit 1, not "ms"'),
        (("--bound", "samples_per_second <= 9 samples/s"), 'is bounded by "at least"'),
        (("--bound", "cost_per_million_samples <= 9 EUR"), 'needs [price] with per = "hour"'),
        (("--price", "cheap"), "write AMOUNT CURRENCY/hour"),
        (("--price", "2 EUR/week"), "unknown --price per 'week'"),
        (("--deadline", "2020-01-01T00:00:00Z"), "the deadline 2020-01-01 00:00:00 UTC has passed"),
        (("--scenario", "offlin"), "did you mean 'offline'?"),
        (("--machine", "cores"), "write FIELD=VALUE"),
        (("--set", "data"), "write KEY=VALUE"),
        (("--seller-key", "missing.pub"), "missing.pub: No such file"),
        (("--profile", "full", "--scenario", "training", "--runs", "1"), "runs 1; required: 5"),
    ],
)
def test_new_refuses_what_cannot_be_agreed(
    parties: Parties, tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    path = tmp_path / "c.toml"
    outcome = call(
        *("accept", "new", path, "--workload", "resnet50", *words),
        *("--buyer", "a@b", "--buyer-key", parties.key("buyer.pub"), "--seller", "c@d"),
    )
    assert outcome.exit_code == 2
    assert told in str(outcome.exception), outcome.exception
    assert not path.exists()


def test_a_private_key_is_not_copied_into_a_contract(parties: Parties, tmp_path: Path) -> None:
    outcome = call(
        *("accept", "new", tmp_path / "c.toml", "--workload", "resnet50"),
        *("--buyer", "a@b", "--buyer-key", parties.key("buyer"), "--seller", "c@d"),
    )
    assert outcome.exit_code == 2 and "not an SSH public key" in str(outcome.exception)


def test_what_is_written_is_toml_whatever_the_names_are(parties: Parties, tmp_path: Path) -> None:
    """A field's value may contain quotes and backslashes."""
    contract = parties.write(
        tmp_path / "c.toml", machine='accelerator_model_name=A "B" \\C\x7f é', price="9000 CHF"
    )
    assert contract.terms.machine == {"accelerator_model_name": 'A "B" \\C\x7f é'}
    assert contract.terms.price and contract.terms.price.per == "contract"
    assert tomllib.loads((tmp_path / "c.toml").read_text())["price"]["amount"] == 9000


def test_a_challenge_says_contract_kind_and_number() -> None:
    for kind in TryKind:
        found = TryChallenge(digest="ab" * 32, kind=kind, number=1000)
        text = format_try_challenge(found)
        assert find_challenge_fault(text) is None
        assert parse_try_challenge(text) == found
    assert found.words == "attempt 1000 of the contract abababababab"
    for other in ("", "ab" * 32, "ab" * 36, f"{'ab' * 32}02000001", f"{'ab' * 32}0100000g"):
        assert parse_try_challenge(other) is None, other


def test_help_says_the_exit_codes() -> None:
    told = CliRunner().invoke(group, ["accept", "check", "--help"]).output
    assert "4 the bundle is refused" in " ".join(told.split())
    assert Scenario.OFFLINE in CliRunner().invoke(group, ["accept", "new", "--help"]).output
