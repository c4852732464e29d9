"""Check the accuracy of an entry: recomputed from the answers, and compared with ground truth,
reference and threshold.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from compliance.documents.line_ends import advise_on_line_ends
from compliance.kinds.podium.documents.inference import InferenceEntry, LoadGenRun
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import ACCURACY_LOG, ACCURACY_TEXT, compute_file_sha256
from suite.rounds import InferenceRow
from suite.terms import Precision, Profile
from suite.workload import Scores

PRINTED_SCORE_TOLERANCE: Final = 1e-6
"""accuracy.txt has six decimals."""
EXACT_PRECISIONS: Final = (Precision.FP32, Precision.TF32)
"""Formats in which a result equals the reference's except for the order of additions."""
DEFAULT_EXCESS_TOLERANCE: Final = 0.05
"""Effect of the order of additions on a score of few samples, if the row does not give it: BLEU and
AP of one network served twice differ by at most 0.01.
"""
COARSE_PRECISION_FACTOR: Final = 3
"""Factor by which a result in another format may be farther from the reference."""


@rule("accuracy.score", InferenceEntry, About.QUALITY)
def score(entry: InferenceEntry) -> Iterator[Fault]:
    """The score in accuracy.txt equals the score that the workload's scorer computes from the
    accuracy log and the ground truth.

    Source: inference_rules.adoc v0.5, Benchmarks: the accuracy script of the reference;
    workloads/<name>/scoring.py.
    Advice: run the accuracy mode again with podium infer, which scores the answers itself.
    """
    if entry.accuracy is not None and entry.scores is not None:
        yield from compare_stated_scores(entry.accuracy, entry.accuracy_text, entry.scores)


def compare_stated_scores(
    run: LoadGenRun, stated: Mapping[str, tuple[float, str, int]], scores: Scores
) -> Iterator[Fault]:
    """Yield differences between accuracy.txt beside an accuracy run and the recomputed scores."""
    file = run.folder / ACCURACY_TEXT
    for metric, value in scores.items():
        found = stated.get(metric)
        if found is None:
            yield run.build_fault(f"no {metric}", f"{metric}={value:.6f}", file=file)
        elif not math.isclose(found[0], value, abs_tol=PRINTED_SCORE_TOLERANCE):
            yield run.build_fault(
                f"{metric}={found[0]}", f"{value:.6f}, recomputed", found[2], file=file
            )
    for metric in sorted(stated.keys() - scores.keys()):
        yield run.build_fault(
            f"a score of {metric}", ", ".join(scores), stated[metric][2], file=file
        )


@rule(
    "accuracy.unscored",
    InferenceEntry,
    About.QUALITY,
    severity=Severity.INFO,
    unchecked="accuracy",
)
def unscored(entry: InferenceEntry) -> Iterator[Fault]:
    """An accuracy that the judge cannot recompute is reported, because it is only the run's own
    claim.

    Source: house rule: the judge recomputes what it can, and reports what it cannot.
    Advice: pass the labels or references with --truth.
    """
    if entry.scores is None and entry.accuracy is not None:
        yield entry.build_fault(
            f"accuracy not recomputed: {entry.unscored}",
            "ground truth and a scorer for the workload",
        )


@rule("accuracy.packed", InferenceEntry, About.QUALITY)
def packed(entry: InferenceEntry) -> Iterator[Fault]:
    """The tree contains the ground truth of the embedded data, and the answers can be scored with
    it.

    Source: house rule: labels that anyone can generate may be packed, so that scores can be
    verified.
    Advice: serve the scenario's accuracy run again, which packs the ground truth; labels of real
    data sets are not packed, so pass them with --truth.
    """
    embedded = (
        entry.accuracy is not None
        and entry.accuracy.record is not None
        and entry.accuracy.record.system.profile == Profile.SMOKE
    )
    if entry.place and embedded and entry.scores is None:
        yield entry.build_fault(
            f"accuracy not recomputed: {entry.unscored}",
            "packed ground truth, and readable answers",
        )


@rule("accuracy.hash", InferenceEntry, About.QUALITY)
def hashes(entry: InferenceEntry) -> Iterator[Fault]:
    """accuracy.txt contains, for each metric, the SHA-256 of the accuracy log beside it.

    Source: submission_rules.adoc: accuracy.txt holds the hash of mlperf_log_accuracy.json.
    Advice: submit the accuracy log that was scored.
    """
    if entry.accuracy is not None:
        yield from check_stated_hashes(entry.accuracy, entry.accuracy_text)


def check_stated_hashes(
    run: LoadGenRun, stated: Mapping[str, tuple[float, str, int]]
) -> Iterator[Fault]:
    """Yield hashes in accuracy.txt that are not that of the answers."""
    file, wanted = run.folder / ACCURACY_TEXT, run.answers.sha256
    for metric, (_, sha256, line) in stated.items():
        if sha256 != wanted:
            yield run.build_fault(
                f"hash of {metric} {sha256}",
                wanted,
                line,
                file=file,
                advice=advise_on_line_ends([run.folder / ACCURACY_LOG]),
            )


@rule("accuracy.truth", InferenceEntry, About.QUALITY)
def truth(entry: InferenceEntry) -> Iterator[Fault]:
    """The packed ground truth is the one that scored the run.

    Source: house rule: the measurements file contains its hash.
    Advice: put the data set's own labels back and serve again, so that the same labels are packed
    and scored.
    """
    if entry.measurements and entry.truth and entry.truth_sha256 != entry.measurements.truth_sha256:
        yield entry.build_fault(
            f"SHA-256 {entry.truth_sha256}",
            f"{entry.measurements.truth_sha256}, as in the measurements",
            file=entry.truth,
            advice=advise_on_line_ends(entry.truth.rglob("*")),
        )


@rule("accuracy.pinned", InferenceEntry, About.QUALITY)
def pinned(entry: InferenceEntry) -> Iterator[Fault]:
    """The ground truth of the embedded data has the hash that every machine generates. Labels and
    answers that were rewritten together fail this check.

    Source: the row's truth_sha256 and earlier_truth_sha256.
    Advice: delete the folder truth/ and the generated data in the cache, then serve again; in
    profile smoke serve the embedded data, without --data.
    """
    wanted = entry.inference.truth_sha256 if entry.inference else None
    if entry.inference is None or wanted is None:
        return
    pinned_sha256 = (wanted, *entry.inference.earlier_truth_sha256)
    stated_sha256 = entry.measurements.truth_sha256 if entry.measurements else wanted
    if entry.truth and entry.truth_sha256 not in pinned_sha256:
        yield entry.build_fault(
            f"SHA-256 {entry.truth_sha256}",
            f"{wanted} for the embedded data",
            file=entry.truth,
            advice=advise_on_line_ends(entry.truth.rglob("*")),
        )
    if stated_sha256 not in pinned_sha256:
        yield entry.build_fault(
            f"truth_sha256 {stated_sha256}",
            f"{wanted} for the embedded data",
            file=entry.measurements_path,
        )


@rule("accuracy.truth_files", InferenceEntry, About.QUALITY, severity=Severity.WARNING)
def truth_files(entry: InferenceEntry) -> Iterator[Fault]:
    """Files of the ground truth that everybody takes from one source have the row's hashes. A
    tokenizer with shorter tokens would need more of them for the same text, and so give more
    tokens/s.

    Source: the row's truth_files. A copy that a program wrote anew differs, though it may mean the
    same, so this is a warning.
    Advice: serve the data with the published file, byte for byte.
    """
    if not entry.inference:
        return
    for name, wanted in entry.inference.truth_files.items():
        path = entry.truth / name if entry.truth else None
        try:
            sha256 = compute_file_sha256(path) if path and path.is_file() else None
        except OSError:
            continue  # which accuracy.packed finds
        if sha256 not in (None, wanted):
            yield entry.build_fault(
                f"{name} with SHA-256 {sha256}", f"{wanted}, the published one", file=path
            )


@rule("accuracy.reference", InferenceEntry, About.QUALITY)
def reference(entry: InferenceEntry) -> Iterator[Fault]:
    """A served model reaches 99 % of its checkpoint's reference accuracy in the training log.

    Source: inference_rules.adoc v0.5, Benchmarks: 99 % of the fp32 reference; the round's
    accuracy_share.
    Advice: serve in a higher precision, or improve the calibration.
    """
    share = entry.round.loadgen.accuracy_share
    for metric, reference_score in select_reference_scores(entry).items():
        found = find_served_score(entry, metric)
        if found is not None and not found >= share * reference_score:
            yield entry.build_fault(
                f"{metric} {found:.6g}",
                f"at least {share * reference_score:.6g}, {share:.0%} of {reference_score:.6g}",
                file=entry.folder / "accuracy" / ACCURACY_TEXT,
            )


@rule("accuracy.excess", InferenceEntry, About.QUALITY)
def excess(entry: InferenceEntry) -> Iterator[Fault]:
    """A served model is not more accurate than its own checkpoint by more than the row allows
    (default 0.05), or three times that in a lower precision.

    Source: house rule: the reference accuracy is the fp32 score of the same weights on the same
    samples; the row's reference_within.
    Advice: find out why the exported weights scored lower; answers copied from the labels are not a
    result.
    """
    row = entry.round.benchmarks.get(entry.workload or "")
    within = row.reference_within if row else {}
    for metric, reference_score in select_reference_scores(entry).items():
        found, tolerance = (
            find_served_score(entry, metric),
            within.get(metric, DEFAULT_EXCESS_TOLERANCE),
        )
        if entry.record and entry.record.system.precision in EXACT_PRECISIONS:
            wide = 1
        else:
            wide = COARSE_PRECISION_FACTOR
        if found is not None and found > reference_score + tolerance * wide:
            required = (
                f"at most {reference_score + tolerance * wide:.6g}, since the checkpoint"
                f" has {reference_score:.6g}"
            )
            yield entry.build_fault(
                f"{metric} {found:.6g}", required, file=entry.folder / "accuracy" / ACCURACY_TEXT
            )


def select_reference_scores(entry: InferenceEntry) -> dict[str, float]:
    """Return the reference accuracy: from the training logs, the highest if they differ; from the
    measurements without a log.
    """
    found: dict[str, float] = {}
    sources = [log.reference for log in entry.origins] or (
        [entry.measurements.reference_accuracy] if entry.measurements else []
    )
    for source in sources:
        for metric, value in source.items():
            found[metric] = max(value, found.get(metric, value))
    return found


def find_served_score(entry: InferenceEntry, metric: str) -> float | None:
    """Return the score of a metric: recomputed, or as stated."""
    if entry.scores is not None:
        return entry.scores.get(metric, math.nan)
    stated = entry.accuracy_text.get(metric)
    return stated[0] if stated else None


@rule("accuracy.threshold", InferenceEntry, About.QUALITY)
def threshold(entry: InferenceEntry) -> Iterator[Fault]:
    """A served model reaches the round's own threshold, if the row has one, and does not exceed
    the row's upper one.

    Source: inference_rules.adoc v0.5, Benchmarks; the row's threshold and threshold_most.
    Advice: serve a checkpoint that was trained to the full target.
    """
    for metric, wanted, is_upper in list_thresholds(entry.inference):
        found = find_served_score(entry, metric)
        if found is None or (found <= wanted if is_upper else found >= wanted):
            continue
        yield entry.build_fault(
            f"{metric} {found:.9g}",
            f"at {'most' if is_upper else 'least'} {wanted:.9g}",
            file=entry.folder / "accuracy" / ACCURACY_TEXT,
        )


def list_thresholds(row: InferenceRow | None) -> list[tuple[str, float, bool]]:
    """List a row's thresholds: metric, value, and whether it is an upper one."""
    if row is None:
        return []
    lower = [(metric, value, False) for metric, value in row.threshold.items()]
    return lower + [(metric, value, True) for metric, value in row.threshold_most.items()]
