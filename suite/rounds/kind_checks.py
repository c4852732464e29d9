"""What may be in the way of a round or a kind of round: one that is not installed, or another
package's that is broken.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import cache
from importlib import import_module
from pkgutil import resolve_name, walk_packages
from typing import Final, ParamSpec, TypeVar

from suite import plugins, registry
from suite.errors import MissingError, UninstalledKindError
from suite.rounds.kind import RoundKind

PLACES_ATTRIBUTES: Final = (
    "rounds",
    "summary_files",
    "run_files",
    "find_part",
    "find_loose_run",
    "is_judgeable_part",
)
"""What the `places` of a kind of round have (compliance.recognition.result_places)."""
P = ParamSpec("P")
R = TypeVar("R")


@cache
def find_round_obstacle(name: str) -> str | None:
    """Return why no result can be judged by a round that has files here; None if nothing is known
    to be in the way. A warning tells of another package's round that cannot be loaded.
    """
    files = [file for file in registry.list_round_files() if file.round == name]
    own = [file for file in files if plugins.is_own_entry_point(file.point)]
    if not files:
        return None
    brought_by = [f.point.name for f in own if f.point.group == registry.ROUND_KIND_GROUP]
    try:
        if brought_by:  # its file need not be parsed to know its kind
            registry.load_kind(brought_by[0])
            return None
        kind = registry.load_round_kind(name)
        load = None if own else registry.load_kind_part(kind, "load")
        if load:
            load(name)
    except UninstalledKindError as error:
        return f"round {name} is not judged here: {error}"
    except Exception as error:  # another package's tables may be anything
        if own:
            raise
        point = files[0].point
        sentence = f"round {name} of {plugins.describe_broken_package(point, error)}"
        plugins.warn_about_package(point, sentence)
        return f"{sentence} cannot be loaded"
    return None


def require_judged_round(name: str) -> None:
    """Raise RequestError if no round has this name, MissingError if no result can be judged by it
    here.
    """
    registry.collect_round_texts(name)
    if obstacle := find_round_obstacle(name):
        raise MissingError(obstacle)


def check_kind(kind: RoundKind) -> None:
    """Raise what is wrong with the record of another package's kind. Its parts and its rules are
    imported, so that a kind that is broken anywhere is left out as a whole.
    """
    for target in asdict(kind).values():
        if isinstance(target, str) and ":" in target:
            resolve_name(target)
    for module in list_package_modules(kind.rules):
        import_module(module)
    if kind.rounds:
        import_module(kind.rounds)
    if kind.places:
        require_attributes(resolve_name(kind.places), PLACES_ATTRIBUTES)


def require_attributes(part: object, names: Iterable[str]) -> None:
    """Raise AttributeError for the first of these attributes that a part does not have."""
    for name in names:
        getattr(part, name)


def list_package_modules(package: str) -> list[str]:
    """List the modules in a package and its subpackages, sorted."""
    found = walk_packages(import_module(package).__path__, f"{package}.")
    return sorted(each.name for each in found if not each.ispkg)


def describe_broken_kind(round_name: str, error: Exception) -> str | None:
    """Describe an error in the code of the kind that another package brings; None if the round's
    kind is podium's.
    """
    name = registry.load_round_kind(round_name).name
    point = registry.map_entry_points(registry.ROUND_KIND_GROUP)[name]
    if plugins.is_own_entry_point(point):
        return None
    return f"kind of round '{name}' of {plugins.describe_broken_package(point, error)}"


def guard_kind_call(kind: RoundKind, call: Callable[P, R]) -> Callable[P, R | None]:
    """Return a function that warns, and gives None, where another package's part of a kind raises
    an error: what recognises paths is called for the paths of all kinds.
    """
    point = registry.map_entry_points(registry.ROUND_KIND_GROUP)[kind.name]
    if plugins.is_own_entry_point(point):
        return call

    def call_guarded(*values: P.args, **named: P.kwargs) -> R | None:
        try:
            return call(*values, **named)
        except Exception as error:  # another package's code may raise anything
            broken = plugins.describe_broken_package(point, error)
            plugins.warn_about_package(point, f"kind of round '{kind.name}' of {broken}")
            return None

    return call_guarded
