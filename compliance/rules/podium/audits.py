"""The compliance tests of podium's results: everything is computed again from the runs, and no word
is believed.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final

from compliance.documents.podium.audit import Audit
from compliance.documents.podium.inference import (
    ASKED_QUERIES,
    InferenceEntry,
    LoadGenRun,
    power_time,
)
from compliance.recognition.tree_path import is_file
from compliance.rules import rule
from compliance.rules.podium.inference.answers import ANSWERS_SHOWN, same
from compliance.rules.podium.inference.run_record import EQUAL, apart, fixed, settings_of
from compliance.verdict import Fault, Severity
from suite import registry
from suite.audits.names import AuditTest
from suite.audits.rules import audit_config
from suite.audits.verdict import Compared, compare, differing
from suite.files.layout import (
    ACCURACY,
    AUDIT_CONFIG,
    AUDIT_RECORD,
    RUN_RECORD,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
    file_sha256,
)
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

INDEX: Final = "performance_issue_same_index"
SPECIAL: Final = (
    "accuracy_log_rng_seed",
    "accuracy_log_sampling_target",
    "accuracy_log_probability",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "performance_issue_unique",
    "performance_issue_same",
    INDEX,
)
"""What a test may change of LoadGen's settings."""
KEPT: Final = (
    "min_duration_ms",
    "min_query_count",
    "server_target_qps",
    "server_target_latency_ns",
    "multi_stream_samples_per_query",
)
"""Settings of the result that its tests are run with."""
STAMPS: Final = tuple(name for name in EQUAL if name not in ("version", "sample_count"))
PASS, FAIL = "TEST PASS", "TEST FAIL"
CLOSE: Final = 1e-9
"""Relative: what writing and reading a number may change."""


@rule("audit.result", Audit)
def result(audit: Audit) -> Iterator[Fault]:
    """A compliance test has a known name and rules, and belongs to a result: the same system,
    campaign, checkpoint and settings.

    Source: submission_rules.adoc, Directory structure, compliance; house rule: a test of another
    system says nothing of this one.
    Advice: run podium audit again after each podium infer.
    """
    if audit.test is None:
        yield audit.fault(f"the folder {audit.folder.name}", ", ".join(AuditTest), "")
    if audit.record is None:
        return
    if audit.row is None:
        yield audit.fault(
            f"rules {audit.record.rules!r}", "a name in suite/audits/rules.toml that has this test"
        )
    if audit.entry is None or not audit.entry.performance:
        yield audit.fault("no result", "the performance runs that the test is about")
        return
    told = {"test": audit.folder.name, "scenario": audit.scenario.label if audit.scenario else None}
    known = audit.entry.record
    told |= (
        {
            name: getattr(known, name)
            for name in ("workload", "round", "profile", "system", "nonce", "checkpoint_sha256")
        }
        if known
        else {}
    )
    for name, wanted in told.items():
        if getattr(audit.record, name) != wanted:
            yield audit.fault(
                f"{name} {getattr(audit.record, name)!r}", f"{wanted!r}, as in the result"
            )
    for run in audit.runs:
        yield from of_result(run, audit.entry)


def of_result(run: LoadGenRun, entry: InferenceEntry) -> Iterator[Fault]:
    """Hold a run of a test against the result's."""
    first = entry.performance[0]
    for name in STAMPS if run.record and first.record else ():
        if getattr(run.record, name) != getattr(first.record, name):
            yield run.fault(
                RUN_RECORD,
                f"{name} {getattr(run.record, name)!r}",
                f"{getattr(first.record, name)!r}, as in the result",
            )
    if run.record and first.record:
        if bool(run.record.network) != bool(first.record.network):
            yield run.fault(
                RUN_RECORD,
                "a system of this machine" if first.record.network else "a remote system",
                "the result's system",
            )
        yield from apart(run, settings_of(first), first.folder.name, fixed)
    fewer = (
        run.rule is not None
        and first.rule is not None
        and run.rule.min_queries < first.rule.min_queries
    )
    for key in ("loadgen_version", *(f"requested_{name}" for name in KEPT)):
        if run.value(key) != first.value(key) and not (
            fewer and key == ASKED_QUERIES
        ):  # loadgen.minimums holds it against the test's rules
            yield run.detail_fault(
                key, f"{key} {run.value(key)}", f"{first.value(key)}, as in the result"
            )


@rule("audit.settings", Audit)
def settings(audit: Audit) -> Iterator[Fault]:
    """Each run of a test has the settings of its rules: seeds as drawn from nonce and checkpoint,
    and no others than the test changes.

    Source: mlcommons/inference, compliance/nvidia: audit.config of each test; house rule: seeds
    that nobody can prepare.
    Advice: submit the folder as podium audit wrote it.
    """
    wanted = knobs(audit)
    if wanted is None or audit.record is None or audit.row is None:
        return
    beside = audit.row.beside if audit.scenario is not Scenario.MULTI_STREAM else {}
    for told, asked, name in (
        (audit.record.settings, wanted, "settings"),
        (audit.record.beside, beside, "beside"),
    ):
        if dict(told) != dict(asked):
            yield audit.fault(f"{name} {dict(told)}", f"{dict(asked)}, as the rules have it")
    if audit.words.get(AUDIT_CONFIG) != audit_config(wanted):
        yield audit.fault("other settings", "the same settings as audit.json", AUDIT_CONFIG)
    for run in audit.reference:
        yield from told_by(run, beside)
    for run in audit.found:
        yield from told_by(run, wanted)
        yield from issued(run, wanted)


def knobs(audit: Audit) -> dict[str, Any] | None:
    """Compute the settings of a test's runs; the sample that TEST04 issues is free. None if the
    rules are not known.
    """
    row, told = audit.row, audit.record
    bench = audit.round.benchmarks.get(told.workload) if told else None
    if row is None or told is None or audit.scenario is None or audit.test is None or bench is None:
        return None
    made: dict[str, Any] = row.knobs(
        audit.test, audit.scenario, bench.inference_name, told.nonce, told.checkpoint_sha256
    )
    chosen = told.settings.get(INDEX)
    return (
        {**made, INDEX: chosen} if INDEX in made and type(chosen) is int and chosen >= 0 else made
    )


def told_by(run: LoadGenRun, wanted: Mapping[str, Any]) -> Iterator[Fault]:
    """Hold the effective settings of a run against those that it has to have."""
    usual = ordinary(run)
    for name in SPECIAL:
        key = f"effective_{name}"
        found, asked = run.value(key), wanted.get(name, usual.get(name))
        if found is not None and asked is not None and not alike(found, asked):
            yield run.detail_fault(key, f"{found}", f"{asked}")


def ordinary(run: LoadGenRun) -> dict[str, Any]:
    """Give the settings that only a test changes, as they stand in an ordinary performance run; its
    seeds have rules of their own.
    """
    off = {
        "accuracy_log_probability": 0,
        "performance_issue_unique": False,
        "performance_issue_same": False,
        INDEX: 0,
    }
    rules = run.round.loadgen
    return off | {
        name: getattr(rules, name)
        for name in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
    }


def alike(found: Any, wanted: Any) -> bool:
    """Compare two settings; LoadGen writes fractions with six digits."""
    if isinstance(wanted, float):
        return isinstance(found, int | float) and math.isclose(found, wanted, rel_tol=1e-5)
    return bool(found == wanted)


def issued(run: LoadGenRun, wanted: Mapping[str, Any]) -> Iterator[Fault]:
    """Judge that a run which issues one sample has logged answers to no other."""
    loaded, place = run.value("loaded_qsl_set"), wanted.get(INDEX)
    if not wanted.get("performance_issue_same") or not isinstance(loaded, list) or place is None:
        return
    if place >= len(loaded):
        yield run.detail_fault(
            "effective_performance_issue_same_index",
            f"sample {place}",
            f"one of {len(loaded)} in memory",
        )
        return
    width = (
        int(min(run.number("effective_samples_per_query") or 1, len(loaded)))
        if run.scenario is Scenario.MULTI_STREAM
        else 1
    )
    known = loaded[place : place + width]
    for position, sample in enumerate(islice(run.answers.samples, ANSWERS_SHOWN)):
        if sample not in known:
            yield run.fault(
                ACCURACY,
                f"an answer to sample {sample}",
                f"to {', '.join(map(str, known))} alone",
                run.answers.lines[position],
            )


@rule("audit.turns", Audit)
def turns(audit: Audit) -> Iterator[Fault]:
    """Test and reference run in turns, as often as the rules ask for, after the result, and no two
    at once.

    Source: house rule: what changes on a machine meanwhile meets both alike.
    Advice: submit all runs of a test, as podium audit wrote them.
    """
    if audit.rules is None or audit.record is None:
        return
    counts, least = (
        (len(audit.reference), len(audit.found)),
        (audit.row.least_turns(audit.rules) if audit.row else audit.rules.turns),
    )
    if counts[0] != counts[1] or not least <= counts[1] <= audit.rules.most_turns:
        yield audit.fault(
            f"{counts[0]} reference runs and {counts[1]} of the test",
            f"{least} to {audit.rules.most_turns} of each",
            "",
        )
    named = [[run.folder.name for run in runs] for runs in (audit.reference, audit.found)]
    if any(names != [f"run_{number + 1}" for number in range(len(names))] for names in named):
        yield audit.fault(
            f"runs {', '.join(named[0])} and {', '.join(named[1])}", "run_1, run_2 and so on", ""
        )
    before = audit.entry.performance if audit.entry else ()
    for earlier, later in pairwise([*before[-1:], *audit.runs]):
        end, begin = earlier.value("power_end"), later.value("power_begin")
        stamps = power_time(end), power_time(begin)
        if stamps[0] and stamps[1] and stamps[1] < stamps[0]:
            yield later.detail_fault(
                "power_begin", f"begun {begin}", f"after {end}, when {earlier.folder.name} ended"
            )


@rule("audit.speed", Audit)
def speed(audit: Audit) -> Iterator[Fault]:
    """With the test's settings the system is about as fast as without: computed again from the
    detail logs of all runs.

    Source: mlcommons/inference, compliance/nvidia: verify_performance.py of each test; for
    podium-v1 suite/audits/rules.toml.
    Advice: find out why the system is faster with one sample, or slower with other seeds or with
    its answers logged; if the machine was busy, audit again.
    """
    found = compared(audit)
    for run, key in audit.silent:
        yield run.detail_fault(key, f"no {key}", "the figure by which the test's speed is compared")
    if found and not found.passed:
        yield audit.fault(
            f"{found.ratio:.3f} times the reference's speed ({found.metric} {found.test:g} against"
            f" {found.reference:g})",
            found.required,
        )


def compared(audit: Audit) -> Compared | None:
    """Compare the runs again; None if something is missing."""
    figures = [audit.figures(runs) for runs in (audit.reference, audit.found)]
    if audit.rules is None or audit.row is None or audit.scenario is None or not all(figures):
        return None
    return compare(audit.rules, audit.row, audit.scenario, *figures)


@rule("audit.answers", Audit)
def answers(audit: Audit) -> Iterator[Fault]:
    """TEST01's performance runs give the answers of the accuracy run: whole answers, byte for byte
    or within the workload's tolerance.

    Source: mlcommons/inference, compliance/nvidia/TEST01/README.md; house rule: whole answers,
    since its script compares the first element of each.
    Advice: serve the same model in both modes; if answers depend on the batch, make them
    independent of it.
    """
    truth = audit.truth
    if truth is None:
        return
    for run in audit.found:
        if not run.answers.samples:
            yield run.fault(ACCURACY, "no answers", "the answers that LoadGen logged")
        wrong = (
            place
            for place, sample in enumerate(run.answers.samples)
            if sample not in truth or not same(run, run.answers.at(place), truth[sample])
        )
        for place in islice(wrong, ANSWERS_SHOWN):
            yield run.fault(
                ACCURACY,
                f"a different answer to sample {run.answers.samples[place]}",
                "the accuracy run's",
                run.answers.lines[place],
            )
    if audit.found and not same_file(audit.copy, audit.found[0].folder / ACCURACY):
        yield audit.fault(
            "another accuracy log", "that of performance/run_1", f"{Mode.ACCURACY}/{ACCURACY}"
        )


def same_file(one: Path, other: Path) -> bool:
    """Tell whether two files are there and equal."""
    try:
        return is_file(one) and is_file(other) and file_sha256(one) == file_sha256(other)
    except OSError:
        return False


@rule("audit.told", Audit)
def told(audit: Audit) -> Iterator[Fault]:
    """What audit.json and the files of words say is what the runs come to.

    Source: house rule: a claim agrees with its own logs.
    Advice: submit the folder as podium audit wrote it; to pass a test, run it again.
    """
    found, record = compared(audit), audit.record
    if found is None or record is None:
        return
    counts = counted(audit)
    wanted: dict[str, Any] = {
        "metric": found.metric,
        "lowest": found.lowest,
        "highest": found.highest,
        "answers": counts[0],
        "differing": counts[1],
    }
    wanted |= {
        "reference": tuple(audit.figures(audit.reference)),
        "found": tuple(audit.figures(audit.found)),
    }
    for name, value in wanted.items():
        if getattr(record, name) != value:
            yield audit.fault(f"{name} {getattr(record, name)}", f"{value}, as the runs say")
    if not math.isclose(record.ratio, found.ratio, rel_tol=CLOSE):
        yield audit.fault(f"ratio {record.ratio:g}", f"{found.ratio:g}, as the runs say")
    fast, right = (
        found.passed,
        not counts[1] and (counts[0] > 0 or audit.test is not AuditTest.TEST01),
    )
    if record.passed and not (fast and right):
        yield audit.fault("passed", "failed, as the runs say")
    yield from words(
        audit,
        {
            VERIFY_PERFORMANCE: fast,
            **({VERIFY_ACCURACY: right} if audit.test is AuditTest.TEST01 else {}),
        },
    )


def counted(audit: Audit) -> tuple[int, int]:
    """Count the compared answers, and those that differ."""
    truth = audit.truth
    if truth is None or audit.record is None:
        return 0, 0
    found: dict[int, list[bytes]] = {}
    for run in audit.found:
        for place, sample in enumerate(run.answers.samples):
            found.setdefault(sample, []).append(run.answers.at(place))
    return differing(
        found, truth, registry.agreement(audit.entry.workload or "" if audit.entry else "")
    )


def words(audit: Audit, passed: Mapping[str, bool]) -> Iterator[Fault]:
    """Hold the words against the numbers: a word that says too little is only odd."""
    for name, right in passed.items():
        text = audit.words.get(name)
        if text is None:
            yield audit.fault("no such file", f"{PASS if right else FAIL}", name)
        elif PASS in text and (not right or FAIL in text):
            yield audit.fault(PASS, f"{FAIL}, as the runs say", name)
        elif right and PASS not in text and audit.record and audit.record.passed:
            yield audit.fault("no outcome", PASS, name, Severity.WARNING)


@rule("audit.failed", Audit)
def failed(audit: Audit) -> Iterator[Fault]:
    """A test that podium called failed stays failed, whatever its runs come to now.

    Source: house rule: a failed compliance test makes a result one that does not count;
    inference_rules.adoc, Audit.
    Advice: run podium audit again; both tests stay in the ledger.
    """
    if audit.record and not audit.record.passed:
        yield audit.fault("failed", "a test that passed")


@rule("audit.strays", Audit, severity=Severity.WARNING)
def strays(audit: Audit) -> Iterator[Fault]:
    """A compliance test's folder contains nothing but its runs, its record, its settings and its
    words.

    Source: submission_rules.adoc, Directory structure; house rule: what nobody judges is named.
    Advice: keep notes and copies outside the results folder.
    """
    for path in audit.strays:
        yield Fault(
            file=path,
            found=path.name,
            required=(
                f"{AUDIT_RECORD}, {AUDIT_CONFIG}, {VERIFY_PERFORMANCE}, {VERIFY_ACCURACY} and"
                " run_<n>"
            ),
        )
