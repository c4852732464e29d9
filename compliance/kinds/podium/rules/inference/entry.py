"""Check an inference entry as a whole: its runs, their records, and the checkpoint they served."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from compliance.kinds.podium.documents.inference import InferenceEntry
from compliance.kinds.podium.rules.inference.run_record import (
    build_record_fault,
    build_system_fault,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.files.layout import CHECKPOINTS_FOLDER, SYSTEM_RECORD
from suite.loadgen.headline import LATENCY_METRIC, convert_to_ceiling_unit, get_rate_unit
from suite.loadgen.scenario import Scenario
from suite.records import is_published_model
from suite.terms import Precision, Profile


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
        yield entry.build_fault(path.name, "finished runs", file=path)


@rule("entry.strays", InferenceEntry, About.FORM, severity=Severity.WARNING)
def strays(entry: InferenceEntry) -> Iterator[Fault]:
    """An entry's folder contains only accuracy/ and performance/run_<n>/.

    Source: submission_rules.adoc, Directory structure; house rule: files that the judge does not
    read are reported, and in a bundle they are an error.
    Advice: keep notes, copies and discarded runs outside the results folder.
    """
    for path in entry.unexpected_paths:
        yield entry.build_fault(path.name, "only accuracy and performance/run_<n>", file=path)


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
        system = entry.record.system
        yield entry.build_fault(
            f"{system.workload}, {system.profile}, {entry.scenario.label}",
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
            yield run.build_fault(f"the same log as {other.name}", "a separate log")


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
                yield run.build_fault(
                    f"{key} {str(run.find_value(key))[:60]}",
                    f"{str(first)[:60]}, as in {entry.runs[0].folder.name}",
                    key,
                )


@rule("entry.ceiling", InferenceEntry, About.SCORE, severity=Severity.WARNING)
def ceiling(entry: InferenceEntry) -> Iterator[Fault]:
    """A result is below a fifth of what the harness reaches with a null engine on that host. If it
    is not, or if the harness ceiling is unknown, a note states it.

    Source: house rule: above that share the measurement includes the harness; the round's
    ceiling_share.
    Advice: note it beside the result, or use a faster host.
    """
    if entry.accuracy and entry.accuracy.record and entry.accuracy.record.ceiling is not None:
        found = f"a ceiling of {entry.accuracy.record.ceiling:g}"
        yield build_record_fault(entry.accuracy, found, "none in an accuracy run", Severity.ERROR)
    for run in entry.performance:
        if run.record is None or run.headline is None:
            continue
        most, share = run.record.ceiling, run.round.loadgen.ceiling_share
        unit = get_rate_unit(run.headline.metric)
        rate = convert_to_ceiling_unit(run.headline, run.rule.samples_per_query if run.rule else 1)
        if most is None:
            yield build_record_fault(
                run, "no harness ceiling", f"the {unit} of this host with a null engine"
            )
        elif not most > 0:
            yield build_record_fault(run, f"a ceiling of {most:g}", unit, Severity.ERROR)
        elif rate > share * most:
            latency = run.headline.metric == LATENCY_METRIC
            measured = f"{run.headline.metric} {run.headline.value:g}, which is "
            yield build_record_fault(
                run,
                f"{measured if latency else ''}{rate:g} {unit}",
                f"at most {share:g} of the ceiling, {most:g} {unit}",
            )


@rule("entry.checkpoint", InferenceEntry, About.QUALITY)
def checkpoint(entry: InferenceEntry) -> Iterator[Fault]:
    """A training run in the same tree brought the served checkpoint to the target. That both have
    one campaign and profile is checked by facts.agree.

    Where the row has `published_weights`, imported weights need no training run: the round's
    thresholds say whether they answer as the published ones do.

    Source: house rule: a served checkpoint has its own training run; reference_accuracy and
    checkpoint_sha256 of the training log; the row's published_weights.
    Advice: submit the run set together with the results that serve its checkpoint.
    """
    record = entry.record
    if record is None or entry.place is None:
        return
    imported = entry.measurements.weights_origin if entry.measurements else ""
    is_published = is_published_model(entry.inference, imported)
    if not (entry.origins or entry.has_unread_log or is_published):
        yield build_system_fault(
            entry,
            f"checkpoint {record.system.checkpoint_sha256}",
            "the checkpoint_sha256 of a training log in this tree",
        )
    for log in entry.origins:
        if imported:
            yield entry.build_fault(
                f"weights_origin {imported!r}",
                f"none, since {log.path.name} made these weights",
                file=entry.measurements_path,
            )
        if not (log.succeeded and log.reached):
            yield log.build_fault(
                f"a checkpoint from {log.path.name}, which missed its target",
                "a run that reached its target",
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
    if not (one_set and record and record.system.profile == Profile.SMOKE):
        return
    for log in entry.origins:
        found = log.find_value(events.EVAL_SAMPLES)
        if record and found != record.system.sample_count:
            yield log.build_fault(
                f"eval_samples {found}",
                f"{record.system.sample_count}, as in {SYSTEM_RECORD}",
                events.EVAL_SAMPLES,
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
        or entry.record.system.profile == Profile.SMOKE
    ):
        return
    truth_hashes = {
        entry.truth_sha256,
        entry.measurements.truth_sha256 if entry.measurements else None,
    }
    if not truth_hashes.isdisjoint((smoke.truth_sha256, *smoke.earlier_truth_sha256)):
        severity = Severity.WARNING if entry.record.system.profile == Profile.QUICK else None
        found = f"profile {entry.record.system.profile} with the ground truth of the embedded data"
        yield entry.build_fault(
            found,
            "the ground truth of the real data set",
            file=entry.measurements_path,
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
    """An entry outside a results tree is reported, because it cannot be traced to its run set.

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
    """The measurements file has the scenario of its folder, and states in MLCommons' fields what
    podium serves: the checkpoint as it was exported, on inputs in fp32.

    Source: submission_rules.adoc, measurements; house rule for podium's fields.
    Advice: keep the file that podium infer wrote.
    """
    stated, record = entry.measurements, entry.record
    if stated is None or record is None:
        return
    file = entry.measurements_path
    if entry.scenario and stated.scenario != entry.scenario.label:
        yield entry.build_fault(f"scenario {stated.scenario!r}", entry.scenario.label, file=file)
    served = {
        "retraining": "no",
        "starting_weights_filename": (
            f"{CHECKPOINTS_FOLDER}/{record.system.workload}/{record.system.checkpoint_sha256}"
        ),
        "input_data_types": "fp32",
    }
    if record.system.precision == Precision.FP32:
        served["weight_transformations"] = "none"
    for field, wanted in served.items():
        if getattr(stated, field) != wanted:
            yield entry.build_fault(
                f"{field} {getattr(stated, field)!r}", f"{wanted!r}, which podium serves", file=file
            )
