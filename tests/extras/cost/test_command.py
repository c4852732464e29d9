"""`podium cost`: a line per rate and run set, in three formats."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest
from changed_results import make_result
from click.testing import CliRunner, Result

from compliance.verdict import Finding
from extras.cost.cli import cost
from extras.cost.command import find_repeated_results, format_cost_lines
from extras.cost.prices import read_prices
from submissions.labels import PathLabels
from suite.errors import JudgedError, RequestError
from suite.files.layout import DETAIL_LOG, TELEMETRY_FILE
from suite.loadgen.power_window import parse_power_time_ns
from suite.result import Cost
from suite.units import NS_PER_S

pytestmark = pytest.mark.usefixtures("objections")

PRICES = (
    'currency = "USD"\ndate = "2026-11-01"\n[[system]]\nmatch = "host-*"\nhourly = { value = 36.0,'
    ' low = 18.0, high = 72.0, source = "quote" }\n'
)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """36 dollars an hour for anything."""
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return path


def invoked(*arguments: object) -> Result:
    return CliRunner().invoke(cost, [*map(str, arguments)], catch_exceptions=False)


def test_rates_and_training_cost_and_latencies_do_not(results: Path, prices: Path) -> None:
    """202.5 samples/s: a million takes 1.3717 h; two minutes of training are 1.20; the streams'
    latencies are no rates.
    """
    document = json.loads(invoked(results, "--prices", prices, "--format", "json").stdout)
    rows = {row["scenario"] or "training": row for row in document["costs"]}
    assert set(rows) == {"training", "Server", "Offline"}
    assert rows["Offline"]["per_million_samples"] == {
        key: pytest.approx(49.3827 * factor)
        for key, factor in (("value", 1), ("low", 0.5), ("high", 2))
    }
    assert rows["Offline"]["per_10000_samples"]["value"] == pytest.approx(0.493827)
    assert rows["training"]["per_training_run"]["value"] == pytest.approx(1.2)
    assert rows["training"]["per_million_samples"] is None
    assert rows["Offline"]["energy"] == "energy is included in the rent"
    assert document["prices"]["date"] == "2026-11-01" and len(document["prices"]["sha256"]) == 64


def test_text_prints_the_formula_and_the_prices(results: Path, prices: Path) -> None:
    """Each figure with what it is made of."""
    text = invoked(results, "--prices", prices).stdout
    assert "49.38 (24.69-98.77) USD per million samples; energy is included in the rent" in text
    assert "K = 36 per useful hour; K x 10^6 / (3600 x 202.5)" in text
    assert "not official metrics; prices in USD of 2026-11-01" in text


@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_a_result_that_can_have_no_cost_is_named(results: Path, prices: Path, form: str) -> None:
    """A row that disappears looks like a result that was not found."""
    ended = invoked(results, "--prices", prices, "--format", form)
    reason = "its value is a latency, which says nothing of how many samples an hour takes"
    if form == "json":
        found = json.loads(ended.stdout)["without_cost"]
        assert {(each["scenario"], each["reason"]) for each in found} == {
            ("SingleStream", reason),
            ("MultiStream", reason),
        }
        return
    shown = ended.stdout if form == "text" else ended.stderr
    for scenario in ("SingleStream", "MultiStream"):
        assert f"resnet50 {scenario}, host-torch-fp32: no cost, since {reason}\n" in shown


def test_a_bought_system_without_power_says_so(results: Path, prices: Path) -> None:
    """An estimate is not put in the place of a measurement."""
    own = 'price = { value = 8766, source = "s" }\nlifetime_years = { value = 1, source = "s" }\n'
    prices.write_text(
        PRICES.replace(
            "[[system]]", '[energy]\nper_kwh = { value = 0.1, source = "s" }\n[[system]]'
        ).partition("hourly")[0]
        + own
    )
    assert (
        "without energy: the result has no measured power"
        in invoked(results, "--prices", prices).stdout
    )


def test_csv_has_one_line_per_result(results: Path, prices: Path) -> None:
    """Money in three columns."""
    rows = list(
        csv.DictReader(io.StringIO(invoked(results, "--prices", prices, "--format", "csv").stdout))
    )
    assert {row["scenario"]: row["per_million_samples_low"][:5] for row in rows}[
        "Offline"
    ] == "24.69"


def test_what_has_no_price_or_does_not_count_is_named(
    results: Path, prices: Path, objections: list[Finding], objection: Finding
) -> None:
    """Exit code 1, after what could be told; prices are read before results."""
    prices.write_text(PRICES.replace("host-*", "other"))
    with pytest.raises(
        JudgedError, match=r"no \[\[system\]\] of the prices matches host-torch-fp32"
    ):
        invoked(results, "--prices", prices)
    prices.write_text(PRICES)
    objections.append(objection)
    with pytest.raises(JudgedError, match="is not compliant"):
        invoked(results, "--prices", prices)
    prices.write_text(PRICES.replace("36.0", "0"))
    with pytest.raises(RequestError, match="required: a number above 0"):
        invoked("no/such/results", "--prices", prices)


def write_power(run: Path, grade: str, scope: str) -> None:
    """100 W beside a run of five seconds."""
    times = {"power_begin": "11-29-2026 10:00:01.000", "power_end": "11-29-2026 10:00:06.000"}
    like = (run / DETAIL_LOG).read_text().splitlines(keepends=True)[-1].partition(" ")[2]
    with (run / DETAIL_LOG).open("a") as log:
        for key, value in times.items():
            log.write(f":::MLLOG {json.dumps(json.loads(like) | {'key': key, 'value': value})}\n")
    began_ns = parse_power_time_ns("11-29-2026 10:00:00.000")
    channel = {"name": "a", "source": "a", "grade": grade, "scope": [scope], "kind": "power"}
    lines = [
        {"telemetry": 1, "channels": [channel], "clocks_ns": [0, began_ns]},
        *({"t": second * NS_PER_S, "i": 0, "p": 100_000_000} for second in range(8)),
        {"end": {"clocks_ns": [8 * NS_PER_S, began_ns + 8 * NS_PER_S]}},
    ]
    (run / TELEMETRY_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_measured_power_is_in_the_cost_and_a_part_s_only_with_the_rest(
    results: Path, prices: Path
) -> None:
    """100 W at 0.1 for a kWh are 0.01 an hour; a chip's counter is not the system's power."""
    own = (
        '[energy]\nper_kwh = { value = 0.1, source = "s" }\n[[system]]\nmatch = "*"\nyearly = {'
        ' value = 8766, source = "s" }\n'
    )
    for (grade, scope), rest, words, hour in (
        (("meter", "system"), "", "with energy: 100.0 W (meter, system)", 1.01),
        (
            ("meter", "system"),
            'rest_w = { value = 50, source = "s" }\n',
            "with energy: 100.0 W (meter, system)",
            1.01,
        ),
        (
            ("counter", "package"),
            "",
            "the prices have no rest_w",
            1.0,
        ),
        (
            ("counter", "package"),
            'rest_w = { value = 50, source = "s" }\n',
            "(counter, package) + 50 W",
            1.015,
        ),
    ):
        for run in results.rglob("Offline/performance/run_1"):
            write_power(run, grade, scope)
        prices.write_text('currency = "USD"\ndate = "2026-11-01"\n' + own + rest)
        document = json.loads(invoked(results, "--prices", prices, "--format", "json").stdout)
        (row,) = [row for row in document["costs"] if row["scenario"] == "Offline"]
        assert words in row["energy"] and row["per_useful_hour"] == pytest.approx(hour)


def test_the_example_of_prices_is_a_price_file(tmp_path: Path) -> None:
    """It is printed before any other option is asked for."""
    shown = CliRunner().invoke(cost, ["--example"])
    assert shown.exit_code == 0
    (tmp_path / "prices.toml").write_text(shown.output)
    prices = read_prices(tmp_path / "prices.toml")
    assert prices.find_price("any system", "") is prices.systems[0], "one price needs no match"


def test_labels_stand_on_cost_lines(results: Path, prices: Path, tmp_path: Path) -> None:
    """Of two bundles of one machine."""
    copy = Path(shutil.copytree(results, tmp_path / "copy"))
    words = (results, copy, "--prices", prices, "--label", "B=two threads")
    lines = invoked(*words).stdout.splitlines()
    assert any(
        line.startswith("two threads: resnet50 Offline, host-torch-fp32: ") for line in lines
    )
    assert any(f"host-torch-fp32 ({results}): " in line for line in lines)
    costs = json.loads(invoked(*words, "--format", "json").stdout)["costs"]
    assert {row["path"]: row["label"] for row in costs} == {
        str(results): "A",
        str(copy): "two threads",
    }
    table = csv.DictReader(io.StringIO(invoked(*words, "--format", "csv").stdout))
    assert {row["label"] for row in table} == {"A", "two threads"}
    with pytest.raises(RequestError, match="no path has this letter"):
        invoked(results, "--prices", prices, "--label", "B=x")


def test_results_of_one_system_are_named_by_their_paths() -> None:
    """Two results of one machine had two costs and one name."""
    cost = Cost(**{**dict.fromkeys(Cost.__slots__), **COST})
    facts = {"workload": "resnet50", "scenario": "Offline", "system": "box"}
    rows = [make_result(source=path, cost=cost, **facts) for path in ("a", "b")]
    repeated = find_repeated_results(rows)
    lines = [format_cost_lines(row, repeated, PathLabels())[0] for row in rows]
    assert [line.partition(":")[0] for line in lines] == [
        "resnet50 Offline, box (a)",
        "resnet50 Offline, box (b)",
    ]
    assert format_cost_lines(rows[0], find_repeated_results(rows[:1]), PathLabels())[0].startswith(
        "resnet50 Offline, box:"
    )


COST = {
    "currency": "USD",
    "energy": "without energy",
    "formula": "K",
}
