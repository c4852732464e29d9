"""Check the calibration of a quantised system: one list of the round, every sample named, no use of
the accuracy set outside that list.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from compliance.kinds.podium.documents.inference import InferenceEntry
from compliance.kinds.podium.documents.submission import Submission
from compliance.kinds.podium.rules.training.quality import is_sha256
from compliance.logs.finite_numbers import is_finite_number
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.engine import RANGE
from suite.files.layout import compute_names_sha256
from suite.records import CalibrationRecord
from suite.terms import QUANTISED

ALLOWED_CALIBRATION_METHODS: Final = ("min-max", "entropy", "percentile")
MAX_NAMED_CALIBRATION_SAMPLES: Final = 3
"""Maximum number of samples in a finding."""


@rule("entry.calibrated", InferenceEntry, About.RULES)
def calibrated(entry: InferenceEntry) -> Iterator[Fault]:
    """A quantised result states list, samples, method and resulting ranges for each network with
    ranges. Any other result has no calibration. How another program's server was calibrated,
    nobody knows.

    Source: inference_rules.adoc v0.7, Quantization: the submission documents the calibration set
    and the method; house rule: it does so in figures.
    Advice: keep the measurements file that podium infer wrote.
    """
    measurements, record = entry.measurements, entry.record
    if measurements is None or record is None or record.is_of_foreign_server:
        return
    precision = record.system.precision
    quantised = precision in QUANTISED
    if bool(measurements.calibration) != quantised:
        wanted = "the samples behind its ranges" if quantised else "no calibration"
        yield build_measurements_fault(
            entry,
            f"{precision} with {'a' if measurements.calibration else 'no'} calibration",
            wanted,
        )
    else:
        for network in sorted({*measurements.engine_description} - {*measurements.calibration}):
            if find_network_ranges(measurements.engine_description[network]):
                yield build_measurements_fault(
                    entry,
                    f"ranges of network {network}, which was not calibrated",
                    "the samples behind them",
                )
    for network, used in measurements.calibration.items():
        if not find_network_ranges(measurements.engine_description.get(network)):
            yield build_measurements_fault(
                entry,
                f"no range for network {network}",
                f"{RANGE}<tensor> in its engine_description: lowest and highest value",
            )
        if used.method not in ALLOWED_CALIBRATION_METHODS:
            yield build_measurements_fault(
                entry, f"method {used.method!r}", " or ".join(ALLOWED_CALIBRATION_METHODS)
            )


def find_network_ranges(description: object) -> list[Any]:
    """Return the ranges in an engine's description, if each of them is a range."""
    found = []
    if isinstance(description, Mapping):
        found = [value for name, value in description.items() if name.startswith(RANGE)]
    return found if all(map(is_number_range, found)) else []


def is_number_range(value: object) -> bool:
    """Return whether a value is a pair of numbers, in order."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(is_finite_number, value))
        and value[0] <= value[1] < math.inf
    )


@rule("entry.calibration_list", InferenceEntry, About.RULES)
def calibration_list(entry: InferenceEntry) -> Iterator[Fault]:
    """All networks of a system use the same calibration list, and it is one of the round's lists
    for the workload and profile.

    Source: inference_rules.adoc v0.7, Quantization: the calibration set of the benchmark;
    mlcommons/inference, calibration/ImageNet, README: at most one of the lists; the row's
    calibration.
    Advice: calibrate with the round's list: podium infer uses the embedded one, or --set
    calibration.list=FILE.
    """
    used = list(entry.measurements.calibration.values()) if entry.measurements else []
    if len({(each.list, each.names) for each in used}) > 1:
        yield build_measurements_fault(
            entry,
            f"calibration lists {', '.join(sorted({each.list for each in used}))}",
            "one list",
        )
    known = entry.inference.calibration if entry.inference else {}
    for each in used[:1]:
        row = known.get(each.list)
        if row is None:
            yield build_measurements_fault(
                entry,
                f"the calibration list {each.list!r}",
                f"one of the round's: {', '.join(known) or 'it has none'}",
            )
        elif len(each.names) != row.samples:
            yield build_measurements_fault(
                entry, f"{each.list} with {len(each.names)} names", f"its {row.samples}"
            )
        elif row.names_sha256 not in (None, compute_names_sha256(each.names)):
            yield build_measurements_fault(
                entry,
                f"{each.list} with names whose SHA-256 is"
                f" {compute_names_sha256(each.names)[:16]}...",
                f"{str(row.names_sha256)[:16]}..., from the round",
            )


@rule("entry.calibration_samples", InferenceEntry, About.RULES)
def calibration_samples(entry: InferenceEntry) -> Iterator[Fault]:
    """Every calibration sample is on the list, occurs once and has the SHA-256 of its file. Samples
    of the accuracy set are used only if the list consists of them.

    Source: inference_rules.adoc v0.7, Quantization, and Model: no statistics of the accuracy set;
    house rule: a SHA-256 per sample.
    Advice: calibrate only with samples from the round's list, and keep the measurements file that
    podium infer wrote.
    """
    rows = entry.inference.calibration if entry.inference else {}
    if not entry.measurements:
        return
    for network, used in entry.measurements.calibration.items():
        row = rows.get(used.list)
        for found, required in find_calibration_problems(
            used, of_accuracy_set=row is not None and row.of_accuracy_set
        ):
            yield build_measurements_fault(entry, f"{network}: {found}", required)


def find_calibration_problems(
    used: CalibrationRecord, *, of_accuracy_set: bool
) -> Iterator[tuple[str, str]]:
    """Yield the problems with the samples of one network: found, required."""
    if not used.samples:
        yield "no samples", "samples from the list"
    if outside := sorted({*used.samples} - {*used.names}):
        yield (
            f"{format_first_names(outside)} not on the list {used.list}",
            "only samples on the list",
        )
    if twice := sorted(name for name, count in Counter(used.samples).items() if count > 1):
        yield f"{format_first_names(twice)} twice", "each sample once"
    if len(used.sha256) != len(used.samples) or not all(map(is_sha256, used.sha256)):
        yield (
            f"{len(used.sha256)} hashes for {len(used.samples)} samples",
            "the SHA-256 of each sample's file",
        )
    elif len(used.samples) > 1 and len({*used.sha256}) <= len(used.sha256) // 2:
        yield (
            f"{len({*used.sha256})} different hashes for {len(used.samples)} samples",
            "different files",
        )
    if used.touched and not of_accuracy_set:
        yield (
            f"{format_first_names(used.touched)} from the accuracy set",
            f"no sample of it: {used.list} lists other samples",
        )
    if stray := sorted({*used.touched} - {*used.samples}):
        yield (
            f"{format_first_names(stray)} from the accuracy set, listed but not used",
            "only used samples",
        )


def format_first_names(names: Any) -> str:
    """Format the first few names, and the number of the others."""
    first = ", ".join(names[:MAX_NAMED_CALIBRATION_SAMPLES])
    if len(names) <= MAX_NAMED_CALIBRATION_SAMPLES:
        return first
    return f"{first} and {len(names) - MAX_NAMED_CALIBRATION_SAMPLES} more"


def build_measurements_fault(entry: InferenceEntry, found: str, required: str) -> Fault:
    """Build a fault in the measurements file."""
    return entry.build_fault(found, required, file=entry.measurements_path)


@rule("tree.calibration", Submission, About.RULES)
def one_calibration(tree: Submission) -> Iterator[Fault]:
    """All quantised results of a benchmark, across an organisation's scenarios and systems, use the
    same calibration list.

    Source: mlcommons/inference, calibration/ImageNet, README: at most one of the lists;
    inference_rules.adoc v0.7, Quantization.
    Advice: serve all of them with the same calibration list.
    """
    first_used: dict[object, CalibrationRecord] = {}
    for entry in tree.entries:
        if not entry.measurements or not entry.measurements.calibration:
            continue
        used = next(iter(entry.measurements.calibration.values()))
        first = first_used.setdefault(entry.workload, used)
        if (used.list, used.names) != (first.list, first.names):
            yield tree.build_fault(
                f"the calibration list {used.list}",
                f"{first.list}, as in another result of {entry.workload}",
                file=entry.measurements_path,
            )
