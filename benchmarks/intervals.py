"""Measures the coverage of podium's 95 % intervals on the runs of published run sets.

The runs of all sets of a workload are divided by their set's mean and pooled; sets of as many runs
as the round asks for are drawn from the pool
with replacement, and their intervals (submissions/compare/intervals.py) are held against the mean
of such sets. The pool has the sets that podium has rows of (suite/rounds/published) and, with
--logs, those below that folder; what the logs alone give stands beside it: where they are few sets,
a pool of them is a coarse image of how runs spread. Beside all runs on logarithms, as podium takes
them, stands the spread of the trimmed runs, which is what a mean without the fastest and the
slowest suggests. The ratio is the smallest coverage of a workload / 0.90. What the sets below
--logs take to be read, judged and compared with one another is measured, too.

    python benchmarks/intervals.py --logs ../shared/corpus --format json
"""

import argparse
import json
import math
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from common.figures import hardware
from common.tiny import add_tiny_option, choose_size

from submissions.compare.compared_results import judge_compared_results
from submissions.compare.comparison import compare_results
from submissions.published_rows import MIN_OLYMPIC_RUNS, read_published_rows
from suite.measurement import student
from suite.measurement.intervals import Interval, estimate_value_interval
from suite.measurement.metrics import TIME_TO_TRAIN, compute_olympic_mean
from suite.result import Result

CONFIDENCE: Final = 0.95
AIM: Final = 0.90
RUNS: Final = {"resnet50": 5, "ssd": 5, "maskrcnn": 5, "gnmt": 10, "transformer": 10}
"""Of a set. Source: training_rules.adoc v0.6 and v0.7, Benchmark Results."""
SEED: Final = 18
ROUNDS: Final = ("training-v0.6", "training-v0.7")
STRAY: Final = 10.0
"""Times the fastest run of a set: one published set has a run of 922 minutes beside four of 0.46,
which is no spread of training.
"""
TRUTH: Final = 10
"""How many times as many sets are drawn for the mean as for the intervals."""

Sets = Mapping[tuple[str, str, str, str], Sequence[float | None]]
Method = Callable[[float, Sequence[float]], Interval | None]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--logs",
        type=Path,
        help="folder with published results, as their repositories lay them out (default: none,"
        " the sets alone that podium has rows of)",
    )
    parser.add_argument(
        "--draws", type=int, default=choose_size(6_000, 20), help="sets drawn per workload"
    )
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    add_tiny_option(parser)
    return parser.parse_args()


def trees(logs: Path) -> list[Path]:
    """The rounds whose times compare, v0.6 and v0.7, or the folder itself."""
    return [
        found for name in ("training_v0.6", "training_v0.7") if (found := logs / name).is_dir()
    ] or [logs]


def read_sets(sides: Iterable[Result]) -> Sets:
    """Read the sets: (round, organisation, system, workload) -> runs."""
    scores = [each for each in sides if each.metric == TIME_TO_TRAIN]
    return {(each.round, each.org, each.system, each.workload): each.runs for each in scores}


def row_sets() -> Sets:
    """Return the sets that podium has rows for."""
    return {
        (row.round, row.org, row.system, row.workload): row.runs
        for name in ROUNDS
        for row in read_published_rows(name)
    }


def pools(sets: Sets) -> dict[str, list[float]]:
    """Workload -> the runs of its sets, each divided by the mean of its set; left out are sets with
    a run that missed or that fell out of time.
    """
    found: dict[str, list[float]] = {}
    for (_, _, _, workload), runs in sorted(sets.items()):
        timed = [run for run in runs if run is not None]
        if (
            workload in RUNS
            and len(timed) == len(runs) >= MIN_OLYMPIC_RUNS
            and max(timed) < STRAY * min(timed)
        ):
            found.setdefault(workload, []).extend(run / statistics.fmean(timed) for run in timed)
    return found


def trimmed(value: float, runs: Sequence[float]) -> Interval | None:
    """What the runs that a mean keeps suggest."""
    kept = sorted(runs)[1:-1]
    width = (
        student.compute_t_quantile(0.5 + CONFIDENCE / 2, len(kept) - 1)
        * statistics.stdev(kept)
        / math.sqrt(len(kept))
    )
    return Interval(low=value - width, high=value + width)


def ours(value: float, runs: Sequence[float]) -> Interval | None:
    return estimate_value_interval(value, runs, CONFIDENCE)


def coverage(pool: Sequence[float], runs: int, draws: int, method: Method) -> tuple[float, float]:
    """Share of the intervals that hold the mean, and their median half width as a share of the
    value; an interval of equal runs is a point.
    """
    draw = random.Random(SEED)
    truth = statistics.fmean(mean_of(draw.choices(pool, k=runs)) for _ in range(TRUTH * draws))
    held, widths = 0, []
    for _ in range(draws):
        drawn = draw.choices(pool, k=runs)
        value = mean_of(drawn)
        found = method(value, drawn) or Interval(low=value, high=value)
        held += found.low <= truth <= found.high
        widths.append((found.high - found.low) / 2 / value)
    return held / draws, statistics.median(widths)


def mean_of(runs: Sequence[float]) -> float:
    """The mean of a set as rounds take it."""
    value = compute_olympic_mean(runs, MIN_OLYMPIC_RUNS)
    assert value is not None
    return value


def measured(pool: Sequence[float], runs: int, draws: int) -> dict[str, float]:
    """One workload."""
    share, width = coverage(pool, runs, draws, ours)
    return {
        "coverage": share,
        "half_width": width,
        "coverage_of_trimmed_runs": coverage(pool, runs, draws, trimmed)[0],
        "pool": len(pool),
        "runs": runs,
    }


def compared(paths: Sequence[Path]) -> tuple[list[Result], float]:
    """Read and compare everything; the seconds that it took."""
    begun = time.perf_counter()
    sides = judge_compared_results(paths, [])
    compare_results(sides, [str(path) for path in paths])
    return sides, time.perf_counter() - begun


def show(found: Mapping[str, Mapping[str, float]], sums: Mapping[str, object], form: str) -> None:
    if form == "json":
        print(json.dumps({**sums, "workloads": found}))
        return
    for name, each in found.items():
        print(
            f"  {name:<18} {each['coverage']:.3f} +-{100 * each['half_width']:.1f} %,"
            f" {each['pool']} runs pooled"
        )
        print(
            f"  {'':<18} of trimmed runs {each['coverage_of_trimmed_runs']:.3f}; pool of these logs"
            f" alone {each.get('logs_alone', math.nan):.3f}"
        )
    for name, value in sums.items():
        print(f"  {name:<18} {value}")


def main() -> None:
    given = arguments()
    sides, seconds = compared(trees(given.logs)) if given.logs else ([], 0.0)
    logged = read_sets(sides)
    if given.logs and not logged:
        sys.exit(f"{given.logs}: contains no run sets")
    alone = {
        name: coverage(pool, RUNS[name], given.draws, ours)[0]
        for name, pool in pools(logged).items()
    }
    found = {
        name: measured(pool, RUNS[name], given.draws)
        for name, pool in sorted(pools({**row_sets(), **logged}).items())
    }
    for name, share in alone.items():
        found[name]["logs_alone"] = share
    smallest = min(each["coverage"] for each in found.values())
    sums = {
        "ratio": smallest / AIM,
        "smallest_coverage": smallest,
        "smallest_of_logs_alone": min(alone.values(), default=None),
        "n": given.draws,
        "sets_read": len(logged),
        "compare_s": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "hardware": hardware(),
    }
    show(found, sums, given.form)


if __name__ == "__main__":
    main()
