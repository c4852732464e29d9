"""`podium compare` of published rounds: machines, organisations, accuracy and factors."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from corpus import CORPUS

from submissions.commands.compare import compare
from submissions.compare.comparison import ComparedResult
from submissions.compare.table_rows import format_ratio_cell
from submissions.compare.verdicts import SpeedVerdict
from suite.errors import JudgedError
from suite.measurement.intervals import Interval

pytestmark = pytest.mark.corpus


def compare_published(*arguments: object) -> list[dict[str, Any]]:
    """Compare, and return the comparisons; results that are not compliant do not matter here."""
    outcome = CliRunner().invoke(compare, [*map(str, arguments), "--format", "json"])
    assert outcome.exception is None or isinstance(outcome.exception, JudgedError | SystemExit)
    found: list[dict[str, Any]] = json.loads(outcome.stdout)["comparisons"]
    return found


@pytest.mark.parametrize(
    ("folder", "accelerator"),
    [
        ("training_v0.7/Inspur", "A100"),
        ("training_v5.1/Dell", "B200"),
        ("inference_v0.7/closed/Altos", "NVIDIA"),
        ("inference_v5.1/closed/Dell", "B200"),
        ("inference_v6.0/closed/Lenovo", "NVIDIA"),
    ],
)
def test_each_kind_of_round_has_machines(folder: str, accelerator: str) -> None:
    """Those of all inference rounds since v1.0 were unknown."""
    path = CORPUS / folder
    if not path.is_dir():
        pytest.skip(f"no {folder} in the corpus")
    machines = [
        result["machine"]
        for comparison in compare_published(path)
        for result in comparison["results"]
    ]
    assert all(each["accelerators"] is not None and each["nodes"] for each in machines)
    assert any(accelerator in str(each["accelerator"]) for each in machines)


def test_tokens_are_counted_per_accelerator() -> None:
    found = compare_published(CORPUS / "inference_v5.1/closed/Dell", "--per", "accelerator")
    offline = next(
        each for each in found if (each["workload"], each["scenario"]) == ("llama", "Offline")
    )
    (result,) = offline["results"]
    assert result["derived"]["value"] == pytest.approx(result["value"] / 8)
    assert result["derived"]["unit"] == "tokens/s per accelerator"
    assert result["accuracy"]["ROUGE1"] == pytest.approx(38.49, abs=0.01)
    assert result["precision"] == "fp4"


def test_minutes_contain_the_convergence_factor() -> None:
    """`score` showed 2.5398 minutes, as MLCommons does, and `compare` 2.5224."""
    found = compare_published(CORPUS / "training_v5.1/Dell", CORPUS / "training_v5.1/Lenovo")
    first, other = next(each for each in found if each["workload"] == "dlrm_dcnv2")["results"]
    assert (round(first["value"], 4), round(other["value"], 4)) == (2.5398, 2.3204)
    assert other["ratio"] == pytest.approx(1.0918, abs=5e-5)
    assert "convergence factor: 1.00689 and 1.01528" in other["notes"]


@pytest.mark.parametrize(
    ("ratio", "low", "high", "shown"),
    [
        (1.2, 1.1, 1.3, "1.20 (1.10 to 1.30)"),
        (0.9931, 0.9914, 0.9948, "0.993 (0.991 to 0.995)"),
        (1.0021, 1.0011, 1.0031, "1.002 (1.001 to 1.003)"),
        (0.0022514, None, None, "0.00225"),
    ],
)
def test_ratios_have_the_digits_that_show_a_difference(
    ratio: float, low: float | None, high: float | None, shown: str
) -> None:
    """`0.99 (0.99 to 0.99)` was slower, and 290 of 128,794 were `0.00`."""
    interval = Interval(low=low, high=high) if low is not None and high is not None else None
    found = ComparedResult(
        path=str(Path("x")), ratio=ratio, ratio_interval=interval, verdict=SpeedVerdict.SLOWER
    )
    assert format_ratio_cell(found) == shown
