"""An engine that calls the network as it is."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from suite.engine import Network, Plan
from suite.rounds import HyperValue
from suite.terms import Precision


class FakeEngine:
    """Takes any callable."""

    name: ClassVar[str] = "fake"
    accepts: ClassVar[frozenset[str]] = frozenset({"fake"})

    def missing(self, device: str, precision: Precision) -> str | None:
        """Lack nothing but INT4."""
        return "has no int4" if precision is Precision.INT4 else None

    def compile(self, network: Network[Any], plan: Plan[Any]) -> "FakeExecutable":
        """Keep the network."""
        return FakeExecutable(network.module)


class FakeExecutable:
    """The network itself."""

    def __init__(self, module: Callable[..., Any]) -> None:
        self._module = module

    def open(self) -> Callable[..., Any]:
        """Give the network."""
        return self._module

    def describe(self) -> Mapping[str, HyperValue]:
        """Say nothing of interest."""
        return {"kind": "fake"}
