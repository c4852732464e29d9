"""The reference accuracy: an exported checkpoint, scored once after run_stop in fp32, eager, with
inference's own settings.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from harness.data_survey import add_survey_results
from harness.request import RunRequest
from suite import registry
from suite.engine import Precision
from suite.files.scratch import create_temporary_folder
from suite.workload import Inference, Scores

EAGER_SETTINGS: Final = {"engine.compile": False, "engine.cuda_graphs": False}


def score_reference_accuracy(request: RunRequest, checkpoint: Path, seed: int) -> Scores:
    """Score a checkpoint on the accuracy set with the framework's own engine; metric -> 0-1, for
    the metrics that the row checks.
    """
    with (
        open_reference_system(request, checkpoint, seed) as (system, max_batch),
        create_temporary_folder() as folder,
    ):
        answers = collect_reference_answers(system, max_batch)
        system.truth(folder)
        scores = registry.load_scorer(request.name)(answers, folder)
        return {metric: float(scores[metric]) for metric in request.row.scored_metrics}


@contextmanager
def open_reference_system(
    request: RunRequest, checkpoint: Path, seed: int
) -> Iterator[tuple[Inference, int]]:
    """Open the system under test that answers for the reference accuracy; yield it with its
    largest batch.
    """
    run = add_survey_results(request, request.build_run(seed, Precision.FP32))
    run = replace(run, settings={**run.settings, **EAGER_SETTINGS})
    system = request.workload.build_inference(run, checkpoint, registry.load_engine(run.framework))
    with closing(system):
        yield system, int(str(run.settings["batching.max_batch"]))


def collect_reference_answers(system: Inference, max_batch: int) -> Mapping[int, bytes]:
    """Answer every sample once, loading as many at a time as a performance run may."""
    predict = system.open(0, max_batch)
    predict.warm_up()
    answers: dict[int, bytes] = {}
    for part in split_into_batches(range(system.sample_count), system.performance_sample_count):
        system.load(part)
        for batch in split_into_batches(sorted(part, key=system.length), max_batch):
            answers |= zip(batch, predict(batch), strict=True)
        system.unload(part)
    return answers


def split_into_batches(samples: Sequence[int], size: int) -> list[Sequence[int]]:
    """Split a sequence into parts of at most that size."""
    return [samples[start : start + size] for start in range(0, len(samples), size)]
