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

from markupsafe import Markup

from submissions.metrics import LATENCY
from submissions.publish.groups import Grouped, grouped, kind_of
from submissions.publish.intervals_figure import intervals
from submissions.publish.mlcommons import as_mlcommons
from submissions.publish.rows import REPORTED, SHORT, Row, as_csv, as_json, schema
from submissions.publish.rows import plain as in_row
from submissions.published_rows import RECOMPUTED
from submissions.report import page
from submissions.report.document import Document, Part, plain, read, visible
from submissions.report.page import Link
from submissions.tables import shown
from suite import __version__, registry
from suite.files.layout import slug
from suite.rounds.compatibility import INFERENCE, TRAINING

BUNDLES: Final = "bundles"
MARKER: Final = ".podium-site"
"""Marks a folder as made by podium, which may overwrite it."""
FORMAT: Final = 1
PACKAGE: Final = "submissions.publish"
FILTERED: Final = ("profile", "division", "precision", "accelerators")
"""Fields of rows by which a page can be filtered."""
WITHOUT_SCENARIO: Final = {TRAINING: "training", INFERENCE: "inference without a scenario"}
"""Names of pages of results without a scenario."""
ORDER: Final = ("full", "quick", "smoke", "published")
"""Order of profiles on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One bundle of a site."""

    name: str
    path: Path
    report: Document | None = None
    """None if it could not be read at all."""
    rows: tuple[Row, ...] = ()
    problems: tuple[str, ...] = ()
    """Why it is left out."""

    @property
    def part(self) -> Part | None:
        """The part of the report about it."""
        return self.report.parts[0] if self.report else None

    @property
    def nonces(self) -> tuple[str, ...]:
        """Nonces of its campaigns."""
        return self.part.nonces if self.part else ()

    @property
    def copied(self) -> str:
        """Path of its copy in the site."""
        return f"{BUNDLES}/{self.part.seal[:SHORT] if self.part else ''}.tar.zst"


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One page: the results of one workload and scenario."""

    workload: str
    half: str
    scenario: str
    tables: tuple[Grouped, ...]

    @property
    def title(self) -> str:
        """Name it for people."""
        row = registry.round().benchmarks.get(self.workload)
        return (
            f"{row.title if row else self.workload}: {self.scenario or WITHOUT_SCENARIO[self.half]}"
        )

    @property
    def count(self) -> int:
        """Number of its rows."""
        return sum(len(table.rows) for table in self.tables)

    @property
    def reported(self) -> int:
        """Number of figures that documents report."""
        return sum(len(table.rows) for table in self.tables if table.rows[0].kind == REPORTED)

    @property
    def path(self) -> str:
        """Path in the site."""
        return f"{part(self.workload)}/{part(self.scenario.casefold() or self.half)}.html"


def heading(row: Row) -> str:
    """Name a table by what its rows share."""
    where = row.round if row.source else f"{row.round}, {row.profile}"
    kind = {
        REPORTED: f", as reported: {metric(row)}",
        RECOMPUTED: ", recomputed from published logs",
    }.get(row.kind, "")
    return f"{where}{kind}{f', {row.division} division' if row.division else ''}"


def part(name: str) -> str:
    """Convert an untrusted name to a path component."""
    return slug(name)


def pages(
    title: str,
    entries: Sequence[Entry],
    published: Sequence[Row],
    bundles: bool,
    legend: Sequence[str],
) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file except the bundles; equal input gives equal bytes."""
    good = [entry for entry in entries if not entry.problems]
    rows = sorted(
        (row for entry in good for row in entry.rows),
        key=lambda row: (row.workload, row.scenario, row.id),
    )
    every = (*rows, *published)
    boards = list(boards_of(every))
    copies = {entry.part.seal: entry.copied for entry in good if bundles and entry.part}
    common = {
        "title": visible(title),
        "version": __version__,
        "legend": legend,
        "entries": entries,
        "copies": copies,
    }
    yield (
        "index.html",
        rendered("index.html.j2", {"boards": boards, "count": len(rows), "up": ""} | common),
    )
    for board in boards:
        yield (
            board.path,
            rendered(
                "board.html.j2",
                {"board": board, "filters": list(filters(board)), "up": "../"} | common,
            ),
        )
    for entry in good:
        if entry.report and entry.part:
            yield (
                f"r/{entry.part.seal[:SHORT]}/index.html",
                page.render(
                    read(renamed(plain(entry.report), entry)), back(entry, bundles)
                ).encode(),
            )
    yield "data/results.json", as_json(every, visible(title)).encode()
    yield "data/results.csv", as_csv(every).encode()
    reported = {
        entry.copied if bundles else f"r/{entry.part.seal[:SHORT]}/index.html": entry.part
        for entry in good
        if entry.part
    }
    yield "data/mlcommons.json", as_mlcommons(dict(sorted(reported.items()))).encode()
    yield "data/results.schema.json", (json.dumps(schema(), indent=1) + "\n").encode()
    if parquet := as_parquet(every):
        yield "data/results.parquet", parquet
    yield MARKER, f"{json.dumps({'format': FORMAT, 'version': __version__})}\n".encode()


def renamed(told: Any, entry: Entry) -> Any:
    """Name a bundle as the site does, wherever its report names it or a file in it: the publisher's
    folders are nobody's business.
    """
    given, own = str(entry.path), Path(entry.copied).name
    if isinstance(told, dict):
        return {key: renamed(value, entry) for key, value in told.items()}
    if isinstance(told, list | tuple):
        return [renamed(value, entry) for value in told]
    if not isinstance(told, str):
        return told
    return (
        own
        if told in (given, entry.name)
        else own + told.removeprefix(given)
        if told.startswith(f"{given}/")
        else told
    )


def back(entry: Entry, bundles: bool) -> tuple[Link, ...]:
    """Return the links of a report within the site."""
    bundle = (Link(words="The bundle", target=f"../../{entry.copied}"),) if bundles else ()
    return (Link(words="All results", target="../../index.html"), *bundle)


def boards_of(rows: Sequence[Row]) -> Iterator[Board]:
    """Yield a board per workload and scenario, its tables by profile, round and division."""
    for workload, half, scenario in dict.fromkeys(
        (row.workload, row.half, row.scenario) for row in rows
    ):
        own = [
            row
            for row in rows
            if (row.workload, row.half, row.scenario) == (workload, half, scenario)
        ]
        kinds = sorted(
            {kind_of(row) for row in own},
            key=lambda kind: (
                ORDER.index(kind[1]) if kind[1] in ORDER else len(ORDER),
                kind[-1],
                kind,
            ),
        )
        yield Board(
            workload=workload,
            half=half,
            scenario=scenario,
            tables=tuple(grouped([row for row in own if kind_of(row) == kind]) for kind in kinds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """One filter of a page: rows with this value are shown while its box is ticked. Implemented in
    CSS only.
    """

    id: str
    name: str
    field: str


def filters(board: Board) -> Iterator[Filter]:
    """Yield a filter for each value of a field that has several values on a page."""
    rows = [row for table in board.tables for row in table.rows]
    for field in FILTERED:
        told = sorted(
            {getattr(row, field) for row in rows if getattr(row, field) not in (None, "")}
        )
        if len(told) > 1:
            yield from (
                Filter(id=choice(field, value), name=visible(str(value)), field=field)
                for value in told
            )


def choice(field: str, value: object) -> str:
    """Return the CSS class of a filter: letters and digits only, whatever the value is."""
    return f"f{hashlib.sha256(f'{field}={value}'.encode()).hexdigest()[:8]}"


def classes(row: Row) -> str:
    """Return the filter classes that a row belongs to."""
    return " ".join(
        choice(field, getattr(row, field))
        for field in FILTERED
        if getattr(row, field) not in (None, "")
    )


def rendered(name: str, told: Mapping[str, Any]) -> bytes:
    """Fill a template in."""
    hidden = (
        f"main:has(#{each.id}:not(:checked)) tr.{each.id}{{display:none}}"
        for each in told.get("filters", ())
    )
    style = "".join([page.asset("report.css"), site_style(), *hidden])
    made = page.environment(PACKAGE)
    made.globals |= {
        "value": value,
        "between": between,
        "machine": machine,
        "intervals": intervals,
        "classes": classes,
        "metric": metric,
        "heading": heading,
        "visible": visible,
    }
    html = made.get_template(name).render(style=Markup(style), policy=policy(style), **told)
    return html.encode()


def site_style() -> str:
    """Read the site's own styles, which extend the report's."""
    return (files(PACKAGE) / "templates" / "site.css").read_text("utf-8")


def policy(style: str) -> str:
    """Allow this style sheet and nothing else: the site's own pages have no scripts."""
    return (
        f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src '{page.digest(style)}'"
    )


def value(row: Row) -> str:
    """Print a value."""
    return shown(row.value, row.unit).replace("minutes", "min")


def between(row: Row) -> str:
    """Print an interval; nothing if there is none."""
    if row.low is None or row.high is None:
        return ""
    low, high = (shown(each, row.unit).partition(" ")[0] for each in (row.low, row.high))
    return f"{low} to {high}"


def machine(row: Row) -> str:
    """Format the number and kind of accelerators or processors."""
    if not row.accelerators:
        return "CPU" if row.accelerators == 0 else row.accelerator or "-"
    return (
        f"{row.accelerators} \u00d7 {row.accelerator}" if row.accelerator else str(row.accelerators)
    )


def metric(row: Row) -> str:
    """Format a metric for people."""
    return (
        f"{row.metric.removeprefix(LATENCY)} latency"
        if row.metric.startswith(f"{LATENCY}p")
        else row.metric.replace("_", " ")
    )


def as_parquet(rows: Sequence[Row]) -> bytes:
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
