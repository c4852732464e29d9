"""`podium cost` of a study: its rows, if the judge has nothing against them."""

import csv
import io
import json
import re
import shutil
from pathlib import Path

import numpy
import pytest
from click.testing import CliRunner, Result

from extras.cost.cli import cost
from suite.errors import JudgedError
from suite.studies.measured import read_measured_study
from suite.studies.sweep import list_sweep_rows

BASE = Path(__file__).parents[2] / "examples" / "base"
RATE, LOW, HIGH = 952.6077637532746, 950.4488049016181, 954.7765531506077
PRICES = (
    'currency = "USD"\ndate = "2026-11-01"\n[[system]]\nmatch = "box*"\nhourly = { value = 36.0,'
    ' low = 18.0, high = 72.0, source = "quote" }\n'
)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """36 dollars an hour for the example's box."""
    path = tmp_path / "prices.toml"
    path.write_text(PRICES)
    return path


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A sweep of two batches, one of which had too little memory."""
    return Path(shutil.copytree(BASE / "study", tmp_path / "results")) / "studies" / "toy"


def invoked(*arguments: object) -> Result:
    return CliRunner().invoke(cost, [*map(str, arguments)], catch_exceptions=False)


def test_tokens_of_a_row_have_a_price(study: Path, prices: Path) -> None:
    """Eight tokens to an answer: a million of them cost an eighth of a million answers."""
    first, _ = list_sweep_rows(read_measured_study(study))
    rows = numpy.full((first.queries * first.batch, 4), 8, "<i8")
    numpy.save(study / first.folder / "tokens.npy", rows)
    found = json.loads(invoked(study, "--prices", prices, "--format", "json").stdout)
    (row,) = found["costs"]
    assert row["per_million_tokens"]["value"] == pytest.approx(10_000 / (8 * RATE))


@pytest.mark.parametrize("file", ["", "study.json"])
def test_each_measured_row_has_its_cost_and_says_that_it_is_no_result(
    file: str, study: Path, prices: Path
) -> None:
    """0.01 an hour's second over the rate; the range is that of the prices and of the rate's
    interval; a row without a figure has none.
    """
    found = json.loads(invoked(study / file, "--prices", prices, "--format", "json").stdout)
    (row,) = found["costs"]
    wanted = {"value": 10_000 / RATE, "low": 5_000 / HIGH, "high": 20_000 / LOW}
    assert row["per_million_samples"] == {
        key: pytest.approx(value) for key, value in wanted.items()
    }
    assert row["per_10000_samples"]["value"] == pytest.approx(100 / RATE)
    said = {
        key: row[key]
        for key in (
            "study",
            "workload",
            "system",
            "engine",
            "precision",
            "batch",
            "unit",
            "value_low",
            "value_high",
        )
    }
    assert said == {
        "study": "toy",
        "workload": "toy",
        "system": "box-torch-fp32",
        "engine": "torch",
        "precision": "fp32",
        "batch": 8,
        "unit": "samples/s",
        "value_low": LOW,
        "value_high": HIGH,
    }
    assert row["round"] == "" and row["compliant"] is False and "have no verdict" in found["legend"]


def test_text_and_csv_mark_the_row(study: Path, prices: Path) -> None:
    """A cost of a study must not pass for one of a result."""
    text = invoked(study, "--prices", prices).stdout
    assert (
        "toy, batch 8, box-torch-fp32, row of a study: 10.5 (5.237-21.04) USD per million samples"
        in text
    )
    assert "K x 10^6 / (3600 x 952.608)" in text and "rows of a study are not results" in text
    (line,) = csv.DictReader(
        io.StringIO(invoked(study, "--prices", prices, "--format", "csv").stdout)
    )
    assert (
        line["study"] == "toy"
        and line["batch"] == "8"
        and line["per_million_samples_high"].startswith("21.04")
    )


def test_a_run_too_short_for_an_interval_has_the_range_of_its_prices_alone(
    study: Path, prices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is put in the place of what was not measured."""
    monkeypatch.setattr(
        "submissions.compliance_check.list_error_sentences", lambda path: []
    )  # the run no longer has the record that its interval follows from
    next(study.glob("*/batch-8/queries.npy")).unlink()
    (row,) = json.loads(invoked(study, "--prices", prices, "--format", "json").stdout)["costs"]
    assert (
        row["per_million_samples"]["low"] == pytest.approx(5_000 / RATE)
        and row["value_low"] is None
    )


def test_a_study_that_was_edited_is_refused(study: Path, prices: Path) -> None:
    """Exit code 1, with what the judge found; no figure is printed."""
    (log,) = study.glob("*/batch-8/mlperf_log_detail.txt")
    mean = "result_mean_query_latency_ns"
    log.write_text(re.sub(rf'("{mean}", "value": )\d+', r"\g<1>4000000", log.read_text()))
    with pytest.raises(
        JudgedError, match=r"does not pass `podium check`, so its rates have no cost: .*study\."
    ) as caught:
        invoked(study, "--prices", prices)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("kind", ["peak", "speed"])
def test_other_studies_have_no_cost(kind: str, prices: Path) -> None:
    """A search's probes and runs of untrained weights are no rates to pay for."""
    (other,) = (BASE / kind / "studies").iterdir()
    with pytest.raises(JudgedError, match=f"a study of {kind} has no cost"):
        invoked(other, "--prices", prices)


def test_a_machine_without_a_price_is_named(study: Path, prices: Path) -> None:
    """As for results."""
    prices.write_text(PRICES.replace("box*", "other"))
    with pytest.raises(
        JudgedError, match=r"no \[\[system\]\] of the prices matches box-torch-fp32"
    ):
        invoked(study, "--prices", prices)
