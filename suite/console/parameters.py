"""Names that a command takes: shown in its help, and completed by the shell."""

from collections.abc import Callable, Iterable
from typing import Final

import click
from click.shell_completion import CompletionItem

from suite import registry
from suite.loadgen.scenario import Scenario


class NameType(click.ParamType[str]):
    """One of some names that are looked up when they are needed; whoever uses the name refuses one that there is not, with the nearest."""

    name = "name"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self.names = names

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """Show the names in the help of an option."""
        return f"[{'|'.join(self.names())}]"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Offer the names that begin so."""
        return [CompletionItem(name) for name in self.names() if name.startswith(incomplete)]


WORKLOAD: Final = NameType(lambda: registry.points(registry.WORKLOADS))
WORKLOAD_OR_ALL: Final = NameType(lambda: [*registry.points(registry.WORKLOADS), "all"])
ENGINE: Final = NameType(lambda: registry.points(registry.ENGINES))
NETWORK: Final = NameType(lambda: registry.points(registry.NETWORKS))
INPUT: Final = NameType(lambda: registry.points(registry.INPUTS))
FRAMEWORK: Final = NameType(lambda: ("torch", "tensorflow"))
SCENARIO: Final = NameType(lambda: [*(scenario.value for scenario in Scenario), "all"])
ROUND: Final = NameType(lambda: registry.round_names())
