"""Reports of published rounds: what the judge has read is on the page."""

from functools import cache
from pathlib import Path

import pytest
from corpus import CORPUS

from submissions.report import build
from submissions.report.document import Document, Part, Section, Table
from submissions.report.exports import iterate_section_charts, render_document_markdown

pytestmark = pytest.mark.corpus


@cache
def read_report(folder: str) -> tuple[Document, Part]:
    path: Path = CORPUS / folder
    if not path.is_dir():
        pytest.skip(f"no {folder} in the corpus")
    document, *_ = build.judge_and_build_report([path])
    return document, document.parts[0]


def list_sections(sections: tuple[Section, ...]) -> list[Section]:
    return [found for each in sections for found in (each, *list_sections(each.parts))]


def find_tables(part: Part, title: str) -> list[Table]:
    return [
        table
        for section in list_sections(part.sections)
        for table in section.tables
        if table.title == title
    ]


@pytest.mark.parametrize(
    "folder", ["training_v5.1/Dell", "training_v0.7/Fujitsu", "training_v1.0", "training_v6.0/AMD"]
)
def test_trainings_have_evaluations_seeds_and_scores(folder: str) -> None:
    """Logs with evaluations and seeds were said to have none."""
    _, part = read_report(folder)
    for section in list_sections(part.sections):
        if section.id.startswith("training-"):
            assert section.charts and not section.notes
            assert all(line.points for chart in section.charts for line in chart.lines)
    rows = [row for table in find_tables(part, "Runs") for row in table.rows]
    assert rows and all(row[3] != "-" and row[5] != "-" for row in rows)
    assert any(row[4] == "yes" for row in rows)


@pytest.mark.parametrize(
    ("folder", "benchmark", "progress"),
    [
        ("training_v4.1/Dell", "stable_diffusion", "samples"),
        ("training_v2.0/SUPERMICRO", "minigo", "epochs"),
    ],
)
def test_checkpoints_evaluated_later_are_drawn_over_their_progress(
    folder: str, benchmark: str, progress: str
) -> None:
    """Their evaluations have no time within the run."""
    _, part = read_report(folder)
    charts = [
        chart
        for section in list_sections(part.sections)
        for chart in section.charts
        if benchmark in chart.id
    ]
    assert charts and {chart.x.name for chart in charts} == {progress}


def test_a_factor_gives_the_headline_that_mlcommons_publishes() -> None:
    _, part = read_report("training_v5.1/Dell")
    tile = next(tile for tile in part.tiles if tile.name.startswith("dlrm_dcnv2"))
    headline = next(each for each in part.headlines if each["workload"] == "dlrm_dcnv2")
    minutes = headline["convergence"]["scaled"]
    assert f"MLCommons' headline: {minutes:.4f} minutes" in tile.note
    tables = find_tables(part, "Reference convergence")
    shown = [dict(table.rows) for table in tables if f"{minutes:.4f}" in str(table.rows)]
    assert shown[0]["factor"].startswith("1.0068")
    retinanet = next(tile for tile in part.tiles if tile.name.startswith("retinanet"))
    assert "headline" not in retinanet.note, "its factor is 1"


def test_tiles_and_headings_name_organisation_system_and_machine() -> None:
    document, part = read_report("inference_v5.1/closed/Dell")
    assert part.title.endswith("Dell")
    origin = "Dell, R7715-H100-NVL-94GBx3_TRT, 3 x NVIDIA H100-NVL-94GB, 1 node"
    assert [tile.origin for tile in part.tiles if tile.name == "whisper: Offline"] == [origin]
    titles = [section.title for section in list_sections(part.sections)]
    assert f"Offline: {origin}" in titles
    assert "None" not in render_document_markdown(document)
    assert f"whisper: Offline, {origin}".replace("_", "\\_") in render_document_markdown(document)


def test_tokens_have_their_latencies() -> None:
    _, part = read_report("inference_v5.1/closed/Dell")
    (table,) = [
        table
        for table in find_tables(part, "Latencies of tokens, as measured by LoadGen")
        if table.rows[0][4] == "880.5"
    ]
    assert table.rows == (
        ("run_1", "time to first token (TTFT)", "259.5", "481.2", "880.5"),
        ("run_1", "time per output token (TPOT)", "19.76", "22.5", "24.88"),
    )


@pytest.mark.parametrize(
    "folder", ["inference_v0.5", "inference_v0.7/closed", "inference_v6.0/closed"]
)
def test_served_results_have_loadgens_verdict_and_accuracy(folder: str) -> None:
    """Each round has its own files; the page said that LoadGen gave no verdict."""
    _, part = read_report(folder)
    tables = find_tables(part, "Performance runs, as measured by LoadGen")
    assert tables and all(row[2] == "VALID" for table in tables for row in table.rows)
    assert all(
        dict(zip(table.columns, row, strict=True))["LoadGen's p90 ms"] != "-"
        for table in tables
        if len(table.columns) > 3
        for row in table.rows
    )
    closed = [
        tile
        for tile, headline in zip(part.tiles, part.headlines, strict=True)
        if headline["division"] == "closed"
    ]
    assert closed
    assert all(" of " in tile.note for tile in closed), "accuracy against its target"


def test_systems_of_one_name_have_ids_of_their_own() -> None:
    _, part = read_report("inference_v0.5")
    ids = [section.id for section in list_sections(part.sections)]
    ids += [chart.id for section in part.sections for chart in iterate_section_charts(section)]
    assert len(ids) == len(set(ids))
