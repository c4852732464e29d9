"""What a dry run says: sums and limits that add up, and no command that the machine has no room
for.
"""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from suite import registry
from suite.dry_run import (
    DryRunEstimate,
    StageEstimate,
    check_results_writable,
    check_room,
    format_bytes,
    format_duration,
    format_estimate,
    join_estimates,
    refuse_dry_options,
)
from suite.errors import MissingError, RequestError
from suite.terms import Profile

TRAINING = DryRunEstimate(
    workload="gnmt",
    stages=[StageEstimate(name="training", seconds=60.0, most_seconds=200.0, basis="5 epochs")],
    memory_bytes=2_000_000_000,
    free_memory_bytes=8_000_000_000,
    disk_bytes=50_000_000,
)
SERVING = replace(
    TRAINING,
    stages=[StageEstimate(name="serving", seconds=45.0, basis="four scenarios")],
    memory_bytes=3_000_000_000,
    free_memory_bytes=6_000_000_000,
    disk_bytes=1_000_000,
)


def test_steps_add_up_and_memory_is_that_of_the_largest() -> None:
    whole = join_estimates([TRAINING, SERVING])
    assert (whole.seconds, whole.most_seconds) == (105.0, 245.0)
    assert (whole.memory_bytes, whole.disk_bytes) == (3_000_000_000, 51_000_000)
    assert whole.free_memory_bytes == 8_000_000_000, "before the first step took any"


def test_what_is_unknown_makes_the_whole_unknown(tmp_path: Path) -> None:
    """A sum without one of its parts would be told as the whole."""
    unknown = StageEstimate(name="training", seconds=None, basis="no optimizer step came")
    whole = join_estimates([replace(TRAINING, stages=[unknown]), SERVING])
    assert whole.seconds is None and whole.most_seconds is None
    assert "the whole, estimated: unknown" in "\n".join(format_estimate(whole, tmp_path))


def test_every_line_with_a_number_says_that_it_is_estimated(tmp_path: Path) -> None:
    lines = format_estimate(join_estimates([TRAINING, SERVING]), tmp_path)
    assert all("estimated" in line for line in lines[:-1]) and "dry run" in lines[-1]
    assert lines[0] == "gnmt: training, estimated: about 60 s, at most 3.3 minutes; 5 epochs"
    assert lines[2] == "gnmt: the whole, estimated: about 1.8 minutes, at most 4.1 minutes"
    assert not any("measured" in line for line in lines)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memory_bytes": 9_000_000_000}, "too little memory: 9.0 GB estimated, 8.0 GB free"),
        ({"disk_bytes": 10**18}, r"too little disk: 1,000,000,000\.0 GB estimated"),
    ],
)
def test_too_little_room_is_exit_3(changes: dict[str, int], words: str, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=words):
        check_room(replace(TRAINING, **changes), tmp_path / "not" / "there")  # type: ignore[arg-type]


def test_room_enough_is_no_error(tmp_path: Path) -> None:
    check_room(replace(TRAINING, disk_bytes=1), tmp_path)


def test_options_that_it_says_nothing_about_are_refused() -> None:
    refuse_dry_options(resume=False, peak=False)
    with pytest.raises(RequestError, match=r"--dry-run says nothing about --peak; omit one"):
        refuse_dry_options(resume=False, peak=True)


def test_durations_and_sizes_have_units_that_people_choose() -> None:
    assert [format_duration(each) for each in (4.4, 89, 91, 5_399, 5_401, 36_000)] == [
        "4 s",
        "89 s",
        "1.5 minutes",
        "90.0 minutes",
        "1.5 hours",
        "10.0 hours",
    ]
    assert [format_bytes(each) for each in (1_000, 99_000_000, 100_000_000)] == [
        "0.0 MB",
        "99.0 MB",
        "0.1 GB",
    ]


def test_every_smoke_row_names_its_epochs_with_a_source() -> None:
    """Else a dry run knows the most that a run may take, and nothing better."""
    round = registry.load_round()
    for name in ("gnmt", "llama", "maskrcnn", "minigo", "resnet50", "ssd", "transformer"):
        row = round.benchmark(name).training[Profile.SMOKE]
        assert row.expected_epochs is not None, name
        assert row.fewest_epochs <= row.expected_epochs <= row.max_epochs, name
        path = f"{name}.training.smoke.expected_epochs"
        assert f"workloads/{name}/README.md" in round.find_source(path), name


def test_results_that_cannot_be_written_are_refused_before_anything_is_computed(
    tmp_path: Path,
) -> None:
    """The run refuses them, after a dry run that found nothing wrong."""
    check_results_writable(tmp_path / "not" / "yet")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RequestError, match="--results /proc/x/y: "):
        check_results_writable(Path("/proc/x/y"))


def test_results_on_a_full_disk_are_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    def write_nothing(folder: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("suite.dry_run.check_folder_writable", write_nothing)
    with pytest.raises(MissingError, match="--results there: No space left on device"):
        check_results_writable(Path("there"))
