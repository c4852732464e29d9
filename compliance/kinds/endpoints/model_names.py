"""Read what the name of a model says: its version, its size in parameters, and its origin."""

import re
from collections.abc import Set
from typing import Final

DIGIT_SEPARATOR: Final = re.compile(r"(?<=\d)_(?=\d+(?![\d.]*b))")
"""An underscore in the place of a dot, as in `llama3_1-8b`."""
SIZE_PATTERN: Final = re.compile(r"(?<![a-z\d.])\d+(?:\.\d+)?b(?![a-z\d])")
"""All parameters, in billions."""
ACTIVE_SIZE_PATTERN: Final = re.compile(r"(?<![a-z\d])a\d+(?:\.\d+)?b(?![a-z\d])")
"""Parameters that each token uses, in billions."""
VERSION_PATTERN: Final = r"(?<![a-z]){family}[-. ]?v?([a-z]?\d+(?:\.\d+)*)(?![\d.]*b(?![a-z\d]))"
FAMILY_PATTERN: Final = re.compile(r"[a-z]+")
DISTILLED: Final = "distill"
"""Part of the name of a smaller model that was trained with the answers of another one."""
MAX_NAME_CHARACTERS: Final = 200


def is_other_model(benchmark: str, name: str) -> bool:
    """Return whether a model's name, or the last part of its path, contradicts the benchmark's: it
    states another size or version, or that the model is a distilled one. A name that does not state
    them contradicts nothing, and neither does one that states fewer digits of the version, or its
    digits without dots, as `wan22`.
    """
    last = re.split(r"[/\\]", name.strip())[-1]
    own, stated = fold_model_text(benchmark), fold_model_text(last[:MAX_NAME_CHARACTERS])
    if DISTILLED in stated and DISTILLED not in own:
        return True
    if any(
        is_disjoint(pattern.findall(stated), pattern.findall(own))
        for pattern in (SIZE_PATTERN, ACTIVE_SIZE_PATTERN)
    ):
        return True
    known, found = list_versions(own, own), list_versions(own, stated)
    return bool(known and found) and not any(
        version.startswith(each) for each in found for version in known
    )


def fold_model_text(name: str) -> str:
    """Return a name in lower case, with dots in versions and dashes elsewhere."""
    return DIGIT_SEPARATOR.sub(".", name.casefold()).replace("_", "-")


def is_disjoint(stated: list[str], own: list[str]) -> bool:
    """Return whether both state something, and nothing in common."""
    return bool(stated and own) and not set(stated) & set(own)


def list_versions(own: str, text: str) -> Set[str]:
    """List the versions in a text, without dots, that follow the name of a benchmark's family of
    models, with which the benchmark's own name begins.
    """
    family = FAMILY_PATTERN.match(own)
    if family is None:
        return frozenset()
    found = re.findall(VERSION_PATTERN.format(family=family[0]), text)
    return frozenset(each.replace(".", "") for each in found)
