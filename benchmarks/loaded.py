"""Counts LoadGen runs next to intermittent busy loops that end without a verdict, are INVALID, or
were repeated.

Each run is what `podium infer fake --scenario S --mode performance` does, on the tests' fake
workload with some work to do for an answer: a look at the system, then LoadGen. Loops take the
cores for a while and leave them alone for a while, so that a look sees a slow machine and its run a
fast one, and the other way round. Each loop ends by itself.

Usage: python benchmarks/loaded.py [--runs N] [--loops N] [--seed N] [--format text|json]
"""

import argparse
import json
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "fakes"))

from common.tiny import add_tiny_option, choose_size  # noqa: E402
from podium_fakes import busy  # noqa: E402
from podium_fakes.drive import entry, options  # noqa: E402
from podium_fakes.kept import keep_ceiling, keep_checkpoint, verdict_of  # noqa: E402

from harness.machine.system_description import read_cpu_model  # noqa: E402
from harness.serving.infer import serve_workload  # noqa: E402
from suite.loadgen.scenario import Scenario  # noqa: E402

BURST_S: Final = choose_size((0.3, 3.0), (0.2, 0.2))
"""Loops run for so long, and then nothing does: shorter and longer than a look, and than a run."""
MIN_DURATION_MS: Final = choose_size(1000, 100)
WORK_KIB: Final = 256
"""Hashed for an answer: some tenths of a millisecond of a core."""
AGAIN: Final = "repeating with"
ENDED: Final = "ended"


@contextmanager
def loaded(loops: int, seed: int) -> Iterator[None]:
    """Start up to so many busy loops at a time, again and again, while the block lasts."""
    over = threading.Event()
    thread = threading.Thread(target=disturb, args=(over, loops, random.Random(seed)))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def disturb(over: threading.Event, loops: int, drawn: random.Random) -> None:
    """Take the cores for a while, leave them alone for a while."""
    while not over.is_set():
        busy_s, free_s = drawn.uniform(*BURST_S), drawn.uniform(*BURST_S)
        started = [busy.start(busy_s) for _ in range(drawn.randint(1, loops))]
        over.wait(busy_s + free_s)
        for loop in started:
            loop.wait()


def serve_once(scenario: Scenario) -> tuple[str, int, str]:
    """Serve in one scenario; give its verdict or that it ended without one, how often the run was
    done again, and the error.
    """
    said, error = StringIO(), ""
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        results, asked = (
            Path(folder),
            (
                f"loadgen.min_duration_ms={MIN_DURATION_MS}",
                f"fake.work_kib={WORK_KIB}",
            ),
        )
        keep_checkpoint(results)
        try:
            with redirect_stdout(said):
                serve_workload(
                    "fake",
                    options(results, *asked),
                    scenarios=(scenario,),
                    mode="performance",
                    checkpoint=None,
                )
        except Exception as raised:  # whatever it is: it is counted
            error = f"{type(raised).__name__}: {raised}"
        kept = entry(results).locate_performance_run("fake", scenario)
        verdict = verdict_of(kept) if (kept / "run.json").is_file() else ENDED
    wrong = error and (verdict != "INVALID" or "is INVALID" not in error)
    return ENDED if wrong else verdict, said.getvalue().count(AGAIN), error


def measure(runs: int, loops: int, seed: int) -> dict[str, object]:
    """Do the runs, one after another, over all scenarios."""
    found: Counter[str] = Counter()
    errors: list[str] = []
    with TemporaryDirectory(prefix="podium-benchmark-") as cache, loaded(loops, seed):
        os.environ["PODIUM_CACHE"] = cache
        keep_ceiling(Path(cache))
        for scenario in islice(cycle(Scenario), runs):
            verdict, again, error = serve_once(scenario)
            found.update({f"{scenario.value} {verdict}": 1, verdict: 1, "retried": again > 0})
            errors += [f"{scenario.value}: {error}"] if verdict == ENDED else []
    hardware = f"{read_cpu_model()}, {len(os.sched_getaffinity(0))} cores, up to {loops} busy loops"
    own = {key: found[key] for key in sorted(found) if " " in key}
    figures = {
        "ends": found[ENDED],
        "valid": found["VALID"],
        "invalid": found["INVALID"],
        "retried": found["retried"],
    }
    return {"runs": runs, **figures, "errors": errors, "by_scenario": own, "hardware": hardware}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    parser.add_argument(
        "--runs",
        type=int,
        default=choose_size(100, 4),
        help="LoadGen runs, over four scenarios in turns",
    )
    parser.add_argument(
        "--loops",
        type=int,
        default=choose_size(2 * len(os.sched_getaffinity(0)), 1),
        help="busy loops at a time, at most",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the times at which loops come and go"
    )
    add_tiny_option(parser)
    given = parser.parse_args()
    figures = measure(given.runs, given.loops, given.seed)
    if given.form == "json":
        print(json.dumps(figures))
        return
    print("LoadGen runs beside busy loops that come and go")
    for key, value in figures.items():
        print(f"  {key:<14} {value}")


if __name__ == "__main__":
    main()
