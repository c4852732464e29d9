"""Published inference entries since v1.0, where they lie beside the checkout: valid, of their round, and with MLCommons' own figures."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from corpus import CORPUS, needs_corpus

from compliance.documents.inference.served import read_run, scenario_folder
from compliance.judge import Judge
from compliance.verdict import Verdict
from submissions.score.published import served_value
from suite import registry
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

pytestmark = needs_corpus
ROUNDS = ("v1.0", "v3.0", "v5.1", "v6.0")
NS_PER_MS = 1e6
MISPRINTED = "whisper"
"""Its tokens per second are called samples per second in the tables."""


def entries(version: str) -> Iterator[Path]:
    yield from sorted(path for path in (CORPUS / f"inference_{version}").glob("*/*/results/*/*/*") if path.is_dir())


def has_logs(entry: Path) -> bool:
    """The corpus leaves out large logs, those of two entries of rgat among them."""
    return (entry / "performance" / "run_1" / "mlperf_log_detail.txt").exists()


@pytest.mark.parametrize("version", ROUNDS)
def test_every_entry_is_valid_and_of_its_round(version: str) -> None:
    judge = Judge()
    for entry in filter(has_logs, entries(version)):
        result = judge.result(str(entry))
        assert (result.round, result.verdict) == (f"inference-{version}", Verdict.VALID), entry


@pytest.mark.parametrize("version", ["v5.1", "v6.0"])
def test_figures_are_those_of_the_published_tables(version: str) -> None:
    """To six digits, with the unit."""
    rows: list[Mapping[str, Any]] = json.loads((CORPUS / "expected" / f"inference_{version}_published.json").read_text())
    compared = 0
    for row in rows:
        entry = CORPUS / f"inference_{version}" / row["Location"].removeprefix("./").split("/performance")[0]
        if not has_logs(entry):
            continue
        named = scenario_folder(entry.name)
        scenario = next((each for each in Scenario if each.folder == named), None)
        found = served_value(read_run(entry / "performance" / "run_1", Mode.PERFORMANCE, registry.served_round(f"inference-{version}")), scenario)
        assert found is not None, entry
        _, unit, value = found
        assert math.isclose(value / (NS_PER_MS if unit == "ns" else 1), float(row["Performance_Result"]), rel_tol=1e-5), entry
        wanted = {"Tokens/s": "tokens/s", "Samples/s": "samples/s", "Queries/s": "queries/s", "Latency (ms)": "ns"}[row["Performance_Units"]]
        assert unit == wanted or MISPRINTED in row["UsedModel"], entry
        compared += 1
    assert compared > 10
