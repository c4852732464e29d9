"""Results whose answers are generated: tokens/s is the headline of Offline and Server, with samples/s
and tokens' latencies beside it, in scores, comparisons and costs.
"""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from extras.cost.cli import cost
from submissions.commands.compare import compare
from submissions.commands.score import score
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY

pytestmark = pytest.mark.usefixtures("objections")

LATENCIES: Mapping[str, float] = {
    form.format(percentile): value * (1 + place)
    for form, value in ((FIRST_TOKEN_KEY, 4_000_000), (OUTPUT_TOKEN_KEY, 500_000))
    for place, percentile in enumerate((50.0, 90.0, 99.0))
}
LOGGED: Mapping[str, Mapping[str, float]] = {
    "Offline": {"result_tokens_per_second": 1620.0},
    "Server": {"result_completed_tokens_per_second": 810.0, **LATENCIES},
    "SingleStream": {
        "result_completed_tokens_per_second": 80.0,
        "result_90.00_percentile_latency_ns": 9_000_000,
        **LATENCIES,
    },
}
PRICES = (
    'currency = "USD"\ndate = "2026-11-01"\n[[system]]\nmatch = "*"\n'
    'hourly = { value = 36.0, source = "quote" }\n'
)


@pytest.fixture
def generated(results: Path) -> Path:
    """A tree whose LoadGen measured tokens."""
    for scenario, facts in LOGGED.items():
        (path,) = results.glob(f"open/*/results/*/*/{scenario}/performance/run_1/*_detail.txt")
        form = next(line for line in path.read_text().splitlines() if '"value"' in line)
        record: dict[str, Any] = json.loads(form.removeprefix(":::MLLOG "))
        with path.open("a") as stream:
            for key, value in {"requested_use_token_latencies": True, **facts}.items():
                stream.write(f":::MLLOG {json.dumps({**record, 'key': key, 'value': value})}\n")
    return results


def invoke(command: Any, *arguments: object) -> str:
    return CliRunner().invoke(command, [*map(str, arguments)], catch_exceptions=False).stdout


def test_tokens_are_the_headline_of_offline_and_server(generated: Path) -> None:
    rows = {
        row["scenario"]: row
        for row in json.loads(invoke(score, generated, "--format", "json"))["scores"]
    }
    assert {
        name: (rows[name]["metric"], rows[name]["value"], rows[name]["unit"]) for name in LOGGED
    } == {
        "Offline": ("tokens_per_second", 1620.0, "tokens/s"),
        "Server": ("completed_tokens_per_second", 810.0, "tokens/s"),
        "SingleStream": ("latency_p90", 9_000_000, "ns"),
    }
    assert rows["Offline"]["tokens"] == {
        "tokens_per_s": 1620.0,
        "answers_per_s": 202.5,
        "ttft_ns": {},
        "tpot_ns": {},
    }
    assert rows["Server"]["tokens"]["ttft_ns"] == {"p50": 4e6, "p90": 8e6, "p99": 12e6}
    assert rows["SingleStream"]["tokens"]["tpot_ns"] == {"p50": 5e5, "p90": 1e6, "p99": 1.5e6}
    assert rows["MultiStream"]["tokens"] is None


def test_what_stands_beside_tokens_is_shown(generated: Path) -> None:
    """For people below the result, for spreadsheets in columns of their own."""
    text = invoke(score, generated)
    for line in ("tokens/s       1,620 ", "samples/s      202.50", "p99 TTFT       12.00 ms"):
        assert line in text
    rows = {
        row["scenario"]: row
        for row in csv.DictReader(io.StringIO(invoke(score, generated, "--format", "csv")))
    }
    server = {name: rows["Server"][name] for name in ("ttft_p90_ms", "tpot_p50_ms")}
    assert server == {"ttft_p90_ms": "8.0", "tpot_p50_ms": "0.5"}
    assert (rows["Server"]["tokens_per_s"], rows["Server"]["whole_answers_per_s"]) == (
        "810.0",
        "101.25",
    )
    assert rows["SingleStream"]["tokens_per_s"] == "80.0"
    assert rows["MultiStream"]["tokens_per_s"] == rows["MultiStream"]["ttft_p90_ms"] == ""


def test_a_comparison_names_latencies_of_tokens(generated: Path) -> None:
    found = json.loads(invoke(compare, generated, generated, "--format", "json"))
    server = next(each for each in found["comparisons"] if each["scenario"] == "Server")
    assert server["unit"] == "tokens/s"
    assert server["results"][0]["tokens"]["ttft_ns"]["p99"] == 12e6
    assert "p90 TPOT 1.0000 ms" in " ".join(invoke(compare, generated, generated).split())


def test_a_million_tokens_have_a_price(generated: Path, tmp_path: Path) -> None:
    """36 dollars an hour are a cent a second: 1,620 tokens or 202.5 samples."""
    prices = tmp_path / "prices.toml"
    prices.write_text(PRICES)
    found = json.loads(invoke(cost, generated, "--prices", prices, "--format", "json"))
    offline = next(each for each in found["costs"] if each["scenario"] == "Offline")
    assert offline["per_million_tokens"]["value"] == pytest.approx(10_000 / 1620)
    assert offline["per_million_samples"]["value"] == pytest.approx(10_000 / 202.5)
    text = invoke(cost, generated, "--prices", prices)
    assert "6.173 USD per million tokens, 49.38 USD per million samples" in text
