"""A set's state on disk, and results that make room for new ones."""

import json
from pathlib import Path

import pytest
from podium_fakes.drive import entry, log_path, partial

from harness.training.seeds import seed_generators
from harness.training.state import set_state
from suite.errors import RequestError
from suite.files.superseded import move_to_superseded

SAME = {"profile": "smoke", "setting x": [1, 2]}


def begin(results: Path, seed: int | None = 1) -> set_state.TrainingSetState:
    set_state.begin_training_set(
        entry(results), "resnet", "fake", set_state.create_set_state(SAME, seed, 2, {})
    )
    found = set_state.find_staged_or_placed_set(entry(results), "fake")
    assert found is not None
    return found[1]


def test_a_set_is_read_as_it_was_written(tmp_path: Path):
    """Nonce, seed and endings have to survive an interruption."""
    first = begin(tmp_path)
    after = set_state.record_run_ending(tmp_path, "fake", first, 0, "target reached")
    assert (
        set_state.read_set_state(tmp_path, "fake")
        == after
        == set_state.parse_set_state(set_state.convert_set_state_to_json(after))
    )
    assert (
        after.endings == {"0": "target reached"}
        and after.logs == "open/tests/results/testbed/resnet"
        and len(after.nonce) == 32
    )
    assert set_state.find_staged_or_placed_set(entry(tmp_path), "fake") == (entry(tmp_path), after)


def test_a_seed_that_nobody_names_is_drawn(tmp_path: Path):
    """Two sets without --seed are two different ones."""
    assert begin(tmp_path, None).seed != begin(tmp_path, None).seed


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({**SAME, "setting x": [1]}, r"setting x \[1, 2\], not \[1\]"),
        ({"setting x": [1, 2]}, "profile smoke, not None"),
    ],
)
def test_what_differs_is_named(tmp_path: Path, asked: dict[str, object], words: str):
    """`they differ` alone would leave the user to search."""
    with pytest.raises(RequestError, match=words):
        set_state.check_same_request(begin(tmp_path), asked, None)


def test_a_run_may_go_on_with_another_number_of_data_workers(tmp_path: Path):
    """No weight depends on it, and a run that lost its workers goes on without them."""
    set_state.check_same_request(begin(tmp_path), {**SAME, "setting data.workers": 0}, None)


def test_a_state_that_cannot_be_read_is_told_and_can_be_left_behind(tmp_path: Path):
    """Half a file stops --resume, not a new set."""
    begin(tmp_path)
    (tmp_path / ".podium" / "fake" / "campaign.json").write_text('{"nonce": ')
    with pytest.raises(RequestError, match="without --resume"):
        set_state.find_staged_or_placed_set(entry(tmp_path), "fake")
    assert begin(tmp_path).endings == {}


def test_unfinished_logs_of_another_system_are_moved_with_their_state(tmp_path: Path):
    """Without its state nobody could go on with them."""
    begin(tmp_path)
    torn, whole = partial(log_path(tmp_path, 1)), log_path(tmp_path, 0)
    torn.parent.mkdir(parents=True)
    torn.write_text("torn")
    whole.write_text("whole")
    elsewhere = set_state.ResultsEntry(
        results=tmp_path, division=entry(tmp_path).division, org="tests", system="other"
    )
    set_state.begin_training_set(
        elsewhere, "resnet", "fake", set_state.create_set_state(SAME, 1, 1, {})
    )
    other = set_state.read_set_state(tmp_path, "fake")
    assert not torn.exists() and whole.exists() and other is not None and "other" in other.logs
    assert (
        tmp_path / ".podium" / "superseded" / "1" / torn.relative_to(tmp_path)
    ).read_text() == "torn"


def test_what_is_moved_aside_keeps_its_path(tmp_path: Path):
    """Numbers go up, nothing is overwritten, and nothing at all is no folder."""
    assert move_to_superseded([tmp_path / "nothing"], results=tmp_path).pairs == ()
    for number in ("1", "2"):
        (tmp_path / "a").mkdir()
        (tmp_path / "a" / "b").write_text(number)
        ((_, target),) = move_to_superseded(
            [tmp_path / "a" / "b", tmp_path / "a" / "b"], results=tmp_path
        ).pairs
        assert (
            target == tmp_path / ".podium" / "superseded" / number / "a" / "b"
            and target.read_text() == number
        )
        (tmp_path / "a").rmdir()


def test_what_was_moved_aside_comes_back(tmp_path: Path):
    """A refused request must leave the results as they were, whatever has come in their place
    meanwhile.
    """
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "old").write_text("old")
    (tmp_path / "log").write_text("old")
    moved = move_to_superseded([tmp_path / "state", tmp_path / "log"], results=tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "new").write_text("new")
    moved.move_back()
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["old"] and (
        tmp_path / "log"
    ).read_text() == "old"


def test_the_state_is_json(tmp_path: Path):
    """Other parts of podium, and people, read it."""
    begin(tmp_path)
    found = json.loads((tmp_path / ".podium" / "fake" / "campaign.json").read_text())
    assert found["runs"] == 2 and found["identity"] == SAME


def test_seeds_start_every_generator():
    """One that is left out makes two runs with one seed differ."""
    import random

    import numpy as np
    import torch

    drawn = []
    for _ in range(2):
        seed_generators(-5, 1, "torch")
        drawn.append((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize(
    "content",
    [
        b'{"nonce": "\xff"}',
        b"[" * 100_000,
        b'{"identity": {"a":' + b"[" * 100_000,
        b"{}",
        b"[]",
        b"1" * 5000,
        b"",
    ],
)
def test_a_state_of_any_bytes_is_told(tmp_path: Path, content: bytes):
    """What is no UTF-8 or nested too deep was a traceback, with --resume and without."""
    begin(tmp_path)
    (tmp_path / ".podium" / "fake" / "campaign.json").write_bytes(content)
    with pytest.raises(RequestError, match="without --resume"):
        set_state.find_staged_or_placed_set(entry(tmp_path), "fake")
    assert begin(tmp_path).endings == {}
