"""Parameter types: names, which a command's help lists and the shell completes, finite numbers and
paths.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from suite import registry
from suite.files.archives import refuse_archive
from suite.loadgen.scenario import Scenario
from suite.terms import AUTOMATIC_ENGINE


class NameType(click.ParamType[str]):
    """A name from a list that is looked up only when needed; unknown names are rejected where they
    are used, with the nearest match.
    """

    name = "name"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self.names = names

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Show the names in the help of an option."""
        return f"[{'|'.join(self.names())}]"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Offer the names with this prefix."""
        return [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]


class FiniteRange(click.FloatRange):
    """A number in a range; click accepts nan, since every comparison with nan is false."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse nan and infinity."""
        number = super().convert(value, param, ctx)
        if math.isfinite(number):
            return number
        return self.fail(f"{value!r} is not a finite number", param, ctx)


class PathType(click.Path):
    """A path as the user typed it; an empty path, which would mean the current folder, is
    refused. If it is a result's, so is an archive, in which no command looks for one: RequestError.
    """

    def __init__(self, *, result: bool = False) -> None:
        super().__init__(path_type=Path)
        self.result = result

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse an empty path: a shell variable that is not set."""
        if value == "":
            self.fail("the path is empty; use . for the current folder", param, ctx)
        path = super().convert(value, param, ctx)
        if self.result:
            refuse_archive(Path(value))
        return path


SEED_TYPE: Final = click.IntRange(min=0, max=2**63 - 1)
"""What the generators of all frameworks take; the log shows it as a signed number of 64 bits."""
PATH_TYPE: Final = PathType()
RESULT_PATH_TYPE: Final = PathType(result=True)
WORKLOAD_TYPE: Final = NameType(lambda: registry.map_entry_points(registry.WORKLOAD_GROUP))
WORKLOAD_OR_ALL_TYPE: Final = NameType(
    lambda: [*registry.map_entry_points(registry.WORKLOAD_GROUP), "all"]
)
ENGINE_TYPE: Final = NameType(lambda: registry.map_entry_points(registry.ENGINE_GROUP))
ENGINE_OR_AUTO_TYPE: Final = NameType(
    lambda: [AUTOMATIC_ENGINE, *registry.map_entry_points(registry.ENGINE_GROUP)]
)
NETWORK_TYPE: Final = NameType(lambda: registry.map_entry_points(registry.NETWORK_GROUP))
INPUT_TYPE: Final = NameType(lambda: registry.map_entry_points(registry.INPUT_GROUP))
FRAMEWORK_TYPE: Final = NameType(lambda: registry.list_frameworks())
SCENARIO_TYPE: Final = NameType(lambda: [*(scenario.value for scenario in Scenario), "all"])
ROUND_TYPE: Final = NameType(lambda: registry.list_round_names())
