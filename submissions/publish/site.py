"""Builds the files of a site: an index, a page per workload and scenario, a report per bundle, and
the data.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec
from markupsafe import Markup

from compliance.results.curves import ScoredCurve
from submissions.compare.per_unit import FigureRequest
from submissions.curves.point_columns import format_figure
from submissions.publish.boards import ResultBoard, iterate_result_boards
from submissions.publish.cards import SiteCards
from submissions.publish.endpoints import format_points_csv
from submissions.publish.front_figure import MAX_FRONT_PAGE_ROWS, draw_front_figure
from submissions.publish.groups import is_group_letter
from submissions.publish.intervals_figure import draw_intervals_figure
from submissions.publish.matrix import (
    build_result_matrix,
    format_row_machine,
    group_boards_by_workload,
)
from submissions.publish.mlcommons import format_mlcommons_summary
from submissions.publish.rows import (
    REPORTED_KIND,
    SEAL_PREFIX_DIGITS,
    build_site_schema,
    format_row_verdict,
    format_site_csv,
    format_site_json,
    locate_row_page,
)
from submissions.publish.rows import convert_site_row_to_data as in_row
from submissions.published_rows import RECOMPUTED_KIND
from submissions.report import page
from submissions.report.document import (
    Document,
    Part,
    Section,
    convert_document_to_data,
    encode_document_texts,
    encode_invisible_characters,
    parse_document_data,
)
from submissions.report.drawing.card import draw_result_card, draw_site_card
from submissions.report.page import PageLink
from submissions.report.sections.headlines import find_workload_title
from submissions.report.sections.thin_figures import replace_thin_figures
from submissions.report.sections.tradeoff import (
    build_drawn_tradeoffs,
    build_tradeoff_section,
    iterate_result_points,
)
from submissions.result_columns import RESULT_COLUMNS
from submissions.tradeoff.exports import format_tradeoff_csv, format_tradeoff_json
from submissions.tradeoff.figures import Tradeoff
from submissions.tradeoff.points import MeasuredPoint, iterate_curve_points
from suite import __version__
from suite.measurement.metrics import LATENCY_PREFIX
from suite.result import Result

SITE_BUNDLES_FOLDER: Final = "bundles"
SITE_MARKER_FILE: Final = ".podium-site"
"""Marks a folder as made by podium, which may overwrite it."""
SITE_CARD: Final = "card.png"
"""Card of the index and of the tables."""
TRADEOFF_PAGE: Final = "tradeoff.html"
SITE_FORMAT_VERSION: Final = 1
SITE_PACKAGE: Final = "submissions.publish"
FILTER_FIELDS: Final = ("profile", "division", "precision", "accelerators")
"""Result fields that a page can be filtered by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteEntry:
    """One bundle of a site, a submission of curves, or a study."""

    name: str
    path: Path
    report: Document | None = None
    """None if the bundle could not be read at all."""
    rows: tuple[Result, ...] = ()
    problems: tuple[str, ...] = ()
    """Reasons why it is left out."""
    digest: str = ""
    """SHA-256 that names it on the site: in the bundle's seal, or of its files."""
    is_study: bool = False
    points: tuple[MeasuredPoint, ...] = ()
    """A study's points of throughput against latency."""

    @property
    def part(self) -> Part | None:
        """The part of the report about it."""
        return self.report.parts[0] if self.report else None

    @property
    def nonces(self) -> tuple[str, ...]:
        """Nonces of its campaigns."""
        return self.part.nonces if self.part else ()

    @property
    def is_bundle(self) -> bool:
        """Whether it is sealed; else it is a submission of curves, or a study."""
        return bool(self.part and self.part.seal)

    @property
    def curves(self) -> tuple[ScoredCurve, ...]:
        """Its curves of MLPerf Endpoints."""
        return self.part.curves if self.part else ()

    @property
    def public_name(self) -> str:
        """Name of what was published, without the publisher's folders."""
        if self.is_bundle:
            return Path(self.bundle_path).name
        return self.name

    @property
    def bundle_path(self) -> str:
        """Path of its copy in the site."""
        return f"{SITE_BUNDLES_FOLDER}/{self.digest[:SEAL_PREFIX_DIGITS]}.tar.zst"

    @property
    def page(self) -> str:
        """Path of its report in the site."""
        return f"r/{self.digest[:SEAL_PREFIX_DIGITS]}/index.html"

    @property
    def card(self) -> str:
        """Path of its card in the site."""
        return f"r/{self.digest[:SEAL_PREFIX_DIGITS]}/card.png"


def format_table_heading(row: Result) -> str:
    """Name a table by what its rows share."""
    origin = row.round if row.origin.document else f"{row.round}, {row.profile}"
    kind = {
        REPORTED_KIND: f", as reported: {format_row_metric(row)}",
        RECOMPUTED_KIND: ", recomputed from published logs",
    }.get(row.origin.kind, "")
    return f"{origin}{kind}{f', {row.division} division' if row.division else ''}"


def iterate_site_files(
    title: str,
    entries: Sequence[SiteEntry],
    published: Sequence[Result],
    bundles: bool,
    legend: Sequence[str],
    cards: SiteCards,
    per: FigureRequest | None = None,
    trees: Sequence[object] = (),
) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file except the bundles and the pages of `trees`, which the
    index links; equal input gives equal bytes. `per` is what throughput is divided by where it is
    drawn against latency.
    """
    good = [entry for entry in entries if not entry.problems]
    rows = sorted(
        (row for entry in good for row in entry.rows),
        key=lambda row: (row.workload, row.scenario or "", row.origin.id),
    )
    every = (*rows, *published)
    boards = list(iterate_result_boards(every))
    copies = {entry.digest: entry.bundle_path for entry in good if bundles and entry.is_bundle}
    tradeoffs = build_site_tradeoffs(good, per)
    common: dict[str, Any] = {
        "tradeoff": build_site_tradeoff_section(tradeoffs),
        "title": encode_invisible_characters(title),
        "version": __version__,
        "legend": legend,
        "entries": entries,
        "copies": copies,
        "curves": [(entry, curve) for entry in good for curve in entry.curves],
    }
    contents = describe_site_contents(good, len(rows), len(trees))
    titles = dict.fromkeys(find_workload_title(board.workload) for board in boards)
    front = cards.render_png(
        draw_site_card(
            common["title"],
            ", ".join(contents),
            list(map(encode_invisible_characters, titles)),
        )
    )
    common["card"] = cards.locate_card(SITE_CARD, SITE_CARD) if front else ""
    below = cards.locate_card(SITE_CARD, f"../{SITE_CARD}") if front else ""
    if front:
        yield SITE_CARD, front
    yield (
        "index.html",
        render_site_page(
            "index.html.j2",
            {
                "workloads": (summaries := group_boards_by_workload(boards)),
                "matrix": build_result_matrix(summaries),
                "most": MAX_FRONT_PAGE_ROWS,
                "contents": contents,
                "trees": trees,
                "up": "",
            }
            | common,
        ),
    )
    for board in boards:
        yield board.path, render_board_page(board, common | {"card": below})
    if tradeoffs:
        yield TRADEOFF_PAGE, render_site_page("tradeoff.html.j2", common | {"up": ""})
        yield "data/tradeoff.csv", format_tradeoff_csv(tradeoffs).encode()
        yield "data/tradeoff.json", format_tradeoff_json(tradeoffs).encode()
    for entry in good:
        if entry.report and entry.part:
            yield from iterate_entry_files(entry, entry.report, bundles, cards)
    yield from iterate_site_data(title, good, every, bundles)


def render_board_page(board: ResultBoard, common: Mapping[str, Any]) -> bytes:
    """Render the page of one table of results, which lies one folder below the index."""
    filters = list(iterate_board_filters(board))
    return render_site_page(
        "board.html.j2", {**common, "board": board, "filters": filters, "up": "../"}
    )


def describe_site_contents(good: Sequence[SiteEntry], results: int, trees: int) -> list[str]:
    """Describe how much a site has of each kind; a site of nothing has no results."""
    bundles = sum(entry.is_bundle for entry in good)
    curves = sum(len(entry.curves) for entry in good)
    studies = sum(entry.is_study for entry in good)
    studied = "study" if studies == 1 else "studies"
    named = [
        f"{trees} results tree{'s' * (trees != 1)}" if trees else "",
        f"{curves} curve{'s' * (curves != 1)} of MLPerf Endpoints" if curves else "",
        f"{studies} {studied}" if studies else "",
    ]
    if results or not any(named):
        counted = f"{results} result{'s' * (results != 1)}"
        named.insert(1, f"{counted} from {bundles} bundle{'s' * (bundles != 1)}")
    return list(filter(None, named))


def build_site_tradeoffs(entries: Sequence[SiteEntry], per: FigureRequest | None) -> list[Tradeoff]:
    """Build the figures of throughput against latency over all systems and sweeps of a site."""
    points = [
        point
        for entry in entries
        if entry.part
        for point in (
            *entry.points,
            *iterate_result_points(entry.rows, entry.public_name),
            *(each for curve in entry.curves for each in iterate_curve_points(curve)),
        )
    ]
    return build_drawn_tradeoffs(points, per)


def build_site_tradeoff_section(found: Sequence[Tradeoff]) -> Section | None:
    """Draw the figures of throughput against latency; None if there are none."""
    section = build_tradeoff_section(found)
    if section is None:
        return None
    data = encode_document_texts(msgspec.to_builtins(replace_thin_figures(section)))
    return msgspec.convert(data, Section)


def iterate_entry_files(
    entry: SiteEntry, report: Document, bundles: bool, cards: SiteCards
) -> Iterator[tuple[str, bytes]]:
    """Yield the report of one bundle, and its card."""
    document = parse_document_data(replace_bundle_names(convert_document_to_data(report), entry))
    card = cards.render_png(draw_result_card(document.parts[0]))
    if card:
        yield entry.card, card
    address = cards.locate_card(entry.card, Path(entry.card).name) if card else ""
    links = build_site_links(entry, bundles)
    if card:
        links = (*links, PageLink(words="A picture to share", target=Path(entry.card).name))
    yield entry.page, page.render_report_page(document, links, address).encode()


def iterate_site_data(
    title: str, good: Sequence[SiteEntry], every: Sequence[Result], bundles: bool
) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the machine-readable files."""
    yield "data/results.json", format_site_json(every, encode_invisible_characters(title)).encode()
    yield "data/results.csv", format_site_csv(every).encode()
    if curves := [curve for entry in good for curve in entry.curves]:
        yield "data/endpoints.csv", format_points_csv(curves).encode()
    reported = {
        (entry.bundle_path if bundles else entry.page): entry.rows
        for entry in good
        if entry.is_bundle
    }
    yield "data/mlcommons.json", format_mlcommons_summary(dict(sorted(reported.items()))).encode()
    yield "data/results.schema.json", (json.dumps(build_site_schema(), indent=1) + "\n").encode()
    if parquet := encode_site_parquet(every):
        yield "data/results.parquet", parquet
    yield (
        SITE_MARKER_FILE,
        f"{json.dumps({'format': SITE_FORMAT_VERSION, 'version': __version__})}\n".encode(),
    )


def replace_bundle_names(content: Any, entry: SiteEntry) -> Any:
    """Replace the publisher's paths in a report by the site's name for the bundle, so that the
    publisher's folders stay private.
    """
    given, site_name = str(entry.path), entry.public_name
    if isinstance(content, dict):
        return {key: replace_bundle_names(value, entry) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [replace_bundle_names(value, entry) for value in content]
    if not isinstance(content, str):
        return content
    if content in (given, entry.name):
        return site_name
    if content.startswith(f"{given}/"):
        return site_name + content.removeprefix(given)
    return content


def build_site_links(entry: SiteEntry, bundles: bool) -> tuple[PageLink, ...]:
    """Return the links of a report within the site."""
    all_results = PageLink(words="All results", target="../../index.html")
    if not bundles or not entry.is_bundle:
        return (all_results,)
    return all_results, PageLink(words="The bundle", target=f"../../{entry.bundle_path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFilter:
    """One filter of a page: rows with this value are shown while its box is ticked. It is
    implemented in CSS only.
    """

    id: str
    name: str
    field: str


def iterate_board_filters(board: ResultBoard) -> Iterator[BoardFilter]:
    """Yield a filter for each value of a field that has several values on a page."""
    rows = [row for table in board.tables for row in table.rows]
    for field in FILTER_FIELDS:
        values = sorted(
            {getattr(row, field) for row in rows if getattr(row, field) not in (None, "")}
        )
        if len(values) > 1:
            yield from (
                BoardFilter(
                    id=compute_filter_class(field, value),
                    name=encode_invisible_characters(str(value)),
                    field=field,
                )
                for value in values
            )


def compute_filter_class(field: str, value: object) -> str:
    """Return the CSS class of a filter, which consists of letters and digits only."""
    return f"f{hashlib.sha256(f'{field}={value}'.encode()).hexdigest()[:8]}"


def format_filter_classes(row: Result) -> str:
    """Return the filter classes that a row belongs to."""
    return " ".join(
        compute_filter_class(field, getattr(row, field))
        for field in FILTER_FIELDS
        if getattr(row, field) not in (None, "")
    )


def render_site_page(name: str, context: Mapping[str, Any]) -> bytes:
    """Render a template."""
    hidden = (
        f"main:has(#{each.id}:not(:checked)) tr.{each.id}{{display:none}}"
        for each in context.get("filters", ())
    )
    style = "".join([page.read_page_asset("report.css"), read_site_style(), *hidden])
    script = page.read_page_asset("save.js")
    environment = page.build_template_environment(SITE_PACKAGE)
    environment.globals |= {
        "value": format_row_value,
        "between": format_row_interval,
        "machine": format_row_machine,
        "intervals": draw_intervals_figure,
        "best": draw_front_figure,
        "classes": format_filter_classes,
        "metric": format_row_metric,
        "heading": format_table_heading,
        "visible": encode_invisible_characters,
        "figure": format_figure,
        "is_letter": is_group_letter,
        "page_of": locate_row_page,
        "verdict_of": format_row_verdict,
    }
    html = environment.get_template(name).render(
        style=Markup(style),
        script=Markup(script),
        policy=page.build_page_policy(style, script),
        **context,
    )
    return html.encode()


def read_site_style() -> str:
    """Read the site's own styles, which extend the report's."""
    return (files(SITE_PACKAGE) / "templates" / "site.css").read_text("utf-8")


def format_row_value(row: Result) -> str:
    """Format a value."""
    return RESULT_COLUMNS["value"].format_cell(row).replace("minutes", "min")


def format_row_interval(row: Result) -> str:
    """Format an interval; empty if there is none."""
    return RESULT_COLUMNS["interval"].format_cell(row)


def format_row_metric(row: Result) -> str:
    """Format a metric for display."""
    if row.metric.startswith(f"{LATENCY_PREFIX}p"):
        return f"{row.metric.removeprefix(LATENCY_PREFIX)} latency"
    return row.metric.replace("_", " ")


def encode_site_parquet(rows: Sequence[Result]) -> bytes:
    """Format all rows as Parquet; nothing if pyarrow is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        return b""
    stream = pyarrow.BufferOutputStream()
    parquet.write_table(
        pyarrow.Table.from_pylist([in_row(row) for row in rows]), stream, compression="zstd"
    )
    return bytes(stream.getvalue())
