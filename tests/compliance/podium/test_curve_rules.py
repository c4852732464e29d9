"""A curve's table held against its runs: edited figures, records and settings, runs that are left
out or that were never made.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
from examples import result_of
from kinds.rates import curve, first
from spoiling import put, setting

from compliance.verdict import Severity
from suite.files.layout import DETAIL_LOG, RUN_RECORD, START_RECORD_FILE, TOKEN_RECORD_FILE
from suite.studies.documents import STUDY_FILE

Edit = Callable[[Path], object]


def broken_rules(folder: Path, *edits: Edit) -> set[str]:
    """The rules that a curve breaks after these edits."""
    curve(folder)
    (study,) = (folder / "studies").iterdir()
    for edit in edits:
        edit(study)
    return {each.rule for each in result_of(folder).findings if each.severity is Severity.ERROR}


def in_table(**changes: Any) -> Edit:
    """Change fields of the table."""
    return lambda study: put(**changes)(study / STUDY_FILE)


def in_first_point(**changes: Any) -> Edit:
    """Change a point's row."""
    return lambda study: first("points", **changes)(study / STUDY_FILE)


def in_run(name: str, edit: Edit) -> Edit:
    """Change a file of the first point's run."""
    return lambda study: edit(study / "box/in-flight-2" / name)


def in_array(change: Callable[[Any], Any]) -> Edit:
    """Change a record."""
    return lambda path: numpy.save(path, change(numpy.load(path)))


def faster_tokens(table: Any) -> Any:
    """Count twice as many tokens."""
    table[:, 3] *= 2
    return table


def move_starts(change: Callable[[Any, Any], Any]) -> Edit:
    """Change the starts of the first point, given its tokens, as whoever wants shorter waits."""

    def edit(study: Path) -> None:
        run = study / "box/in-flight-2"
        starts, tokens = numpy.load(run / START_RECORD_FILE), numpy.load(run / TOKEN_RECORD_FILE)
        numpy.save(run / START_RECORD_FILE, change(starts, tokens))

    return edit


def swap_rows(table: Any) -> Any:
    """Exchange two answers."""
    table[[1, -2]] = table[[-2, 1]]
    return table


def answer_other_sample(table: Any) -> Any:
    """Let one answer be of another sample."""
    table[3, 0] = table[4, 0]
    return table


def begin_later(table: Any) -> Any:
    """Move all first tokens half of the way towards the ends: the rest seems twice as fast."""
    table[:, 1] += (table[:, 2] - table[:, 1]) // 2
    return table


def begin_earlier(table: Any) -> Any:
    """Move the first token of an answer in the middle before the end that made room for it."""
    table[8, 1] -= 200_000_000
    return table


def move_token(table: Any) -> Any:
    """Take a token from one answer for another."""
    table[[4, 9], 3] += (1, -1)
    return table


def end_earlier(table: Any) -> Any:
    """Let every answer end after nine tenths of its time."""
    table[:, 2] -= (table[:, 2] - table[:, 1]) // 10
    return table


def end_without_tokens(table: Any) -> Any:
    """Let the last answer have no tokens."""
    table[-1, 3] = 0
    return table


def drop_last_point(study: Path) -> None:
    """Leave the last point out of the table; its run stays."""
    document = json.loads((study / STUDY_FILE).read_text())
    document["points"] = document["points"][:-1]
    (study / STUDY_FILE).write_text(json.dumps(document))


def remove_last_run(study: Path) -> None:
    """Remove the run of the last point."""
    shutil.rmtree(study / "box/in-flight-40")


def test_a_curve_that_was_traced_is_valid(tmp_path: Path) -> None:
    assert broken_rules(tmp_path) == set()


@pytest.mark.parametrize(
    ("edit", "rules"),
    [
        (in_table(note="an MLPerf Endpoints result"), {"curve.points"}),
        (in_table(c_max=64), {"curve.figures"}),
        (in_table(regions=None), {"curve.figures"}),
        (in_table(asked=[2, 40, 80]), {"curve.points", "curve.figures"}),
        (in_table(finished=False), {"curve.points"}),
        (in_table(seconds=600.0), {"curve.points"}),
        (in_table(machine=None), {"curve.points"}),
        (in_table(endpoints=["http://far:8000"]), {"curve.points"}),
        (in_table(stamps__system="big"), {"curve.points"}),
        (in_table(tokenizer_sha256="0" * 64), {"curve.points"}),
        (in_first_point(system_tps=500.0), {"curve.figures"}),
        (in_first_point(ttft_p90_ms=1.0), {"curve.figures"}),
        (in_first_point(tokens=7), {"curve.figures"}),
        (in_first_point(passes=9.0), {"curve.figures"}),
        (in_first_point(loadgen_tps=500.0), {"curve.figures"}),
        (in_first_point(region="margin"), {"curve.figures"}),
        (in_first_point(concurrency=3), {"curve.points"}),
        (in_first_point(folder="../../elsewhere"), {"curve.points"}),
        (in_first_point(folder="box/in-flight-40"), {"curve.points", "curve.figures"}),
        (drop_last_point, {"curve.points"}),
        (in_run(RUN_RECORD, put(verdict="INVALID")), {"curve.points"}),
        (in_run(RUN_RECORD, put(**{"settings__batching.max_batch": 64})), {"curve.points"}),
        (in_run(START_RECORD_FILE, in_array(lambda starts: starts[:-1])), {"curve.loop"}),
        (in_run(START_RECORD_FILE, in_array(lambda starts: starts - 10**9)), {"curve.loop"}),
        (in_run(START_RECORD_FILE, in_array(lambda starts: starts + 10**9)), {"curve.loop"}),
        (move_starts(lambda starts, tokens: starts + (tokens[:, 1] - starts) // 2), {"curve.loop"}),
        (
            move_starts(lambda starts, tokens: numpy.maximum(starts, tokens[:, 1] - 10**6)),
            {"curve.loop"},
        ),
        (in_run(TOKEN_RECORD_FILE, in_array(begin_later)), {"curve.steps"}),
        (in_run(TOKEN_RECORD_FILE, in_array(begin_earlier)), {"curve.steps", "curve.loop"}),
        (in_run(TOKEN_RECORD_FILE, in_array(move_token)), {"curve.steps"}),
        (in_run(TOKEN_RECORD_FILE, in_array(swap_rows)), {"tokens.times", "curve.loop"}),
        (in_run(TOKEN_RECORD_FILE, in_array(answer_other_sample)), {"tokens.count"}),
        (in_run(TOKEN_RECORD_FILE, in_array(end_earlier)), {"tokens.times", "curve.loop"}),
        (in_run(TOKEN_RECORD_FILE, in_array(end_without_tokens)), {"tokens.count"}),
        (in_run(TOKEN_RECORD_FILE, in_array(faster_tokens)), {"curve.figures", "tokens.count"}),
        (in_run(DETAIL_LOG, setting("result_tokens_per_second", 90.0)), {"curve.figures"}),
        (in_run(DETAIL_LOG, setting("effective_scenario", "Server")), {"loadgen.mode"}),
    ],
)
def test_each_edit_is_seen(tmp_path: Path, edit: Edit, rules: set[str]) -> None:
    """Faster users, shorter waits and other systems are what somebody would like to show."""
    found = broken_rules(tmp_path, edit)
    assert rules <= found, found


def test_a_point_without_its_run_is_seen(tmp_path: Path) -> None:
    assert "file.present" in broken_rules(tmp_path, remove_last_run)


def test_a_run_without_the_record_of_starts_is_seen(tmp_path: Path) -> None:
    found = broken_rules(tmp_path, in_run(START_RECORD_FILE, Path.unlink))
    assert {"curve.loop", "curve.figures"} <= found
