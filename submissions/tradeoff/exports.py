"""The points of throughput against latency as JSON and CSV."""

import json
from collections.abc import Sequence
from dataclasses import asdict, fields

from submissions.tradeoff.figures import Tradeoff, TradeoffPoint
from suite.files.csv_tables import format_csv_table


def format_tradeoff_csv(found: Sequence[Tradeoff]) -> str:
    """Format all points as CSV; an unknown value is empty."""
    return format_csv_table(
        [each.name for each in fields(TradeoffPoint)],
        (asdict(point) for each in found for point in each.points),
    )


def format_tradeoff_json(found: Sequence[Tradeoff]) -> str:
    """Format all figures with their points as JSON."""
    return json.dumps({"figures": [asdict(each) for each in found]}, indent=1) + "\n"
