"""The accuracy log of a published round's LoadGen run: every sample answered once, and no answers
in a performance run.
"""

from collections.abc import Iterator

from compliance.documents.inference.entry import ServedRun
from compliance.logs.loadgen.legacy_detail import Mode as LoadGenMode
from compliance.logs.loadgen.legacy_detail import number
from compliance.logs.source_file import Kind
from compliance.rules import rule
from compliance.rules.inference.loadgen_run import BOTH, read
from compliance.verdict import Fault, Severity
from suite.loadgen.scenario import Scenario

DETECTION = 28
"""Bytes of a detection: seven float32. Source: mlcommons/inference,
v0.5/classification_and_detection/tools/accuracy-coco.py.
"""


def of_accuracy(run: ServedRun) -> bool:
    """Tell whether the run answers the whole data set."""
    return not run.performance or run.logged_mode == BOTH


@rule("served.data_set", ServedRun)
def data_set(run: ServedRun) -> Iterator[Fault]:
    """An accuracy run loads every sample of the benchmark's accuracy set, one loaded set after
    another.

    Source: inference_rules.adoc v0.5, Load generator: accuracy mode covers the whole data set; Data
    sets.
    Advice: repeat the accuracy run with the whole dataset.
    """
    phase = run.detail.phase(LoadGenMode.ACCURACY)
    total = number(run.detail.about.get("QSL total size"))
    if not of_accuracy(run) or phase is None or total is None:
        return
    line = run.detail.about["QSL total size"].line
    sizes = run.row.accuracy_samples if run.row else ()
    if sizes and total not in sizes:
        yield run.in_detail(
            f"a data set of {total:g} samples",
            " or ".join(f"{size:,}" for size in sizes),
            line,
            None if run.closed else Severity.WARNING,
        )
    covered = sum(run.detail.seen)
    if covered != total or len(run.detail.seen) > total:
        yield run.in_detail(
            f"{covered} samples loaded, the highest {len(run.detail.seen) - 1}",
            f"{total:g}, from 0",
            phase.line,
        )
    if sum(loaded.distinct for loaded in phase.loaded) != covered:
        yield run.in_detail("samples loaded in more than one set", "each once", phase.line)


@rule("served.answers", ServedRun)
def answers(run: ServedRun) -> Iterator[Fault]:
    """An accuracy run answers every sample of its dataset once, except for MultiStream's padding.

    Source: inference_rules.adoc v0.5, Load generator; mlcommons/inference, loadgen/loadgen.cc,
    GenerateLoadableSets.
    Advice: repeat the accuracy run; no answer may be left out or added.
    """
    tally = run.tally
    if (
        not of_accuracy(run)
        or not tally.whole
        or run.round.filing.truncated_accuracy_bytes is not None
    ):
        return
    if (
        run.performance and not tally.answers
    ):  # the answers of both halves lie in the accuracy folder
        return
    total = number(run.detail.about.get("QSL total size"))
    sizes = run.row.accuracy_samples if run.row else ()
    expected = (total,) if total is not None else sizes
    if expected and tally.distinct not in expected:
        yield run.in_answers(
            f"{tally.distinct} samples answered", " or ".join(f"{size:g}" for size in expected)
        )
    if expected and tally.highest >= max(expected):
        yield run.in_answers(
            f"an answer to sample {tally.highest}", f"samples 0 to {max(expected) - 1:g}"
        )
    if tally.repeated and run.scenario is not Scenario.MULTI_STREAM:
        yield run.in_answers(f"{tally.repeated} samples answered again", "each once")
    yield from padding(run)


def padding(run: ServedRun) -> Iterator[Fault]:
    """Compare MultiStream's answers with the queries that were generated; accepted logs may leave
    the padding out.
    """
    phase, tally = run.detail.phase(LoadGenMode.ACCURACY), run.tally
    if run.scenario is not Scenario.MULTI_STREAM or phase is None or not phase.generated:
        return
    expected = sum(made.queries * made.samples_per_query for made in phase.generated)
    if tally.answers > expected:
        yield run.in_answers(f"{tally.answers} answers", f"at most {expected}, as generated")
    for sample, line in tally.differing:
        yield run.in_answers(
            f"two different answers to sample {sample}", "the same answer", line, Severity.WARNING
        )


@rule("served.layout", ServedRun, severity=Severity.WARNING)
def layout(run: ServedRun) -> Iterator[Fault]:
    """The accuracy log has LoadGen's layout, one answer per line; any other layout of the same JSON
    is a warning.

    Source: mlcommons/inference, loadgen/logging.cc, AsyncLog::LogAccuracy; the accuracy scripts
    read any JSON.
    Advice: submit LoadGen's accuracy log unmodified.
    """
    if run.tally.rewritten is not None:
        yield run.in_answers(
            "answers in a different layout",
            'lines such as { "seq_id" : 0, "qsl_idx" : 28, "data" : "08000000" },',
            run.tally.rewritten,
        )


@rule("served.sequence", ServedRun)
def sequence(run: ServedRun) -> Iterator[Fault]:
    """No two answers have the same sequence number.

    Source: mlcommons/inference, loadgen/loadgen.cc, SequenceGen: every sample that is sent gets the
    next number.
    Advice: submit LoadGen's accuracy log unmodified.
    """
    for number_, line in run.tally.reused:
        yield run.in_answers(f"seq_id {number_} again", "each once", line)


@rule("served.data", ServedRun)
def data(run: ServedRun) -> Iterator[Fault]:
    """Answers have the format that the benchmark's accuracy script reads: classes of equal size,
    detections of seven numbers each.

    Source: mlcommons/inference, v0.5/classification_and_detection/tools/accuracy-imagenet.py and
    accuracy-coco.py.
    Advice: make the system answer in the reference's format, and repeat the accuracy run.
    """
    tally, metric = run.tally, run.row.metric if run.row else None
    if not of_accuracy(run) or run.round.filing.truncated_accuracy_bytes is not None:
        return
    if metric == "accuracy" and len(tally.sizes) > 1:
        yield run.in_answers(
            f"answers of {', '.join(str(size) for size in sorted(tally.sizes)[:5])} bytes",
            "all of one size",
        )
    if metric == "accuracy":
        for sample, line in tally.empty[:5]:
            yield run.in_answers(f"an empty answer to sample {sample}", "a class", line)
    odd = [size for size in tally.sizes if size % DETECTION]
    if metric == "mAP" and odd:
        yield run.in_answers(
            f"{sum(tally.sizes[size] for size in odd)} answers that are no detections, one of"
            f" {odd[0]} bytes",
            f"a multiple of {DETECTION}",
        )


@rule("served.unsampled", ServedRun)
def unsampled(run: ServedRun) -> Iterator[Fault]:
    """A performance run logs no answers unless that was requested.

    Source: mlcommons/inference, loadgen/loadgen.cc, ResponseDelegateDetailed: answers are logged in
    accuracy mode, or by accuracy_log_probability.
    Advice: submit the accuracy log of the performance run itself, which contains only brackets.
    """
    asked = any(
        run.setting(name) for name in ("accuracy_log_probability", "accuracy_log_sampling_target")
    )
    if (
        run.performance
        and run.tally.answers
        and run.logged_mode != BOTH
        and not asked
        and read(run)
    ):
        yield run.in_answers(f"{run.tally.answers} answers in a performance run", "none")


@rule("served.truncated", ServedRun)
def truncated(run: ServedRun) -> Iterator[Fault]:
    """If the round requires truncated accuracy logs, this log is truncated.

    Source: mlcommons/inference, tools/submission/submission-checker.py of branch r0.7:
    MAX_ACCURACY_LOG_SIZE.
    Advice: truncate the log with the round's truncate_accuracy_log.py, which writes its hash to
    accuracy.txt.
    """
    limit = run.round.filing.truncated_accuracy_bytes
    if (
        limit is not None
        and not run.performance
        and not run.accuracy_source.has(Kind.MISSING, Kind.UNREADABLE)
        and run.tally.size > limit
    ):
        yield run.in_answers(f"{run.tally.size} bytes", f"at most {limit}")
