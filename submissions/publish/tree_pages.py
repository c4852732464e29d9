"""The pages and data of the results trees on a site: a page per tree, one per organisation, and all
of it as JSON and CSV.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from compliance.verdict import Acceptance, Finding, Severity
from submissions.cells import format_metric_value
from submissions.publish.site import render_site_page
from submissions.publish.trees import (
    TREE_TABLE,
    SiteTree,
    TreeOrganisation,
    TreeResult,
    describe_tree_convergence,
    format_tree_verdict,
    rank_tree_result,
)
from submissions.report.document import encode_invisible_characters
from submissions.report.sections.findings import SEVERITY_TITLES
from submissions.score.mlcommons_table import format_mlcommons_table
from suite import __version__
from suite.columns import Column, Table, build_part_column
from suite.files.layout import convert_to_slug, fold_name
from suite.human_numbers import format_plain_number, format_whole_digits
from suite.measurement.metrics import MINUTES_UNIT

TREES_FOLDER: Final = "trees"
MAX_RULE_PLACES: Final = 50
"""Places of one rule that a page lists; the data have more."""
MAX_TREE_FINDINGS: Final = 5000
"""Findings of one organisation in the data; the rest are counted."""
MIN_DEVIATION: Final = 5e-6
"""A smaller difference from the published value is one of rounding: MLCommons' tables have six
digits, or whole tokens per second.
"""
ACCURACY_DIGITS: Final = 6
"""Digits of an accuracy, as MLCommons' logs have them."""
WHOLE_PERCENT: Final = 100
"""From here on, two digits would need an exponent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """The findings of one rule about an organisation."""

    rule: str
    kind: str
    """Errors, warnings, notes, or that they are accepted."""
    source: str
    advices: tuple[str, ...]
    accepted: Acceptance | None
    places: tuple[Finding, ...]
    more: int
    """Places that are not listed."""

    @property
    def count(self) -> int:
        """The number of findings."""
        return len(self.places) + self.more


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeTable:
    """The results of one benchmark and scenario in one round and division, best valid first."""

    title: str
    results: tuple[TreeResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrganisationPage:
    """An organisation with the path of its page."""

    organisation: TreeOrganisation
    file: str
    """Name of its page in the folder of its tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePage:
    """A tree with the paths of its pages."""

    tree: SiteTree
    folder: str
    """Below the site."""
    organisations: tuple[OrganisationPage, ...]

    @property
    def path(self) -> str:
        """Path of the tree's own page."""
        return f"{self.folder}/index.html"

    def find_organisation_file(self, result: TreeResult) -> str:
        """Return the page of a result's organisation."""
        return next(
            each.file
            for each in self.organisations
            if any(own is result for own in each.organisation.results)
        )


def plan_tree_pages(trees: Iterable[SiteTree]) -> list[TreePage]:
    """Give each tree and each organisation a path, which is unique by its number."""
    return [
        TreePage(
            tree=tree,
            folder=f"{TREES_FOLDER}/{number}-{convert_to_slug(tree.name)}",
            organisations=tuple(
                OrganisationPage(
                    organisation=each, file=f"{place}-{convert_to_slug(each.name)}.html"
                )
                for place, each in enumerate(tree.organisations, 1)
            ),
        )
        for number, tree in enumerate(trees, 1)
    ]


def iterate_tree_files(
    title: str, pages: Sequence[TreePage], legend: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each page and data file about trees; nothing without trees."""
    if not pages:
        return
    common = {
        "title": encode_invisible_characters(title),
        "version": __version__,
        "legend": legend,
        "up": "../../",
        "card": "",  # of a tree no picture is drawn
        "tradeoff": None,
        "format_result": format_tree_value,
        "format_deviation": format_deviation,
        "format_number": format_accuracy,
        "format_verdicts": format_verdict_counts,
        "format_machine": format_tree_machine,
        "verdict_of": format_tree_verdict,
        "convergence_of": describe_tree_convergence,
    }
    for page in pages:
        yield (
            page.path,
            render_site_page(
                "tree.html.j2",
                {
                    "page": page,
                    "tables": list(group_tree_results(page.tree.results)),
                    "objections": group_objections(page.tree.findings),
                }
                | common,
            ),
        )
        for each in page.organisations:
            yield (
                f"{page.folder}/{each.file}",
                render_site_page(
                    "organisation.html.j2",
                    {
                        "page": page,
                        "org": each.organisation,
                        "objections": group_objections(each.organisation.findings),
                    }
                    | common,
                ),
            )
        yield from iterate_summary_files(page)
    trees = [page.tree for page in pages]
    yield "data/trees.json", format_trees_json(trees).encode()
    yield "data/trees.csv", format_trees_csv(trees).encode()


def iterate_summary_files(page: TreePage) -> Iterator[tuple[str, bytes]]:
    """Yield a tree's scores in the columns of MLCommons' summaries, one file for each half."""
    for name, chosen in (("served", True), ("training", False)):
        results = [each for each in page.tree.scored if bool(each.scenario) is chosen]
        if results:
            yield f"{page.folder}/{name}.csv", format_mlcommons_table(results).encode()


def group_tree_results(results: Iterable[TreeResult]) -> Iterator[TreeTable]:
    """Yield a table per benchmark and scenario, round and division, best valid value first."""
    tables: dict[tuple[str, ...], list[TreeResult]] = {}
    for each in results:
        place = each.result.place
        key = (fold_name(place.benchmark), place.scenario or "", place.round, place.division)
        tables.setdefault(key, []).append(each)
    for _, rows in sorted(tables.items()):
        first = rows[0].result.place
        where = [first.round, f"{first.division} division" if first.division else ""]
        title = f"{first.benchmark}, {first.scenario or 'training'}"
        yield TreeTable(
            title=f"{title} ({', '.join(filter(None, where))})" if any(where) else title,
            results=tuple(sorted(rows, key=rank_tree_result)),
        )


def name_objection_kind(severity: Severity, accepted: Acceptance | None) -> str:
    if accepted:
        return f"Accepted {SEVERITY_TITLES[severity].lower()}"
    return SEVERITY_TITLES[severity]


def group_objections(findings: Iterable[Finding]) -> list[Objection]:
    """Group findings by rule: errors, warnings, notes, then what waivers accept."""
    groups: dict[tuple[Acceptance | None, Severity, str], list[Finding]] = {}
    for each in findings:
        groups.setdefault((each.accepted, each.severity, each.rule), []).append(each)
    order = list(Severity)
    return [
        Objection(
            rule=rule,
            kind=name_objection_kind(severity, accepted),
            source=alike[0].source,
            advices=tuple(dict.fromkeys(each.advice for each in alike if each.advice)),
            accepted=accepted,
            places=tuple(alike[:MAX_RULE_PLACES]),
            more=len(alike[MAX_RULE_PLACES:]),
        )
        for (accepted, severity, rule), alike in sorted(
            groups.items(), key=lambda item: (bool(item[0][0]), order.index(item[0][1]))
        )
    ]


def format_tree_value(value: float | None, row: TreeResult) -> str:
    """Format a value of a result."""
    return format_metric_value(value, row.result.unit).replace(MINUTES_UNIT, "min")


def format_deviation(result: TreeResult) -> str:
    """Format how far a value is from the published one; empty if none is known."""
    if result.deviation is None:
        return ""
    if abs(result.deviation) <= MIN_DEVIATION:
        return "equal"
    percent = 100 * result.deviation
    if abs(percent) >= WHOLE_PERCENT:
        return f"{percent:+,.0f} %"
    sign = "-" if percent < 0 else "+"
    return f"{sign}{format_plain_number(abs(percent), 2)} %"


def format_verdict_counts(results: Iterable[TreeResult]) -> str:
    """Format how many results have each verdict."""
    counts = Counter(
        f"{format_tree_verdict(each).casefold()}{' without a score' if each.problem else ''}"
        for each in results
    )
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items())


def format_accuracy(score: float) -> str:
    """Format a score with six digits, and all digits of a count."""
    return format_whole_digits(score, ACCURACY_DIGITS)


def format_tree_machine(row: TreeResult) -> str:
    """Format the accelerators of a result."""
    machine = row.result.machine
    if machine.accelerators is None:
        return machine.accelerator or "-"
    if not machine.accelerators:
        return "no accelerator"
    return f"{machine.accelerators} \u00d7 {machine.accelerator or ''}".rstrip(" \u00d7")


def format_trees_json(trees: Iterable[SiteTree]) -> str:
    """Format all trees as JSON, with all findings."""
    return (
        json.dumps(
            {"trees": [convert_tree_to_data(tree) for tree in trees]},
            indent=1,
            ensure_ascii=False,
            allow_nan=False,
        )
        + "\n"
    )


def convert_tree_to_data(tree: SiteTree) -> dict[str, Any]:
    """Convert a tree to plain data."""
    return {
        "name": encode_invisible_characters(tree.name),
        "round": tree.round,
        "verdict": tree.verdict,
        "organisations": [convert_organisation_to_data(each) for each in tree.organisations],
        "findings": convert_findings_to_data(tree.findings),
    }


def convert_organisation_to_data(found: TreeOrganisation) -> dict[str, Any]:
    """Convert an organisation's part of a tree to plain data."""
    named = {
        "name": found.name,
        "division": found.division,
        "folder": found.folder,
        "verdict": found.verdict,
        "systems": list(map(asdict, found.systems)),
        "results": TREE_TABLE.list_plain_rows(found.results),
    }
    return {key: encode_texts(value) for key, value in named.items()} | {
        "findings": convert_findings_to_data(found.findings),
        "findings_left_out": len(found.findings[MAX_TREE_FINDINGS:]),
    }


def convert_findings_to_data(findings: Sequence[Finding]) -> list[Any]:
    """Convert findings to plain data."""
    return [encode_texts(asdict(each)) for each in findings[:MAX_TREE_FINDINGS]]


def encode_texts(content: Any) -> Any:
    """Escape what a reader would not see in the texts of plain data."""
    if isinstance(content, Mapping):
        return {key: encode_texts(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [encode_texts(value) for value in content]
    if isinstance(content, str):
        return encode_invisible_characters(content)
    return content


class ListedTreeResult(NamedTuple):
    """A result with the name of its tree."""

    tree: str
    result: TreeResult


def build_listed_column(column: Column[TreeResult]) -> Column[ListedTreeResult]:
    """Return a column of a tree's results for those of several trees."""
    return build_part_column(column, lambda row: row.result)


LISTED_TABLE: Final[Table[ListedTreeResult]] = Table(
    columns=(
        Column("tree", lambda row: row.tree),
        *map(build_listed_column, TREE_TABLE.columns),
    )
)


def format_trees_csv(trees: Iterable[SiteTree]) -> str:
    """Format the results of all trees as CSV: runs and scores are separated by spaces, a run that
    missed its target is a dash.
    """
    rows = [ListedTreeResult(tree.name, each) for tree in trees for each in tree.results]
    return LISTED_TABLE.format_csv_text(rows, encode_invisible_characters)
