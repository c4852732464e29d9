"""Scores in the columns of MLCommons' own summaries, as CSV, so that tools for those can read them.

Source of the columns: mlcommons/inference, tools/submission/submission_checker/results.py,
ResultExporter, for served results; mlcommons/logging, result_summarizer.py, _get_column_schema, for
training. Private ids and links into a repository are left empty: a results tree states neither.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from submissions.machines import format_field_value, read_system_description_fields
from submissions.result_index import IndexedResult, open_results
from submissions.score.score import Score, score_opened_results
from submissions.tables import format_exact_number
from suite import registry
from suite.errors import JudgedError, RequestError
from suite.files.untrusted_files import parse_document_count
from suite.rounds import RoundKind
from suite.units import NS_PER_MS

MLCOMMONS_UNITS: Final[Mapping[str, tuple[float, str]]] = {
    "samples/s": (1, "Samples/s"),
    "queries/s": (1, "Queries/s"),
    "tokens/s": (1, "Tokens/s"),
    "samples/query": (1, "Streams"),
    "ns": (NS_PER_MS, "Latency (ms)"),
}
"""podium's unit -> how many of it make one of MLCommons' units, and that unit's name."""
SERVED_COLUMNS: Final = (
    "Organization",
    "Availability",
    "Division",
    "SystemType",
    "SystemName",
    "Platform",
    "Model",
    "MlperfModel",
    "Scenario",
    "Result",
    "Accuracy",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_per_node",
    "host_processor_core_count",
    "accelerator_model_name",
    "accelerators_per_node",
    "total_accelerators",
    "Location",
    "framework",
    "operating_system",
    "notes",
    "compliance",
    "errors",
    "version",
    "inferred",
    "has_power",
    "Units",
    "weight_data_types",
    "PrivateID",
)
TRAINED_COLUMNS: Final = (
    "division",
    "availability",
    "submitter",
    "system",
    "number_of_nodes",
    "host_processor_model_name",
    "host_processors_count",
    "accelerator_model_name",
    "accelerators_count",
    "framework",
    "notes",
    "private_id",
)
"""Columns before those of the benchmarks."""
LINK_COLUMNS: Final = ("details_url", "code_url")
"""Columns after those of the benchmarks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedScore:
    """A score with what MLCommons' summaries say of its system."""

    score: Score
    benchmark: str
    """The benchmark's folder."""
    location: str
    """The result's folder below the root of its tree; its name outside a tree."""
    description: Mapping[str, Any]
    """Fields of the system description."""

    @property
    def headline(self) -> float | None:
        """Return the value as MLCommons' tables have it: a training set's times its factor."""
        convergence = self.score.convergence or {}
        scaled = convergence.get("scaled")
        return scaled if isinstance(scaled, float) else self.score.value


def describe_scored_paths(paths: Iterable[Path], problems: list[str]) -> list[DescribedScore]:
    """Score several paths as `score_paths` does, with what their system descriptions say."""
    described: list[DescribedScore] = []
    for path in paths:
        try:
            with open_results(path) as results:
                described += [
                    describe_score(score, result)
                    for result, score in score_opened_results(path, results, problems)
                ]
        except JudgedError as error:
            problems.append(str(error))
    return described


def describe_score(score: Score, result: IndexedResult) -> DescribedScore:
    """Add to a score what its system description and its place in the tree say."""
    folder = result.folder.parent if result.scenario else result.folder
    return DescribedScore(
        score=score,
        benchmark=folder.name,
        location=(
            result.folder.relative_to(result.results_root).as_posix()
            if result.organisation_folder
            else result.folder.name
        ),
        description=read_system_description_fields(result, score.round),
    )


def format_mlcommons_table(described: Iterable[DescribedScore]) -> str:
    """Format the scores as CSV in the columns of their half's summary; RequestError if there are
    training sets and served results, which have a summary each.
    """
    described = tuple(described)
    served = [each for each in described if each.score.scenario]
    if served and len(served) < len(described):
        raise RequestError(
            "--format mlcommons: training and served results have different columns; name the"
            " results of one half, for example .../results/SYSTEM/BENCHMARK/Offline"
        )
    columns, rows = (
        (SERVED_COLUMNS, [build_served_row(each) for each in served])
        if served
        else build_trained_table(described)
    )
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def build_served_row(each: DescribedScore) -> dict[str, object]:
    """Build the row of one scenario."""
    score, fields = each.score, each.description
    divisor, unit = MLCOMMONS_UNITS.get(score.unit, (1, score.unit))
    return {
        "Organization": score.org,
        "Availability": format_field_value(fields.get("status")),
        "Division": score.division,
        "SystemType": format_field_value(fields.get("system_type")),
        "SystemName": format_field_value(fields.get("system_name")) or score.system,
        "Platform": score.system,
        "Model": each.benchmark,
        "MlperfModel": find_mlperf_benchmark(each),
        "Scenario": score.scenario,
        "Result": None if score.value is None else score.value / divisor,
        "Accuracy": "  ".join(
            f"{name}: {format_exact_number(value)}" for name, value in score.accuracy.items()
        ),
        **{
            name: format_field_value(fields.get(name))
            for name in SERVED_COLUMNS
            if name.startswith(("number_of_nodes", "host_", "accelerator"))
        },
        "total_accelerators": score.machine.accelerators,
        "Location": each.location,
        "framework": format_field_value(fields.get("framework")),
        "operating_system": format_field_value(fields.get("operating_system")),
        "notes": join_notes(fields, ". "),
        "compliance": int(score.compliant),
        "errors": int(not score.compliant),
        "version": score.round.rpartition("-")[2],
        "inferred": int(score.inferred),
        "has_power": bool(score.energy),
        "Units": unit,
        "weight_data_types": score.precision,
    }


def find_mlperf_benchmark(each: DescribedScore) -> str:
    """Return the round's name of a benchmark, of which a folder may have another spelling."""
    if registry.load_round_kind(each.score.round) is not RoundKind.INFERENCE_MLLOG:
        return each.benchmark
    judged_by = registry.load_inference_mllog_round(each.score.round)
    return judged_by.find_benchmark(each.benchmark) or each.benchmark


def build_trained_table(
    described: Sequence[DescribedScore],
) -> tuple[Sequence[str], list[dict[str, object]]]:
    """Build the columns and rows of training sets: a row per system, a column per benchmark."""
    rows: dict[tuple[str, ...], dict[str, object]] = {}
    benchmarks: dict[str, None] = {}
    for each in described:
        benchmarks |= dict.fromkeys(list_round_benchmarks(each.score.round))
        benchmarks.setdefault(each.score.workload)
        score = each.score
        key = (score.round, score.division, score.org, score.system)
        row = rows.setdefault(key, build_trained_system(each))
        row[score.workload] = each.headline
    return (*TRAINED_COLUMNS, *benchmarks, *LINK_COLUMNS), list(rows.values())


def list_round_benchmarks(round_name: str) -> Iterable[str]:
    """List the benchmarks of a published training round; none of podium's own rounds."""
    if registry.load_round_kind(round_name) is not RoundKind.TRAINING:
        return ()
    return registry.load_published_training(round_name).benchmarks


def build_trained_system(each: DescribedScore) -> dict[str, object]:
    """Build the columns about the system of a training set."""
    score, fields = each.score, each.description
    per_node = parse_document_count(fields.get("host_processors_per_node"))
    nodes = score.machine.nodes
    return {
        "division": score.division,
        "availability": format_field_value(fields.get("status")),
        "submitter": score.org,
        "system": format_field_value(fields.get("system_name")) or score.system,
        "number_of_nodes": nodes,
        "host_processor_model_name": format_field_value(fields.get("host_processor_model_name")),
        "host_processors_count": per_node * nodes if per_node and nodes else None,
        "accelerator_model_name": score.machine.accelerator,
        "accelerators_count": score.machine.accelerators,
        "framework": format_field_value(fields.get("framework")),
        "notes": join_notes(fields, ";"),
    }


def join_notes(fields: Mapping[str, Any], separator: str) -> str:
    """Join a description's notes on hardware and software."""
    notes = (format_field_value(fields.get(name)) for name in ("hw_notes", "sw_notes"))
    return separator.join(filter(None, notes))
