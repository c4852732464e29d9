"""The points of throughput against latency as JSON and CSV."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from submissions.tradeoff.figures import Tradeoff
from submissions.tradeoff.point_columns import EXPORTED_TABLE


def format_tradeoff_csv(found: Sequence[Tradeoff]) -> str:
    """Format all points as CSV; an unknown value is empty."""
    return EXPORTED_TABLE.format_csv_text([point for each in found for point in each.points])


def format_tradeoff_json(found: Sequence[Tradeoff]) -> str:
    """Format all figures with their points as JSON."""
    return json.dumps({"figures": [asdict(each) for each in found]}, indent=1) + "\n"
