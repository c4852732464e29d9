"""Served results with the field names of MLCommons' summaries, so that tools for those can read
them.

Source of the names: summary_results.json of mlcommons/inference_results_v5.1 (1,448 rows). The
values are podium's: its rounds, its profiles instead of the suite, and paths of this site instead
of a repository's. Power is left out: in those summaries it is MLPerf Power's only.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from submissions.machines import describe_published_system
from submissions.publish.rows import SEAL_PREFIX_DIGITS, locate_row_page
from submissions.report.document import encode_invisible_characters
from submissions.report.sections.names import PROCESSOR_FIELD
from submissions.score.mlcommons_table import get_mlcommons_unit, get_mlcommons_value
from suite.columns import Column, Table
from suite.human_numbers import format_whole_digits
from suite.result import Result

CORES_FIELD: Final = "host_processor_core_count"


class FiledResult(NamedTuple):
    """A served result with its number and the place of its bundle or report."""

    result: Result
    id: str
    location: str


def get_published_text(row: FiledResult, field: str) -> str:
    """Return a field that is published of a result's system; empty if it is not stated."""
    return describe_published_system(row.result).get(field, "")


def parse_described_count(text: str) -> int | None:
    """Parse a whole number from a description."""
    if text and text.isdecimal() and len(text) < SEAL_PREFIX_DIGITS:
        return int(text)
    return None


def count_node_processors(row: FiledResult) -> int | None:
    """Return the number of processors of a node; None if it is unknown."""
    return parse_described_count(get_published_text(row, "host_processors_per_node"))


def count_node_accelerators(row: FiledResult) -> int | None:
    """Return the number of accelerators of a node; None if it is unknown."""
    machine = row.result.machine
    return (
        None if machine.accelerators is None else machine.accelerators // max(1, machine.nodes or 1)
    )


def format_rounded_scores(row: FiledResult) -> str:
    """Format all scores with six digits."""
    return "  ".join(
        f"{name}: {format_whole_digits(value, 6)}" for name, value in row.result.accuracy.items()
    )


def describe_software(row: FiledResult) -> str:
    """Describe the framework and other software."""
    stated = (get_published_text(row, name) for name in ("framework", "other_software_stack"))
    return ", ".join(filter(None, stated))


def describe_result_path(row: FiledResult) -> str:
    """Return the profile, division, organisation and system of a result as a path."""
    place = row.result.place
    return "/".join((place.profile, place.division, place.org, place.system))


SUMMARY_TABLE: Final[Table[FiledResult]] = Table(
    columns=(
        Column("ID", lambda row: row.id),
        Column("Submitter", lambda row: row.result.org),
        Column("Availability", lambda row: get_published_text(row, "status")),
        Column("Category", lambda row: row.result.division),
        Column("Suite", lambda row: row.result.profile),
        Column("UsedModel", lambda row: row.result.workload),
        Column("Model", lambda row: row.result.workload),
        Column("Scenario", lambda row: row.result.scenario),
        Column("Accuracy", format_rounded_scores),
        Column("Performance_Result", lambda row: get_mlcommons_value(row.result)),
        Column("Performance_Units", lambda row: get_mlcommons_unit(row.result)),
        Column("version", lambda row: row.result.round),
        Column("compliance", lambda row: int(row.result.compliant)),
        Column("errors", lambda row: int(not row.result.compliant)),
        Column("inferred", lambda row: 0),
        Column("has_power", lambda row: False),
        Column("Power_Result", lambda row: None),
        Column("Power_Units", lambda row: None),
        Column("weight_data_types", lambda row: row.result.precision or ""),
        Column("System", lambda row: row.result.system),
        Column("Platform", lambda row: row.result.system),
        Column("Nodes", lambda row: row.result.nodes),
        Column("Processor", lambda row: get_published_text(row, PROCESSOR_FIELD)),
        Column("p#", count_node_processors),
        Column("host_processors_per_node", count_node_processors),
        Column(CORES_FIELD, lambda row: get_published_text(row, CORES_FIELD)),
        Column("Accelerator", lambda row: row.result.accelerator or ""),
        Column("a#", count_node_accelerators),
        Column("Software", describe_software),
        Column("operating_system", lambda row: get_published_text(row, "operating_system")),
        Column("Notes", lambda row: "MLPerf-style; not an MLPerf result"),
        Column("Location", lambda row: row.location),
        Column("Details", lambda row: locate_row_page(row.result)),
        Column("Code", lambda row: ""),
        Column("Unique ID (e.g. for Audit)", describe_result_path),
        Column("ColorKey", lambda row: get_published_text(row, "status") + row.result.org),
    )
)
"""The fields of MLCommons' summaries; an unknown number is null."""


def format_mlcommons_summary(found: Mapping[str, Sequence[Result]]) -> str:
    """Format the served results of bundles (path of the bundle's copy, or of its report -> results)
    as JSON: a list of rows.
    """
    rows = [
        row
        for location, results in found.items()
        for row in iterate_mlcommons_rows(results, location)
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def iterate_mlcommons_rows(results: Sequence[Result], location: str) -> Iterator[dict[str, Any]]:
    """Yield a bundle's rows; training results have a different summary format."""
    served = [each for each in results if each.scenario]
    rows = [
        FiledResult(each, f"{each.origin.id[:SEAL_PREFIX_DIGITS]}-{number:04d}", location)
        for number, each in enumerate(served, 1)
    ]
    for fields in SUMMARY_TABLE.list_plain_rows(rows):
        yield {
            key: encode_invisible_characters(value) if isinstance(value, str) else value
            for key, value in fields.items()
        }
