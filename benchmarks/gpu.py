"""Measures on one GPU what podium's workloads reach at full size, beside other programs that do the
same, in two parts of less than four minutes each.

    python benchmarks/gpu.py --part a --limit 225 --out DIR
    python benchmarks/gpu.py --part b --limit 225 --out DIR

Part a trains on images (ResNet-50, SSD, Mask R-CNN; torchvision's reference loops beside them),
part b serves ResNet-50 (timm beside it) and translates (transformers beside it). Every item is a
process of its own with a limit of its own; what it measures is in DIR/ITEM.json at once, what it
prints in DIR/ITEM.log. The most important items come first. A table ends the run: each value with
the range that benchmarks/results/gpu-predictions.md predicted, its share of the rate at which
arithmetic or memory would be busy throughout, and the operations of a step for which the host
waited. Below it stand the ratios that the project aims at, and what was not measured.

--tiny measures tiny shapes, on a CPU too: it shows that everything runs, and nothing about speed.

Exit codes: 0 all was measured (a peer whose package is not installed is named, and is no failure);
1 an item or a variant failed, a limit cut it, or a file of DIR could not be written; 2 the command
is wrong; 130, 143 or 129 interrupted by SIGINT, SIGTERM or SIGHUP, with what was measured until
then.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Final

from gpu_shared import goals
from gpu_shared.catalogue import ITEMS, Item, list_items
from gpu_shared.lines import ItemResult, format_results, locate_item_file, read_item, write_item
from gpu_shared.workbench import Workbench, describe_error

from suite.process.signals import Interrupted, Signals, raise_signals_in_block

LEAST_S: Final = 3.0
"""Less is left than any item needs: it is cut."""
TINY_LIMIT_S: Final = 120.0
"""An item's limit where a CPU is shared with other programs."""
GOALS_FILE: Final = "goals.json"
TINY_NOTE: Final = "tiny shapes: nothing here tells about speed"
NO_GPU_ADVICE: Final = "this machine has no GPU that PyTorch can use; --tiny runs on a CPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The run."""

    items: tuple[Item, ...]
    limit_s: float
    out: Path
    tiny: bool


def main() -> int:
    asked = read_request()
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        return measure_items(asked, Path(folder))


def read_request() -> Asked:
    """Read the command line; the program ends with 2 if it is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [item.name for item in ITEMS]
    parser.add_argument("--part", choices=["a", "b"], required=True)
    parser.add_argument("--limit", type=float, default=225.0, help="seconds for all items together")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument(
        "--only", action="append", default=[], metavar="ITEM", choices=names, help="repeatable"
    )
    parser.add_argument("--tiny", action="store_true", help="tiny shapes, on a CPU too")
    given = parser.parse_args()
    items = list_items(given.part, tuple(given.only))
    if not given.limit > 0:  # nan, too
        parser.error("--limit must be positive")
    if not items:
        parser.error(f"part {given.part} has none of {', '.join(given.only)}")
    try:
        given.out.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=given.out).close()
    except OSError as error:
        parser.error(f"--out {given.out}: {error.strerror}")
    return Asked(items=items, limit_s=given.limit, out=given.out, tiny=given.tiny)


def measure_items(asked: Asked, data: Path) -> int:
    """Run the items one after another, and print what they measured; the exit code."""
    os.environ["PODIUM_CACHE"] = str(data / "cache")
    # the process that items are forked from does not take over sys.path before Python 3.13
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    # a process that has asked CUDA itself for its GPUs cannot be forked
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    if asked.tiny:
        os.environ["TORCH_COMPILE_DISABLE"] = "1"  # compiling tiny networks takes minutes
    ended_s = time.monotonic() + asked.limit_s
    results: list[ItemResult] = []
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["gpu_items.preloaded"])
    try:
        with raise_signals_in_block() as signals:
            for item in asked.items:
                locate_item_file(asked.out, item.name).unlink(missing_ok=True)
            for item in asked.items:
                process = context.Process(target=run_item, args=(item, asked, data))
                results.append(measure_item(process, item, asked, signals, ended_s))
                print(describe_end(results[-1]), flush=True)
    except Interrupted as interruption:
        for item in asked.items[len(results) : len(results) + 1]:
            results.append(end_item(asked, item, "interrupted", 0.0))
        finish_run(asked, results)
        return interruption.exit_code
    return finish_run(asked, results)


def measure_item(
    process: BaseProcess, item: Item, asked: Asked, signals: Signals, ended_s: float
) -> ItemResult:
    """Run an item in its process; its file, completed by why it ended if it did so early."""
    left_s = ended_s - time.monotonic()
    if left_s < LEAST_S:
        return end_item(asked, item, f"cut: {max(left_s, 0):.0f} s of --limit were left", 0.0)
    with signals.postpone():  # a process that is half started could not be ended
        process.start()  # the first waits for what all are forked from
    began_s = time.monotonic()
    own_limit_s = TINY_LIMIT_S if asked.tiny else item.limit_s
    limit_s = max(0.0, min(own_limit_s, ended_s - began_s))
    try:
        signals.raise_received()
        process.join(limit_s)
    finally:
        was_running = process.is_alive()
        end_process_group(process)
    result = read_item(asked.out, item.name)
    seconds = time.monotonic() - began_s
    if was_running:
        whose = "its limit" if limit_s == own_limit_s else "--limit"
        return end_item(asked, item, f"cut by {whose} after {seconds:.0f} s", seconds)
    if result is None or not (result.complete or result.problem):
        return end_item(asked, item, describe_exit(process.exitcode), seconds)
    return result


def end_item(asked: Asked, item: Item, problem: str, seconds: float) -> ItemResult:
    """Write why an item ended early into its file; what it measured before stays."""
    before = read_item(asked.out, item.name) or ItemResult(
        item=item.name, complete=False, problem="", seconds=0.0, lines=()
    )
    result = replace(before, complete=False, problem=problem, seconds=seconds)
    try:
        write_item(asked.out, result)
    except OSError as error:  # a full disk: the table shows what was measured all the same
        path = locate_item_file(asked.out, item.name)
        return replace(result, problem=f"{problem}; {path} cannot be written: {error.strerror}")
    return result


def end_process_group(process: BaseProcess) -> None:
    """End an item with the loader processes that it started."""
    if process.pid is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()  # before it has a group of its own
    process.join()


def describe_exit(code: int | None) -> str:
    """Say how a process ended that reported nothing."""
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process ended with code {code}"


def run_item(item: Item, asked: Asked, data: Path) -> None:
    """Measure an item, in a process of its own."""
    os.setsid()  # a group of its own, so that its loader processes can be ended with it
    threading.Thread(target=end_group_with_parent, daemon=True).start()
    multiprocessing.set_start_method("fork", force=True)  # for loaders, as in other programs
    with write_output_to(asked.out / f"{item.name}.log"):
        bench = Workbench(
            item=item.name, device="", tiny=asked.tiny, data=data, out=asked.out, card=""
        )
        try:
            choose_device(bench)
            item.load_function()(bench)
        except Exception as error:  # any library's error is this item's result
            traceback.print_exc()
            bench.write(complete=False, problem=describe_error(error))
            sys.exit(1)
        bench.write(complete=True, problem="")


def end_group_with_parent() -> None:
    """End this item and its loaders when the run is gone, however it ended: they would keep the
    GPU.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.killpg(0, signal.SIGKILL)


def choose_device(bench: Workbench) -> None:
    """Take the GPU; RuntimeError if there is none and the shapes are not tiny."""
    import torch

    if torch.cuda.is_available():
        bench.device, bench.card = "cuda", torch.cuda.get_device_name()
    elif bench.tiny:
        bench.device, bench.card = "cpu", "CPU"
        torch.set_num_threads(1)
    else:
        raise RuntimeError(NO_GPU_ADVICE)


@contextmanager
def write_output_to(path: Path) -> Iterator[None]:
    """Send this process's output, and that of its children, to a file."""
    with path.open("w") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
        yield
        sys.stdout.flush()


def describe_end(result: ItemResult) -> str:
    """Say in one line how an item ended."""
    end = "done" if result.complete else result.problem
    return f"{result.item}: {end}, {len(result.lines)} lines, {result.seconds:.1f} s"


def finish_run(asked: Asked, results: Sequence[ItemResult]) -> int:
    """Print the summary and write the goals; the exit code."""
    reached = [] if asked.tiny else goals.compare_with_goals(results)
    print_summary(asked, results, reached)
    path = asked.out / GOALS_FILE
    table = [{"goal": goal.name, "value": goal.value, "met": goal.met} for goal in reached]
    try:
        path.write_text(json.dumps(table, indent=1) + "\n")
    except OSError as error:
        print(f"\n{path} cannot be written: {error.strerror}")
        return 1
    return int(any(result.has_failed for result in results))


def print_summary(
    asked: Asked, results: Sequence[ItemResult], reached: Sequence[goals.ReachedGoal]
) -> None:
    """Print the table, the goals, and what was not measured."""
    print()
    print(format_results(results))
    if reached:
        print(f"\n{goals.format_goals(reached)}")
    begun = {result.item for result in results}
    missing = [f"{result.item} ({result.problem})" for result in results if not result.complete]
    missing += [f"{item.name} (not begun)" for item in asked.items if item.name not in begun]
    if missing:
        print(f"\nnot measured, or not to the end: {'; '.join(missing)}")
    if asked.tiny:
        print(f"\n{TINY_NOTE}")


if __name__ == "__main__":
    sys.exit(main())
