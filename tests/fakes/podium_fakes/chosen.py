"""Engines for the fake workload's networks, among which `--engine auto` chooses."""

import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

from podium_fakes.engine import FakeEngine, FakeExecutable
from suite.engine import Network, Plan
from suite.errors import MissingError
from suite.terms import Precision

LINKED_PACKAGE = "podium_fake_kernels"
"""A package that a test puts on the path."""
SLOW_S = 0.002
"""What the slow engine adds to each batch."""


class SlowEngine(FakeEngine):
    """Answers right, after a while."""

    name: ClassVar[str] = "slow"

    def compile(self, network: Network[Any], plan: Plan[Any]) -> FakeExecutable:
        """Delay the network."""
        return FakeExecutable(delay_network(network.module))


class WrongEngine(FakeEngine):
    """Answers at once, and wrong."""

    name: ClassVar[str] = "wrong"

    def compile(self, network: Network[Any], plan: Plan[Any]) -> FakeExecutable:
        """Take another network."""
        return FakeExecutable(answer_wrong)


class BrokenEngine(FakeEngine):
    """Cannot build any network."""

    name: ClassVar[str] = "broken"

    def compile(self, network: Network[Any], plan: Plan[Any]) -> FakeExecutable:
        """Fail as an export does."""
        raise MissingError("engine broken: cannot export this network")


class CrashedEngine(FakeEngine):
    """Its library is there, and cannot be loaded."""

    name: ClassVar[str] = "crashed"

    def compile(self, network: Network[Any], plan: Plan[Any]) -> FakeExecutable:
        """Fail as a shared library does."""
        raise ImportError("libengine.so: cannot open shared object file")


class LinkedEngine(FakeEngine):
    """Imports a package when it builds a network, as the engines of libraries do."""

    name: ClassVar[str] = "linked"

    def compile(self, network: Network[Any], plan: Plan[Any]) -> FakeExecutable:
        """Import it."""
        import_module(LINKED_PACKAGE)
        return super().compile(network, plan)

    def trial(self, device: str, precision: Precision) -> None:
        """Import it."""
        import_module(LINKED_PACKAGE)


class FullExecutable(FakeExecutable):
    """A network for which memory does not suffice."""

    def open(self) -> Callable[..., Any]:
        """Fail as an allocation does."""
        raise MemoryError


class FullEngine(FakeEngine):
    """Builds networks for which memory does not suffice."""

    name: ClassVar[str] = "full"

    def compile(self, network: Network[Any], plan: Plan[Any]) -> FakeExecutable:
        """Keep the network."""
        return FullExecutable(network.module)


class AbsentEngine(FakeEngine):
    """Is not installed here."""

    name: ClassVar[str] = "absent"

    def missing(self, device: str, precision: Precision) -> str | None:
        """Lack its library."""
        return "its library is not installed"


def answer_wrong(sample: int) -> int:
    """Answer with no class that there is."""
    return -1


def delay_network(module: Callable[..., Any]) -> Callable[..., Any]:
    """Return the network that waits first."""

    def answer_late(*inputs: Any) -> Any:
        time.sleep(SLOW_S)
        return module(*inputs)

    return answer_late
