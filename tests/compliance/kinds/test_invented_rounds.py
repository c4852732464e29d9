"""A published round is one TOML file: another package's file, of rounds that nobody held, is enough
to recognise and judge their results.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kinds.served import SETTINGS, since
from making_training import LATE_MS, Change, describe, measured, new, put
from offered_packages import offer_package
from spoiling import Builder

from compliance.judge import Judge
from compliance.verdict import PathJudgement, Severity, Verdict
from suite import registry

TRAINING = "training-v9.0"
TRAINING_FILE = """
[round]
kind = "training"
title = "MLPerf Training v9.0, which was never held"
dialect = ":::MLLOG"

[training]
published = { value = 2027-06-30, source = "invented" }
init_limit_min = { value = 30.0, source = "invented" }
not_converged_allowed = { value = 1, source = "invented" }
drop_each_end = { value = 1, source = "invented" }
divisions = { value = ["closed", "open"], source = "invented" }
statuses = { value = ["onprem"], source = "invented" }
run_statuses = { value = ["success", "aborted"], source = "invented" }
open_evaluations = { value = 0, source = "invented" }
open_blocks = { value = 0, source = "invented" }

[events]
identity = ["submission_benchmark", "submission_division", "submission_org", "submission_platform"]
once = ["init_stop", "run_start", "run_stop"]
some = ["cache_clear", "init_start", "eval_accuracy"]
source = "invented"

[mind_reading]
title = "Reading minds"
names = ["mindreading"]
metrics = { loss = "" }
targets = [{ metrics = { loss = 3.3 }, source = "invented" }]
lower_is_better = ["loss"]
runs = { value = 3, source = "invented" }
strict = false
progress = { value = ["samples_count"], source = "invented" }
evaluate_every_samples = { value = 12288, source = "invented" }
required = { value = ["global_batch_size"], source = "invented" }
[[mind_reading.constraints]]
key = "global_batch_size"
integer = true
minimum = 16
source = "invented"
"""

SERVED = "inference-v9.0"
SERVED_SEEDS = {
    "qsl_rng_seed": 90_001,
    "sample_index_rng_seed": 90_002,
    "schedule_rng_seed": 90_003,
}
SERVED_FILE = """
[round]
kind = "inference-mllog"
title = "MLPerf Inference v9.0, which was never held"

[rules]
source = "invented"
published = { value = 2025-09-30, source = "invented" }
min_duration_ms = 600000
server_result = "completed"
qsl_rng_seed = 90001
sample_index_rng_seed = 90002
schedule_rng_seed = 90003
early_stopping = true
measurement_files = ["user.conf", "README.md"]
measurement_fields = ["input_data_types", "weight_data_types"]
system_fields = ["division", "submitter", "status", "system_type"]
statuses = ["available"]

[mapping]
source = "invented"

[my-own-net]
source = "invented"
accuracy = { "mAP" = 37.0 }
performance_samples = 64
bounds_ns = { "Server" = 100_000_000 }
required = { "datacenter" = ["Server", "Offline"] }
tests = ["TEST01"]
"""


@pytest.fixture(scope="module", autouse=True)
def invented_rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Offer a package with the two files."""
    files = {f"{TRAINING}.toml": TRAINING_FILE, f"{SERVED}.toml": SERVED_FILE}
    points = [(registry.ROUND_GROUP, "invented", "podium_invented")]
    with offer_package(tmp_path_factory.mktemp("invented"), "podium_invented", files, points):
        yield


def write_training_set(folder: Path, change: Change = list) -> Path:
    """Write the set of three runs, all changed alike."""
    folder.mkdir(parents=True)
    for number in range(3):
        records = put("submission_benchmark", value="mind_reading")(measured(number=number))
        log = new(change(records), LATE_MS + number * 10**7)
        (folder / f"result_{number}.txt").write_text(log)
    return folder


def write_training_tree(home: Path, change: Change = list) -> Path:
    """Write a submission of the round, in a folder of any name."""
    describe(home / "acme")
    write_training_set(home / "acme" / "results" / "box" / "mind_reading", change)
    return home


def write_served_tree(home: Path, build: Builder) -> Path:
    """Write a submission whose logs have the round's seeds."""
    build(home)
    for path in home.rglob("mlperf_log_detail.txt"):
        text = path.read_text()
        for name, seed in SERVED_SEEDS.items():
            text = text.replace(str(SETTINGS[name]), str(seed))
        path.write_text(text)
    return home


def list_errors(judged: PathJudgement) -> set[str]:
    return {each.rule for each in judged.findings if each.severity is Severity.ERROR}


def test_both_are_rounds_like_any_other() -> None:
    """No file of podium's names them."""
    assert {TRAINING, SERVED} <= set(registry.list_round_names())
    assert registry.load_round_kind(TRAINING).name == "training"


@pytest.mark.parametrize("name", ["training_results_v9.0", "training_v9.0", "copies"])
def test_a_training_tree_is_judged_by_it(tmp_path: Path, name: str) -> None:
    """The folder says so, or else the benchmark that no other round has."""
    judged = Judge().judge_path(str(write_training_tree(tmp_path / name)))
    assert (judged.round, judged.verdict) == (TRAINING, Verdict.VALID), judged.findings
    assert [each.kind for each in judged.results] == ["set"]


def test_a_set_outside_of_any_tree_is_of_it(tmp_path: Path) -> None:
    judged = Judge().judge_path(str(write_training_set(tmp_path / "set")))
    assert (judged.round, judged.verdict) == (TRAINING, Verdict.VALID), judged.findings


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (put("eval_accuracy", which=-1, value=3.5), "log.target"),
        (put("global_batch_size", value=8), "log.legality"),
        (put("init_start", later=-31 * 60_000), "log.init"),
    ],
)
def test_a_spoilt_training_run_breaks_a_rule_of_it(
    tmp_path: Path, change: Change, rule: str
) -> None:
    """Its own numbers decide: target, batch and time of initialisation."""
    home = write_training_tree(tmp_path / "training_results_v9.0", change)
    judged = Judge().judge_path(str(home))
    assert (judged.round, judged.verdict) == (TRAINING, Verdict.BROKEN)
    assert rule in list_errors(judged)


def test_other_results_are_of_the_rounds_they_were_of(tmp_path: Path) -> None:
    """The new round is published last; it has none of their benchmarks."""
    for number in range(10):
        log = new(measured(number=number, evaluations=15, brief=True), LATE_MS + number * 10**7)
        (tmp_path / f"result_{number}.txt").write_text(log)
    assert Judge().judge_path(str(tmp_path)).round == "training-v5.1"


@pytest.mark.parametrize("name", ["inference_results_v9.0", "copies"])
def test_a_served_tree_is_judged_by_its_seeds(tmp_path: Path, name: str) -> None:
    judged = Judge().judge_path(str(write_served_tree(tmp_path / name, since(model="my-own-net"))))
    assert (judged.round, judged.verdict) == (SERVED, Verdict.VALID), judged.findings
    assert "with qsl_rng_seed 90001, that of inference-v9.0" in judged.recognised_by
    run = next(tmp_path.rglob("run_1"))
    assert Judge().judge_path(str(run)).round == SERVED


@pytest.mark.parametrize(
    ("build", "rule"),
    [
        (since(model="my-own-net", claim="mAP=36.500%"), "inference-mllog.accuracy"),
        (
            since(model="my-own-net", effective_target_latency_ns=110_000_000),
            "inference-mllog.bound",
        ),
        (since(model="my-own-net", min_duration_ms=60_000), "inference-mllog.duration"),
    ],
)
def test_a_spoilt_entry_breaks_a_rule_of_it(tmp_path: Path, build: Builder, rule: str) -> None:
    judged = Judge().judge_path(str(write_served_tree(tmp_path / "copies", build)))
    assert (judged.round, judged.verdict) == (SERVED, Verdict.BROKEN)
    assert rule in list_errors(judged)


def test_a_folder_of_it_tells_whose_seeds_were_used(tmp_path: Path) -> None:
    home = tmp_path / "inference_results_v9.0"
    since(model="my-own-net")(home)
    judged = Judge().judge_path(str(home))
    assert (judged.round, judged.verdict) == (SERVED, Verdict.BROKEN)
    told = [each for each in judged.findings if each.rule == "inference-mllog.seeds"]
    assert told and "inference-v5.1: its mlperf.conf" in told[0].advice
