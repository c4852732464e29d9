"""Seed files: the results of one small campaign, the judge's examples, and files that are in
neither.
"""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parents[2]
FAKES: Final = HERE / "tests" / "fakes"
EXAMPLES: Final = HERE / "tests" / "examples" / "base"
WORKLOAD: Final = "fake"
CAMPAIGN: Final = (
    "run",
    WORKLOAD,
    "--seed",
    "1",
    "--framework",
    WORKLOAD,
    "--engine",
    WORKLOAD,
    "--device",
    "cpu",
    "--precision",
    "fp32",
    "--threads",
    "1",
)
RATE: Final = ("--set", "server.target_qps=500")
LARGEST_SEED: Final = 1 << 16
"""Bytes of a file that is spoilt; what is larger repeats itself."""
TOML: Final = b"""lr = 0.5
opt_name = "lars"
[data]
workers = 2
# rates
[server]
target_qps = 1e3
[batching]
max_batch = 0x20
window_us = 1_000
[lars]
opt_base_learning_rate = 9.0
opt_end_learning_rate = 0.0001
"""
JSON: Final = (
    b'{"workload": "resnet50", "opt_name": "lars", "global_batch_size": 256, "lars":'
    b' {"opt_epsilon": 0, "opt_base_learning_rate": 9.0}}'
)
DESCRIBED: Final = (
    b'hw_notes = "two nodes"\nnumber_of_nodes = 2\nhost_processor_core_count ='
    b' "32"\naccelerator_memory_capacity = "16 GB"\n'
)
OBJECTS: Final[dict[str, Any]] = {
    "images": [
        {"id": 7, "file_name": "a.jpg", "width": 12, "height": 10},
        {"id": 9, "file_name": "b.jpg", "width": 8, "height": 8},
    ],
    "categories": [{"id": 3, "name": "cat"}, {"id": 1, "name": "dog"}],
    "annotations": [
        {
            "id": 1,
            "image_id": 7,
            "category_id": 3,
            "bbox": [2, 2, 4, 4],
            "area": 16,
            "iscrowd": 0,
            "segmentation": [[2, 2, 6, 2, 6, 6, 2, 6]],
        },
        {
            "id": 2,
            "image_id": 7,
            "category_id": 1,
            "bbox": [0, 0, 1, 10],
            "area": 10,
            "iscrowd": 1,
            "segmentation": {"size": [10, 12], "counts": [30, 10, 80]},
        },
        {
            "id": 5,
            "image_id": 9,
            "category_id": 1,
            "bbox": [0, 0, 2, 2],
            "area": 4,
            "iscrowd": 0,
            "segmentation": {"size": [8, 8], "counts": "02N0k1"},
        },
    ],
}


def made(folder: Path) -> Path:
    """Run the small campaign of the tests once, with real LoadGen; its results folder. What is
    there already is taken as it is.
    """
    if not folder.exists():
        paths = os.pathsep.join(filter(None, [str(FAKES), os.environ.get("PYTHONPATH")]))
        environment = {
            **os.environ,
            "PYTHONPATH": paths,
            "PODIUM_CACHE": str(folder.with_name("cache")),
        }
        command = [sys.executable, "-m", "suite.cli", *CAMPAIGN, *RATE, "--results", str(folder)]
        subprocess.run(command, env=environment, cwd=HERE, check=True, stdout=subprocess.DEVNULL)
    return folder


def contents(paths: Iterable[Path]) -> tuple[bytes, ...]:
    """Read what is spoilt later, each text once."""
    return tuple(
        dict.fromkeys(path.read_bytes()[:LARGEST_SEED] for path in sorted(paths) if path.is_file())
    )


def named(results: Path, *patterns: str) -> tuple[bytes, ...]:
    """Read all files of these names, of the campaign and of the examples."""
    return contents(
        path for root in (results, EXAMPLES) for pattern in patterns for path in root.rglob(pattern)
    )
