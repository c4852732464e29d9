"""A results folder and a bundle that the judge accepts, with records of queries and telemetry as
the harness writes them.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from submissions.pack.bundle import pack_results
from suite.files.layout import QUERY_RECORD_FILE, TELEMETRY_FILE
from suite.loadgen.query_record import QUERY_RECORD_FIELDS

TREE = Path(__file__).resolve().parents[2] / "examples" / "base" / "tree"
FIRST_NS = 5_000_000_000
UTC_NS = 1_795_000_000_000_000_000
RUN = "open/acme/results/box-torch-fp32/resnet50/SingleStream/performance/run_1"
LOG = "open/acme/results/box-torch-bf16/resnet/result_0.txt"

Write = Callable[[Path, int], None]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the results folder, to be changed."""
    return Path(shutil.copytree(TREE, tmp_path / "results"))


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder, sealed."""
    return pack_results(TREE, tmp_path_factory.mktemp("bundle") / "mine.tar.zst")


@pytest.fixture
def recorded(tree: Path) -> Path:
    """The results folder with records beside its LoadGen run."""
    write_queries(tree / RUN / QUERY_RECORD_FILE, 500)
    write_telemetry(tree / RUN / TELEMETRY_FILE, 30)
    return tree


def write_queries(path: Path, count: int) -> None:
    """Write a record of queries of 2 ms, the slowest 9 ms, one in each batch."""
    rows = np.zeros(count, dtype=list(QUERY_RECORD_FIELDS))
    rows["issued_ns"] = FIRST_NS + np.arange(count) * 10_000_000
    rows["done_ns"] = rows["issued_ns"] + 2_000_000
    rows["done_ns"][-1] += 7_000_000
    rows["batch"], rows["samples"] = np.arange(count), 1
    np.save(path, rows)


def write_telemetry(path: Path, seconds: int) -> None:
    """Write telemetry of a host that tells neither clocks nor temperatures, as a virtual one
    does.
    """
    lines: list[dict[str, object]] = [
        {
            "telemetry": 1,
            "channels": [{"id": 0, "name": "host", "kind": "state"}],
            "clocks_ns": [FIRST_NS, UTC_NS],
        }
    ]
    host = {
        "cpu_own": 0.75,
        "cpu_others": 0.125,
        "steal": 0.0,
        "mhz": None,
        "temp_c": None,
        "rss_mib": 512.0,
        "free_mib": 1024.0,
    }
    lines += [{"t": FIRST_NS + second * 1_000_000_000, "host": host} for second in range(seconds)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
