"""For each rule about published inference results since v1.0 one small result that keeps it and one
that breaks it.
"""

import json
import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from spoiling import Builder, put, remove, swap, then

from suite.files.layout import ACCURACY_LOG, ACCURACY_TEXT, DETAIL_LOG, SUMMARY_LOG
from suite.rounds.load import merge_round_tables

V51: Final = "inference-v5.1"
MODEL: Final = "retinanet"
LANGUAGE: Final = "llama2-70b-99"
HASH: Final = "0f1e2d3c" * 8
CLAIMS: Final = {
    MODEL: "mAP=37.500%",
    LANGUAGE: "{'rouge1': 44.5, 'rouge2': 22.1, 'rougeL': 28.7, 'tokens_per_sample': 290.1}",
    "resnet": "accuracy=76.1%",
    "my-own-net": "mAP=37.500%",
}
SETTINGS: Final[Mapping[str, Any]] = {
    "scenario": "Server",
    "test_mode": "PerformanceOnly",
    "samples_per_query": 1,
    "min_duration_ms": 600_000,
    "min_query_count": 100,
    "qsl_rng_seed": 1780908523862526354,
    "sample_index_rng_seed": 14771362308971278857,
    "schedule_rng_seed": 18209322760996052031,
    "accuracy_log_sampling_target": 0,
    "performance_issue_unique": False,
    "performance_issue_same": False,
    "performance_issue_same_index": 0,
    "sample_concatenate_permutation": False,
}
LATENCIES: Final = {
    "min": 1,
    "max": 90,
    "mean": 30,
    "50.00_percentile": 28,
    "90.00_percentile": 60,
    "95.00_percentile": 70,
    "97.00_percentile": 75,
    "99.00_percentile": 80,
    "99.90_percentile": 88,
}
"""Milliseconds; an Offline run's are this many times 10,000 as long."""
RESULTS: Final[Mapping[str, Any]] = {
    "result_validity": "VALID",
    "result_perf_constraints_met": True,
    "result_min_duration_met": True,
    "result_min_queries_met": True,
    "early_stopping_met": True,
    "result_overlatency_query_count": 0,
}
SERVER: Final[Mapping[str, Any]] = {
    **RESULTS,
    "result_query_count": 98_304,
    "result_scheduled_samples_per_sec": 163.84,
    "result_completed_samples_per_sec": 163.82,
    **{f"result_{name}_latency_ns": value * 1_000_000 for name, value in LATENCIES.items()},
}
OFFLINE: Final[Mapping[str, Any]] = {
    **RESULTS,
    "result_query_count": 1,
    "result_samples_per_second": 109.227,
    **{f"result_{name}_latency_ns": value * 10_000_000_000 for name, value in LATENCIES.items()},
}
TOKENS: Final[Mapping[str, Any]] = {
    "requested_use_token_latencies": True,
    "requested_server_ttft_latency": 2_000_000_000,
    "requested_server_tpot_latency": 200_000_000,
    "result_first_token_99.00_percentile_latency_ns": 900_000_000,
    "result_time_per_output_token_99.00_percentile_ns": 90_000_000,
    "result_completed_tokens_per_second": 47_500.0,
    "result_first_token_mean_latency_ns": 1_000_000,
    "result_time_to_output_token_mean": 100_350.0,
    "result_tokens_per_second": 31_600.0,
    "sample_concatenate_permutation": True,
}
LATE_MS: Final = 901_000
LINE: Final = (
    ':::MLLOG {"key": %s, "value": %s, "time_ms": %s, "namespace": "mlperf::logging", "event_type":'
    ' "POINT_IN_TIME", "metadata": {}}\n'
)


def events(kind: str = "Server", accuracy: bool = False, **told: Any) -> Mapping[str, Any]:
    """The events of a run of v5.1; `...` leaves one out. A setting's bare name sets what was asked
    for and what was used.
    """
    offline = kind == "Offline"
    own = {
        "scenario": kind,
        "samples_per_query": 98_304 if offline else 1,
        "test_mode": "AccuracyOnly" if accuracy else "PerformanceOnly",
    }
    settings = {**SETTINGS, **own, **{key: value for key, value in told.items() if key in SETTINGS}}
    table: dict[str, Any] = {
        "loadgen_version": "5.1.0 @ 50de99161e",
        "test_datetime": "2025-07-10T01:02:03Z",
        "qsl_reported_total_count": 24_781,
    }
    for part in ("requested", "effective"):
        table |= {f"{part}_{key}": value for key, value in settings.items()}
    table |= {"requested_use_token_latencies": False, "effective_performance_sample_count": 64}
    table |= {
        "generated_query_count": 1 if offline else 98_304,
        "generated_samples_per_query": 98_304 if offline else 1,
    }
    table |= (
        {"generated_query_duration": 600_000_000_000}
        | ({} if accuracy else OFFLINE if offline else SERVER)
        | {"num_errors": 0}
    )
    return {
        key: value
        for key, value in {
            **table,
            **{key: value for key, value in told.items() if key not in SETTINGS},
        }.items()
        if value is not ...
    }


def logged(folder: Path, kind: str = "Server", accuracy: bool = False, **told: Any) -> None:
    """Write a detail log and a summary as LoadGen has had them since 1.0."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for index, (key, value) in enumerate(events(kind, accuracy, **told).items()):
        late = key.startswith(("result_", "early_", "num_"))
        lines.append(LINE % (json.dumps(key), json.dumps(value), LATE_MS if late else index / 8))
    (folder / DETAIL_LOG).write_text("".join(lines))
    rate = (
        "Samples per second: 109.227"
        if kind == "Offline"
        else "Completed samples per second : 163.82"
    )
    (folder / SUMMARY_LOG).write_text(
        "No warnings encountered during test.\n" if accuracy else f"Result is : VALID\n{rate}\n"
    )


def tested(folder: Path, scenario: str, name: str, **told: Any) -> None:
    """Write a compliance test."""
    folder.mkdir(parents=True)
    if name == "TEST06":
        (folder / "verify_accuracy.txt").write_text(
            "First token check pass: True\nEOS check pass: True\nSample length check pass: True\n"
        )
        return
    logged(folder / "performance" / "run_1", scenario, accuracy_log_sampling_target=1024, **told)
    (folder / "verify_accuracy.txt").write_text("num_perf_log_data_mismatch = 0\nTEST PASS\n")
    (folder / "verify_performance.txt").write_text(
        "reference score = 163\ntest score = 162\nTEST PASS\n"
    )


def described(home: Path) -> None:
    """Write the system's description, with all fields of the round."""
    text = (
        files("compliance.kinds.inference_mllog.rounds").joinpath(f"{V51}.toml").read_text("utf-8")
    )
    fields = merge_round_tables(V51, [text])[0]["rules"]["system_fields"]
    told = {
        "division": "closed",
        "submitter": "acme",
        "status": "available",
        "system_type": "datacenter",
        "number_of_nodes": 1,
        "accelerators_per_node": 8,
        "host_processors_per_node": 2,
    }
    (home / "systems").mkdir()
    (home / "systems" / "box.json").write_text(
        json.dumps({name: told.get(name, "N/A") for name in fields}, indent=1) + "\n"
    )


def since(
    claim: str = "",
    model: str = MODEL,
    runs: int = 1,
    first: Mapping[str, Any] | None = None,
    **told: Any,
) -> Builder:
    """An organisation of v5.1 with one closed benchmark, Server and Offline; what is told goes into
    Server's performance run.
    """

    def build(folder: Path) -> None:
        home = folder / "closed" / "acme"
        language = (
            {
                **TOKENS,
                "effective_performance_sample_count": 24_576,
                "qsl_reported_total_count": 24_576,
            }
            if model == LANGUAGE
            else {}
        )
        for scenario in ("Server", "Offline"):
            entry = home / "results" / "box" / model / scenario
            logged(
                entry / "accuracy",
                scenario,
                accuracy=True,
                **{**language, **(first or {} if scenario == "Server" else {})},
            )
            (entry / "accuracy" / ACCURACY_TEXT).write_text(
                f"{claim or CLAIMS[model]}\nhash={HASH}\n"
            )
            (entry / "accuracy" / ACCURACY_LOG).write_text("[]\n")
            for number in range(1, runs + 1):
                logged(
                    entry / "performance" / f"run_{number}",
                    scenario,
                    **{**language, **(told if scenario == "Server" else {})},
                )
            filed = home / "measurements" / "box" / model / scenario
            filed.mkdir(parents=True)
            (filed / "user.conf").write_text("*.Server.target_qps = 163.84\n")
            (filed / "README.md").write_text("how to run it\n")
            names = (
                "input_data_types",
                "retraining",
                "starting_weights_filename",
                "weight_data_types",
                "weight_transformations",
            )
            (filed / "box_ours.json").write_text(json.dumps(dict.fromkeys(names, "fp16")) + "\n")
            name = "TEST06" if model == LANGUAGE else "TEST01"
            tested(
                home / "compliance" / "box" / model / scenario / name, scenario, name, **language
            )
        described(home)

    return build


def after(pattern: str, old: str, new: str, model: str = MODEL) -> Builder:
    """The same, with text changed in one of its files."""
    return then(since(model=model), f"**/{pattern}", swap(old, new))


def twice(path: Path) -> None:
    """Log a result a second time."""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, next(line for line in lines if "result_validity" in line)]))


def metered(path: Path) -> None:
    """Put a power analyzer's log beside a run."""
    (path / "spl.txt").write_text("Time,08-24-2025 10:20:30.000,Watts,301.5\n")


def move_out_of_division(path: Path) -> None:
    """Keep the organisations of a division without its folder."""
    path.rename(path.with_name("copies"))


def answer_twice(path: Path) -> None:
    """Answer two samples under one sequence number."""
    path.write_text(
        '[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "00" },\n'
        '{ "seq_id" : 0, "qsl_idx" : 1, "data" : "01" }\n]\n'
    )


def streamed(path: Path) -> None:
    """Put a MultiStream run into the place of another."""
    shutil.rmtree(path)
    logged(path, "MultiStream", early_stopping_latency_ms=80_500_000, result_samples_per_second=...)


RUN: Final = f"results/box/*/Server/performance/run_1/{DETAIL_LOG}"
TEST: Final = "compliance/box/*/Server/TEST01"
SERVED_BASES: Final[Mapping[str, Builder]] = {
    "since-v5.1": since(),
    "since-v5.1-tokens": since(model=LANGUAGE),
}
SERVED_VALID: Final[Mapping[str, str]] = {
    "inference-mllog.tokens": "since-v5.1-tokens",
    "inference-mllog.token_bounds": "since-v5.1-tokens",
    "inference-mllog.token_count": "since-v5.1-tokens",
    "inference-mllog.token_time": "since-v5.1-tokens",
    "inference-mllog.token_rate": "since-v5.1-tokens",
    "inference-mllog.equal_issue": "since-v5.1-tokens",
}
SERVED_INVALID: Final[Mapping[str, Builder]] = {
    "inference-mllog.draws": then(
        since(),
        f"**/results/box/*/Server/accuracy/{ACCURACY_LOG}",
        answer_twice,
    ),
    "inference-mllog.records": since(generated_query_count=...),
    "inference-mllog.mode": since(test_mode="AccuracyOnly"),
    "inference-mllog.scenario": since(scenario="Offline"),
    "inference-mllog.seeds": since(schedule_rng_seed=7),
    "inference-mllog.valid": since(result_validity="INVALID"),
    "inference-mllog.errors": since(num_errors=2),
    "inference-mllog.duration": since(min_duration_ms=60_000),
    "inference-mllog.samples": since(effective_performance_sample_count=32),
    "inference-mllog.bound": since(effective_target_latency_ns=110_000_000),
    "inference-mllog.special": since(performance_issue_unique=True),
    "inference-mllog.latencies": since(**{"result_90.00_percentile_latency_ns": 4_000_000}),
    "inference-mllog.result": then(
        since(), f"**/Server/performance/run_1/{SUMMARY_LOG}", swap("163.82", "263.82")
    ),
    "inference-mllog.tokens": since(
        model=LANGUAGE, **{"result_first_token_99.00_percentile_latency_ns": 2_400_000_000}
    ),
    "inference-mllog.token_bounds": since(
        model=LANGUAGE, requested_server_ttft_latency=4_000_000_000
    ),
    "inference-mllog.token_count": since(model=LANGUAGE, result_completed_tokens_per_second=0),
    "inference-mllog.token_time": since(model=LANGUAGE, result_time_to_output_token_mean=170_000.0),
    "inference-mllog.retraining": then(
        since(), "**/measurements/box/**/*.json", put(retraining="Yes")
    ),
    "inference-mllog.token_rate": since(
        model=LANGUAGE, result_completed_tokens_per_second=475_000.0
    ),
    "inference-mllog.equal_issue": since(model=LANGUAGE, sample_concatenate_permutation=False),
    "inference-mllog.early_stopping": since(early_stopping_met=False),
    "inference-mllog.once": then(since(), f"**/{RUN}", twice),
    "inference-mllog.settings": after(
        RUN,
        '"requested_samples_per_query", "value": 1',
        '"requested_samples_per_query", "value": 2',
    ),
    "inference-mllog.summary": then(
        since(),
        f"**/Server/performance/run_1/{SUMMARY_LOG}",
        swap("VALID", "VALID\nSUT name : other\nmin_query_count : 99"),
    ),
    "inference-mllog.whole": since(**{"result_97.00_percentile_latency_ns": ...}),
    "inference-mllog.arithmetic": since(result_scheduled_samples_per_sec=263.84),
    "inference-mllog.elapsed": after(RUN, str(LATE_MS), "301000"),
    "inference-mllog.date": since(test_datetime="2008-07-10T01:02:03Z"),
    "inference-mllog.complete": then(since(), "**/Server/accuracy", remove),
    "inference-mllog.benchmark": since(model="my-own-net"),
    "inference-mllog.accuracy": since(claim="mAP=36.2%"),
    "inference-mllog.hash": after(f"Server/accuracy/{ACCURACY_TEXT}", "hash=", "digest "),
    "inference-mllog.data_set": since(first={"qsl_reported_total_count": 5_000}),
    "inference-mllog.inferred": then(
        since(), "**/results/box/retinanet/Offline/performance/run_1", streamed
    ),
    "inference-mllog.one_system": since(first={"scenario": "Offline"}),
    "inference-mllog.system": then(since(), "**/box.json", remove),
    "inference-mllog.distinct": since(runs=2),
    "inference-mllog.measurements": then(since(), "**/Server/user.conf", remove),
    "inference-mllog.tests": then(since(), f"**/{TEST}", remove),
    "inference-mllog.system_fields": then(since(), "**/box.json", put(framework=None)),
    "inference-mllog.system_place": then(since(), "**/box.json", put(submitter="somebody else")),
    "inference-mllog.scenarios": then(since(), "**/results/box/retinanet/Offline", remove),
    "inference-mllog.test_files": then(since(), f"**/{TEST}/verify_performance.txt", remove),
    "inference-mllog.test_passed": after(f"{TEST}/verify_accuracy.txt", "TEST PASS", "TEST FAIL"),
    "inference-mllog.test_seeds": after(
        f"{TEST}/performance/run_1/{DETAIL_LOG}",
        '"effective_qsl_rng_seed", "value": 1',
        '"effective_qsl_rng_seed", "value": 2',
    ),
    "inference-mllog.test_summary": then(
        since(),
        f"**/{TEST}/performance/run_1/{SUMMARY_LOG}",
        swap("Result is : VALID", "Result is : INVALID"),
    ),
    "inference-mllog.power": then(since(), "**/Server/performance/run_1", metered),
    "inference-mllog.division_folder": then(since(), "closed", move_out_of_division),
    "inference-mllog.test_settings": after(
        f"{TEST}/performance/run_1/{DETAIL_LOG}",
        '"effective_accuracy_log_sampling_target", "value": 1024',
        '"effective_accuracy_log_sampling_target", "value": 0',
    ),
    "inference-mllog.test_speed": after(
        f"{TEST}/performance/run_1/{DETAIL_LOG}", "163.82", "263.82"
    ),
    "inference-mllog.test_score": after(
        f"{TEST}/verify_performance.txt", "test score = 162", "test score = 62"
    ),
}
