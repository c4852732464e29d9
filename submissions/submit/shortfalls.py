"""What a submission lacks: the judge's findings about its tree, by rule, and what podium cannot put
into it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from compliance.verdict import Finding, Severity

MAX_LISTED_TEXTS: Final = 3
MAX_LISTED_PLACES: Final = 8
SEVERITY_ORDER: Final = (Severity.ERROR, Severity.WARNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """Something that a submission lacks, by the rule that asks for it."""

    rule: str
    severity: Severity
    """An error is missing; a warning may be asked about in the review."""
    texts: tuple[str, ...]
    """What was found and what is required, each once."""
    places: tuple[str, ...]
    """Where, relative to the tree."""
    advice: str


def collect_shortfalls(
    findings: Iterable[Finding], tree: Path, hints: Mapping[str, str]
) -> list[Shortfall]:
    """Group the errors and warnings about a tree by their rule, errors first.

    Args:
        findings: of the judge.
        tree: the folder that was judged.
        hints: rule -> which option of `podium submit` mends it.
    """
    groups: dict[tuple[Severity, str], list[Finding]] = defaultdict(list)
    for each in findings:
        if each.severity in SEVERITY_ORDER:
            groups[each.severity, each.rule].append(each)
    ordered = sorted(groups, key=lambda key: SEVERITY_ORDER.index(key[0]))
    return [build_shortfall(groups[key], tree, hints) for key in ordered]


def build_shortfall(found: Sequence[Finding], tree: Path, hints: Mapping[str, str]) -> Shortfall:
    """Build one shortfall of the findings of a rule."""
    first = found[0]
    texts = dict.fromkeys(f"{each.found}; required: {each.required}" for each in found)
    places = dict.fromkeys(display_tree_path(each.file, tree) for each in found)
    return Shortfall(
        rule=first.rule,
        severity=first.severity,
        texts=tuple(texts),
        places=tuple(places),
        advice=hints.get(first.rule, first.advice),
    )


def display_tree_path(file: str, tree: Path) -> str:
    """Return a file's path below the tree; of one elsewhere its own."""
    path = Path(file)
    if path.is_relative_to(tree):
        return str(path.relative_to(tree))
    return file


def iterate_shortfall_lines(found: Shortfall) -> Iterator[str]:
    """Yield the lines about a shortfall: what, where, and what to do."""
    word = {Severity.ERROR: "missing", Severity.WARNING: "doubtful"}[found.severity]
    yield f"{word} {found.rule}"
    yield from (f"    {each}" for each in shorten_list(found.texts, MAX_LISTED_TEXTS))
    yield f"    in {', '.join(join_places(found.places))}"
    yield f"    -> {found.advice}"


def join_places(places: Sequence[str]) -> list[str]:
    """Join the paths that differ in one name alone, as a shell expands them:
    `results/box/{r1,r4}/point.yaml`, `results/box/{r1,r4}`.
    """
    folders: dict[tuple[Path, str], list[str]] = defaultdict(list)
    for path in map(Path, places):
        folders[path.parent.parent, path.name].append(path.parent.name)
    names: dict[Path, list[str]] = defaultdict(list)
    joined = []
    for (home, name), each in folders.items():
        if len(each) == 1:
            names[home / each[0]].append(name)
        else:
            joined.append(str(home / join_names(each) / name))
    return [*joined, *(str(home / join_names(each)) for home, each in names.items())]


def join_names(names: Sequence[str]) -> str:
    """Join names in braces; one stands alone."""
    if len(names) == 1:
        return names[0]
    return f"{{{','.join(shorten_list(names, MAX_LISTED_PLACES))}}}"


def shorten_list(texts: Sequence[str], most: int) -> list[str]:
    """Return the first texts, and how many more there are."""
    if len(texts) <= most:
        return [*texts]
    return [*texts[:most], f"{len(texts) - most} more"]


def merge_shortfalls(found: Iterable[Shortfall]) -> list[Shortfall]:
    """Join those of one rule, with all texts and places, in the order of the first of each."""
    groups: dict[tuple[str, Severity, str], list[Shortfall]] = defaultdict(list)
    for each in found:
        groups[each.rule, each.severity, each.advice].append(each)
    return [
        replace(
            first,
            texts=tuple(dict.fromkeys(text for each in (first, *others) for text in each.texts)),
            places=tuple(
                dict.fromkeys(place for each in (first, *others) for place in each.places)
            ),
        )
        for first, *others in groups.values()
    ]


def count_missing(found: Iterable[Shortfall]) -> int:
    """Count the rules that a submission breaks."""
    return sum(each.severity is Severity.ERROR for each in found)
