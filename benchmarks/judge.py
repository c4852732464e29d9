"""The judge's reading speed: v0.7 training logs, podium against the official checker (PyPI mlperf-logging, ruleset 0.7.0).

Both run in this process, on one core, over the same files, alternated; MB/s of processor time, reading and judging together. Besides:
how long `podium check` takes from the shell on a log of 1 MB, start-up included, and how much memory on one of 1 GB.

Usage: python benchmarks/judge.py [--logs DIR] [--pairs N] [--large-mb N] [--format text|json]
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from figures import compare, show
from mlperf_logging.compliance_checker import mlp_compliance

from compliance.judge import Judge
from compliance.verdict import Verdict

ROUND: Final = "training-v0.7"
RULESET: Final = "0.7.0"
LOGS: Final = Path(os.environ.get("PODIUM_CORPUS", Path(__file__).parents[1].parent / "shared" / "corpus")) / "training_v0.7"
MB: Final = 1e6
SMALL_MB: Final = 1.0
SHELL_RUNS: Final = 15
START_MS: Final = 1_600_000_000_000
HEADER: Final = {"benchmark": "resnet", "org": "Some Org", "division": "closed", "status": "onprem", "platform": "box"}


def ours(logs: Sequence[Path]) -> int:
    """Judge each log, as `podium check` does several; count those that are valid."""
    judge = Judge(ROUND)
    return sum(judge.result(str(log)).verdict is Verdict.VALID for log in logs)


def theirs(logs: Sequence[Path]) -> int:
    """Have the official checker look at each log; count those that it accepts."""
    return sum(accepted(log) for log in logs)


def accepted(log: Path) -> bool:
    """Say what the official checker says; a traceback, after which it would go on with a stale queue, is a refusal."""
    mlp_compliance.enqueued_configs.clear()
    checker = mlp_compliance.make_checker("training", RULESET, True, False)
    try:
        return bool(checker.check_file(str(log), f"training_{RULESET}/common.yaml"))
    except Exception:
        return False


def rate(judge: Callable[[Sequence[Path]], int], logs: Sequence[Path], size_mb: float) -> float:
    """Measure MB per second of processor time."""
    begin = time.process_time()
    judge(logs)
    return size_mb / (time.process_time() - begin)


def lines(size_mb: float) -> Iterator[str]:
    """Make a training log: a header, one run, and in between what other programs print; one line in 33 is a record."""
    yield from (record(number, f"submission_{key}", value) for number, (key, value) in enumerate(HEADER.items()))
    yield from (record(100 + number, key, value) for number, (key, value) in enumerate({"cache_clear": True, "init_start": None, "init_stop": None}.items()))
    yield record(2000, "run_start", None)
    block = "".join(noise(number) for number in range(10_000))
    for number in range(round(size_mb * MB / len(block))):
        yield block
        yield record(3000 + number, "eval_accuracy", 0.1, epoch_num=number + 1)
    yield record(9_000_000, "run_stop", None, status="success")


def record(after_ms: int, key: str, value: object, **metadata: object) -> str:
    """Make one record."""
    document = {"namespace": "", "time_ms": START_MS + after_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value, "metadata": metadata}
    return f":::MLLOG {json.dumps(document)}\n"


def noise(number: int) -> str:
    """Make a line of what fills real logs: a progress bar, a throughput, a process's rank; now and then a record of no weight."""
    if number % 33 == 0:
        return record(2500 + number, "tracked_stats", {"throughput": 1000.0 + number, "loss": 1.0 / (1 + number)}, step=number)
    speed, loss = 1000 + number % 77 + number % 10 / 10, 6.9 - number / 5000
    return f"[1,{number % 8}]<stdout>: Epoch {number % 90} [{number}/10000]  Speed: {speed} samples/sec  loss={loss:.4f}\n"


def write(path: Path, size_mb: float) -> Path:
    """Write such a log."""
    with path.open("w", encoding="utf-8") as stream:
        stream.writelines(lines(size_mb))
    return path


def shell_s(log: Path) -> float:
    """Measure `podium check` from the shell: seconds from start to end."""
    begin = time.perf_counter()
    subprocess.run([podium(), "check", str(log)], stdout=subprocess.DEVNULL, check=False)
    return time.perf_counter() - begin


def peak_mb(log: Path) -> tuple[float, float]:
    """Measure `podium check` of one log: peak of resident memory in MB, and seconds."""
    begin = time.perf_counter()
    child = subprocess.Popen([podium(), "check", str(log)], stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0  # waited for already
    return usage.ru_maxrss * 1024 / MB, time.perf_counter() - begin


def podium() -> str:
    """Find the command beside this interpreter."""
    return str(Path(sys.executable).with_name("podium"))


def arguments() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=Path, default=LOGS, help="a folder of training logs of v0.7, at any depth")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of measurements")
    parser.add_argument("--large-mb", type=float, default=1000.0, help="size of the log that memory is measured on; 0: none")
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    return parser.parse_args()


def main() -> None:
    """Measure everything in one run."""
    given = arguments()
    logs = sorted(given.logs.rglob("result_*.txt"))
    if not logs:
        sys.exit(f"{given.logs}: no training logs in it; name a folder with --logs")
    logging.disable(logging.CRITICAL)  # the official checker tells its findings there
    size_mb = sum(log.stat().st_size for log in logs) / MB
    notes = {"Logs": f"{len(logs)}, {size_mb:.1f} MB; ours finds {ours(logs)} valid, theirs accepts {theirs(logs)}"}  # warm caches on both sides
    pairs = [(rate(ours, logs, size_mb), rate(theirs, logs, size_mb)) for _ in range(given.pairs)]
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        small = write(Path(folder) / "result_0.txt", SMALL_MB)
        seconds = [shell_s(small) for _ in range(SHELL_RUNS)]
        notes["Shell"] = f"podium check, {SMALL_MB:g} MB, start-up included: {statistics.median(seconds):.3f} s (median of {SHELL_RUNS})"
        if given.large_mb:
            peak, took = peak_mb(write(Path(folder) / "result_1.txt", given.large_mb))
            notes["Memory"] = f"podium check, {given.large_mb:g} MB: {peak:.0f} MB resident at its peak, {took:.1f} s"
    mine, other = zip(*pairs, strict=True)
    show("the judge: reading and judging training logs of v0.7", compare(mine, other, "MB/s"), given.form, notes)


if __name__ == "__main__":
    main()
