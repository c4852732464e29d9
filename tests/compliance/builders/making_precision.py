"""Makes a small study of engines and precisions, as `podium precision` writes it: one compliant row."""

import json
from pathlib import Path
from typing import Final

import msgspec
from making import LOADS, RESNET50, SHA256, entry_of, write_run, write_truth
from making_study import read_facts

from suite.files.json_files import write_json
from suite.files.layout import ACCURACY_LOG
from suite.loadgen.scenario import Scenario
from suite.records import read_served_run
from suite.registry import load_scorer
from suite.studies.documents import STUDIES_FOLDER, STUDY_FILE
from suite.studies.precision import (
    OFFLINE_RATE_KEY,
    PRECISION_KIND,
    PRECISION_SCENARIOS,
    PrecisionRow,
    PrecisionStudy,
    compare_with_fp32,
    read_latency_cells,
)

SAMPLES: Final = 200
"""Scored ones: few, so that the example is small."""


def keep_samples(accuracy: Path, truth: Path) -> dict[str, float]:
    """Cut answers and truth to the first samples, and score them."""
    labels, answers = truth / "labels.txt", accuracy / ACCURACY_LOG
    labels.write_text("".join(labels.read_text().splitlines(keepends=True)[:SAMPLES]))
    kept = [each for each in json.loads(answers.read_text()) if each["qsl_idx"] < SAMPLES]
    answers.write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n")
    found = {each["qsl_idx"]: bytes.fromhex(each["data"]) for each in kept}
    return dict(load_scorer(RESNET50.workload)(found, truth))


def write_precision(root: Path) -> Path:
    """The study of ResNet-50 in torch fp32."""
    folder = root / STUDIES_FOLDER / "resnet50-precision"
    where, name = entry_of(folder), RESNET50.row.inference_name
    accuracy = where.locate_accuracy_run(name, Scenario.OFFLINE)
    write_run(accuracy, LOADS[Scenario.OFFLINE], "accuracy", where)
    offline, single = (
        write_run(where.locate_performance_run(name, each), LOADS[each], "performance", where)
        for each in PRECISION_SCENARIOS
    )
    reference = keep_samples(accuracy, write_truth(where.locate_ground_truth(RESNET50.workload)))
    run = read_served_run(offline).system
    row = PrecisionRow(
        engine=run.engine,
        precision=run.precision,
        system=run.name,
        accuracy=accuracy.relative_to(folder).as_posix(),
        offline=offline.relative_to(folder).as_posix(),
        single_stream=single.relative_to(folder).as_posix(),
        scores=reference,
        difference={},
        samples_per_second=read_facts(offline)[OFFLINE_RATE_KEY],
        latency_ns=read_latency_cells(read_facts(single).__getitem__),
        speed_up=None,
        compliant=True,
        why="",
    )
    study = PrecisionStudy(
        kind=PRECISION_KIND,
        workload=run.workload,
        profile=run.profile,
        checkpoint_sha256=SHA256,
        reference=reference,
        device=run.device,
        threads=run.threads,
        settings={},
        version=run.version,
        finished=True,
        rows=compare_with_fp32((row,), reference),
    )
    write_json(folder / STUDY_FILE, msgspec.to_builtins(study))
    return folder
