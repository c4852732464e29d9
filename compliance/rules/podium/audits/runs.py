"""Check the compliance tests of podium's results: every value is recomputed from the runs, and no
stated outcome is trusted.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

from compliance.documents.podium.audit import Audit
from compliance.documents.podium.inference import (
    REQUESTED_QUERIES_KEY,
    InferenceEntry,
    LoadGenRun,
    parse_power_time,
)
from compliance.recognition.tree_path import is_file
from compliance.rules import rule
from compliance.rules.podium.inference.answers import MAX_SHOWN_ANSWERS, is_same_model_answer
from compliance.rules.podium.inference.run_record import (
    EQUAL_RECORD_FIELDS,
    check_equal_settings,
    get_record_settings,
    is_system_setting,
)
from compliance.verdict import About, Fault, Severity
from suite import registry
from suite.audits.names import ANSWER_TESTS, AuditTest
from suite.audits.rules import format_audit_config
from suite.audits.tokens import (
    count_token_contradictions,
)
from suite.audits.verdict import AuditComparison, compare_best_runs, count_differing_answers
from suite.files.layout import (
    ACCURACY_LOG,
    AUDIT_CONFIG,
    AUDIT_RECORD,
    RUN_RECORD,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
    compute_file_sha256,
)
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

SAME_INDEX_SETTING: Final = "performance_issue_same_index"
AUDIT_CHANGED_SETTINGS: Final = (
    "accuracy_log_rng_seed",
    "accuracy_log_sampling_target",
    "accuracy_log_probability",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "performance_issue_unique",
    "performance_issue_same",
    SAME_INDEX_SETTING,
)
"""LoadGen settings that a test may change."""
AUDIT_RETAINED_SETTINGS: Final = (
    "min_duration_ms",
    "min_query_count",
    "server_target_qps",
    "server_target_latency_ns",
    "multi_stream_samples_per_query",
)
"""Settings of the result that its tests use."""
AUDIT_RETAINED_STAMPS: Final = tuple(
    name for name in EQUAL_RECORD_FIELDS if name not in ("version", "sample_count")
)
PASS, FAIL = "TEST PASS", "TEST FAIL"
AUDIT_RATIO_TOLERANCE: Final = 1e-9
"""Relative: the error from writing and reading a number."""


@rule("audit.result", Audit, About.IDENTITY)
def result(audit: Audit) -> Iterator[Fault]:
    """A compliance test has a known name and rules, and belongs to a result: the same system,
    campaign, checkpoint and settings.

    Source: submission_rules.adoc, Directory structure, compliance; house rule: a test of another
    system proves nothing about this one.
    Advice: run podium audit again after each podium infer.
    """
    if audit.test is None:
        yield audit.build_fault(f"the folder {audit.folder.name}", ", ".join(AuditTest), "")
    if audit.record is None:
        return
    if audit.row is None:
        yield audit.build_fault(
            f"rules {audit.record.rules!r}",
            "the name of a rule set in suite/audits/rules.toml that contains this test",
        )
    if audit.entry is None or not audit.entry.performance:
        yield audit.build_fault("no result", "the performance runs that the test checks")
        return
    required_stamps = {
        "test": audit.folder.name,
        "scenario": audit.scenario.label if audit.scenario else None,
    }
    known = audit.entry.record
    required_stamps |= (
        {
            name: getattr(known, name)
            for name in ("workload", "round", "profile", "system", "nonce", "checkpoint_sha256")
        }
        if known
        else {}
    )
    for name, wanted in required_stamps.items():
        if getattr(audit.record, name) != wanted:
            yield audit.build_fault(
                f"{name} {getattr(audit.record, name)!r}", f"{wanted!r}, as in the result"
            )
    for run in audit.runs:
        yield from check_run_matches_result(run, audit.entry)


def check_run_matches_result(run: LoadGenRun, entry: InferenceEntry) -> Iterator[Fault]:
    """Check a run of a test against the result's run."""
    first = entry.performance[0]
    for name in AUDIT_RETAINED_STAMPS if run.record and first.record else ():
        if getattr(run.record, name) != getattr(first.record, name):
            yield run.build_fault(
                RUN_RECORD,
                f"{name} {getattr(run.record, name)!r}",
                f"{getattr(first.record, name)!r}, as in the result",
            )
    if run.record and first.record:
        if bool(run.record.network) != bool(first.record.network):
            yield run.build_fault(
                RUN_RECORD,
                "a system of this machine" if first.record.network else "a remote system",
                "the result's system",
            )
        yield from check_equal_settings(
            run, get_record_settings(first), first.folder.name, is_system_setting
        )
    fewer = (
        run.rule is not None
        and first.rule is not None
        and run.rule.min_queries < first.rule.min_queries
    )
    for key in ("loadgen_version", *(f"requested_{name}" for name in AUDIT_RETAINED_SETTINGS)):
        if run.find_value(key) != first.find_value(key) and not (
            fewer and key == REQUESTED_QUERIES_KEY
        ):  # loadgen.minimums checks it against the test's rules
            yield run.build_detail_fault(
                key, f"{key} {run.find_value(key)}", f"{first.find_value(key)}, as in the result"
            )


@rule("audit.settings", Audit, About.RULES)
def settings(audit: Audit) -> Iterator[Fault]:
    """Each run of a test has the settings of the test's rules: the seeds derive from nonce and
    checkpoint, and no other settings differ.

    Source: mlcommons/inference, compliance/nvidia: audit.config of each test; house rule: no one
    can prepare for these seeds.
    Advice: submit the folder as podium audit wrote it.
    """
    wanted = recompute_audit_settings(audit)
    if wanted is None or audit.record is None or audit.row is None:
        return
    beside = audit.row.beside if audit.scenario is not Scenario.MULTI_STREAM else {}
    for stated, required, name in (
        (audit.record.settings, wanted, "settings"),
        (audit.record.beside, beside, "beside"),
    ):
        if dict(stated) != dict(required):
            yield audit.build_fault(
                f"{name} {dict(stated)}", f"{dict(required)}, as the rules require"
            )
    if audit.texts.get(AUDIT_CONFIG) != format_audit_config(wanted):
        yield audit.build_fault("other settings", "the same settings as audit.json", AUDIT_CONFIG)
    for run in audit.reference_runs:
        yield from check_effective_settings(run, beside)
    for run in audit.test_runs:
        yield from check_effective_settings(run, wanted)
        yield from check_single_sample_answers(run, wanted)


def recompute_audit_settings(audit: Audit) -> dict[str, Any] | None:
    """Compute the settings of a test's runs; TEST04 may issue any sample. None if the rules are
    unknown.
    """
    row, record = audit.row, audit.record
    benchmark = audit.round.benchmarks.get(record.workload) if record else None
    if (
        row is None
        or record is None
        or audit.scenario is None
        or audit.test is None
        or benchmark is None
    ):
        return None
    made: dict[str, Any] = row.build_loadgen_settings(
        audit.test, audit.scenario, benchmark.inference_name, record.nonce, record.checkpoint_sha256
    )
    chosen = record.settings.get(SAME_INDEX_SETTING)
    return (
        {**made, SAME_INDEX_SETTING: chosen}
        if SAME_INDEX_SETTING in made and type(chosen) is int and chosen >= 0
        else made
    )


def check_effective_settings(run: LoadGenRun, wanted: Mapping[str, Any]) -> Iterator[Fault]:
    """Check the effective settings of a run against the required ones."""
    usual = build_ordinary_settings(run)
    for name in AUDIT_CHANGED_SETTINGS:
        key = f"effective_{name}"
        found, required = run.find_value(key), wanted.get(name, usual.get(name))
        if (
            found is not None
            and required is not None
            and not is_equal_audit_setting(found, required)
        ):
            yield run.build_detail_fault(key, f"{found}", f"{required}")


def build_ordinary_settings(run: LoadGenRun) -> dict[str, Any]:
    """Return the settings that only a test changes, with their values in an ordinary performance
    run; its seeds have separate rules.
    """
    off = {
        "accuracy_log_probability": 0,
        "performance_issue_unique": False,
        "performance_issue_same": False,
        SAME_INDEX_SETTING: 0,
    }
    rules = run.round.loadgen
    return off | {
        name: getattr(rules, name)
        for name in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
    }


def is_equal_audit_setting(found: Any, wanted: Any) -> bool:
    """Compare two settings; LoadGen writes fractions with six digits."""
    if isinstance(wanted, float):
        return isinstance(found, int | float) and math.isclose(found, wanted, rel_tol=1e-5)
    return bool(found == wanted)


def check_single_sample_answers(run: LoadGenRun, wanted: Mapping[str, Any]) -> Iterator[Fault]:
    """Check that a run which issues one sample has logged answers only to that sample."""
    loaded, index = run.find_value("loaded_qsl_set"), wanted.get(SAME_INDEX_SETTING)
    if not wanted.get("performance_issue_same") or not isinstance(loaded, list) or index is None:
        return
    if index >= len(loaded):
        yield run.build_detail_fault(
            "effective_performance_issue_same_index",
            f"sample {index}",
            f"one of {len(loaded)} in memory",
        )
        return
    width = (
        int(min(run.find_number("effective_samples_per_query") or 1, len(loaded)))
        if run.scenario is Scenario.MULTI_STREAM
        else 1
    )
    known = loaded[index : index + width]
    for position, sample in enumerate(islice(run.answers.samples, MAX_SHOWN_ANSWERS)):
        if sample not in known:
            yield run.build_fault(
                ACCURACY_LOG,
                f"an answer to sample {sample}",
                f"answers only to {', '.join(map(str, known))}",
                run.answers.lines[position],
            )


@rule("audit.turns", Audit, About.RULES)
def turns(audit: Audit) -> Iterator[Fault]:
    """Test runs and reference runs alternate, in the number that the rules require, after the
    result, and never two at once.

    Source: house rule: a change on the machine then affects both alike.
    Advice: submit all runs of a test, as podium audit wrote them.
    """
    if audit.rules is None or audit.record is None:
        return
    counts, least = (
        (len(audit.reference_runs), len(audit.test_runs)),
        (audit.row.resolve_min_turns(audit.rules) if audit.row else audit.rules.turns),
    )
    if counts[0] != counts[1] or not least <= counts[1] <= audit.rules.most_turns:
        yield audit.build_fault(
            f"{counts[0]} reference runs and {counts[1]} of the test",
            f"{least} to {audit.rules.most_turns} of each",
            "",
        )
    named = [[run.folder.name for run in runs] for runs in (audit.reference_runs, audit.test_runs)]
    if any(names != [f"run_{number + 1}" for number in range(len(names))] for names in named):
        yield audit.build_fault(
            f"runs {', '.join(named[0])} and {', '.join(named[1])}", "run_1, run_2 and so on", ""
        )
    before = audit.entry.performance if audit.entry else ()
    for earlier, later in pairwise([*before[-1:], *audit.runs]):
        end, begin = earlier.find_value("power_end"), later.find_value("power_begin")
        stamps = parse_power_time(end), parse_power_time(begin)
        if stamps[0] and stamps[1] and stamps[1] < stamps[0]:
            yield later.build_detail_fault(
                "power_begin",
                f"started at {begin}",
                f"after {end}, when {earlier.folder.name} ended",
            )


@rule("audit.speed", Audit, About.SCORE)
def speed(audit: Audit) -> Iterator[Fault]:
    """With the test's settings the system is about as fast as without them. The speed is recomputed
    from the detail logs of all runs.

    Source: mlcommons/inference, compliance/nvidia: verify_performance.py of each test; for
    podium-v1 suite/audits/rules.toml.
    Advice: find out why the system is faster with one sample, or slower with other seeds or with
    logged answers; if the machine was busy, audit again.
    """
    found = recompute_audit_speed(audit)
    for run, key in audit.runs_without_figure:
        yield run.build_detail_fault(key, f"no {key}", "the metric that compares the test's speed")
    if found and not found.passed:
        yield audit.build_fault(
            f"{found.ratio:.3f} times the reference's speed ({found.metric}"
            f" {found.test:g}, reference {found.reference:g})",
            found.required,
        )


def recompute_audit_speed(audit: Audit) -> AuditComparison | None:
    """Compare the runs again; None if something is missing."""
    figures = [audit.collect_figures(runs) for runs in (audit.reference_runs, audit.test_runs)]
    if audit.rules is None or audit.row is None or audit.scenario is None or not all(figures):
        return None
    return compare_best_runs(audit.rules, audit.row, audit.scenario, *figures)


@rule("audit.answers", Audit, About.QUALITY)
def answers(audit: Audit) -> Iterator[Fault]:
    """TEST01's performance runs give the same answers as the accuracy run: whole answers, byte for
    byte or within the workload's tolerance.

    Source: mlcommons/inference, compliance/nvidia/TEST01/README.md; house rule: whole answers,
    since MLCommons' script compares only the first element of each.
    Advice: serve the same model in both modes; if answers depend on the batch, remove that
    dependence.
    """
    truth = audit.truth
    if truth is None:
        return
    for run in audit.test_runs:
        if not run.answers.samples:
            yield run.build_fault(ACCURACY_LOG, "no answers", "the answers that LoadGen logged")
        wrong = (
            place
            for place, sample in enumerate(run.answers.samples)
            if sample not in truth
            or not is_same_model_answer(run, run.answers.read_answer(place), truth[sample])
        )
        for place in islice(wrong, MAX_SHOWN_ANSWERS):
            yield run.build_fault(
                ACCURACY_LOG,
                f"a different answer to sample {run.answers.samples[place]}",
                "the accuracy run's",
                run.answers.lines[place],
            )
    if audit.test_runs and not is_same_file(audit.copy, audit.test_runs[0].folder / ACCURACY_LOG):
        yield audit.build_fault(
            "another accuracy log", "that in performance/run_1", f"{Mode.ACCURACY}/{ACCURACY_LOG}"
        )


def is_same_file(one: Path, other: Path) -> bool:
    """Return whether two files exist and are equal."""
    try:
        return (
            is_file(one)
            and is_file(other)
            and compute_file_sha256(one) == compute_file_sha256(other)
        )
    except OSError:
        return False


@rule("audit.told", Audit, About.SCORE)
def stated_outcome(audit: Audit) -> Iterator[Fault]:
    """audit.json and the verify files agree with the recomputed runs.

    Source: house rule: a claim agrees with its own logs.
    Advice: submit the folder as podium audit wrote it; to pass a test, run it again.
    """
    found, record = recompute_audit_speed(audit), audit.record
    if found is None or record is None:
        return
    counts = count_audit_answers(audit)
    wanted: dict[str, Any] = {
        "metric": found.metric,
        "lowest": found.lowest,
        "highest": found.highest,
        "answers": counts[0],
        "differing": counts[1],
    }
    wanted |= {
        "reference": tuple(audit.collect_figures(audit.reference_runs)),
        "found": tuple(audit.collect_figures(audit.test_runs)),
    }
    for name, value in wanted.items():
        if getattr(record, name) != value:
            yield audit.build_fault(
                f"{name} {getattr(record, name)}", f"{value}, as recomputed from the runs"
            )
    if not math.isclose(record.ratio, found.ratio, rel_tol=AUDIT_RATIO_TOLERANCE):
        yield audit.build_fault(
            f"ratio {record.ratio:g}", f"{found.ratio:g}, as recomputed from the runs"
        )
    fast, right = (
        found.passed,
        not counts[1] and (counts[0] > 0 or audit.test not in ANSWER_TESTS),
    )
    if record.passed and not (fast and right):
        yield audit.build_fault("passed", "failed, as recomputed from the runs")
    yield from check_verdict_texts(
        audit,
        {
            VERIFY_PERFORMANCE: fast,
            **({VERIFY_ACCURACY: right} if audit.test is AuditTest.TEST01 else {}),
        },
    )


def count_audit_answers(audit: Audit) -> tuple[int, int]:
    """Count the compared answers, and those that differ."""
    if audit.test is AuditTest.TEST06:
        return count_token_contradictions(audit.logged_tokens, audit.end_tokens)[:2]
    truth = audit.truth
    if truth is None or audit.record is None:
        return 0, 0
    found: dict[int, list[bytes]] = {}
    for run in audit.test_runs:
        for place, sample in enumerate(run.answers.samples):
            found.setdefault(sample, []).append(run.answers.read_answer(place))
    return count_differing_answers(
        found, truth, registry.load_agreement(audit.entry.workload or "" if audit.entry else "")
    )


def check_verdict_texts(audit: Audit, passed: Mapping[str, bool]) -> Iterator[Fault]:
    """Check the stated outcome against the numbers: a pass stated as a failure is only a
    warning.
    """
    for name, right in passed.items():
        text = audit.texts.get(name)
        if text is None:
            yield audit.build_fault("no such file", f"{PASS if right else FAIL}", name)
        elif PASS in text and (not right or FAIL in text):
            yield audit.build_fault(PASS, f"{FAIL}, as recomputed from the runs", name)
        elif right and PASS not in text and audit.record and audit.record.passed:
            yield audit.build_fault("no outcome", PASS, name, Severity.WARNING)


@rule("audit.failed", Audit, About.SCORE)
def failed(audit: Audit) -> Iterator[Fault]:
    """A test that podium recorded as failed stays failed, even if its recomputed runs now pass.

    Source: house rule: a failed compliance test invalidates a result; inference_rules.adoc, Audit.
    Advice: run podium audit again; the ledger keeps both tests.
    """
    if audit.record and not audit.record.passed:
        yield audit.build_fault("failed", "a passed test")


@rule("audit.strays", Audit, About.FORM, severity=Severity.WARNING)
def strays(audit: Audit) -> Iterator[Fault]:
    """A compliance test's folder contains only its runs, its record, its settings and its verify
    files.

    Source: submission_rules.adoc, Directory structure; house rule: files that the judge does not
    read are reported.
    Advice: keep notes and copies outside the results folder.
    """
    for path in audit.unexpected_paths:
        yield Fault(
            file=path,
            found=path.name,
            required=(
                f"{AUDIT_RECORD}, {AUDIT_CONFIG}, {VERIFY_PERFORMANCE}, {VERIFY_ACCURACY} and"
                " run_<n>"
            ),
        )
