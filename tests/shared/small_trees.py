"""Results trees that no run made, and a judge that says what a test wants: packing, scoring and
comparing are what is tested.
"""

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from compliance.verdict import Finding, Severity
from submissions import compliance_check
from suite.files.json_files import write_json
from suite.files.layout import CHECKPOINT_RECORD, ResultsEntry, locate_checkpoint_folder
from suite.loadgen.scenario import Scenario
from suite.records import (
    CheckpointRecord,
    RunRecord,
    SystemUnderTest,
    locate_system_folder,
    write_record,
    write_system_record,
)
from suite.rounds.settings import PERFORMANCE_PREFIXES
from suite.terms import Division

NONCE = "0123456789abcdef" * 2
SHA256 = "ab" * 32

HEADLINES = {
    Scenario.SINGLE_STREAM: {
        "requested_single_stream_target_latency_percentile": 0.9,
        "early_stopping_latency_ss": 1_600_000,
        "early_stopping_latency_ms": 9_900_000,
    },
    Scenario.MULTI_STREAM: {
        "requested_multi_stream_target_latency_percentile": 0.99,
        "early_stopping_latency_ms": 2_600_000,
    },
    Scenario.SERVER: {"result_completed_samples_per_sec": 101.25},
    Scenario.OFFLINE: {"result_samples_per_second": 202.5},
}
"""What the detail log of a performance run has."""


def event(key: str, value: Any, time_ms: int, metadata: dict[str, Any] | None = None) -> str:
    record = {
        "namespace": "",
        "time_ms": time_ms,
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
    }
    return (
        ":::MLLOG "
        + json.dumps(
            record
            | {"metadata": {"file": "harness/training/loop.py", "lineno": 1} | (metadata or {})}
        )
        + "\n"
    )


def training_log(
    path: Path,
    *,
    minutes: float = 2.0,
    status: str = "success",
    seed: int = 1,
    profile: str = "smoke",
    **stamps: Any,
) -> None:
    facts = {
        "podium_round": "podium-v1",
        "podium_profile": profile,
        "podium_workload": "resnet50",
        "campaign_nonce": NONCE,
        "seed": seed,
    }
    facts |= {
        "precision": "bf16",
        "settings": {"data.picture_size": 32},
        "command_line": ["podium", "train", "resnet50"],
    } | stamps
    text = "".join(event(key, value, 1000) for key, value in facts.items())
    text += event("run_start", None, 2000) + event("eval_accuracy", 0.8, 3000, {"epoch_num": 3})
    text += event("run_stop", None, 2000 + int(minutes * 60_000), {"status": status}) + event(
        "checkpoint_sha256", SHA256, 999_999
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def loadgen_run(
    folder: Path, entry: ResultsEntry, scenario: Scenario, mode: str, **changes: Any
) -> None:
    folder.mkdir(parents=True)
    (folder / "mlperf_log_summary.txt").write_text(f"Scenario : {scenario.label}\nNo errors\n")
    facts = {"loadgen_version": "6.0.17", "effective_scenario": scenario.label}
    if mode == "performance":
        facts |= {"result_validity": "VALID", **HEADLINES[scenario]}
    (folder / "mlperf_log_detail.txt").write_text(
        "".join(event(key, value, 0) for key, value in facts.items())
    )
    (folder / "mlperf_log_accuracy.json").write_text(
        '[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "08000000" }\n]\n'
    )
    asked = changes.pop("settings", {"batching.max_batch": 32, "data.picture_size": 32})
    limits = {key: value for key, value in asked.items() if key.startswith(PERFORMANCE_PREFIXES)}
    served = SystemUnderTest(
        workload="resnet50",
        round="podium-v1",
        profile="smoke",
        division=entry.division,
        org=entry.org,
        name=entry.system,
        framework="torch",
        engine="torch",
        engine_package="",
        input="default",
        device="cpu",
        precision="fp32",
        threads=2,
        nonce=NONCE,
        checkpoint_sha256=SHA256,
        sample_count=100,
        settings={key: value for key, value in asked.items() if key not in limits},
        version="0",
    )
    known = {each.name for each in fields(SystemUnderTest)}
    served = replace(served, **{key: value for key, value in changes.items() if key in known})
    record = RunRecord(
        system_sha256=served.compute_digest(),
        changed=limits,
        command=("podium", "infer", "resnet50"),
        ceiling=None,
        batches={"count": 1, "mean_size": 1},
    )
    own = {key: value for key, value in changes.items() if key not in known}
    write_system_record(locate_system_folder(folder), served)
    write_record(folder / "run.json", replace(record, **own))


def measured(scenario: Scenario, **changes: Any) -> dict[str, Any]:
    """A scenario's file of measurements."""
    return {
        "input_data_types": "fp32",
        "retraining": "no",
        "starting_weights_filename": "weights",
        "weight_data_types": "fp32",
        "weight_transformations": "none",
        "workload": "resnet50",
        "round": "podium-v1",
        "profile": "smoke",
        "scenario": scenario.label,
        "engine": "torch",
        "precision": "fp32",
        "framework": "torch",
        "device": "cpu",
        "threads": 2,
        "checkpoint_sha256": SHA256,
        "reference_accuracy": changes.get("quality", {"top1": 0.8}),
        "truth_sha256": "0" * 64,
        "settings": {},
        "engine_description": {},
    }


def system_file(entry: ResultsEntry) -> None:
    block = {
        "packages": {"torch": "2.13.0"},
        "git_commit": "c0ffee",
        "git_dirty": False,
        "cpu_governor": None,
        "cpu_clock_mhz": 2450.5,
    }
    write_json(
        entry.system_file, {"submitter": entry.org, "system_name": entry.system, "podium": block}
    )


def tree(
    results: Path,
    *,
    org: str = "acme",
    runs: int = 1,
    scenarios: tuple[Scenario, ...] = tuple(Scenario),
    **changes: Any,
) -> Path:
    """Write what a finished campaign leaves, with everything beside it that no bundle may hold."""
    trainer = ResultsEntry(
        results=results, division=Division.OPEN, org=org, system="host-torch-bf16"
    )
    server = ResultsEntry(
        results=results, division=Division.OPEN, org=org, system="host-torch-fp32"
    )
    for entry in (trainer, server) if scenarios else (trainer,):
        system_file(entry)
    for run in range(runs):
        profile = changes.get("profile", "smoke")
        stamps = {
            "podium_round": changes.get("round", "podium-v1"),
            "campaign_nonce": changes.get("nonce", NONCE),
        }
        training_log(
            trainer.locate_training_log("resnet", run),
            minutes=2.0 + run,
            seed=run,
            profile=profile,
            **stamps,
        )
    for scenario in scenarios:
        loadgen_run(
            server.locate_accuracy_run("resnet50", scenario),
            server,
            scenario,
            "accuracy",
            **changes,
        )
        loadgen_run(
            server.locate_performance_run("resnet50", scenario),
            server,
            scenario,
            "performance",
            **changes,
        )
        write_json(
            server.locate_measurements_file("resnet50", scenario), measured(scenario, **changes)
        )
    (trainer.locate_ground_truth("resnet50")).mkdir(parents=True)
    (trainer.locate_ground_truth("resnet50") / "labels.txt").write_text("3\n")
    weights = locate_checkpoint_folder(results, "resnet50", SHA256)
    record = CheckpointRecord(
        workload="resnet50",
        round="podium-v1",
        profile="smoke",
        framework="torch",
        sha256=SHA256,
        nonce=NONCE,
        seed=0,
        run_index=0,
        training_log="open/acme/results/host-torch-bf16/resnet/result_0.txt",
        target_reached=True,
        scores={"top1": 0.8},
        reference_accuracy={"top1": 0.8},
        settings={},
        version="0",
    )
    weights.mkdir(parents=True)
    write_record(weights / CHECKPOINT_RECORD, record)
    (weights / "model.safetensors").write_bytes(b"weights")
    (results / ".podium" / "resnet50").mkdir(parents=True)
    (results / ".podium" / "resnet50" / "campaign.json").write_text("{}")
    trainer.locate_training_log("resnet", runs).with_suffix(".txt.partial").write_text("half a log")
    return results


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A finished campaign of one training run and four scenarios."""
    return tree(tmp_path / "results")


@pytest.fixture
def make_tree() -> Callable[..., Path]:
    """The builder, for tests that need another tree."""
    return tree


@pytest.fixture
def make_log() -> Callable[..., None]:
    """The builder of one training log."""
    return training_log


@pytest.fixture
def make_run() -> Callable[..., None]:
    """The builder of one LoadGen run's folder."""
    return loadgen_run


@pytest.fixture
def make_system() -> Callable[..., None]:
    """The builder of a system description."""
    return system_file


@pytest.fixture
def objections(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """A judge that accepts everything until a test appends a finding."""
    found: list[Finding] = []
    monkeypatch.setattr(
        compliance_check, "judge_path", lambda path, kind=None, judge=None: tuple(found)
    )
    monkeypatch.setattr(compliance_check, "list_shared_errors", lambda result, judge: ())
    return found


@pytest.fixture
def objection() -> Finding:
    """One finding that keeps a result from counting."""
    return Finding(
        rule="training.target",
        severity=Severity.ERROR,
        file="result_0.txt",
        line=7,
        found="0.7",
        required="0.759",
        source="a rule",
        advice="train on",
    )
