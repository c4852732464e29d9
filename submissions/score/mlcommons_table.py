"""Scores in the columns of MLCommons' own summaries, as CSV, so that tools for those can read them.

Source of the columns: mlcommons/inference, tools/submission/submission_checker/results.py,
ResultExporter, for served results; mlcommons/logging, result_summarizer.py, _get_column_schema, for
training. Private ids and links into a repository are left empty: a results tree states neither.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from compliance.results.machine import format_field_value
from submissions.result_columns import rename_column, select_columns
from suite import registry
from suite.columns import Column, Table, build_part_column
from suite.errors import RequestError
from suite.files.untrusted_files import parse_document_count
from suite.human_numbers import format_exact_number
from suite.result import Result
from suite.units import NS_PER_MS

MLCOMMONS_UNITS: Final[Mapping[str, tuple[float, str]]] = {
    "samples/s": (1, "Samples/s"),
    "queries/s": (1, "Queries/s"),
    "tokens/s": (1, "Tokens/s"),
    "samples/query": (1, "Streams"),
    "ns": (NS_PER_MS, "Latency (ms)"),
}
"""podium's unit -> how many of it make one of MLCommons' units, and that unit's name."""
HARDWARE_FIELDS: Final = (
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_processor_core_count",
    "accelerator_model_name",
    "accelerators_per_node",
)
"""Fields of a system description that are columns of served results."""


def get_described_text(row: Result, field: str) -> str | None:
    """Return a field of the system description as a text; None if it does not state it."""
    return format_field_value(row.described.get(field))


def get_availability(row: Result) -> str | None:
    """Return whether the system can be bought, by its description."""
    return get_described_text(row, "status")


def get_system_name(row: Result) -> str:
    """Return the system's name by its description, or else that of its folder."""
    return get_described_text(row, "system_name") or row.system


def get_mlcommons_value(row: Result) -> float | None:
    """Return the value in MLCommons' unit."""
    divisor, _ = MLCOMMONS_UNITS.get(row.unit, (1, row.unit))
    return None if row.value is None else row.value / divisor


def get_mlcommons_unit(row: Result) -> str:
    """Return MLCommons' name of the unit."""
    return MLCOMMONS_UNITS.get(row.unit, (1, row.unit))[1]


def format_exact_scores(row: Result) -> str:
    """Format all scores with their digits."""
    scores = (f"{name}: {format_exact_number(value)}" for name, value in row.accuracy.items())
    return "  ".join(scores)


def build_described_column(field: str) -> Column[Result]:
    """Return the column of a field of the system description."""
    return Column(field, lambda row: get_described_text(row, field))


def find_mlperf_benchmark(each: Result) -> str:
    """Return the round's name of a benchmark, of which a folder may have another spelling."""
    find_benchmark = registry.load_round_part(each.round, "find_benchmark")
    found = find_benchmark(each.round, each.place.benchmark) if find_benchmark else None
    return found or each.place.benchmark


def join_notes(fields: Mapping[str, Any], separator: str) -> str:
    """Join a description's notes on hardware and software."""
    notes = (format_field_value(fields.get(name)) for name in ("hw_notes", "sw_notes"))
    return separator.join(filter(None, notes))


SERVED_TABLE: Final[Table[Result]] = Table(
    columns=(
        rename_column("Organization", "org"),
        Column("Availability", get_availability),
        rename_column("Division", "division"),
        Column("SystemType", lambda row: get_described_text(row, "system_type")),
        Column("SystemName", get_system_name),
        rename_column("Platform", "system"),
        rename_column("Model", "benchmark"),
        Column("MlperfModel", find_mlperf_benchmark),
        rename_column("Scenario", "scenario"),
        Column("Result", get_mlcommons_value),
        Column("Accuracy", format_exact_scores),
        *map(build_described_column, HARDWARE_FIELDS),
        rename_column("total_accelerators", "accelerators"),
        rename_column("Location", "location"),
        *map(build_described_column, ("framework", "operating_system")),
        Column("notes", lambda row: join_notes(row.described, ". ")),
        Column("compliance", lambda row: int(row.compliant)),
        Column("errors", lambda row: int(not row.compliant)),
        Column("version", lambda row: row.round.rpartition("-")[2]),
        Column("inferred", lambda row: int(row.figure.inferred)),
        Column("has_power", lambda row: bool(row.energy)),
        Column("Units", get_mlcommons_unit),
        rename_column("weight_data_types", "precision"),
        Column("PrivateID", lambda row: None),
    )
)
"""The columns of served results."""


def format_mlcommons_table(results: Iterable[Result]) -> str:
    """Format the scores as CSV in the columns of their half's summary; RequestError if there are
    run sets and served results, which have a summary each.
    """
    results = tuple(results)
    served = [each for each in results if each.scenario]
    if served and len(served) < len(results):
        raise RequestError(
            "--format mlcommons: training and served results have different columns; name the"
            " results of one half, for example .../results/SYSTEM/BENCHMARK/Offline"
        )
    if served:
        return SERVED_TABLE.format_csv_text(served)
    return build_trained_table(results).format_csv_text(group_trained_systems(results))


class TrainedSystem(NamedTuple):
    """A system with its minutes in each benchmark that it trained."""

    system: Result
    """A result of the system, which describes it."""
    minutes: Mapping[str, float | None]


def group_trained_systems(results: Iterable[Result]) -> list[TrainedSystem]:
    """Group run sets by their system, in the order of the first ones."""
    found: dict[tuple[str, ...], TrainedSystem] = {}
    for each in results:
        key = (each.round, each.division, each.org, each.system)
        before = found.get(key, TrainedSystem(each, {}))
        found[key] = before._replace(minutes={**before.minutes, each.workload: each.headline})
    return list(found.values())


def count_host_processors(row: Result) -> int | None:
    """Count the processors of all nodes; None if the description does not state them."""
    per_node = parse_document_count(row.described.get("host_processors_per_node"))
    if per_node and row.nodes:
        return per_node * row.nodes
    return None


TRAINED_COLUMNS: Final[tuple[Column[Result], ...]] = (
    *select_columns("division"),
    Column("availability", get_availability),
    rename_column("submitter", "org"),
    Column("system", get_system_name),
    rename_column("number_of_nodes", "nodes"),
    build_described_column("host_processor_model_name"),
    Column("host_processors_count", count_host_processors),
    rename_column("accelerator_model_name", "accelerator"),
    rename_column("accelerators_count", "accelerators"),
    build_described_column("framework"),
    Column("notes", lambda row: join_notes(row.described, ";")),
    Column("private_id", lambda row: None),
)
"""Columns before those of the benchmarks."""
LINK_COLUMNS: Final[tuple[Column[TrainedSystem], ...]] = (
    Column("details_url", lambda row: None),
    Column("code_url", lambda row: None),
)
"""Columns after those of the benchmarks."""


def build_trained_column(column: Column[Result]) -> Column[TrainedSystem]:
    """Return a column of results for a system that was trained on."""
    return build_part_column(column, lambda row: row.system)


def build_minutes_column(benchmark: str) -> Column[TrainedSystem]:
    """Return the column of a benchmark."""
    return Column(benchmark, lambda row: row.minutes.get(benchmark))


def build_trained_table(results: Iterable[Result]) -> Table[TrainedSystem]:
    """Build the columns of run sets: about the system, then of each benchmark."""
    benchmarks: dict[str, None] = {}
    for each in results:
        benchmarks |= dict.fromkeys((*list_round_benchmarks(each.round), each.workload))
    return Table(
        columns=(
            *map(build_trained_column, TRAINED_COLUMNS),
            *map(build_minutes_column, benchmarks),
            *LINK_COLUMNS,
        )
    )


def list_round_benchmarks(round_name: str) -> Iterable[str]:
    """List the benchmarks of a published training round; none of podium's own rounds."""
    list_benchmarks: Callable[[str], Iterable[str]] | None = registry.load_round_part(
        round_name, "list_benchmarks"
    )
    if not list_benchmarks:
        return ()
    return list_benchmarks(round_name)
