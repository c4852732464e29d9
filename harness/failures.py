"""Reports a failure: one sentence for the user, the traceback in a file. An error of the machine is
told with its limit and the setting that helps.
"""

import errno
import os
import re
import shutil
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.engines.outputs import is_out_of_memory
from suite.errors import FITTING_SETTING_NOTE, JudgedError, MachineError, PodiumError
from suite.files.layout import DISK_FULL_ERRORS, find_existing_parent
from suite.human_numbers import format_whole_digits
from suite.units import MIB

MAX_EXCEPTION_CHARACTERS: Final = 200
"""Characters of an exception's message that a sentence quotes."""
SHARED_MEMORY: Final = Path("/dev/shm")
"""Where PyTorch's data workers put their batches."""
SHARED_MEMORY_ADVICE: Final = "--set data.workers=0, or give it more (docker run --shm-size=1g)"
SHARED_MEMORY_SIGNS: Final = ("unable to allocate shared memory", "out of shared memory")
"""PyTorch: MapAllocator.cpp, and torch/utils/data/_utils/signal_handling.py for a bus error."""
LOST_WORKER: Final = re.compile(
    r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\)"
    r" (?:is killed by signal: (?P<signal>[^.]+)|exited unexpectedly)"
)
"""PyTorch: DataLoader.cpp and torch/utils/data/dataloader.py."""
MEMORY_REQUEST: Final = re.compile(
    r"(?:CUDA|HIP) out of memory\. Tried to allocate [\d.]+ \w+"
    r"|DefaultCPUAllocator: can't allocate memory: you tried to allocate \d+ bytes"
)
"""PyTorch: CUDACachingAllocator.cpp and alloc_cpu.cpp."""
WORKER_TRACEBACK: Final = "Original Traceback (most recent call last):"
"""torch/_utils.py, ExceptionWrapper: a worker's traceback in its error's message."""
EXCEPTION_NAME: Final = re.compile(r"^[A-Za-z_][\w.]*: ", re.MULTILINE)
"""The beginning of an exception below its traceback."""
DISK_FULL_SIGN: Final = re.compile(rf"{os.strerror(errno.ENOSPC)}|os error {errno.ENOSPC}\b")
"""safetensors and other libraries that raise an error of their own."""
FAILED_WRITE: Final = re.compile(
    r"inline_container|iostream error|PytorchStreamWriter|\d requested and \d+ written"
)
"""PyTorch's and NumPy's words for a file that could not be written, without a reason."""
DISK_FULL_BYTES: Final = MIB
"""House rule: a disk with less free space is full."""
TRAINING_BATCH_SETTINGS: Final = (
    "data.micro_batch",
    "data.micro_tokens",
    "global_batch_size",
    "train_batch_size",
)
"""Settings that decide how much memory a training step takes, the first one best."""


def describe_exception(
    error: BaseException, settings: Iterable[str] = (), folder: Path | None = None
) -> str:
    """Describe an exception in one line; `settings` are those that the run knows, `folder` is where
    it writes.
    """
    if isinstance(error, PodiumError):
        return str(error)
    if machine_error := describe_machine_error(error, settings, folder):
        return machine_error
    name = ""
    if WORKER_TRACEBACK not in str(error):
        name = f"{type(error).__name__}: "
    return f"{name}{shorten_message(get_own_message(error))}"


def get_own_message(error: BaseException) -> str:
    """Return an exception's message; of a data worker's, which contains its traceback, the
    worker's exception.
    """
    text = str(error).strip()
    if WORKER_TRACEBACK in text:
        named = list(EXCEPTION_NAME.finditer(text))
    else:
        named = []
    return text[named[-1].start() :] if named else text


def shorten_message(text: str) -> str:
    """Return a message as one line of at most MAX_EXCEPTION_CHARACTERS."""
    line = " ".join(text.split())
    if len(line) <= MAX_EXCEPTION_CHARACTERS:
        return line
    return f"{line[:MAX_EXCEPTION_CHARACTERS].rstrip()}..."


def describe_machine_error(
    error: BaseException, settings: Iterable[str] = (), folder: Path | None = None
) -> str:
    """Describe what the machine lacked, with its limit and the setting that helps; empty if the
    error is not the machine's. See `describe_exception`.
    """
    causes = list(iterate_error_causes(error))
    text = " ".join(str(each) for each in causes)
    if lost_workers := describe_lost_workers(text):
        return lost_workers
    if any(map(is_out_of_memory, causes)):
        known = set(settings)
        names = [name for name in TRAINING_BATCH_SETTINGS if name in known]
        help_words = ""
        if names:
            help_words = f"; a smaller batch needs less: --set {names[0]}=N"
        for note in (note for each in causes for note in getattr(each, "__notes__", ())):
            if note.startswith(FITTING_SETTING_NOTE):
                help_words = f"; {note}"
        return f"memory does not suffice ({describe_memory_request(error)}){help_words}"
    return describe_full_disk(causes, folder)


@contextmanager
def report_trial_failure(name: str, settings: Iterable[str], folder: Path) -> Iterator[None]:
    """Turn an exception of the workload or the machine in a dry run into one sentence; see
    `describe_exception`.
    """
    try:
        yield
    except PodiumError:
        raise
    except Exception as error:
        machine = describe_machine_error(error, settings, folder)
        reason = describe_exception(error, settings, folder)
        raise (MachineError if machine else JudgedError)(
            f"{name}: the dry run failed: {reason}"
        ) from error


def is_data_worker_lost(error: BaseException) -> bool:
    """Return whether data workers died or found no room in /dev/shm: no fault of the run, whose
    weights do not depend on them.
    """
    return bool(describe_lost_workers(" ".join(map(str, iterate_error_causes(error)))))


def describe_lost_workers(text: str) -> str:
    """Describe how data workers were lost, from PyTorch's message; empty if they were not."""
    lost = list(LOST_WORKER.finditer(text))
    died_of = next((each["signal"] for each in lost if each["signal"]), "")
    if any(sign in text for sign in SHARED_MEMORY_SIGNS) or died_of == "Bus error":
        return describe_shared_memory_shortage()
    if not lost:
        return ""
    end = "ended unexpectedly"
    if died_of:
        end = f"was ended by {died_of}"
    why = ""
    if died_of == "Killed":
        why = ", as the system does when memory runs out"
    return f"a data worker {end}{why}; --set data.workers=0 does without"


def describe_full_disk(causes: Iterable[BaseException], folder: Path | None) -> str:
    """Say which file or folder could not be written for lack of space; empty if that is not the
    cause.
    """
    for each in causes:
        if isinstance(each, OSError) and each.errno in DISK_FULL_ERRORS:
            return f"{each.filename or folder or 'output'}: {each.strerror}"
        if DISK_FULL_SIGN.search(str(each)) or (
            folder is not None
            and FAILED_WRITE.search(str(each))
            and shutil.disk_usage(find_existing_parent(folder)).free < DISK_FULL_BYTES
        ):
            return f"{folder or 'output'}: {os.strerror(errno.ENOSPC)}"
    return ""


def describe_shared_memory_shortage() -> str:
    """Say that data workers found no room in /dev/shm, and how large it is."""
    sizes = read_shared_memory_mib()
    size = "which does not exist"
    if sizes:
        size = f"which has {format_whole_digits(sizes[0])} MiB"
    return f"data workers found no room in {SHARED_MEMORY}, {size}; {SHARED_MEMORY_ADVICE}"


def read_shared_memory_mib() -> tuple[float, float] | None:
    """Return the size of /dev/shm and what is free of it, in MiB; None if there is none."""
    try:
        usage = shutil.disk_usage(SHARED_MEMORY)
    except OSError:
        return None
    return usage.total / MIB, usage.free / MIB


def describe_memory_request(error: BaseException) -> str:
    """Return the part of an out-of-memory error that says what was asked for."""
    text = get_own_message(error)
    if isinstance(error, MemoryError):
        return shorten_message(f"{type(error).__name__}: {text}".removesuffix(": "))
    asked = MEMORY_REQUEST.search(text)
    return shorten_message(asked[0] if asked else text)


def iterate_error_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__


def write_traceback(folder: Path, rank: int, error: BaseException) -> str:
    """Write the traceback to a file for debugging; return a sentence that names the file."""
    path = folder / f"traceback-{rank}.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(traceback.format_exception(error)), "utf-8")
    except OSError as problem:
        return f"the traceback could not be kept ({problem.strerror})"
    return f"traceback in {path}"
