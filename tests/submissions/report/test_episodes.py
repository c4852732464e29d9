"""The game of an evaluation on the page: drawn from the training log alone, or a sentence that says
why not.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from changed_results import change_result

from compliance.results.indexed_result import IndexedResult
from submissions.report import build
from submissions.report.command import render_document_html
from submissions.report.document import Section, convert_document_to_data, parse_document_data
from submissions.report.sections import episodes
from submissions.result_index import open_results
from submissions.score.score import score_result
from suite.events import EVAL_ACCURACY, EXAMPLE, TOKEN

GAME = {
    "board": 5,
    "opponent": "area",
    "moves": "B5 A5 A4 pass C3",
    "values": [0.0, 0.5, -1.0],
    "won": 1.0,
}


def with_examples(log: Path, value: Any) -> None:
    """Put an example before each evaluation's score, as the loop writes it."""
    lines = []
    for line in log.read_text().splitlines():
        event = json.loads(line.removeprefix(TOKEN))
        if event["key"] == EVAL_ACCURACY:
            lines.append(TOKEN + json.dumps(event | {"key": EXAMPLE, "value": value}))
        lines.append(line)
    log.write_text("\n".join(lines) + "\n")


def drawn(tree: Path, workload: str, value: Any) -> Section | None:
    """Draw the section of the tree's training as if it were a workload's."""
    with open_results(tree) as results:
        result: IndexedResult = next(each for each in results if each.scenario is None)
        if value is not None:
            with_examples(result.training_logs[0], value)
        found = change_result(score_result(result), workload=workload)
        return episodes.build_episode_section(result, found)


def test_a_game_is_drawn_with_its_estimates_and_the_metric_over_generations(tree: Path) -> None:
    """Numbers of the page are those of the log."""
    found = drawn(tree, "minigo", GAME)
    assert found and [chart.title for chart in found.charts] == [
        "Winning estimate over the moves",
        "top1 over generations",
    ]
    assert found.charts[0].lines[0].points == ((1.0, 0.5), (3.0, 0.75), (5.0, 0.0))
    assert [frame.expected for frame in found.galleries[0].shown] == [
        "black B5",
        "white A5",
        "black A4",
        "white pass",
        "black C3",
    ]
    assert found.charts[1].lines[0].points and all(
        epoch == int(epoch) for epoch, _ in found.charts[1].lines[0].points
    )


def test_the_page_shows_every_move_without_a_script(tree: Path) -> None:
    """As pictures in the page, which a mail reader shows too."""
    document, found = build.judge_and_build_report([tree])[0], drawn(tree, "minigo", GAME)
    assert found
    part = replace(document.parts[0], sections=(*document.parts[0].sections, found))
    page = render_document_html(
        parse_document_data(convert_document_to_data(replace(document, parts=(part,))))
    )
    assert page.count("data:image/svg+xml;base64,") == 5 and page.count("<script") == 1
    assert "black A4" in page and 'class="cards frames"' in page


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (
            {**GAME, "moves": "B5 B5 A4 pass C3"},
            "move 2, white B5, is illegal: the point is not empty",
        ),
        ("C3", "must be a table"),
    ],
)
def test_what_is_no_game_is_a_sentence(tree: Path, value: Any, told: str) -> None:
    """The rest of the page continues."""
    found = drawn(tree, "minigo", value)
    assert found and not found.charts and not found.galleries and told in found.notes[0].text


@pytest.mark.parametrize(("workload", "value"), [("minigo", None), ("resnet50", GAME)])
def test_without_a_game_there_is_no_section(tree: Path, workload: str, value: Any) -> None:
    """Logs of an earlier podium have none; what another workload's log says is nobody's to draw."""
    assert drawn(tree, workload, value) is None
