"""The look over each workload's own data: what is counted, what is hashed, what is refused and what
is left out.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from testbed import SETTINGS, a_run

from harness.commands.data import data as command
from suite import registry
from suite.dataset import DataSet, StaleError
from suite.errors import RequestError
from suite.workload import Run
from workloads.common.pictures import file_checks

PICTURES = {"resnet50": (24, 12), "ssd": (8, 2), "maskrcnn": (8, 2)}
"""Workload -> pictures of the small embedded data: train, val."""
SKIP = "data.skip_broken=true"
OWN_FORMAT = {"llama"}
"""Workloads whose embedded data are not in the format of a user's, which tests of their own read:
tests/workloads/llama/test_published.py.
"""
OPTIONAL = {"minigo": frozenset({"labels.csv", "opponent", "start"})}
"""What a user's folder may have and the embedded one has not."""


def looked(workload: str, *words: str) -> Result:
    spelt = [
        word for key, value in SETTINGS[workload].items() for word in ("--set", f"{key}={value}")
    ]
    return CliRunner().invoke(command, [workload, *spelt, *words])


def data_set(workload: str, small: Path, **settings: Any) -> tuple[Run, DataSet]:
    run = a_run(workload, None, small / "cache", SETTINGS[workload], **settings)
    found = registry.load_workload(workload).build_data_set(run)
    assert found is not None
    return run, found


def files_of(workload: str, root: Path, split: str) -> list[Path]:
    return sorted(
        path
        for path in root.rglob("*")
        if split in str(path.relative_to(root)) and path.suffix.lower() in (".jpg", ".jpeg")
    )


@pytest.mark.slow
@pytest.mark.parametrize("workload", sorted(SETTINGS))
def test_every_part_has_a_hash_and_every_split_a_count(workload: str, small: Path) -> None:
    """The same data have the same hashes wherever they lie, and another byte another one."""
    done = looked(workload, "--format", "json")
    assert done.exception is None, done.exception
    found = json.loads(done.stdout)
    _, own = data_set(workload, small)
    parts = set(own.parts) - OPTIONAL.get(workload, frozenset())
    assert set(found["sha256"]) == parts and all(
        len(digest) == 64 for digest in found["sha256"].values()
    )
    assert min(found["samples"].values()) > 0 and found["files"] >= len(parts) - 1
    if workload in OWN_FORMAT:
        return
    copy = small / "copy"
    own.root.rename(copy)
    again = json.loads(looked(workload, "--data", str(copy), "--format", "json").stdout)
    assert (
        again["sha256"] == found["sha256"]
        and again["samples"] == found["samples"]
        and again["manifest"] != found["manifest"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("workload", PICTURES)
def test_broken_pictures_are_named_and_can_be_left_out(workload: str, small: Path) -> None:
    """Truncated, empty and unreadable files, as training named them before there was a look of its
    own; then a run has the others.
    """
    _, own = data_set(workload, small)
    truncated, empty = (
        files_of(workload, own.root, "val")[:2][0],
        files_of(workload, own.root, "train")[-1],
    )
    truncated.write_bytes(truncated.read_bytes()[:-40])
    done = looked(workload)
    assert isinstance(done.exception, RequestError) and done.exception.exit_code == 2
    count = PICTURES[workload][1]
    assert f"1 of {count} images are unreadable: {truncated}; restore them" in str(done.exception)
    empty.write_bytes(b"")
    assert looked(workload, "--set", SKIP).exception is None
    run, own = data_set(workload, small, **{"data__skip_broken": True})
    training: Any = registry.load_workload(workload).build_training(run)
    train, val = PICTURES[workload]
    assert val - 1 == training.facts()["eval_samples"] == len(training._val_split)
    assert len(training._train_split) == training.facts()["train_samples"] <= train
    assert truncated not in map(training._val_split.path, range(len(training._val_split)))


@pytest.mark.parametrize("skip", [False, True])
def test_a_split_without_a_sample_has_no_manifest(small: Path, own_tiny: Path, skip: bool) -> None:
    """Every picture broken: nothing is saved that a later command would take for a survey."""
    for path in files_of("resnet50", own_tiny, "val"):
        path.write_bytes(b"")
    done = looked("resnet50", "--data", str(own_tiny), *(("--set", SKIP) if skip else ()))
    assert isinstance(done.exception, RequestError) and str(done.exception).count("of 12 images")
    assert not list((small / "cache").glob("data/*.json"))


@pytest.mark.parametrize("workload", PICTURES)
def test_a_folder_without_training_pictures_can_be_served(workload: str, small: Path) -> None:
    """Whoever only serves has the accuracy set alone; training is refused with what is missing."""
    run, own = data_set(workload, small)
    for name in ("train", "train2017"):
        if (own.root / name).exists():
            (own.root / name).rename(small / "elsewhere")
    for document in own.root.rglob("instances_train2017.json"):
        document.unlink()
    done = looked(workload)
    assert done.exception is None and f"{PICTURES[workload][1]} val samples" in done.stdout
    with pytest.raises(RequestError, match="train"):
        registry.load_workload(workload).build_training(run)


def test_what_file_systems_put_there_is_told_once(small: Path, own_tiny: Path) -> None:
    """Left out of the labels, and named in one line, however often a name occurs."""
    (own_tiny / "train" / "@eaDir").mkdir()
    (own_tiny / "val" / "@eaDir").mkdir()
    (own_tiny / "val" / "cross" / "._cross_0.JPEG").write_bytes(b"x")
    done = looked("resnet50", "--data", str(own_tiny))
    assert done.exception is None and "24 train, 12 val samples" in done.stdout
    assert done.stdout.count("resnet50: left out: ._cross_0.JPEG, @eaDir\n") == 1


def test_a_split_that_is_another_one_by_now_is_not_read(tiny: Path) -> None:
    """Between the look and run_start a picture was added: numbers of broken ones would mean
    others.
    """
    from workloads.resnet50.images import imagenet

    found = imagenet.index_imagenet_split(tiny, "val")
    with pytest.raises(RequestError, match="12 images, but the survey found 11"):
        file_checks.PictureSplitSurvey(count=11, broken=(), named=()).drop_broken_pictures(found)


def test_hashes_follow_bytes_and_order(own_tiny: Path) -> None:
    """One byte in one picture, or two pictures in each other's place."""
    from workloads.resnet50.images import imagenet

    found = imagenet.index_imagenet_split(own_tiny, "val")
    _, before = file_checks.inspect_split_pictures(found)
    first, second = found.path(0), found.path(1)
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    _, swapped = file_checks.inspect_split_pictures(found)
    first.write_bytes(one + b"\0")
    second.write_bytes(other)
    assert len({before, swapped, file_checks.inspect_split_pictures(found)[1]}) == 3


@pytest.mark.parametrize("workload", ["gnmt", "transformer"])
def test_text_whose_encoding_is_gone_is_looked_over_again(workload: str, small: Path) -> None:
    """Somebody tidied the cache: told before the clock, not after."""
    _, own = data_set(workload, small)
    found = own.survey().found
    own.check(found)
    (small / "cache" / str(found["folder"])).rename(small / "tidied")
    with pytest.raises(StaleError, match="the encoded text is missing"):
        own.check(found)


@pytest.mark.parametrize("workload", ["gnmt", "transformer"])
@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("train.en", None, "no such file"),
        ("train.de", b"x\n", "must translate"),
        ("test.en", b"\xff\n" * 6, "not UTF-8"),
    ],
)
def test_bad_text_is_named(
    workload: str, name: str, content: bytes | None, told: str, small: Path
) -> None:
    """Missing, of another length, no text: exit 2, and no manifest."""
    _, own = data_set(workload, small)
    (own.root / name).unlink() if content is None else (own.root / name).write_bytes(content)
    done = looked(workload)
    assert (
        isinstance(done.exception, RequestError)
        and name in str(done.exception)
        and told in str(done.exception)
    )
    assert not list((small / "cache").glob("data/*.json"))
