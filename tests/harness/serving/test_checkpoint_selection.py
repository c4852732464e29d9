"""Which weights are served."""

import os
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.drive import options
from podium_fakes.kept import keep_checkpoint

from harness.request import RunRequest, resolve_request
from harness.serving.checkpoint_selection import choose_checkpoint
from suite.errors import RequestError


def request(results: Path) -> RunRequest:
    return resolve_request(options(results), "fake")


def age(folder: Path, seconds: float) -> Path:
    os.utime(folder / "record.json", (1e9 - seconds, 1e9 - seconds))
    return folder


def test_the_newest_that_reached_its_target_is_taken(tmp_path: Path):
    """A newer failure, and a newer one of another profile, are passed over."""
    age(keep_checkpoint(tmp_path, 0.7), 300)
    wanted = age(keep_checkpoint(tmp_path, 0.8), 200)
    age(keep_checkpoint(tmp_path, 0.5, target_reached=False), 100)
    age(keep_checkpoint(tmp_path, 0.9, profile="full"), 50)
    assert choose_checkpoint(request(tmp_path), None).folder == wanted


def test_a_failure_may_be_served_on_request(tmp_path: Path):
    """Somebody wants to look at it; the judge will not take it."""
    named = keep_checkpoint(tmp_path, 0.5, target_reached=False)
    assert choose_checkpoint(request(tmp_path), named).record.sha256 == named.name


def test_none_at_all_says_how_to_make_one(tmp_path: Path):
    """The first thing that a newcomer types may be `podium infer`."""
    keep_checkpoint(tmp_path, 0.5, target_reached=False)
    with pytest.raises(RequestError, match="run podium train fake"):
        choose_checkpoint(request(tmp_path), None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"workload": "other"}, "a checkpoint of other, not of fake"),
        ({"profile": "full"}, "trained in profile full, not smoke"),
        ({"round": "podium-v9"}, "trained in round podium-v9, not podium-v1"),
        ({"sha256": "0" * 64}, "does not match its record"),
    ],
)
def test_a_named_checkpoint_has_to_fit(tmp_path: Path, changes: dict[str, Any], words: str):
    """Weights of another workload or under another hash would be served under a false name."""
    with pytest.raises(RequestError, match=words):
        choose_checkpoint(request(tmp_path), keep_checkpoint(tmp_path, **changes))


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No such file"), ("{}", "missing required field"), ('{"workload": ', "truncated")],
)
def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, content: str | None, words: str):
    """A folder of weights alone has no nonce to bind the run to."""
    folder = keep_checkpoint(tmp_path)
    (
        (folder / "record.json").unlink()
        if content is None
        else (folder / "record.json").write_text(content)
    )
    with pytest.raises(RequestError, match=words):
        choose_checkpoint(request(tmp_path), folder)


def test_changed_weights_are_not_served(tmp_path: Path):
    """One flipped byte after training is another model."""
    folder = keep_checkpoint(tmp_path)
    with (folder / "model.json").open("a") as stream:
        stream.write(" ")
    with pytest.raises(RequestError, match="the hash of its files differs"):
        choose_checkpoint(request(tmp_path), None)


@pytest.mark.parametrize(
    "content", [b'{"workload": "\xff"}', b'{"settings": {"a": ' + b"[" * 100_000, b"[]", b""]
)
def test_a_record_of_any_bytes_is_told(tmp_path: Path, content: bytes):
    """What is no UTF-8 or nested too deep was a traceback."""
    named = keep_checkpoint(tmp_path)
    (named / "record.json").write_bytes(content)
    with pytest.raises(RequestError, match="record.json"):
        choose_checkpoint(request(tmp_path), named)
