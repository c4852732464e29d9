"""An A/B whose blocks were chosen, dropped, reordered or changed is broken."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy
import pytest
from examples import result_of
from making import wall
from making_ab import build_request, build_training_request, steady, write_ab
from spoiling import put, setting

from compliance.kinds.podium.rules.sides import is_same_address
from compliance.verdict import Severity
from suite.ab.design import plan_order
from suite.ab.sides import AbPoint
from suite.files.layout import DETAIL_LOG, QUERY_RECORD_FILE, RUN_RECORD
from suite.records import read_system_record, write_system_record
from suite.studies.documents import POINT_FILE, STUDY_FILE

Change = Callable[[Path], None]
OTHER_SEED: Final = next(
    seed for seed in range(100) if plan_order(seed, 0) != plan_order(build_request().seed, 0)
)


def list_errors(folder: Path) -> dict[str, str]:
    """Rule -> what it found."""
    found = [each for each in result_of(folder).findings if each.severity is Severity.ERROR]
    return {each.rule: each.found for each in found}


def edit_study(change: Callable[[dict[str, Any]], None]) -> Change:
    """Change the record of a study."""

    def edit(folder: Path) -> None:
        path = folder / STUDY_FILE
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return edit


def edit_request(**fields: Any) -> Change:
    """Change what the command asked for."""
    return edit_study(lambda document: document["requests"][0]["request"].update(fields))


def locate_run(folder: Path, name: str) -> Path:
    (found,) = folder.glob(f"*/{name}")
    return found


def drop_block(number: int, *, renumber: bool) -> Change:
    """Remove the runs of a block, with or without closing the gap that they leave."""

    def drop(folder: Path) -> None:
        for path in folder.glob(f"*/block-{number:03}-*"):
            shutil.rmtree(path)
        path = folder / STUDY_FILE
        document = json.loads(path.read_text())
        kept = [each for each in document["runs"] if (folder / each).is_dir()]
        if renumber:
            kept = [renumber_run(folder, each, place, number) for place, each in enumerate(kept, 1)]
        document["runs"] = kept
        path.write_text(json.dumps(document))

    return drop


def renumber_run(folder: Path, place: str, number: int, dropped: int) -> str:
    """Give a run its number without the dropped block's; its new place."""
    record = folder / place / POINT_FILE
    document = json.loads(record.read_text())
    document["number"] = number
    point = document["point"]
    new = place
    if point["block"] > dropped:
        point["block"] -= 1
        new = re.sub(r"block-\d+", f"block-{point['block']:03}", place)
    record.write_text(json.dumps(document))
    (folder / place).rename(folder / new)
    return new


def swap_runs(folder: Path) -> None:
    """Name two runs of a side in the other order."""

    def swap(document: dict[str, Any]) -> None:
        places = [place for place, each in enumerate(document["runs"]) if "block-001" in each]
        first, last = places[0], places[-1]
        runs = document["runs"]
        runs[first], runs[last] = runs[last], runs[first]

    edit_study(swap)(folder)


def paste_other_side(folder: Path) -> None:
    """Put B's run in the place of A's."""
    source, target = (next(iter(sorted(folder.glob(f"side-{each}/block-001-*")))) for each in "ba")
    point = (target / POINT_FILE).read_text()
    shutil.rmtree(target)
    shutil.copytree(source, target)
    (target / POINT_FILE).write_text(point)


def raise_rate(folder: Path) -> None:
    """Let a run of B be a tenth faster in LoadGen's log alone."""
    path = next(iter(sorted(folder.glob(f"side-b/block-002-*/{DETAIL_LOG}"))))
    key = "result_samples_per_second"
    (found,) = re.findall(rf'"key": "{key}"[^\n]*|[^\n]*"key": "{key}"[^\n]*', path.read_text())[:1]
    rate = float(re.findall(r'"value": ([0-9.]+)', found)[0])
    setting(key, round(1.1 * rate, 5))(path)


def begin_early(folder: Path) -> None:
    """Let a run begin before the one before it has ended."""
    path = locate_run(folder, "block-002-turn-2") / DETAIL_LOG
    setting("power_begin", wall(20_000.0))(path)
    setting("power_end", wall(25_000.0))(path)


def be_other_system(folder: Path) -> None:
    """Let side B be in another number of threads from a run on."""
    path = folder / "side-b" / "system.json"
    put(sample_count=7)(path)


def leave_one_thread(folder: Path) -> None:
    """Let all runs of side B have one CPU thread, in all their records."""
    side = folder / "side-b"
    system = replace(read_system_record(side), threads=1)
    write_system_record(side, system)
    for path in side.glob(f"*/{RUN_RECORD}"):
        put(system_sha256=system.compute_digest())(path)


def name_no_threads(document: dict[str, Any]) -> None:
    """Let the command name no number of threads."""
    for side in "ab":
        document["requests"][0]["request"][side]["options"].pop("threads")


def test_sides_have_as_many_threads_unless_the_command_names_them(tmp_path: Path) -> None:
    folder = write_ab(tmp_path, speed=close)
    edit_study(name_no_threads)(folder)
    assert not list_errors(folder)
    leave_one_thread(folder)
    assert list_errors(folder) == {"ab.sides": "2 and 1 CPU threads"}
    edit_study(
        lambda document: document["requests"][0]["request"]["b"]["options"].update(threads="1")
    )(folder)
    assert not list_errors(folder)


MUTANTS: Final[dict[str, tuple[Change, str]]] = {
    "dropped block": (drop_block(1, renumber=False), "study.points"),
    "dropped block, renumbered": (drop_block(1, renumber=True), "study.plan"),
    "runs in another order": (swap_runs, "study.points"),
    "another seed": (edit_request(seed=OTHER_SEED), "study.plan"),
    "stopped too late by a wider bound": (edit_request(difference=0.5), "study.plan"),
    "another side's run": (paste_other_side, "study.points"),
    "another rate": (raise_rate, "loadgen.rate"),
    "another time": (begin_early, "ab.order"),
    "another system": (be_other_system, "ab.sides"),
    "less time than the runs took": (edit_request(minutes=0.2), "study.plan"),
}


@pytest.mark.parametrize(("change", "rule"), MUTANTS.values(), ids=MUTANTS)
def test_a_changed_comparison_is_broken(tmp_path: Path, change: Change, rule: str) -> None:
    folder = write_ab(tmp_path, speed=close)
    assert not list_errors(folder)
    change(folder)
    assert rule in list_errors(folder)


def hurry_steps(folder: Path) -> None:
    """Let the steps of a run of B take a tenth less time in their record alone."""
    path = next(iter(sorted(folder.glob(f"side-b/block-001-*/{QUERY_RECORD_FILE}"))))
    rows = numpy.load(path)
    begin = rows["issued_ns"].min()
    for name in ("issued_ns", "done_ns"):
        rows[name] = begin + (rows[name] - begin) * 9 // 10
    numpy.save(path, rows)


def enlarge_steps(folder: Path) -> None:
    """Let each step of a run of B have twice the samples in its record."""
    path = next(iter(sorted(folder.glob(f"side-b/block-001-*/{QUERY_RECORD_FILE}"))))
    rows = numpy.load(path)
    rows["samples"] *= 2
    numpy.save(path, rows)


def log_larger_steps(folder: Path) -> None:
    """Let LoadGen's log have another batch."""
    path = next(iter(sorted(folder.glob(f"side-b/block-001-*/{DETAIL_LOG}"))))
    setting("effective_samples_per_query", 16)(path)


def drop_steps(folder: Path) -> None:
    """Let a run have no record of its steps."""
    next(iter(sorted(folder.glob(f"side-b/block-001-*/{QUERY_RECORD_FILE}")))).unlink()


STEP_MUTANTS: Final[dict[str, tuple[Change, str]]] = {
    "quicker steps": (hurry_steps, "ab.steps"),
    "larger steps": (enlarge_steps, "ab.steps"),
    "another batch": (log_larger_steps, "ab.steps"),
    "no steps": (drop_steps, "study.answer"),
    "another side's run": (paste_other_side, "study.points"),
    "answers, not steps": (edit_request(training=False), "ab.steps"),
    "another seed": (edit_request(seed=OTHER_SEED), "study.plan"),
}


@pytest.mark.parametrize(("change", "rule"), STEP_MUTANTS.values(), ids=STEP_MUTANTS)
def test_a_changed_comparison_of_steps_is_broken(tmp_path: Path, change: Change, rule: str) -> None:
    folder = write_ab(tmp_path, build_training_request())
    assert not list_errors(folder)
    change(folder)
    assert rule in list_errors(folder)


def close(point: AbPoint, number: int) -> float:
    """B is 2 % faster on a machine whose runs differ by 2 %: several blocks are needed."""
    noise = 1 + 0.02 * (number * 7919 % 11) / 11
    return noise * steady(point, number) / {"a": 1.0, "b": 1.25 / 1.02}[point.side]


def test_one_that_was_stopped_before_it_is_decided_says_nothing(tmp_path: Path) -> None:
    """Stopping where B leads would choose the end."""
    folder = write_ab(tmp_path, speed=close)
    blocks = len(list(folder.glob("*/block-*-turn-1")))
    drop_block(blocks, renumber=False)(folder)
    found = [each.found for each in result_of(folder).findings if each.rule == "study.plan"]
    assert any(f"block-{blocks:03}-turn-1 is not measured" in each for each in found)


def test_a_budget_that_is_used_up_is_no_fault(tmp_path: Path) -> None:
    folder = write_ab(tmp_path, build_request(minutes=1.9), speed=close)
    assert not list_errors(folder)


@pytest.mark.parametrize(
    ("asked", "served", "is_same"),
    [
        ("http://old:8000", "http://old:8000/v1", True),
        ("https://Old/v1", "https://old:443/v1", True),
        ("grpc://[::1]:9", "grpc://[::1]:9", True),
        ("http://old:8000", "http://new:8000", False),
        ("http://h:8000", "http://h:8001", False),
    ],
)
def test_a_side_is_served_where_it_was_asked_for(asked: str, served: str, is_same: bool) -> None:
    assert is_same_address(asked, served) is is_same
