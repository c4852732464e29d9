"""Check the accuracy log of a published round's LoadGen run: every sample is answered once, and a
performance run has no answers.
"""

from collections.abc import Iterator

from compliance.kinds.inference_text.documents.entry import TextRun
from compliance.kinds.inference_text.logs.legacy_detail import LegacyTestMode as LoadGenMode
from compliance.kinds.inference_text.rules.loadgen_run import (
    SUBMISSION_MODE,
    has_readable_detail_log,
)
from compliance.logs.source_file import ParseErrorKind
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.loadgen.scenario import Scenario

COCO_DETECTION_BYTES = 28
"""Bytes of a detection: seven float32. Source: mlcommons/inference,
v0.5/classification_and_detection/tools/accuracy-coco.py.
"""


def has_accuracy_answers(run: TextRun) -> bool:
    """Return whether the run answers the whole data set."""
    return not run.performance or run.logged_mode == SUBMISSION_MODE


@rule(
    "inference-text.data_set",
    TextRun,
    About.QUALITY,
    doubt="whether the accuracy is that of the whole data set",
    former="served.data_set",
)
def data_set(run: TextRun) -> Iterator[Fault]:
    """An accuracy run loads every sample of the benchmark's accuracy set, one loaded set after
    another.

    Source: inference_rules.adoc v0.5, Load generator: accuracy mode covers the whole data set; Data
    sets.
    Advice: repeat the accuracy run with the whole data set.
    """
    phase = run.detail.find_phase(LoadGenMode.ACCURACY)
    total = run.find_number("qsl_reported_total_count")
    if not has_accuracy_answers(run) or phase is None or total is None:
        return
    line = run.find_line("qsl_reported_total_count")
    if run.row:
        sizes = run.row.accuracy_samples
    else:
        sizes = ()
    if sizes and total not in sizes:
        yield run.build_fault(
            f"a data set of {total:g} samples",
            " or ".join(f"{size:,}" for size in sizes),
            line,
            severity=None if run.closed else Severity.WARNING,
        )
    covered = sum(run.detail.accuracy_samples)
    if covered != total or len(run.detail.accuracy_samples) > total:
        yield run.build_fault(
            f"{covered} samples loaded, the highest {len(run.detail.accuracy_samples) - 1}",
            f"{total:g}, numbered from 0",
            phase.line,
        )
    if sum(loaded.distinct for loaded in phase.loaded) != covered:
        yield run.build_fault("samples loaded in more than one set", "each sample once", phase.line)


@rule(
    "inference-text.answers",
    TextRun,
    About.QUALITY,
    doubt="whether the accuracy is that of the whole data set",
    former="served.answers",
)
def answers(run: TextRun) -> Iterator[Fault]:
    """An accuracy run answers every sample of its data set once, except for MultiStream's padding.

    Source: inference_rules.adoc v0.5, Load generator; mlcommons/inference, loadgen/loadgen.cc,
    GenerateLoadableSets.
    Advice: repeat the accuracy run; do not omit or add answers.
    """
    tally = run.tally
    if (
        not has_accuracy_answers(run)
        or not tally.whole
        or run.round.filing.truncated_accuracy_bytes is not None
    ):
        return
    # the accuracy folder contains the answers of both halves
    if run.performance and not tally.answers:
        return
    total = run.find_number("qsl_reported_total_count")
    sizes = run.row.accuracy_samples if run.row else ()
    expected = (total,) if total is not None else sizes
    if expected and tally.distinct not in expected:
        yield run.build_fault(
            f"{tally.distinct} samples answered",
            " or ".join(f"{size:g}" for size in expected),
            file=run.accuracy_source.path,
        )
    if expected and tally.highest >= max(expected):
        yield run.build_fault(
            f"an answer to sample {tally.highest}",
            f"samples 0 to {max(expected) - 1:g}",
            file=run.accuracy_source.path,
        )
    if tally.repeated and run.scenario is not Scenario.MULTI_STREAM:
        yield run.build_fault(
            f"{tally.repeated} samples answered again",
            "each sample once",
            file=run.accuracy_source.path,
        )
    yield from check_multi_stream_padding(run)


def check_multi_stream_padding(run: TextRun) -> Iterator[Fault]:
    """Compare MultiStream's answers with the generated queries; accepted logs may omit the
    padding.
    """
    phase, tally = run.detail.find_phase(LoadGenMode.ACCURACY), run.tally
    if run.scenario is not Scenario.MULTI_STREAM or phase is None or not phase.generated:
        return
    expected = sum(made.queries * made.samples_per_query for made in phase.generated)
    if tally.answers > expected:
        yield run.build_fault(
            f"{tally.answers} answers",
            f"at most {expected}, the generated number",
            file=run.accuracy_source.path,
        )
    for sample, line in tally.differing:
        yield run.build_fault(
            f"two different answers to sample {sample}",
            "the same answer",
            line,
            file=run.accuracy_source.path,
            severity=Severity.WARNING,
        )


@rule("inference-text.layout", TextRun, former="served.layout", severity=Severity.WARNING)
def layout(run: TextRun) -> Iterator[Fault]:
    """The accuracy log has LoadGen's layout, one answer per line. Any other layout of the same JSON
    is a warning.

    Source: mlcommons/inference, loadgen/logging.cc, AsyncLog::LogAccuracy; the accuracy scripts
    read any JSON.
    Advice: put LoadGen's own accuracy log here; tools that reformat JSON change its layout.
    """
    if run.tally.rewritten is not None:
        yield run.build_fault(
            "answers in a different layout",
            'lines such as { "seq_id" : 0, "qsl_idx" : 28, "data" : "08000000" },',
            run.tally.rewritten,
            file=run.accuracy_source.path,
        )


@rule(
    "inference-text.sequence",
    TextRun,
    About.QUALITY,
    doubt="whether these answers are the accuracy run's",
    former="served.sequence",
)
def sequence(run: TextRun) -> Iterator[Fault]:
    """No two answers have the same sequence number.

    Source: mlcommons/inference, loadgen/loadgen.cc, SequenceGen: every sample that LoadGen sends
    gets the next number.
    Advice: put the accuracy log of one run here; logs of several runs are separate files.
    """
    for number_, line in run.tally.reused:
        yield run.build_fault(
            f"seq_id {number_} again", "each number once", line, file=run.accuracy_source.path
        )


@rule("inference-text.data", TextRun, About.QUALITY, doubt="the accuracy", former="served.data")
def data(run: TextRun) -> Iterator[Fault]:
    """Answers have the format that the benchmark's accuracy script reads: classes of equal size,
    detections of seven numbers each.

    Source: mlcommons/inference, v0.5/classification_and_detection/tools/accuracy-imagenet.py and
    accuracy-coco.py.
    Advice: make the system answer in the reference's format, and repeat the accuracy run.
    """
    tally, metric = run.tally, run.row.metric if run.row else None
    if not has_accuracy_answers(run) or run.round.filing.truncated_accuracy_bytes is not None:
        return
    if metric == "accuracy" and len(tally.sizes) > 1:
        yield run.build_fault(
            f"answers of {', '.join(str(size) for size in sorted(tally.sizes)[:5])} bytes",
            "answers of one size",
            file=run.accuracy_source.path,
        )
    if metric == "accuracy":
        for sample, line in tally.empty[:5]:
            yield run.build_fault(
                f"an empty answer to sample {sample}",
                "a class",
                line,
                file=run.accuracy_source.path,
            )
    odd = [size for size in tally.sizes if size % COCO_DETECTION_BYTES]
    if metric == "mAP" and odd:
        yield run.build_fault(
            f"{sum(tally.sizes[size] for size in odd)} answers that are not detections,"
            f" one of {odd[0]} bytes",
            f"a multiple of {COCO_DETECTION_BYTES}",
            file=run.accuracy_source.path,
        )


@rule("inference-text.unsampled", TextRun, former="served.unsampled")
def unsampled(run: TextRun) -> Iterator[Fault]:
    """A performance run logs no answers unless the settings request them.

    Source: mlcommons/inference, loadgen/loadgen.cc, ResponseDelegateDetailed: answers are logged in
    accuracy mode, or by accuracy_log_probability.
    Advice: submit the accuracy log of the performance run itself, which contains only brackets.
    """
    is_requested = any(
        run.find_number(f"effective_{name}")
        for name in ("accuracy_log_probability", "accuracy_log_sampling_target")
    )
    if (
        run.performance
        and run.tally.answers
        and run.logged_mode != SUBMISSION_MODE
        and not is_requested
        and has_readable_detail_log(run)
    ):
        yield run.build_fault(
            f"{run.tally.answers} answers in a performance run",
            "none",
            file=run.accuracy_source.path,
        )


@rule("inference-text.truncated", TextRun, former="served.truncated")
def truncated(run: TextRun) -> Iterator[Fault]:
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
        and not run.accuracy_source.has_parse_error(
            ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE
        )
        and run.tally.size > limit
    ):
        yield run.build_fault(
            f"{run.tally.size} bytes", f"at most {limit}", file=run.accuracy_source.path
        )
