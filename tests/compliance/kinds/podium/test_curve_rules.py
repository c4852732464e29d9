"""A curve's table held against its runs: edited figures, records and settings, runs that are left
out or that were never made.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy
import pytest
from examples import result_of
from kinds.rates import curve
from spoiling import put, setting
from system_records import put_system

from compliance.kinds.podium.rules.curve import FEW_STALLS, LoopWaits, measure_loop_waits
from compliance.verdict import Severity
from suite.files.layout import (
    DETAIL_LOG,
    ROOM_RECORD_FILE,
    RUN_RECORD,
    START_RECORD_FILE,
    SYSTEM_RECORD,
    TOKEN_RECORD_FILE,
)
from suite.records import NetworkRecord
from suite.studies.documents import POINT_FILE, STUDY_FILE

Edit = Callable[[Path], object]
SERVERS = NetworkRecord(
    endpoints=("http://far:8000",),
    servers=("podium",),
    nodes=("far",),
    machines=("1",),
    loadgen_machine="2",
    loopback=False,
    form="prompts",
    model="",
    round_trip_p50_ns=(1,),
    round_trip_p99_ns=(1,),
    bytes_out=1,
    bytes_in=1,
)


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


def in_request(**changes: Any) -> Edit:
    """Change what the command asked for."""

    def edit(study: Path) -> None:
        document = json.loads((study / STUDY_FILE).read_text())
        document["requests"][0]["request"] |= changes
        (study / STUDY_FILE).write_text(json.dumps(document))

    return edit


def in_point(**changes: Any) -> Edit:
    """Change the record of the first point."""
    return in_run(POINT_FILE, put(**changes))


def in_run(name: str, edit: Edit) -> Edit:
    """Change a file of the first point's run."""
    return lambda study: edit(study / "box-torch-fp32/in-flight-2" / name)


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
        run = study / "box-torch-fp32/in-flight-2"
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


def remove_last_run(study: Path) -> None:
    """Remove the run of the last point."""
    shutil.rmtree(study / "box-torch-fp32/in-flight-40")


def test_a_curve_that_was_traced_is_valid(tmp_path: Path) -> None:
    assert broken_rules(tmp_path) == set()


@pytest.mark.parametrize(
    ("edit", "rules"),
    [
        (in_table(kind="peak"), {"study.points"}),
        (in_table(kind="grid"), {"study.points"}),
        (in_table(requests=[]), {"study.points"}),
        (in_request(concurrencies=[2]), {"study.plan"}),
        (in_request(seconds=600.0), {"study.points"}),
        (in_request(is_remote=True), {"study.points"}),
        (in_run(SYSTEM_RECORD, put_system(name="big")), {"study.points"}),
        (in_run(SYSTEM_RECORD, put_system(threads=7)), {"study.points"}),
        (in_table(runs=["box-torch-fp32/in-flight-2"]), {"study.points"}),
        (in_table(runs=["../../elsewhere"]), {"study.points"}),
        (in_table(runs=["box-torch-fp32/in-flight-2"] * 2), {"study.points"}),
        (in_point(point__concurrency=3), {"study.points"}),
        (in_point(point={"batch": 3}), {"study.points"}),
        (in_point(number=9), {"study.points"}),
        (in_point(repeat=2), {"study.points"}),
        (in_run(POINT_FILE, Path.unlink), {"file.present"}),
        (in_run(DETAIL_LOG, setting("result_validity", "INVALID")), {"study.points"}),
        (
            in_run(SYSTEM_RECORD, put_system(**{"settings__batching.max_batch": 64})),
            {"study.points"},
        ),
        (
            in_run(START_RECORD_FILE, in_array(lambda starts: starts[:-1])),
            {"curve.loop", "study.answer"},
        ),
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
        (in_run(TOKEN_RECORD_FILE, in_array(faster_tokens)), {"curve.steps", "tokens.count"}),
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
    assert {"curve.loop", "study.answer"} <= found


def list_loop_findings(folder: Path) -> list[tuple[Severity, str]]:
    """What curve.loop says of a curve."""
    return [
        (each.severity, each.found)
        for each in result_of(folder).findings
        if each.rule == "curve.loop"
    ]


def delay_prompts(share: float, delay_ns: int) -> Callable[[Any, Any], Any]:
    """Let a share of the prompts begin late, as a thread that is held up there begins them."""

    def change(starts: Any, tokens: Any) -> Any:
        room_ns = tokens[:, 1] - starts
        held_up = numpy.arange(len(starts)) % 100 < 100 * share
        return starts + held_up * numpy.minimum(delay_ns, room_ns - 1)

    return change


@pytest.mark.parametrize(
    ("share", "delay_ns", "found"),
    [
        (0.01, 2_000_000_000, set()),
        (0.1, 2_000_000_000, {Severity.ERROR}),
        (0.9, 600_000, {Severity.ERROR}),
        (0.9, 2_000_000_000, {Severity.ERROR}),
    ],
)
def test_starts_moved_towards_their_first_tokens_are_found(
    tmp_path: Path, share: float, delay_ns: int, found: set[Severity]
) -> None:
    """A slice of others', a swapped page or a stopped process delays a prompt now and then, and the
    point has 20 that follow another. Many late ones are starts that were moved towards their first
    tokens.
    """
    curve(tmp_path)
    (study,) = (tmp_path / "studies").iterdir()
    move_starts(delay_prompts(share, delay_ns))(study)
    assert {severity for severity, _ in list_loop_findings(tmp_path)} == found


def serve_elsewhere(study: Path, tail_ns: int, opening_ns: int) -> None:
    """Make the curve one of servers whose responses end behind their last token, and to which a
    connection is opened for each request.
    """
    for record in study.glob(f"*/*/{RUN_RECORD}"):
        put(network=asdict(SERVERS))(record)
    run = study / "box-torch-fp32/in-flight-2"
    starts, tokens = numpy.load(run / START_RECORD_FILE), numpy.load(run / TOKEN_RECORD_FILE)
    ends = numpy.sort(tokens[:, 2])
    order = numpy.argsort(starts, kind="stable")
    rooms = starts.copy()
    behind = order[2:]
    moved = numpy.minimum(ends[: len(behind)] + tail_ns + opening_ns, tokens[behind, 1] - 1)
    starts[behind] = numpy.maximum(starts[behind], moved)
    rooms[behind] = numpy.maximum(ends[: len(behind)], starts[behind] - opening_ns)
    numpy.save(run / START_RECORD_FILE, starts)
    numpy.save(run / ROOM_RECORD_FILE, rooms)


@pytest.mark.parametrize(
    ("tail_ns", "opening_ns", "said"),
    [(0, 0, ""), (4_000_000, 0, "responses end"), (0, 3_000_000, "connections take")],
)
def test_a_server_that_ends_its_responses_late_is_named(
    tmp_path: Path, tail_ns: int, opening_ns: int, said: str
) -> None:
    """The next prompt waits for the response's end, or for a connection: nothing was edited."""
    curve(tmp_path)
    (study,) = (tmp_path / "studies").iterdir()
    serve_elsewhere(study, tail_ns, opening_ns)
    found = list_loop_findings(tmp_path)
    assert {severity for severity, _ in found} == ({Severity.WARNING} if said else set())
    assert all(said in each for _, each in found)


def test_waits_for_servers_without_the_record_of_places_are_found(tmp_path: Path) -> None:
    """A record of starts alone says nothing of what the prompts waited for."""
    curve(tmp_path)
    (study,) = (tmp_path / "studies").iterdir()
    serve_elsewhere(study, 4_000_000, 0)
    rooms = study / "box-torch-fp32/in-flight-2" / ROOM_RECORD_FILE
    for spoil in (lambda: numpy.save(rooms, numpy.load(rooms)[:-1]), rooms.unlink):
        spoil()
        assert {severity for severity, _ in list_loop_findings(tmp_path)} == {Severity.ERROR}


@pytest.mark.parametrize(("stalls", "usual"), [(3, True), (4, False)])
def test_a_few_stalls_in_a_point_of_few_prompts_are_no_error(stalls: int, usual: bool) -> None:
    """Of 20 prompts three are a large share, and a stopped process takes seconds."""
    waits_ns = numpy.array([20_000] * (20 - stalls) + [2_000_000_000] * stalls)
    waits = LoopWaits(waits_ns=waits_ns, span_ns=10**10, concurrency=1)
    assert not waits.is_usual()
    assert waits.is_usual(FEW_STALLS) is usual


def test_a_prompt_behind_others_that_found_their_places_at_once_is_usual() -> None:
    """Answers of one length end with one step, and their prompts are read one after the other."""
    ends = numpy.repeat(numpy.arange(1, 12) * 10**9, 20)
    starts = numpy.append(numpy.zeros(20, int), ends[:-20]) + 2_000_000 * (numpy.arange(220) % 20)
    run = SimpleNamespace(point=SimpleNamespace(concurrency=20))
    for first_only, usual in ((False, False), (True, True)):
        waits = measure_loop_waits(cast(Any, run), starts, ends, first_only=first_only)
        assert waits is not None
        assert waits.is_usual() is usual


def test_a_place_that_was_not_free_is_found(tmp_path: Path) -> None:
    """A room before an answer ended, or behind the prompt that took it."""
    curve(tmp_path)
    (study,) = (tmp_path / "studies").iterdir()
    serve_elsewhere(study, 0, 0)
    run = study / "box-torch-fp32/in-flight-2"
    rooms = numpy.load(run / ROOM_RECORD_FILE)
    for shift_ns in (-(10**9), 10**9):
        numpy.save(run / ROOM_RECORD_FILE, rooms + shift_ns)
        assert Severity.ERROR in {severity for severity, _ in list_loop_findings(tmp_path)}
