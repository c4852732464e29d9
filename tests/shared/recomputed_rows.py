"""Recomputes the published rows of the rounds since v1.0 from results trees, and reads those that
MLCommons' own tables have.

    PYTHONPATH=. python tests/shared/recomputed_rows.py TREES [--tables DIR] [-o FOLDER]

TREES holds one results tree per round, as `training_v5.1` or `inference_v6.0`; DIR the tables
`inference_v5.1_published.json`. A set or an entry is left out if the judge does not accept it: a
copy may lack runs. Without -o, prints how many rows each round has.
"""

import argparse
import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from compliance.results.indexed_result import IndexedResult
from submissions.published_rows import (
    INTERACTIVE_SCENARIO,
    PUBLISHED_COLUMNS,
    PUBLISHED_ROWS_FOLDER,
    RECOMPUTED_KIND,
    parse_published_rows,
)
from submissions.result_columns import get_convergence_factor
from submissions.result_index import open_results
from submissions.score.score import score_opened_results
from suite.files.layout import fold_name
from suite.measurement.metrics import TIME_TO_TRAIN
from suite.result import Result
from suite.rounds.compatibility import (
    INFERENCE_HALF,
    TRAINING_HALF,
    find_podium_workload,
    read_compatibility_table,
)
from suite.units import NS_PER_MS

HALVES: Final = (TRAINING_HALF, INFERENCE_HALF)
EARLIER_VERSIONS: Final = ("v0.5", "v0.6", "v0.7")
"""Rounds whose rows were recomputed from whole repositories, at a known commit."""
REUSED_NAMES: Final = ("ssd",)
"""Workloads whose name another benchmark has in later rounds: only rounds that are compatible with
one another count. Source: suite/rounds/compatibility.toml.
"""
TABLE_UNITS: Final = {
    "Samples/s": ("samples/s", 1),
    "Queries/s": ("queries/s", 1),
    "Tokens/s": ("tokens/s", 1),
    "Latency (ms)": ("ns", NS_PER_MS),
}
"""Unit in MLCommons' tables -> podium's unit, and how many of it make one."""
TABLE_METRICS: Final = {
    ("Offline", "samples/s"): "samples_per_second",
    ("Offline", "tokens/s"): "tokens_per_second",
    ("Server", "tokens/s"): "completed_tokens_per_second",
    ("Interactive", "tokens/s"): "completed_tokens_per_second",
    ("SingleStream", "ns"): "latency_p90",
    ("MultiStream", "ns"): "latency_p99",
}
"""Scenario and podium's unit -> the metric that LoadGen's logs of these rounds call so."""
TOKEN_WORKLOADS: Final = ("llama",)
"""Workloads whose rates are tokens per second."""


def list_round_trees(trees: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield half, version and folder of each round since v1.0."""
    for folder in sorted(trees.iterdir()):
        half, _, version = folder.name.partition("_")
        if half in HALVES and version not in EARLIER_VERSIONS:
            yield half, version, folder


def has_podium_workload(half: str, name: str, round_name: str) -> bool:
    """Return whether a benchmark of a round is one of podium's workloads."""
    workload = find_podium_workload(half, name)
    row = read_compatibility_table()[half].get(workload)
    if row is None:
        return False
    return workload not in REUSED_NAMES or any(round_name in group for group in row["groups"])


def get_benchmark_folder(result: IndexedResult) -> str:
    """Return the name of a result's benchmark in its tree."""
    return (result.folder.parent if result.scenario else result.folder).name


def recompute_rows(half: str, version: str, tree: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of the sets or entries of a round's tree that the judge accepts."""
    round_name = f"{half}-{version}"
    with open_results(tree) as results:
        for result in results:
            if not has_podium_workload(half, get_benchmark_folder(result), round_name):
                continue
            for _, score in score_opened_results(tree, [result], []):
                if score.compliant and score.value is not None:
                    yield build_recomputed_row(score, result, tree, half)


def build_recomputed_row(
    score: Result, result: IndexedResult, tree: Path, half: str
) -> dict[str, Any]:
    """Build one row; values have the digits that the earlier rounds' rows have."""
    path = result.folder.relative_to(tree.resolve()).as_posix()
    factor = get_convergence_factor(score)
    return {
        "id": f"{score.round}/{path.replace('/results/', '/')}",
        "round": score.round,
        "half": half,
        "division": score.division,
        "org": score.org,
        "system": score.system,
        "accelerator": score.machine.accelerator,
        "accelerators": score.machine.accelerators,
        "nodes": score.machine.nodes,
        "workload": find_podium_workload(half, score.workload),
        "scenario": score.scenario or "",
        "metric": score.metric,
        "unit": score.unit,
        "value": format_value(score.value, score.metric),
        "runs": " ".join(format_value(run, score.metric) for run in score.runs),
        "kind": RECOMPUTED_KIND,
        "source": f"mlcommons/{tree.name.replace('_v', '_results_v')}:{path}",
        "note": "",
        "convergence_factor": f"{factor:.6g}" if isinstance(factor, float) and factor > 1 else "",
    }


def format_value(value: float | None, metric: str) -> str:
    """Format a value: minutes to 6 ms, others with all digits of the log."""
    if value is None:
        return "-"
    return f"{value:.4f}" if metric == TIME_TO_TRAIN else f"{value:.10g}"


def read_table_rows(version: str, table: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of MLCommons' table of an inference round; those that it marks as inferred are
    left out. Interactive is run as Server, which v6.0's checker took for inferred.
    """
    for entry in json.loads(table.read_text("utf-8")):
        inferred = int(entry["inferred"]) and entry["Scenario"] != INTERACTIVE_SCENARIO
        if not inferred and has_podium_workload(
            INFERENCE_HALF, entry["Model"], f"inference-{version}"
        ):
            yield build_table_row(entry, version)


def build_table_row(entry: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Build one row of MLCommons' table."""
    round_name = f"inference-{version}"
    workload = find_podium_workload(INFERENCE_HALF, entry["Model"])
    unit, factor = TABLE_UNITS[entry["Performance_Units"]]
    note = ""
    if workload in TOKEN_WORKLOADS and unit == "queries/s":
        unit = "tokens/s"
        note = "doubtful: the table's unit is Queries/s, that of the system's other rows Tokens/s"
    path = entry["Location"].removeprefix("./").partition("/performance")[0]
    nodes, per_node = (int(entry[name] or 0) for name in ("Nodes", "a#"))
    return {
        "id": f"{round_name}/{path.replace('/results/', '/')}",
        "round": round_name,
        "half": INFERENCE_HALF,
        "division": entry["Category"],
        "org": entry["Submitter"],
        "system": entry["Platform"],
        "accelerator": entry["Accelerator"],
        "accelerators": nodes * per_node,
        "nodes": nodes,
        "workload": workload,
        "scenario": entry["Scenario"],
        "metric": TABLE_METRICS[entry["Scenario"], unit],
        "unit": unit,
        "value": f"{entry['Performance_Result'] * factor:.10g}",
        "runs": "",
        "kind": "reported",
        "source": f"mlcommons/inference_results_{version}:summary_results.json, {entry['ID']}",
        "note": note,
        "convergence_factor": "",
    }


def collect_round_rows(trees: Path, tables: Path | None) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each round; of a result that is in a tree and in a table the recomputed
    one, which names the table's id.
    """
    rounds: dict[str, dict[str, dict[str, Any]]] = {}
    for half, version, tree in list_round_trees(trees):
        rows = {fold_name(row["id"]): row for row in recompute_rows(half, version, tree)}
        table = tables / f"{tree.name}_published.json" if tables else None
        for row in read_table_rows(version, table) if table and table.is_file() else ():
            known = rows.setdefault(fold_name(row["id"]), row)
            if known is not row:
                known["note"] = f"MLCommons' table: {row['source'].rpartition(' ')[2]}"
        if rows:
            rounds[f"{half}-{version}"] = rows
    return {
        name: sorted(rows.values(), key=lambda row: str(row["id"])) for name, rows in rounds.items()
    }


def format_rows(rows: list[dict[str, Any]], name: str) -> str:
    """Format the rows as a file that podium reads, which checks them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, PUBLISHED_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    parse_published_rows(text.getvalue(), name)
    return text.getvalue()


def main() -> None:
    """Write or count the rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trees", type=Path)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("-o", "--output", type=Path, help=f"such as {PUBLISHED_ROWS_FOLDER}")
    options = parser.parse_args()
    for name, rows in collect_round_rows(options.trees, options.tables).items():
        print(f"{name}: {len(rows)} rows")
        if options.output:
            (options.output / f"{name}.csv").write_text(format_rows(rows, f"{name}.csv"), "utf-8")


if __name__ == "__main__":
    main()
