"""Job files: what a scheduler gets is what it takes, and a run that was stopped goes on."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from click.testing import CliRunner
from podium_fakes import STEP_MS
from podium_fakes.drive import events, log_path

from extras.launch import job_file
from extras.launch.cli import launch
from suite.errors import RequestError

SHARED = "/shared/results"
FAKE = ("fake", "--profile", "smoke", "--device", "cpu")


def printed(*words: str) -> str:
    """Print a job file."""
    done = CliRunner().invoke(launch, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def slurm(*words: str) -> str:
    return printed("slurm", "resnet50", "--results", SHARED, "--data", "/data/imagenet", *words)


@pytest.mark.parametrize(
    "more",
    [
        (),
        ("--container", "a/b:1"),
        ("--partition", "gpu", "--time", "04:00:00"),
        ("--device", "cpu"),
    ],
)
def test_the_batch_script_is_one(tmp_path: Path, more: tuple[str, ...]) -> None:
    """A script with a slip would wait in the queue for hours, and end at once."""
    path = tmp_path / "job.sh"
    path.write_text(slurm("--nodes", "4", "--devices", "8", *more))
    assert subprocess.run(["bash", "-n", str(path)], capture_output=True).returncode == 0
    if shutil.which("shellcheck"):
        assert subprocess.run(["shellcheck", str(path)], capture_output=True).stdout == b""


def test_the_batch_script_says_nodes_to_srun_too_and_never_falls_back_to_itself() -> None:
    """pyxis passes no #SBATCH option on to srun; nodes that each rendezvous with themselves train
    alone.
    """
    text = slurm("--nodes", "4", "--devices", "8", "--container", "a/b:1")
    assert (
        "srun --nodes=4 --ntasks=4 --ntasks-per-node=1" in text
        and "--gpus-per-node=8 --container-image=a/b:1" in text
    )
    assert "localhost" not in text and "||" not in text.split("resume=()", 1)[0]
    assert "--nnodes=4 --nproc-per-node=8" in text and "--requeue" in text


def test_text_of_the_user_is_quoted() -> None:
    """A space in a path would be two arguments, and a semicolon a command."""
    text = printed(
        "slurm",
        "fake",
        "--profile",
        "smoke",
        "--results",
        "/shared/my results; rm -rf x",
        "--",
        "--set",
        "a=b c",
    )
    assert "'/shared/my results; rm -rf x'" in text and "'a=b c'" in text


def stubs(folder: Path) -> dict[str, str]:
    """Programs in Slurm's place: one node, and every call noted."""
    folder.mkdir()
    for name, body in {
        "scontrol": f'echo "$*" >> {folder}/calls\n[ "$1" = show ] && echo 127.0.0.1 || true',
        "srun": 'while [[ "$1" == --* ]]; do shift; done\nexec "$@"',
        "torchrun": f'exec {sys.executable} -m podium_fakes.torchrun "$@"',
    }.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (folder / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_JOB_NODELIST": "n1",
    }


@pytest.mark.slow
def test_the_batch_script_trains_and_goes_on_after_it_was_stopped(tmp_path: Path) -> None:
    """The script itself, with stubs for Slurm, and torchrun, which forks its ranks: a run left
    unfinished is put back into the queue, and resumed.
    """
    environment, results, path = stubs(tmp_path / "bin"), tmp_path / "results", tmp_path / "job.sh"
    more = (
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
    )
    more = (*more, "--set", "fake.torch=true", "--set", "fake.step_ms=100")
    path.write_text(
        printed("slurm", *FAKE, "--devices", "2", "--results", str(results), "--", *more)
    )
    slow = environment | {STEP_MS: "300"}
    first = subprocess.Popen(
        ["bash", str(path)],
        env=slow,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    unfinished = log_path(results).with_name("result_0.txt.partial")
    while not (unfinished.exists() and b'"epoch_stop"' in unfinished.read_bytes()):
        assert first.poll() is None
        time.sleep(0.02)
    for child in psutil.Process(first.pid).children(recursive=True):
        if (
            "train" in child.cmdline()
        ):  # torchrun and its ranks, as Slurm signals all processes of a step
            child.terminate()
    assert first.wait(120) != 0
    assert f"requeue {os.getpid()}" in (tmp_path / "bin" / "calls").read_text()
    second = subprocess.run(
        ["bash", str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert second.returncode == 0, second.stdout
    assert "resumed" in [event["key"] for event in events(log_path(results))]


@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes"])
@pytest.mark.parametrize(
    ("log", "resumed"),
    [
        ("open/tests/results/testbed/resnet/result_0.txt.partial", True),
        (".podium/fake/next/closed/tests/results/testbed/resnet/result_3.txt.partial", True),
        ("open/tests/results/testbed/resnet/result_0.txt", False),
        ("open/tests/results/testbed/ssd/result_0.txt.partial", False),
        (".podium/ssd/next/open/tests/results/testbed/ssd/result_0.txt.partial", False),
    ],
)
def test_an_unfinished_run_of_this_workload_goes_on(
    tmp_path: Path, scheduler: str, log: str, resumed: bool
) -> None:
    """A run beside an earlier result began anew each time; another workload's unfinished run was no
    reason to resume, or to come back.
    """
    results = tmp_path / "my results"
    (results / log).parent.mkdir(parents=True)
    (results / log).touch()
    lines = printed(
        scheduler, *FAKE, "--results", str(results), "--container", "a/b:1"
    ).splitlines()
    condition = next(line for line in lines if line.strip().startswith("if compgen"))
    done = subprocess.run(
        ["bash", "-euc", f'resume=(); {condition.strip()}; echo "${{resume[@]}}"'],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "--resume" if resumed else "")


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--device", "cpu"), ("--data", "/data/imagenet")])
def test_the_manifests_of_the_indexed_job_keep_kubernetes_schemas(more: tuple[str, ...]) -> None:
    """A key that Kubernetes does not know is dropped or refused on the cluster."""
    validate = pytest.importorskip("kubernetes_validate")
    profile = () if "--data" in more else ("--profile", "smoke")
    words = (
        "--nodes",
        "4",
        "--devices",
        "8",
        "--results",
        SHARED,
        "--container",
        "a/b:1",
        *profile,
        *more,
    )
    documents = list(yaml.safe_load_all(printed("kubernetes", "resnet50", *words)))
    assert [document["kind"] for document in documents] == ["Service", "Job"]
    for document in documents:
        validate.validate(document, "1.31", strict=True)
    service, job = documents
    assert (
        service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
    )
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    with pytest.raises(validate.ValidationError):
        validate.validate(
            job | {"spec": job["spec"] | {"completions": "four"}}, "1.31", strict=True
        )


@pytest.mark.slow
def test_the_trainjob_keeps_kubeflows_models() -> None:
    """Its models drop keys that they do not know, so the document is compared with what they
    kept.
    """
    models = pytest.importorskip("kubeflow_trainer_api.models")
    document: dict[str, Any] = yaml.safe_load(
        printed(
            "kubernetes",
            "resnet50",
            "--trainjob",
            "--nodes",
            "2",
            "--devices",
            "8",
            "--profile",
            "smoke",
            "--results",
            SHARED,
            "--container",
            "a/b:1",
        )
    )
    kept = models.TrainerV1alpha1TrainJob.from_dict(document).to_dict()
    assert json.loads(json.dumps(kept)) == document


def test_the_recipe_of_the_container_names_its_parts() -> None:
    """Apptainer reads a header, then sections; it is not installed where this is tested."""
    text = printed("apptainer", "fake", "--profile", "smoke", "--nodes", "2", "--results", SHARED)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert lines[0] == "Bootstrap: docker" and lines[1].startswith("From: ")
    assert [line for line in lines if line.startswith("%")] == [
        "%post",
        "%environment",
        "%runscript",
    ]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("slurm", *FAKE, "--results", "results"), "write an absolute path"),
        (("kubernetes", *FAKE, "--results", SHARED), "--container IMAGE"),
        (("slurm", "resnet50", "--results", SHARED), "needs --data"),
        (("slurm", "resnet51", "--results", SHARED), "resnet50"),
    ],
)
def test_what_no_cluster_could_run_is_refused(words: tuple[str, ...], reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        CliRunner().invoke(launch, list(words), catch_exceptions=False)


def test_a_range_of_nodes_is_refused_with_the_reason() -> None:
    """torchrun takes 2:4; podium's batches depend on the number of ranks."""
    done = CliRunner().invoke(launch, ["slurm", *FAKE, "--results", SHARED, "--nodes", "2:4"])
    assert done.exit_code == 2 and "must be fixed" in done.output


def test_a_results_folder_of_this_machine_alone_is_refused_for_several_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second node would train for an hour, and have nowhere to put its checkpoints."""
    monkeypatch.setattr(job_file, "find_file_system", lambda path: "ext4")
    words = ["slurm", *FAKE, "--results", str(tmp_path), "--nodes", "2"]
    with pytest.raises(RequestError, match="is on ext4, which other nodes do not see"):
        CliRunner().invoke(launch, words, catch_exceptions=False)
    assert CliRunner().invoke(launch, [*words, "--shared"]).exit_code == 0
    monkeypatch.setattr(job_file, "find_file_system", lambda path: "nfs4")
    assert CliRunner().invoke(launch, words).exit_code == 0


def test_the_file_system_is_that_of_the_longest_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"a / ext4 rw 0 0\nb {tmp_path} nfs4 rw 0 0\nc /proc proc rw 0 0\n")
    assert job_file.find_file_system(tmp_path / "none" / "here", mounts) == "nfs4"
    assert job_file.find_file_system(Path("/"), mounts) == "ext4"
    assert job_file.find_file_system(Path("/"), tmp_path / "missing") == ""


def test_a_scheduler_that_is_not_there_is_said_beside_the_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file is for another machine, and stdout has nothing but the file."""
    monkeypatch.setenv("PATH", "/nowhere")
    done = CliRunner().invoke(launch, ["slurm", *FAKE, "--results", SHARED])
    assert (
        done.exit_code == 0
        and done.stdout.startswith("#!/bin/bash")
        and "sbatch is not on this machine" in done.stderr
    )


def test_a_list_of_devices_is_refused() -> None:
    """Each rank would refuse the list, an hour later in the queue."""
    done = CliRunner().invoke(
        launch, ["slurm", "resnet50", "--results", SHARED, "--device", "cuda:0-7"]
    )
    assert done.exit_code == 2
    assert "give --device cuda, and the number of GPUs per machine as --devices" in done.output
