"""The batch script in a real Slurm of two nodes: what it prints is submitted as it is; a run that
loses ranks or nodes, or is cancelled, goes on.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from podium_fakes import slurm
from podium_fakes.drive import log_path, marks, options, partial, until, valid_events, weights
from podium_fakes.slurm import ASKED_S, Cluster

from extras.launch.cli import launch
from extras.launch.job_file import MAX_SLURM_REQUEUES
from harness.training.run_set import train_run_set
from harness.training.state.checkpointing import list_checkpoint_numbers
from suite.files.layout import locate_staged_results

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why := slurm.missing()), reason=why)]

FAKE = (
    "--framework",
    "fake",
    "--precision",
    "fp32",
    "--threads",
    "1",
    "--org",
    "tests",
    "--system",
    "testbed",
    "--seed",
    "4",
)
LOOKED_S = 0.05
"""Between two looks at all processes."""
SETTINGS = ("fake.torch=true", "fake.gain=0.02", "fake.step_ms=100", "checkpoint.interval_s=0.1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with slurm.cluster() as started:
        yield started


def printed(folder: Path, *words: str) -> Path:
    """Write what podium launch prints into a file, and change nothing."""
    done = CliRunner().invoke(launch, ["slurm", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    script = folder / "job.sh"
    script.write_text(done.stdout)
    return script


def training(folder: Path, results: Path) -> Path:
    """Print the script of a fake training of two nodes with a rank each."""
    folder.mkdir(exist_ok=True)
    where = (
        "--nodes",
        "2",
        "--devices",
        "1",
        "--results",
        str(results),
        "--profile",
        "smoke",
        "--device",
        "cpu",
        "--shared",
    )
    return printed(
        folder,
        "fake",
        *where,
        "--",
        *FAKE,
        *(word for setting in SETTINGS for word in ("--set", setting)),
    )


def finished(cluster: Cluster, number: str, script: Path) -> None:
    """Wait until the job has ended well."""
    found = cluster.wait(number, ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"))
    assert found["JobState"] == "COMPLETED", output(script, number)


def output(script: Path, number: str) -> str:
    """Read what a job printed."""
    return next(script.parent.glob(f"*-{number}.log")).read_text()


@pytest.fixture(scope="module")
def undisturbed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a job that nothing happened to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    script = training(folder, folder / "results")
    finished(cluster, cluster.submit(script), script)
    return folder / "results"


def test_a_job_trains_over_two_nodes_and_the_judge_finds_nothing(undisturbed: Path) -> None:
    """The whole way: sbatch, srun, torchrun's rendezvous by the name of the first node, the target,
    the judge.
    """
    found = {event["key"]: event["value"] for event in valid_events(log_path(undisturbed))}
    assert found["world_size"] == 2
    checked = subprocess.run(
        [sys.executable, "-m", "harness", "check", str(undisturbed)], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def saved(place: Path) -> int:
    """Number the newest checkpoint of an unfinished run."""
    return max(list_checkpoint_numbers(place / ".podium" / "fake" / "run_0"), default=0)


def lost(cluster: Cluster, place: Path, found: Callable[[], list[psutil.Process]]) -> None:
    """Wait for two new checkpoints, and end processes that get no chance to say so."""
    before = saved(place)
    until(lambda: saved(place) >= before + 2 and len(cluster.ranks()) == 2, 90, LOOKED_S)
    for victim in found():
        with suppress(psutil.NoSuchProcess):
            victim.kill()


def test_a_job_that_loses_ranks_and_nodes_and_is_cancelled_ends_as_if_nothing_had_happened(
    cluster: Cluster, undisturbed: Path, tmp_path: Path
) -> None:
    """Four launches of one run beside an earlier result: torchrun restarts a rank, Slurm requeues
    the job, and its user cancels it and submits it again.
    """
    results = tmp_path / "results"
    train_run_set("fake", options(results), seed=1)
    place, script = locate_staged_results(results, "fake"), training(tmp_path, results)
    torchrun(
        tmp_path, f'exec {sys.executable} -m podium_fakes.torchrun "$@"'
    )  # the job that nothing happens to has ranks that load PyTorch themselves
    number = cluster.submit(script, tmp_path)
    lost(cluster, place, lambda: [cluster.ranks()[1]])
    lost(cluster, place, lambda: [cluster.launchers()["n2"], *cluster.on("n2")])
    until(lambda: cluster.job(number)["Restarts"] == "1", 60, ASKED_S)
    lost(cluster, place, list)
    cluster.run("scancel", number, cwd=tmp_path)
    cluster.wait(number, ("CANCELLED",))
    until(lambda: not cluster.ranks(), 40, LOOKED_S)
    assert partial(log_path(place)).exists() and cluster.job(number)["Restarts"] == "1"
    again = cluster.submit(script, tmp_path)
    finished(cluster, again, script)
    assert marks(log_path(results)) == marks(log_path(undisturbed)) and weights(results) == weights(
        undisturbed
    )
    resumed = [line for line in log_path(results).read_text().splitlines() if '"resumed"' in line]
    assert len(resumed) == 3 and not list(results.rglob("*.partial"))


def torchrun(folder: Path, body: str) -> None:
    """Put a program in torchrun's place."""
    (folder / "torchrun").write_text(f"#!/bin/bash\n{body}\n")
    (folder / "torchrun").chmod(0o755)


def test_a_run_that_fails_each_time_leaves_the_queue(cluster: Cluster, tmp_path: Path) -> None:
    """A log with `.partial` that no resume can use kept the job coming back for ever, each time for
    a whole allocation.
    """
    log = partial(log_path(tmp_path / "results"))
    log.parent.mkdir(parents=True)
    log.touch()
    script = training(tmp_path, tmp_path / "results")
    script.write_text(script.read_text().replace(f"-lt {MAX_SLURM_REQUEUES}", "-lt 1"))
    torchrun(tmp_path, 'echo "start $*"; exit 1')
    number = cluster.submit(script, tmp_path)
    found = cluster.wait(number, ("FAILED", "COMPLETED"))
    assert (found["JobState"], found["Restarts"]) == ("FAILED", "1")
    starts = [line for line in output(script, number).splitlines() if line.startswith("start ")]
    assert len(starts) >= 2 and all(line.endswith("--resume") for line in starts)


def test_a_run_that_cannot_go_on_is_not_put_back(cluster: Cluster, tmp_path: Path) -> None:
    """A typing error, or another workload's unfinished run beside this one, is no reason to come
    back.
    """
    other = partial(log_path(tmp_path / "results").parents[1] / "ssd" / "result_0.txt")
    other.parent.mkdir(parents=True)
    other.touch()
    torchrun(tmp_path, 'echo "start $*"; exit 1')
    script = training(tmp_path, tmp_path / "results")
    number = cluster.submit(script, tmp_path)
    found = cluster.wait(number, ("FAILED", "COMPLETED"))
    assert (found["JobState"], found["Restarts"]) == ("FAILED", "0") and "--resume" not in output(
        script, number
    )


def test_each_task_gets_all_devices_and_all_cores_of_its_node(
    cluster: Cluster, tmp_path: Path
) -> None:
    """A step that does not ask again has no device with some plugins, and one core for eight ranks
    with others.
    """
    script = printed(
        tmp_path,
        "resnet50",
        "--nodes",
        "2",
        "--devices",
        "8",
        "--results",
        "/shared/results",
        "--data",
        "/data",
    )
    torchrun(
        tmp_path,
        'echo "got $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $(env -u OMP_NUM_THREADS nproc) $*"',
    )
    number = cluster.submit(script, tmp_path)
    assert cluster.wait(number, ("COMPLETED", "FAILED"))["JobState"] == "COMPLETED"
    got = [line.split() for line in output(script, number).splitlines() if line.startswith("got ")]
    assert sorted(words[1:4] for words in got) == [
        [node, "0,1,2,3,4,5,6,7", "2"] for node in slurm.NODES
    ]
    assert all(
        {"--nnodes=2", "--nproc-per-node=8"} <= set(words)
        and any(word.startswith("--rdzv-endpoint=n1:") for word in words)
        for words in got
    )


@pytest.mark.parametrize(
    ("nodes", "devices", "more", "said"),
    [
        (2, 8, (), ""),
        (2, 8, ("--partition", "all", "--time", "04:00:00"), ""),
        (4, 8, (), "Requested node configuration is not available"),
        (2, 9, (), "Requested node configuration is not available"),
        (2, 8, ("--partition", "gpu"), "invalid partition specified: gpu"),
        (2, 8, ("--time", "soon"), "Invalid --time specification"),
    ],
)
def test_slurm_takes_or_refuses_the_script_of_resnet50(
    cluster: Cluster, tmp_path: Path, nodes: int, devices: int, more: tuple[str, ...], said: str
) -> None:
    """Slurm's own parser is the last word on #SBATCH lines: what it refuses is what this cluster
    lacks.
    """
    words = (
        "resnet50",
        "--nodes",
        str(nodes),
        "--devices",
        str(devices),
        "--results",
        "/shared/results",
        "--data",
        "/data/imagenet",
        *more,
    )
    done = cluster.run("sbatch", "--test-only", str(printed(tmp_path, *words)), cwd=tmp_path)
    assert (done.returncode == 0) == (not said) and said in done.stderr, done.stderr
