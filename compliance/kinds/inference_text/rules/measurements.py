"""Check the measurements, configuration and code folders of a published inference entry."""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from compliance.kinds.inference_text.documents.entry import TextEntry
from compliance.kinds.inference_text.documents.entry_files import ConfigurationLine
from compliance.kinds.inference_text.logs.legacy_detail import LoggedSetting
from compliance.logs.loadgen.setting_names import LOADGEN_SEEDS
from compliance.logs.source_file import SourceFile, read_source_text
from compliance.recognition.loadgen_folders import find_child_ignoring_case
from compliance.recognition.tree_path import is_file, is_folder, iterate_subfolders
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.loadgen.scenario import Scenario

NUMBER_TYPE_PATTERN: Final = re.compile(
    r"(?<![a-z])(u?int|bfloat|bf|float|fp)[-_ ]?(\d+)", re.IGNORECASE
)
ALLOWED_NUMBER_BITS: Final = {
    "int": (4, 8, 16, 32),
    "uint": (4, 8, 16, 32),
    "float": (11, 16, 32),
    "fp": (11, 16, 32),
    "bfloat": (16,),
    "bf": (16,),
}
"""Source: inference_rules.adoc v0.5, Quantization: INT4, INT8, INT16, UINT8, UINT16, FP11, FP16,
bfloat16, FP32; sums of those have 32 bits.
"""
USER_CONFIGURATION: Final = "user.conf"
MAX_FOLDER_NAME_BYTES: Final = 255
"""Maximum bytes of a folder's name."""
REQUESTED_SETTINGS: Final = {
    (Scenario.SERVER, "target_qps"): "server_target_qps",
    (Scenario.OFFLINE, "target_qps"): "offline_expected_qps",
    (Scenario.MULTI_STREAM, "samples_per_query"): "multi_stream_samples_per_query",
    (None, "min_duration"): "min_duration_ms",
}
"""Scenario and key in user.conf -> the setting that LoadGen logs as requested."""
OFTEN_EMPTY_FIELDS: Final = ("retraining", "weight_transformations")
"""Fields in which an empty value may mean none."""


@rule("inference-text.measurements", TextEntry, former="filed.measurements")
def measurements(entry: TextEntry) -> Iterator[Fault]:
    """An entry has a measurements folder with LoadGen's configuration, a README and a file that
    describes the model.

    Source: submission_rules.adoc v0.5, measurements; submission-checker.py, check_measurement_dir.
    Advice: submit <system>_<implementation>_<Scenario>.json and the other files in
    measurements/<system>/<benchmark>/<Scenario>.
    """
    found = entry.measurements
    if entry.position is None or found is None:
        return
    names = {name.casefold() for name in found.names}
    for name in entry.round.filing.measurement_files:
        if name.casefold() not in names:
            if (
                entry.closed
                or name != USER_CONFIGURATION
                or has_user_configuration_elsewhere(entry)
            ):
                weight = None
            else:
                weight = Severity.WARNING
            yield entry.build_fault(
                f"no {name}",
                f"{name} in measurements/{'/'.join(entry.position.parts)}",
                file=found.folder / name,
                severity=weight,
            )
    if found.document is None:
        name = f"{entry.position.system}_<implementation>_{entry.position.scenario}.json"
        yield entry.build_fault("no file that describes the model", name, file=found.folder)


def has_user_configuration_elsewhere(entry: TextEntry) -> bool:
    """Return whether the organisation submits user.conf with its other results: an entry without
    own settings may lack it.
    """
    if entry.position:
        folder = entry.position.organisation_folder / "measurements"
    else:
        folder = entry.folder
    return any(
        is_file(each / USER_CONFIGURATION)
        for system in iterate_subfolders(folder)
        for model in iterate_subfolders(system)
        for each in iterate_subfolders(model)
    )


@rule("inference-text.fields", TextEntry, former="filed.fields")
def fields(entry: TextEntry) -> Iterator[Fault]:
    """The measurements file states weights, data types, transformations and retraining.

    Source: submission-checker.py, system_desc_id_imp.json.
    Advice: add the missing fields.
    """
    found = entry.measurements
    if (
        found is None
        or found.document is None
        or any(source.path == found.document and source.parse_errors for source in found.sources)
    ):
        return
    for name in entry.round.filing.measurement_fields:
        value = found.fields.get(name)
        if value is None:
            yield entry.build_fault(f"no {name}", "the field, with a value", file=found.document)
        elif not isinstance(value, str) or not value.strip():
            lenient = (
                isinstance(value, bool)
                or (name in OFTEN_EMPTY_FIELDS and value == "")
                or (isinstance(value, list) and value)
            )
            yield entry.build_fault(
                f"{name} {value!r}",
                "text",
                file=found.document,
                severity=Severity.WARNING if lenient else None,
            )
    for name in sorted(found.fields.keys() - {*entry.round.filing.measurement_fields}):
        yield entry.build_fault(
            f"a field {name}",
            ", ".join(entry.round.filing.measurement_fields),
            file=found.document,
            severity=Severity.WARNING,
        )


@rule(
    "inference-text.closed",
    TextEntry,
    About.RULES,
    doubt="whether the model is the closed division's",
    former="filed.closed",
)
def closed(entry: TextEntry) -> Iterator[Fault]:
    """The model of a closed result is not retrained and uses only precisions that the round allows.

    Source: inference_rules.adoc v0.5, Model: retraining is not allowed in the closed division;
    Quantization: allowed formats.
    Advice: submit to the open division.
    """
    found = entry.measurements
    if not entry.closed or found is None or found.document is None:
        return
    retraining = str(found.fields.get("retraining") or "").strip().casefold()
    if retraining in ("y", "yes", "true", "1"):
        yield entry.build_fault(
            f"retraining {found.fields['retraining']!r}", "no", file=found.document
        )
    for name in ("weight_data_types", "input_data_types"):
        for kind, bits in NUMBER_TYPE_PATTERN.findall(str(found.fields.get(name) or "")):
            if int(bits[:4]) not in ALLOWED_NUMBER_BITS[kind.casefold()]:
                yield entry.build_fault(
                    f"{name} {found.fields[name]!r}",
                    "int4 to int16, uint8, uint16, fp11, fp16, bfloat16 or fp32",
                    file=found.document,
                )


@rule("inference-text.code", TextEntry, former="filed.code")
def code(entry: TextEntry) -> Iterator[Fault]:
    """The implementation in the measurements file has a code folder, or its benchmark has a file
    that names one.

    Source: submission_rules.adoc v0.5, code/<benchmark>/<implementation>; submission-checker.py,
    check_measurement_dir, which in v0.7 follows a one-line file in the benchmark's place, and
    accepts any code of the benchmark.
    Advice: submit the code, or name the measurements file after the implementation's folder.
    """
    filed, found = entry.position, entry.measurements
    if filed is None or found is None or found.implementation is None:
        return
    optional = entry.round.filing.code_optional
    code = (
        find_child_ignoring_case(filed.organisation_folder, "code")
        or filed.organisation_folder / "code"
    )
    folder = find_child_ignoring_case(code, filed.model) or code / filed.model
    if optional and is_file(folder):
        folder = resolve_code_folder(folder, code)
    if found.implementation and not (optional and is_folder(folder)):
        folder = (
            find_child_ignoring_case(folder, found.implementation) or folder / found.implementation
        )
    if not is_folder(folder):
        weight = Severity.WARNING if optional else None
        yield entry.build_fault(
            f"no folder {folder.name}",
            f"code/{filed.model}/{found.implementation}",
            file=folder,
            severity=weight,
        )


def resolve_code_folder(file: Path, code: Path) -> Path:
    """Return the code folder that a one-line file names, or the file itself if it names none in the
    code's folder.
    """
    name = read_source_text(SourceFile(file), MAX_FOLDER_NAME_BYTES).strip()
    inside = name and name not in (".", "..") and "/" not in name and "\0" not in name
    if inside:
        return code / name
    return file


@rule(
    "inference-text.configuration",
    TextEntry,
    About.RULES,
    doubt="whether the run was as long as the round requires",
    former="filed.configuration",
)
def configuration(entry: TextEntry) -> Iterator[Fault]:
    """The configuration files request at least what the round requires, or the log shows that the
    run met the requirements.

    Source: mlcommons/inference, mlperf.conf of the round; inference_rules.adoc v0.5, Scenarios and
    Benchmarks.
    Advice: submit the round's mlperf.conf and the user.conf that the runs used.
    """
    found = entry.measurements
    if found is None or entry.scenario is None or entry.rule is None:
        return
    for name, lines in found.configuration.items():
        for line in select_configuration_lines(entry, lines):
            required = find_unmet_requirement(entry, line)
            if required is not None:
                yield entry.build_fault(
                    f"{line.key} {line.text}",
                    required,
                    line.line,
                    file=found.folder / name,
                    severity=weigh_configuration_line(entry, name, line),
                )


def select_configuration_lines(
    entry: TextEntry, lines: Sequence[ConfigurationLine]
) -> Iterator[ConfigurationLine]:
    """Yield the lines for an entry's model and scenario, or for all."""
    names = {
        entry.position.model.casefold() if entry.position else "",
        entry.benchmark or "",
    }
    if entry.row:
        names.update(entry.row.names)
    scenarios = ("*", entry.scenario.folder.casefold() if entry.scenario else "")
    yield from (
        line
        for line in lines
        if line.scenario.casefold() in scenarios
        and (line.model == "*" or line.model.casefold() in names)
    )


def find_unmet_requirement(entry: TextEntry, line: ConfigurationLine) -> str | None:
    """Describe the round's requirement if a line requests less; None if it does not."""
    row, rules = entry.rule, entry.round.loadgen
    try:
        value = float(line.text)
    except ValueError:
        if line.key in ("min_duration", "min_query_count", *LOADGEN_SEEDS):
            return "a number"
        return None
    if line.key in LOADGEN_SEEDS and line.text != str(getattr(rules, line.key)):
        return str(getattr(rules, line.key))
    if line.key == "min_duration" and value < entry.round.minimums.min_duration_ms:
        return f"{entry.round.minimums.min_duration_ms} ms"
    if (
        row
        and line.key == "min_query_count"
        and entry.scenario is not Scenario.OFFLINE
        and value < row.min_queries
    ):
        return f"{row.min_queries}"
    if (
        not row
        or not entry.closed
        or entry.scenario not in (Scenario.SERVER, Scenario.MULTI_STREAM)
    ):
        return None
    if line.key == "target_latency" and row.bound_ns and value * 1e6 > row.bound_ns:
        return f"{row.bound_ns / 1e6:g} ms"
    if (
        line.key == "target_latency_percentile"
        and (value if value > 1 else 100 * value) < row.percentile
    ):
        return f"{row.percentile:g}"
    return None


def weigh_configuration_line(
    entry: TextEntry, name: str, line: ConfigurationLine
) -> Severity | None:
    """Return the severity of a line that requests less: if the log shows a request to LoadGen, the
    run's own rule checks it.

    In the open division, settings other than LoadGen's minimums are free, and files of a closed
    result may be beside it.
    """
    setting = {"min_duration": "min_duration_ms", "target_latency": "target_latency_ns"}.get(
        line.key, line.key
    )
    factor = 1.0
    if line.key == "target_latency":
        factor = 1e6
    try:
        value = float(line.text) * factor
    except ValueError:
        return None
    requested = [run.find_number(f"effective_{setting}") for run in entry.performance]
    excused = (
        bool(requested)
        and all(each == value for each in requested)
        and line.key not in LOADGEN_SEEDS
    )
    if excused or not (entry.closed or name == USER_CONFIGURATION):
        return Severity.WARNING
    return None


@rule("inference-text.used", TextEntry, former="filed.used")
def used(entry: TextEntry) -> Iterator[Fault]:
    """The rate, duration and samples per query in user.conf are those of a run.

    Source: submission_rules.adoc, measurements: the user.conf of the result; in all known accepted
    closed entries these agree.
    Advice: submit the user.conf that the runs used.
    """
    found = entry.measurements
    if found:
        lines = list(
            select_configuration_lines(entry, found.configuration.get(USER_CONFIGURATION, ()))
        )
    else:
        lines = []
    runs = [run for run in entry.performance if run.detail.stamped_lines]
    for (scenario, key), name in REQUESTED_SETTINGS.items():
        configured_lines = [
            line
            for line in lines
            if line.key == key
            and runs
            and scenario in (None, entry.scenario)
            and not entry.inferred
        ]
        if (
            configured_lines
            and found
            and not any(
                is_setting_as_configured(line.text, run.find_record(f"requested_{name}"))
                for line in configured_lines
                for run in runs
            )
        ):
            setting = runs[0].find_record(f"requested_{name}")
            weight = None
            if not entry.closed:
                weight = Severity.WARNING
            required = f"{setting.text if setting else 'nothing'}, as the run requested"
            yield entry.build_fault(
                f"{key} {configured_lines[-1].text}",
                required,
                configured_lines[-1].line,
                file=found.folder / USER_CONFIGURATION,
                severity=weight,
            )


def is_setting_as_configured(text: str, setting: LoggedSetting | None) -> bool:
    """Compare a line of user.conf with a setting to the digits that LoadGen prints; another rule
    checks text that is not a number.
    """
    try:
        return setting is None or math.isclose(float(text), float(setting.text), rel_tol=1e-4)
    except ValueError:
        return True
