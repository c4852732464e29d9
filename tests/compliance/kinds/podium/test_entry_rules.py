"""Entries, systems and submissions of podium's own round: each field that two files tell is held
against the other.
"""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import making
import pytest
from examples import EXAMPLES
from spoiling import put, set_value, swap
from system_records import put_system

from compliance.judge import Judge
from compliance.kinds.podium.documents.inference import Measurements
from compliance.kinds.podium.facts.table import RUN_FACTS, Column
from compliance.kinds.podium.reader import DocumentLibrary
from compliance.kinds.podium.rules.inference import answers as answer_rules
from compliance.kinds.podium.rules.inference.entry import checkpoint, evaluated
from compliance.recognition.path_kind import recognise_path
from compliance.verdict import Finding, Severity, Verdict
from suite.files.layout import DETAIL_LOG
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord, SystemUnderTest
from suite.rounds.settings import resolve_settings
from suite.terms import Profile

ENTRY = Path("open", "acme", "results", "box-torch-fp32", "resnet50", "SingleStream")
SERVED, ACCURATE, TIMED = (
    str(ENTRY / "system.json"),
    str(ENTRY / "accuracy" / "run.json"),
    str(ENTRY / "performance" / "run_1" / "run.json"),
)
MEASURES = "open/acme/measurements/box-torch-fp32/resnet50/SingleStream/box-torch-fp32_podium_SingleStream.json"
LOG = "open/acme/results/box-torch-bf16/resnet/result_0.txt"
SYSTEM = "open/acme/systems/box-torch-fp32.json"
OTHER: dict[str, Any] = {
    "threads": 64,
    "sample_count": 7,
    "nonce": "f" * 32,
    "checkpoint_sha256": "7b" * 32,
    "served": {"engine": {"value": "other", "said_by": "user", "source": "--system-file"}},
}
"""Values of fields that are no text."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A campaign that the judge accepts."""
    shutil.copytree(EXAMPLES / "base" / "tree", tmp_path / "t")
    return tmp_path / "t"


def findings(path: Path) -> list[Finding]:
    return list(Judge().judge_path(str(path)).findings)


def errors(path: Path) -> dict[str, list[str]]:
    """Rule -> what its errors found."""
    found: dict[str, list[str]] = {}
    for finding in findings(path):
        if finding.severity is Severity.ERROR:
            found.setdefault(finding.rule, []).append(finding.found)
    return found


# ---- samples that training evaluates on ----


@pytest.mark.parametrize(("served_metrics", "found"), [((), ["eval_samples 504"]), (("top1",), [])])
def test_training_and_serving_share_a_set_unless_the_row_says_otherwise(
    tree: Path, served_metrics: tuple[str, ...], found: list[str]
) -> None:
    """Mini-Go is evaluated by games and served positions; no run's own files can claim that of
    another workload.
    """
    swap('"key": "eval_samples", "value": 1008', '"key": "eval_samples", "value": 504')(tree / LOG)
    row = replace(making.ROW, served_metrics=served_metrics)
    library = DocumentLibrary(
        replace(making.ROUND, benchmarks={**making.ROUND.benchmarks, making.WORKLOAD: row}), None
    )
    entry = library.read_entry(tree / ENTRY, recognise_path(tree / ENTRY).position)
    assert [fault.found for fault in evaluated.check(entry)] == found


def test_another_workloads_name_does_not_excuse_the_samples(tree: Path) -> None:
    """Records that say Mini-Go, whose evaluation is another one, contradict folder and training
    log.
    """
    swap('"key": "eval_samples", "value": 1008', '"key": "eval_samples", "value": 504')(tree / LOG)
    put_system(workload="minigo")(tree / SERVED)
    assert {"training.samples", "entry.checkpoint"} <= errors(tree).keys()


# ---- records ----


@pytest.mark.parametrize("field", [field.name for field in fields(SystemUnderTest)])
def test_each_field_of_a_system_is_bound_to_its_runs(tree: Path, field: str) -> None:
    """A campaign in which one run was another system's, or another checkpoint's, is none; of an
    unknown workload nothing else is known.
    """
    document = json.loads((tree / SERVED).read_text())
    other = {**document["settings"], "more": 1} if field == "settings" else "other"
    put(**{field: OTHER.get(field, other)})(tree / SERVED)
    assert {"entry.stamps", "tree.installed"} & errors(tree).keys()


@pytest.mark.parametrize("record", [ACCURATE, TIMED])
def test_a_run_names_the_system_of_its_entry(tree: Path, record: str) -> None:
    """One run of another system makes no entry."""
    put(system_sha256="7b" * 32)(tree / record)
    assert errors(tree)["entry.stamps"] == ["the system 7b7b7b7b7b7b"]


def test_every_field_of_a_record_is_looked_at_by_some_rule() -> None:
    """A field that nobody compares could say anything."""
    assert {field.name for field in fields(RunRecord)} == {
        "system_sha256",
        "changed",
        "command",
        "ceiling",
        "batches",
        "telemetry_sha256",
        "logprobs_sha256",
        "reference_logprobs_sha256",
        "began_idle",
        "lost",
        "searched",
        "network",
        "instances",
        "loadgen_cores",
    }


@pytest.mark.parametrize("mode", ["performance", "accuracy"])
def test_a_log_tells_the_mode_of_its_folder(tree: Path, mode: str) -> None:
    """Swapped runs would call a sample of answers complete."""
    path = tree / (ACCURATE if mode == "accuracy" else TIMED)
    other = "PerformanceOnly" if mode == "accuracy" else "AccuracyOnly"
    set_value(path.with_name(DETAIL_LOG), "effective_test_mode", other)
    assert "loadgen.mode" in errors(tree)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("precision", "fp31"),
        ("precision", ""),
        ("checkpoint_sha256", "short"),
        ("checkpoint_sha256", "5A" * 32),
    ],
)
def test_formats_and_digests_are_known_ones(tree: Path, field: str, value: str) -> None:
    """In all records alike, so that no comparison helps."""
    for path in tree.rglob("system.json"):
        put_system(**{field: value})(path)
    assert "entry.precision" in errors(tree)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("org", "beta"),
        ("name", "tower"),
        ("division", "closed"),
        ("workload", "gnmt"),
        ("round", "podium-v2"),
    ],
)
def test_records_that_agree_with_one_another_still_agree_with_their_folders(
    tree: Path, field: str, value: str
) -> None:
    """A whole entry that was copied from elsewhere."""
    for path in tree.rglob("system.json"):
        put_system(**{field: value})(path)
    assert Judge().judge_path(str(tree)).verdict is Verdict.BROKEN


@pytest.mark.parametrize(
    ("org", "accepted"), [("ACME", True), ("ac-me", True), ("acme inc", False)]
)
def test_names_are_folders_but_for_case_and_punctuation(
    tree: Path, org: str, accepted: bool
) -> None:
    """`Dell EMC` files under DellEMC."""
    for path in tree.rglob("system.json"):
        put_system(org=org)(path)
    assert ("entry.place" not in errors(tree)) is accepted


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        (
            {
                "batching.max_batch": 3,
                "engine.compile": True,
                "server.target_qps": 7.5,
                "answer.classes": 5,
            },
            [],
        ),
        ({"loss.label_smoothing": 0.0}, []),
        ({"data.picture_size": 192}, ["data.picture_size 192"]),
        ({"data.skip_broken": True}, ["data.skip_broken True"]),
        ({"data.picture_size": None}, []),
    ],
)
def test_a_closed_entry_is_served_with_the_row_s_settings(
    tree: Path, changes: dict[str, Any], told: list[str]
) -> None:
    """Smaller pictures, or a narrower search, are another benchmark; how a system batches, and what
    the closed division allows in training, is free.
    """
    settings = {
        **resolve_settings(making.ROUND, "resnet50", Profile.FULL, {}, serving=True),
        **changes,
    }
    for path in tree.rglob("system.json"):
        put_system(
            profile="full",
            settings={key: value for key, value in settings.items() if value is not None},
        )(path)
    assert sorted(set(errors(tree).get("entry.legality", []))) == told
    missing = {
        finding.found
        for finding in findings(tree)
        if finding.rule == "entry.legality" and finding.severity is Severity.WARNING
    }
    assert missing == {
        f"no {key} among the settings" for key, value in changes.items() if value is None
    }


def test_an_open_entry_may_be_served_with_any_settings(tree: Path) -> None:
    """That is what it is for."""
    for path in tree.rglob("system.json"):
        put_system(**{"settings__data.picture_size": 192})(path)
    assert "entry.legality" not in errors(tree)


# ---- measurements ----


MEASURED_SYSTEM_FIELDS = {
    place.key for fact in RUN_FACTS for place in fact.places if place.kind == Column.MEASURED
} - {"weight_data_types"}


@pytest.mark.parametrize("field", sorted({*MEASURED_SYSTEM_FIELDS, "weight_data_types"}))
def test_each_field_of_the_measurements_is_compared(tree: Path, field: str) -> None:
    """What an entry was made of is read there by the official tools."""
    put(**{field: OTHER.get(field, "other")})(tree / MEASURES)
    assert any(field in text for text in errors(tree)["facts.agree"])


def test_every_own_field_of_the_measurements_is_looked_at() -> None:
    """MLCommons' own five are text for people."""
    official = {
        "input_data_types",
        "retraining",
        "starting_weights_filename",
        "weight_data_types",
        "weight_transformations",
    }
    others = {
        "reference_accuracy",
        "truth_sha256",
        "settings",
        "engine_description",
        "calibration",
        "weights_origin",
    }
    assert set(Measurements.__struct_fields__) == {
        "scenario",
        *MEASURED_SYSTEM_FIELDS,
        *official,
        *others,
    }


@pytest.mark.parametrize(
    "reference", [{}, {"top1": 0.87}, {"top1": 0.875, "top5": 0.9}, {"top5": 0.875}]
)
def test_the_reference_accuracy_is_the_training_logs(
    tree: Path, reference: dict[str, float]
) -> None:
    """A lower bar, a bar more, or none at all."""
    put(reference_accuracy=reference)(tree / MEASURES)
    assert "facts.agree" in errors(tree)


WEIGHTS = [
    ("starting_weights_filename", "checkpoints/resnet50/other"),
    ("starting_weights_filename", "resnet50.onnx"),
]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("scenario", "Offline"),
        ("retraining", "yes"),
        ("input_data_types", "int4"),
        ("weight_transformations", "pruned"),
        *WEIGHTS,
    ],
)
def test_mlcommons_fields_tell_what_was_served(tree: Path, field: str, value: str) -> None:
    """The official tools print them; weights of another name or format are others'."""
    put(**{field: value})(tree / MEASURES)
    assert any(field in text for text in errors(tree)["entry.measurements"])


# ---- checkpoints ----


def test_a_served_checkpoint_is_traced_to_its_training(tree: Path) -> None:
    """Weights from nowhere serve well."""
    put_system(checkpoint_sha256="7b" * 32)(tree / SERVED)
    put(checkpoint_sha256="7b" * 32)(tree / MEASURES)
    found = errors(tree)
    assert (
        "the checkpoint_sha256 of a training log in this tree"
        in {finding.required for finding in findings(tree)}
        and "entry.checkpoint" in found
    )


IMPORTED = "imported from a published checkpoint, SHA-256 " + "5a" * 32


@pytest.mark.parametrize(
    ("published", "origin", "found"),
    [
        ("acme/resnet50", IMPORTED, False),
        ("acme/resnet50", "", True),
        ("acme/resnet50", "random, seed 0", True),
        ("", IMPORTED, True),
    ],
)
def test_published_weights_need_no_training_where_the_row_serves_them(
    tree: Path, published: str, origin: str, found: bool
) -> None:
    """Only imported weights, and only where the benchmark is to serve a published model."""
    shutil.rmtree(next(tree.glob("**/resnet")))
    put(weights_origin=origin)(tree / MEASURES)
    half = replace(making.ROW.inference[Profile.SMOKE], published_weights=published)
    row = replace(making.ROW, inference={**making.ROW.inference, Profile.SMOKE: half})
    library = DocumentLibrary(
        replace(making.ROUND, benchmarks={**making.ROUND.benchmarks, making.WORKLOAD: row}), None
    )
    entry = library.read_entry(tree / ENTRY, recognise_path(tree / ENTRY).position)
    assert bool(list(checkpoint.check(entry))) is found


def test_weights_that_a_log_made_were_not_imported(tree: Path) -> None:
    """Who says so would be rid of the training's rules."""
    put(weights_origin=IMPORTED)(tree / MEASURES)
    assert any(IMPORTED in text for text in errors(tree)["entry.checkpoint"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (swap('"status": "success"', '"status": "aborted"'), "missed its target"),
        (swap('"value": 0.875,', '"value": 0.7,'), "missed its target"),
    ],
)
def test_the_training_behind_a_checkpoint_reached_its_target(
    tree: Path, change: Callable[[Path], None], words: str
) -> None:
    """Those of a failed run may not be served."""
    change(tree / LOG)
    assert any(words in text for text in errors(tree)["entry.checkpoint"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (swap(making.NONCE, "e" * 32), "campaign_nonce"),
        (
            swap('"podium_profile", "value": "smoke"', '"podium_profile", "value": "quick"'),
            "podium_profile",
        ),
    ],
)
def test_the_training_behind_a_checkpoint_is_of_this_campaign(
    tree: Path, change: Callable[[Path], None], words: str
) -> None:
    """An earlier campaign's weights may not be served under this one's name."""
    change(tree / LOG)
    assert any(words in text for text in errors(tree)["facts.agree"])


def test_a_second_training_of_the_same_weights_holds_the_higher_bar(tree: Path) -> None:
    """Where two logs name one checkpoint, nobody chooses the lower reference."""
    other = tree / "open" / "acme" / "results" / "tower-torch-bf16" / "resnet"
    other.mkdir(parents=True)
    text = (tree / LOG).read_text().replace("box-torch-bf16", "tower-torch-bf16")
    (other / "result_0.txt").write_text(
        text.replace(
            '"reference_accuracy", "value": {"top1": 0.875}',
            '"reference_accuracy", "value": {"top1": 0.9}',
        )
    )
    assert any("top1 0.875" in text for text in errors(tree / ENTRY)["accuracy.reference"])


# ---- runs of an entry ----


def test_runs_are_numbered_from_one(tree: Path) -> None:
    """The first of three, filed as the only one."""
    folder = tree / ENTRY / "performance"
    (folder / "run_1").rename(folder / "run_2")
    assert errors(tree)["entry.runs"] == ["performance runs: run_2"]


def test_a_run_that_is_there_twice_is_found_whatever_was_changed_in_its_settings(
    tree: Path,
) -> None:
    """Two copies with another rate are still one run: its times and results give it away."""
    folder = tree / ENTRY / "performance"
    shutil.copytree(folder / "run_1", folder / "run_2")
    for key, value in (
        ("requested_single_stream_expected_latency_ns", 400_000),
        ("effective_target_qps", 2500.0),
    ):
        set_value(folder / "run_2" / DETAIL_LOG, key, value)
    assert "entry.distinct" in errors(tree)


@pytest.mark.parametrize("key", ["loadgen_version"])
def test_one_loadgen_made_all_runs_of_an_entry(tree: Path, key: str) -> None:
    """Another one may measure otherwise."""
    set_value(tree / ENTRY / "accuracy" / DETAIL_LOG, key, "5.0.1 @ 0123456789")
    assert "entry.version" in errors(tree)


def test_an_accuracy_record_has_no_ceiling(tree: Path) -> None:
    """Nothing is measured there."""
    put(ceiling=9e4)(tree / ACCURATE)
    assert "entry.ceiling" in errors(tree)


@pytest.mark.parametrize(
    "batches",
    [{"count": 4.0, "mean_size": 174.0}, {"count": 0.0, "mean_size": 0.0}, {}, {"count": 700.0}],
)
@pytest.mark.parametrize("record", [ACCURATE, TIMED])
def test_batches_hold_all_samples(tree: Path, batches: dict[str, float], record: str) -> None:
    """One more or less, and the record is not of this run."""
    put(batches=batches)(tree / record)
    assert "entry.batches" in errors(tree)


# ---- systems ----


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"framework": "tensorflow 2.0"}, "facts.agree"),
        ({"podium__profile": "full"}, "facts.agree"),
        ({"podium__profile": "tiny"}, "system.stamps"),
        ({"podium__round": "podium-v2"}, "system.stamps"),
        ({"status": "sold"}, "system.stamps"),
        ({"status": "unavailable"}, "system.stamps"),
        ({"division": "closed"}, "system.place"),
        ({"submitter": "beta"}, "system.place"),
        ({"system_name": "tower"}, "system.place"),
        ({"number_of_nodes": 0}, "system.counts"),
        ({"host_processor_core_count": "two"}, "system.counts"),
        ({"accelerators_per_node": -1}, "system.counts"),
        ({"accelerator_model_name": "X1"}, "system.counts"),
        ({"number_of_nodes": 1.5}, "system.counts"),
        ({"accelerators_per_node": "\uff18"}, "system.counts"),
    ],
)
def test_a_system_is_described_as_it_is_filed(
    tree: Path, change: dict[str, Any], rule: str
) -> None:
    """Its names are its folders', its framework is what served."""
    put(**change)(tree / SYSTEM)
    assert rule in errors(tree)


@pytest.mark.parametrize("count", [2, 2.0, "2", "2.0", None])
def test_a_count_may_be_text_and_may_be_unknown(tree: Path, count: object) -> None:
    """What cannot be read from a machine is null."""
    put(host_processor_core_count=count)(tree / SYSTEM)
    assert "system.counts" not in errors(tree)


@pytest.mark.parametrize("framework", ["torch 2.13.0", "PyTorch/Torch 2.13", None])
def test_a_framework_may_be_spelled_with_more(tree: Path, framework: str | None) -> None:
    """Versions and companies; a null could not be read."""
    put(framework=framework)(tree / SYSTEM)
    assert "facts.agree" not in errors(tree)


@pytest.mark.slow
def test_a_field_that_a_description_lacks_is_told(tree: Path) -> None:
    """Null is a word, absence is none."""
    document = json.loads((tree / SYSTEM).read_text())
    for field in sorted(document):
        (tree / SYSTEM).write_text(
            json.dumps({key: value for key, value in document.items() if key != field})
        )
        assert "file.shape" in errors(tree), field


def test_the_system_that_trained_names_its_framework(tree: Path) -> None:
    """As the one that serves does."""
    path = tree / "open" / "acme" / "systems" / "box-torch-bf16.json"
    put(framework="jax 0.4")(path)
    assert errors(tree)["facts.agree"] == ["framework 'jax 0.4'"]


@pytest.mark.parametrize(
    "log",
    [
        "open/acme/results/other/resnet/result_0.txt",
        "zzz",
        "",
        "open/acme/results/box-torch-bf16/resnet/result_1.txt",
    ],
)
def test_a_checkpoint_names_the_log_that_names_it(tree: Path, log: str) -> None:
    """Each finds the other."""
    (path,) = tree.glob("checkpoints/*/*/record.json")
    put(training_log=log)(path)
    assert "checkpoint.record" in errors(tree)


@pytest.mark.parametrize("workload", ["gnmt", "zzz", ""])
def test_a_checkpoints_workload_is_its_folders(tree: Path, workload: str) -> None:
    """One that nobody knows does not hide the record from the rules."""
    (path,) = tree.glob("checkpoints/*/*/record.json")
    put(workload=workload)(path)
    assert "checkpoint.record" in errors(tree)


# ---- submissions ----


def test_scenarios_of_one_system_serve_one_checkpoint(tmp_path: Path) -> None:
    """The best weights for each scenario would be a choice after the fact."""
    tree = making.write_tree(tmp_path / "t", Scenario.SINGLE_STREAM, Scenario.OFFLINE)
    assert errors(tree) == {}
    for path in tree.glob("**/Offline/system.json"):
        put_system(checkpoint_sha256="7b" * 32)(path)
    assert "tree.checkpoint" in errors(tree)


def test_results_of_two_profiles_are_told_apart(tree: Path) -> None:
    """A warning: both may be good, and they are never compared."""
    (tree / LOG).write_text(
        (tree / LOG)
        .read_text()
        .replace('"podium_profile", "value": "smoke"', '"podium_profile", "value": "quick"')
    )
    found = [finding for finding in findings(tree) if finding.rule == "tree.profile"]
    assert (
        len(found) == 1
        and found[0].severity is Severity.WARNING
        and found[0].found == "profiles quick, smoke"
    )


@pytest.mark.parametrize("name", ["box-torch-fp32", "box-torch-bf16"])
def test_every_system_with_results_is_described(tree: Path, name: str) -> None:
    """Of training and of serving."""
    (tree / "open" / "acme" / "systems" / f"{name}.json").unlink()
    assert errors(tree)["tree.systems"] == [f"system {name}"]


@pytest.mark.parametrize("near", [True, False])
def test_a_workload_may_say_which_answers_come_from_one_model(
    tree: Path, monkeypatch: pytest.MonkeyPatch, near: bool
) -> None:
    """Scores of detections depend on the size of the batch; a workload that says nothing has its
    bytes compared.
    """
    for path in tree.rglob("performance/run_1/mlperf_log_accuracy.json"):
        path.write_text(path.read_text().replace("000000", "000001"))
    assert "answers.same" in errors(tree)
    monkeypatch.setattr(
        "compliance.kinds.podium.rules.inference.answers.registry.load_agreement",
        lambda name: lambda one, other: near,
    )
    assert ("answers.same" in errors(tree)) is not near


@pytest.mark.parametrize("marked", [4, 64])
def test_sequence_numbers_stand_once_and_were_issued(
    monkeypatch: pytest.MonkeyPatch, marked: int
) -> None:
    """Above the marked numbers and below: a number that stands twice, and one that was never
    issued.
    """
    monkeypatch.setattr(answer_rules, "MARKED_SEQUENCE_NUMBERS", marked)
    assert list(answer_rules.find_invalid_sequence_numbers([0, 9, 1, 9, 1, 12, -1], 12.0)) == [
        (3, True),
        (4, True),
        (5, False),
        (6, False),
    ]
    assert list(answer_rules.find_invalid_sequence_numbers([0], -8.0)) == [
        (0, False)
    ]  # a log may say that fewer than none were issued


@pytest.mark.parametrize("target", [".", str(Path(LOG).parent)])
def test_a_log_that_cannot_be_read_is_one_error(tree: Path, target: str) -> None:
    """Not also a set that did not converge, and entries without the training of their checkpoint:
    nothing in the log is known.
    """
    path = tree / LOG
    path.unlink()
    os.mkfifo(path)  # root reads files of any mode, but no pipes
    told = [each for each in findings(tree / target) if each.severity is Severity.ERROR]
    assert [(each.rule, each.file) for each in told] == [("file.readable", str(path))]
