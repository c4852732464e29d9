"""Writes which columns and keys the commands and `podium.load` give results, and in which order, to
the file that a test holds them against: programs read them by these names.

Usage: python tests/shared/columns_snapshot.py
"""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import click
from click.testing import CliRunner

import podium
from extras.cost.cli import cost
from podium.results import Results
from submissions.commands.compare import compare
from submissions.commands.publish import publish
from submissions.commands.published import published
from submissions.commands.score import score
from submissions.pack.bundle import pack_results

ROOT: Final = Path(__file__).parents[2]
RECORDED: Final = ROOT / "tests" / "submissions" / "documented_columns.json"
BASE: Final = ROOT / "tests" / "examples" / "base"
SCORED: Final = ("tree", "generated", "powered", "trained-v5.1-set", "endpoints-entry")
"""Results with tokens, power, a convergence point, and of the Endpoints client."""
COMPARED: Final = (("tree", "full"), ("filed-closed", "filed-later"), ("generated", "prompted"))
PRICED: Final = ("offline", "generated", "powered-training", "study")
PRICES: Final = """
currency = "USD"
date = "2026-11-01"
[[system]]
match = "*"
hourly = { value = 36.0, low = 18.0, high = 72.0, source = "quote" }
"""


def print_command(command: click.Command, *words: object) -> str:
    """Return what a command prints; whether it objects to a result is another test's."""
    return CliRunner().invoke(command, [*map(str, words)]).stdout


def read_header(text: str) -> list[str]:
    """Return the columns of a CSV text."""
    return next(csv.reader(io.StringIO(text)))


def list_keys(value: Any) -> Any:
    """Replace the values of JSON by their keys, of all items of a list together, in their order."""
    if isinstance(value, dict):
        return {key: list_keys(each) for key, each in value.items()}
    if isinstance(value, list):
        found: dict[str, Any] = {}
        for each in value:
            keys = list_keys(each)
            for key, below in (keys if isinstance(keys, dict) else {}).items():
                found[key] = found.get(key) or below
        return found
    return ""


def name_order(keys: Any, prefix: str = "") -> Iterator[str]:
    """Yield the keys, each after those that it is below."""
    for key, below in keys.items() if isinstance(keys, dict) else ():
        yield f"{prefix}{key}"
        yield from name_order(below, f"{prefix}{key}.")


def list_json_names(text: str) -> list[str]:
    """List the keys of a JSON text in their order."""
    return list(name_order(list_keys(json.loads(text))))


def list_heads(text: str, first: str) -> list[str]:
    """Return the names in the lines of a table that begin with its first column's name."""
    return sorted({" ".join(line.split()) for line in text.splitlines() if first in line})


def list_score_columns() -> Iterator[tuple[str, object]]:
    """Yield the columns of `podium score`."""
    paths = [BASE / name for name in SCORED]
    text = print_command(score, *paths)
    yield "score", list_heads(text, "workload")
    yield "score --format csv", read_header(print_command(score, *paths, "--format", "csv"))
    yield "score --format json", list_json_names(print_command(score, *paths, "--format", "json"))
    for name in ("trained-v5.1-set", "filed-closed"):
        table = print_command(score, BASE / name, "--format", "mlcommons")
        yield f"score {name} --format mlcommons", read_header(table)
    curves = BASE / "endpoints-curve"
    yield "score of curves", list_heads(print_command(score, curves), "region")
    points = print_command(score, curves, "--format", "csv")
    yield "score of curves --format csv", read_header(points)
    points = print_command(score, curves, "--format", "json")
    yield "score of curves --format json", list_json_names(points)


def list_compare_columns() -> Iterator[tuple[str, object]]:
    """Yield the columns of `podium compare`."""
    for first, other in COMPARED:
        words = [BASE / first, BASE / other, "--published", "inference-v0.5"]
        found = print_command(compare, *words, "--format", "markdown")
        yield f"compare {first} --format markdown", list_heads(found, "| workload")
        found = print_command(compare, *words, "--format", "json")
        yield f"compare {first} --format json", list_json_names(found)


def list_cost_columns(prices: Path) -> Iterator[tuple[str, object]]:
    """Yield the columns of `podium cost`."""
    prices.write_text(PRICES, encoding="utf-8")
    words = [*(BASE / name for name in PRICED), "--prices", prices]
    yield "cost --format csv", read_header(print_command(cost, *words, "--format", "csv"))
    yield "cost --format json", list_json_names(print_command(cost, *words, "--format", "json"))


def list_published_columns() -> Iterator[tuple[str, object]]:
    """Yield the columns of `podium published`."""
    words = ["resnet50", "--round", "training-v0.7", "--format"]
    yield "published --format csv", read_header(print_command(published, *words, "csv"))
    yield "published --format json", list_json_names(print_command(published, *words, "json"))


def list_site_columns(folder: Path) -> Iterator[tuple[str, object]]:
    """Yield the columns of a site's tables and data."""
    bundle = pack_results(BASE / "tree", folder / "mine.tar.zst")
    trees = [BASE / name for name in ("trained-tree", "filed-closed", "endpoints-curve")]
    site = folder / "site"
    print_command(publish, bundle, *trees, "--published", "-o", site)
    for name in ("results", "trees", "endpoints"):
        table = (site / "data" / f"{name}.csv").read_text("utf-8")
        yield f"data/{name}.csv", read_header(table)
    for name in ("results", "trees", "mlcommons"):
        content = (site / "data" / f"{name}.json").read_text("utf-8")
        yield f"data/{name}.json", list_json_names(content)
    schema = json.loads((site / "data" / "results.schema.json").read_text("utf-8"))
    yield "data/results.schema.json", list(schema["$defs"]["Row"]["properties"])
    if (parquet := site / "data" / "results.parquet").is_file():
        from pyarrow.parquet import read_schema

        yield "data/results.parquet", list(read_schema(parquet).names)
    pages = sorted(site.rglob("*.html"))
    heads = {
        " | ".join(cell.split(">", 1)[1].strip() for cell in line.split('<th scope="col"')[1:])
        for page in pages
        for line in page.read_text("utf-8").splitlines()
        if line.startswith("<thead>") and "/r/" not in page.as_posix()
    }
    yield "heads of a site's tables", sorted(heads)


def list_loaded_columns() -> Iterator[tuple[str, object]]:
    """Yield the properties of what `podium.load` returns, as docs/reference/python.md names them."""
    found = podium.Results([*podium.load(BASE / "tree"), *podium.load(BASE / "endpoints-curve")])
    yield "to_frame", list_frame_columns(found)
    page = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")
    table = page.partition("| field | contents |")[2].partition("\n\n")[0]
    named = [
        cell.strip().strip("`")
        for row in table.splitlines()[2:]
        for cell in row.split("|")[1].split(",")
    ]
    for each in found:
        absent = [name for name in (*named, "is_broken") if not hasattr(each, name)]
        assert not absent, f"a record lacks {', '.join(absent)}"
    yield "properties of a record", named


def list_frame_columns(found: Results) -> list[str]:
    """Return the columns of the frame."""
    return list(found.to_frame().columns)


def collect_columns() -> dict[str, object]:
    """Collect the columns of everything that shows results."""
    with TemporaryDirectory() as folder:
        return dict(
            [
                *list_score_columns(),
                *list_compare_columns(),
                *list_cost_columns(Path(folder) / "prices.toml"),
                *list_published_columns(),
                *list_site_columns(Path(folder)),
                *list_loaded_columns(),
            ]
        )


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(collect_columns(), indent=1) + "\n", encoding="utf-8")
