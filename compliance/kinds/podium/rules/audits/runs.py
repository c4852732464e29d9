"""Check the compliance tests of podium's results: every value is recomputed from the runs, and no
stated outcome is trusted.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import islice, pairwise
from typing import Any, Final

from compliance.kinds.podium.documents.audit import SAME_INDEX_SETTING, Audit
from compliance.kinds.podium.documents.inference import (
    REQUESTED_QUERIES_KEY,
    InferenceEntry,
    LoadGenRun,
    parse_power_time,
)
from compliance.kinds.podium.rules.inference.answers import MAX_SHOWN_ANSWERS
from compliance.kinds.podium.rules.inference.run_record import SHOWN_DIGEST_LETTERS
from compliance.logs.loadgen.setting_names import EQUAL_SAMPLE_SETTINGS, LOADGEN_SEEDS
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.audits.names import AuditTest
from suite.audits.rules import format_audit_config
from suite.files.layout import (
    ACCURACY_LOG,
    AUDIT_CONFIG,
    AUDIT_RECORD,
    RUN_RECORD,
    SYSTEM_RECORD,
    TOKEN_RECORD_FILE,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
)
from suite.loadgen.scenario import Scenario
from suite.records import AuditRecord, SystemUnderTest

AUDIT_CHANGED_SETTINGS: Final = (
    "accuracy_log_rng_seed",
    "accuracy_log_sampling_target",
    "accuracy_log_probability",
    *LOADGEN_SEEDS,
    *EQUAL_SAMPLE_SETTINGS,
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
AUDITED_NETWORK_FIELDS: Final = ("endpoints", "form", "model", "api", "targets", "tokenizer")
"""Fields of a network that a test shares with the result."""
REQUESTED_RATE_KEY: Final = "requested_server_target_qps"
AUDIT_RETAINED_FIELDS: Final = tuple(
    field.name for field in fields(SystemUnderTest) if field.name not in ("version", "sample_count")
)
"""Fields of a system that a test shares with the result."""


@rule("audit.result", Audit, About.IDENTITY)
def result(audit: Audit) -> Iterator[Fault]:
    """A compliance test has a known name and rules, and belongs to a result: the same system,
    campaign, checkpoint and settings.

    Source: submission_rules.adoc, Directory structure, compliance; house rule: a test of another
    system proves nothing about this one.
    Advice: run podium audit again after each podium infer.
    """
    if audit.test is None:
        yield audit.build_fault(
            f"the folder {audit.folder.name}", ", ".join(AuditTest), file=audit.folder
        )
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
    known = audit.entry.record
    yield from check_audit_system(audit, audit.record, known.system if known else None)
    for run in audit.runs:
        yield from check_run_matches_result(
            run, audit.entry, audit.rules.server_rate_share if audit.rules else 1.0
        )


def check_audit_system(
    audit: Audit, record: AuditRecord, served: SystemUnderTest | None
) -> Iterator[Fault]:
    """Check that a test and its runs name the system in its record, which is the result's but for
    the versions of podium and the data.
    """
    if audit.system is None:
        return
    digest = audit.system.compute_digest()
    named = {AUDIT_RECORD: record.system_sha256}
    named |= {
        f"{run.folder.parent.name}/{run.folder.name}/{RUN_RECORD}": run.record.system_sha256
        for run in audit.runs
        if run.record
    }
    for file, found in named.items():
        if found != digest:
            yield audit.build_fault(
                f"the system {found[:SHOWN_DIGEST_LETTERS]}",
                f"{digest[:SHOWN_DIGEST_LETTERS]}, the SHA-256 of {SYSTEM_RECORD}",
                file=file,
            )
    if not served:
        return
    for name in AUDIT_RETAINED_FIELDS:
        if getattr(audit.system, name) != getattr(served, name):
            yield audit.build_fault(
                f"{name} {getattr(audit.system, name)!r}",
                f"{getattr(served, name)!r}, as in the result",
                file=SYSTEM_RECORD,
            )


def has_reduced_rate(run: LoadGenRun, first: LoadGenRun, share: float) -> bool:
    """Return whether a test's run was issued at this share of the result's rate. LoadGen prints six
    digits.
    """
    rates = [each.find_number(REQUESTED_RATE_KEY) for each in (run, first)]
    return None not in rates and math.isclose(rates[0] or 0, share * (rates[1] or 0), rel_tol=1e-5)


def check_audited_servers(run: LoadGenRun, first: LoadGenRun) -> Iterator[Fault]:
    """Yield what a test's run over a network has against the result's: other servers, another
    model, or another tokenizer.
    """
    networks = [each.record.network if each.record else None for each in (run, first)]
    if networks[0] is None or networks[1] is None:
        return
    for name in AUDITED_NETWORK_FIELDS:
        found, wanted = (getattr(each, name) for each in networks)
        if found != wanted:
            yield run.build_fault(
                f"network: {name} {found!r}", f"{wanted!r}, as in the result", file=RUN_RECORD
            )


def check_run_matches_result(
    run: LoadGenRun, entry: InferenceEntry, rate_share: float
) -> Iterator[Fault]:
    """Check a run of a test against the result's run."""
    first = entry.performance[0]
    if run.record and first.record and bool(run.record.network) != bool(first.record.network):
        yield run.build_fault(
            "a system of this machine" if first.record.network else "a remote system",
            "the result's system",
            file=RUN_RECORD,
        )
    yield from check_audited_servers(run, first)
    fewer = (
        run.rule is not None
        and first.rule is not None
        and run.rule.min_queries < first.rule.min_queries
    )
    for key in ("loadgen_version", *(f"requested_{name}" for name in AUDIT_RETAINED_SETTINGS)):
        if run.find_value(key) == first.find_value(key):
            continue
        if key == REQUESTED_RATE_KEY and has_reduced_rate(run, first, rate_share):
            continue
        if not (
            fewer and key == REQUESTED_QUERIES_KEY
        ):  # loadgen.minimums checks it against the test's rules
            yield run.build_fault(
                f"{key} {run.find_value(key)}", f"{first.find_value(key)}, as in the result", key
            )


@rule("audit.settings", Audit, About.RULES)
def settings(audit: Audit) -> Iterator[Fault]:
    """Each run of a test has the settings of the test's rules: the seeds derive from nonce and
    checkpoint, and no other settings differ.

    Source: mlcommons/inference, compliance/nvidia: audit.config of each test; house rule: no one
    can prepare for these seeds.
    Advice: run the test again with podium audit, for the results and the checkpoint that are in
    this tree.
    """
    wanted = audit.test_settings
    if wanted is None:
        return
    if audit.texts.get(AUDIT_CONFIG) != format_audit_config(wanted):
        yield audit.build_fault("other settings", "those that the rules require", file=AUDIT_CONFIG)
    for run in audit.reference_runs:
        yield from check_effective_settings(run, audit.reference_settings)
        yield from check_salting(audit, run, is_reference=True)
    for run in audit.test_runs:
        yield from check_effective_settings(run, wanted)
        yield from check_salting(audit, run, is_reference=False)
        yield from check_single_sample_answers(run, wanted)


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
            yield run.build_fault(f"{found}", f"{required}", key)


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
    return off | {name: getattr(rules, name) for name in LOADGEN_SEEDS}


def is_equal_audit_setting(found: Any, wanted: Any) -> bool:
    """Compare two settings; LoadGen writes fractions with six digits."""
    if isinstance(wanted, float):
        return isinstance(found, int | float) and math.isclose(found, wanted, rel_tol=1e-5)
    return bool(found == wanted)


def check_salting(audit: Audit, run: LoadGenRun, is_reference: bool) -> Iterator[Fault]:
    """Yield a fault if the prompts of a run were salted otherwise than the rules require."""
    network = run.record.network if run.record else None
    if audit.row is None or network is None:
        return
    wanted = audit.row.choose_salting(is_reference)
    if network.salted is not wanted:
        yield run.build_fault(
            f"prompts salted by {network.salted or 'nothing'}",
            f"by {wanted or 'nothing'}",
            file=RUN_RECORD,
        )


def check_single_sample_answers(run: LoadGenRun, wanted: Mapping[str, Any]) -> Iterator[Fault]:
    """Check that a run which issues one sample has logged answers only to that sample."""
    loaded, index = run.find_value("loaded_qsl_set"), wanted.get(SAME_INDEX_SETTING)
    if not wanted.get("performance_issue_same") or not isinstance(loaded, list) or index is None:
        return
    if index >= len(loaded):
        yield run.build_fault(
            f"sample {index}",
            f"one of {len(loaded)} in memory",
            "effective_performance_issue_same_index",
        )
        return
    width = 1
    if run.scenario is Scenario.MULTI_STREAM:
        width = int(min(run.find_number("effective_samples_per_query") or 1, len(loaded)))
    known = loaded[index : index + width]
    for position, sample in enumerate(islice(run.answers.samples, MAX_SHOWN_ANSWERS)):
        if sample not in known:
            yield run.build_fault(
                f"an answer to sample {sample}",
                f"answers only to {', '.join(map(str, known))}",
                run.answers.lines[position],
                file=ACCURACY_LOG,
            )
    if run.tokens is not None:
        others = sorted({*run.tokens.sample.tolist()} - {*known})
        if others:
            yield run.build_fault(
                f"answers to {len(others)} other samples",
                f"answers only to {', '.join(map(str, known))}",
                file=TOKEN_RECORD_FILE,
            )


@rule("audit.turns", Audit, About.RULES)
def turns(audit: Audit) -> Iterator[Fault]:
    """Test runs and reference runs alternate, in the number that the rules require, after the
    result, and never two at once.

    Source: house rule: a change on the machine then affects both alike.
    Advice: copy the whole folder of the test again; if runs are missing there, run the test again
    with podium audit.
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
            file=audit.folder,
        )
    named = [[run.folder.name for run in runs] for runs in (audit.reference_runs, audit.test_runs)]
    if any(names != [f"run_{number + 1}" for number in range(len(names))] for names in named):
        yield audit.build_fault(
            f"runs {', '.join(named[0])} and {', '.join(named[1])}",
            "run_1, run_2 and so on",
            file=audit.folder,
        )
    before = audit.entry.performance if audit.entry else ()
    for earlier, later in pairwise([*before[-1:], *audit.runs]):
        end, begin = earlier.find_value("power_end"), later.find_value("power_begin")
        stamps = parse_power_time(end), parse_power_time(begin)
        if stamps[0] and stamps[1] and stamps[1] < stamps[0]:
            yield later.build_fault(
                f"started at {begin}",
                f"after {end}, when {earlier.folder.name} ended",
                "power_begin",
            )


@rule("audit.strays", Audit, About.FORM, severity=Severity.WARNING)
def strays(audit: Audit) -> Iterator[Fault]:
    """A compliance test's folder contains only its runs, its record, its settings and its verify
    files.

    Source: submission_rules.adoc, Directory structure; house rule: files that the judge does not
    read are reported.
    Advice: keep notes and copies outside the results folder.
    """
    for path in audit.unexpected_paths:
        yield audit.build_fault(
            path.name,
            f"{AUDIT_RECORD}, {AUDIT_CONFIG}, {VERIFY_PERFORMANCE}, {VERIFY_ACCURACY} and run_<n>",
            file=path,
        )
