"""Check that run records are consistent with LoadGen, with one another, and with their folders."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from compliance.documents.organisation_name import mark_code_points
from compliance.kinds.podium.documents import command_line
from compliance.kinds.podium.documents.inference import InferenceEntry, LoadGenRun
from compliance.kinds.podium.rules.inference.loadgen_summary import LOGGED_NUMBER_TOLERANCE
from compliance.kinds.podium.rules.training.hyperparameters import (
    convert_list_to_tuple,
    is_equal_setting,
)
from compliance.kinds.podium.rules.training.quality import is_sha256
from compliance.logs.finite_numbers import is_finite_number
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import RUN_RECORD, SYSTEM_RECORD, TOKEN_RECORD_FILE, fold_name
from suite.loadgen.scenario import Scenario
from suite.rounds.legality import check_served_settings
from suite.rounds.ranges import describe_range, find_range_problem
from suite.rounds.settings import (
    PERFORMANCE_PREFIXES,
    can_affect_run,
    collect_workload_settings,
    resolve_settings,
)
from suite.terms import Division, Precision, Profile
from suite.units import NS_PER_US
from suite.workload import Mode

SHOWN_DIGEST_LETTERS: Final = 12
"""Of a system's digest."""
MIN_QUERIES_SETTING: Final = "loadgen.min_queries"
LOGGED_SETTING_KEYS: Final = {
    "loadgen.min_duration_ms": ("requested_min_duration_ms", 1),
    MIN_QUERIES_SETTING: ("requested_min_query_count", 1),
    "server.target_qps": ("requested_server_target_qps", 1),
    "offline.expected_qps": ("requested_offline_expected_qps", 1),
    "single_stream.expected_latency_us": ("requested_single_stream_expected_latency_ns", NS_PER_US),
    "multi_stream.expected_latency_us": ("requested_multi_stream_expected_latency_ns", NS_PER_US),
}
"""Setting -> the detail log's key, and its units per unit of the setting."""
MEASUREMENTS_FILE_PHRASE: Final = "the measurements file"
RATE_SETTINGS: Final = {
    Scenario.SERVER: "server.target_qps",
    Scenario.OFFLINE: "offline.expected_qps",
    Scenario.SINGLE_STREAM: "single_stream.expected_latency_us",
    Scenario.MULTI_STREAM: "multi_stream.expected_latency_us",
}
"""The setting of each scenario's rate."""
ADVISED_SETTINGS: Final = (MIN_QUERIES_SETTING, *RATE_SETTINGS.values())
"""Settings that a repeated run may change: the advice chooses their values, not the user."""


def build_record_fault(
    run: LoadGenRun, found: str, required: str, severity: Severity | None = None
) -> Fault:
    """Build a fault in run.json."""
    return replace(run.build_fault(found, required, file=RUN_RECORD), severity=severity)


def build_setting_fault(
    run: LoadGenRun, key: str, found: str, required: str, severity: Severity | None = None
) -> Fault:
    """Build a fault about a setting, in the record that has it: the system's or the run's."""
    file = run.system_source.path if is_system_setting(key) else RUN_RECORD
    return replace(run.build_fault(found, required, file=file), severity=severity)


def build_system_fault(entry: InferenceEntry, found: str, required: str) -> Fault:
    """Build a fault in system.json."""
    return entry.build_fault(found, required, file=entry.runs[0].system_source.path)


@rule("entry.stamps", InferenceEntry, About.IDENTITY)
def stamps(entry: InferenceEntry) -> Iterator[Fault]:
    """All runs of an entry refer to its system.json, and its round is this one.

    Source: house rule: one record names round, profile, system, engine, precision, campaign and
    checkpoint of all runs, so a smoke run cannot be mistaken for a full one.
    Advice: serve both modes of a scenario with one command, and keep system.json beside the runs
    that it was written for.
    """
    for run in entry.runs:
        if run.record is None:
            continue
        digest = run.record.system.compute_digest()
        if run.record.system_sha256 != digest:
            yield build_record_fault(
                run,
                f"the system {run.record.system_sha256[:SHOWN_DIGEST_LETTERS]}",
                f"{digest[:SHOWN_DIGEST_LETTERS]}, the SHA-256 of {SYSTEM_RECORD}",
            )
    if entry.record and entry.record.system.round != entry.round.name:
        yield build_system_fault(entry, f"round {entry.record.system.round}", entry.round.name)


@rule("entry.command", InferenceEntry, About.IDENTITY, severity=Severity.WARNING)
def command(entry: InferenceEntry) -> Iterator[Fault]:
    """The command line of a record has its workload and profile, and each setting that it changes
    has the recorded value.

    Source: house rule: the record contains the command line so that the run can be repeated;
    without --profile it is smoke.
    Advice: serve again with the settings on the command line or in --config; settings that were
    changed afterwards need a run of their own.
    """
    for run in entry.runs:
        record = run.record
        if record is None:
            continue
        contradictions = command_line.find_command_contradictions(
            record.command,
            run.round.benchmarks,
            record.system.workload,
            record.system.profile,
            record.settings,
        )
        yield from (build_record_fault(run, found, required) for found, required in contradictions)


@rule("entry.place", InferenceEntry, About.IDENTITY)
def place(entry: InferenceEntry) -> Iterator[Fault]:
    """Organisation, system, division and benchmark in the system's record match its folders.

    Source: submission_rules.adoc, Directory structure; the row's inference_name and division.
    Advice: move the runs to the tree of the organisation and system that made them.
    """
    record, where = entry.record, entry.place
    if record is None:
        return
    for field in ("org", "name"):
        if not getattr(record.system, field).strip():
            yield build_system_fault(entry, f"{field} {getattr(record.system, field)!r}", "a name")
    pairs: dict[str, tuple[str, str | None]] = {}
    if where:
        row = entry.round.benchmarks.get(record.system.workload)
        pairs |= {
            "org": (record.system.org, where.org),
            "division": (record.system.division, where.division),
            "name": (record.system.name, where.system),
            "workload": (row.inference_name if row else record.system.workload, where.benchmark),
        }
    for field, (found, folder) in pairs.items():
        if folder and fold_name(found) != fold_name(folder):
            yield build_system_fault(
                entry,
                f"{field} {mark_code_points(repr(found), repr(str(folder)))} in the folder"
                f" '{folder}'",
                f"the name {mark_code_points(folder, found)}",
            )
    if entry.inference and record.system.division not in list_allowed_divisions(entry):
        yield build_system_fault(
            entry,
            f"division {record.system.division}",
            " or ".join(list_allowed_divisions(entry)),
        )


def list_allowed_divisions(entry: InferenceEntry) -> tuple[Division, ...]:
    """Return the divisions that an entry may be in: the row's or, for a closed row's system behind
    a network, network or open.
    """
    if entry.inference is None:
        return ()
    if entry.inference.division is Division.CLOSED and entry.record and entry.record.network:
        return Division.NETWORK, Division.OPEN
    return (entry.inference.division,)


@rule("entry.precision", InferenceEntry, About.RULES)
def precision(entry: InferenceEntry) -> Iterator[Fault]:
    """MLPerf allows the precision, and the checkpoint is a digest. The precision of another
    program's server may be anything that is stated of it.

    Source: inference_rules.adoc v0.7, Numerics; house rule for the checkpoint.
    Advice: serve in one of podium's precisions.
    """
    system = entry.record.system if entry.record else None
    is_own = entry.record is not None and not entry.record.is_of_foreign_server
    if system and is_own and system.precision not in [*Precision]:
        yield build_system_fault(entry, f"precision {system.precision}", " or ".join(Precision))
    if system and not is_sha256(system.checkpoint_sha256):
        yield build_system_fault(entry, f"checkpoint {system.checkpoint_sha256!r}", "a SHA-256")


@rule("entry.settings", InferenceEntry, About.RULES)
def settings(entry: InferenceEntry) -> Iterator[Fault]:
    """The settings in a record are the settings that LoadGen received, and in their ranges.

    Source: house rule: a result can be repeated from its record; the detail log's requested_ keys.
    Advice: serve again with the wanted settings; a record of other settings belongs to another run.
    """
    range_faults = (fault for run in entry.runs for fault in check_setting_ranges(run))
    yield from dict.fromkeys(range_faults)  # runs share the settings of their system
    for run in entry.runs:
        for name in (
            "loadgen.min_duration_ms",
            MIN_QUERIES_SETTING,
            *([RATE_SETTINGS[run.scenario]] if run.scenario else []),
        ):
            key, units = LOGGED_SETTING_KEYS[name]
            found, logged = (
                run.record.settings.get(name) if run.record else None,
                run.find_number(key),
            )
            if run.record and logged is not None and not is_echoed_setting(name, found, logged):
                required = f"{logged / units:g}, as {key} in the detail log"
                yield build_setting_fault(run, name, f"{name} {found}", required)


def check_setting_ranges(run: LoadGenRun) -> Iterator[Fault]:
    """Yield the numbers of a record that are outside of their settings' ranges."""
    if run.record is None or run.row is None:
        return
    for key, setting in collect_workload_settings(run.round, run.row).items():
        if problem := find_range_problem(setting, run.record.settings.get(key)):
            yield build_setting_fault(run, key, f"{key}: {problem}", describe_range(setting))


@rule("entry.legality", InferenceEntry, About.RULES)
def legality(entry: InferenceEntry) -> Iterator[Fault]:
    """In the closed division a system is served with the row's settings, or with others that the
    row allows in training. Batching, engine and LoadGen's rates are free. A setting that is missing
    from the record is a warning, and the judge assumes the row's value.

    Source: inference_rules.adoc v0.5, Model equivalence; the row's settings and constraints, and
    the settings that the round leaves free.
    Advice: serve again with the required value, or use a profile of the open division.
    """
    faults = (fault for run in entry.runs for fault in check_run_legality(run))
    yield from dict.fromkeys(faults)  # runs share the settings of their system


def check_run_legality(run: LoadGenRun) -> Iterator[Fault]:
    """Yield the settings of a run that the closed division does not allow."""
    record = run.record
    if record is None or run.inference is None or run.inference.division is not Division.CLOSED:
        return
    values = resolve_recorded_settings(run)
    row = run.round.benchmark(record.system.workload)
    for key, setting in collect_workload_settings(run.round, row).items():
        if key in values and key not in record.settings and not setting.free:
            yield build_setting_fault(
                run,
                key,
                f"no {key} among the settings",
                f"{values[key]!r}, which is the assumed value",
                Severity.WARNING,
            )
    for violation in check_served_settings(
        run.round, record.system.workload, Profile(record.system.profile), values
    ):
        found = f"{violation.key} {violation.found}"
        yield build_setting_fault(run, violation.key, found, violation.required)


def resolve_recorded_settings(run: LoadGenRun) -> Mapping[str, Any]:
    """Return the settings of a run's record. Missing ones (from an older podium, or removed) get
    the row's value or the default.
    """
    recorded = {
        key: convert_list_to_tuple(value) for key, value in get_record_settings(run).items()
    }
    if run.record is None or run.inference is None:
        return recorded
    return resolve_settings(
        run.round,
        run.record.system.workload,
        Profile(run.record.system.profile),
        recorded,
        serving=True,
    )


def is_echoed_setting(name: str, found: Any, echo: float) -> bool:
    """Compare a setting with LoadGen's echo of it: counts exactly, rates to six digits; whole
    microseconds are truncated.
    """
    if not is_finite_number(found):
        return False
    if name.startswith("loadgen."):
        return found == echo
    units = LOGGED_SETTING_KEYS[name][1]
    low, high = (echo * (1 + sign * LOGGED_NUMBER_TOLERANCE) / units for sign in (-1, 1))
    if units > 1:
        return math.floor(low) <= found <= high
    return low <= found <= high


@rule("entry.agreement", InferenceEntry, About.RULES)
def agreement(entry: InferenceEntry) -> Iterator[Fault]:
    """The measurements file has the settings of the system and of its runs. LoadGen's settings are
    the same in all performance runs, but that a repeated run changes the one value that the advice
    names.

    Source: inference_rules.adoc v0.5, System under test: the same in accuracy and performance mode;
    house rule: the measurements file states the settings.
    Advice: serve both modes of a scenario with one podium infer command.
    """
    timed = [run for run in entry.performance if run.record]
    for run in timed[1:]:
        yield from check_equal_settings(
            run,
            get_record_settings(timed[0]),
            timed[0].folder.name,
            lambda key: not is_system_setting(key) and key not in ADVISED_SETTINGS,
        )
    if entry.measurements is None:
        return
    measured = entry.measurements.settings
    for run in [run for run in entry.runs if run.record][:1]:
        yield from check_equal_settings(run, measured, MEASUREMENTS_FILE_PHRASE, is_system_setting)
    for run in timed:
        yield from check_equal_settings(
            run,
            measured,
            MEASUREMENTS_FILE_PHRASE,
            lambda key: not is_system_setting(key) and key in measured,
        )


def get_record_settings(run: LoadGenRun) -> Mapping[str, Any]:
    """Return the settings of a run's record."""
    return run.record.settings if run.record else {}


def is_system_setting(key: str) -> bool:
    """Return whether a setting belongs to the system under test, not to LoadGen."""
    return not key.startswith(PERFORMANCE_PREFIXES)


def check_equal_settings(
    run: LoadGenRun, other: Mapping[str, Any], name: str, chosen: Callable[[str], bool]
) -> Iterator[Fault]:
    """Yield the chosen settings that affect a run's scenario and differ from others."""
    own, label = get_record_settings(run), run.scenario.label if run.scenario else ""
    for key in sorted(
        key
        for key in {*own, *other}
        if chosen(key) and can_affect_run(key, label, Mode.PERFORMANCE)
    ):
        if not is_equal_setting(own.get(key), other.get(key)):
            yield build_setting_fault(
                run,
                key,
                f"{key} {format_recorded_setting(own, key)}",
                f"{format_recorded_setting(other, key)}, as in {name}",
            )


def format_recorded_setting(settings: Mapping[str, Any], key: str) -> str:
    """Format a setting for a finding."""
    if key in settings:
        return repr(convert_list_to_tuple(settings[key]))
    return "missing"


@rule("entry.batches", InferenceEntry, About.SCORE)
def batches(entry: InferenceEntry) -> Iterator[Fault]:
    """The batches in a record contain the samples that LoadGen issued and are on average not larger
    than the maximum batch size. A generator's steps generate the tokens of all answers, in slots
    that are as many as that size at most: from its first token to its last, an answer has a slot of
    its own.

    Source: house rule: run.json states how the system under test batched; the counts of the detail
    log; batching.max_batch.
    Advice: copy run.json again from the run; otherwise serve again, and report the record as a
    fault of podium.
    """
    for run in entry.runs:
        issued = None
        if run.performance:
            issued = run.find_numbers("result_query_count", "generated_samples_per_query")
        samples = issued[0] * issued[1] if issued else float(len(run.answers.samples))
        counts = run.record.batches if run.record else {}
        batched_samples = counts.get("count", 0.0) * counts.get("mean_size", 0.0)
        if (
            run.record
            and (issued or not run.performance)
            and not math.isclose(batched_samples, samples, rel_tol=1e-9, abs_tol=0.5)
        ):
            yield build_record_fault(run, f"batches of {batched_samples:g} samples", f"{samples:g}")
        yield from check_generated_steps(run, counts)
        most = run.record.settings.get("batching.max_batch") if run.record else None
        if "mean_live" in counts:
            yield from check_live_answers(run, counts.get("slots", most))
        for key, found in (
            ("mean_size", "batches of {:g} samples on average"),
            ("mean_live", "{:g} live on average"),
            ("slots", "{:g} slots"),
        ):
            size = counts.get(key)
            if size is not None and is_finite_number(most) and size > most * (1 + 1e-9):
                yield build_record_fault(
                    run, found.format(size), f"at most {most:g}, the setting batching.max_batch"
                )


def check_generated_steps(run: LoadGenRun, counts: Mapping[str, float]) -> Iterator[Fault]:
    """Yield steps of a generator that gave other tokens than the answers have, or were fuller than
    its slots.
    """
    live, slots, total = (
        counts.get("mean_live"),
        counts.get("slots"),
        run.tokens.total if run.tokens else None,
    )
    if live is None:
        return
    if slots is not None and live > slots * (1 + 1e-9):
        yield build_record_fault(run, f"{live:g} live on average", f"at most {slots:g}, its slots")
    generated = counts.get("count", 0.0) * live
    if total is not None and not math.isclose(generated, total, rel_tol=1e-9, abs_tol=0.5):
        yield build_record_fault(
            run,
            f"steps of {generated:g} tokens",
            f"{total:,}, as {TOKEN_RECORD_FILE} has",
        )


def check_live_answers(run: LoadGenRun, slots: object) -> Iterator[Fault]:
    """Yield answers that were live at the same time, on average, in more slots than there are:
    their times from first to last token, together, over the time of all (Little's law).
    """
    if run.tokens is None or not len(run.tokens) or not is_finite_number(slots):
        return
    span_ns = int(run.tokens.last_ns.max() - run.tokens.first_ns.min())
    live_ns = int((run.tokens.last_ns - run.tokens.first_ns).sum())
    if live_ns > slots * span_ns:
        yield run.build_fault(
            f"{live_ns / max(span_ns, 1):.4g} answers at the same time on average",
            f"at most {slots:g}, the slots in {RUN_RECORD}",
            file=TOKEN_RECORD_FILE,
        )
