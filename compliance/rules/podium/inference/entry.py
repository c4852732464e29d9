"""Check an inference entry as a whole: its runs, their records, and the checkpoint they served."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from compliance.documents.podium.inference import InferenceEntry, LoadGenRun
from compliance.documents.podium.system_description import SystemFile
from compliance.rules import rule
from compliance.rules.podium.inference.run_record import build_record_fault
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.files.layout import CHECKPOINTS_FOLDER, DETAIL_LOG, fold_name
from suite.loadgen.headline import LATENCY_METRIC, get_rate_unit
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord
from suite.rounds.legality import is_same_value
from suite.terms import Precision, Profile
from suite.units import NS_PER_S

MEASURED_RECORD_FIELDS: Final = (
    "workload",
    "round",
    "profile",
    "scenario",
    "engine",
    "precision",
    "framework",
    "device",
    "threads",
    "checkpoint_sha256",
)
"""Fields that are equal in records and measurements."""


@rule("entry.runs", InferenceEntry, About.RULES)
def runs(entry: InferenceEntry) -> Iterator[Fault]:
    """An entry has one accuracy run and at least the scenario's number of performance runs,
    numbered from 1 without a gap.

    Source: submission_rules.adoc, Directory structure; inference_rules.adoc v0.5, Scenarios: number
    of runs; the scenario's `runs`. House rule for additional runs: each run is judged, and the
    slowest counts.
    Advice: add the missing runs with podium infer --scenario ... --mode ...
    """
    if entry.accuracy is None:
        yield entry.build_fault("no accuracy run", "accuracy/")
    wanted = max(entry.rule.runs if entry.rule else 1, len(entry.performance))
    names = [run.folder.name for run in entry.performance]
    if names != [f"run_{number}" for number in range(1, wanted + 1)]:
        yield entry.build_fault(
            f"performance runs: {', '.join(names) or 'none'}",
            ", ".join(f"run_{number}" for number in range(1, wanted + 1)),
        )


@rule("entry.unfinished", InferenceEntry, About.FORM, severity=Severity.WARNING)
def unfinished(entry: InferenceEntry) -> Iterator[Fault]:
    """An entry contains no unfinished runs.

    Source: house rule: an unfinished folder has the suffix .partial.
    Advice: remove it, or let the next podium infer do so.
    """
    for path in entry.unfinished:
        yield entry.build_fault(path.name, "finished runs", path)


@rule("entry.strays", InferenceEntry, About.FORM, severity=Severity.WARNING)
def strays(entry: InferenceEntry) -> Iterator[Fault]:
    """An entry's folder contains only accuracy/ and performance/run_<n>/.

    Source: submission_rules.adoc, Directory structure; house rule: files that the judge does not
    read are reported, and in a bundle they are an error.
    Advice: keep notes, copies and discarded runs outside the results folder.
    """
    for path in entry.unexpected_paths:
        yield entry.build_fault(path.name, "only accuracy and performance/run_<n>", path)


@rule("entry.scenario", InferenceEntry, About.RULES)
def scenario(entry: InferenceEntry) -> Iterator[Fault]:
    """The workload's row has the entry's scenario for the entry's profile.

    Source: inference_rules.adoc v0.5, Scenarios; the row's scenarios.
    Advice: move the runs to the folder of a scenario of the round.
    """
    if entry.scenario is None:
        yield entry.build_fault(
            f"the folder {entry.folder.name}", ", ".join(each.folder for each in Scenario)
        )
    elif entry.folder.name != entry.scenario.folder:
        yield entry.build_fault(f"the folder {entry.folder.name}", entry.scenario.folder)
    elif entry.record and entry.rule is None:
        yield entry.build_fault(
            f"{entry.record.workload}, {entry.record.profile}, {entry.scenario.label}",
            f"a scenario of round {entry.round.name}",
        )


@rule("entry.distinct", InferenceEntry, About.SCORE)
def distinct(entry: InferenceEntry) -> Iterator[Fault]:
    """No two runs of an entry have the same detail log.

    Source: inference_rules.adoc v0.5, Scenarios: separate runs; no accepted entry contains a run
    twice.
    Advice: submit each run once.
    """
    known_digests: dict[str, Path] = {}
    for run in entry.runs:
        digest = hashlib.sha256()
        for record in run.detail:
            if not record.key.startswith(("loadgen_", "requested_", "effective_")):
                digest.update(f"{record.key} {record.value!r} {record.event.time_ms}\n".encode())
        other = known_digests.setdefault(digest.hexdigest(), run.folder)
        if run.detail and other != run.folder:
            yield run.build_fault(DETAIL_LOG, f"the same log as {other.name}", "a separate log")


@rule("entry.version", InferenceEntry, About.IDENTITY)
def version(entry: InferenceEntry) -> Iterator[Fault]:
    """All runs of an entry use the same LoadGen and the same system under test.

    Source: inference_rules.adoc v0.5, LoadGen; no accepted entry mixes versions.
    Advice: repeat the runs with one LoadGen version.
    """
    for key in ("loadgen_version", "loadgen_file_sha1", "sut_name"):
        first = next(
            (run.find_value(key) for run in entry.runs if run.find_value(key) is not None), None
        )
        for run in entry.runs:
            if run.find_value(key) is not None and run.find_value(key) != first:
                yield run.build_detail_fault(
                    key,
                    f"{key} {str(run.find_value(key))[:60]}",
                    f"{str(first)[:60]}, as in {entry.runs[0].folder.name}",
                )


@rule("entry.ceiling", InferenceEntry, About.SCORE, severity=Severity.WARNING)
def ceiling(entry: InferenceEntry) -> Iterator[Fault]:
    """A result is below a fifth of what the harness reaches with a null engine on that host. If it
    is not, or if the harness ceiling is unknown, a note states it.

    Source: house rule: above that share the measurement includes the harness; the round's
    ceiling_share.
    Advice: note it beside the result, or use a faster host; do not edit run.json.
    """
    for run in entry.performance:
        record = run.record
        if record is None:
            continue
        most, share, above = record.ceiling, run.round.loadgen.ceiling_share, False
        unit = get_rate_unit(record.metric)
        if most is None:
            yield build_record_fault(
                run, "no harness ceiling", f"the {unit} of this host with a null engine"
            )
        elif not most > 0:
            yield build_record_fault(run, f"a ceiling of {most:g}", unit, Severity.ERROR)
        else:
            above = convert_to_ceiling_unit(run, record) > share * most
        if above:
            rate = f"{convert_to_ceiling_unit(run, record):g} {unit}"
            latency = record.metric == LATENCY_METRIC
            yield build_record_fault(
                run,
                f"{record.metric} {record.value:g}, which is {rate}" if latency else rate,
                f"at most {share:g} of the ceiling, {most:g} {unit}",
            )
        if above != record.above_ceiling_share:
            yield build_record_fault(
                run,
                f"above_ceiling_share {record.above_ceiling_share}",
                f"{above}, by value and ceiling",
                Severity.ERROR,
            )


def convert_to_ceiling_unit(run: LoadGenRun, record: RunRecord) -> float:
    """Return a record's value in the unit of the ceiling, where latencies are samples/s;
    harness/serving/run_record.py, judge.
    """
    if record.metric != LATENCY_METRIC:
        return record.value
    return (run.rule.samples_per_query if run.rule else 1) * NS_PER_S / max(record.value, 1.0)


@rule("entry.checkpoint", InferenceEntry, About.QUALITY)
def checkpoint(entry: InferenceEntry) -> Iterator[Fault]:
    """A training run in the same tree, campaign and profile brought the served checkpoint to the
    target.

    Source: house rule: a served checkpoint has its own training run; reference_accuracy and
    checkpoint_sha256 of the training log.
    Advice: submit the training set together with the results that serve its checkpoint.
    """
    record = entry.record
    if record is None or entry.place is None:
        return
    if not entry.origins and not entry.has_unread_log:
        yield build_record_fault(
            entry.runs[0],
            f"checkpoint {record.checkpoint_sha256}",
            "the checkpoint_sha256 of a training log in this tree",
        )
    for log in entry.origins:
        if not (log.succeeded and log.reached):
            yield entry.build_fault(
                f"a checkpoint from {log.path.name}, which missed its target",
                "a run that reached its target",
                log.path,
            )
        for key, stated in (
            ("campaign_nonce", record.nonce),
            ("podium_profile", record.profile),
            ("podium_workload", record.workload),
        ):
            if log.find_value(key) != stated:
                yield entry.build_fault(
                    f"{key} {log.find_value(key)!r}",
                    f"{stated!r}, as in run.json",
                    log.path,
                    log.find_line(key),
                )


@rule("entry.evaluated", InferenceEntry, About.QUALITY)
def evaluated(entry: InferenceEntry) -> Iterator[Fault]:
    """In profile smoke, training evaluates on as many samples as the accuracy run answers, because
    both use the same set.

    The rule does not apply to a workload whose row has `served_metrics`: its evaluation uses
    something else, for example games in Mini-Go.

    Source: house rule: smoke evaluates on the accuracy run's set; eval_samples of the training log.
    Advice: train and serve on the embedded data.
    """
    record, row = entry.record, entry.round.benchmarks.get(entry.workload or "")
    one_set = row is None or not row.served_metrics
    for log in entry.origins if one_set and record and record.profile == Profile.SMOKE else ():
        found = log.find_value(events.EVAL_SAMPLES)
        if record and found != record.sample_count:
            yield entry.build_fault(
                f"eval_samples {found}",
                f"{record.sample_count}, as in run.json",
                log.path,
                log.find_line(events.EVAL_SAMPLES),
            )


@rule("entry.profile", InferenceEntry, About.RULES)
def profile(entry: InferenceEntry) -> Iterator[Fault]:
    """The embedded data count only for profile smoke: full requires the real data set, and quick
    without it is reported.

    Source: house rule: every result names its profile; the row's truth_sha256 and
    earlier_truth_sha256 of profile smoke.
    Advice: serve the data set that the profile requires, with --data.
    """
    row = entry.round.benchmarks.get(entry.workload or "")
    smoke = row.inference.get(Profile.SMOKE) if row else None
    if (
        entry.record is None
        or smoke is None
        or smoke.truth_sha256 is None
        or entry.record.profile == Profile.SMOKE
    ):
        return
    truth_hashes = {
        entry.truth_sha256,
        entry.measurements.truth_sha256 if entry.measurements else None,
    }
    if not truth_hashes.isdisjoint((smoke.truth_sha256, *smoke.earlier_truth_sha256)):
        severity = Severity.WARNING if entry.record.profile == Profile.QUICK else None
        found = f"profile {entry.record.profile} with the ground truth of the embedded data"
        yield entry.build_fault(
            found,
            "the ground truth of the real data set",
            entry.measurements_path,
            severity=severity,
        )


@rule(
    "entry.untraced",
    InferenceEntry,
    About.QUALITY,
    severity=Severity.INFO,
    unchecked="training",
)
def untraced(entry: InferenceEntry) -> Iterator[Fault]:
    """An entry outside a results tree is reported, because it cannot be traced to its training set.

    Source: house rule: the judge reports what it cannot check.
    Advice: check the entry inside its tree.
    """
    if entry.place is None:
        yield entry.build_fault(
            "no results tree around this entry",
            "<division>/<org>/results/<system>/<benchmark>/<Scenario>",
        )


@rule("entry.measurements", InferenceEntry, About.IDENTITY)
def measurements(entry: InferenceEntry) -> Iterator[Fault]:
    """The measurements file matches the run records, and its reference accuracy matches the
    training log.

    Source: submission_rules.adoc, measurements; house rule for podium's fields.
    Advice: keep the file that podium infer wrote.
    """
    stated, record = entry.measurements, entry.record
    if stated is None or record is None:
        return
    file = entry.measurements_path
    for field in MEASURED_RECORD_FIELDS:
        if getattr(stated, field) != getattr(record, field):
            yield entry.build_fault(
                f"{field} {getattr(stated, field)!r}",
                f"{getattr(record, field)!r}, as in run.json",
                file,
            )
    weights = f"{CHECKPOINTS_FOLDER}/{record.workload}/{record.checkpoint_sha256}"
    served = {
        "retraining": "no",
        "starting_weights_filename": weights,
        "weight_data_types": record.precision,
        "input_data_types": "fp32",
    }
    served |= {"weight_transformations": "none"} if record.precision == Precision.FP32 else {}
    for field, wanted in served.items():
        if getattr(stated, field) != wanted:
            yield entry.build_fault(
                f"{field} {getattr(stated, field)!r}", f"{wanted!r}, which podium serves", file
            )
    for log in entry.origins:
        if not has_equal_reference_scores(stated.reference_accuracy, log.reference):
            yield entry.build_fault(
                f"reference_accuracy {dict(stated.reference_accuracy)}",
                f"{dict(log.reference)}, as in {log.path.name}",
                file,
            )


def has_equal_reference_scores(left: Mapping[str, float], right: Mapping[str, float]) -> bool:
    """Compare scores metric by metric."""
    return left.keys() == right.keys() and all(
        is_same_value(left[name], right[name]) for name in left
    )


@rule("entry.system", InferenceEntry, About.IDENTITY)
def system(entry: InferenceEntry) -> Iterator[Fault]:
    """The entry's system has a description. It names the framework that served and lists the
    versions that the engine reports.

    Different versions are a warning: a package may have been upgraded between two runs.

    Source: submission_rules.adoc, systems; engine_description of the measurements and
    podium.packages of the description.
    Advice: keep the file that podium infer wrote into systems/; after an upgrade, use another
    system name or repeat all runs.
    """
    record = entry.record
    if entry.system is None or record is None:
        return
    framework = entry.system.description.framework
    if framework is not None and fold_name(record.framework) not in fold_name(framework):
        yield entry.build_fault(
            f"framework {framework!r}", f"{record.framework}, as in run.json", entry.system.path
        )
    if entry.system.description.podium.profile != record.profile:
        yield entry.build_fault(
            f"profile {entry.system.description.podium.profile}",
            f"{record.profile}, as in run.json",
            entry.system.path,
        )
    yield from check_package_versions(entry, record, entry.system)


def check_package_versions(
    entry: InferenceEntry, record: RunRecord, system: SystemFile
) -> Iterator[Fault]:
    """Yield statements about framework and engine that differ from the package versions in the
    description.
    """
    packages, framework = system.description.podium.packages, system.description.framework
    installed = packages.get(record.framework)
    if (
        installed
        and framework
        and framework.partition(" ")[0] == record.framework
        and not is_same_version(framework.partition(" ")[2], installed)
    ):
        yield entry.build_fault(
            f"framework {framework!r}",
            f"{record.framework} {installed}, as listed in the packages",
            system.path,
            severity=Severity.WARNING,
        )
    networks = entry.measurements.engine_description if entry.measurements else {}
    installed = packages.get(record.engine)
    for network, description in networks.items() if installed else ():
        built = description.get(record.engine) if isinstance(description, Mapping) else None
        if installed and isinstance(built, str) and not is_same_version(built, installed):
            found = f"network {network} built by {record.engine} {built}"
            yield entry.build_fault(
                found,
                f"{installed}, as listed in the packages in systems/",
                entry.measurements_path,
                severity=Severity.WARNING,
            )


def is_same_version(one: str, other: str) -> bool:
    """Compare two versions without build suffixes: 2.13.0 is 2.13.0+cpu."""
    return not one or one.startswith(other) or other.startswith(one)
