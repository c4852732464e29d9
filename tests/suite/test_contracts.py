"""What another package offers is held against its contract: which part does not fit, and how."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, Protocol

import pytest

from suite.contracts import PartFunction, find_misfits, find_part_misfits


class Meter(Protocol):
    """A contract with an attribute, a property and two methods."""

    names: ClassVar[frozenset[str]]

    @property
    def most(self) -> int | None:
        """Return a number."""

    def read(self, channel: str, first: int = 0) -> int:
        """Read."""

    def __call__(self, value: int) -> int:
        """Convert."""


class Whole:
    """What fits."""

    names = frozenset({"a"})
    most = 3

    def read(self, channel: str, first: int = 0, more: int = 1) -> int:
        return first

    def __call__(self, *values: int) -> int:
        return 0


def change(**attributes: object) -> object:
    return type("Changed", (Whole,), attributes)()


def test_what_fits_has_no_misfits() -> None:
    """More parameters with defaults, other names, and values that are computed are the package's
    own affair.
    """
    assert list(find_misfits(Whole(), Meter)) == []
    computed = cached_property(lambda self: 1 // 0)
    computed.__set_name__(Whole, "most")
    for each in (
        change(most=None),
        change(most=property(lambda self: 1 // 0)),
        change(most=computed),
        change(read=staticmethod(lambda name, first=0: 0)),
        change(read=classmethod(lambda cls, name, **more: 0)),
    ):
        assert list(find_misfits(each, Meter)) == []


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"names": {"a"}}, "names: expected frozenset[str], found {'a'}"),
        ({"names": frozenset({1})}, "names: expected frozenset[str], found frozenset({1})"),
        ({"names": lambda self: 1}, "names: expected frozenset[str], found a method"),
        ({"most": "3"}, "most: expected int | None, found '3'"),
        ({"most": lambda self: 3}, "most: expected int | None, found a method"),
        (
            {"read": 3},
            "read: expected a method that takes (channel, first=0), found an attribute",
        ),
        (
            {"read": property(lambda self: 1 // 0)},
            "read: expected a method that takes (channel, first=0), found an attribute",
        ),
        (
            {"read": lambda self, channel: 0},
            "read: expected a method that takes (channel, first=0), found a method that takes"
            " (channel)",
        ),
        (
            {"read": lambda self, channel, begin=0: 0},
            "read: expected a method that takes (channel, first=0), found a method that takes"
            " (channel, begin=0)",
        ),
        (
            {"read": lambda self, channel, unit, first=0: 0},
            "read: expected a method that takes (channel, first=0), found a method that takes"
            " (channel, unit, first=0)",
        ),
        (
            {"__call__": lambda self: 0},
            "__call__: expected a method that takes (value), found a method that takes ()",
        ),
    ],
)
def test_a_part_that_does_not_fit_is_told(attributes: Mapping[str, object], told: str) -> None:
    """Each of them ended in a traceback in the midst of a run, or in a wrong value."""
    assert [str(each) for each in find_misfits(change(**attributes), Meter)] == [told]


def test_what_is_absent_is_told_unless_it_may_be() -> None:
    lacking = [str(each) for each in find_misfits(object(), Meter)]
    assert lacking == [
        "__call__: expected a method that takes (value), found nothing",
        "most: expected int | None, found nothing",
        "names: expected frozenset[str], found nothing",
        "read: expected a method that takes (channel, first=0), found nothing",
    ] or lacking[0].startswith("__call__")  # every object of `type` can be called
    optional = type("Optional", (), {"most": "3"})()
    assert [each.part for each in find_misfits(Whole(), Meter, Meter)] == []
    assert [each.part for each in find_misfits(optional, Protocol, Meter)] == ["most"]


@dataclass(frozen=True)
class Declared:
    """A record that names functions."""

    name: str
    score: Annotated[str | None, PartFunction(("answers", "truth"))] = None
    served_by: Mapping[str, tuple[str, ...]] | None = None


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"name": 3}, "name: expected str, found 3"),
        ({"score": len}, "score: expected str | None, found <built-in function len>"),
        (
            {"served_by": {"torch": "module"}},
            "served_by: expected Mapping[str, tuple[str, ...]] | None, found {'torch': 'module'}",
        ),
    ],
)
def test_a_field_of_another_type_is_told(values: Mapping[str, Any], told: str) -> None:
    assert [str(each) for each in find_misfits(Declared(**{"name": "a", **values}), Declared)] == [
        told
    ]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda answers, truth: {}, []),
        (lambda *answers: {}, []),
        (max, []),
        (
            lambda answers: {},
            [
                "score: expected a function that takes (answers, truth), found a function that takes"
                " (answers)"
            ],
        ),
        ("text", ["score: expected a function that takes (answers, truth), found a str"]),
    ],
)
def test_a_function_that_a_record_names_takes_what_it_is_given(
    function: Callable[..., Any], told: list[str]
) -> None:
    misfits = find_part_misfits(Declared(name="a"), "score", function)
    assert [str(each) for each in misfits] == told
