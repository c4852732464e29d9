"""The row: what `full` asks for is what MLPerf's own rounds ask for, and its recipes are legal."""

from pathlib import Path

import pytest

from compliance.kinds.inference_mllog.round import load_inference_mllog_round
from compliance.kinds.training.convergence_points import find_convergence_reference
from compliance.kinds.training.round import load_training_round
from suite import registry
from suite.files.layout import compute_folder_sha256
from suite.loadgen.scenario import Scenario
from suite.rounds import Benchmark, Profile, Round
from suite.rounds.legality import check_hyperparameter_constraints, check_served_settings
from suite.rounds.settings import collect_workload_settings, resolve_settings
from suite.terms import Division
from workloads.common.text.references import write_references
from workloads.llama.inference import GENERATING_ENGINE, GENERATION_TYPES
from workloads.llama.news import DOCUMENT_TOKENS, compute_floor
from workloads.llama.recipe import select_llama_hyperparameters
from workloads.llama.served_news import SERVING_DOCUMENTS, generate_serving_documents

TRAINED = load_training_round("training-v5.1")
SERVED = load_inference_mllog_round("inference-v6.1").models["llama3.1-8b"]


@pytest.fixture(scope="module")
def round() -> Round:
    return registry.load_round()


@pytest.fixture(scope="module")
def row(round: Round) -> Benchmark:
    return round.benchmark("llama")


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.FULL])
def test_recipes_pass_mlperfs_constraints_and_our_own(
    round: Round, row: Benchmark, profile: Profile
) -> None:
    """A point of the reference that the judge refused would be of no use."""
    published = TRAINED.benchmarks["llama31_8b"]
    sizes = {recipe["global_batch_size"] for recipe in row.training[Profile.FULL].recipes}
    for size in sizes:
        settings = resolve_settings(round, "llama", profile, {"global_batch_size": size})
        values = settings | {"eval_samples": row.training[profile].eval_samples or 0}
        for constraints in (published.constraints, row.training[Profile.FULL].constraints):
            assert not list(check_hyperparameter_constraints(constraints, values))


def test_recipes_are_the_reference_convergence_points(round: Round, row: Benchmark) -> None:
    reference = find_convergence_reference(TRAINED, "llama31_8b", TRAINED.benchmarks["llama31_8b"])
    assert reference is not None
    recipes = row.training[Profile.FULL].recipes
    assert {recipe["global_batch_size"] for recipe in recipes} >= {
        point.batch for point in reference.points
    }
    for recipe in recipes:
        rate, last = recipe["opt_base_learning_rate"], recipe["opt_end_learning_rate"]
        assert last == pytest.approx(float(str(rate)) / 10)
    most = row.training[Profile.FULL].max_epochs * 12_288
    assert all(point.mean * 1.5 < most for point in reference.points)


def test_full_trains_to_mlperfs_target(row: Benchmark) -> None:
    published = TRAINED.benchmarks["llama31_8b"]
    full = row.training[Profile.FULL]
    assert full.division is Division.CLOSED
    assert full.target == dict(published.targets[0].metrics) == {"loss": 3.3}
    assert full.runs == published.runs
    assert full.train_samples == published.evaluate_every_samples
    assert set(full.required) == set(published.required)


def test_full_serves_within_mlperfs_bounds(row: Benchmark) -> None:
    full = row.inference[Profile.FULL]
    server, offline = (full.scenarios[each] for each in (Scenario.SERVER, Scenario.OFFLINE))
    assert full.performance_samples == SERVED.performance_samples == full.accuracy_samples
    assert server.first_token_ns == SERVED.first_token_ns["Server"]
    assert server.per_token_ns == SERVED.per_token_ns["Server"]
    assert server.equal_issue and offline.equal_issue and SERVED.equal_issue
    assert offline.min_queries == SERVED.offline_samples
    assert server.percentile == 99.0 and server.min_duration_ms == offline.min_duration_ms == 600e3
    assert not server.house_rule and not offline.house_rule


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.FULL])
def test_interactive_is_server_with_mlperfs_tighter_bounds(
    row: Benchmark, profile: Profile
) -> None:
    server = row.inference[profile].scenarios[Scenario.SERVER]
    tight = server.select_token_bounds({"tokens.bounds": "interactive"})
    assert tight.first_token_ns == SERVED.first_token_ns["Interactive"]
    assert tight.per_token_ns == SERVED.per_token_ns["Interactive"]
    assert tight.min_queries == server.min_queries
    assert server.select_token_bounds({"tokens.bounds": "server"}) is server
    assert server.select_token_bounds({}) is server


def test_full_has_mlperfs_accuracy_limits(row: Benchmark) -> None:
    """As shares of 1, and the length in characters."""
    full, names = row.inference[Profile.FULL], {"ROUGELSUM": "rougeLsum", "GEN_LEN": "gen_len"}
    wanted = {
        names.get(metric, metric.replace("ROUGE", "rouge")): limit
        for metric, limit in SERVED.accuracy.items()
    }
    shares = {key: each if key == "gen_len" else each / 100 for key, each in wanted.items()}
    assert full.threshold == pytest.approx(shares)
    assert full.threshold_most == {"gen_len": SERVED.accuracy_most["GEN_LEN"]}


def test_every_setting_is_free_or_held(round: Round, row: Benchmark) -> None:
    held = {constraint.key for constraint in row.training[Profile.FULL].constraints}
    assert not [
        key
        for key, setting in collect_workload_settings(round, row).items()
        if bool(setting.free) is (key in held or key == "endpoint.temperature")
    ]
    served = resolve_settings(round, "llama", Profile.FULL, {}, serving=True)
    assert not list(check_served_settings(round, "llama", Profile.FULL, served))
    warmer = {**served, "endpoint.temperature": "0.7"}
    (found,) = check_served_settings(round, "llama", Profile.FULL, warmer)
    assert (found.key, found.required) == ("endpoint.temperature", "unset")


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.FULL])
def test_the_user_brings_the_data(row: Benchmark, profile: Profile) -> None:
    assert profile not in row.embedded and "cnn_eval.json" in row.data


def test_the_log_has_the_steps_of_the_whole_schedule(round: Round) -> None:
    """Logs of v6.0 have to give 1,200,000; warm-up and decay are what a user sets."""
    settings = resolve_settings(round, "llama", Profile.FULL, {"global_batch_size": 64})
    assert select_llama_hyperparameters(settings)["max_steps"] == 1_200_000


@pytest.mark.parametrize("profile", list(Profile))
def test_the_judge_knows_every_name_that_a_run_logs(
    round: Round, row: Benchmark, profile: Profile
) -> None:
    logged = select_llama_hyperparameters(resolve_settings(round, "llama", profile, {}))
    known = {key for key, setting in row.settings.items() if setting.log}
    assert set(logged) <= known | set(row.training[profile].required)


def test_the_row_has_the_formats_of_the_generator(row: Benchmark) -> None:
    assert {key: set(each) for key, each in row.generated_with.items()} == {
        GENERATING_ENGINE: set(GENERATION_TYPES)
    }


def test_the_target_of_smoke_is_a_stated_distance_above_the_floor(row: Benchmark) -> None:
    """A change of the news that makes them easier or harder has to move the target."""
    target = row.training[Profile.SMOKE].target["loss"]
    assert target - compute_floor() == pytest.approx(0.03, abs=5e-4)


def test_the_pinned_truth_is_that_of_the_served_news(row: Benchmark, tmp_path: Path) -> None:
    """The generator decides it, on every machine."""
    write_references(tmp_path, [each.summary for each in generate_serving_documents()])
    served = row.inference[Profile.SMOKE]
    assert compute_folder_sha256(tmp_path) == served.truth_sha256
    assert served.accuracy_samples == SERVING_DOCUMENTS


def test_sequences_of_smoke_hold_whole_documents(row: Benchmark) -> None:
    settings = row.training[Profile.SMOKE].settings
    assert int(str(settings["max_sequence_length"])) % DOCUMENT_TOKENS == 0
