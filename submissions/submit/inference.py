"""A submission to a round of MLPerf Inference from podium's own served results: LoadGen's files as
it wrote them, the accuracy in the round's words, measurements, compliance tests, the description of
each system, and the code.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from compliance.kinds.podium.results import log_values
from compliance.recognition.tree_path import INTERACTIVE_FOLDER
from compliance.results.indexed_result import IndexedResult
from compliance.results.submission_forms import InferenceForm
from compliance.verdict import Severity
from submissions.result_index import find_requested_results
from submissions.submit.accuracy_text import describe_accuracy
from submissions.submit.results import (
    DATE_HINT,
    FULL_PROFILE,
    SYSTEM_TABLE,
    ResultOptions,
    build_profile_shortfall,
    copy_code,
    describe_result_system,
    list_missing_code,
    require_one_result_each,
)
from submissions.submit.shortfalls import Shortfall
from submissions.submit.tree import (
    Submission,
    WritingOptions,
    build_no_result_error,
    copy_files,
    load_form,
    read_stated_tables,
    write_submission,
)
from suite import registry
from suite.errors import RequestError
from suite.files.json_files import write_json
from suite.files.layout import (
    ACCURACY_LOG,
    ACCURACY_TEXT,
    AUDIT_CONFIG,
    DETAIL_LOG,
    SUMMARY_LOG,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
    compute_file_sha256,
)
from suite.files.untrusted_files import UnreadableError
from suite.loadgen.scenario import Scenario
from suite.records import SystemUnderTest, is_published_model, read_system_record
from suite.rounds import INTERACTIVE_BOUNDS, TOKEN_BOUNDS_SETTING, HyperValue
from suite.terms import Division

RUN_FILES: Final = (SUMMARY_LOG, DETAIL_LOG)
ACCURACY_FILES: Final = (*RUN_FILES, ACCURACY_LOG, ACCURACY_TEXT)
TEST_FILES: Final = (AUDIT_CONFIG, VERIFY_ACCURACY, VERIFY_PERFORMANCE)
OWN_IMPLEMENTATION: Final = "podium"
"""Name of the implementation, if nobody names its code."""
REFERENCE_SETTINGS: Final[Mapping[str, Mapping[str, HyperValue]]] = {
    "ssd": {"model.configuration": "1200"},
}
"""Workload -> settings of the network that MLPerf serves, where podium's may be another one.
Source: inference_rules.adoc, Benchmarks: SSD-ResNet34, COCO at 1200 x 1200.
"""
MODEL_RULE: Final = "inference_rules.adoc, Model: closed results are of the reference's weights"
HINTS: Final[Mapping[str, str]] = {
    "inference-mllog.measurements": "name the folder with user.conf and README.md with"
    " --measurements.",
    "inference-mllog.system_fields": "state the fields in [system] of --system-file.",
    "inference-mllog.duration": "podium infer --profile full.",
    "inference-mllog.seeds": "podium-v1 has the seeds of Inference v6.1; other rounds have others.",
    "inference-text.seeds": "podium-v1 has the seeds of Inference v6.1; other rounds have others.",
    "inference-text.measurements": "name the folder with the round's files with --measurements.",
    "inference-text.system_fields": "state the fields in [system] of --system-file.",
    "inference-mllog.date": DATE_HINT,
    "inference-text.date": DATE_HINT,
    "file.record": "rounds before v1.0 have logs of LoadGen before 1.0, which podium does not run.",
    "inference-mllog.tests": "podium audit runs the compliance tests.",
    "inference-mllog.hash": "run MLCommons' truncate_accuracy_log.py on the tree: it cuts accuracy"
    " logs and notes their hash.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedSource:
    """Served results with all that their submission is made of."""

    results: Sequence[IndexedResult]
    form: InferenceForm
    options: ResultOptions
    measurements: Path | None
    """Folder of files that belong to the measurements of each scenario."""
    stated: Mapping[str, Any]

    def locate_result(self, result: IndexedResult) -> tuple[str, str, str]:
        """Return system, benchmark and scenario of a result in the tree: Server with the bounds of
        MLPerf's Interactive is that scenario.
        """
        folder, scenario = result.folder, result.folder.name
        bounds = read_own_record(folder).settings.get(TOKEN_BOUNDS_SETTING)
        if result.scenario is Scenario.SERVER and bounds == INTERACTIVE_BOUNDS:
            scenario = INTERACTIVE_FOLDER
        benchmark = self.form.find_folder(folder.parent.name) or folder.parent.name
        return self.options.name_system(result), benchmark, scenario


def submit_inference(
    path: Path, options: ResultOptions, measurements: Path | None, writing: WritingOptions
) -> None:
    """Write the submission of the served results in a results folder."""
    form: InferenceForm = load_form(options.round, InferenceForm)
    found = [each for each in find_requested_results(path) if each.scenario]
    results = [each for each in found if form.has_benchmark(each.folder.parent.name)]
    names = dict.fromkeys(each.folder.parent.name for each in found)
    if not results:
        raise build_no_result_error(path, "served result", options.round, names)
    divisions = {each.division for each in results}
    if len(divisions) > 1:
        raise RequestError(f"{path}: results of both divisions; name the folder of one")
    require_one_result_each(results)
    source = ServedSource(
        results=results,
        form=form,
        options=options,
        measurements=measurements,
        stated=read_stated_tables(options.system_file, (SYSTEM_TABLE,))[SYSTEM_TABLE],
    )
    root = f"{results[0].division}/{options.org}"
    left = [name for name in names if not form.has_benchmark(name)]
    write_submission(
        Submission(
            round=options.round,
            title=", ".join("/".join(source.locate_result(each)) for each in results),
            root=root,
            build=lambda tree: build_inference_tree(source, tree / root),
            notes=[f"left out, as {options.round} has no {each}" for each in left],
            unbuilt=[*iterate_served_gaps(source, root)],
            hints=HINTS,
        ),
        writing,
    )


def iterate_served_gaps(source: ServedSource, root: str) -> Iterator[Shortfall]:
    """Yield what is missing without a trace in the tree: the profile of the round, the reference's
    model, and the code.
    """
    for each in source.results:
        record = read_own_record(each.folder)
        if record.profile != FULL_PROFILE:
            yield build_profile_shortfall(each.folder, [record.profile])
        if differences := [*iterate_model_differences(each, record)]:
            yield build_model_shortfall(each.folder, differences)
    benchmarks = dict.fromkeys(source.locate_result(each)[1] for each in source.results)
    folders = [source.form.locate_code(Path(root), each) for each in benchmarks]
    yield from list_missing_code(source.options, folders)


def iterate_model_differences(result: IndexedResult, record: SystemUnderTest) -> Iterator[str]:
    """Yield what a closed result serves in place of the reference's model."""
    if result.division != Division.CLOSED:
        return
    for name, wanted in REFERENCE_SETTINGS.get(record.workload, {}).items():
        found = record.settings.get(name)
        if found != wanted:
            yield f"{name} {found}; required: {wanted}"
    row = registry.load_round().benchmarks.get(record.workload)
    rows = row.inference.items() if row else ()
    measured = log_values.read_scenario_measurements(result.folder)
    origin = measured.weights_origin if measured else ""
    if not any(name == record.profile and is_published_model(each, origin) for name, each in rows):
        yield f"weights {origin or 'that podium trained'}; required: those of the reference"


def build_model_shortfall(folder: Path, differences: Sequence[str]) -> Shortfall:
    """Build what is missing of a closed result of another model than the reference's."""
    return Shortfall(
        rule="submit.model",
        severity=Severity.ERROR,
        texts=tuple(f"{each} ({MODEL_RULE})" for each in differences),
        places=(str(folder),),
        advice="podium import the published weights, where a benchmark's row serves them.",
    )


def read_own_record(folder: Path) -> SystemUnderTest:
    """Read the record of a result's system; RequestError for a result that is not podium's."""
    try:
        return read_system_record(folder)
    except UnreadableError as error:
        raise RequestError(f"{folder}: is no result of podium's: {error}") from error


def build_inference_tree(source: ServedSource, root: Path) -> None:
    """Write a submission."""
    form = source.form
    for result in source.results:
        place = source.locate_result(result)
        copy_runs(result.folder, form.locate_scenario(root, place))
        translate_accuracy(result.folder, form.locate_scenario(root, place))
        copy_measurements(source, result, form.locate_measurements(root, place))
        copy_tests(result, form.locate_tests(root, place))
        description = form.locate_description(root, place[0])
        write_json(description, describe_result_system(result, source.options, source.stated))
        copy_code(source.options, form.locate_code(root, place[1]))


def copy_runs(source: Path, target: Path) -> None:
    """Copy LoadGen's files of the accuracy run and of the performance runs, and the accuracy."""
    copy_files(source / "accuracy", ACCURACY_FILES, target / "accuracy")
    for run in sorted(source.glob("performance/run_*")):
        copy_files(run, RUN_FILES, target / "performance" / run.name)


def translate_accuracy(source: Path, target: Path) -> None:
    """Write the accuracy in the words of the round's script, where there is one."""
    run = source / "accuracy"
    scores = log_values.read_served_accuracy(run)
    if not (scores and (run / ACCURACY_LOG).is_file()):
        return
    samples = read_own_record(source).sample_count
    text = describe_accuracy(scores, samples, compute_file_sha256(run / ACCURACY_LOG))
    if text is not None:
        (target / "accuracy" / ACCURACY_TEXT).write_text(text)


def copy_measurements(source: ServedSource, result: IndexedResult, target: Path) -> None:
    """Copy podium's measurements under the round's name, and the files that the user names, of
    which the round knows the names.
    """
    implementation = OWN_IMPLEMENTATION
    if source.options.code:
        implementation = source.options.code.resolve().name
    name = source.form.name_model_document(source.locate_result(result), implementation)
    for document in result.measurements_folder.glob(f"*_{OWN_IMPLEMENTATION}_*.json"):
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(document, target / name)
    if source.measurements:
        if not source.measurements.is_dir():
            raise RequestError(f"--measurements {source.measurements}: is not a folder")
        copy_files(source.measurements, source.form.measurement_files, target)


def copy_tests(result: IndexedResult, target: Path) -> None:
    """Copy the compliance tests: what they verified, and LoadGen's files of their runs."""
    for folder in (test for home in result.audit_folders for test in sorted(home.iterdir())):
        copy_files(folder, TEST_FILES, target / folder.name)
        copy_runs(folder, target / folder.name)
        for text in sorted(folder.glob("accuracy/*.txt")):
            shutil.copyfile(text, target / folder.name / "accuracy" / text.name)
