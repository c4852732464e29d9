"""The points of throughput against latency as JSON and CSV."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, fields

from submissions.tradeoff.figures import Tradeoff, TradeoffPoint
from suite.files.untrusted_files import replace_unprintable


def format_tradeoff_csv(found: Sequence[Tradeoff]) -> str:
    """Format all points as CSV; an unknown value is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(
        text, [each.name for each in fields(TradeoffPoint)], lineterminator="\n"
    )
    writer.writeheader()
    for each in found:
        writer.writerows(map(convert_point_to_cells, each.points))
    return text.getvalue()


def convert_point_to_cells(point: TradeoffPoint) -> dict[str, object]:
    """Convert a point to the cells of a row, without letters that nobody would see."""
    cells = {name: "" if value is None else value for name, value in asdict(point).items()}
    return {
        name: replace_unprintable(value) if isinstance(value, str) else value
        for name, value in cells.items()
    }


def format_tradeoff_json(found: Sequence[Tradeoff]) -> str:
    """Format all figures with their points as JSON."""
    return json.dumps({"figures": [asdict(each) for each in found]}, indent=1) + "\n"
