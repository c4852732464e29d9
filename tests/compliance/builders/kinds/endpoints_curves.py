"""For each rule about submissions to MLPerf Endpoints one small tree that keeps it and one that
breaks it. Runs are simulated: a fixed number of requests in flight, and the files that the client
writes of them.

Source: mlcommons/endpoints, metrics; Endpoints rules v1.0, 5, 6 and 8.
"""

import json
import math
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import heapreplace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy
import yaml
from kinds.endpoints import edited, scaled, series
from making import LOADS, write_run
from spoiling import Builder, set_value
from system_records import put_system

from suite.files.layout import (
    DETAIL_LOG,
    START_RECORD_FILE,
    SYSTEM_RECORD,
    TOKEN_RECORD_FILE,
    USAGE_RECORD_FILE,
)
from suite.loadgen.scenario import Scenario
from suite.studies.client_summary import (
    CLIENT_SEEDS,
    SAMPLES_PER_QUERY_KEY,
    describe_client_run,
)
from suite.studies.concurrency_curve import LOCAL_CONCURRENCY_SETTING
from suite.studies.run_facts import read_run_facts

SEEDS: Final = {
    "scheduler_rng_seed": 10487924139932647040,
    "sample_index_rng_seed": 586478644936801402,
    "model_seed": 9315206023656308754,
}
RUN_SEEDS: Final = {
    "scheduler_random_seed": SEEDS["scheduler_rng_seed"],
    "dataloader_random_seed": SEEDS["sample_index_rng_seed"],
}
DATA_SET: Final = 4388
"""Samples of deepseek-r1."""
PERFORMANCE_DATA: Final = {"deepseek-r1": "deepseek_r1", "kimi-k3": "agentic"}
AGENTIC_TURNS: Final = 600
SCALING: Final = 0.8
"""The rate of all answers together grows with this power of the concurrency."""
ORGANISATION: Final = "acme"
SUBMISSION: Final = "s1"
SYSTEM: Final = "box"
PROVISIONED_KW: Final = 8.19
RECORDED_POINT: Final = 6
"""The point that podium measured, where one is."""
ISSUED_NS: Final = 1_000_000_000


@dataclass(kw_only=True, frozen=True)
class Curve:
    """A curve: which points it has, and what each measured."""

    model: str = "deepseek-r1"
    concurrencies: Sequence[int] = (1, 6, 16, 30, 64, 128, 256)
    accuracy_points: Sequence[int] = (1, 6, 30, 256)
    offline: str | None = "elected"
    """`dedicated`: a run of its own; `elected`: the highest point."""
    slow_point: int | None = None
    """A point of half the speed."""
    brief_point: int | None = None
    """A point whose answers have half of the tokens, in half of the time."""
    speed: float = 1.0
    """Answers come this many times as fast, but for those of the Offline run."""
    division: str = "Standardized"
    organisation: str = ORGANISATION
    passes: int = 5
    """Passes over the data set at the highest point; elsewhere there is one."""

    @property
    def agentic(self) -> bool:
        """Whether the benchmark is one of turns."""
        return self.model == "kimi-k3"

    @property
    def c_max(self) -> int:
        """The highest concurrency."""
        return max(self.concurrencies)


def submit(root: Path, curve: Curve = Curve(), system: str = SYSTEM) -> None:  # noqa: B008
    """Write a submission of one curve."""
    (root / "src" / "vllm").mkdir(parents=True, exist_ok=True)
    (root / "src" / "vllm" / "README.md").write_text("Start the server, then the client.\n")
    (root / "docs").mkdir(exist_ok=True)
    (root / "docs" / "software_disclosure.md").write_text("vLLM.\n")
    home = root / "results" / system
    for concurrency in curve.concurrencies:
        elected = curve.offline == "elected" and concurrency == curve.c_max
        write_point(home, curve, concurrency, "elected" if elected else None)
    if curve.offline == "dedicated":
        write_point(home, curve, DATA_SET, "dedicated")
    write_compact(home / "system_power.json", describe_power(system))


def write_point(home: Path, curve: Curve, concurrency: int, offline: str | None) -> None:
    """Write one point."""
    folder = home / curve.model / f"r{concurrency}"
    folder.mkdir(parents=True)
    own_run = offline == "dedicated"
    passes = curve.passes if concurrency == curve.c_max and not curve.agentic else 1
    samples = AGENTIC_TURNS if curve.agentic else DATA_SET * passes
    wanted_s: float = passes * (2600 if curve.agentic else 1300)
    if not own_run:
        wanted_s *= (curve.c_max / concurrency) ** SCALING / curve.speed
    if concurrency == curve.slow_point:
        wanted_s *= 2
    if concurrency == curve.brief_point:
        wanted_s /= 2
    summary = simulate_point(curve, concurrency, samples, wanted_s, own_run)
    write_compact(folder / "result_summary.json", summary)
    pattern = summary["run_config"]["load_pattern"]
    settings = {"runtime": RUN_SEEDS, "load_pattern": pattern}
    params = {"name": curve.model, "max_new_tokens": 1024, "streaming": "on"}
    write_yaml(folder / "config.yaml", {"model_params": params, "settings": settings})
    window_s = summary["duration_ns"] / 1e9 if passes >= 4 and not own_run else None
    write_yaml(folder / "point.yaml", disclose_point(curve, concurrency, offline, passes, window_s))
    write_compact(folder / "system_desc.json", describe_system(curve))
    measured = own_run or concurrency in curve.accuracy_points
    if measured or curve.agentic:
        scores = score_point(curve, measured, summary["duration_ns"] / 1e9)
        write_compact(folder / "accuracy_results.json", scores)


def simulate_point(
    curve: Curve, concurrency: int, samples: int, wanted_s: float, own_run: bool
) -> dict[str, Any]:
    """Simulate a run: as many requests in flight as asked, all the time but for its ends. In an
    Offline run all are, and are answered one after another.
    """
    latencies, firsts, lengths = draw_answers(curve, concurrency, samples, wanted_s, own_run)
    tokens = [
        (latency - first) / (length - 1)
        for latency, first, length in zip(latencies, firsts, lengths, strict=True)
    ]
    held = max(latencies) if own_run else sum(latencies) / concurrency
    duration = math.ceil(held * 1.002)
    latency_pattern = "agentic_inference" if curve.agentic else "concurrency"
    summary = {
        "version": "0.1.0",
        "git_sha": None,
        "test_started_at": 0,
        "n_samples_issued": samples,
        "n_samples_completed": samples,
        "n_samples_failed": 0,
        "duration_ns": duration,
        "state": "complete",
        "complete": True,
        "ttft": series(firsts),
        "tpot": series(tokens),
        "latency": series(latencies),
        "output_sequence_lengths": series(lengths, proven=False),
        "input_sequence_lengths": series(draw_input_lengths(samples), proven=False),
        "legacy_loadgen_window_duration_ns": None,
        "qps": samples / (duration / 1e9),
        "tps": sum(lengths) / (duration / 1e9),
        "finish_reason_counts": {"stop": samples, "length": 0, "other": 0},
        "run_config": {
            "load_pattern": {
                "type": "max_throughput" if own_run else latency_pattern,
                "target_qps": None,
                "target_concurrency": None if own_run else concurrency,
            },
            "warmup": {"enabled": False, "n_requests": None, "salt": False},
            **RUN_SEEDS,
        },
    }
    if curve.agentic:
        lengths_of_all = {"output_sequence_lengths": summary["output_sequence_lengths"]}
        summary["output_sequence_lengths_full_run"] = lengths_of_all
    return summary


def draw_answers(
    curve: Curve, concurrency: int, samples: int, wanted_s: float, own_run: bool = False
) -> tuple[list[int], list[int], list[int]]:
    """Draw the latencies of a run's answers, their times to the first token, and their lengths."""
    drawn = random.Random(concurrency)
    mean_ns = wanted_s * 1e9 * concurrency / samples
    low, high = (425, 515) if curve.agentic else (200, 600)
    if concurrency == curve.brief_point:
        low, high = low // 2, high // 2
    latencies, firsts, lengths = list[int](), list[int](), list[int]()
    for number in range(samples):
        length = drawn.randint(low, high)
        share = 0.4 + 0.6 * 2 * length / (low + high)
        latency = int(mean_ns * share * drawn.uniform(0.95, 1.05))
        if own_run:
            latency = int(wanted_s * 1e9 * (number + 1) / samples)
        latencies.append(latency)
        firsts.append(latency // 10)
        lengths.append(length)
    return latencies, firsts, lengths


def draw_input_lengths(samples: int) -> list[int]:
    """Lengths of prompts: those of the data set, again in each pass."""
    drawn = random.Random(1)
    lengths = [drawn.randint(50, 900) for _ in range(min(samples, DATA_SET))]
    return lengths * max(1, samples // DATA_SET)


def disclose_point(
    curve: Curve, concurrency: int, offline: str | None, passes: int, window_s: float | None
) -> dict[str, Any]:
    """What is disclosed of a point."""
    found = {
        "concurrency": concurrency,
        "region": "submitters_choice",
        "division": curve.division,
        "max_supported_concurrency": curve.c_max,
        "model_name": curve.model,
        "model_precision": "fp8",
        "link_to_model": "https://example.org/model",
        "dataset": PERFORMANCE_DATA[curve.model],
        "dataset_name": "Invented",
        "dataset_type": "Accuracy + Performance",
        "dataset_link": "https://example.org/data",
        "shared_src": "src/vllm",
        "shared_docs": "docs",
        "seed_set": "A",
        "target_cohort": "2026-11-C0",
        "runtime_settings": {
            "load_pattern": "agentic_inference" if curve.agentic else "concurrency",
            "min_duration_ms": 600_000,
            "stream_all_chunks": True,
            "runtime": SEEDS,
        },
        "warmup": {
            "duration_s": 60,
            "requests_issued": 100,
            "requests_completed": 100,
            "data_source": "random tokens",
            "concurrency": concurrency,
            "initialization_steps": [],
            "logs_retained": True,
        },
        "offline": offline or "none",
    }
    if window_s is not None:
        found["steady_state"] = {
            "status": "windowable",
            "verdict": "STEADY STATE",
            "window": {
                "super_pass_start": 0,
                "super_pass_end": passes - 1,
                "super_pass_size": DATA_SET,
                "n_samples": passes * DATA_SET,
                "duration_s": round(window_s * 0.99, 3),
            },
            "state": {"tpot_p50": "Plateau", "tpot_p90": "Plateau"},
        }
    return found


def describe_system(curve: Curve) -> dict[str, Any]:
    """A system of one node with eight accelerators."""
    node = {
        "system_node_ensemble_id": 0,
        "number_of_nodes": 1,
        "host_processor_model_name": "Some CPU",
        "host_processor_core_count": 64,
        "host_memory_configuration": "16 x 64 GB",
        "host_network_card_count": "1",
        "driver": "1.0",
        "filesystem": "ext4",
        "cooling": "liquid",
        "accelerator_info": [{"accelerator_model_name": "Some GPU", "accelerators_per_node": 8}],
    }
    return {
        "system_name": "Box",
        "shortened_system_name": "box",
        "system_availability_status": "Available",
        "availability_url": "https://example.org/box",
        "max_supported_concurrency": curve.c_max,
        "division": curve.division,
        "system_size": "1 node",
        "system_node_ensemble_count": 1,
        "system_node_ensemble_total": 1,
        "tensor_parallel": 8,
        "pipeline_parallel": 1,
        "expert_parallel": 1,
        "data_parallel": 1,
        "node_types": [node],
    }


def describe_power(system: str) -> dict[str, Any]:
    """Power of one node: two CPUs and eight accelerators, cooled by liquid: 8,190 W."""
    components = {
        "cpu": {"model": "Some CPU", "count_per_node": 2, "tdp_per_unit": quote_watts(350)},
        "accelerator": {"model": "Some GPU", "count_per_node": 8, "tdp_per_unit": quote_watts(700)},
        "scale_up_network": {"method": "none"},
    }
    node_set = {
        "node_set_id": 0,
        "system_node_ensemble_id": 0,
        "nodes_provisioned": 1,
        "power_method": "component_sum",
        "components": components,
    }
    return {
        "system_desc_id": system,
        "cooling": "liquid",
        "node_sets": [node_set],
        "scale_out": {"present": False},
    }


def quote_watts(watts: float) -> dict[str, Any]:
    """A power with its source."""
    return {"value_w": watts, "source_type": "vendor_spec", "source": "https://example.org/spec"}


def score_point(curve: Curve, measured: bool, seconds: float) -> dict[str, Any]:
    """Accuracy results: of a run of its own, which takes about as long as the point's, and, if the
    benchmark is agentic, of the point's own answers.
    """
    name, score, samples = "deepseek_r1", 81.2, DATA_SET
    if curve.agentic:
        name, score, samples = "swe_bench", 0.95, 200
    counts = {"issued": samples, "scored": samples, "empty": 0, "missing": 0}
    own = {
        "dataset_name": name,
        "extractor": "invented",
        "score": score,
        "unit_samples": samples,
        "num_repeats": 1,
        "total_samples": samples,
        "duration_s": round(0.9 * seconds, 3),
        "complete": True,
        "dataset_type": "accuracy",
        "response_counts": counts,
    }
    inline = {"dataset_name": "performance", "score": 0.59, "dataset_type": "performance"}
    return {"accuracy_scores": [*([own] if measured else []), *([inline] if curve.agentic else [])]}


def write_compact(path: Path, document: object) -> None:
    """Write JSON without spaces: the files are many."""
    path.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def write_yaml(path: Path, document: object) -> None:
    """Write YAML in the order of the keys."""
    path.write_text(yaml.safe_dump(document, sort_keys=False))


@cache
def simulate_once(curve_name: str) -> "TemporaryDirectory[str]":
    """Simulate a curve once; examples are copies of it. The folder ends with the process."""
    folder = TemporaryDirectory(prefix="podium-curve-")
    submit(Path(folder.name) / CURVES[curve_name].organisation / SUBMISSION, CURVES[curve_name])
    return folder


def submission(change: Callable[[Path], object] | None = None, curve: str = "elected") -> Builder:
    """A submission, changed by a function of its folder."""

    def build(folder: Path) -> None:
        shutil.copytree(simulate_once(curve).name, folder, dirs_exist_ok=True)
        if change:
            change(folder / ORGANISATION / SUBMISSION)

    return build


def edit_point(
    concurrency: int, *path: str, value: Any, model: str = "deepseek-r1"
) -> Callable[[Path], None]:
    """Change one value of a point's disclosure."""

    def change(root: Path) -> None:
        file = root / "results" / SYSTEM / model / f"r{concurrency}" / "point.yaml"
        document = yaml.safe_load(file.read_text())
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        write_yaml(file, document)

    return change


def edit_file(
    concurrency: int, name: str, *path: str | int, value: Any, model: str = "deepseek-r1"
) -> Callable[[Path], None]:
    """Change one value of one of a point's JSON files."""

    def change(root: Path) -> None:
        edited(name, *path, value=value)(root / "results" / SYSTEM / model / f"r{concurrency}")

    return change


def remove(*parts: str) -> Callable[[Path], None]:
    """Remove a file or a folder of a submission."""

    def change(root: Path) -> None:
        path = root.joinpath(*parts)
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def in_curve(*parts: str) -> tuple[str, ...]:
    """Name a path in the curve."""
    return ("results", SYSTEM, "deepseek-r1", *parts)


def copy_summary(source: int, target: int) -> Callable[[Path], None]:
    """Use the result of one point at another one, with the concurrency changed."""

    def change(root: Path) -> None:
        home = root / "results" / SYSTEM / "deepseek-r1"
        document = json.loads((home / f"r{source}" / "result_summary.json").read_text())
        document["run_config"]["load_pattern"]["target_concurrency"] = target
        write_compact(home / f"r{target}" / "result_summary.json", document)

    return change


def copy_accuracy(root: Path) -> None:
    """Use the accuracy results of one point at another one."""
    home = root / "results" / SYSTEM / "deepseek-r1"
    shutil.copy(home / "r6" / "accuracy_results.json", home / "r30" / "accuracy_results.json")


def copy_organisation(root: Path) -> None:
    """Submit the same runs as another organisation."""
    shutil.copytree(root, root.parents[1] / "zcorp" / root.name)


def state_more(root: Path) -> None:
    """State at each point what may be left out: the figures that follow from its run, its share of
    the highest rate, the status of its window and the name of its metric; and add the optional
    files.
    """
    write_compact(root / "cli_metadata.json", {"cli_version": "1.5.3.0"})
    points = sorted(root.glob("results/*/*/r*"))
    peak = max(json.loads((point / SUMMARY).read_text())["tps"] for point in points)
    for point in points:
        state_figures(point, peak)
        state_window(point)
        (point / "server_configs").mkdir()
        write_yaml(point / "server_configs" / "server.yaml", {"tensor_parallel_size": 8})
        if point.parent.name == "deepseek-r1" and (point / "accuracy_results.json").exists():
            path = ("accuracy_results.json", "accuracy_scores", 0, "score")
            edited(*path, value=lambda score: {"exact_match": score})(point)


def state_figures(point: Path, peak: float) -> None:
    """State the figures of a point that follow from its run and from the curve's highest rate."""
    disclosed = yaml.safe_load((point / "point.yaml").read_text())
    summary = json.loads((point / SUMMARY).read_text())
    rate = summary["tps"]
    summary |= {"system_tps": rate, "system_tps_per_kw": rate / PROVISIONED_KW}
    if disclosed["offline"] != "dedicated":
        summary["tps_per_user"] = 1e9 / summary["tpot"]["percentiles"]["90.0"]
    if disclosed["runtime_settings"]["load_pattern"] == "agentic_inference":
        tokens, waited_ns = (
            summary[name]["total"] for name in ("output_sequence_lengths", "latency")
        )
        summary["e2e_avg_interactivity"] = tokens / (waited_ns / 1e9)
    write_compact(point / SUMMARY, summary)
    system = json.loads((point / "system_desc.json").read_text())
    write_compact(point / "system_desc.json", system | {"tps_utilization": round(rate / peak, 6)})


def state_window(point: Path) -> None:
    """State of a point without a steady window that it has too few passes for one."""
    disclosed = yaml.safe_load((point / "point.yaml").read_text())
    too_few = {"status": "insufficient_passes", "verdict": "not found"}
    write_yaml(point / "point.yaml", {"steady_state": too_few} | disclosed)


def record_point(root: Path) -> None:
    """Give a point podium's records of its run, and the summary that they give."""
    point = root.joinpath(*in_curve(f"r{RECORDED_POINT}"))
    home = point / "loadgen"
    write_run(home, LOADS[Scenario.OFFLINE], "performance")
    (point / SYSTEM_RECORD).rename(home / SYSTEM_RECORD)
    put_system(**{f"settings__{LOCAL_CONCURRENCY_SETTING}": RECORDED_POINT})(home / SYSTEM_RECORD)
    logged = {name: RUN_SEEDS[theirs] for theirs, name in CLIENT_SEEDS.items()}
    for key, value in (logged | {SAMPLES_PER_QUERY_KEY: DATA_SET}).items():
        set_value(home / DETAIL_LOG, key, value)
    wanted_s = 1300 * (CURVES["elected"].c_max / RECORDED_POINT) ** SCALING
    drawn = draw_answers(CURVES["elected"], RECORDED_POINT, DATA_SET, wanted_s)
    latencies, firsts, lengths = map(numpy.array, drawn)
    free_ns, starts = [ISSUED_NS] * RECORDED_POINT, numpy.zeros(DATA_SET, "<i8")
    for number, latency in enumerate(drawn[0]):
        starts[number] = heapreplace(free_ns, free_ns[0] + latency)
    columns = (numpy.arange(DATA_SET), starts + firsts, starts + latencies, lengths)
    prompts = numpy.array(draw_input_lengths(DATA_SET))
    numpy.save(home / TOKEN_RECORD_FILE, numpy.stack(columns, axis=1))
    numpy.save(home / START_RECORD_FILE, starts)
    numpy.save(home / USAGE_RECORD_FILE, numpy.stack((prompts, prompts * 0), axis=1))
    summary = json.loads((point / SUMMARY).read_text())
    described = describe_client_run(read_run_facts(home), RECORDED_POINT)
    write_compact(point / SUMMARY, summary | described)


def shorten_answer(root: Path) -> None:
    """Record a token less than the summary has."""
    record_point(root)
    path = root.joinpath(*in_curve(f"r{RECORDED_POINT}", "loadgen", TOKEN_RECORD_FILE))
    table = numpy.load(path)
    table[0, -1] -= 1
    numpy.save(path, table)


def link_docs(root: Path) -> None:
    """Put a link in the place of a document."""
    path = root / "docs" / "software_disclosure.md"
    path.unlink()
    path.symlink_to("/nowhere")


def slow_offline(root: Path) -> None:
    """Let the Offline run take four times as long."""
    home = root / "results" / SYSTEM / "deepseek-r1" / f"r{DATA_SET}"
    document = json.loads((home / "result_summary.json").read_text())
    document["duration_ns"] *= 4
    for name in ("qps", "tps"):
        document[name] /= 4
    write_compact(home / "result_summary.json", document)


def misname_point(root: Path) -> None:
    """Keep a point's disclosure in a folder that does not count as a point."""
    home = root / "results" / SYSTEM / "deepseek-r1"
    (home / "point_64").mkdir()
    shutil.copy(home / "r64" / "point.yaml", home / "point_64")


def copies(root: Path) -> None:
    """Give a curve more points than are allowed; of those no more is there than what they disclose,
    since examples are small.
    """
    home = root / "results" / SYSTEM / "deepseek-r1"
    for concurrency in range(33, 60):
        (home / f"r{concurrency}").mkdir()
        shutil.copy(home / "r30" / "point.yaml", home / f"r{concurrency}")


CURVES: Final[Mapping[str, Curve]] = {
    "elected": Curve(),
    "dedicated": Curve(offline="dedicated"),
    "agentic": Curve(model="kimi-k3", offline=None),
    "slow": Curve(slow_point=128),
    "brief": Curve(brief_point=64),
}
BASES: Final[Mapping[str, Builder]] = {
    "endpoints-curve": submission(),
    "endpoints-curve-agentic": submission(curve="agentic"),
    "endpoints-curve-dedicated": submission(curve="dedicated"),
    "endpoints-curve-recorded": submission(record_point),
    "endpoints-curve-stated": submission(state_more, curve="dedicated"),
}
SUMMARY: Final = "result_summary.json"
INVALID: Final[Mapping[str, Builder]] = {
    "endpoints.point_files": submission(remove(*in_curve("r6", "system_desc.json"))),
    "endpoints.disclosure": submission(edit_point(6, "dataset_link", value="")),
    "endpoints.system_status": submission(
        edit_file(6, "system_desc.json", "availability_url", value="")
    ),
    "endpoints.system_fields": submission(
        edit_file(6, "system_desc.json", "node_types", 0, "filesystem", value="")
    ),
    "endpoints.drafter": submission(
        edit_point(6, "speculative_decoding", value={"weight_checksum": "git-sha1:0"})
    ),
    "endpoints.model_name": submission(edit_point(6, "model_name", value="llama3_1-8b")),
    "endpoints.data_set": submission(edit_point(6, "dataset", value="cnn_dailymail")),
    "endpoints.input_lengths": submission(
        edit_file(6, SUMMARY, "input_sequence_lengths", value=lambda each: scaled(each, 2))
    ),
    "endpoints.output_lengths": submission(curve="brief"),
    "endpoints.point_name": submission(edit_point(6, "concurrency", value=7)),
    "endpoints.warm_up": submission(edit_point(6, "warmup", "duration_s", value=90_000)),
    "endpoints.seed_set": submission(
        edit_point(6, "runtime_settings", "runtime", "model_seed", value=42)
    ),
    "endpoints.point_load": submission(
        edit_point(6, "runtime_settings", "load_pattern", value="poisson")
    ),
    "endpoints.point_duration": submission(
        edit_point(256, "steady_state", "window", "duration_s", value=1_000.0)
    ),
    "endpoints.whole_passes": submission(
        edit_file(6, SUMMARY, "n_samples_issued", value=lambda count: count - 1)
    ),
    "endpoints.steady_window": submission(
        edit_point(256, "steady_state", "window", "n_samples", value=9_000)
    ),
    "endpoints.derived": submission(edit_file(6, SUMMARY, "system_tps", value=99_999.0)),
    "endpoints.point_accuracy": submission(
        edit_file(6, "accuracy_results.json", "accuracy_scores", 0, "score", value=79.0)
    ),
    "endpoints.turn_tokens": submission(
        edit_file(
            6,
            SUMMARY,
            "output_sequence_lengths_full_run",
            value=lambda each: scaled(each, 0.5),
            model="kimi-k3",
        ),
        curve="agentic",
    ),
    "endpoints.turn_totals": submission(
        edit_file(6, SUMMARY, "e2e_turn_time_seconds_total", value=10.0, model="kimi-k3"),
        curve="agentic",
    ),
    "endpoints.shared_paths": submission(edit_point(6, "shared_src", value="../elsewhere")),
    "endpoints.regions": submission(remove(*in_curve("r6"))),
    "endpoints.region_name": submission(edit_point(6, "region", value="high_concurrency")),
    "endpoints.point_folders": submission(misname_point),
    "endpoints.points": submission(remove(*in_curve("r64"))),
    "endpoints.cap": submission(copies),
    "endpoints.offline_present": submission(edit_point(256, "offline", value="none")),
    "endpoints.offline_ordering": submission(slow_offline, curve="dedicated"),
    "endpoints.same_seeds": submission(edit_point(6, "seed_set", value="B")),
    "endpoints.consistency": submission(edit_point(6, "model_precision", value="int4")),
    "endpoints.accuracy_points": submission(remove(*in_curve("r30", "accuracy_results.json"))),
    "endpoints.mean_accuracy": submission(
        edit_file(
            6,
            "accuracy_results.json",
            "accuracy_scores",
            0,
            "score",
            value=0.5,
            model="kimi-k3",
        ),
        curve="agentic",
    ),
    "endpoints.utilization": submission(
        edit_file(6, "system_desc.json", "tps_utilization", value=0.95)
    ),
    "endpoints.curve_shape": submission(curve="slow"),
    "endpoints.power": submission(
        lambda root: edited("system_power.json", "cooling", value="air")(root / "results" / SYSTEM)
    ),
    "endpoints.nodes_used": submission(
        edit_point(6, "nodes_used", value=[{"system_node_ensemble_id": 0, "nodes": 2}])
    ),
    "endpoints.engagement": submission(edit_file(6, "system_desc.json", "data_parallel", value=4)),
    "endpoints.power_parts": submission(
        lambda root: edited(
            "system_power.json", "node_sets", 0, "components", "cpu", "count_per_node", value=0
        )(root / "results" / SYSTEM)
    ),
    "endpoints.power_sources": submission(
        lambda root: edited(
            "system_power.json",
            *("node_sets", 0, "components", "cpu", "tdp_per_unit"),
            value=lambda each: {**each, "value_kw": 0.35},
        )(root / "results" / SYSTEM)
    ),
    "endpoints.per_kw": submission(edit_file(6, SUMMARY, "system_tps_per_kw", value=9_999.0)),
    "endpoints.tree": submission(remove("src", "vllm", "README.md")),
    "endpoints.links": submission(link_docs),
    "endpoints.same_summary": submission(copy_summary(128, 64)),
    "endpoints.same_accuracy": submission(copy_accuracy),
    "endpoints.copied_run": submission(copy_organisation),
    "endpoints.records": submission(shorten_answer),
}
VALID: Final[Mapping[str, Builder | str]] = {
    **dict.fromkeys(INVALID, "endpoints-curve"),
    **dict.fromkeys(
        ("endpoints.derived", "endpoints.per_kw", "endpoints.utilization"),
        "endpoints-curve-stated",
    ),
    "endpoints.records": "endpoints-curve-recorded",
    "endpoints.offline_ordering": "endpoints-curve-dedicated",
    "endpoints.mean_accuracy": "endpoints-curve-agentic",
    "endpoints.turn_tokens": "endpoints-curve-agentic",
    "endpoints.turn_totals": "endpoints-curve-agentic",
}
