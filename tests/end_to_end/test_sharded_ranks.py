"""Two ranks that divide a network, under torchrun, as a user starts them: lost ones go on."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from random import Random

import psutil
import pytest
from podium_fakes.drive import listed, start, until
from processes import children_of, is_alive, rank_of

from harness.training.state.checkpointing import list_checkpoint_numbers
from suite.registry import WORKLOAD_GROUP

LAUNCHER = (
    "-m",
    "torch.distributed.run",
    "--nproc-per-node",
    "2",
    "--max-restarts",
    "3",
    "--rdzv-backend",
    "c10d",
    "--rdzv-endpoint",
    "localhost:0",
    "-m",
    "harness",
)


TINY = {
    "train.shard": "true",
    "global_batch_size": "512",
    "model.layers": "1",
    "model.width": "32",
    "model.feed_forward": "48",
}
"""Six steps an epoch, sixteen epochs: the target is missed."""
OFTEN = ("--set", "checkpoint.interval_s=0.1")


@pytest.fixture
def with_llama(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Where child processes find the workload, registered or not."""
    if entry_points(group=WORKLOAD_GROUP, name="llama"):
        return environment
    found = tmp_path / "site" / "llama_trial-1.0.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: llama-trial\nVersion: 1.0\n")
    (found / "entry_points.txt").write_text(
        f"[{WORKLOAD_GROUP}]\nllama = workloads.llama:WORKLOAD\n"
    )
    paths = os.pathsep.join([environment["PYTHONPATH"], str(found.parent)])
    return {**environment, "PYTHONPATH": paths}


def start_ranks(results: Path, environment: dict[str, str], *more: str) -> subprocess.Popen[str]:
    settings = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    words = ["train", "llama", "--results", str(results), "--threads", "1", *settings, *more]
    return start([*words, "--device", "cpu"], LAUNCHER, env=environment)


def count_saved(results: Path) -> int:
    return max(list_checkpoint_numbers(results / ".podium" / "llama" / "run_0"), default=0)


def find_ranks(launcher: subprocess.Popen[str]) -> dict[int, psutil.Process]:
    """Find the ranks of a launcher that run."""
    found = {}
    for process in children_of(launcher.pid):
        with suppress(psutil.Error):
            if is_alive(process) and (rank := rank_of(process)):
                found[int(rank)] = process
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sharded_ranks_that_are_killed_go_on_bit_for_bit(
    tmp_path: Path, with_llama: dict[str, str]
) -> None:
    """kill -9 of either rank while checkpoints are saved all the time: the one before counts, and
    the weights are those of an undisturbed run.
    """
    undisturbed = start_ranks(tmp_path / "whole", with_llama, "--seed", "4")
    undisturbed.communicate(timeout=200)
    (weights,) = listed(tmp_path / "whole", "model.safetensors")
    results, random = tmp_path / "killed", Random(1)
    child = start_ranks(results, with_llama, "--seed", "4", *OFTEN)
    for rank in (1, 0):
        stood = count_saved(results)
        until(lambda: count_saved(results) > stood + 2 and len(find_ranks(child)) == 2)  # noqa: B023
        time.sleep(random.random() * 0.1)
        find_ranks(child)[rank].kill()
    child.communicate(timeout=300)
    (found,) = listed(results, "model.safetensors")
    assert found.parent.name == weights.parent.name  # the hash of all files
    (log,) = listed(results / "open", "result_0.txt")
    assert log.read_text().count('"key": "resumed"') == 2


@pytest.mark.slow
def test_other_numbers_of_ranks_do_not_resume(tmp_path: Path, with_llama: dict[str, str]) -> None:
    """One sentence and exit code 2, and the checkpoint is still there for two."""
    child = start_ranks(tmp_path, with_llama, "--seed", "4", *OFTEN)
    until(lambda: count_saved(tmp_path) > 1)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=100)
    words = ["train", "llama", "--results", str(tmp_path), "--resume", "--device", "cpu"]
    alone = start(words, env=with_llama)
    _, told = alone.communicate(timeout=100)
    assert alone.returncode == 2
    assert "started with world_size 2, not 1" in told and "Traceback" not in told
    assert count_saved(tmp_path) > 1
