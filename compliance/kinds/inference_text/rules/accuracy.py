"""Check accuracy.txt of a published inference entry against the accuracy log and the round's
thresholds.
"""

import math
from collections.abc import Iterator
from typing import Final

from compliance.kinds.inference_text.documents.entry import TextEntry
from compliance.kinds.inference_text.documents.entry_files import Claim, ClaimedCounts
from compliance.kinds.inference_text.documents.reader import is_claims_file_missing
from compliance.kinds.inference_text.documents.top1 import Top1
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity

HIGHEST_PERCENTAGE: Final = 100.0
HIGHEST_SCORES: Final = {"DICE": 1.0}
"""Metric -> the highest possible score, if it is not a percentage."""
UNIT_ERROR_TOLERANCE: Final = 0.05
"""Tolerance for a score in the wrong unit, compared with a hundredth of the reference's quality."""


def select_claimed_score(entry: TextEntry) -> tuple[str, Claim] | None:
    """Return the score that counts: the benchmark's own metric or, in the open division, any
    metric.
    """
    scores = entry.claims.scores
    if entry.row and entry.row.metric in scores:
        return entry.row.metric, scores[entry.row.metric][0]
    if entry.row and entry.closed:
        return None
    return next(((metric, claims[0]) for metric, claims in scores.items()), None)


def build_accuracy_text_fault(
    entry: TextEntry,
    found: str,
    required: str,
    line: int | None = None,
    severity: Severity | None = None,
) -> Fault:
    return entry.build_fault(
        found, required, line, file=entry.claims.source.path, severity=severity
    )


@rule("inference-text.score", TextEntry, About.QUALITY, doubt="the accuracy", former="filed.score")
def score(entry: TextEntry) -> Iterator[Fault]:
    """accuracy.txt contains the benchmark's score. If the score occurs several times, the values
    are equal.

    Source: submission-checker.py, check_accuracy_dir and ACC_PATTERN: accuracy=, mAP=, BLEU: and so
    on.
    Advice: run the reference's accuracy script on the accuracy log and submit its output.
    """
    if is_claims_file_missing(entry.claims):
        return
    if select_claimed_score(entry) is None:
        yield build_accuracy_text_fault(
            entry,
            "no score",
            f"{entry.row.metric if entry.row else 'accuracy, mAP or BLEU'}, as the accuracy script"
            " prints it",
        )
    for metric, claims in entry.claims.scores.items():
        for claim in claims[1:]:
            if claim.value != claims[0].value:
                yield build_accuracy_text_fault(
                    entry,
                    f"{metric} {claim.value}, after {claims[0].value}",
                    "one score",
                    claim.line,
                    Severity.WARNING,
                )
        for claim in claims:
            limit = HIGHEST_SCORES.get(metric, HIGHEST_PERCENTAGE)
            if not math.isfinite(claim.value):
                yield build_accuracy_text_fault(
                    entry, f"{metric} {claim.value}", "a finite number", claim.line
                )
            elif claim.value > limit:
                yield build_accuracy_text_fault(
                    entry, f"{metric} {claim.value:g}", f"at most {limit:g}", claim.line
                )
            elif (
                entry.row
                and metric == entry.row.metric
                and math.isclose(
                    claim.value * HIGHEST_PERCENTAGE,
                    entry.row.reference,
                    rel_tol=UNIT_ERROR_TOLERANCE,
                )
            ):
                yield build_accuracy_text_fault(
                    entry,
                    f"{metric} {claim.value:g}",
                    f"about {entry.row.reference:g}: the claim is a hundred times as much",
                    claim.line,
                )


@rule(
    "inference-text.threshold",
    TextEntry,
    About.QUALITY,
    doubt="the accuracy",
    former="filed.threshold",
)
def threshold(entry: TextEntry) -> Iterator[Fault]:
    """A closed result reaches the required share of the reference quality.

    Source: inference_rules.adoc v0.5, Benchmarks: 99 % of FP32 (MobileNet 98 %);
    submission-checker.py, accuracy-target.
    Advice: serve a more accurate model, or submit to the open division.
    """
    found = select_claimed_score(entry)
    if entry.closed and entry.row and found and found[1].value < entry.row.threshold:
        metric, claim = found
        required = f"{entry.row.threshold:g}, {entry.row.share:.1%} of {entry.row.reference:g}"
        yield build_accuracy_text_fault(entry, f"{metric} {claim.value:g}", required, claim.line)
    top1 = entry.top1
    if entry.closed and entry.row and top1 and top1.percent < entry.row.threshold:
        file = None
        if entry.accuracy:
            file = entry.accuracy.accuracy_source.path
        yield entry.build_fault(
            f"top-1 {top1.percent:g} %, recomputed", f"{entry.row.threshold:g}", file=file
        )


@rule(
    "inference-text.counts", TextEntry, About.QUALITY, doubt="the accuracy", former="filed.counts"
)
def counts(entry: TextEntry) -> Iterator[Fault]:
    """The accuracy in accuracy.txt follows from the counts beside it, and these match the accuracy
    run.

    Source: mlcommons/inference, v0.5/classification_and_detection/tools/accuracy-imagenet.py.
    Advice: run the accuracy script on the submitted accuracy log.
    """
    claims = entry.claims
    if entry.row and entry.row.metric == "accuracy":
        sizes = entry.row.accuracy_samples
    else:
        sizes = ()
    for position, claimed in enumerate(claims.counts):
        good, total, line = claimed.good, claimed.total, claimed.line
        if total <= 0 or good > total:
            yield build_accuracy_text_fault(
                entry, f"good={good}, total={total}", "no more correct answers than answers", line
            )
            continue
        scores = claims.scores.get("accuracy", [])
        claim = None
        if position < len(scores):
            claim = scores[position]
        if claim and not math.isclose(claim.value, 100 * good / total, abs_tol=claim.tolerance):
            yield build_accuracy_text_fault(
                entry,
                f"accuracy={claim.value:g}%",
                f"{100 * good / total:.3f}, from {good} of {total}",
                line,
            )
        if sizes and total not in sizes:
            yield build_accuracy_text_fault(
                entry,
                f"total={total}",
                " or ".join(map(str, sizes)),
                line,
                None if entry.closed else Severity.WARNING,
            )
        yield from check_answered_samples(entry, claimed)


def check_answered_samples(entry: TextEntry, claimed: ClaimedCounts) -> Iterator[Fault]:
    """Compare the samples with the accuracy log, or with the data set of the accuracy run."""
    run = entry.accuracy
    if run is None:
        return
    size = run.find_number("qsl_reported_total_count")
    found = f"total={claimed.total}"
    if claimed.samples != claimed.total:
        found = f"queries={claimed.samples}"
    if run.tally.whole and not entry.round.filing.truncated_accuracy_bytes:
        if claimed.samples != run.tally.distinct:
            yield build_accuracy_text_fault(
                entry, found, f"{run.tally.distinct}, as in the accuracy log", claimed.line
            )
    elif size is not None and claimed.samples != size:
        yield build_accuracy_text_fault(
            entry, found, f"{size:g}, as in the accuracy run's log", claimed.line
        )


@rule("inference-text.table", TextEntry, About.QUALITY, doubt="the accuracy", former="filed.table")
def table(entry: TextEntry) -> Iterator[Fault]:
    """The mAP in accuracy.txt is the average precision in the table above it.

    Source: mlcommons/inference, v0.5/classification_and_detection/tools/accuracy-coco.py: mAP is
    100 times the first line.
    Advice: submit the accuracy script's output unchanged.
    """
    claims = entry.claims
    score_ = claims.scores.get("mAP")
    if (
        claims.table
        and score_
        and abs(score_[-1].value / 100 - claims.table.value)
        > claims.table.tolerance + score_[-1].tolerance / 100
    ):
        yield build_accuracy_text_fault(
            entry,
            f"mAP={score_[-1].value:g}%",
            f"{100 * claims.table.value:g}, line {claims.table.line}",
            score_[-1].line,
        )


@rule("inference-text.top1", TextEntry, About.QUALITY, doubt="the accuracy", former="filed.top1")
def top1(entry: TextEntry) -> Iterator[Fault]:
    """The top-1 accuracy in accuracy.txt equals the one recomputed from the accuracy log and the
    labels.

    Source: mlcommons/inference, v0.5/classification_and_detection/tools/accuracy-imagenet.py; house
    rule: a claim agrees with its own log.
    Advice: run the accuracy script on the submitted accuracy log.
    """
    found = entry.top1
    if found is None:
        return
    if found.strange is not None and entry.accuracy and 2 * found.good > found.samples:
        yield entry.accuracy.build_fault(
            f"an answer to sample {found.strange} that is not a class",
            "a class of ImageNet",
            file=entry.accuracy.accuracy_source.path,
        )
    for claim in entry.claims.scores.get("accuracy", []):
        if not math.isclose(claim.value, found.percent, abs_tol=claim.tolerance):
            yield build_accuracy_text_fault(
                entry,
                f"accuracy={claim.value:g}%",
                f"{found.percent:.3f}, {describe_recomputed_top1(found)}",
                claim.line,
            )
    for claimed in entry.claims.counts:
        if claimed.good != found.good:
            yield build_accuracy_text_fault(
                entry,
                f"good={claimed.good}",
                f"{found.good}, {describe_recomputed_top1(found)}",
                claimed.line,
            )


def describe_recomputed_top1(found: Top1) -> str:
    """Describe how the answers were read."""
    return (
        f"recomputed from {found.samples} answers of {found.size} bytes, read as '{found.format}'"
    )


@rule(
    "inference-text.unscored",
    TextEntry,
    About.QUALITY,
    former="filed.unscored",
    severity=Severity.INFO,
    unchecked="accuracy",
)
def unscored(entry: TextEntry) -> Iterator[Fault]:
    """An accuracy that the judge cannot recompute is reported, because it is only the submitter's
    claim.

    Source: house rule: the judge recomputes what it can, and reports what it cannot.
    Advice: pass the labels with --truth.
    """
    if entry.top1 is None and entry.accuracy is not None:
        yield entry.build_fault(
            f"accuracy not recomputed: {entry.top1_problem}", "labels, and answers that are classes"
        )


@rule(
    "inference-text.hash",
    TextEntry,
    About.QUALITY,
    doubt="whether these answers are the accuracy run's",
    former="filed.hash",
)
def hashed(entry: TextEntry) -> Iterator[Fault]:
    """If accuracy logs are submitted truncated, accuracy.txt contains the hash of the complete log.

    Source: mlcommons/inference, tools/submission/submission-checker.py of branch r0.7,
    check_accuracy_dir.
    Advice: truncate the log with the round's truncate_accuracy_log.py, which writes the hash.
    """
    if (
        entry.round.filing.truncated_accuracy_bytes
        and not is_claims_file_missing(entry.claims)
        and entry.claims.hash is None
    ):
        yield build_accuracy_text_fault(
            entry, "no hash", "hash=<SHA-256 of mlperf_log_accuracy.json>"
        )
