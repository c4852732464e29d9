"""Errors of the machine: real ones of PyTorch's data workers and allocators, each one sentence."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from namespaces import require_namespaces

from harness import failures
from harness.children.process import describe_child_failure
from harness.failures import describe_exception, describe_machine_error
from suite.errors import MissingError

LONGEST = 300
SMALL_SHM = 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"'
LOADING = """
import torch
from torch.utils.data import DataLoader, Dataset
from harness.failures import describe_exception

class Pictures(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.zeros(3, 64, 64)

try:
    list(DataLoader(Pictures(), batch_size=16, num_workers=2))
except RuntimeError as error:
    print(describe_exception(error))
"""


class Samples:
    """Samples whose reading ends the worker, or fails in it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if self.number:
            os.kill(os.getpid(), self.number)
        raise ValueError("sample 3 is broken\n  in its middle")


def failed(number: int) -> Exception:
    """Return what a data loader raises if a worker ends by a signal; 0: if it raises."""
    from torch.utils.data import DataLoader

    with pytest.raises((RuntimeError, ValueError)) as caught:
        list(DataLoader(Samples(number), num_workers=1))  # type: ignore[arg-type]
    return caught.value


@pytest.mark.slow
def test_data_workers_without_shared_memory_are_told_its_size_and_the_way_out():
    """A container's /dev/shm: PyTorch's own message has 2,000 characters."""
    words = require_namespaces(["unshare", "-rm", "sh", "-c", SMALL_SHM, "sh"])
    done = subprocess.run(
        [*words, sys.executable, "-c", LOADING], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "data workers found no room in /dev/shm, which has 0.0625 MiB; --set data.workers=0, or"
        " give it more (docker run --shm-size=1g)\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "told"),
    [
        (signal.SIGKILL, "a data worker was ended by Killed, as the system does when memory runs"),
        (signal.SIGSEGV, "a data worker was ended by Segmentation fault; --set data.workers=0"),
        (signal.SIGBUS, "data workers found no room in /dev/shm, which has "),
    ],
)
def test_a_worker_that_was_ended_is_the_machines(number: int, told: str):
    said = describe_machine_error(failed(number))
    assert said.startswith(told) and "--set data.workers=0" in said and len(said) < LONGEST


@pytest.mark.slow
def test_a_workers_own_exception_is_told_without_its_traceback():
    """It is no error of the machine, and its traceback stays in the file that the sentence names."""
    error = failed(0)
    assert not describe_machine_error(error)
    assert describe_exception(error) == "ValueError: sample 3 is broken in its middle"


def test_memory_that_does_not_suffice_names_the_batch():
    """On the processor, asked for in truth; on a GPU as PyTorch words it."""
    import torch

    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**52)
    said = describe_machine_error(caught.value, ["global_batch_size", "data.micro_batch"])
    assert "you tried to allocate 18014398509481984 bytes" in said
    assert said.endswith("; a smaller batch needs less: --set data.micro_batch=N")
    gpu = torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of"
        " which 1.00 GiB is free. " + "Including non-PyTorch memory, this process has. " * 9
    )
    assert describe_machine_error(gpu, ["train_batch_size"]) == (
        "memory does not suffice (CUDA out of memory. Tried to allocate 2.00 GiB); a smaller batch"
        " needs less: --set train_batch_size=N"
    )
    assert describe_machine_error(MemoryError()) == "memory does not suffice (MemoryError)"


def test_a_long_message_is_cut(monkeypatch: pytest.MonkeyPatch):
    assert len(describe_exception(ValueError("word " * 1000))) < LONGEST
    monkeypatch.setattr(failures, "SHARED_MEMORY", Path("/nowhere"))
    said = describe_exception(RuntimeError("unable to allocate shared memory(shm) for file"))
    assert said.startswith("data workers found no room in /nowhere, which does not exist; ")


def test_a_full_disk_names_the_place(tmp_path: Path):
    """Python knows the descriptor only, and libraries have words of their own."""
    with pytest.raises(OSError) as caught, Path("/dev/full").open("w") as full:
        full.write("more than there is room for")
    told = f"{tmp_path}: No space left on device"
    assert describe_machine_error(caught.value, folder=tmp_path) == told
    failure = describe_child_failure(caught.value, tmp_path)
    assert failure.error_class is MissingError
    assert failure.sentence == f"the system under test failed: {told}"
    words = "Error while serializing: I/O error: No space left on device (os error 28)"
    assert describe_machine_error(RuntimeError(words), folder=tmp_path) == told
    # a write that failed without a reason, on a disk that has room
    assert not describe_machine_error(OSError("9 requested and 0 written"), folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("size", ["12k", "28k", "44k"])
def test_training_on_a_full_disk_is_the_machines(tmp_path: Path, size: str):
    """Whether the log, the ledger or the weights do not fit: one sentence with the place."""
    script = f'mount -t tmpfs -o size={size} none "$0" && exec "$@"'
    words = require_namespaces(["unshare", "-rm", "sh", "-c", script, str(tmp_path)])
    options = ["--results", str(tmp_path), "--device", "cpu", "--threads", "1", "--power", "off"]
    done = subprocess.run(
        [*words, sys.executable, "-m", "suite.cli", "train", "fake", *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3 and done.stderr.count("\n") == 1, done.stderr
    assert str(tmp_path) in done.stderr and "No space left on device" in done.stderr
