"""Served results with the field names of MLCommons' summaries, so that tools for those can read
them.

Source of the names: summary_results.json of mlcommons/inference_results_v5.1 (1,448 rows). The
values are podium's: its rounds, its profiles instead of the suite, and paths of this site instead
of a repository's. Power is left out: in those summaries it is MLPerf Power's only.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from submissions.publish.rows import SEAL_PREFIX_DIGITS
from submissions.report.document import Headline, Part, encode_invisible_characters
from submissions.score.mlcommons_table import MLCOMMONS_UNITS


def format_mlcommons_summary(parts: Mapping[str, Part]) -> str:
    """Format the served results of these parts (path of the bundle's copy, or of its report ->
    part) as JSON: a list of rows.
    """
    rows = [
        row for location, part in parts.items() for row in iterate_mlcommons_rows(part, location)
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def iterate_mlcommons_rows(part: Part, location: str) -> Iterator[dict[str, Any]]:
    """Yield a bundle's rows; training results have a different summary format."""
    served = [each for each in part.headlines if each.scenario]
    for number, each in enumerate(served, 1):
        fields = {
            "ID": f"{part.seal[:SEAL_PREFIX_DIGITS]}-{number:04d}",
            **describe_served_result(each),
            **describe_serving_system(each),
            **describe_result_locations(each, part, location),
        }
        yield {
            key: encode_invisible_characters(value) if isinstance(value, str) else value
            for key, value in fields.items()
        }


def describe_served_result(each: Headline) -> dict[str, Any]:
    """Return the fields about what was measured."""
    divisor, unit = MLCOMMONS_UNITS.get(each.unit, (1.0, each.unit))
    return {
        "Submitter": each.org,
        "Availability": each.described.get("status", ""),
        "Category": each.division,
        "Suite": each.profile,
        "UsedModel": each.workload,
        "Model": each.workload,
        "Scenario": each.scenario,
        "Accuracy": "  ".join(f"{name}: {value:.6g}" for name, value in each.accuracy.items()),
        "Performance_Result": None if each.value is None else each.value / divisor,
        "Performance_Units": unit,
        "version": each.round,
        "compliance": int(each.compliant),
        "errors": int(not each.compliant),
        "inferred": 0,
        "has_power": False,
        "Power_Result": None,
        "Power_Units": None,
        "weight_data_types": each.precision or "",
    }


def describe_serving_system(each: Headline) -> dict[str, Any]:
    """Return the fields about the system; an unknown number is null."""
    described = each.described
    accelerators_per_node = (
        None if each.accelerators is None else each.accelerators // max(1, each.nodes or 1)
    )
    return {
        "System": each.system,
        "Platform": each.system,
        "Nodes": each.nodes,
        "Processor": described.get("host_processor_model_name", ""),
        "p#": parse_described_count(described.get("host_processors_per_node")),
        "host_processors_per_node": parse_described_count(
            described.get("host_processors_per_node")
        ),
        "host_processor_core_count": described.get("host_processor_core_count", ""),
        "Accelerator": each.accelerator or "",
        "a#": accelerators_per_node,
        "Software": ", ".join(
            filter(None, [described.get("framework"), described.get("other_software_stack")])
        ),
        "operating_system": described.get("operating_system", ""),
        "Notes": "MLPerf-style; not an MLPerf result",
    }


def describe_result_locations(each: Headline, part: Part, location: str) -> dict[str, Any]:
    """Return the fields that locate the report and the bundle."""
    return {
        "Location": location,
        "Details": f"r/{part.seal[:SEAL_PREFIX_DIGITS]}/index.html",
        "Code": "",
        "Unique ID (e.g. for Audit)": f"{each.profile}/{each.division}/{each.org}/{each.system}",
        "ColorKey": f"{each.described.get('status', '')}{each.org}",
    }


def parse_described_count(text: str | None) -> int | None:
    """Parse a whole number from a description."""
    return int(text) if text and text.isdecimal() and len(text) < SEAL_PREFIX_DIGITS else None
