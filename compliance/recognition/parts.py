"""Split a tree or an organisation with results of several rounds: by organisation, and within an
organisation by system or set.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from compliance.recognition.path_kind import PathKind, RecognisedPath, recognise_path
from compliance.recognition.round import (
    MULTI_ROUND_KINDS,
    decide_round_by_files,
    iterate_system_logs,
    list_target_organisations,
    recognise_path_round,
)
from compliance.recognition.round_evidence import RoundEvidence
from compliance.recognition.tree_path import iterate_published_logs, iterate_subfolders
from suite import registry

MAX_SYSTEM_LOGS: Final = 4
"""Maximum number of a system's LoadGen logs that are read."""


def split_by_round(target: RecognisedPath, evidence: RoundEvidence | None) -> Sequence[Path]:
    """Return the paths to be judged one by one instead of a tree or organisation; none if all of
    its results belong to one round. `evidence` is what the content says of it as a whole.
    """
    if target.kind not in MULTI_ROUND_KINDS or evidence is None:
        return ()
    organisations = list_target_organisations(target)
    if evidence.logs and not (evidence.round and evidence.logs.can_belong_to_round(evidence.round)):
        sets = [each for home in organisations for each in list_training_sets(home)]
        if not has_several_rounds(sets):
            return ()
        if target.kind is PathKind.TREE:
            return organisations
        return sets
    if evidence.round is None or not registry.load_round_kind(evidence.round).seed_table:
        return ()
    if target.kind is PathKind.TREE and (
        has_several_rounds(organisations) or any(map(has_several_seed_rounds, organisations))
    ):
        return organisations
    if not organisations or not has_several_seed_rounds(organisations[0]):
        return ()
    return list(iterate_subfolders(organisations[0] / "results"))


def has_several_rounds(paths: Sequence[Path]) -> bool:
    """Return whether the content of paths indicates more than one round."""
    found = (recognise_path_round(recognise_path(path)) for path in paths)
    return len({evidence and evidence.round for evidence in found}) > 1


def list_training_sets(organisation_folder: Path) -> list[Path]:
    """Return the benchmarks' folders of an organisation, and the systems that have their own logs
    or no such folder.
    """
    training_sets = []
    for system in iterate_subfolders(organisation_folder / "results"):
        below = list(iterate_subfolders(system))
        if not below or any(iterate_published_logs(system)):
            training_sets.append(system)
        else:
            training_sets += below
    return training_sets


def has_several_seed_rounds(organisation_folder: Path) -> bool:
    """Return whether LoadGen's seeds indicate several rounds in one organisation's systems."""
    evidence = [
        decide_round_by_files(iterate_system_logs(system), MAX_SYSTEM_LOGS)
        for system in iterate_subfolders(organisation_folder / "results")
    ]
    return len({each.round for each in evidence if each and each.sure and each.round}) > 1
