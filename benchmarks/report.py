"""Measures `podium report` and `podium publish`: `python benchmarks/report.py --bundle BUNDLE
[--runs 5]`.

Three rows: the page of a real bundle; the page of the same results with a record of 1,000,000
queries; a site of 50 bundles, the same one packed under 50 nonces: read, judged and drawn in full,
then left out, since their LoadGen seeds are those of another nonce. Each in a process of its own,
so that start-up and memory count. Time is wall clock and processor time, memory the largest
resident set.
"""

import argparse
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from common.tiny import TINY, add_tiny_option, choose_size
from fuzzing.seeds import made

from compliance.bundle.archive import unpack_bundle
from submissions.pack.bundle import BUNDLE_SUFFIX
from submissions.pack.manifest import build_bundle_manifest
from submissions.pack.seal import write_bundle
from submissions.result_index import find_results
from suite.files.layout import MANIFEST_FILE, QUERY_RECORD_FILE
from suite.loadgen.query_record import QUERY_RECORD_FIELDS

QUERIES_LARGE: Final = choose_size(1_000_000, 1_000)
BUNDLES: Final = choose_size(50, 2)
KIB_PER_MIB: Final = 1024
NONCE: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of one process."""

    wall_s: float
    cpu_s: float
    memory_mib: float


def main() -> None:
    """Measure, and print one line per row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, required=not TINY, help="a bundle of a real run")
    add_tiny_option(parser)
    parser.add_argument("--runs", type=int, default=choose_size(5, 1))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bundle = options.bundle or make_tiny_bundle(folder)
        page, large, site = folder / "page.html", folder / "large", folder / "site"
        tell(
            "page of the bundle",
            [measured("report", bundle, "-o", page) for _ in range(options.runs)],
            page.stat().st_size,
        )
        many_queries(bundle, large)
        tell(
            f"page with {QUERIES_LARGE:,} queries",
            [measured("report", large, "-o", page) for _ in range(options.runs)],
            page.stat().st_size,
        )
        bundles = list(campaigns(bundle, folder / "bundles"))
        costs = [
            measured("publish", *bundles, "-o", site) for _ in range(max(1, options.runs // 5))
        ]
        tell(f"site of {BUNDLES} bundles", costs, (site / "index.html").stat().st_size)


def make_tiny_bundle(folder: Path) -> Path:
    """Run a campaign of the workload for tests; return its bundle."""
    (bundle,) = (made(folder / "results") / "bundles").glob(f"*{BUNDLE_SUFFIX}")
    return bundle


def measured(*words: object) -> Cost:
    """Run a command of podium to its end."""
    started = time.monotonic()
    command = [sys.executable, "-c", "from suite.cli import main; main()", *map(str, words)]
    pid = os.posix_spawn(
        command[0],
        command,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)
        ],
    )
    _, status, used = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (
        0,
        1,
    ):  # 1: a copy with other records need not be compliant
        sys.exit(f"podium {words[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return Cost(
        wall_s=time.monotonic() - started,
        cpu_s=used.ru_utime + used.ru_stime,
        memory_mib=used.ru_maxrss / KIB_PER_MIB,
    )


def many_queries(bundle: Path, folder: Path) -> None:
    """Unpack a bundle, and add a record of many queries to its Server run, or else to its first
    run.
    """
    unpack_bundle(bundle, folder)
    (folder / MANIFEST_FILE).unlink()
    runs = sorted(
        folder.glob("*/*/results/*/*/*/performance/run_1"), key=lambda run: "Server" not in str(run)
    )
    rng = np.random.default_rng(1)
    rows = np.zeros(QUERIES_LARGE, dtype=list(QUERY_RECORD_FIELDS))
    rows["issued_ns"] = 1_000_000_000 + np.cumsum(rng.exponential(1e5, QUERIES_LARGE)).astype(
        np.int64
    )
    rows["done_ns"] = rows["issued_ns"] + rng.lognormal(15, 0.6, QUERIES_LARGE).astype(np.int64)
    rows["batch"], rows["samples"] = np.arange(QUERIES_LARGE) // 8, 1
    np.save(runs[0] / QUERY_RECORD_FILE, rows)


def campaigns(bundle: Path, folder: Path) -> Iterator[Path]:
    """Pack a bundle's results under other nonces. Their seeds no longer fit, so that they are
    judged in full and then left out.
    """
    tree = folder / "tree"
    unpack_bundle(bundle, tree)
    (tree / MANIFEST_FILE).unlink()
    nonce = next(
        NONCE.finditer(
            next(tree.glob("checkpoints/*/*/record.json"))
            .read_text("utf-8")
            .partition('"nonce"')[2]
        )
    )[0]
    for number in range(BUNDLES):
        made = folder / f"tree-{number}"
        shutil.copytree(tree, made)
        for path in made.rglob("*"):
            if path.is_file() and path.suffix in (".json", ".txt"):
                path.write_text(path.read_text("utf-8").replace(nonce, f"{number:032x}"), "utf-8")
        manifest, sources = build_bundle_manifest(find_results(made))
        target = folder / f"{number}.tar.zst"
        write_bundle(target, manifest, sources)
        yield target


def tell(name: str, costs: Sequence[Cost], size: int) -> None:
    """Print the medians."""
    wall, cpu, memory = (
        statistics.median(getattr(cost, field) for cost in costs)
        for field in ("wall_s", "cpu_s", "memory_mib")
    )
    print(
        f"{name}: {wall:.2f} s, {cpu:.2f} s of processor time, {memory:.0f} MiB, {size / 1000:.0f}"
        f" kB, n = {len(costs)}",
        flush=True,
    )


if __name__ == "__main__":
    main()
