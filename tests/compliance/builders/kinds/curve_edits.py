"""Edits of an honest submission of a curve: forged ones, doubtful ones, and other ways to write the
same.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from kinds.endpoints import edited, scaled
from kinds.endpoints_curves import (
    DATA_SET,
    SUMMARY,
    copy_accuracy,
    copy_summary,
    edit_file,
    edit_point,
    quote_watts,
    remove,
)

CURVE = Path("results/box/deepseek-r1")
Edit = Callable[[Path], object]


def change_summary(*path: str, value: Any) -> Edit:
    return edit_file(64, SUMMARY, *path, value=value)


def change_counts(root: Path) -> None:
    change_summary("n_samples_issued", value=DATA_SET - 1)(root)
    change_summary("n_samples_completed", value=DATA_SET - 1)(root)


def halve_duration(root: Path) -> None:
    change_summary("duration_ns", value=lambda each: each // 2)(root)
    for name in ("qps", "tps"):
        change_summary(name, value=lambda each: each * 2)(root)


def shorten_without_settings(root: Path) -> None:
    """Five times the throughput, where the run does not say its concurrency."""
    for name in ("duration_ns", "qps", "tps"):
        factor = 0.2 if name == "duration_ns" else 5
        change_summary(name, value=lambda each, factor=factor: type(each)(each * factor))(root)
    change_summary("run_config", value={})(root)


def edit_power(*path: str | int, value: Any) -> Edit:
    """Change one value of the system's description of power."""
    return lambda root: edited("system_power.json", *path, value=value)(root / "results" / "box")


def lengthen_answers(root: Path) -> None:
    change_summary("output_sequence_lengths", value=lambda each: scaled(each, 3.0))(root)
    change_summary("tps", value=lambda each: each * 3)(root)


def scale_series(name: str, factor: float, *whole: str) -> Edit:
    """Multiply a series by a factor, in whole numbers if it is one of lengths."""

    def change(root: Path) -> None:
        change_summary(name, value=lambda each: scaled(each, factor))(root)
        for path in whole:
            change_summary(name, path, value=round)(root)

    return change


def write_report(root: Path, **changed: str) -> None:
    """Write the client's report beside a summary, with some of its lines replaced."""
    folder = root / CURVE / "r64"
    summary = json.loads((folder / SUMMARY).read_text())
    lines = {
        "Total samples issued": f"{summary['n_samples_issued']}",
        "Duration": f"{summary['duration_ns'] / 1e9:.2f} seconds",
        "QPS": f"{summary['qps']:.2f}",
        "TPS": f"{summary['tps']:.2f}",
    }
    text = ["----------------- Summary -----------------", "Version: 0.1.0"]
    text += [f"{name}: {changed.get(name, each)}" for name, each in lines.items()]
    for title, name in (("TTFT", "ttft"), ("Latency", "latency")):
        found = summary[name]
        median = changed.get(title, f"{found['median'] / 1e6:.2f} ms")
        text += ["", f"{title}:", f"  Min: {found['min'] / 1e6:.2f} ms", f"  Median: {median}"]
        text += [f"  Avg.: {found['avg'] / 1e6:.2f} ms", "", "  Percentiles:"]
        text += [f"  {key:>6}: {value / 1e6:.2f} ms" for key, value in found["percentiles"].items()]
    (folder / "report.txt").write_text("\n".join(text) + "\n")


def at_each_point(name: str, field: str, value: object) -> Edit:
    """Change one field of the same file of each point."""

    def change(root: Path) -> None:
        for each in (1, 6, 16, 30, 64, 128, 256):
            path = (field,) if name == "point.yaml" else (name, field)
            edit = edit_point if name == "point.yaml" else edit_file
            edit(each, *path, value=value)(root)

    return change


def edit_settings(concurrency: int, name: str, value: Any) -> Edit:
    """Change one setting of the client at a point."""

    def change(root: Path) -> None:
        path = root / CURVE / f"r{concurrency}" / "config.yaml"
        document = yaml.safe_load(path.read_text())
        document["settings"]["runtime"][name] = value
        path.write_text(yaml.safe_dump(document))

    return change


def configure_data(root: Path) -> None:
    """Configure a point with another benchmark's data."""
    path = root / CURVE / "r64" / "config.yaml"
    document = yaml.safe_load(path.read_text())
    document["datasets"] = [{"name": "cnn_dailymail::llama3_8b", "type": "performance"}]
    path.write_text(yaml.safe_dump(document))


def count_otherwise(root: Path) -> None:
    """Prompts of a point are counted by another build of the client."""
    change_summary("version", value="0.2.0")(root)
    scale_series("input_sequence_lengths", 2)(root)


def end_by_length(root: Path) -> None:
    change_summary("finish_reason_counts", value={"stop": 0, "length": DATA_SET})(root)


def claim_concurrency(measured: int, claimed: int) -> Edit:
    """Claim more requests in flight than a point's run had, in each of its files."""

    def change(root: Path) -> None:
        home = root / CURVE / f"r{measured}"
        pattern = ("load_pattern", "target_concurrency")
        edited(SUMMARY, "run_config", *pattern, value=claimed)(home)
        edit_point(measured, "concurrency", value=claimed)(root)
        config = home / "config.yaml"
        config.write_text(
            config.read_text().replace(
                f"target_concurrency: {measured}\n", f"target_concurrency: {claimed}\n"
            )
        )
        home.rename(home.with_name(f"r{claimed}"))

    return change


def lengthen_without_settings(root: Path) -> None:
    """Twice the duration, where the run does not say its concurrency."""
    change_summary("duration_ns", value=lambda each: each * 2)(root)
    for name in ("qps", "tps"):
        change_summary(name, value=lambda each: each / 2)(root)
    change_summary("run_config", value={})(root)
    (root / CURVE / "r64" / "config.yaml").unlink()


def edit_accuracy(name: str, value: Any) -> Edit:
    return edit_file(30, "accuracy_results.json", "accuracy_scores", 0, name, value=value)


def edit_part(*path: str, value: Any) -> Edit:
    return edit_power("node_sets", 0, "components", *path, value=value)


def name_model(name: str) -> Edit:
    """Configure a point with a model of this name."""

    def change(root: Path) -> None:
        path = root / CURVE / "r64" / "config.yaml"
        document = yaml.safe_load(path.read_text())
        document["model_params"]["name"] = name
        path.write_text(yaml.safe_dump(document))

    return change


def describe_nodes(name: str, value: object) -> Edit:
    """Change one field of the nodes in each description of the system."""

    def change(root: Path) -> None:
        for each in sorted(root.glob("results/*/*/r*")):
            edited("system_desc.json", "node_types", 0, name, value=value)(each)

    return change


ACCELERATOR = {"model": "NVIDIA B200", "count_per_node": 8}


def describe_other_accelerator(root: Path) -> None:
    """Take the power of a smaller accelerator than the system has."""
    info = [{"accelerator_model_name": "NVIDIA B200", "accelerators_per_node": 8}]
    describe_nodes("accelerator_info", info)(root)
    part = {"model": "NVIDIA L4", "count_per_node": 8, "tdp_per_unit": quote_watts(72)}
    edit_part("accelerator", value=part)(root)


EDITS: dict[str, tuple[Edit, str]] = {
    "a model of another version": (name_model("deepseek-ai/DeepSeek-V2-Lite"), "model_name"),
    "a distilled model": (name_model("DeepSeek-R1-Distill-Qwen-7B"), "model_name"),
    "figures of no turns": (change_summary("e2e_avg_interactivity", value=1.0), "derived"),
    "twice the concurrency": (claim_concurrency(16, 32), "in_flight"),
    "the next concurrency": (claim_concurrency(1, 2), "in_flight"),
    "half as many again": (claim_concurrency(64, 96), "in_flight"),
    "a longer duration without settings": (lengthen_without_settings, "point_load"),
    "a steady window that is cut": (
        edit_point(256, "steady_state", "window", "duration_s", value=6300.0),
        "steady_window",
    ),
    "latencies of another run": (
        change_summary("latency", value=lambda each: scaled(each, 0.7)),
        "short_latencies",
    ),
    "another data set's accuracy": (edit_accuracy("dataset_name", "cnn_dailymail"), "data_set"),
    "accuracy of a part of another": (edit_accuracy("dataset_name", "aime25"), "data_set"),
    "accuracy of a data set of no benchmark": (
        edit_accuracy("dataset_name", "open_orca"),
        "data_set",
    ),
    "the same accuracy twice": (copy_accuracy, "same_accuracy"),
    "no processors": (edit_part("cpu", "count_per_node", value=0), "power_parts"),
    "another number of processors": (
        describe_nodes("host_processors_per_node", 4),
        "power_parts",
    ),
    "an accelerator below its rated power": (
        edit_part("accelerator", value={**ACCELERATOR, "tdp_per_unit": quote_watts(300)}),
        "power_parts",
    ),
    "another accelerator's rated power": (describe_other_accelerator, "power_parts"),
    "requests per second": (change_summary("qps", value=lambda each: each * 2), "rate"),
    "tokens per second": (change_summary("tps", value=lambda each: each * 10), "rate"),
    "half the duration": (halve_duration, "in_flight"),
    "latencies": (change_summary("latency", value=lambda each: scaled(each, 0.5)), "token_time"),
    "times per token": (change_summary("tpot", value=lambda each: scaled(each, 0.5)), "token_time"),
    "half the times to the first token": (scale_series("ttft", 0.5), "token_time"),
    "times per token, a little": (scale_series("tpot", 0.93), "token_time"),
    "half a deviation": (change_summary("tpot", "std_dev", value=lambda each: each / 2), "series"),
    "a higher deviation": (
        change_summary("latency", "std_dev", value=lambda each: each * 1.5),
        "series",
    ),
    "shorter prompts": (
        scale_series("input_sequence_lengths", 0.5, "total", "min", "max"),
        "series",
    ),
    "prompts of twice the length": (scale_series("input_sequence_lengths", 2), "input_lengths"),
    "prompts that add up to more": (
        change_summary("input_sequence_lengths", "total", value=lambda each: each * 2),
        "series",
    ),
    "another data set": (edit_point(64, "dataset", value="cnn_dailymail"), "data_set"),
    "a data set of no benchmark": (edit_point(64, "dataset", value="open_orca"), "data_set"),
    "another data set's title": (
        edit_point(64, "dataset_name", value="CNN/DailyMail 3.0.0"),
        "data_set",
    ),
    "a configured data set": (configure_data, "data_set"),
    "another median in the report": (
        lambda root: write_report(root, Latency="1.00 ms"),
        "report_text",
    ),
    "another rate in the report": (
        lambda root: write_report(root, TPS="99999.00"),
        "report_text",
    ),
    "a window of three fifths": (
        edit_point(256, "steady_state", "window", "duration_s", value=3864.0),
        "steady_window",
    ),
    "C_min of no point": (at_each_point("system_desc.json", "c_min_override", 3), "regions"),
    "longer answers": (lengthen_answers, "longer_than_allowed"),
    "one percentile": (
        change_summary("tpot", "percentiles", "90.0", value=lambda each: each * 0.7),
        "series",
    ),
    "what early stopping proves": (
        change_summary("ttft", "early_stopping_percentiles", "90.0", value=lambda each: each / 2),
        "early_stopping",
    ),
    "a histogram": (
        change_summary("latency", "histogram", "counts", value=lambda each: [*each[::-1]]),
        "histogram",
    ),
    "completed requests": (change_summary("n_samples_completed", value=4000), "counts"),
    "part of a pass": (change_counts, "whole_passes"),
    "a run that was stopped": (change_summary("state", value="interrupted"), "state"),
    "the run's seed": (
        change_summary("run_config", "dataloader_random_seed", value=42),
        "seed_set",
    ),
    "the disclosed seed": (
        edit_point(64, "runtime_settings", "runtime", "scheduler_rng_seed", value=42),
        "seed_set",
    ),
    "a fifth of the duration without run_config": (shorten_without_settings, "point_load"),
    "a second value of one percentile": (
        change_summary("tpot", "percentiles", value=lambda each: {"90": each["90.0"] - 1, **each}),
        "series",
    ),
    "a score that counts twice": (
        edit_file(
            30, "accuracy_results.json", "accuracy_scores", value=lambda each: [*each, each[0]]
        ),
        "accuracy_counts",
    ),
    "repeats that there are not": (
        edit_file(
            30,
            "accuracy_results.json",
            "accuracy_scores",
            0,
            value=lambda each: {**each, "unit_samples": each["total_samples"], "num_repeats": 8},
        ),
        "accuracy_counts",
    ),
    "no overhead": (edit_power("overhead_fraction", value=0.0), "power"),
    "another computed power": (
        edit_power("computed", value={"total_system_power_w": 1}),
        "power",
    ),
    "a set of nodes twice": (edit_power("node_sets", value=lambda each: each * 2), "power"),
    "accelerators that the system has not": (
        edit_power("node_sets", 0, "components", "accelerator", "count_per_node", value=4),
        "power",
    ),
    "the system described with more nodes": (
        edit_file(64, "system_desc.json", "node_types", 0, "number_of_nodes", value=2),
        "power",
    ),
    "replicas for which there is no room": (
        edit_file(64, "system_desc.json", "data_parallel", value=4),
        "engagement",
    ),
    "idle accelerators": (
        edit_file(64, "system_desc.json", "tensor_parallel", value=4),
        "engagement",
    ),
    "no C_min": (edit_file(64, "system_desc.json", "c_min_override", value=None), "regions"),
    "a division that is a list": (edit_point(64, "division", value=["RDI"]), "disclosure"),
    "a window without its place": (
        edit_point(64, "steady_state", value={"status": "windowable", "window": None}),
        "steady_window",
    ),
    "the whole submission as sources": (edit_point(64, "shared_src", value="."), "shared_paths"),
    "a path of 5,000 characters": (
        edit_point(64, "shared_docs", value="docs/" + "d" * 5000),
        "shared_paths",
    ),
    "an unknown set of seeds": (edit_point(64, "seed_set", value="B"), "seed_set"),
    "a set that is too old": (
        at_each_point("point.yaml", "target_cohort", "2027-01-C0"),
        "same_seeds",
    ),
    "a cohort that does not exist": (
        edit_point(64, "target_cohort", value="2026-13-C0"),
        "disclosure",
    ),
    "the run's concurrency": (
        change_summary("run_config", "load_pattern", "target_concurrency", value=32),
        "point_load",
    ),
    "the disclosed concurrency": (edit_point(64, "concurrency", value=100), "point_load"),
    "the highest concurrency": (
        edit_point(64, "max_supported_concurrency", value=512),
        "regions",
    ),
    "a low accuracy": (
        edit_file(30, "accuracy_results.json", "accuracy_scores", 0, "score", value=70.0),
        "point_accuracy",
    ),
    "an accuracy above all": (
        edit_file(30, "accuracy_results.json", "accuracy_scores", 0, "score", value=101.0),
        "point_accuracy",
    ),
    "part of the accuracy set": (
        edit_file(30, "accuracy_results.json", "accuracy_scores", 0, "total_samples", value=438),
        "accuracy_counts",
    ),
    "no accuracy": (remove(*CURVE.parts, "r30", "accuracy_results.json"), "accuracy_points"),
    "another point's result": (copy_summary(128, 64), "same_summary"),
    "a window of other samples": (
        edit_point(256, "steady_state", "window", "n_samples", value=999),
        "steady_window",
    ),
    "a window longer than the run": (
        edit_point(256, "steady_state", "window", "duration_s", value=1e6),
        "steady_window",
    ),
    "a window of three passes": (
        edit_point(256, "steady_state", "window", "super_pass_end", value=2),
        "steady_window",
    ),
    "a window that drifts": (
        edit_point(256, "steady_state", "state", "tpot_p90", value="Drifting Up"),
        "steady_window",
    ),
    "stated throughput": (change_summary("system_tps", value=1e5), "derived"),
    "stated rate of a user": (change_summary("tps_per_user", value=1e5), "derived"),
    "stated throughput per kW": (change_summary("system_tps_per_kw", value=1e5), "per_kw"),
    "stated share": (
        edit_file(64, "system_desc.json", "tps_utilization", value=0.951),
        "utilization",
    ),
    "a missing point": (remove(*CURVE.parts, "r64"), "points"),
    "no Offline result": (edit_point(256, "offline", value="none"), "offline_present"),
    "Offline at another place": (edit_point(64, "offline", value="elected"), "offline_present"),
    "no power": (remove("results", "box", "system_power.json"), "power"),
    "no README": (remove("src", "vllm", "README.md"), "tree"),
    "a path out of the tree": (edit_point(64, "shared_docs", value="../../docs"), "shared_paths"),
    "an unknown division": (edit_point(64, "division", value="Closed"), "disclosure"),
    "another benchmark": (edit_point(64, "model_name", value="gpt-oss-120b"), "model_name"),
    "more reasons to end than answers": (
        change_summary("finish_reason_counts", "stop", value=99_999),
        "finish",
    ),
}


def edit_client(concurrency: int, name: str, value: object) -> Edit:
    """Change one setting of the client's own at a point."""

    def change(root: Path) -> None:
        path = root / CURVE / f"r{concurrency}" / "config.yaml"
        document = yaml.safe_load(path.read_text())
        document["settings"]["client"] = {name: value}
        path.write_text(yaml.safe_dump(document))

    return change


def copy_untimed_accuracy(root: Path) -> None:
    path = ("accuracy_results.json", "accuracy_scores", 0)
    edit_file(6, *path, value=lambda each: {**each, "duration_s": None})(root)
    text = (root / CURVE / "r6" / "accuracy_results.json").read_text()
    for each in (6, 30):
        (root / CURVE / f"r{each}" / "accuracy_results.json").write_text(
            text.replace('"duration_s":null,', "").replace('"duration_s": null,', "")
        )


def fail_requests(root: Path) -> None:
    """As the client writes it: the failed are among the completed, and have no reason to end."""
    change_summary("n_samples_failed", value=30)(root)
    change_summary("finish_reason_counts", "stop", value=DATA_SET - 30)(root)


HARMLESS: dict[str, tuple[Edit, str]] = {
    "an accuracy run in half a second": (edit_accuracy("duration_s", 0.5), "accuracy_time"),
    "failed requests": (fail_requests, "failed"),
    "no configuration": (remove(*CURVE.parts, "r64", "config.yaml"), "point_files"),
    "no warm-up": (edit_point(64, "warmup", value=None), "warm_up"),
    "logs of the warm-up": (edit_point(64, "warmup", "logs_retained", value=False), "warm_up"),
    "fields of the warm-up": (edit_point(64, "warmup", "data_source", value=None), "warm_up"),
    "chunks that are not counted": (
        edit_point(64, "runtime_settings", "stream_all_chunks", value=False),
        "point_load",
    ),
    "chunks that the client did not count": (
        edit_client(64, "stream_all_chunks", False),
        "point_load",
    ),
    "a concurrency a little higher": (claim_concurrency(64, 67), "in_flight"),
    "a limited accelerator": (
        edit_part("accelerator", value={**ACCELERATOR, "tdp_per_unit": quote_watts(800)}),
        "power_parts",
    ),
    "an accelerator by another number": (
        lambda root: (
            edit_part("accelerator", "model", value="GPU 5")(root),
            describe_nodes(
                "accelerator_info",
                [{"accelerator_model_name": "GPU 6", "accelerators_per_node": 8}],
            )(root),
        ),
        "power_parts",
    ),
    "a rated power without a source": (
        edit_part("accelerator", "tdp_per_unit", value={"value_w": 700}),
        "power_parts",
    ),
    "the same accuracy of builds that state no time": (copy_untimed_accuracy, "same_accuracy"),
    "the name of a region": (edit_point(64, "region", value="med_concurrency"), "region_name"),
    "another precision": (edit_point(64, "model_precision", value="int4"), "consistency"),
    "prompts as another build counts them": (count_otherwise, "input_lengths"),
    "answers that all end by their length": (end_by_length, "length_ends"),
    "a shortest time of a millisecond": (
        edit_settings(64, "min_duration_ms", 1),
        "point_duration",
    ),
    "a disclosed shortest time": (
        edit_point(64, "runtime_settings", "min_duration_ms", value=1),
        "point_duration",
    ),
}


def rename_percentiles(root: Path) -> None:
    """Some builds of the client write 90 for 90.0."""
    for name in ("ttft", "tpot"):
        change_summary(
            name,
            "percentiles",
            value=lambda each: {key.removesuffix(".0"): value for key, value in each.items()},
        )(root)


ROUNDED: dict[str, Edit] = {
    "a fraction, as the client's own scorers write it": edit_file(
        30, "accuracy_results.json", "accuracy_scores", 0, "score", value=0.812
    ),
    "percentiles by other names": rename_percentiles,
    "a share in two digits": edit_file(256, "system_desc.json", "tps_utilization", value=1.0),
    "the region's word": edit_point(64, "region", value="high_concurrency"),
    "fields of the point's own": edit_file(
        64, "system_desc.json", "config_summary", value="another batch size"
    ),
    "null for what is not measured": change_summary("output_sequence_lengths_full_run", value=None),
    "the client's report": write_report,
    "a report of other words": lambda root: (root / CURVE / "r64" / "report.txt").write_text(
        "Run of Monday\nQPS: N/A\n\nGPU:\n  Min: 3.00 ms\n"
    ),
    "a whole data set by its setting": edit_settings(64, "min_duration_ms", 0),
    "a point in the place of C_min": at_each_point("system_desc.json", "c_min_override", 1),
    "the data set's title": at_each_point("point.yaml", "dataset_name", "MLPerf DeepSeek-R1: GPQA"),
    "the accelerator by more of its name": lambda root: (
        edit_part("accelerator", value={**ACCELERATOR, "tdp_per_unit": quote_watts(1000)})(root),
        describe_nodes(
            "accelerator_info",
            [{"accelerator_model_name": "B200-SXM-180GB", "accelerators_per_node": 8}],
        )(root),
    ),
    "processors as text": describe_nodes("host_processors_per_node", "2"),
    "a part of the accuracy data": edit_accuracy("dataset_name", "livecodebench"),
    "accuracy data of an unknown name": edit_accuracy("dataset_name", "evaluation set"),
    "an accuracy run that was not timed": edit_accuracy("duration_s", 0.0),
    "a time that is text": edit_accuracy("duration_s", "some hours"),
    "an accuracy run with more requests in flight": edit_file(
        6, "accuracy_results.json", "accuracy_scores", 0, "duration_s", value=120.0
    ),
    "a model by its path": name_model("/models/DeepSeek-R1-NVFP4-v2-mlpinf"),
    "nodes in use": edit_point(
        64, "nodes_used", value=[{"system_node_ensemble_id": 0, "nodes": 1}]
    ),
}
