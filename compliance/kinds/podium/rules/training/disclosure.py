"""Check what a training log discloses for MLPerf Training against what it states for podium."""

import re
from collections.abc import Iterator, Mapping
from math import prod
from typing import Final

from compliance.kinds.podium.documents.training import TrainingLog, is_logged_count
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite import events
from suite.rounds.settings import GLOBAL_BATCH_SIZE, GRADIENT_FORMAT_SETTING
from suite.terms import Precision

LINEAR, ATTENTION, EXCHANGE = events.DISCLOSED_PRECISIONS
TENSOR, PIPELINE, CONTEXT, EXPERT = events.DISCLOSED_PARALLELISMS
SPLITTING: Final = (TENSOR, PIPELINE, CONTEXT)
"""Parallelisms that together take the ranks of one copy of the network."""
ACCUMULATION_STEPS: Final = "gradient_accumulation_steps"
"""Micro-batches of an optimizer step on each rank, in logs of MLPerf Training."""
ROW_FILE_FORM: Final = re.compile(r"workloads/(\w{1,64})/([\w.-]{1,64})\.toml")
"""The file in podium's tree with the rows of a workload in a round."""


@rule("training.disclosure", TrainingLog, About.IDENTITY)
def disclosure(log: TrainingLog) -> Iterator[Fault]:
    """What a log discloses for MLPerf Training is what it states for podium. The lowest precisions
    are those of the run and of its exchanged gradients. Tensor, pipeline and context parallelism
    together divide the ranks, and so does expert parallelism. The micro-batches of all copies of
    the network make up the global batch. The configuration is that of the workload and round. A log
    that discloses nothing contradicts nothing.

    Source: mlcommons/logging, training_6.1.0/common.yaml, mandatory precision, parallelism and
    run-config disclosure; house rule: podium writes both from one run.
    Advice: train again with podium train; a log from elsewhere cannot be completed afterwards.
    """
    yield from check_disclosed_precisions(log)
    yield from check_configuration(log)
    counts = dict(iterate_disclosed_counts(log))
    for key, value in counts.items():
        if not is_logged_count(value) or not value:
            yield log.build_fault(f"{key} {value!r}", "a whole number above 0", key)
            return
    ranks = log.find_value(events.WORLD_SIZE)
    if is_logged_count(ranks) and ranks:
        yield from check_divided_ranks(log, counts, ranks)
        yield from check_global_batch(log, counts, ranks)


def check_disclosed_precisions(log: TrainingLog) -> Iterator[Fault]:
    """Yield disclosed precisions that are not those of the run; their words may be in any case."""
    settings = log.find_value(events.SETTINGS)
    exchanged = Precision.FP32.value
    if isinstance(settings, dict):
        exchanged = settings.get(GRADIENT_FORMAT_SETTING, exchanged)
    computed = log.find_value(events.PRECISION)
    for key, name, stated in (
        (LINEAR, events.PRECISION, computed),
        (ATTENTION, events.PRECISION, computed),
        (EXCHANGE, GRADIENT_FORMAT_SETTING, exchanged),
    ):
        record = log.find_record(key)
        word = str(events.DISCLOSED_WORDS.get(str(stated), stated))
        if record and stated is not None and str(record.value).casefold() != word.casefold():
            yield log.build_fault(
                f"{key} {record.value!r}", f"{word!r}, since {name} is {stated!r}", record.line
            )


def check_configuration(log: TrainingLog) -> Iterator[Fault]:
    """Yield a file of podium's own with the rows of another workload or round; another party may
    name any file.
    """
    record = log.find_record(events.CONFIG_FILENAME)
    if record is None or not (match := ROW_FILE_FORM.fullmatch(str(record.value))):
        return
    for key, named in zip((events.WORKLOAD, events.ROUND), match.groups(), strict=True):
        stated = log.find_value(key)
        if stated is not None and named != stated:
            yield log.build_fault(
                f"{record.key} {record.value!r}", f"that of {key} {stated!r}", record.line
            )


def iterate_disclosed_counts(log: TrainingLog) -> Iterator[tuple[str, int]]:
    """Yield the counts that a log discloses, whatever their values are."""
    for key in (*events.DISCLOSED_PARALLELISMS, events.MICRO_BATCH_SIZE):
        if record := log.find_record(key):
            yield key, record.value


def check_divided_ranks(log: TrainingLog, counts: Mapping[str, int], ranks: int) -> Iterator[Fault]:
    """Yield parallelisms that do not divide the ranks."""
    for keys in (SPLITTING, (EXPERT,)):
        stated = {key: counts[key] for key in keys if counts.get(key, 1) > 1}
        if ranks % prod(stated.values()):
            yield log.build_fault(
                " x ".join(f"{key} {count}" for key, count in stated.items()),
                f"a divisor of {events.WORLD_SIZE} {ranks}",
                next(iter(stated)),
            )


def check_global_batch(log: TrainingLog, counts: Mapping[str, int], ranks: int) -> Iterator[Fault]:
    """Yield a micro-batch of which the copies of the network do not make up the global batch."""
    batch, steps = (log.find_value(key) for key in (GLOBAL_BATCH_SIZE, ACCUMULATION_STEPS))
    split = prod(counts.get(key, 1) for key in SPLITTING)
    micro = counts.get(events.MICRO_BATCH_SIZE)
    if micro is None or ranks % split or not is_logged_count(batch):
        return
    copies = ranks // split
    words, is_whole = [f"{events.MICRO_BATCH_SIZE} {micro}"], batch % (micro * copies) == 0
    if copies > 1:
        words.append(f"{copies} copies")
    if is_logged_count(steps):
        words.append(f"{ACCUMULATION_STEPS} {steps}")
        is_whole = batch == micro * copies * steps
    if not is_whole:
        yield log.build_fault(
            " x ".join(words), f"{GLOBAL_BATCH_SIZE} {batch}", events.MICRO_BATCH_SIZE
        )
