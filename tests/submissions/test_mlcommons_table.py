"""`podium score --format mlcommons`: the columns are those of MLCommons' own tools, and so are the
figures.
"""

import csv
import io
import json
from pathlib import Path

import pytest
from changed_results import change_result
from click.testing import CliRunner
from corpus import PUBLISHED

from submissions.commands.score import score
from submissions.score.mlcommons_table import (
    SERVED_TABLE,
    format_mlcommons_table,
)
from submissions.score.score import score_paths
from suite.errors import JudgedError, RequestError

TREE = Path(__file__).resolve().parents[1] / "examples" / "base" / "tree"
(SET,) = {path.parent for path in TREE.rglob("result_0.txt")}
(ENTRY,) = TREE.rglob("results/*/*/SingleStream")
SAME_NAMES = {
    "Organization": "Submitter",
    "Availability": "Availability",
    "Division": "Category",
    "SystemType": "Suite",
    "SystemName": "System",
    "Platform": "Platform",
    "Scenario": "Scenario",
    "host_processor_model_name": "Processor",
    "framework": "Software",
    "operating_system": "operating_system",
    "weight_data_types": "weight_data_types",
    "version": "version",
}
"""Column of the checker's summary -> its name in the published summary_results.json."""


def run(*paths: Path) -> list[dict[str, str]]:
    ended = CliRunner().invoke(score, [*map(str, paths), "--format", "mlcommons"])
    if isinstance(ended.exception, RequestError):
        raise ended.exception
    return list(csv.DictReader(io.StringIO(ended.stdout)))


def test_served_results_have_the_checkers_columns() -> None:
    (row,) = run(ENTRY)
    assert tuple(row) == tuple(each.name for each in SERVED_TABLE.columns)
    assert (row["Units"], row["Scenario"]) == ("Latency (ms)", "SingleStream")
    assert (row["compliance"], row["errors"], row["inferred"]) == ("1", "0", "0")
    assert row["Location"] == ENTRY.relative_to(TREE).as_posix()


def test_accuracy_has_the_digits_of_its_log() -> None:
    """Six of them would turn 8,151,740 tokens into 8.15174e+06."""
    (described,) = score_paths([ENTRY], [])
    accuracy = {"ROUGE1": 38.486, "GEN_LEN": 8151740.0, "ACCURACY": 97.85300303586894}
    scored = change_result(described, accuracy=accuracy)
    (row,) = csv.DictReader(io.StringIO(format_mlcommons_table([scored])))
    assert row["Accuracy"] == "ROUGE1: 38.486  GEN_LEN: 8151740  ACCURACY: 97.85300303586894"


def test_a_training_set_is_a_column_of_its_systems_row(tmp_path: Path) -> None:
    for log in SET.glob("result_*.txt"):
        (tmp_path / log.name).write_bytes(log.read_bytes())
    (row,) = run(tmp_path)
    assert float(row["resnet50"]) > 0
    assert list(row)[:3] == ["division", "availability", "submitter"]
    assert list(row)[-2:] == ["details_url", "code_url"]


def test_both_halves_at_once_are_refused() -> None:
    """Two tables in one file are none."""
    with pytest.raises(RequestError, match="different columns") as refused:
        run(TREE)
    assert refused.value.exit_code == 2


def test_what_cannot_be_scored_prints_no_table(tmp_path: Path) -> None:
    ended = CliRunner().invoke(score, [str(tmp_path / "absent"), "--format", "mlcommons"])
    assert isinstance(ended.exception, JudgedError) and ended.stdout == ""


@pytest.mark.corpus
def test_training_columns_are_those_of_the_official_summarizer() -> None:
    """In its order, so that tables can be laid one upon the other."""
    summarizer = pytest.importorskip(
        "mlperf_logging.result_summarizer.result_summarizer",
        reason="mlperf_logging's summarizer needs pandas",
    )
    for version in ("1.0", "5.1"):
        rows = run(PUBLISHED / f"training_v{version}")
        schema = summarizer._get_column_schema("training", f"{version}.0")
        assert rows and list(rows[0]) == list(schema), version


@pytest.mark.corpus
def test_minutes_are_the_headline_with_the_factor() -> None:
    """MLCommons' table of v5.1 has AMD at 21.05 minutes and Dell at 2.54."""
    rows = run(PUBLISHED / "training_v5.1")
    found = {
        (row["submitter"], name): round(float(row[name]), 2)
        for row in rows
        for name in ("llama2_70b_lora", "dlrm_dcnv2")
        if row[name]
    }
    assert found["AMD", "llama2_70b_lora"] == 21.05
    assert found["Dell", "dlrm_dcnv2"] == 2.54
    assert len({(row["submitter"], row["system"]) for row in rows}) == len(rows)


@pytest.mark.slow
@pytest.mark.corpus
@pytest.mark.parametrize("version", ["v5.1", "v6.0"])
def test_rows_say_what_mlcommons_summary_says(version: str) -> None:
    """Of every result that is in a tree at hand and in the published summary."""
    table = json.loads((PUBLISHED / "expected" / f"inference_{version}_published.json").read_text())
    published = {
        row["Location"].removeprefix("./").partition("/performance")[0]: row for row in table
    }
    organisations = sorted({Path(location).parts[1] for location in published})
    rows = [
        row
        for org in organisations
        if (folder := PUBLISHED / f"inference_{version}" / "closed" / org).is_dir()
        for row in run(folder)
    ]
    beside = [(row, published[row["Location"]]) for row in rows if row["Location"] in published]
    assert len(beside) >= 10
    for row, told in beside:
        assert float(row["Result"]) == pytest.approx(told["Performance_Result"], rel=2e-5)
        for column, name in SAME_NAMES.items():
            stated = "" if told[name].startswith("{") else told[name]  # types of several parts
            assert row[column].casefold() == stated.casefold(), (row["Location"], column)
        # v6.0's checker calls results inferred whose folder's name has another case
        assert row["inferred"] == "0" or told["inferred"], row["Location"]
        if Path(row["Location"]).name == row["Scenario"]:
            assert int(row["inferred"]) == told["inferred"], row["Location"]
        # the published tables call tokens samples or queries in some rows
        assert row["Units"] in (told["Performance_Units"], "Tokens/s"), row["Location"]
