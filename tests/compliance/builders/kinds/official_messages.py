"""For each message of the official checker of MLPerf Endpoints (PyPI endpoints-submission-cli) an
edit of an honest submission after which it says so, and the rule that podium has for it.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kinds.endpoints import edited, scaled
from kinds.endpoints_curves import (
    DATA_SET,
    SUMMARY,
    SYSTEM,
    copies,
    edit_file,
    edit_point,
    in_curve,
    quote_watts,
    remove,
    slow_offline,
    state_more,
    write_compact,
)

Edit = Callable[[Path], object]
ACCURACY: Final = "accuracy_results.json"
SYSTEM_FILE: Final = "system_desc.json"
POINTS: Final = (1, 6, 16, 30, 64, 128, 256)
AGENTIC: Final = "kimi-k3"


@dataclass(kw_only=True, frozen=True)
class OfficialMessage:
    """One message of the official checker."""

    says: str
    """Its rule and key with a colon, and a part of its text behind a tilde where several problems
    share a key.
    """
    edit: Edit
    rule: str = ""
    """podium's rule; empty if it has none."""
    curve: str = "elected"


def message(says: str, edit: Edit, rule: str = "", curve: str = "elected") -> OfficialMessage:
    """Build a message; a rule without a dot is one of `endpoints`."""
    if rule and "." not in rule:
        rule = f"endpoints.{rule}"
    return OfficialMessage(says=says, edit=edit, rule=rule, curve=curve)


def both(*edits: Edit) -> Edit:
    """Make several edits."""

    def change(root: Path) -> None:
        for edit in edits:
            edit(root)

    return change


def at_points(build: Callable[[int], Edit], points: tuple[int, ...] = POINTS) -> Edit:
    """Make an edit at each point."""
    return both(*map(build, points))


def edit_score(name: str, value: Any, concurrency: int = 30) -> Edit:
    """Change one field of the accuracy of a point."""
    return edit_file(concurrency, ACCURACY, "accuracy_scores", 0, name, value=value)


def edit_scores(value: Any, **where: Any) -> Edit:
    """Change the list of scores of a point."""
    return edit_file(30, ACCURACY, "accuracy_scores", value=value, **where)


def edit_agentic(concurrency: int, name: str, *path: str | int, value: Any) -> Edit:
    """Change one value of a point of the agentic curve."""
    return edit_file(concurrency, name, *path, value=value, model=AGENTIC)


def edit_system(name: str, value: Any, concurrency: int = 64) -> Edit:
    """Change one field of the system's description at a point."""
    return edit_file(concurrency, SYSTEM_FILE, name, value=value)


def edit_systems(name: str, value: Any) -> Edit:
    """Change one field of the system's description at each point."""
    return at_points(lambda each: edit_system(name, value, each))


def edit_nodes(name: str, value: Any) -> Edit:
    """Change one field of the nodes at each point."""
    return at_points(lambda each: edit_file(each, SYSTEM_FILE, "node_types", 0, name, value=value))


def edit_power(*path: str | int, value: Any) -> Edit:
    """Change one value of the system's power."""
    return lambda root: edited("system_power.json", *path, value=value)(root / "results" / SYSTEM)


def edit_part(*path: str | int, value: Any) -> Edit:
    """Change one value of the parts of a node."""
    return edit_power("node_sets", 0, "components", *path, value=value)


def edit_set(*path: str | int, value: Any) -> Edit:
    """Change one value of the set of nodes."""
    return edit_power("node_sets", 0, *path, value=value)


def drop(name: str, *path: str | int, concurrency: int = 64) -> Edit:
    """Remove a field of one of a point's JSON files."""

    def change(root: Path) -> None:
        file = root.joinpath(*in_curve(f"r{concurrency}", name))
        document = json.loads(file.read_text())
        place = document
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        write_compact(file, document)

    return change


def write_point_file(name: str, text: str, concurrency: int = 64) -> Edit:
    """Write one of a point's files."""
    return lambda root: root.joinpath(*in_curve(f"r{concurrency}", name)).write_text(text)


def rename_point(old: str, new: str) -> Edit:
    """Rename a point's folder."""
    return lambda root: root.joinpath(*in_curve(old)).rename(root.joinpath(*in_curve(new)))


def empty_curve(root: Path) -> None:
    """Keep the folder of a curve without its points."""
    for each in root.joinpath(*in_curve()).iterdir():
        shutil.rmtree(each)


def rename_model(name: str) -> Edit:
    """Give the curve the folder of another benchmark."""
    return lambda root: root.joinpath(*in_curve()).rename(root.joinpath(*in_curve()[:-1], name))


def add_accuracy(concurrency: int) -> Edit:
    """Add an accuracy run of its own to a point."""

    def change(root: Path) -> None:
        home = root.joinpath(*in_curve())
        document = json.loads((home / "r30" / ACCURACY).read_text())
        document["accuracy_scores"][0] |= {"score": 81.3, "duration_s": 4321.5}
        write_compact(home / f"r{concurrency}" / ACCURACY, document)

    return change


def state_window(**changed: Any) -> Edit:
    """Change fields of the block that says whether a point has a steady window."""
    return at_points(
        lambda each: (
            lambda root: edit_point(each, "steady_state", value=lambda block: {**block, **changed})(
                root
            )
        ),
        (256,),
    )


def set_window(concurrency: int, block: dict[str, Any]) -> Edit:
    """State the block that says whether a point has a steady window."""
    return edit_point(concurrency, "steady_state", value=block)


def hasten(concurrency: int) -> Edit:
    """Let a point's run take an eightieth of its time, consistently."""

    def change(root: Path) -> None:
        path = root.joinpath(*in_curve(f"r{concurrency}", SUMMARY))
        found = json.loads(path.read_text())
        for name in ("latency", "ttft", "tpot"):
            found[name] = scaled(found[name], 1 / 80)
        found["duration_ns"] //= 80
        for name in ("qps", "tps"):
            found[name] *= 80
        write_compact(path, found)

    return change


def speculate(**declared: Any) -> Edit:
    """Declare speculative decoding at a point."""
    return edit_point(64, "speculative_decoding", value=declared)


APPROVED: Final = {
    "model_id": "deepseek-ai/DeepSeek-R1",
    "weight_checksum": "git-sha1:56d4cbbb4d29f4355bab4b9a39ccb717a14ad5ad",
}
"""A drafter of deepseek-r1."""
WINDOW: Final = {
    "super_pass_start": 0,
    "super_pass_end": 4,
    "super_pass_size": DATA_SET,
    "n_samples": 5 * DATA_SET,
    "duration_s": 6_435.0,
}
STEADY: Final = {
    "status": "windowable",
    "verdict": "STEADY STATE",
    "window": WINDOW,
    "state": {"tpot_p90": "Plateau"},
}
NODES: Final = {"system_node_ensemble_id": 0, "nodes": 1}
NICS: Final = {"count_per_node": 8, "bandwidth_per_nic_gbps": 400.0, "counted": True}
SWITCH: Final = {
    "model": "SN5610",
    "count": 1,
    "bandwidth_tbps": 51.2,
    "power_per_switch": quote_watts(900),
}
SCALE_OUT: Final = {
    "present": True,
    "cabling": "passive",
    "required_bandwidth_tbps": 6.4,
    "nics": NICS,
    "switches": [SWITCH],
}
"""The network between two nodes."""


def connect_nodes(**changed: Any) -> Edit:
    """Give the system two nodes, and the network between them."""
    return both(
        edit_set("nodes_provisioned", value=2),
        edit_nodes("number_of_nodes", 2),
        edit_power("scale_out", value={**SCALE_OUT, **changed}),
    )


MESSAGES: Final = (
    # accuracy
    message(
        "accuracy-coverage:fail",
        remove(*in_curve(f"r{DATA_SET}", ACCURACY)),
        "accuracy_points",
        "dedicated",
    ),
    message(
        "accuracy-coverage:missing-bands", remove(*in_curve("r30", ACCURACY)), "accuracy_points"
    ),
    message("accuracy-coverage:extra-results", add_accuracy(16), "accuracy_points"),
    message("accuracy-gate:fail", edit_score("score", 70.0), "point_accuracy"),
    message(
        "accuracy-present:fail",
        at_points(lambda each: remove(*in_curve(f"r{each}", ACCURACY)), (1, 6, 30, 256)),
        "accuracy_points",
    ),
    message(
        "accuracy-sample-count:fail",
        both(edit_score("total_samples", 100), edit_score("unit_samples", 100)),
        "accuracy_counts",
    ),
    message("accuracy-valid:fail", write_point_file(ACCURACY, "{}", 30), "accuracy_points"),
    message("accuracy-valid:scores-not-collection", edit_scores(5), "file.shape"),
    message("accuracy-valid:entry-not-mapping", edit_scores([5]), "file.shape"),
    message("accuracy-valid:entry-unnamed", edit_score("dataset_name", ""), "data_set"),
    message(
        "accuracy-valid:dataset-duplicate",
        edit_scores(lambda each: [*each, each[0]]),
        "accuracy_counts",
    ),
    message(
        "accuracy-valid:performance-duplicate",
        edit_agentic(
            64,
            ACCURACY,
            "accuracy_scores",
            value=lambda each: [*each, {**each[-1], "dataset_name": "again"}],
        ),
        "accuracy_counts",
        "agentic",
    ),
    message(
        "accuracy-valid:score-missing",
        drop(ACCURACY, "accuracy_scores", 0, "score", concurrency=30),
        "point_accuracy",
    ),
    message("accuracy-valid:alias-conflict", edit_score("num_samples", 5), "accuracy_counts"),
    message(
        "agentic-accuracy-inline:missing",
        remove("results", SYSTEM, AGENTIC, "r64", ACCURACY),
        "point_accuracy",
        "agentic",
    ),
    message(
        "agentic-accuracy-inline:fail",
        edit_agentic(64, ACCURACY, "accuracy_scores", 0, "score", value=0.5),
        "point_accuracy",
        "agentic",
    ),
    message(
        "agentic-accuracy-swebench:warn",
        at_points(
            lambda each: edit_agentic(
                each, ACCURACY, "accuracy_scores", 0, "dataset_name", value="other"
            ),
            (1, 6, 30, 256),
        ),
        "mean_accuracy",
        "agentic",
    ),
    message(
        "agentic-accuracy-swebench:fail",
        edit_agentic(6, ACCURACY, "accuracy_scores", 0, "score", value=0.5),
        "mean_accuracy",
        "agentic",
    ),
    message(
        "agentic-metric-consistency:fail-2",
        edit_agentic(64, SUMMARY, "e2e_avg_interactivity", value=1.0),
        "derived",
        "agentic",
    ),
    message(
        "agentic-metric-consistency:fail",
        both(
            edit_agentic(64, SUMMARY, "e2e_avg_interactivity", value=1.0),
            edit_agentic(64, SUMMARY, "n_samples_failed", value=1),
        ),
        "derived",
        "agentic",
    ),
    message(
        "agentic-osl-range:warn",
        edit_agentic(64, SUMMARY, "output_sequence_lengths_full_run", value=None),
        "turn_tokens",
        "agentic",
    ),
    message(
        "agentic-osl-range:fail",
        edit_agentic(
            64, SUMMARY, "output_sequence_lengths_full_run", value=lambda each: scaled(each, 0.5)
        ),
        "turn_tokens",
        "agentic",
    ),
    # speculative decoding
    message("approved-drafter:fail-2", speculate(weight_checksum="sha256:0"), "drafter"),
    message(
        "approved-drafter:fail",
        both(
            at_points(lambda each: edit_point(each, "model_name", value="llama3_1-8b")),
            speculate(**APPROVED),
            rename_model("llama3_1-8b"),
        ),
        "drafter",
    ),
    message(
        "drafter-approval-lead-time:fail",
        both(speculate(**APPROVED), edit_point(64, "target_cohort", value="2026-10-C0")),
        "drafter",
    ),
    message(
        "drafter-approval-lead-time:warn",
        both(speculate(**APPROVED), edit_point(64, "target_cohort", value="soon")),
        "disclosure",
    ),
    # the curve
    message(
        "benchmark-type-consistency:fail",
        edit_point(64, "runtime_settings", "load_pattern", value="agentic_inference"),
        "consistency",
    ),
    message("c-min-override:invalid", edit_systems("c_min_override", 33), "regions"),
    message("c-min-override:missing-declaration", edit_system("c_min_override", 1), "regions"),
    message(
        "c-min-override:inconsistent",
        both(edit_systems("c_min_override", 1), edit_system("c_min_override", 6)),
        "regions",
    ),
    message("c-min-override:missing-point", edit_systems("c_min_override", 3), "regions"),
    message(
        "concurrency-in-range:fail",
        both(edit_point(128, "concurrency", value=900), rename_point("r128", "r900")),
        "regions",
    ),
    message(
        "config-consistency-dataset:fail", edit_point(64, "dataset", value="other"), "consistency"
    ),
    message(
        "config-consistency-model:fail",
        edit_point(64, "model_name", value="llama3_1-8b"),
        "consistency",
    ),
    message(
        "high-concurrency-coverage:fail",
        both(*(remove(*in_curve(f"r{each}")) for each in (64, 128, 256))),
        "regions",
    ),
    message(
        "med-concurrency-coverage:fail",
        both(remove(*in_curve("r16")), remove(*in_curve("r30"))),
        "regions",
    ),
    message("low-concurrency-coverage:fail", remove(*in_curve("r6")), "regions"),
    message(
        "ultra-low-concurrency-coverage:fail",
        both(*(remove(*in_curve(f"r{each}")) for each in (1, 6, 16, 30))),
        "regions",
    ),
    message("model-name-consistency:fail", rename_model("gpt-oss-120b"), "model_name"),
    message(
        "model-name-consistency:warn",
        at_points(lambda each: edit_point(each, "model_name", value=None)),
        "disclosure",
    ),
    message(
        "model-name-valid:fail",
        at_points(lambda each: edit_point(each, "model_name", value="other-7b")),
        "model_name",
    ),
    message(
        "model-name-valid:noncanonical",
        both(
            at_points(lambda each: edit_point(each, "model_name", value="llama3.1-8b")),
            rename_model("llama3_1-8b"),
        ),
        "model_name",
    ),
    message("offline-declared:fail", edit_point(256, "offline", value="maybe"), "disclosure"),
    message("offline-ordering:warn-2", slow_offline, "offline_ordering", "dedicated"),
    message(
        "offline-ordering:warn",
        both(
            edit_systems("max_supported_concurrency", 4500),
            edit_file(DATA_SET, SYSTEM_FILE, "max_supported_concurrency", value=4500),
        ),
        "offline_ordering",
        "dedicated",
    ),
    message(
        "offline-point-present:fail", edit_point(64, "offline", value="elected"), "offline_present"
    ),
    message(
        "offline-point-present:fail-2", edit_point(256, "offline", value="none"), "offline_present"
    ),
    message(
        "offline-point-present:fail-3",
        edit_point(256, "offline", value="elected", model=AGENTIC),
        "offline_present",
        "agentic",
    ),
    message(
        "offline-point-present:fail-4",
        both(edit_point(256, "offline", value="none"), edit_point(128, "offline", value="elected")),
        "offline_present",
    ),
    message("point-cap:fail", copies, "cap"),
    message("point-count:fail", remove(*in_curve("r64")), "points"),
    message("point-dirname-concurrency:warn", rename_point("r64", "r63"), "point_name"),
    message("point-dirs:fail-2", empty_curve, "round.known"),
    message("region-basis:warn", edit_systems("max_supported_concurrency", None), "system_fields"),
    message(
        "region-computation:c-max-too-low", edit_systems("max_supported_concurrency", 30), "regions"
    ),
    message("region-declared:fail", edit_point(64, "region", value="fast"), "disclosure"),
    message("region-placement:warn", edit_point(64, "region", value="low_latency"), "region_name"),
    message(
        "system-description-consistency:fail",
        edit_file(64, SYSTEM_FILE, "node_types", 0, "driver", value="2.0"),
        "consistency",
    ),
    message(
        "tps-utilization:fail",
        both(state_more, edit_system("tps_utilization", 0.99)),
        "utilization",
        "dedicated",
    ),
    # a point
    message("config-file-present:fail", remove(*in_curve("r64", "config.yaml")), "point_files"),
    message("config-file-present:invalid", write_point_file("config.yaml", "5\n"), "file.shape"),
    message(
        "load-pattern:fail",
        edit_point(64, "runtime_settings", "load_pattern", value="poisson"),
        "point_load",
    ),
    message("load-pattern:fail-2", edit_point(64, "concurrency", value=0), "point_load"),
    message(
        "measurement-points-present:fail-2",
        remove(*in_curve("r64", "point.yaml")),
        "file.present",
    ),
    message(
        "measurement-points-present:fail",
        at_points(lambda each: remove(*in_curve(f"r{each}", "point.yaml"))),
        "file.present",
    ),
    message(
        "metric-consistency-accounting:fail",
        edit_file(64, SUMMARY, "n_samples_failed", value=30),
        "failed",
    ),
    message(
        "metric-consistency-duration:fail", edit_file(64, SUMMARY, "duration_ns", value=0), "window"
    ),
    message(
        "metric-consistency-output-tokens:fail",
        edit_file(64, SUMMARY, "output_sequence_lengths", "total", value=-5),
        "series",
    ),
    message(
        "metric-consistency-system-tps:fail",
        edit_file(64, SUMMARY, "system_tps", value=1.0),
        "derived",
    ),
    message(
        "metric-consistency-tpot-p90:fail",
        drop(SUMMARY, "tpot", "percentiles", "90.0"),
        "derived",
    ),
    message(
        "metric-consistency-tpot-p90:fail-2",
        edit_file(64, SUMMARY, "tpot", "percentiles", "90.0", value=0.0),
        "series",
    ),
    message(
        "metric-consistency-tps-per-kw:fail",
        edit_file(64, SUMMARY, "system_tps_per_kw", value=1.0),
        "per_kw",
    ),
    message(
        "metric-consistency-tps-per-user:fail",
        edit_file(64, SUMMARY, "tps_per_user", value=1.0),
        "derived",
    ),
    message("min-query-count:fail", edit_point(64, "dataset", value="cnn_dailymail"), "data_set"),
    message(
        "point-config-valid:warmup-completed-exceeds-issued~exceeds",
        edit_point(64, "warmup", "requests_completed", value=101),
        "warm_up",
    ),
    message(
        "point-config-valid:warmup-concurrency-zero~positive",
        edit_point(64, "warmup", "concurrency", value=0),
        "warm_up",
    ),
    message(
        "point-disclosure-complete:fail", edit_point(64, "dataset_link", value=""), "disclosure"
    ),
    message("point-duration:warn", hasten(128), "point_duration"),
    message("point-rules-skipped:warn", write_point_file("point.yaml", "5\n"), "file.shape"),
    message(
        "result-file-valid:percentile-key",
        edit_file(64, SUMMARY, "ttft", "percentiles", "high", value=1.0),
        "series",
    ),
    message(
        "result-file-valid:percentile-conflict",
        edit_file(64, SUMMARY, "ttft", "percentiles", "90", value=1.0),
        "series",
    ),
    message("result-summary-present:fail", remove(*in_curve("r64", SUMMARY)), "file.present"),
    message(
        "warmup-logs-retained:warn",
        edit_point(64, "warmup", "logs_retained", value=False),
        "warm_up",
    ),
    message(
        "warmup-logs-retained:warn-2",
        edit_point(64, "warmup", "logs_retained", value=None),
        "warm_up",
    ),
    message("warmup-present:fail", edit_point(64, "warmup", value=None), "warm_up"),
    message("warmup-salt:warn", edit_point(64, "runtime_settings", "warmup", value={"salt": True})),
    # seeds
    message(
        "seed-config-legacy:fail",
        both(
            edit_point(64, "seed_set", value=None),
            edit_point(64, "runtime_settings", "runtime", value={"scheduler_random_seed": 7}),
        ),
        "disclosure",
    ),
    message(
        "seed-config-legacy:warn",
        both(
            edit_point(64, "seed_set", value=None),
            edit_point(64, "runtime_settings", "runtime", value={"scheduler_random_seed": 42}),
        ),
        "disclosure",
    ),
    message(
        "seed-runtime-match:fail",
        edit_point(64, "runtime_settings", "runtime", "model_seed", value=42),
        "seed_set",
    ),
    message(
        "seed-runtime-match:warn",
        edit_point(64, "runtime_settings", "runtime", value={"scheduler_random_seed": 42}),
        "seed_set",
    ),
    message(
        "seed-set-adoption:fail",
        at_points(lambda each: edit_point(each, "target_cohort", value="2027-01-C0")),
        "same_seeds",
    ),
    message("seed-set-consistency:fail", edit_point(64, "seed_set", value="B"), "same_seeds"),
    message(
        "seed-set-membership:fail",
        at_points(lambda each: edit_point(each, "seed_set", value="B")),
        "seed_set",
    ),
    message("target-cohort:fail", edit_point(64, "target_cohort", value="soon"), "disclosure"),
    # the steady window
    message(
        "steady-state-basis:warn-2",
        set_window(256, {"status": "insufficient_duration", "verdict": "not found"}),
    ),
    message(
        "steady-state-basis:drifting-metrics",
        set_window(256, {**STEADY, "verdict": "drifting_up", "state": {"tpot_p90": "Drifting Up"}}),
        "steady_window",
    ),
    message(
        "steady-state-consistency:fail~needs",
        set_window(256, {**STEADY, "window": {**WINDOW, "super_pass_end": 2}}),
        "steady_window",
    ),
    message(
        "steady-state-consistency:fail~drifting",
        set_window(256, {**STEADY, "state": {"tpot_p90": "Drifting Up"}}),
        "steady_window",
    ),
    message(
        "steady-state-consistency:fail~insufficient_passes",
        set_window(256, {**STEADY, "status": "insufficient_passes"}),
        "steady_window",
    ),
    message(
        "steady-state-valid:fail~status",
        set_window(256, {**STEADY, "status": "good"}),
        "steady_window",
    ),
    message(
        "steady-state-valid:fail~verdict",
        set_window(256, {**STEADY, "verdict": "good"}),
        "steady_window",
    ),
    message(
        "steady-state-valid:fail~state[",
        set_window(256, {**STEADY, "state": {"tpot_p90": "Flat"}}),
        "steady_window",
    ),
    # power
    message("maximal-engagement:fail", edit_system("tensor_parallel", 0), "engagement"),
    message("maximal-engagement:fail-2", edit_system("data_parallel", 4), "engagement"),
    message("maximal-engagement:fail-3", edit_system("tensor_parallel", 4), "engagement"),
    message(
        "maximal-engagement:fail-4",
        both(
            edit_system("tensor_parallel", 4),
            edit_point(64, "dp_shortfall", value={"dp_actual": 1, "dp_formula": 3, "reason": "x"}),
        ),
        "engagement",
    ),
    message(
        "maximal-engagement:warn-5",
        both(
            edit_system("tensor_parallel", 4),
            edit_point(64, "dp_shortfall", value={"dp_actual": 1, "dp_formula": 2, "reason": "x"}),
        ),
    ),
    message(
        "maximal-engagement:shortfall-unneeded",
        edit_point(64, "dp_shortfall", value={"dp_actual": 1, "dp_formula": 1, "reason": "x"}),
        "engagement",
    ),
    message(
        "maximal-engagement:warn",
        both(
            *(
                drop(SYSTEM_FILE, f"{name}_parallel")
                for name in ("tensor", "pipeline", "expert", "data")
            )
        ),
    ),
    message("maximal-engagement:warn-2", edit_system("disaggregated", True)),
    message(
        "maximal-engagement:warn-3",
        both(
            edit_nodes("accelerator_info", [{"accelerator_model_name": "Some GPU"}]),
            edit_set("power_method", value="published_system"),
            edit_set("published_power", value=quote_watts(6000)),
            edit_set("components", value=None),
        ),
    ),
    message(
        "nodes-used:fail~declared twice",
        edit_point(64, "nodes_used", value=[dict(NODES), dict(NODES)]),
        "nodes_used",
    ),
    message(
        "nodes-used:fail~matches 0",
        edit_point(64, "nodes_used", value=[{**NODES, "system_node_ensemble_id": 9}]),
        "nodes_used",
    ),
    message(
        "nodes-used:fail~positive whole number",
        edit_point(64, "nodes_used", value=[{**NODES, "nodes": 2}]),
        "nodes_used",
    ),
    message(
        "power-descriptor:fail", remove("results", SYSTEM, "system_power.json"), "file.present"
    ),
    message("power-descriptor:fail-2", edit_power("cooling", value="air"), "power"),
    message(
        "power-descriptor:warn",
        edit_set("system_node_ensemble_id", value=7),
        "power_sources",
    ),
    message(
        "power-descriptor:computation-problem~overhead_fraction",
        edit_power("computed", value={"overhead_fraction": 0.1}),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~recomputed",
        edit_power("computed", value={"total_system_power_w": 1.0}),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~provisioned_power_kw",
        edit_power("provisioned_power_kw", value=1.0),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~unique",
        edit_power("node_sets", value=lambda each: each * 2),
        "power",
    ),
    message(
        "power-descriptor:value-count~exactly one",
        edit_part("cpu", "tdp_per_unit", value={**quote_watts(350), "value_kw": 0.35}),
        "power_sources",
    ),
    message(
        "power-descriptor:source-not-url~URL",
        edit_part("cpu", "tdp_per_unit", "source", value="the datasheet"),
        "power_sources",
    ),
    message(
        "power-descriptor:mlc-default-source~Appendix",
        edit_part("cpu", "tdp_per_unit", value={**quote_watts(350), "source_type": "mlc_default"}),
        "power_sources",
    ),
    message(
        "power-descriptor:computation-warning~present is true",
        edit_power("scale_out", value=SCALE_OUT),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~but cabling is missing",
        connect_nodes(cabling=None),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~is false",
        edit_set("nodes_provisioned", value=2),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~below the",
        connect_nodes(required_bandwidth_tbps=1.0),
        "power",
    ),
    message(
        "power-descriptor:computation-warning~above the",
        connect_nodes(required_bandwidth_tbps=20.0),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~switches offer",
        connect_nodes(switches=[{**SWITCH, "bandwidth_tbps": 1.0}]),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~counted is false",
        connect_nodes(nics={**NICS, "counted": False}),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~counted is true",
        both(
            connect_nodes(),
            edit_set("power_method", value="published_system"),
            edit_set("published_power", value=quote_watts(6000)),
        ),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~node_scaling requires",
        both(
            edit_set("power_method", value="node_scaling"),
            edit_set("published_power", value=quote_watts(6000)),
        ),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~mutually exclusive",
        edit_part("combined_cpu_accelerator", value=quote_watts(3000)),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~declared_tdp requires",
        edit_part("scale_up_network", value={"method": "declared_tdp"}),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~bandwidth_estimate requires",
        edit_part("scale_up_network", value={"method": "bandwidth_estimate"}),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~energy_per_bit_pj is absent",
        edit_part(
            "scale_up_network",
            value={"method": "bandwidth_estimate", "aggregate_bandwidth_tbps": 14.4},
        ),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~must give value_pj",
        edit_part(
            "scale_up_network",
            value={
                "method": "bandwidth_estimate",
                "aggregate_bandwidth_tbps": 14.4,
                "energy_per_bit_pj": quote_watts(5),
            },
        ),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~is an energy figure",
        edit_part("cpu", "tdp_per_unit", value={"value_pj": 5, **quote_watts(1), "value_w": None}),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~no default for it",
        edit_part("accelerator", "tdp_per_unit", value=None),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~scale_up_network is required",
        lambda root: edited(
            "system_power.json",
            "node_sets",
            0,
            "components",
            value=lambda each: {k: v for k, v in each.items() if k != "scale_up_network"},
        )(root / "results" / SYSTEM),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~requires components",
        edit_set("components", value=None),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~requires published_power",
        edit_set("power_method", value="published_system"),
        "power",
    ),
    message(
        "power-descriptor:computation-problem~needs cpu and accelerator",
        edit_part("cpu", value=None),
        "power",
    ),
    message(
        "power-estimated:warn",
        both(
            edit_nodes(
                "accelerator_info",
                [{"accelerator_model_name": "NVIDIA B200", "accelerators_per_node": 8}],
            ),
            edit_part("accelerator", value={"model": "NVIDIA B200", "count_per_node": 8}),
        ),
        "power",
    ),
    # the submission
    message("required-dir:fail", remove("docs"), "tree"),
    message("src-dir:fail", remove("src"), "tree"),
    message("src-dir:fail-2", remove("src", "vllm"), "tree"),
    message("src-readme:fail", remove("src", "vllm", "README.md"), "tree"),
    message(
        "shared-path-resolution:fail", edit_point(64, "shared_src", value="../x"), "shared_paths"
    ),
    message("benchmark-model-dir:fail", remove("results", SYSTEM, "deepseek-r1"), "round.known"),
    message("system-results-dir:fail", remove("results", SYSTEM), "round.known"),
    message(
        "system-description-present:fail-2", remove(*in_curve("r64", SYSTEM_FILE)), "point_files"
    ),
    message(
        "system-description-valid:core-count-missing",
        edit_nodes("host_processor_core_count", None),
        "system_fields",
    ),
    message(
        "system-description-valid:division-unknown", edit_systems("division", "Open"), "consistency"
    ),
    message(
        "system-description-valid:availability-unknown",
        edit_systems("system_availability_status", "Soon"),
        "system_status",
    ),
    message(
        "system-description-valid:availability-conflict",
        edit_systems("publication_status", "Preview"),
        "system_status",
    ),
    message(
        "system-description-valid:availability-url-missing",
        edit_systems("availability_url", ""),
        "system_status",
    ),
    message(
        "system-description-valid:availability-date-missing",
        edit_systems("system_availability_status", "Preview"),
        "system_status",
    ),
    message(
        "system-description-valid:availability-date-invalid",
        both(
            edit_systems("system_availability_status", "Preview"),
            edit_systems("target_availability_date", "next spring"),
        ),
        "system_status",
    ),
    message(
        "system-description-valid:shortened-name-empty",
        edit_systems("shortened_system_name", " "),
        "system_fields",
    ),
    message(
        "system-description-valid:shortened-name-too-long",
        edit_systems("shortened_system_name", "x" * 21),
        "system_fields",
    ),
)
