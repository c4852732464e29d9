"""Training rounds since v1.0 as data: what the official rulesets (PyPI mlperf-logging) ask for is
asked for here.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlperf_logging
import pytest
import yaml
from mlperf_logging.benchmark_meta import get_allowed_benchmarks, get_result_file_counts

from compliance.kinds.training.round import load_training_round
from suite import registry
from suite.rounds import Constraint
from suite.rounds.constraints import Relation
from suite.rounds.legality import check_hyperparameter_constraints
from suite.rounds.quality import has_reached_target
from suite.rounds.rows import apply_row_exceptions, find_benchmark_row

ROUNDS = tuple(
    name
    for name in registry.list_round_names()
    if name.startswith("training-v") and name >= "training-v1.0"
)
RULESETS = Path(mlperf_logging.__file__).parent / "compliance_checker"
NOT_ASKED = {
    "opt_epsilon",
    "opt_lamb_epsilon",
    "model_weights_initialization_scale",
    "weights_initialization",
    "submission_benchmark",
    "aggregated_eval_accuracy",
}
"""Asked for by rulesets that were written after accepted logs had been filed without; benchmark and
accuracy have rules of their own.
"""


def asked(name: str, benchmark: str) -> Iterator[str]:
    folder = RULESETS / f"training_{name.removeprefix('training-v')}.0"
    for file in ("closed_common.yaml", f"closed_{benchmark}.yaml"):
        for entry in yaml.safe_load((folder / file).read_text()):
            key: dict[str, Any] = entry.get("KEY", {})
            if key.get("REQ") in ("EXACTLY_ONE", "AT_LEAST_ONE") and key["NAME"] not in (
                *NOT_ASKED,
                "eval_accuracy",
                "train_samples",
                "eval_samples",
            ):
                yield key["NAME"]


@pytest.mark.parametrize("name", ROUNDS)
def test_benchmarks_and_runs_are_those_of_the_round(name: str) -> None:
    round = load_training_round(name)
    assert set(round.benchmarks) == set(
        get_allowed_benchmarks("training", name.removeprefix("training-v"))
    )
    assert {key: row.runs for key, row in round.benchmarks.items()} == {
        key: get_result_file_counts("training")[key] for key in round.benchmarks
    }


@pytest.mark.parametrize("name", ROUNDS)
def test_what_the_ruleset_requires_is_required(name: str) -> None:
    for benchmark, row in load_training_round(name).benchmarks.items():
        assert set(asked(name, benchmark)) <= set(row.required), benchmark


@pytest.mark.parametrize("name", ROUNDS)
def test_every_number_of_a_later_row_stands_beside_its_source(name: str) -> None:
    round = load_training_round(name)
    for key, row in round.benchmarks.items():
        assert all(
            round.find_source(f"{key}.{field}") != f"round {name}"
            for field in ("runs", "required", "targets.0", "progress")
        ), key
        assert all(
            f"{key}.constraints.{index}" in round.sources for index in range(len(row.constraints))
        ), key
    assert "init_stop" in round.find_source("training.init_limit_min")


@pytest.mark.parametrize(
    ("relation", "other", "value", "wrong"),
    [
        (Relation(of="global_batch_size", value=8e-5, at=1152), 2304, 1.6e-4, 8e-5),
        (
            Relation(of="global_batch_size", value=2.4e-5, at=16384, power=0.5, within=1e-9),
            4096,
            1.2e-5,
            1.3e-5,
        ),
        (Relation(of="global_batch_size", value=1e-6, at=8192, share=0.5), 8192, 1.49e-6, 1.6e-6),
        (
            Relation(of="global_batch_size", steps=1_382_400_000, less=9_216_000),
            1152,
            1_192_000,
            1_200_000,
        ),
        (
            Relation(of="opt_learning_rate_warmup_steps", rest_of=1_200_000),
            128,
            1_199_872,
            1_200_000,
        ),
        (Relation(of="global_batch_size", whole_batches=262_144), 1000, 263_000, 262_144),
        (Relation(of="opt_base_learning_rate"), 2e-6, 2e-6, 3e-6),
    ],
)
def test_a_value_that_follows_from_another_one(
    relation: Relation, other: float, value: float, wrong: float
) -> None:
    """The forms that the newer rulesets write as Python."""
    constraint = Constraint(key="told", relation=relation)
    assert not list(
        check_hyperparameter_constraints([constraint], {"told": value, relation.of: other})
    )
    assert [
        breach.key
        for breach in check_hyperparameter_constraints(
            [constraint], {"told": wrong, relation.of: other}
        )
    ] == ["told"]
    assert not list(check_hyperparameter_constraints([constraint], {"told": wrong}))
    assert isinstance(
        [
            breach.key
            for breach in check_hyperparameter_constraints(
                [constraint], {"told": wrong, relation.of: 1e-320}
            )
        ],
        list,
    )


def test_a_small_batch_of_maskrcnn_may_divide_its_learning_rate() -> None:
    """v2.0: 0.02 x K, and below 16 images 0.02 / K too."""
    rules = load_training_round("training-v2.0").find_closed_constraints("maskrcnn")
    assert rules is not None
    told = {"global_batch_size": 8, "opt_base_learning_rate": 0.01}
    assert not list(check_hyperparameter_constraints(rules, told))
    assert [
        breach.key
        for breach in check_hyperparameter_constraints(rules, told | {"global_batch_size": 32})
    ] == ["opt_base_learning_rate"]


@pytest.mark.parametrize(
    ("benchmark", "batch", "interval", "first"),
    [("deepseekv3_671b", 16384, 16384, 704_512), ("qwen35_397b_grpo", 256, 256, 4608)],
)
def test_the_first_evaluation_comes_when_the_ruleset_says(
    benchmark: str, batch: int, interval: int, first: int
) -> None:
    row = load_training_round("training-v6.1").benchmarks[benchmark]
    assert row.first_evaluation is not None
    assert row.first_evaluation.compute_samples_before(batch, interval) == first


@pytest.mark.parametrize(("batch", "block"), [(8192, 25), (16384, 31), (32768, 41)])
def test_dlrmv4_is_first_evaluated_where_its_ruleset_says(batch: int, block: int) -> None:
    """The ruleset's own comment gives these three."""
    row = load_training_round("training-v6.1").benchmarks["dlrmv4"]
    interval = -(-2_290_835 // batch) * batch
    assert row.first_evaluation is not None
    assert row.first_evaluation.compute_samples_before(batch, interval) == block * interval


@pytest.mark.parametrize("name", ROUNDS)
def test_a_target_is_passed_where_its_ruleset_says_greater_and_reached_elsewhere(name: str) -> None:
    """GRPO's is greater than; of the others that are higher-is-better, at least."""
    folder = RULESETS / f"training_{name.removeprefix('training-v')}.0"
    for benchmark, row in load_training_round(name).benchmarks.items():
        checks = [
            entry["KEY"].get("ATLEAST_ONE_CHECK", "")
            for entry in yaml.safe_load((folder / f"closed_{benchmark}.yaml").read_text())
            if "KEY" in entry
        ]
        greater = [check for check in checks if re.search(r"v\['value'\] > (?!0)", check)]
        for target in row.targets if not row.lower_is_better else ():
            exactly = dict(target.metrics)
            assert has_reached_target(exactly, target.metrics, (), target.above) is not bool(
                greater
            ), benchmark
            assert has_reached_target(
                {metric: goal + 1e-6 for metric, goal in exactly.items()},
                target.metrics,
                (),
                target.above,
            ), benchmark


def test_an_exception_replaces_what_the_row_says_in_its_rounds_alone() -> None:
    row = {
        "rounds": ["a", "b"],
        "runs": 5,
        "only": [{"rounds": ["b"], "runs": 7}],
        "constraints": [{"key": "x", "rounds": ["a"]}, {"key": "y"}],
    }
    assert apply_row_exceptions(row, "a") == {
        "runs": 5,
        "constraints": [{"key": "x"}, {"key": "y"}],
    }
    assert apply_row_exceptions(row, "b") == {"runs": 7, "constraints": [{"key": "y"}]}
    package = "compliance.kinds.training.rounds"
    assert find_benchmark_row("gpt3", "training", "training-v4.1", package) is not None
    assert find_benchmark_row("gpt3", "training", "training-v5.1", package) is None
