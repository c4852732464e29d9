"""What a training log discloses for MLPerf Training, beside what it states for podium."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from making import Event, changed, training_events, write_log
from making_llama import build_llama_subject
from spoiling import DISCLOSED, disclosed

from compliance.judge import Judge
from suite import registry
from suite.rounds.settings import resolve_settings
from suite.terms import Precision, Profile
from workloads.common.optimisation.disclosed_facts import collect_disclosed_facts
from workloads.llama.recipe import LlamaRecipe
from workloads.llama.training import ROW_FILE

LINEAR, ATTENTION, EXCHANGE = (
    f"lowest_numerical_precision_in_{part}" for part in ("linear", "attn", "comm")
)


def found(folder: Path, events: Sequence[Event]) -> list[tuple[str, str]]:
    """What the rule finds; no other one has anything to say of the same line."""
    path = write_log(folder / "result_0.txt", events)
    findings = Judge().judge_path(str(path)).findings
    lines = {each.line for each in findings if each.rule == "training.disclosure"}
    assert not [
        each for each in findings if each.line in lines and each.rule != "training.disclosure"
    ]
    return [(each.found, each.required) for each in findings if each.rule == "training.disclosure"]


def on_ranks(ranks: int, **changes: Any) -> list[Event]:
    """The usual training on several ranks."""
    return disclosed(changed(training_events(), "world_size", value=ranks), **changes)


def test_the_usual_training_contradicts_nothing(tmp_path: Path) -> None:
    assert found(tmp_path, training_events()) == []
    assert found(tmp_path, disclosed()) == []
    assert found(tmp_path, disclosed(**{LINEAR: "BFloat16"})) == []


CONTRADICTED: list[tuple[str, list[Event], str, str]] = [
    (
        "linear layers of another precision",
        disclosed(**{LINEAR: "fp8"}),
        f"{LINEAR} 'fp8'",
        "'bfloat16', since precision is 'bf16'",
    ),
    (
        "attention of another precision",
        disclosed(**{ATTENTION: "fp32"}),
        f"{ATTENTION} 'fp32'",
        "'bfloat16', since precision is 'bf16'",
    ),
    (
        "gradients of another precision",
        disclosed(**{EXCHANGE: "bfloat16"}),
        f"{EXCHANGE} 'bfloat16'",
        "'fp32', since train.gradient_format is 'fp32'",
    ),
    (
        "no word at all",
        disclosed(**{LINEAR: 16}),
        f"{LINEAR} 16",
        "'bfloat16', since precision is 'bf16'",
    ),
    (
        "more tensor parallelism than ranks",
        disclosed(tensor_parallelism=2),
        "tensor_parallelism 2",
        "a divisor of world_size 1",
    ),
    (
        "parallelisms that do not fit together",
        on_ranks(4, tensor_parallelism=2, pipeline_parallelism=4, micro_batch_size=16),
        "tensor_parallelism 2 x pipeline_parallelism 4",
        "a divisor of world_size 4",
    ),
    (
        "experts on three of four ranks",
        on_ranks(4, expert_parallelism=3, micro_batch_size=16),
        "expert_parallelism 3",
        "a divisor of world_size 4",
    ),
    (
        "the micro-batch of a run on one rank",
        on_ranks(2),
        "micro_batch_size 64 x 2 copies",
        "global_batch_size 64",
    ),
    ("no micro-batch", disclosed(micro_batch_size=0), "micro_batch_size 0", "a whole number above"),
    (
        "half a rank",
        disclosed(context_parallelism=0.5),
        "context_parallelism 0.5",
        "a whole number above 0",
    ),
    (
        "another workload's configuration",
        disclosed(config_filename="workloads/llama/podium-v1.toml"),
        "config_filename 'workloads/llama/podium-v1.toml'",
        "that of podium_workload 'resnet50'",
    ),
    (
        "another round's configuration",
        disclosed(config_filename="workloads/resnet50/podium-v2.toml"),
        "config_filename 'workloads/resnet50/podium-v2.toml'",
        "that of podium_round 'podium-v1'",
    ),
]


@pytest.mark.parametrize(
    ("events", "told", "wanted"), [case[1:] for case in CONTRADICTED], ids=lambda case: ""
)
def test_what_two_events_state_differently_is_found(
    tmp_path: Path, events: list[Event], told: str, wanted: str
) -> None:
    [(first, required)] = found(tmp_path, events)
    assert first == told and required.startswith(wanted)


@pytest.mark.parametrize(
    "events",
    [
        on_ranks(2, tensor_parallelism=2),
        on_ranks(4, tensor_parallelism=2, micro_batch_size=32),
        on_ranks(4, expert_parallelism=4, micro_batch_size=16),
        disclosed(config_filename="conf/acme.yaml"),
    ],
    ids=["one copy", "two copies", "experts of four copies", "a file of another party"],
)
def test_ranks_may_be_divided_in_any_way_that_adds_up(tmp_path: Path, events: list[Event]) -> None:
    """Another party's workload may divide its network among ranks."""
    assert found(tmp_path, events) == []


def test_a_fact_that_is_disclosed_twice_is_no_fact(tmp_path: Path) -> None:
    for key, value in DISCLOSED.items():
        events = disclosed()
        (at,) = (place for place, event in enumerate(events) if event.key == key)
        path = write_log(tmp_path / "result_0.txt", [*events[:at], Event(key, value), *events[at:]])
        findings = Judge().judge_path(str(path)).findings
        assert {each.rule for each in findings} == {"training.constancy"}, key


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.TF32, Precision.BF16])
def test_what_llama_writes_contradicts_nothing(
    tmp_path: Path, ranks: int, precision: Precision
) -> None:
    """Its facts come from the program, on each number of ranks and in each precision."""
    subject = build_llama_subject()
    settings = resolve_settings(registry.load_round("podium-v1"), "llama", Profile.SMOKE, {})
    micro_batch = LlamaRecipe.build_from_settings(settings).compute_micro_batch(ranks)
    run: Any = SimpleNamespace(precision=precision, settings=settings)
    facts = collect_disclosed_facts(run, micro_batch, ROW_FILE)
    events = changed(training_events(subject=subject), "world_size", value=ranks)
    events = changed(events, "precision", value=precision.value)
    assert facts.keys() == DISCLOSED.keys()
    assert found(tmp_path, disclosed(events, **facts)) == []
