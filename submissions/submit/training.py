"""A submission to a round of MLPerf Training from podium's own run sets: the logs as mllog wrote
them, the description of each system, and the code.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from compliance.results.indexed_result import IndexedResult
from compliance.results.submission_forms import TrainingForm
from compliance.verdict import Severity
from submissions.result_index import find_requested_results
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
    load_form,
    read_stated_tables,
    write_submission,
)
from suite.files.json_files import write_json
from suite.files.untrusted_files import read_untrusted_file
from suite.terms import Division

PROFILE_KEY: Final = b'"key": "podium_profile", "value": "'
INITIALIZATION_KEY: Final = b'"key": "weights_initialization"'
INITIALIZATION_RULE: Final = "mlcommons/logging, closed_<benchmark>.yaml"
HINTS: Final[Mapping[str, str]] = {
    "org.fields": "state them in [system] of --system-file; an empty text where one does not"
    " apply.",
    "org.description": "state status in [system] of --system-file, and train with --org and the"
    " name of your organisation.",
    "log.date": DATE_HINT,
    "runs.count": "podium train --runs with the number of the round.",
    "log.place": "train with --org and --system as the submission has them: logs are not changed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSource:
    """Run sets with all that their submission is made of."""

    sets: Sequence[IndexedResult]
    form: TrainingForm
    options: ResultOptions
    stated: Mapping[str, Any]


def submit_training(path: Path, options: ResultOptions, writing: WritingOptions) -> None:
    """Write the submission of the run sets in a results folder."""
    form: TrainingForm = load_form(options.round, TrainingForm)
    found = [each for each in find_requested_results(path) if not each.scenario]
    sets = [each for each in found if form.has_benchmark(each.folder.name)]
    if not sets:
        names = dict.fromkeys(each.folder.name for each in found)
        raise build_no_result_error(path, "run set", options.round, names)
    require_one_result_each(sets)
    source = TrainingSource(
        sets=sets,
        form=form,
        options=options,
        stated=read_stated_tables(options.system_file, (SYSTEM_TABLE,))[SYSTEM_TABLE],
    )
    told = [f"{options.name_system(each)}/{each.folder.name}" for each in sets]
    left = [each for each in found if each not in sets]
    write_submission(
        Submission(
            round=options.round,
            title=", ".join(told),
            root=options.org,
            build=lambda tree: build_training_tree(source, tree / options.org),
            notes=[f"left out, as {options.round} has no {each.folder.name}" for each in left],
            unbuilt=list_training_gaps(source),
            hints=HINTS,
        ),
        writing,
    )


def list_training_gaps(source: TrainingSource) -> list[Shortfall]:
    """List what is missing without a trace in the tree: the profile of the round, the names of
    initialised tensors, and the code.
    """
    profiles = ((each.folder, find_profiles(each)) for each in source.sets)
    found = [build_profile_shortfall(*each) for each in profiles if each[1] != {FULL_PROFILE}]
    if source.form.initialization_logged:
        found += [*iterate_initialization_gaps(source.sets)]
    benchmarks = dict.fromkeys(each.folder.name for each in source.sets)
    organisation = Path(source.options.org)
    folders = [source.form.locate_code(organisation, each) for each in benchmarks]
    return [*found, *list_missing_code(source.options, folders)]


def iterate_initialization_gaps(sets: Sequence[IndexedResult]) -> Iterator[Shortfall]:
    """Yield the closed sets with logs that do not name the tensors that were initialised."""
    for group in sets:
        without = [
            log
            for log in group.training_logs
            if INITIALIZATION_KEY not in read_untrusted_file(log, bytes)
        ]
        if without and group.division == Division.CLOSED:
            yield Shortfall(
                rule="submit.initialization",
                severity=Severity.WARNING,
                texts=(
                    f"no weights_initialization in {len(without)} logs; required: a record for each"
                    f" tensor of the reference ({INITIALIZATION_RULE})",
                ),
                places=(str(group.folder),),
                advice="podium does not log them, and accepted logs lack them, too: ask MLCommons.",
            )


def find_profiles(group: IndexedResult) -> set[str]:
    """Return the profiles that the logs of a set state."""
    profiles = set()
    for log in group.training_logs:
        _, _, rest = read_untrusted_file(log, bytes).partition(PROFILE_KEY)
        profiles.add(rest.partition(b'"')[0].decode(errors="replace"))
    return profiles


def build_training_tree(source: TrainingSource, root: Path) -> None:
    """Write a submission."""
    for group in source.sets:
        system, benchmark = source.options.name_system(group), group.folder.name
        for run, log in enumerate(group.training_logs):
            target = source.form.locate_log(root, system, benchmark, run)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, target)
        description = source.form.locate_description(root, system)
        write_json(description, describe_result_system(group, source.options, source.stated))
        copy_code(source.options, source.form.locate_code(root, benchmark))
