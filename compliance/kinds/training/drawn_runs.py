"""The runs of a published run set as a report draws them."""

from compliance.kinds.training.documents.log import RESULT_LOGGING_DELAY_NS, PublishedLog
from compliance.kinds.training.round import load_training_round
from compliance.kinds.training.score import find_final_evaluation, read_published_result_logs
from compliance.results.indexed_result import IndexedResult
from compliance.results.training_runs import (
    EPOCHS_NAME,
    PROGRESS_NAMES,
    SEQUENCE_LENGTH_KEY,
    DrawnTrainingRun,
    DrawnTrainingSet,
    list_token_evaluations,
)
from suite.events import (
    RUN_START,
    RUN_STOP,
    SAMPLES_COUNT,
    SEED,
)
from suite.units import NS_PER_S, S_PER_MINUTE


def read_published_training_runs(result: IndexedResult, round_name: str) -> DrawnTrainingSet:
    """Read the runs of a run set, or of its single log."""
    _, logs = read_published_result_logs(result, load_training_round(round_name))
    row = logs[0].row
    name = PROGRESS_NAMES.get(row.progress[0] if row and row.progress else "", EPOCHS_NAME)
    later = bool(row and (row.evaluated_later or not row.data_set))
    runs = tuple(build_published_drawn_run(each, later, name) for each in logs)
    return DrawnTrainingSet(runs=runs, progress_name=name, over_progress=later)


def build_published_drawn_run(
    log: PublishedLog, later: bool, progress_name: str
) -> DrawnTrainingRun:
    """Take what is drawn from the log of a published round; `later` means that its checkpoints were
    evaluated after the run.
    """
    counted = progress_name == PROGRESS_NAMES[SAMPLES_COUNT]
    start, stop = log.find_record(RUN_START), log.find_record(RUN_STOP)
    evaluations = []
    for each in log.evaluations:
        scores = {metric: value for metric, value in each.scores.items() if value is not None}
        if later:
            position = each.epoch
        elif start is None or (
            stop is not None and each.entry.time_ns > stop.time_ns + RESULT_LOGGING_DELAY_NS
        ):
            position = None  # unfinished when the run stopped: it does not count
        else:
            position = (each.entry.time_ns - start.time_ns) / NS_PER_S / S_PER_MINUTE
        if scores and position is not None and position >= 0:
            evaluations.append((position, scores))
    final = find_final_evaluation(log)
    final_scores = {}
    if final:
        final_scores = {key: value for key, value in final.scores.items() if value is not None}
    return DrawnTrainingRun(
        log=log.path.name,
        minutes=log.minutes,
        evaluations=tuple(evaluations),
        progress=final.epoch if final else None,
        final=final_scores,
        reached=log.reached,
        seed=log.find_value(SEED),
        token_evaluations=list_token_evaluations(
            log.find_value(SEQUENCE_LENGTH_KEY),
            ((each.epoch, each.scores) for each in log.evaluations if counted),
        ),
    )
