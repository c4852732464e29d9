"""The submitted compliance tests of a published inference entry."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from compliance.kinds.inference_text.documents.entry import SUMMARY_HEADLINES, TextAuditTest
from compliance.kinds.inference_text.documents.reader import (
    BASELINE_ACCURACY_TEXT,
    COMPLIANCE_ACCURACY_TEXT,
    SAMPLED_ANSWERS_TEST,
)
from compliance.logs.source_file import SourceFile, read_source_text
from compliance.recognition.tree_path import is_folder
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import ACCURACY_TEXT
from suite.loadgen.scenario import Scenario

MAX_VERDICT_BYTES: Final = 1 << 20
AUDIT_FAILED_PATTERN: Final = re.compile(r"\bTEST FAIL|\bFAIL(?:ED|URE)?\b")
AUDIT_PASSED_PATTERN: Final = re.compile(r"\bPASS(?:ED)?\b")
VERIFICATION_BEGUN_PATTERN: Final = re.compile(r"^Verifying", re.MULTILINE)
TRACEBACK_HEAD: Final = "Traceback (most recent call last)"
"""Outputs of a script that could not read its logs; they prove nothing about the logs."""
TEST_SCORE_PATTERN: Final = re.compile(r"^test score\s*=\s*([0-9.eE+]+)", re.MULTILINE)
REFERENCE_SCORE_PATTERN: Final = re.compile(r"^reference score\s*=\s*([0-9.eE+]+)", re.MULTILINE)
PRINTED_COUNTS_PATTERN: Final = re.compile(r"^(num_\w+)\s*=\s*(\d{1,12})\b", re.MULTILINE)
MISMATCHES_KEY: Final = "num_perf_log_data_mismatch"
ENTRIES_KEY: Final = "num_perf_log_entries"
MATCHES_KEY: Final = "num_perf_log_qsl_idx_match"
MISSING_SAMPLES_KEY: Final = "num_missing_qsl_idxs"
"""Counts of TEST01's script: entries of the performance log whose sample is in the accuracy log,
other entries, and differing answers.
"""
SAMPLED_QUALITY_SHARE: Final = 0.95
"""Share of the benchmark's quality: the score on part of the data set may be somewhat lower than on
the whole.
"""
VALID_RUN_TESTS: Final = ("TEST01", "TEST03", "TEST05")
"""Tests whose script rejects the summary of an invalid run."""
AUDIT_SCORE_TOLERANCE: Final = 0.10
SHORT_LATENCY_TOLERANCE: Final = 0.20
SHORT_LATENCY_NS: Final = 200_000
"""A test's score may differ by a tenth from the result, or by a fifth for SingleStream latencies up
to 200 microseconds.
"""


def read_verdict_texts(sources: Sequence[SourceFile]) -> Iterator[tuple[SourceFile, str]]:
    """Read the files that contain a test's outcome."""
    yield from (
        (source, read_source_text(SourceFile(source.path), MAX_VERDICT_BYTES)) for source in sources
    )


def build_verdict_line_fault(
    source: SourceFile,
    text: str,
    match: re.Match[str],
    required: str,
    severity: Severity | None = None,
) -> Fault:
    return Fault(
        file=source.path,
        line=text.count("\n", 0, match.start()) + 1,
        found=match[0],
        required=required,
        severity=severity,
    )


@rule(
    "inference-text.audit_passed",
    TextAuditTest,
    About.RULES,
    doubt="whether the system keeps the rules that the test is for",
    former="filed.audit_passed",
)
def passed(test: TextAuditTest) -> Iterator[Fault]:
    """A submitted compliance test passed. Answers may differ between runs if their scores are shown
    to be equal.

    Source: mlcommons/inference, v0.5/audit/nvidia: the scripts print TEST PASS or TEST FAIL;
    TEST01/README, Non-determinism: equal scores overturn an objection.
    Advice: find out why the test failed; if answers differ between runs, submit the scores of both
    runs in TEST01/accuracy.
    """
    for source, text in read_verdict_texts(test.verdicts):
        match = AUDIT_FAILED_PATTERN.search(text)
        if match is None and AUDIT_PASSED_PATTERN.search(text):
            yield from check_printed_counts(source, text)
            continue
        overturned = (
            test.name == SAMPLED_ANSWERS_TEST
            and "accuracy" in source.path.name.casefold()
            and is_audit_quality_shown(test, text)
        )
        if match:
            of_speed = "performance" in source.path.name.casefold()
            unsure = overturned or (of_speed and not test.round.filing.audits_checked)
            yield build_verdict_line_fault(
                source, text, match, "TEST PASS", Severity.WARNING if unsure else None
            )
        else:
            cut = not text.strip() or VERIFICATION_BEGUN_PATTERN.search(text)
            died = overturned and TRACEBACK_HEAD in text
            yield test.build_fault(
                "no outcome",
                "TEST PASS",
                file=source.path,
                severity=Severity.WARNING if died or not cut else None,
            )


def is_audit_quality_shown(test: TextAuditTest, text: str) -> bool:
    """Return whether the submitter added the quality of the answers, answers did differ, and the
    recomputable quality meets the rules.
    """
    counts = {match[1]: int(match[2]) for match in PRINTED_COUNTS_PATTERN.finditer(text)}
    if counts.get(MISMATCHES_KEY) == 0 and not counts.get(MISSING_SAMPLES_KEY):
        return False
    filed = is_folder(test.folder / "accuracy") or test.entry.benchmark == "gnmt"
    return filed and all(reached >= asked for reached, asked in collect_audit_qualities(test))


def collect_audit_qualities(test: TextAuditTest) -> Iterator[tuple[float, float]]:
    """Yield each available quality of the answers, and the required value: that of the accuracy
    run, or the benchmark's.
    """
    row = test.entry.row
    if row is None:
        return
    claimed_scores = {
        name: claims.scores[row.metric][-1].value
        for name, claims in test.claims.items()
        if row.metric in claims.scores
    }
    if BASELINE_ACCURACY_TEXT in claimed_scores and COMPLIANCE_ACCURACY_TEXT in claimed_scores:
        yield (
            claimed_scores[COMPLIANCE_ACCURACY_TEXT],
            claimed_scores[BASELINE_ACCURACY_TEXT] * row.share,
        )
    elif ACCURACY_TEXT in claimed_scores:
        yield claimed_scores[ACCURACY_TEXT], row.threshold * SAMPLED_QUALITY_SHARE
    if test.top1 and test.top1.samples:
        spread = 3 * math.sqrt(row.threshold * (100 - row.threshold) / test.top1.samples)
        yield test.top1.percent, row.threshold - spread


def check_printed_counts(source: SourceFile, text: str) -> Iterator[Fault]:
    """Check the numbers in the output of TEST01's script against the outcome below them, and
    against one another.
    """
    found = {match[1]: match for match in PRINTED_COUNTS_PATTERN.finditer(text)}
    counts = {name: int(match[2]) for name, match in found.items()}
    if counts.get(MISMATCHES_KEY):
        yield build_verdict_line_fault(
            source, text, found[MISMATCHES_KEY], "0, since the test passed"
        )
    parts = [counts.get(name) for name in (ENTRIES_KEY, MATCHES_KEY, MISSING_SAMPLES_KEY)]
    if None not in parts and parts[0] != (parts[1] or 0) + (parts[2] or 0):
        yield build_verdict_line_fault(
            source,
            text,
            found[ENTRIES_KEY],
            f"{MATCHES_KEY} and {MISSING_SAMPLES_KEY} together,"
            f" {(parts[1] or 0) + (parts[2] or 0)}",
        )
    if counts.get(ENTRIES_KEY) == 0:
        yield build_verdict_line_fault(source, text, found[ENTRIES_KEY], "compared entries")


@rule(
    "inference-text.audit_outcome",
    TextAuditTest,
    former="filed.audit_outcome",
    severity=Severity.WARNING,
)
def outcome(test: TextAuditTest) -> Iterator[Fault]:
    """A compliance test contains the output of the round's verification script.

    Source: mlcommons/inference, v0.5/audit/nvidia: README of each test; TEST04-B is compared in
    TEST04-A's folder.
    Advice: submit the output of the test's verification script.
    """
    if not test.verdicts and test.name != "TEST04-B":
        yield test.build_fault("no outcome", "the output of the verification script")
    if test.name not in test.round.audit:
        yield test.build_fault(
            f"the folder {test.folder.name}", ", ".join(sorted(test.round.audit))
        )


@rule(
    "inference-text.audit_settings",
    TextAuditTest,
    About.RULES,
    doubt="whether the test was made as the round requires",
    former="filed.audit_settings",
    severity=Severity.WARNING,
)
def settings(test: TextAuditTest) -> Iterator[Fault]:
    """A compliance test was run with that test's settings.

    Source: mlcommons/inference, v0.5/audit/nvidia: audit.config of each test.
    Advice: run LoadGen with the test's audit.config.
    """
    known = test.round.audit.get(test.name)
    if known is None or test.run is None or not test.run.detail.stamped_lines:
        return
    for name, wanted in known.settings.items():
        logged = test.run.find_record(f"effective_{name}")
        if isinstance(wanted, float):
            spelt = f"{wanted:g}"
        else:
            spelt = str(wanted).lower()
        if logged is None or logged.text != spelt:
            # the result's own seeds: no test took place
            unchanged = logged is not None and logged.text == str(
                getattr(test.round.loadgen, name, None)
            )
            found = f"{name} {logged.text if logged else 'missing'}"
            yield test.run.build_fault(
                found,
                f"{spelt}, as in {test.name}",
                logged.line if logged else None,
                severity=Severity.ERROR if unchanged else None,
            )


@rule(
    "inference-text.audit_score",
    TextAuditTest,
    About.QUALITY,
    doubt="whether the test's run is as accurate as the result",
    former="filed.audit_score",
)
def score(test: TextAuditTest) -> Iterator[Fault]:
    """The scores in a verification script's output are those of the test's run and of the entry,
    and are close to each other.

    Source: mlcommons/inference, v0.5/audit/nvidia, TEST03/verify_performance.py; house rule: a
    claim agrees with its own log.
    Advice: run the verification script on the submitted runs.
    """
    run = test.run
    if run is None or run.scenario is None:
        return
    name = SUMMARY_HEADLINES[run.scenario][0]
    valid = run.summary.values.get("Result is")
    for source, text in read_verdict_texts(test.verdicts):
        match, reference = TEST_SCORE_PATTERN.search(text), REFERENCE_SCORE_PATTERN.search(text)
        if not match or not AUDIT_PASSED_PATTERN.search(text):
            continue
        if valid and valid.text != "VALID" and test.name in VALID_RUN_TESTS:
            yield run.build_summary_fault(
                "Result is",
                f"Result is {valid.text}",
                f"VALID, since {source.path.name} states that the test passed",
            )
        result = run.summary.find_number(name)
        if result is not None and not math.isclose(
            parse_float_or_nan(match[1]), result, rel_tol=1e-5
        ):
            yield build_verdict_line_fault(
                source,
                text,
                match,
                f"{result:g}, as in the summary",
                weigh_other_score(parse_float_or_nan(match[1]), result),
            )
        if reference:
            yield from check_printed_scores(test, source, text, match, reference)


def check_printed_scores(
    test: TextAuditTest,
    source: SourceFile,
    text: str,
    match: re.Match[str],
    reference: re.Match[str],
) -> Iterator[Fault]:
    """Compare the two scores with each other, and the reference with the entry's result."""
    found, wanted = parse_float_or_nan(match[1]), parse_float_or_nan(reference[1])
    latency = test.run is not None and test.run.scenario is Scenario.SINGLE_STREAM
    tolerance = (
        SHORT_LATENCY_TOLERANCE if latency and wanted <= SHORT_LATENCY_NS else AUDIT_SCORE_TOLERANCE
    ) + 0.01
    if found > wanted * (1 + tolerance) if latency else found < wanted * (1 - tolerance):
        yield build_verdict_line_fault(source, text, match, f"near the reference score {wanted:g}")
    if test.run is None or test.run.scenario is None:
        return
    name = SUMMARY_HEADLINES[test.run.scenario][0]
    results = [
        result
        for run in test.entry.performance
        if (result := run.summary.find_number(name)) is not None
    ]
    if results and not any(math.isclose(wanted, result, rel_tol=1e-5) for result in results):
        nearest = min(results, key=lambda result: abs(result - wanted))
        yield build_verdict_line_fault(
            source,
            text,
            reference,
            f"{nearest:g}, the entry's result",
            weigh_other_score(wanted, nearest),
        )


def weigh_other_score(found: float, result: float) -> Severity | None:
    """Return the severity of a different score: from a run like the submitted one, or from
    something else.
    """
    if math.isclose(found, result, rel_tol=AUDIT_SCORE_TOLERANCE):
        return Severity.WARNING
    return None


def parse_float_or_nan(text: str) -> float:
    """Read a number; NaN if there is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
