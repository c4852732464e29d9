"""What a kind of mutant is."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[T]):
    """One way to break one rule."""

    name: str
    change: Callable[[T], bool]
    """Break it in place; False where that makes no sense in this base."""
    required: str = ""
    """What the rule asks for, in a few words."""
    in_tree: bool = False
    """Only the tree around it tells."""


Maker = Callable[[Callable[[T], bool]], Callable[[T], bool]]


class Kinds(list[Kind[T]]):
    """A list that functions are put into by decorating them."""

    def add(self, required: str, *, in_tree: bool = False) -> Maker[T]:
        """Take a function as a kind, under its own name."""

        def take(change: Callable[[T], bool]) -> Callable[[T], bool]:
            self.put(change.__name__, change, required, in_tree=in_tree)
            return change

        return take

    def put(
        self, name: str, change: Callable[[T], bool], required: str, *, in_tree: bool = False
    ) -> None:
        """Take a kind."""
        assert name not in {kind.name for kind in self}, name
        self.append(Kind(name=name, change=change, required=required, in_tree=in_tree))

    def made(
        self,
        names: Iterable[str],
        make: Callable[[str], Callable[[T], bool]],
        prefix: str,
        required: str,
    ) -> None:
        """Take one kind for each name."""
        for name in names:
            self.put(f"{prefix}_{name}", make(name), f"{required}: {name}")
