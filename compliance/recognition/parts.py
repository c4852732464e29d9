"""Splits a tree or an organisation whose results are of several rounds: by organisation, and within
one by system or set.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from compliance.recognition.evidence import Witness
from compliance.recognition.path_kind import Kind, Target, recognise
from compliance.recognition.round import WHOLE, homes_of, of_system, told
from compliance.recognition.training_rounds import allows
from compliance.recognition.tree_path import filed_logs, folders

RoundOf = Callable[[Target], str]
"""Returns the round by which a path is judged."""
SERVED: Final = "inference-"
"""Beginning of the names of rounds that LoadGen's seeds tell."""
ASKED: Final = 4
"""Number of a system's LoadGen logs that are read."""


def parts(target: Target, seen: Witness | None, round_of: RoundOf) -> Sequence[Path]:
    """Return the paths to be judged one by one in place of a tree or organisation; none if one
    round holds all of its results.

    Args:
        target: what is to be judged.
        seen: its round as a whole, and by what.
        round_of: gives the round of a part.
    """
    if target.kind not in WHOLE or seen is None:
        return ()
    found = homes_of(target)
    if seen.logs and not (seen.round and allows(seen.round, seen.logs)):
        sets = [each for home in found for each in sets_in(home)]
        return (found if target.kind is Kind.TREE else sets) if differ(sets, round_of) else ()
    if not (seen.round or "").startswith(SERVED):
        return ()
    if target.kind is Kind.TREE and (differ(found, round_of) or any(map(mixed, found))):
        return found
    return systems if (systems := list(folders(found[0] / "results"))) and mixed(found[0]) else ()


def differ(paths: Sequence[Path], round_of: RoundOf) -> bool:
    """Return whether paths are of more than one round."""
    return len({round_of(recognise(path)) for path in paths}) > 1


def sets_in(home: Path) -> list[Path]:
    """Return the benchmarks' folders of an organisation, and the systems that have logs of their
    own or no such folder.
    """
    found = []
    for system in folders(home / "results"):
        below = list(folders(system))
        found += [system] if not below or any(filed_logs(system)) else below
    return found


def mixed(home: Path) -> bool:
    """Return whether LoadGen's seeds tell several rounds in one organisation's systems."""
    witnesses = [told(of_system(system), ASKED) for system in folders(home / "results")]
    return len({each.round for each in witnesses if each and each.sure and each.round}) > 1
