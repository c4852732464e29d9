"""Rules across sets and entries: one organisation's part of a tree, and a bundle."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from compliance.bundle import manifest as manifests
from compliance.bundle.manifest import Manifest
from compliance.kinds.podium.documents.bundle import Bundle
from compliance.kinds.podium.documents.submission import Submission, UninstalledResult
from compliance.kinds.podium.documents.system_description import SystemDescription
from compliance.kinds.podium.rules.campaign import compute_thread_limit, find_submitted_description
from compliance.logs.telemetry import HostState, TelemetryFile
from compliance.recognition.path_kind import is_empty_folder
from compliance.recognition.tree_path import match_scenario_folder
from compliance.rules import rule
from compliance.verdict import INSTALLED_RULE, About, Fault, Severity, Verdict
from suite import events
from suite.files.layout import (
    CHECKPOINT_RECORD,
    CHECKPOINTS_FOLDER,
    MANIFEST_FILE,
    fold_name,
)
from suite.files.untrusted_files import parse_document_count
from suite.measurement.host_load import GPU_CHANNEL_PREFIX
from suite.terms import Division

MAX_CEILING_FACTOR: Final = 2.0
"""Two measurements of one host, quiet and busy, differ by less."""
MEMORY_CAPACITY_PATTERN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?([MGT])i?B")
"""A capacity as podium writes it; decimal units count as binary ones, the larger."""
MIB_PER_UNIT: Final = {"M": 1.0, "G": 1024.0, "T": 1024.0**2}
MEMORY_CAPACITY_FACTOR: Final = 1.05
"""A capacity may be rounded, or include memory that firmware reserves."""

GPU_NUMBER_FORM: Final = re.compile(r"[A-Za-z]{0,8}\d\w{0,16}")
"""The word in a GPU's name that tells its model: H100, A6000, 4090."""


@rule("tree.contents", Submission, About.FORM)
def contents(tree: Submission) -> Iterator[Fault]:
    """There is at least one result. An organisation without any file, beside others that have some,
    claims nothing: it is a warning.

    Source: submission_rules.adoc, Directory structure.
    Advice: run podium run WORKLOAD first, or pass the right folder.
    """
    severity = None
    if tree.is_reserved:
        severity = Severity.WARNING
    if not tree.sets and not tree.entries:
        yield tree.build_fault(
            "no run set and no inference entry",
            "results/<system>/<benchmark>/...",
            severity=severity,
        )


@rule("tree.folders", Submission, About.FORM)
def folders(tree: Submission) -> Iterator[Fault]:
    """Every folder below results/ is a benchmark of the round or one of its scenarios, and no
    folder beside a division has a misspelt division name. Other folders beside a division that
    contain results are a warning, because the judge does not read them. Folders in a division that
    are not an organisation's are a warning, too, and so are empty folders.

    Source: submission_rules.adoc, Directory structure; the rows' training_name and inference_name;
    names are case-sensitive.
    Advice: use the round's folder names; a misspelt name hides its results from the judge.
    """
    known = sorted(
        {
            name
            for row in tree.round.benchmarks.values()
            for name in (row.training_name, row.inference_name)
        }
    )
    root = tree.organisation_folder.parent.parent
    for path in tree.unexpected_folders:
        scenario = match_scenario_folder(path.name)
        if scenario:
            wanted = scenario.folder
        else:
            wanted = f"a benchmark ({', '.join(known)}) with logs, or a scenario"
        found = f"the folder {path.name}"
        if path.name in known:
            found += " with neither logs nor a scenario"
            wanted = "the log of a run that has been evaluated, or a scenario's folder"
        if path.parent == root:
            wanted = ", ".join(Division)
        elif path.parent.parent == root:
            wanted = "an organisation's folder that contains results/"
        hidden = path.parent.parent == root or (
            path.parent == root and fold_name(path.name) not in [*Division]
        )
        severity = None
        if hidden or is_empty_folder(path):
            severity = Severity.WARNING
        yield tree.build_fault(found, wanted, file=path, severity=severity)


@rule("tree.links", Submission, About.FORM)
def links(tree: Submission) -> Iterator[Fault]:
    """A tree contains only regular files and folders, because a link's target can change.

    Source: house rule: a bundle contains only plain files; the judge checks in a results folder
    exactly what podium pack will pack.
    Advice: replace the link with a copy of its target.
    """
    for path in tree.links:
        yield tree.build_fault("a link", "a plain file or folder", file=path)


@rule("tree.strays", Submission, About.FORM, severity=Severity.WARNING)
def strays(tree: Submission) -> Iterator[Fault]:
    """There are no files beside the folders of systems and benchmarks, and systems/ contains only
    descriptions.

    Source: submission_rules.adoc, Directory structure; house rule: files that the judge does not
    read are reported, and in a bundle they are an error.
    Advice: keep notes and copies outside the results folder.
    """
    for path in tree.misplaced_files:
        yield tree.build_fault(path.name, "folders, and systems/<system>.json", file=path)


@rule("tree.ceiling", Submission, About.SCORE, severity=Severity.WARNING)
def ceiling(tree: Submission) -> Iterator[Fault]:
    """The harness ceilings of all runs of one system and scenario come from one host: no ceiling is
    more than twice another.

    Source: house rule: harness/serving/harness_ceiling.py measures it once per host, whatever the
    workload.
    Advice: find out whether the host was busy during the measurement, and repeat the
    runs whose ceiling is the lower one.
    """
    lowest: dict[tuple[object, object], float] = {}
    ceilings = [
        (run.record.ceiling, entry, run)
        for entry in tree.entries
        for run in entry.performance
        if run.record and run.record.ceiling
    ]
    for value, entry, run in sorted(ceilings, key=lambda each: each[0]):
        least = lowest.setdefault(
            (entry.place.system if entry.place else None, entry.scenario), value
        )
        if value > MAX_CEILING_FACTOR * least:
            yield tree.build_fault(
                f"a ceiling of {value:g}",
                f"about {least:g}, as in another run of this system and scenario",
                file=run.folder,
            )


@rule("tree.host", Submission, About.IDENTITY, severity=Severity.WARNING)
def host(tree: Submission) -> Iterator[Fault]:
    """The telemetry of a run comes from the host that systems/ describes: it shows no more free
    memory and no more hardware threads than that host has, and its GPUs have the described model.
    This holds for training and for serving.

    The rule does not apply to a system behind a network, whose telemetry comes from LoadGen's
    machine.

    Source: house rule; harness/machine/telemetry reads the host from the kernel and GPUs from their
    driver, and so does the description. A model is compared by its number, as in H100, since a
    person may describe it in other words.
    Advice: describe the system that ran the workload; give each machine its own system name.
    """
    for entry in (entry for entry in tree.entries if entry.place):
        description = find_submitted_description(tree, entry.place.system if entry.place else None)
        for run in entry.runs:
            is_remote = run.record is not None and run.record.network is not None
            if description and run.telemetry and not is_remote:
                yield from check_described_host(tree, run.telemetry, description)
    for group in (group for group in tree.sets if group.place):
        description = find_submitted_description(tree, group.place.system if group.place else None)
        for telemetry in group.telemetry.values():
            if description:
                yield from check_described_host(tree, telemetry, description)


def check_described_host(
    tree: Submission, telemetry: TelemetryFile, description: SystemDescription
) -> Iterator[Fault]:
    """Yield telemetry values that the described host cannot have."""
    if not telemetry.is_valid:
        return
    free = max(
        (
            state.free_mib or 0
            for each in telemetry.segments
            for _, _, state in each.states.get("host", ())
            if isinstance(state, HostState)
        ),
        default=0,
    )
    match = MEMORY_CAPACITY_PATTERN.fullmatch(str(description.host_memory_capacity).strip())
    if match and free > float(match[1]) * MIB_PER_UNIT[match[2]] * MEMORY_CAPACITY_FACTOR:
        yield tree.build_fault(
            f"{free / MIB_PER_UNIT['G']:.1f} GiB of memory free",
            f"at most {description.host_memory_capacity}, as systems/ describes",
            file=telemetry.source.path,
        )
    threads = max(
        (
            parse_document_count(channel.cores) or 0
            for each in telemetry.segments
            for channel in each.head.channels
        ),
        default=0,
    )
    most = compute_thread_limit(description)
    if most is not None and threads > most:
        yield tree.build_fault(
            f"{threads} hardware threads",
            f"at most {most} on the processors that systems/ describes",
            file=telemetry.source.path,
        )
    yield from check_described_gpus(tree, telemetry, description)


def check_described_gpus(
    tree: Submission, telemetry: TelemetryFile, description: SystemDescription
) -> Iterator[Fault]:
    """Yield models of GPUs in telemetry that are not the described one."""
    described = description.accelerator_model_name
    if described is None:
        return
    models = {
        channel.model
        for each in telemetry.segments
        for channel in each.head.channels
        if channel.name in each.states
        and channel.name.startswith(GPU_CHANNEL_PREFIX)
        and isinstance(channel.model, str)
    }
    for model in sorted(models):
        number = GPU_NUMBER_FORM.search(model)
        if number and fold_name(number[0]) not in fold_name(str(described)):
            yield tree.build_fault(
                f"GPU {model!r}",
                f"{described!r}, as systems/ describes",
                file=telemetry.source.path,
            )


@rule("tree.profile", Submission, About.IDENTITY, severity=Severity.WARNING)
def profile(tree: Submission) -> Iterator[Fault]:
    """All results of an organisation have the same profile.

    Source: house rule: a profile states how much of a round is run; results of different profiles
    are never compared.
    Advice: keep results of different profiles in different results folders.
    """
    found = {log.profile.value for group in tree.sets for log in group.logs if log.profile}
    found |= {entry.record.system.profile for entry in tree.entries if entry.record}
    if len(found) > 1:
        yield tree.build_fault(f"profiles {', '.join(sorted(found))}", "one")


@rule("tree.checkpoint", Submission, About.IDENTITY)
def checkpoint(tree: Submission) -> Iterator[Fault]:
    """All scenarios of a benchmark on a system serve the same checkpoint.

    Source: inference_rules.adoc v0.5, Model: the same weights in all scenarios of a submission;
    house rule: scores apply to one checkpoint.
    Advice: serve all scenarios from one checkpoint, with podium infer --scenario all.
    """
    known: dict[tuple[object, object], str] = {}
    for entry in (entry for entry in tree.entries if entry.record):
        key = (entry.place.system if entry.place else None, entry.workload)
        sha256 = entry.record.system.checkpoint_sha256 if entry.record else ""
        if known.setdefault(key, sha256) != sha256:
            yield tree.build_fault(
                f"checkpoint {sha256[:16]}...",
                f"{known[key][:16]}..., as in the other scenarios",
                file=entry.folder,
            )


@rule("tree.systems", Submission, About.IDENTITY)
def systems(tree: Submission) -> Iterator[Fault]:
    """Every system with results has a description.

    Source: submission_rules.adoc, systems/<system_desc_id>.json.
    Advice: keep the description that podium wrote.
    """
    described = {system.path.stem for system in tree.systems}
    places = {
        place.system: place
        for place in (
            *(group.place for group in tree.sets),
            *(entry.place for entry in tree.entries),
        )
        if place
    }
    for name, place in sorted((str(name), place) for name, place in places.items()):
        if name not in described:
            yield tree.build_fault(
                f"system {name}",
                f"systems/{name}.json",
                file=place.organisation_folder / "results" / name,
            )


@rule(INSTALLED_RULE, UninstalledResult, About.IDENTITY, weight=Verdict.UNKNOWN)
def installed(result: UninstalledResult) -> Iterator[Fault]:
    """The result's workload is installed, so that the round has a row for it.

    Source: house rule: a workload provides its own row, scorer and rules; without them its results
    cannot be judged.
    Advice: install the package that provides the workload, and check again.
    """
    if result.workload not in result.round.benchmarks:
        known = ", ".join(result.round.benchmarks)
        yield Fault(
            file=result.path,
            found=f"workload {result.workload!r}",
            required=f"a workload of round {result.round.name} that is installed: {known}",
        )


@rule("bundle.archive", Bundle, About.FORM)
def archive(bundle: Bundle) -> Iterator[Fault]:
    """A bundle is one zstd frame that contains a tar of regular files below its root, followed by a
    seal.

    Source: house rule: no file of a bundle is written outside its folder, and every byte of the
    bundle is checked.
    Advice: pack the results again with podium pack, or copy the bundle again.
    """
    if bundle.problem:
        yield bundle.build_fault(bundle.problem, "a bundle written by podium pack")


@rule("bundle.files", Bundle, About.IDENTITY)
def files(bundle: Bundle) -> Iterator[Fault]:
    """A bundle contains exactly the files of its manifest, byte for byte.

    Source: house rule: the manifest lists the SHA-256 and size of every file.
    Advice: the bundle was changed after it was packed: pack the results again.
    """
    if not bundle.problem:
        yield from manifests.check_bundle_manifest(bundle.folder)


@rule("bundle.strays", Bundle, About.FORM)
def unread(bundle: Bundle) -> Iterator[Fault]:
    """Every file of a bundle belongs to a judged result, is its ground truth, or describes its
    system or checkpoint.

    Source: house rule: a seal vouches for each file, so the judge must have read every one of them.
    Advice: remove the file from the results folder and pack again.
    """
    sealed = bundle.manifest.files if bundle.manifest else {}
    for path in bundle.unread_files:
        if path.relative_to(bundle.folder).as_posix() in sealed:  # bundle.files reports the others
            yield bundle.build_fault(
                "a file that belongs to no result",
                "only results, their ground truth, systems and checkpoints",
                file=path,
            )


@rule("bundle.checkpoint", Bundle, About.IDENTITY)
def records(bundle: Bundle) -> Iterator[Fault]:
    """A bundle contains the record of each served checkpoint, with the owner of the weights and
    their scores.

    Source: house rule: scores must match the checkpoint's record; suite/records.py,
    CheckpointRecord.
    Advice: restore checkpoints/<workload>/<sha256>/record.json and pack again.
    """
    sealed = bundle.manifest.files if bundle.manifest else {}
    served = {
        (entry.record.system.workload, entry.record.system.checkpoint_sha256)
        for tree in bundle.submissions
        for entry in tree.entries
        if entry.record
    }
    if not bundle.manifest:
        return
    for workload, sha256 in sorted(served):
        name = f"{CHECKPOINTS_FOLDER}/{workload}/{sha256}/{CHECKPOINT_RECORD}"
        if name not in sealed:
            yield bundle.build_fault(f"no {name}", "the record of the served checkpoint")


@rule("bundle.manifest", Bundle, About.IDENTITY)
def manifest(bundle: Bundle) -> Iterator[Fault]:
    """The manifest's rounds, profiles, workloads, nonces, checkpoints, environments, commands and
    seeds match its results, which belong to one organisation.

    Source: house rule: the manifest's claims about a bundle can be trusted without unpacking it.
    Advice: pack the results again with podium pack.
    """
    stated = bundle.manifest
    if stated is None:
        return
    file = bundle.folder / MANIFEST_FILE
    logs = [log for tree in bundle.submissions for group in tree.sets for log in group.logs]
    records = [
        entry.record for tree in bundle.submissions for entry in tree.entries if entry.record
    ]
    found = {
        "round": {
            *(str(log.find_value(events.ROUND)) for log in logs),
            *(record.system.round for record in records),
        },
        "profile": {
            *(str(log.find_value(events.PROFILE)) for log in logs),
            *(record.system.profile for record in records),
        },
    }
    for field, values in found.items():
        if values != {getattr(stated, field)}:
            yield bundle.build_fault(
                f"{field} {getattr(stated, field)!r}",
                f"{', '.join(sorted(map(str, values)))}, as in the results",
                file=file,
            )
    workloads = {
        *(str(log.find_value(events.WORKLOAD)) for log in logs),
        *(record.system.workload for record in records),
    }
    if workloads != set(stated.workloads):
        yield bundle.build_fault(
            f"workloads {', '.join(stated.workloads)}",
            f"{', '.join(sorted(map(str, workloads)))}",
            file=file,
        )
    homes = sorted({tree.organisation_folder.name for tree in bundle.submissions})
    if len(homes) > 1:
        yield bundle.build_fault(f"results of {', '.join(homes)}", "one organisation's", file=file)
    yield from check_environments(bundle, stated.environment)
    for field, named in {"nonce": stated.nonce, "checkpoints": stated.checkpoints}.items():
        if unknown := sorted(named.keys() - workloads):
            yield bundle.build_fault(
                f"{field} of {', '.join(unknown)}", "only those in the results", file=file
            )
    yield from check_manifest_entries(
        bundle,
        "nonce",
        stated.nonce,
        {record.system.workload: record.system.nonce for record in records},
    )
    yield from check_manifest_entries(
        bundle,
        "checkpoints",
        stated.checkpoints,
        {record.system.workload: record.system.checkpoint_sha256 for record in records},
    )
    yield from check_manifest_commands(bundle, stated)


def check_manifest_commands(bundle: Bundle, stated: Manifest) -> Iterator[Fault]:
    """Compare the commands and seeds in the manifest with those that the logs record."""
    logs = [log for tree in bundle.submissions for group in tree.sets for log in group.logs]
    runs = [run for tree in bundle.submissions for entry in tree.entries for run in entry.runs]
    logged: list[object] = [log.find_value(events.COMMAND_LINE) for log in logs]
    recorded = [list(run.record.command) for run in runs if run.record]
    found = {
        "commands": list_distinct_values([*logged, *recorded]),
        "seeds": list_distinct_values([log.find_value(events.SEED) for log in logs]),
    }
    for field, values in found.items():
        claimed = list_distinct_values(getattr(stated, field))
        for strange in sorted({*claimed} ^ {*values}):
            yield bundle.build_fault(
                f"{field} {'with' if strange in claimed else 'without'} {strange}",
                f"the {field} that its results record",
                file=bundle.folder / MANIFEST_FILE,
            )


def list_distinct_values(values: Iterable[object]) -> Sequence[str]:
    """Return the distinct values that are not empty, as JSON."""
    return list(dict.fromkeys(json.dumps(value) for value in values if value not in (None, [], ())))


def check_environments(bundle: Bundle, stated: Mapping[str, Any]) -> Iterator[Fault]:
    """Compare the environments in the manifest with the system descriptions that they repeat."""
    found = {system.path.stem: system for tree in bundle.submissions for system in tree.systems}
    for name in sorted(found.keys() | stated.keys()):
        wanted = manifests.read_run_environment_or_none(found[name].path) if name in found else None
        if wanted != stated.get(name):
            if name in found:
                required = f"the environment of systems/{name}.json"
            else:
                required = "only those in the results"
            yield bundle.build_fault(
                f"environment of {name}", required, file=bundle.folder / MANIFEST_FILE
            )


def check_manifest_entries(
    bundle: Bundle, field: str, stated: Mapping[str, str], found: Mapping[str, str]
) -> Iterator[Fault]:
    """Compare the manifest's statements about each workload with the records."""
    for workload, value in sorted(found.items()):
        if stated.get(workload) != value:
            yield bundle.build_fault(
                f"{field} of {workload} {stated.get(workload)!r}",
                f"{value!r}, as in system.json",
                file=bundle.folder / MANIFEST_FILE,
            )
