"""The language of the code: names that only the author understands may become fewer, never more."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("suite", "workloads", "harness", "compliance", "submissions", "extras")
CEILINGS: Final = {"shared": 5, "participles": 0, "prepositions": 2, "one word": 366}
"""How many functions break a rule of CONTRIBUTING's section on names. Lower a number when it falls."""
SLACK: Final = 5
"""How far a count may fall before its ceiling has to be lowered."""
NOT_VERB_PHRASES: Final = re.compile(
    r"property|setter|rule\(|click|command|group|overload|abstractmethod"
)
"""Decorators of functions that are named by what they are."""
PARTICIPLES: Final = frozenset(
    [
        "begun",
        "broken",
        "brought",
        "built",
        "chosen",
        "drawn",
        "driven",
        "given",
        "grown",
        "heard",
        "held",
        "hidden",
        "kept",
        "known",
        "laid",
        "led",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "said",
        "seen",
        "sent",
        "shown",
        "sold",
        "spent",
        "stood",
        "struck",
        "swept",
        "taken",
        "thought",
        "told",
        "torn",
        "understood",
        "woken",
        "won",
        "worn",
        "wound",
        "written",
    ]
)
PREPOSITIONS: Final = frozenset(
    [
        "above",
        "after",
        "against",
        "among",
        "around",
        "at",
        "before",
        "behind",
        "below",
        "beneath",
        "beside",
        "between",
        "beyond",
        "by",
        "from",
        "in",
        "of",
        "on",
        "over",
        "to",
        "under",
        "with",
        "within",
        "without",
    ]
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def list_modules() -> Iterator[tuple[Path, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def is_verb_phrase_due(function: Function) -> bool:
    decorators = " ".join(ast.unparse(each) for each in function.decorator_list)
    return not NOT_VERB_PHRASES.search(decorators) and not function.name.startswith("__")


def split_name(name: str) -> list[str]:
    return name.strip("_").split("_")


def is_participle(word: str) -> bool:
    return word in PARTICIPLES or (word.endswith("ed") and len(word) > 4)


def count_names() -> dict[str, list[str]]:
    names: list[str] = []
    places = defaultdict[tuple[str, str], set[Path]](set)
    for path, module in list_modules():
        package = path.relative_to(ROOT).parts[0]
        functions = (node for node in ast.walk(module) if isinstance(node, Function))
        names += [each.name for each in functions if is_verb_phrase_due(each)]
        for each in module.body:
            is_public = isinstance(each, Function) and not each.name.startswith("_")
            if is_public and is_verb_phrase_due(each):
                places[package, each.name].add(path)
    return {
        "shared": [f"{name} in {package}" for (package, name), at in places.items() if len(at) > 1],
        "participles": [name for name in names if is_participle(split_name(name)[0])],
        "prepositions": [name for name in names if split_name(name)[0] in PREPOSITIONS],
        "one word": [name for name in names if len(split_name(name)) == 1],
    }


@pytest.fixture(scope="module")
def counted() -> dict[str, list[str]]:
    return count_names()


@pytest.mark.parametrize("kind", CEILINGS)
def test_names_that_need_their_body_read_become_fewer(
    counted: dict[str, list[str]], kind: str
) -> None:
    """`told` was 27 functions: nobody could search for one of them, or follow a call."""
    found = counted[kind]
    assert len(found) <= CEILINGS[kind], f"{kind}: {sorted(found)}"
    assert len(found) >= CEILINGS[kind] - SLACK, f"{kind}: lower the ceiling to {len(found)}"


def list_documented_arguments(function: Function) -> list[str]:
    _, _, section = (ast.get_docstring(function) or "").partition("\nArgs:\n")
    return re.findall(r"^ {4}(\w+):", section.partition("\n\n")[0], re.MULTILINE)


def test_a_docstring_describes_the_parameters_that_there_are() -> None:
    """One described `seen` and `round_of`, which had long had other names."""
    described = [
        (
            path,
            function.name,
            name,
            {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)},
        )
        for path, module in list_modules()
        for function in ast.walk(module)
        if isinstance(function, Function)
        for name in list_documented_arguments(function)
    ]
    assert described
    assert [place for *place, name, parameters in described if name not in parameters] == []
