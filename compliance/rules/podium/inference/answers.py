"""The answers of a run: complete, each once, and from one model."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from compliance.documents.podium.inference import InferenceEntry, LoadGenRun
from compliance.logs.source_file import Kind
from compliance.rules import rule
from compliance.verdict import Fault
from suite import registry
from suite.files.layout import ACCURACY
from suite.loadgen.scenario import Scenario

SURPRISE_LIMIT: Final = 16.0
"""e^-16, one in nine million: how improbable the number of sampled answers may be, since LoadGen
draws each by chance.
"""
MARKED: Final = 1 << 26
"""Sequence numbers below this one have a bit each; runs issue fewer samples, and logs that name
larger ones hold few answers.
"""
ANSWERS_SHOWN: Final = 20
"""Findings of one kind in a run, before the rest is counted only."""


@rule("answers.coverage", LoadGenRun)
def coverage(run: LoadGenRun) -> Iterator[Fault]:
    """An accuracy run answers every sample of the dataset exactly once; samples that MultiStream
    repeats as padding get the same answer.

    Source: inference_rules.adoc v0.5, LoadGen: accuracy mode covers the whole data set once;
    mlcommons/inference, loadgen/loadgen.cc: padding.
    Advice: repeat the accuracy run; no answer may be left out or added.
    """
    if (
        run.performance
        or run.record is None
        or any(source.has(Kind.MISSING, Kind.UNREADABLE) for source in run.sources)
    ):
        return
    total, answers = run.record.sample_count, run.answers
    for sample in islice(
        (sample for sample in range(total) if sample not in answers), ANSWERS_SHOWN
    ):
        yield run.fault(
            ACCURACY, f"no answer to sample {sample}", f"one answer to each of {total} samples"
        )
    outside = (
        position for position, sample in enumerate(answers.samples) if not 0 <= sample < total
    )
    for position in islice(outside, ANSWERS_SHOWN):
        yield run.fault(
            ACCURACY,
            f"an answer to sample {answers.samples[position]}",
            f"samples 0 to {total - 1}",
            answers.lines[position],
        )
    yield from islice(repeats(run), ANSWERS_SHOWN)


def repeats(run: LoadGenRun) -> Iterator[Fault]:
    """Judge samples that are answered twice: only MultiStream pads, by less than a query for each
    set of samples in memory.
    """
    answers, per_query = run.answers, run.number("effective_samples_per_query") or 1
    held = run.number("effective_performance_sample_count") or len(answers) or 1
    allowed = (
        (per_query - 1) * math.ceil(len(answers) / max(held, 1))
        if run.scenario is Scenario.MULTI_STREAM
        else 0
    )
    for count, position in enumerate(answers.repeats(), 1):
        sample, line = answers.samples[position], answers.lines[position]
        if count > allowed:
            yield run.fault(
                ACCURACY,
                f"a second answer to sample {sample}",
                f"each sample once, {allowed:.0f} repeated at most",
                line,
            )
        elif not same(run, answers.at(position), answers[sample]):
            yield run.fault(
                ACCURACY, f"two different answers to sample {sample}", "the same answer", line
            )


@rule("answers.sequence", LoadGenRun)
def sequence(run: LoadGenRun) -> Iterator[Fault]:
    """No two answers of a run have the same sequence number, and every sequence number was issued.

    Source: mlcommons/inference, loadgen/loadgen.cc: seq_id counts the samples that were issued.
    Advice: submit LoadGen's file unmodified.
    """
    counts = (
        run.numbers("generated_query_count", "generated_samples_per_query")
        if run.performance
        else None
    )
    issued = counts[0] * counts[1] if counts else len(run.answers.sequence)
    for position, twice in islice(astray(run.answers.sequence, issued), ANSWERS_SHOWN):
        found = f"seq_id {run.answers.sequence[position]}{' twice' if twice else ''}"
        yield run.fault(
            ACCURACY, found, f"each below {issued:.0f} once", run.answers.lines[position]
        )


def astray(sequence: Sequence[int], issued: float) -> Iterator[tuple[int, bool]]:
    """Yield the places of numbers that were not issued, and of those that stood before; a bit of
    memory for each small number.
    """
    marks, seen = bytearray(math.ceil(min(max(issued, 0), MARKED) / 8)), set[int]()
    for position, number in enumerate(sequence):
        if not 0 <= number < issued:
            yield position, False
        elif number >= MARKED:
            if number in seen:
                yield position, True
            seen.add(number)
        elif marks[number >> 3] >> (number & 7) & 1:
            yield position, True
        else:
            marks[number >> 3] |= 1 << (number & 7)


@rule("answers.sampled", LoadGenRun)
def sampled(run: LoadGenRun) -> Iterator[Fault]:
    """A performance run logs about as many answers as requested, none of them empty.

    Source: house rule, the answers to trust; mlcommons/inference, loadgen/loadgen.cc: each sample
    is logged by chance.
    Advice: submit LoadGen's file unmodified.
    """
    expected = expected_answers(run)
    if not run.performance or expected is None:
        return
    found = len(run.answers.samples)
    if surprise(found, expected) > SURPRISE_LIMIT:
        yield run.fault(ACCURACY, f"{found} answers", f"about {expected:.0f}")
    for position in range(found):
        if not run.answers.at(position):
            yield run.fault(
                ACCURACY,
                f"an empty answer to sample {run.answers.samples[position]}",
                "bytes",
                run.answers.lines[position],
            )


def surprise(found: int, expected: float) -> float:
    """Bound how improbable a count is, as -ln of Chernoff's bound on a Poisson tail with that
    mean.
    """
    return expected - found + (found * math.log(found / expected) if found and expected else 0.0)


def expected_answers(run: LoadGenRun) -> float | None:
    """Compute how many answers LoadGen logs on average: each with the probability target / expected
    samples.

    Source: mlcommons/inference, loadgen/loadgen.cc, RunPerformanceMode's IssueQueries:
    expected_queries, accuracy_log_prob.
    """
    target, planned = run.number("effective_accuracy_log_sampling_target"), planned_samples(run)
    counts = run.numbers("result_query_count", "generated_samples_per_query")
    if target is None or planned is None or counts is None:
        return None
    return max(0.0, min(1.0, target / planned) * counts[0] * counts[1])


def planned_samples(run: LoadGenRun) -> int | None:
    """Compute how many samples LoadGen plans for; the share of answers that it logs is of these."""
    rates = run.numbers(
        "effective_target_qps", "effective_min_duration_ms", "effective_samples_per_query"
    )
    least = run.numbers("effective_min_query_count", "effective_min_sample_count")
    if rates is None or least is None:
        return None
    offline = run.scenario is Scenario.OFFLINE
    planned = int(rates[0] * rates[1] / 1000) * (1 if offline else int(rates[2]))
    return max(planned, int(least[1] if offline else least[0] * rates[2]), 1)


@rule("answers.loaded", LoadGenRun)
def loaded(run: LoadGenRun) -> Iterator[Fault]:
    """The sampled answers of a performance run belong to samples that LoadGen had loaded.

    Source: mlcommons/inference, loadgen/loadgen.cc: queries are drawn from the loaded set; detail
    log, loaded_qsl_set.
    Advice: submit LoadGen's files from one run.
    """
    held = run.value("loaded_qsl_set")
    if not run.performance or not isinstance(held, list):
        return
    known = {sample for sample in held if isinstance(sample, int)}
    for position, sample in enumerate(run.answers.samples):
        if sample not in known:
            yield run.fault(
                ACCURACY,
                f"an answer to sample {sample}",
                "a sample of loaded_qsl_set",
                run.answers.lines[position],
            )


@rule("answers.same", InferenceEntry)
def same_answers(entry: InferenceEntry) -> Iterator[Fault]:
    """A performance run gives the same answers as the accuracy run: byte for byte, or within the
    workload's tolerance for one model.

    Source: inference_rules.adoc v0.7, compliance TEST01: accuracy in performance mode; house rule:
    for every sampled answer.
    Advice: serve the same model in both modes; if answers depend on the batch, make them
    independent of it.
    """
    if entry.accuracy is None:
        return
    truth = entry.accuracy.answers
    for run in entry.performance:
        for position, sample in enumerate(run.answers.samples):
            if sample in truth and not same(run, run.answers.at(position), truth[sample]):
                yield run.fault(
                    ACCURACY,
                    f"a different answer to sample {sample}",
                    "the answer of the accuracy run",
                    run.answers.lines[position],
                )


def same(run: LoadGenRun, found: bytes, wanted: bytes) -> bool:
    """Tell whether two answers to one sample may come from one model."""
    return found == wanted or (
        run.record is not None and registry.agreement(run.record.workload)(found, wanted)
    )
