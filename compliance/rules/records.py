"""The records of LoadGen runs: they agree with LoadGen, with one another, and with where they lie."""

import math
from collections.abc import Iterator
from typing import Any, Final

from compliance.documents.serving import InferenceEntry, LoadGenRun
from compliance.documents.training import finite
from compliance.rules import rule
from compliance.rules.loadgen_numbers import metric
from compliance.rules.training_quality import is_sha256
from compliance.verdict import Fault
from suite.layout import RUN_RECORD, fold
from suite.scenario import Scenario
from suite.terms import Precision

EQUAL: Final = (
    "workload",
    "round",
    "profile",
    "division",
    "org",
    "system",
    "scenario",
    "framework",
    "engine",
    "input",
    "device",
    "precision",
    "threads",
    "nonce",
    "checkpoint_sha256",
    "sample_count",
    "version",
)
"""Fields that all records of an entry have alike."""
TOLD: Final = {
    "loadgen.min_duration_ms": ("requested_min_duration_ms", 1.0),
    "loadgen.min_queries": ("requested_min_query_count", 1.0),
    "server.target_qps": ("requested_server_target_qps", 1.0),
    "offline.expected_qps": ("requested_offline_expected_qps", 1.0),
    "single_stream.expected_latency_us": ("requested_single_stream_expected_latency_ns", 1000.0),
    "multi_stream.expected_latency_us": ("requested_multi_stream_expected_latency_ns", 1000.0),
}
"""Setting -> the detail log's key, and its units per unit of the setting."""
KNOBS: Final = {
    Scenario.SERVER: "server.target_qps",
    Scenario.OFFLINE: "offline.expected_qps",
    Scenario.SINGLE_STREAM: "single_stream.expected_latency_us",
    Scenario.MULTI_STREAM: "multi_stream.expected_latency_us",
}


def record_fault(run: LoadGenRun, found: str, required: str) -> Fault:
    """Say what does not hold in run.json."""
    return run.fault(RUN_RECORD, found, required)


@rule("entry.stamps", InferenceEntry)
def stamps(entry: InferenceEntry) -> Iterator[Fault]:
    """All records of an entry tell of the same thing: round, profile, system, engine, precision, campaign and checkpoint.

    Source: house rule: stamps, so that nothing small passes for something big, and one checkpoint behind all runs.
    Advice: serve both modes of a scenario with one command.
    """
    first = entry.record
    if first is None:
        return
    if first.round != entry.round.name:
        yield record_fault(entry.runs[0], f"round {first.round}", entry.round.name)
    for run in entry.runs:
        for field in EQUAL if run.record else ():
            if getattr(run.record, field) != getattr(first, field):
                yield record_fault(run, f"{field} {getattr(run.record, field)!r}", f"{getattr(first, field)!r}, as in {entry.runs[0].folder.name}")
        if run.record and run.record.mode != run.mode:
            yield record_fault(run, f"mode {run.record.mode}", run.mode)


@rule("entry.place", InferenceEntry)
def place(entry: InferenceEntry) -> Iterator[Fault]:
    """Organisation, division, system, benchmark and scenario of a record are those of its folders.

    Source: submission_rules.adoc, Directory structure; the row's inference_name and division.
    Advice: put the runs into the tree of the organisation and system that made them.
    """
    record, where = entry.record, entry.place
    if record is None:
        return
    pairs: dict[str, tuple[str, str | None]] = {"scenario": (record.scenario, entry.scenario.label if entry.scenario else None)}
    if where:
        row = entry.round.benchmarks.get(record.workload)
        pairs |= {
            "org": (record.org, where.org),
            "division": (record.division, where.division),
            "system": (record.system, where.system),
            "workload": (row.inference_name if row else record.workload, where.benchmark),
        }
    for field, (found, folder) in pairs.items():
        if folder and fold(found) != fold(folder):
            yield record_fault(entry.runs[0], f"{field} {found!r} in the folder '{folder}'", f"the name {folder}")
    if entry.inference and record.division != entry.inference.division:
        yield record_fault(entry.runs[0], f"division {record.division}", entry.inference.division)


@rule("entry.precision", InferenceEntry)
def precision(entry: InferenceEntry) -> Iterator[Fault]:
    """The number format is one that MLPerf knows, and nonce and checkpoint are digests.

    Source: inference_rules.adoc v0.7, Numerics; house rule, the answers to trust.
    Advice: serve with one of podium's number formats.
    """
    for run in entry.runs:
        if run.record and run.record.precision not in [*Precision]:
            yield record_fault(run, f"precision {run.record.precision}", " or ".join(Precision))
        if run.record and not is_sha256(run.record.checkpoint_sha256):
            yield record_fault(run, f"checkpoint {run.record.checkpoint_sha256!r}", "a SHA-256")


@rule("entry.value", InferenceEntry)
def value(entry: InferenceEntry) -> Iterator[Fault]:
    """Metric, value and verdict of a performance record are LoadGen's.

    Source: house rule: run.json repeats LoadGen's word; early-stopping latency in the streams, rates in Server and Offline.
    Advice: do not edit run.json.
    """
    for run in entry.performance:
        known = metric(run)
        if run.record is None or not known:
            continue
        wanted = known.get(run.record.metric)
        if wanted is None or not math.isclose(run.record.value, wanted, rel_tol=1e-5):
            yield record_fault(run, f"{run.record.metric} {run.record.value}", " or ".join(f"{name} {number:g}" for name, number in known.items()))
        if run.record.verdict != run.value("result_validity"):
            yield record_fault(run, f"verdict {run.record.verdict}", f"{run.value('result_validity')}, LoadGen's")


@rule("entry.settings", InferenceEntry)
def settings(entry: InferenceEntry) -> Iterator[Fault]:
    """The settings of a record are what LoadGen was told.

    Source: house rule: a result can be repeated from its record; the detail log's requested_ keys.
    Advice: do not edit run.json.
    """
    for run in entry.runs:
        wanted = {"loadgen.min_duration_ms", "loadgen.min_queries", *([KNOBS[run.scenario]] if run.scenario else [])}
        for name in sorted(wanted) if run.record else ():
            key, units = TOLD[name]
            found, told = run.record.settings.get(name) if run.record else None, run.number(key)
            if told is not None and not near(found, told / units, whole=units > 1):
                yield record_fault(run, f"{name} {found}", f"{told / units:g}, as {key} in the detail log")


@rule("entry.batches", InferenceEntry)
def batches(entry: InferenceEntry) -> Iterator[Fault]:
    """The batches of a record hold the samples that LoadGen issued.

    Source: house rule: run.json tells how the system under test batched; the counts of the detail log.
    Advice: do not edit run.json.
    """
    for run in entry.runs:
        issued = run.numbers("result_query_count", "generated_samples_per_query") if run.performance else None
        samples = issued[0] * issued[1] if issued else float(len(run.answers.samples))
        counts = run.record.batches if run.record else {}
        held = counts.get("count", 0.0) * counts.get("mean_size", 0.0)
        if run.record and (issued or not run.performance) and not math.isclose(held, samples, rel_tol=1e-9, abs_tol=0.5):
            yield record_fault(run, f"batches of {held:g} samples", f"{samples:g}")


def near(found: Any, told: float, whole: bool) -> bool:
    """Compare a setting with LoadGen's echo of it, which has six digits; whole microseconds are cut."""
    return finite(found) and math.isclose(found, told, rel_tol=1e-5, abs_tol=1.0 if whole else 0.0)
