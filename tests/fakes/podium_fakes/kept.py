"""A checkpoint of a fake workload without a training, and what a test reads of its results."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from harness.serving.harness_ceiling import HostCeiling, format_host_key
from suite.files.layout import ResultsEntry, compute_folder_sha256, locate_checkpoint_folder
from suite.loadgen.detail_log import is_logged_valid, read_detail_log
from suite.loadgen.scenario import Scenario
from suite.records import CheckpointRecord, ServedRun, read_served_run, write_record

NONCE = "0123456789abcdef" * 2


def keep_checkpoint(
    results: Path, weight: float = 0.8, workload: str = "fake", **changes: Any
) -> Path:
    """Export weights that answer that share of the samples right, with a record of them."""
    folder = results / "made"
    folder.mkdir(parents=True)
    (folder / "model.json").write_text(json.dumps({"workload": workload, "weight": weight}))
    record = CheckpointRecord(
        workload=workload,
        round="podium-v1",
        profile="smoke",
        framework="fake",
        sha256=compute_folder_sha256(folder),
        nonce=NONCE,
        seed=1,
        run_index=0,
        training_log="open/tests/results/testbed/resnet/result_0.txt",
        target_reached=True,
        scores={"top1": weight},
        reference_accuracy={"top1": weight},
        settings={},
        version="0",
    )
    record = replace(record, **changes)
    place = locate_checkpoint_folder(results, workload, record.sha256)
    place.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(place)
    write_record(place / "record.json", record)
    return place


def keep_ceiling(cache: Path, samples_per_second: float = 1e9, instances: int = 0) -> None:
    """Spare tests the measurement of the harness ceiling, with so many processes that serve."""
    cache.mkdir(parents=True, exist_ok=True)
    kept = HostCeiling(
        measured="2027-01-15T08:00:00+00:00",
        busy=0.0,
        samples_per_second={scenario.value: samples_per_second for scenario in Scenario},
    )
    (cache / f"harness-ceiling-{format_host_key(instances)}.json").write_bytes(
        msgspec.json.encode(kept)
    )


def run_record(folder: Path) -> ServedRun:
    """Read run.json with the record of its system."""
    return read_served_run(folder)


def verdict_of(folder: Path) -> str:
    """Say what LoadGen calls a run, unless an error voids it; an accuracy run has no verdict."""
    if folder.name == "accuracy":
        return "ACCURACY"
    return "VALID" if is_logged_valid(folder) else "INVALID"


def value_of(folder: Path) -> float:
    """Read the result of a performance run."""
    log = read_detail_log(folder)
    return log.require_headline(log.find_scenario()).value


def run_folders(place: ResultsEntry) -> list[Path]:
    """Name the folders of all LoadGen runs that are there."""
    return sorted(path.parent for path in place.locate_benchmark("fake").glob("**/run.json"))
