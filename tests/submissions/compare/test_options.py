"""What `podium compare` is asked for: published rows beside results, derived figures, scaling, what
is required, and what makes no sense.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from compliance.results.machine import build_machine
from submissions.commands.compare import compare
from submissions.pack.bundle import pack_results
from submissions.published_rows import read_published_rows
from suite.errors import JudgedError, RequestError

pytestmark = pytest.mark.usefixtures("objections")

BETA = "beta" * 8
PRICES = (
    'currency = "USD"\ndate = "2026-11-01"\n[[system]]\nmatch = "host-*"\nhourly = { value = 36.0,'
    ' source = "quote" }\n'
)


def invoked(*arguments: object, catch: bool = False) -> Result:
    return CliRunner().invoke(
        compare, [*map(str, arguments)], catch_exceptions=catch, env={"COLUMNS": "220"}
    )


def document(*arguments: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(invoked(*arguments, "--format", "json").stdout)
    return found


def kinds(found: dict[str, Any]) -> dict[str, Any]:
    return {row["scenario"] or "training": row for row in found["comparisons"]}


@pytest.fixture
def other(tmp_path: Path, make_tree: Callable[..., Path]) -> Path:
    """A second campaign, of three training runs."""
    return make_tree(tmp_path / "other", org="beta", nonce=BETA, runs=3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--baseline", "elsewhere"), "--baseline elsewhere: neither one of the paths"),
        (("--confidence", "0.49"), "give a value from 0.5 to 0.999"),
        (("--confidence", "1"), "give a value from 0.5 to 0.999"),
        (("--confidence", "nan"), "give a value from 0.5 to 0.999"),
        (("--runs-for", "5"), "as in --runs-for 5%"),
        (("--runs-for", "0%"), "as in --runs-for 5%"),
        (("--runs-for", "x%"), "as in --runs-for 5%"),
        (("--per", "dollar"), "--per dollar needs --prices FILE"),
        (("--per", "accelerator", "--prices", "x.toml"), "--prices requires --per dollar"),
        (("--published", "training-v0.8"), "unknown published round 'training-v0.8'"),
        (("--published", "none.csv"), "none.csv: No such file"),
    ],
)
def test_a_request_without_sense_is_refused_before_anything_is_read(
    arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2, at once."""
    with pytest.raises(RequestError, match=words):
        invoked("no/such/results", *arguments)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PRICES.replace("36.0", "0"), "hourly 0; required: a number above 0"),
        (PRICES.replace("36.0", "-1.5"), "hourly -1.5; required"),
        (PRICES.replace("36.0", "nan"), "hourly nan; required"),
        (PRICES.replace("36.0", '"x"'), "hourly x; required"),
        (PRICES.replace('currency = "USD"\n', ""), "currency is missing"),
        (PRICES.replace(', source = "quote"', ""), "an amount is"),
        (PRICES + 'yearly = { value = 1, source = "s" }\n', "give either hourly, yearly or price"),
        (PRICES.replace("hourly", "weekly"), "unknown weekly"),
        (PRICES + '[[system]]\nhourly = { value = 1, source = "s" }\n', "without match"),
        ("system = 3\ncurrency = 1\ndate = 2\n", "missing or empty"),
        ("= broken", "prices.toml: "),
    ],
)
def test_prices_that_are_none_are_refused(tmp_path: Path, text: str, words: str) -> None:
    """With the file and the reason."""
    prices = tmp_path / "prices.toml"
    prices.write_text(text)
    with pytest.raises(RequestError, match=words) as error:
        invoked("x", "--per", "dollar", "--prices", prices)
    assert str(prices) in str(error.value)


def test_money_and_accelerators_are_derived_of_rates_and_times_alone(
    results: Path, other: Path, tmp_path: Path
) -> None:
    """36 dollars an hour: 2 minutes cost 1.20, and 202.5 samples/s are 20,250 samples for one."""
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    found = document(results, other, "--per", "dollar", "--prices", prices)
    first = {what: row["results"][0]["derived"] for what, row in kinds(found).items()}
    assert first["training"] == {"value": pytest.approx(1.2), "unit": "USD per training"}
    assert first["Offline"] == {"value": pytest.approx(20_250), "unit": "samples per USD"}
    assert first["SingleStream"] is first["MultiStream"] is None
    assert any(
        "not official metrics: prices in USD of 2026-11-01" in line for line in found["legend"]
    )
    yearly = prices.write_text(
        PRICES.replace("hourly", "yearly").replace("36.0", str(36 * 8766))
    ) and kinds(document(results, "--per", "dollar", "--prices", prices))
    assert yearly["training"]["results"][0]["derived"] == first["training"]


def describe(tree: Path, accelerators: int) -> None:
    """Fill in what the harness tells of a machine."""
    for path in tree.glob("*/*/systems/*.json"):
        told = {
            "accelerator_model_name": "Card",
            "accelerators_per_node": accelerators,
            "number_of_nodes": 1,
        }
        path.write_text(json.dumps(json.loads(path.read_text()) | told))


@pytest.mark.parametrize("nodes", [1, 1.0, "1"])
def test_one_node_is_one_node_however_it_is_written(nodes: object) -> None:
    fields = {"number_of_nodes": nodes, "accelerators_per_node": 8.0}
    machine = build_machine(fields)
    assert (machine.nodes, machine.accelerators) == (1, 8)


def test_scaling_holds_speed_against_accelerators(
    results: Path, other: Path, make_log: Callable[..., None]
) -> None:
    """Four times the cards, twice as fast: an efficiency of a half."""
    describe(results, 2)
    describe(other, 8)
    for path in other.rglob("performance/run_1/mlperf_log_detail.txt"):
        path.write_text(path.read_text().replace("202.5", "405"))
    found = document(results, other, "--scaling", "--per", "accelerator")
    (offline,) = [each for each in found["scaling"] if each["scenario"] == "Offline"]
    assert [
        (step["accelerators"], step["speed_up"], step["ideal"], step["efficiency"])
        for step in offline["steps"]
    ] == [(2, 1, 1, 1), (8, 2, 4, 0.5)]
    derived = [result["derived"] for result in kinds(found)["Offline"]["results"]]
    assert derived == [
        {"value": 101.25, "unit": "samples/s per accelerator"},
        {"value": 50.625, "unit": "samples/s per accelerator"},
    ]
    assert kinds(found)["training"]["results"][0]["derived"] == {
        "value": 4.0,
        "unit": "accelerator-minutes",
    }
    assert "8 x Card" in invoked(results, other, "--scaling").stdout
    describe(other, 2)
    with pytest.raises(RequestError, match="--scaling: nothing to show"):
        invoked(results, other, "--scaling")


def test_figures_that_no_result_has_are_refused(results: Path, other: Path) -> None:
    """The option had no effect, and nothing said so."""
    describe(results, 0)
    describe(other, 0)
    with pytest.raises(RequestError, match="--per accelerator: nothing to derive"):
        invoked(results, other, "--per", "accelerator")


def test_a_system_can_be_the_baseline(results: Path, other: Path) -> None:
    for path in other.glob("*/*/systems/*.json"):
        path.rename(path.with_name(f"b-{path.name}"))
    for folder in other.glob("*/*/results/*"):
        folder.rename(folder.with_name(f"b-{folder.name}"))
    found = kinds(document(results, other, "--baseline", "b-host-torch-bf16"))
    assert [each["baseline"] for each in found["training"]["results"]] == [False, True]


def test_what_to_run_for_a_conclusion_is_said(results: Path, other: Path) -> None:
    shown = invoked(results, other).stdout
    assert "conclusions need three runs on each side: podium run resnet50 --runs 3" in shown


def test_training_scales_in_time_and_in_samples(
    results: Path, other: Path, make_log: Callable[..., None]
) -> None:
    """Twice the samples/s, and twice the epochs for the larger batch: no time is won."""
    describe(results, 2)
    describe(other, 8)
    log = Path("results", "host-torch-bf16", "resnet", "result_0.txt")
    make_log(results / "open" / "acme" / log, minutes=3.0, train_samples=6000)
    for number in range(3):
        path = other / "open" / "beta" / log.with_name(f"result_{number}.txt")
        make_log(path, minutes=3.0, train_samples=6000, campaign_nonce=BETA)
        path.write_text(path.read_text().replace('"epoch_num": 3', '"epoch_num": 6'))
    found = document(results, other, "--scaling")
    assert kinds(found)["training"]["results"][0]["samples_per_second"] == pytest.approx(
        6000 * 3 / 180
    )
    (training,) = [each for each in found["scaling"] if each["scenario"] is None]
    assert [(step["speed_up"], step["throughput"]) for step in training["steps"]] == [
        (1.0, 1.0),
        (1.0, 2.0),
    ]


def test_the_runs_that_a_difference_needs_are_told(
    other: Path, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    """Of sets whose runs tell how far they spread."""
    third = make_tree(tmp_path / "third", org="gamma", nonce="c" * 32, runs=3)
    row = kinds(document(other, third, "--runs-for", "50%"))["training"]["results"][1]
    assert row["runs_for"] > 3 and row["verdict"] == "not separable"
    text = invoked(other, third, "--runs-for", "50%").stdout
    assert f"runs needed on each side: {row['runs_for']}" in text and "could have detected" in text


def test_what_is_required_decides_the_exit_code(
    results: Path, other: Path, tmp_path: Path, make_tree: Callable[..., Path]
) -> None:
    """For CI: nothing may stand in the way, or every ratio must be a difference."""
    assert invoked(results, other, "--require", "comparable").exit_code == 0
    with pytest.raises(
        JudgedError, match="(?s)some results are not separable:.*training: .* is not tested"
    ):
        CliRunner().invoke(
            compare, [str(results), str(other), "--require", "separable"], catch_exceptions=False
        )
    quick = make_tree(tmp_path / "quick", profile="quick")
    with pytest.raises(
        JudgedError,
        match="some results are not comparable:\n  resnet50 training: profile: smoke and quick",
    ):
        invoked(results, quick, "--require", "comparable")
    assert invoked(results, quick).exit_code == 0
    with pytest.raises(JudgedError, match="nothing to compare it with"):
        invoked(results, "--require", "comparable")


def test_a_bundle_beside_itself_is_not_separable(other: Path, tmp_path: Path) -> None:
    """Three training runs, and one of each scenario."""
    bundle = pack_results(other, tmp_path / "x.tar.zst")
    found = kinds(document(bundle, bundle))
    assert (
        found["training"]["results"][1]["verdict"] == "not separable"
        and found["training"]["results"][1]["ratio"] == 1.0
    )
    assert (found["Offline"]["results"][1]["verdict"], found["Offline"]["results"][1]["why"]) == (
        "not tested",
        "one run each, no interval",
    )


def test_published_rows_stand_beside_and_have_no_ratio_with_podiums(
    results: Path, other: Path
) -> None:
    """The round's own results are not MLPerf's."""
    found = document(
        results,
        other,
        "--published",
        "training-v0.7",
        "--published",
        "documents",
        "--published",
        "inference-v0.5",
    )
    rows = kinds(found)["training"]["references"]
    named = {row["path"] for row in rows}
    assert (
        "documents/S4/abci-fujitsu/resnet50/time_to_train" in named
        and "training-v0.7/Alibaba/v100-1280/resnet" in named
    )
    assert all(
        row["ratio"] is None and row["source"]
        for kind in found["comparisons"]
        for row in kind["references"]
    )
    assert kinds(found)["training"]["comparable"], "reference points keep nobody from comparing"
    offline = kinds(found)["Offline"]["references"]
    assert {row["round"] for row in offline} == {"documents", "inference-v0.5"} and {
        row["system"] for row in offline
    } >= {"Tesla V100", "Goya_1"}
    assert any(
        "registered and unregistered trademarks of MLCommons" in line for line in found["legend"]
    )
    assert any("have not been through an MLPerf review" in line for line in found["legend"])
    assert (
        invoked(results, other, "--published", "documents", "--require", "comparable").exit_code
        == 0
    )


def test_markdown_has_all_of_it(results: Path, other: Path) -> None:
    """For a summary in CI."""
    text = invoked(results, other, "--published", "training-v0.6", "--format", "markdown").stdout
    assert (
        "\n| workload | result | times as fast |" in text
        and "not tested" in text
        and "trademarks of MLCommons" in text
    )
    assert len(text.splitlines()) > len(
        [row for row in read_published_rows("training-v0.6") if row.workload == "resnet50"]
    )


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_what_differs_from_published_rows_is_said_once(
    results: Path, other: Path, form: str
) -> None:
    """Eleven lines beside each of thirty rows hid the figures; a round fixes its own data, so that
    its rows state none.
    """
    for paths in ((results,), (results, other)):
        text = invoked(*paths, "--published", "training-v0.7", "--format", form).stdout
        plain = text.replace("\\", "")
        assert plain.count("round: podium-v1 and training-v0.7") == 1
        assert "None" not in plain and "and unknown" not in plain
        assert "data.crops" not in plain
    name = {"text": "  ", "markdown": "resnet50 training, "}[form]
    assert f"{name}all published rows: round: podium-v1" in plain
