"""Split a tree or an organisation with results of several rounds: by organisation, and within an
organisation by system or set.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from compliance.recognition.evidence import RoundEvidence
from compliance.recognition.path_kind import PathKind, RecognisedPath, recognise_path
from compliance.recognition.round import (
    MULTI_ROUND_KINDS,
    decide_round_by_files,
    iterate_system_logs,
    list_target_organisations,
)
from compliance.recognition.training_rounds import can_belong_to_round
from compliance.recognition.tree_path import list_published_logs, list_subfolders

RoundLookup = Callable[[RecognisedPath], str]
"""Function that returns the round of a path."""
INFERENCE_ROUND_PREFIX: Final = "inference-"
"""Prefix of the names of rounds that LoadGen's seeds indicate."""
MAX_SYSTEM_LOGS: Final = 4
"""Maximum number of a system's LoadGen logs that are read."""


def split_by_round(
    target: RecognisedPath, evidence: RoundEvidence | None, resolve_round_name: RoundLookup
) -> Sequence[Path]:
    """Return the paths to be judged one by one instead of a tree or organisation; none if all of
    its results belong to one round.

    Args:
        target: the tree or organisation.
        evidence: its round as a whole, and what indicates it; None if there is nothing.
        resolve_round_name: returns the round of a part.
    """
    if target.kind not in MULTI_ROUND_KINDS or evidence is None:
        return ()
    organisations = list_target_organisations(target)
    if evidence.logs and not (
        evidence.round and can_belong_to_round(evidence.round, evidence.logs)
    ):
        sets = [each for home in organisations for each in list_training_sets(home)]
        return (
            (organisations if target.kind is PathKind.TREE else sets)
            if has_several_rounds(sets, resolve_round_name)
            else ()
        )
    if not (evidence.round or "").startswith(INFERENCE_ROUND_PREFIX):
        return ()
    if target.kind is PathKind.TREE and (
        has_several_rounds(organisations, resolve_round_name)
        or any(map(has_several_seed_rounds, organisations))
    ):
        return organisations
    return (
        systems
        if (systems := list(list_subfolders(organisations[0] / "results")))
        and has_several_seed_rounds(organisations[0])
        else ()
    )


def has_several_rounds(paths: Sequence[Path], resolve_round_name: RoundLookup) -> bool:
    """Return whether paths belong to more than one round."""
    return len({resolve_round_name(recognise_path(path)) for path in paths}) > 1


def list_training_sets(organisation_folder: Path) -> list[Path]:
    """Return the benchmarks' folders of an organisation, and the systems that have their own logs
    or no such folder.
    """
    training_sets = []
    for system in list_subfolders(organisation_folder / "results"):
        below = list(list_subfolders(system))
        training_sets += [system] if not below or any(list_published_logs(system)) else below
    return training_sets


def has_several_seed_rounds(organisation_folder: Path) -> bool:
    """Return whether LoadGen's seeds indicate several rounds in one organisation's systems."""
    evidence = [
        decide_round_by_files(iterate_system_logs(system), MAX_SYSTEM_LOGS)
        for system in list_subfolders(organisation_folder / "results")
    ]
    return len({each.round for each in evidence if each and each.sure and each.round}) > 1
