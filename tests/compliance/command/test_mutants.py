"""How mutants are made and counted, without published results to put them into."""

from itertools import groupby
from pathlib import Path

import pytest
from mutants.families import ENTRIES, LOGS, SETS
from mutants.judging import Outcome, Tally
from mutants.training.harmless import HARMLESS
from mutants.training.log import Log, read
from mutants.training.text import OLDEST
from mutants.undoing import Undo

LINES = (
    b':::MLL 1500000000.250 run_start: {"value": null, "metadata": {"lineno": 3}}\n',
    b"step 1 of 10\r 2 of 10\n",
    (
        b'[1,0]<stdout>:::MLLOG {"namespace": "", "time_ms": 1500000002000, "key": "run_stop",'
        b' "value": null, "metadata": {"status": "success"}}\n'
    ),
)


def test_a_mutant_differs_from_its_base_in_one_place():
    """A mutant that also loses other bytes would be caught for the wrong reason."""
    log = Log.of(b"".join(LINES))
    assert log.content() == b"".join(LINES)
    assert log.edit(lambda record: record.later(0.5), *log.of_key("run_start"))
    assert (
        log.content().splitlines(keepends=True)[1:] == b"".join(LINES).splitlines(keepends=True)[1:]
    )
    assert b":::MLL 1500000000.75 run_start" in log.content()


@pytest.mark.parametrize("line", [LINES[0], LINES[2]])
def test_a_record_is_written_as_it_was_read(line: bytes):
    """Each dialect keeps its own form when a record is changed."""
    record = read(line.decode())
    assert record is not None
    again = read(str(record))
    assert again == record


def test_records_are_deleted_put_in_and_moved_by_line():
    """Line numbers go stale after a change; the log reads itself again."""
    log = Log.of(b"".join(LINES))
    assert log.move(log.of_key("run_stop"), log.of_key("run_start")[0])
    assert [record.key for record in log.records.values()] == ["run_stop", "run_start"]
    assert log.delete(*log.of_key("run_stop"))
    assert [record.key for record in log.records.values()] == ["run_start"]
    assert not log.delete(*log.of_key("run_stop"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with two files."""
    folder = tmp_path / "tree"
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "inner" / "b.txt").write_text("b")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_changes_are_taken_back_in_the_other_order(tree: Path, tmp_path: Path):
    """A base that stays changed would break each mutant after it."""
    before, aside = contents(tree), tmp_path / "aside"
    undo = Undo(aside)
    assert undo.write(tree / "new" / "c.txt", "c")
    assert undo.edit(tree / "a.txt", str.upper)
    assert undo.rename(tree / "inner", tree / "outer")
    assert undo.delete(tree / "outer" / "b.txt")
    assert undo.delete(tree / "a.txt")
    assert contents(tree) == {"new/c.txt": b"c"}
    undo.back()
    assert contents(tree) == before
    assert not (tree / "new").exists()


def test_what_is_not_there_is_not_changed(tree: Path, tmp_path: Path):
    """A kind that changes nothing says so, and is not counted."""
    undo = Undo(tmp_path / "aside")
    assert not undo.edit(tree / "a.txt", str.lower)
    assert not undo.edit(tree / "nowhere.txt", str.upper)
    assert not undo.delete(tree / "nowhere.txt")


def test_a_kind_counts_only_where_it_is_caught_everywhere():
    """One base that is missed is a kind that is missed."""
    verdicts = (
        ("one", "broken"),
        ("one", "broken"),
        ("two", "broken"),
        ("two", "valid"),
        ("three", "ValueError: x"),
    )
    tally = Tally(
        outcomes=tuple(
            Outcome(kind=kind, base="base", verdict=verdict, required="")
            for kind, verdict in verdicts
        )
    )
    assert tally.missed().keys() == {"two", "three"}
    assert tally.share == pytest.approx(1 / 3)
    assert [outcome.kind for outcome in tally.tracebacks()] == ["three"]
    assert next(tally.lines()).startswith("1 of 3 kinds caught")


def test_kinds_have_names_of_their_own():
    """Two kinds of one name would count as one."""
    for kinds in (LOGS, ENTRIES, SETS, OLDEST, HARMLESS):
        names = sorted(kind.name for kind in kinds)
        assert [name for name, same in groupby(names) if len(list(same)) > 1] == []
    assert len(LOGS) + len(OLDEST) + len(SETS) + len(ENTRIES) > 700
