"""A submission to a round of MLPerf Training from podium's own run sets: the logs as mllog wrote
them, the description of each system, and the code.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from compliance.results.indexed_result import IndexedResult
from compliance.results.submission_forms import TrainingForm
from compliance.verdict import Severity
from submissions.result_index import find_requested_results
from submissions.submit.shortfalls import Shortfall
from submissions.submit.tree import (
    Submission,
    WritingOptions,
    copy_given_folder,
    list_other_rounds,
    load_form,
    read_stated_tables,
    refuse_stated_facts,
    write_submission,
)
from suite.errors import RequestError
from suite.files.json_files import write_json
from suite.files.untrusted_files import UnreadableError, read_untrusted_file

SYSTEM_TABLE: Final = "system"
"""Of `--system-file`: the fields of systems/<system>.json."""
OWN_FIELDS: Final = frozenset({"podium", "status"})
"""Of podium's description: its environment, and a status in podium's words."""
FULL_PROFILE: Final = "full"
PROFILE_KEY: Final = b'"key": "podium_profile", "value": "'
CODE_RULE: Final = "submission_rules.adoc, Directory structure"
DESCRIPTION_DECODER: Final = msgspec.json.Decoder(dict[str, Any])
HINTS: Final[Mapping[str, str]] = {
    "org.fields": "state them in [system] of --system-file; an empty text where one does not"
    " apply.",
    "org.description": "state status in [system] of --system-file, and train with --org and the"
    " name of your organisation.",
    "runs.count": "podium train --runs with the number of the round.",
    "log.place": "train with --org and --system as the submission has them: logs are not changed.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOptions:
    """What `podium submit training` is told beside the results."""

    round: str
    org: str
    system: str | None
    system_file: Path | None
    code: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSource:
    """Run sets with all that their submission is made of."""

    sets: Sequence[IndexedResult]
    form: TrainingForm
    options: TrainingOptions
    stated: Mapping[str, Any]

    def name_system(self, group: IndexedResult) -> str:
        """Return the name of a set's system in the tree."""
        return self.options.system or group.system


def submit_training(path: Path, options: TrainingOptions, writing: WritingOptions) -> None:
    """Write the submission of the run sets in a results folder."""
    form: TrainingForm = load_form(options.round, TrainingForm)
    found = [each for each in find_requested_results(path) if not each.scenario]
    sets = [each for each in found if each.folder.name in form.benchmarks]
    if not sets:
        names = dict.fromkeys(each.folder.name for each in found)
        raise RequestError(
            f"{path}: no run set of {options.round}: {', '.join(names) or 'none at all'};"
            f"{list_other_rounds('training', names)}"
        )
    require_one_set_each(sets)
    source = TrainingSource(
        sets=sets,
        form=form,
        options=options,
        stated=read_stated_tables(options.system_file, (SYSTEM_TABLE,))[SYSTEM_TABLE],
    )
    told = [f"{source.name_system(each)}/{each.folder.name}" for each in sets]
    left = [each for each in found if each not in sets]
    write_submission(
        Submission(
            round=options.round,
            title=", ".join(told),
            root=options.org,
            build=lambda tree: build_training_tree(source, tree / options.org),
            notes=[f"left out, as {options.round} has no {each.folder.name}" for each in left],
            unbuilt=list_unbuilt_parts(source),
            hints=HINTS,
        ),
        writing,
    )


def require_one_set_each(sets: Sequence[IndexedResult]) -> None:
    """RequestError for two sets of one system and benchmark, as both divisions may have."""
    seen: dict[tuple[str, str], IndexedResult] = {}
    for each in sets:
        other = seen.setdefault((each.system, each.folder.name), each)
        if other is not each:
            raise RequestError(
                f"{each.folder}: {other.folder} is a set of the same system, too; name one of them"
            )


def list_unbuilt_parts(source: TrainingSource) -> list[Shortfall]:
    """List what is missing without a trace in the tree: the profile of the round, and the code."""
    found = []
    partial = [each for each in source.sets if find_profiles(each) != {FULL_PROFILE}]
    for each in partial:
        profiles = ", ".join(sorted(find_profiles(each))) or "none"
        found.append(
            Shortfall(
                rule="submit.profile",
                severity=Severity.ERROR,
                texts=(f"profile {profiles}; required: {FULL_PROFILE}",),
                places=(str(each.folder),),
                advice="podium train --profile full with the benchmark's data set: other profiles"
                " train another network on other data.",
            )
        )
    if source.options.code is None:
        benchmarks = dict.fromkeys(each.folder.name for each in source.sets)
        places = (source.form.locate_code(Path(source.options.org), each) for each in benchmarks)
        found.append(
            Shortfall(
                rule="submit.code",
                severity=Severity.ERROR,
                texts=(f"no code; required: the implementation ({CODE_RULE})",),
                places=tuple(map(str, places)),
                advice="name the folder of the code with --code.",
            )
        )
    return found


def find_profiles(group: IndexedResult) -> set[str]:
    """Return the profiles that the logs of a set state."""
    profiles = set()
    for log in group.training_logs:
        _, _, rest = log.read_bytes().partition(PROFILE_KEY)
        profiles.add(rest.partition(b'"')[0].decode(errors="replace"))
    return profiles


def build_training_tree(source: TrainingSource, root: Path) -> None:
    """Write a submission."""
    for group in source.sets:
        system, benchmark = source.name_system(group), group.folder.name
        for run, log in enumerate(group.training_logs):
            target = source.form.locate_log(root, system, benchmark, run)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, target)
        description = source.form.locate_description(root, system)
        write_json(description, describe_trained_system(source, group))
        if source.options.code:
            code = source.form.locate_code(root, benchmark) / source.options.code.resolve().name
            copy_given_folder("--code", source.options.code, code)


def describe_trained_system(source: TrainingSource, group: IndexedResult) -> dict[str, Any]:
    """Describe the system of a set: what podium found out, completed or corrected by what the user
    states. Counts are texts, as the official checker joins them.
    """
    try:
        found = read_untrusted_file(group.system_file, DESCRIPTION_DECODER.decode)
    except UnreadableError as error:
        raise RequestError(f"{group.system_file}: {error}") from error
    fixed = {"submitter": source.options.org, "division": group.division}
    refuse_stated_facts(source.stated, fixed, SYSTEM_TABLE)
    named = {"system_name": source.name_system(group)}
    known = {name: value for name, value in found.items() if name not in OWN_FIELDS}
    fields = {**known, **named, **source.stated, **fixed}
    return {
        name: str(value) if isinstance(value, int | float) else value
        for name, value in fields.items()
        if value is not None
    }
