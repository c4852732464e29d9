"""Check the answers of a run: complete, each once, and from one model."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from compliance.kinds.podium.documents.inference import InferenceEntry, LoadGenRun
from compliance.logs.source_file import ParseErrorKind
from compliance.recognition.tree_path import is_file
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite import registry
from suite.files.layout import (
    ACCURACY_LOG,
    LOGPROB_FILE,
    REFERENCE_LOGPROB_FILE,
    compute_file_sha256,
)
from suite.loadgen.logprob_record import (
    REFERENCE_COLUMNS,
    SAID_COLUMN,
    compute_row_keys,
    find_logarithms,
    select_common_rows,
)
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import TOKEN_BYTES
from suite.measurement.logprob_causes import compare_said_tokens

MAX_COUNT_SURPRISE: Final = 16.0
"""e^-16, one in nine million: maximum improbability of the number of sampled answers, since LoadGen
draws each at random.
"""
MARKED_SEQUENCE_NUMBERS: Final = 1 << 26
"""Sequence numbers below this one have a bit each; runs issue fewer samples, and logs with larger
numbers contain few answers.
"""
MAX_SHOWN_ANSWERS: Final = 20
"""Findings of one kind in a run before the rest is only counted."""


@rule("answers.coverage", LoadGenRun, About.QUALITY)
def coverage(run: LoadGenRun) -> Iterator[Fault]:
    """An accuracy run answers every sample of the data set exactly once. Samples that MultiStream
    repeats as padding get the same answer.

    Source: inference_rules.adoc v0.5, LoadGen: accuracy mode covers the whole data set once;
    mlcommons/inference, loadgen/loadgen.cc: padding.
    Advice: repeat the accuracy run; do not omit or add answers.
    """
    if (
        run.performance
        or run.record is None
        or any(
            source.has_parse_error(ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE)
            for source in run.sources
        )
    ):
        return
    total, answers = run.record.system.sample_count, run.answers
    for sample in islice(
        (sample for sample in range(total) if sample not in answers), MAX_SHOWN_ANSWERS
    ):
        yield run.build_fault(
            f"no answer to sample {sample}",
            f"one answer to each of {total} samples",
            file=ACCURACY_LOG,
        )
    outside = (
        position for position, sample in enumerate(answers.samples) if not 0 <= sample < total
    )
    for position in islice(outside, MAX_SHOWN_ANSWERS):
        yield run.build_fault(
            f"an answer to sample {answers.samples[position]}",
            f"samples 0 to {total - 1}",
            answers.lines[position],
            file=ACCURACY_LOG,
        )
    yield from islice(check_repeated_answers(run), MAX_SHOWN_ANSWERS)


def check_repeated_answers(run: LoadGenRun) -> Iterator[Fault]:
    """Check samples with two answers: only MultiStream pads, by less than one query for each set of
    samples in memory.
    """
    answers, per_query = run.answers, run.find_number("effective_samples_per_query") or 1
    samples_in_memory = run.find_number("effective_performance_sample_count") or len(answers) or 1
    allowed = 0.0
    if run.scenario is Scenario.MULTI_STREAM:
        allowed = (per_query - 1) * math.ceil(len(answers) / max(samples_in_memory, 1))
    for count, position in enumerate(answers.iterate_repeats(), 1):
        sample, line = answers.samples[position], answers.lines[position]
        if count > allowed:
            yield run.build_fault(
                f"a second answer to sample {sample}",
                f"each sample once, {allowed:.0f} repeated at most",
                line,
                file=ACCURACY_LOG,
            )
        elif not is_same_model_answer(run, answers.read_answer(position), answers[sample]):
            yield run.build_fault(
                f"two different answers to sample {sample}",
                "the same answer",
                line,
                file=ACCURACY_LOG,
            )


@rule("answers.sequence", LoadGenRun, About.SCORE)
def sequence(run: LoadGenRun) -> Iterator[Fault]:
    """No two answers of a run have the same sequence number, and every sequence number was issued.

    Source: mlcommons/inference, loadgen/loadgen.cc: seq_id counts the issued samples.
    Advice: copy mlperf_log_accuracy.json again from the run, and check that no two runs wrote into
    one folder; otherwise serve again.
    """
    counts = None
    if run.performance:
        counts = run.find_numbers("generated_query_count", "generated_samples_per_query")
    issued = counts[0] * counts[1] if counts else len(run.answers.sequence)
    for position, twice in islice(
        find_invalid_sequence_numbers(run.answers.sequence, issued), MAX_SHOWN_ANSWERS
    ):
        found = f"seq_id {run.answers.sequence[position]}{' twice' if twice else ''}"
        yield run.build_fault(
            found,
            f"each seq_id below {issued:.0f} once",
            run.answers.lines[position],
            file=ACCURACY_LOG,
        )


def find_invalid_sequence_numbers(
    sequence: Sequence[int], issued: float
) -> Iterator[tuple[int, bool]]:
    """Yield the positions of numbers that were not issued, or that occurred before; each small
    number takes a bit of memory.
    """
    marks, large_numbers = (
        bytearray(math.ceil(min(max(issued, 0), MARKED_SEQUENCE_NUMBERS) / 8)),
        set[int](),
    )
    for position, number in enumerate(sequence):
        if not 0 <= number < issued:
            yield position, False
        elif number >= MARKED_SEQUENCE_NUMBERS:
            if number in large_numbers:
                yield position, True
            large_numbers.add(number)
        elif marks[number >> 3] >> (number & 7) & 1:
            yield position, True
        else:
            marks[number >> 3] |= 1 << (number & 7)


@rule("answers.sampled", LoadGenRun, About.QUALITY)
def sampled(run: LoadGenRun) -> Iterator[Fault]:
    """A performance run logs about as many answers as requested, and no answer is empty.

    Source: house rule: LoadGen logs answers to compare with the accuracy run; mlcommons/inference,
    loadgen/loadgen.cc: each sample is logged with a fixed probability.
    Advice: copy mlperf_log_accuracy.json again from the run; if it is empty there too, serve again
    and check that the disk has room.
    """
    expected = compute_expected_answers(run)
    if not run.performance or expected is None:
        return
    found = len(run.answers.samples)
    if compute_count_surprise(found, expected) > MAX_COUNT_SURPRISE:
        yield run.build_fault(f"{found} answers", f"about {expected:.0f}", file=ACCURACY_LOG)
    for position in range(found):
        if not run.answers.read_answer(position):
            yield run.build_fault(
                f"an empty answer to sample {run.answers.samples[position]}",
                "bytes",
                run.answers.lines[position],
                file=ACCURACY_LOG,
            )


def compute_count_surprise(found: int, expected: float) -> float:
    """Bound how improbable a count is, as -ln of Chernoff's bound on a Poisson tail with that
    mean.
    """
    return expected - found + (found * math.log(found / expected) if found and expected else 0.0)


def compute_expected_answers(run: LoadGenRun) -> float | None:
    """Compute how many answers LoadGen logs on average: each with the probability target / expected
    samples.

    Source: mlcommons/inference, loadgen/loadgen.cc, RunPerformanceMode's IssueQueries:
    expected_queries, accuracy_log_prob.
    """
    target, planned = (
        run.find_number("effective_accuracy_log_sampling_target"),
        compute_planned_samples(run),
    )
    counts = run.find_numbers("result_query_count", "generated_samples_per_query")
    if target is None or planned is None or counts is None:
        return None
    return max(0.0, min(1.0, target / planned) * counts[0] * counts[1])


def compute_planned_samples(run: LoadGenRun) -> int | None:
    """Compute how many samples LoadGen plans; it logs a share of their answers."""
    rates = run.find_numbers(
        "effective_target_qps", "effective_min_duration_ms", "effective_samples_per_query"
    )
    least = run.find_numbers("effective_min_query_count", "effective_min_sample_count")
    if rates is None or least is None:
        return None
    offline = run.scenario is Scenario.OFFLINE
    planned = int(rates[0] * rates[1] / 1000) * (1 if offline else int(rates[2]))
    return max(planned, int(least[1] if offline else least[0] * rates[2]), 1)


@rule("answers.loaded", LoadGenRun, About.QUALITY)
def loaded(run: LoadGenRun) -> Iterator[Fault]:
    """The sampled answers of a performance run belong to samples that LoadGen had loaded.

    Source: mlcommons/inference, loadgen/loadgen.cc: queries are drawn from the loaded set; detail
    log, loaded_qsl_set.
    Advice: submit LoadGen's files from one run.
    """
    loaded_samples = run.find_value("loaded_qsl_set")
    if not run.performance or not isinstance(loaded_samples, list):
        return
    known = {sample for sample in loaded_samples if isinstance(sample, int)}
    for position, sample in enumerate(run.answers.samples):
        if sample not in known:
            yield run.build_fault(
                f"an answer to sample {sample}",
                "a sample of loaded_qsl_set",
                run.answers.lines[position],
                file=ACCURACY_LOG,
            )


@rule("answers.same", InferenceEntry, About.QUALITY)
def same_answers(entry: InferenceEntry) -> Iterator[Fault]:
    """A performance run gives the same answers as the accuracy run: byte for byte, or within the
    workload's tolerance for one model.

    Source: inference_rules.adoc v0.7, compliance TEST01: accuracy in performance mode; house rule:
    for every sampled answer.
    Advice: serve the same model in both modes; if answers depend on the batch, remove that
    dependence.
    """
    if entry.accuracy is None:
        return
    truth = entry.accuracy.answers
    for run in entry.performance:
        for position, sample in enumerate(run.answers.samples):
            if sample in truth and not is_same_model_answer(
                run, run.answers.read_answer(position), truth[sample]
            ):
                yield run.build_fault(
                    f"a different answer to sample {sample}",
                    "the answer of the accuracy run",
                    run.answers.lines[position],
                    file=ACCURACY_LOG,
                )


@rule("answers.likelihoods", LoadGenRun, About.QUALITY)
def likelihoods(run: LoadGenRun) -> Iterator[Fault]:
    """How likely an accuracy run's answers are stands in logprobs.npy, by the system, and in
    reference_logprobs.npy, by PyTorch. Both are the files that run.json names by SHA-256. Rows are
    in the order of samples and places. For generated answers, each row is about a token, and the
    reference has a row for each of the system's. No probability is above 1.

    Source: house rule: `podium precision` compares both, and anybody may do it again;
    suite/loadgen/logprob_record.py.
    Advice: keep the files of a run together; otherwise repeat the run.
    """
    if run.performance or run.record is None:
        return
    for name, stated in (
        (LOGPROB_FILE, run.record.logprobs_sha256),
        (REFERENCE_LOGPROB_FILE, run.record.reference_logprobs_sha256),
    ):
        found = hash_optional_file(run.folder / name)
        if found != stated:
            yield run.build_fault(
                describe_hash(found), f"{describe_hash(stated)}, as in run.json", file=name
            )
    for name, table in ((LOGPROB_FILE, run.said), (REFERENCE_LOGPROB_FILE, run.reference)):
        if table is not None:
            yield from check_likelihood_rows(run, name, table)
    if run.said is not None and run.reference is not None:
        missing = len(run.said) - len(select_common_rows(run.said, run.reference)[0])
        if missing:
            yield run.build_fault(
                f"no rows for {missing} of {LOGPROB_FILE}", "one each", file=REFERENCE_LOGPROB_FILE
            )


@rule("answers.network", LoadGenRun, About.QUALITY)
def network(run: LoadGenRun) -> Iterator[Fault]:
    """A system finds its own tokens as likely as PyTorch does with the checkpoint, prompts and
    positions of the run. They differ by the rounding of the stated number format. Who serves other
    weights, another number format, other positions or another prompt is named as far as the
    differences of the log-probabilities show it.

    Source: suite/measurement/logprob_causes.py, which derives the thresholds from the formats'
    unit roundoff, 2^-8 in bf16 and 2^-11 in fp16.
    Advice: serve the checkpoint of the run, with its chat template and configuration, and state the
    number format that it is computed in.
    """
    if run.said is None or run.reference is None or run.record is None:
        return
    said, reference = select_common_rows(run.said, run.reference)
    system = run.record.stated_system
    if not registry.list_end_tokens(system.workload, system.profile):
        return
    found = compare_said_tokens(said, reference, system.precision)
    if found is not None and found.finding:
        weights = system.identity.weights.describe_statement()
        yield run.build_fault(
            f"{found.finding}: {found.evidence}",
            f"what PyTorch finds with the checkpoint of the run; its weights: {weights}",
            file=LOGPROB_FILE,
        )


def hash_optional_file(path: Path) -> str:
    """Return the SHA-256 of a file; "" without it."""
    return compute_file_sha256(path) if is_file(path) else ""


def describe_hash(sha256: str) -> str:
    """Describe a file by its hash."""
    return f"the SHA-256 {sha256}" if sha256 else "no file"


def check_likelihood_rows(run: LoadGenRun, name: str, table: Any) -> Iterator[Fault]:
    """Yield rows of a file that are none of the run's."""
    import numpy as np

    keys = compute_row_keys(table)
    if (np.diff(keys) <= 0).any():
        yield run.build_fault("rows twice, or in another order", "each once, in order", file=name)
    columns = (SAID_COLUMN,) if name == LOGPROB_FILE else REFERENCE_COLUMNS
    others = sum(int((~find_logarithms(table[column])).sum()) for column in columns)
    if others:
        yield run.build_fault(
            f"{others} values that are above 0, or no numbers",
            "logarithms of probabilities",
            file=name,
        )
    if run.record is None:
        return
    profile = run.record.system.profile
    if not registry.list_end_tokens(run.record.system.workload, profile):
        return
    lengths = {
        sample: len(run.answers[sample]) // TOKEN_BYTES if sample in run.answers else 0
        for sample in map(int, np.unique(table["sample"]))
    }
    tokens = np.array([lengths[sample] for sample in table["sample"].tolist()])
    strays = int(((table["place"] < 0) | (table["place"] >= tokens)).sum()) if len(table) else 0
    if strays:
        yield run.build_fault(f"{strays} rows of no token", "tokens of the answers", file=name)


def is_same_model_answer(run: LoadGenRun, found: bytes, wanted: bytes) -> bool:
    """Return whether two answers to one sample may come from one model."""
    return found == wanted or (
        run.record is not None
        and registry.load_agreement(run.record.system.workload)(found, wanted)
    )
