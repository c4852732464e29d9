"""Whether an object has the attributes, methods and parameters of its contract: a Protocol, a base
class or a record.
"""

import difflib
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from types import FunctionType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

UNKNOWN_PART: Final = re.compile(
    r"(?P<record>\w+)\.__init__\(\) got an unexpected keyword argument '(?P<part>\w+)'"
)
NOTHING: Final = object()
"""What an object has where it lacks an attribute."""
NOTHING_FOUND: Final = "nothing"
FOREIGN_BASES: Final = (object, Generic, Protocol)
COMPUTED: Final = (property, cached_property)
"""Attributes whose values are not known before they are asked for."""


@dataclass(frozen=True, slots=True)
class PartFunction:
    """Note at a record's field that names a function as `module:attribute`: what it is called
    with, and whether it imports no framework, so that it can be looked at anywhere.
    """

    parameters: tuple[str, ...]
    is_light: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    """A part of an object that is not as its contract has it."""

    part: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.part}: expected {self.expected}, found {self.found}"


def find_misfits(
    offered: object, contract: type[Any], optional: type[Any] | None = None
) -> Iterator[Misfit]:
    """Find what an object lacks of its contract, or has as something else. What is in `optional`
    may be absent.
    """
    if not is_protocol(contract) and not isinstance(offered, contract):
        yield Misfit(
            part="object", expected=add_article(contract.__name__), found=name_type(offered)
        )
        return
    if is_dataclass(contract):
        yield from find_field_misfits(offered)
    elif is_protocol(contract) or inspect.isabstract(contract):
        yield from find_member_misfits(offered, contract)
    if optional:
        for each in find_member_misfits(offered, optional):
            if each.found != NOTHING_FOUND:
                yield each


def find_name_misfits(offered: object, name: str) -> Iterator[Misfit]:
    """Find a name that is not the one under which the object is registered."""
    found = getattr(offered, "name", name)
    if isinstance(found, str) and found != name:
        yield Misfit(part="name", expected=f"'{name}', as the entry point", found=f"'{found}'")


def find_unknown_parts(error: BaseException | None, record_class: type[Any]) -> Iterator[Misfit]:
    """Find the part that a record's class does not have, by the error of a record made with it."""
    told = UNKNOWN_PART.match(str(error))
    if not told or told["record"] != record_class.__name__ or not is_dataclass(record_class):
        return
    known = [each.name for each in fields(record_class)]
    expected = f"a part of {record_class.__name__}"
    if close := difflib.get_close_matches(told["part"], known, n=1, cutoff=0.5):
        expected = f"{close[0]}, or another part of {record_class.__name__}"
    yield Misfit(part=told["part"], expected=expected, found="an unknown part")


def find_member_misfits(offered: object, contract: type[Any]) -> Iterator[Misfit]:
    hints = get_type_hints(contract)
    for name, member in sorted(collect_members(contract).items()):
        found = find_static_attribute(offered, name)
        if isinstance(member, FunctionType):
            yield from find_method_misfits(offered, name, member, found)
            continue
        hint = hints.get(name, Any)
        if isinstance(member, property):
            hint = get_type_hints(member.fget).get("return", Any)
        if found is NOTHING:
            yield Misfit(part=name, expected=describe_hint(hint), found=NOTHING_FOUND)
        elif isinstance(found, FunctionType | classmethod | staticmethod) and not is_of_type(
            getattr(offered, name), hint
        ):
            yield Misfit(part=name, expected=describe_hint(hint), found="a method")
        elif not isinstance(found, COMPUTED):
            yield from find_value_misfits(name, getattr(offered, name), hint)


def collect_members(contract: type[Any]) -> dict[str, object]:
    """Return the public members of a contract by name: functions, properties, and None for an
    attribute without a value.
    """
    members: dict[str, object] = {}
    for base in reversed(contract.__mro__):
        if base in FOREIGN_BASES:
            continue
        for name in (*vars(base).get("__annotations__", ()), *vars(base)):
            if name == "__call__" or not name.startswith("_"):
                members[name] = vars(base).get(name)
    return members


def find_static_attribute(offered: object, name: str) -> object:
    """Return an attribute without computing it; NOTHING if there is none."""
    found = inspect.getattr_static(offered, name, NOTHING)
    if found is NOTHING or inspect.ismemberdescriptor(found):
        return getattr(offered, name, NOTHING)
    return found


def find_method_misfits(
    offered: object, name: str, required: FunctionType, found: object
) -> Iterator[Misfit]:
    parameters = list(inspect.signature(required).parameters.values())[1:]
    expected = f"a method that takes {describe_parameters(parameters)}"
    if found is NOTHING:
        yield Misfit(part=name, expected=expected, found=NOTHING_FOUND)
        return
    if isinstance(found, COMPUTED):
        yield Misfit(part=name, expected=expected, found="an attribute")
        return
    function = offered if name == "__call__" else getattr(offered, name)
    if not callable(function):
        yield Misfit(part=name, expected=expected, found="an attribute")
    elif (taken := find_wrong_parameters(function, parameters)) is not None:
        yield Misfit(part=name, expected=expected, found=f"a method that takes {taken}")


def find_wrong_parameters(
    function: Callable[..., Any], required: Collection[inspect.Parameter]
) -> str | None:
    """Return the parameters of a function that cannot be called with those of its contract; None
    if it can, or does not tell. Parameters with a default are passed by name.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a builtin
        return None
    by_name = {
        each.name: None
        for each in required
        if each.default is not each.empty or each.kind is each.KEYWORD_ONLY
    }
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    places = [each for each in required if each.name not in by_name and each.kind not in variadic]
    try:
        signature.bind(*places, **by_name)
    except TypeError:
        return describe_parameters(signature.parameters.values())
    return None


def find_value_misfits(name: str, value: object, hint: Any) -> Iterator[Misfit]:
    if not is_of_type(value, hint):
        yield Misfit(part=name, expected=describe_hint(hint), found=f"{value!r:.100}")


def find_field_misfits(record: Any) -> Iterator[Misfit]:
    """Find the fields of a record that hold something else than their types say."""
    hints = get_type_hints(type(record))
    for each in fields(record):
        yield from find_value_misfits(each.name, getattr(record, each.name), hints[each.name])


def list_part_functions(record_class: type[Any]) -> Mapping[str, PartFunction]:
    """List the parts of a record's class that name functions, with what these take."""
    found = {}
    for name, hint in get_type_hints(record_class, include_extras=True).items():
        for each in getattr(hint, "__metadata__", ()):
            if isinstance(each, PartFunction):
                found[name] = each
    return found


def find_part_misfits(record: Any, part: str, function: object) -> Iterator[Misfit]:
    """Find that a function, loaded as a part of a record, cannot be called as the record's class
    says.
    """
    note = list_part_functions(type(record)).get(part)
    if note is None:
        return
    expected = f"a function that takes ({', '.join(note.parameters)})"
    if not callable(function):
        yield Misfit(part=part, expected=expected, found=name_type(function))
        return
    required = [
        inspect.Parameter(each, inspect.Parameter.POSITIONAL_ONLY) for each in note.parameters
    ]
    if (taken := find_wrong_parameters(function, required)) is not None:
        yield Misfit(part=part, expected=expected, found=f"a function that takes {taken}")


def is_of_type(value: object, hint: Any) -> bool:
    """Return whether a value is of a type; a type that cannot be looked into counts as right."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (ClassVar, Final, Annotated):
        return not arguments or is_of_type(value, arguments[0])
    if origin in (Union, UnionType):
        return any(is_of_type(value, each) for each in arguments)
    if hint is None or hint is NoneType:
        return value is None
    kind = origin or hint
    if kind is Callable or origin is Callable:
        return callable(value)
    if not isinstance(kind, type) or is_protocol(kind):
        return True
    if isinstance(value, str) and kind is not str and issubclass(str, kind):
        return False  # a text is a sequence of texts, and never meant as one
    return isinstance(value, kind) and are_elements_of_type(value, arguments)


def is_protocol(kind: type[Any]) -> bool:
    """Return whether a class says what objects have, and not what they are."""
    return bool(getattr(kind, "_is_protocol", False))


def are_elements_of_type(value: object, arguments: tuple[Any, ...]) -> bool:
    """Return whether keys, values or elements are of the types that a collection's type names."""
    if isinstance(value, Mapping) and len(arguments) == 2:
        key, content = arguments
        return all(is_of_type(k, key) and is_of_type(v, content) for k, v in value.items())
    named = [each for each in arguments if each is not Ellipsis]
    if isinstance(value, frozenset | set | tuple | list) and len(named) == 1:
        return all(is_of_type(each, named[0]) for each in value)
    return True


def describe_hint(hint: Any) -> str:
    """Return a type as code writes it, without the module's name."""
    if get_origin(hint) in (ClassVar, Final, Annotated):
        return describe_hint(get_args(hint)[0])
    if hint is Any or isinstance(hint, TypeVar):
        return "an attribute"
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "").replace("collections.abc.", "")


def describe_parameters(parameters: Collection[inspect.Parameter]) -> str:
    """Return parameters as code writes them, without types and the mark of positional ones."""
    shown = []
    for each in parameters:
        kind = each.kind
        if kind is each.POSITIONAL_ONLY:
            kind = each.POSITIONAL_OR_KEYWORD
        shown.append(each.replace(annotation=each.empty, kind=kind))
    return str(inspect.Signature(shown))


def name_type(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, FunctionType):
        return f"the function {value.__name__}"
    return add_article(type(value).__name__)


def add_article(name: str) -> str:
    if name[0].upper() in "AEIOU":
        return f"an {name}"
    return f"a {name}"
