"""Measures the judge's speed on v0.7 and v5.1 training logs against the official checkers (PyPI
mlperf-logging, rulesets 0.7.0 and 5.1.0).

Of v5.1 single logs are judged beside the compliance checker, and whole sets, with seeds and
convergence points, beside the package
checker. Both run in this process, on one core, over the same files, alternated; MB/s of processor
time, reading and judging together.
Of the Endpoints client a simulated run of 100,000 samples is recounted from its events, beside
msgspec's decoder alone, which is the limit; a submission of 32 points to MLPerf Endpoints is judged
beside the official checker (PyPI endpoints-submission-cli, extra `bench`; without it, alone), and
beside the decoders of its JSON and YAML, which are the limit.
Besides: how long `podium check` takes from the shell on a log of 1 MB, start-up included, and how
much memory on one of 1 GB.

Usage: python benchmarks/judge.py [--logs DIR] [--pairs N] [--large-mb N] [--format text|json]
"""

import argparse
import importlib.util
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from common.figures import compare, show
from common.tiny import add_tiny_option, choose_size
from mlperf_logging.compliance_checker import mlp_compliance
from mlperf_logging.package_checker import package_checker

from compliance.judge import Judge
from compliance.kinds.endpoints.documents.events import ClientEvent
from compliance.verdict import Verdict
from suite.files.untrusted_yaml import parse_untrusted_yaml

TESTS: Final = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "compliance" / "builders"), str(TESTS / "shared")]
from kinds.endpoints import Simulated, simulate  # noqa: E402 - from these folders
from kinds.endpoints_curves import Curve, submit  # noqa: E402 - from that folder

ROUND: Final = "training-v0.7"
RULESET: Final = "0.7.0"
CORPUS: Final = Path(
    os.environ.get("PODIUM_CORPUS", Path(__file__).parents[1].parent / "shared" / "corpus")
)
LOGS: Final = CORPUS / "training_v0.7"
LATER: Final = ("training-v5.1", "5.1.0", CORPUS / "training_v5.1")
MB: Final = 1e6
SMALL_MB: Final = choose_size(1.0, 0.1)
SHELL_RUNS: Final = choose_size(15, 1)
CLIENT_SAMPLES: Final = choose_size(100_000, 1_000)
CLIENT_RATE: Final = 2000.0
START_MS: Final = 1_600_000_000_000
HEADER: Final = {
    "benchmark": "resnet",
    "org": "Some Org",
    "division": "closed",
    "status": "onprem",
    "platform": "box",
}


def ours(logs: Sequence[Path], round_name: str = ROUND) -> int:
    """Judge each path, as `podium check` does several; count those that are valid."""
    judge = Judge(round_name)
    return sum(judge.judge_path(str(log)).verdict is Verdict.VALID for log in logs)


def theirs(logs: Sequence[Path], ruleset: str = RULESET) -> int:
    """Run the official checker on each log; count those that it accepts."""
    return sum(accepted(log, ruleset) for log in logs)


def packages(homes: Sequence[Path], ruleset: str) -> int:
    """Run the official package checker on each organisation: its sets, seeds and convergence
    points; count those that it accepts.
    """
    with redirect_stdout(StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sum(
            bool(
                package_checker.check_training_result_files(
                    str(home), "training", ruleset, True, False, False, False, False
                )
            )
            for home in homes
        )


def later(pairs: int) -> dict[str, str]:
    """Compare on v5.1: logs beside the compliance checker, sets beside the package checker; the
    copy takes what that one writes.
    """
    round_name, ruleset, folder = LATER
    with TemporaryDirectory(prefix="podium-benchmark-") as work:
        copy = Path(shutil.copytree(folder, Path(work) / folder.name))
        logs, homes = sorted(copy.rglob("result_*.txt")), sorted(copy.iterdir())
        sets = sorted({log.parent for log in logs})
        size_mb = sum(log.stat().st_size for log in logs) / MB
        single = median_ratio(lambda: ours(logs, round_name), lambda: theirs(logs, ruleset), pairs)
        whole = median_ratio(
            lambda: ours(sets, round_name), lambda: packages(homes, ruleset), pairs
        )
    return {
        "v5.1": (
            f"{len(logs)} logs, {size_mb:.1f} MB: {single:.1f} times the compliance checker; as"
            f" {len(sets)} sets {whole:.1f} times the package checker"
        )
    }


def client_run(pairs: int) -> dict[str, str]:
    """Recount a simulated run of the Endpoints client from its events, beside the decoder alone."""
    pattern = {
        "type": "poisson",
        "target_qps": CLIENT_RATE,
        "target_concurrency": None,
        "use_legacy_loadgen_qps_metrics": True,
    }
    with TemporaryDirectory(prefix="podium-benchmark-") as work:
        run = Path(work) / "run"
        simulate(run, Simulated(samples=CLIENT_SAMPLES, data_set=1000, pattern=pattern))
        path = run / "events.jsonl"
        size_mb, decoder = path.stat().st_size / MB, msgspec.json.Decoder(ClientEvent)

        def decode() -> int:
            with path.open("rb") as stream:
                return sum(1 for line in stream if decoder.decode(line))

        def judge() -> int:
            result = Judge().judge_path(str(run))
            return int(result.verdict is Verdict.VALID)

        if not judge():
            sys.exit("the simulated run is not valid")
        took = statistics.median(taken(judge) for _ in range(pairs))
        least = statistics.median(taken(decode) for _ in range(pairs))
    return {
        "Endpoints": (
            f"{CLIENT_SAMPLES:,} samples, {size_mb:.1f} MB of events: {size_mb / took:.0f} MB/s"
            f" with all rules; the decoder alone {size_mb / least:.0f} MB/s"
        )
    }


def curve(pairs: int) -> dict[str, str]:
    """Judge a submission of 32 points beside the official checker, and beside its decoders."""
    fixed = (1, 6, 16, 30, *range(40, 256, 8))[:30]
    made = Curve(concurrencies=(*fixed, 256), offline="dedicated")
    with TemporaryDirectory(prefix="podium-benchmark-") as work:
        root = Path(work) / "acme" / "s1"
        submit(root, made)
        files = [path for path in root.rglob("*") if path.suffix in (".json", ".yaml")]

        def judge() -> int:
            return int(Judge().judge_path(str(root)).verdict is Verdict.VALID)

        def decode() -> int:
            return sum(
                bool(
                    msgspec.json.decode(path.read_bytes())
                    if path.suffix == ".json"
                    else parse_untrusted_yaml(path.read_bytes())
                )
                for path in files
            )

        if not judge():
            sys.exit("the simulated submission is not valid")
        took, least = (
            statistics.median(taken(work) for _ in range(pairs)) for work in (judge, decode)
        )
        points = len(list(root.rglob("point.yaml")))
        text = f"{points} points in {took:.2f} s, the decoders alone {least:.2f} s"
        if importlib.util.find_spec("submission_checker") is None:
            return {"Curve": f"{text}; endpoints-submission-cli is not installed"}
        from submission_checker.checker import SubmissionChecker

        ratio = median_ratio(judge, lambda: bool(SubmissionChecker(root).run()), pairs)
    return {"Curve": f"{text}; {ratio:.1f} times endpoints-submission-cli"}


def median_ratio(mine: Callable[[], int], other: Callable[[], int], pairs: int) -> float:
    """Measure how many times as long the other side takes, in processor time, alternating."""
    mine(), other()
    return statistics.median(taken(other) / taken(mine) for _ in range(pairs))


def taken(work: Callable[[], int]) -> float:
    """Measure seconds of processor time."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def accepted(log: Path, ruleset: str = RULESET) -> bool:
    """Return whether the official checker accepts a log. A traceback, after which it would continue
    with a stale queue, counts as a rejection.
    """
    mlp_compliance.enqueued_configs.clear()
    checker = mlp_compliance.make_checker("training", ruleset, True, False)
    try:
        return bool(checker.check_file(str(log), f"training_{ruleset}/common.yaml"))
    except Exception:
        return False


def rate(judge: Callable[[Sequence[Path]], int], logs: Sequence[Path], size_mb: float) -> float:
    """Measure MB per second of processor time."""
    begin = time.process_time()
    judge(logs)
    return size_mb / (time.process_time() - begin)


def lines(size_mb: float) -> Iterator[str]:
    """Make a training log: a header, one run, and in between what other programs print; one line in
    33 is a record.
    """
    yield from (
        record(number, f"submission_{key}", value)
        for number, (key, value) in enumerate(HEADER.items())
    )
    yield from (
        record(100 + number, key, value)
        for number, (key, value) in enumerate(
            {"cache_clear": True, "init_start": None, "init_stop": None}.items()
        )
    )
    yield record(2000, "run_start", None)
    block = "".join(noise(number) for number in range(10_000))
    for number in range(round(size_mb * MB / len(block))):
        yield block
        yield record(3000 + number, "eval_accuracy", 0.1, epoch_num=number + 1)
    yield record(9_000_000, "run_stop", None, status="success")


def record(after_ms: int, key: str, value: object, **metadata: object) -> str:
    """Make one record."""
    document = {
        "namespace": "",
        "time_ms": START_MS + after_ms,
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": metadata,
    }
    return f":::MLLOG {json.dumps(document)}\n"


def noise(number: int) -> str:
    """Make a line of what fills real logs: a progress bar, a throughput, a process's rank; now and
    then a record of no weight.
    """
    if number % 33 == 0:
        return record(
            2500 + number,
            "tracked_stats",
            {"throughput": 1000.0 + number, "loss": 1.0 / (1 + number)},
            step=number,
        )
    speed, loss = 1000 + number % 77 + number % 10 / 10, 6.9 - number / 5000
    return (
        f"[1,{number % 8}]<stdout>: Epoch {number % 90} [{number}/10000]  Speed: {speed}"
        f" samples/sec  loss={loss:.4f}\n"
    )


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
    parser.add_argument(
        "--logs", type=Path, default=LOGS, help="folder with v0.7 training logs, at any depth"
    )
    parser.add_argument(
        "--pairs", type=int, default=choose_size(5, 1), help="pairs of measurements"
    )
    add_tiny_option(parser)
    parser.add_argument(
        "--large-mb",
        type=float,
        default=choose_size(1000.0, 1.0),
        help="size of the log for the memory measurement; 0: skip it",
    )
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    return parser.parse_args()


def main() -> None:
    """Measure everything in one run."""
    given = arguments()
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        if given.tiny:
            write(Path(folder) / "result_0.txt", SMALL_MB)
        measure(given, Path(folder) if given.tiny else given.logs)


def measure(given: argparse.Namespace, folder: Path) -> None:
    """Measure on the logs of a folder."""
    logs = sorted(folder.rglob("result_*.txt"))
    if not logs:
        sys.exit(f"{folder}: contains no training logs; specify a folder with --logs")
    logging.disable(logging.CRITICAL)  # the official checker tells its findings there
    size_mb = sum(log.stat().st_size for log in logs) / MB
    notes = {
        "Logs": (
            f"{len(logs)}, {size_mb:.1f} MB; ours finds {ours(logs)} valid, theirs accepts"
            f" {theirs(logs)}"
        )
    }  # warm caches on both sides
    pairs = [(rate(ours, logs, size_mb), rate(theirs, logs, size_mb)) for _ in range(given.pairs)]
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        small = write(Path(folder) / "result_0.txt", SMALL_MB)
        seconds = [shell_s(small) for _ in range(SHELL_RUNS)]
        notes["Shell"] = (
            f"podium check, {SMALL_MB:g} MB, start-up included: {statistics.median(seconds):.3f} s"
            f" (median of {SHELL_RUNS})"
        )
        if given.large_mb:
            peak, took = peak_mb(write(Path(folder) / "result_1.txt", given.large_mb))
            notes["Memory"] = (
                f"podium check, {given.large_mb:g} MB: {peak:.0f} MB resident at its peak,"
                f" {took:.1f} s"
            )
    if LATER[2].is_dir() and not given.tiny:
        notes |= later(given.pairs)
    notes |= client_run(given.pairs)
    notes |= curve(given.pairs)
    mine, other = zip(*pairs, strict=True)
    show(
        "the judge: reading and judging training logs of v0.7",
        compare(mine, other, "MB/s"),
        given.form,
        notes,
    )


if __name__ == "__main__":
    main()
