"""`podium submit training` of ResNet-50, SSD, Mask R-CNN, GNMT and the Transformer, for the rounds
that had them: podium's own logs of profile full become a submission that podium and the package
checker of mlperf-logging accept, and each edit of it is found.

The logs have podium's events and the settings of profile full, by podium's writer, at times of the
round and with scores that were given to them: a training of days takes another machine.
"""

import re
import shutil
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner, Result
from making_full_sets import FULL_TRAININGS, SYSTEM, write_full_set, write_statements

from compliance.judge import Judge
from compliance.verdict import Severity
from submissions.commands.submit import submit
from submissions.submit.official import TrainingChecker
from suite import registry
from suite.errors import JudgedError, RequestError
from workloads.common.inputs.batches import count_rank_micro_batches

pytestmark = pytest.mark.slow

IS_INSTALLED: Final = find_spec("mlperf_logging") is not None
BEGAN_MS: Final = {
    "v0.7": 1_590_000_000_000,
    "v1.0": 1_621_000_000_000,
    "v1.1": 1_634_000_000_000,
    "v3.1": 1_696_000_000_000,
    "v4.0": 1_712_000_000_000,
}
"""Round -> a day in the months before it was published."""
TODAY_MS: Final = 1_795_000_000_000
LAST_ROUNDS: Final = (
    ("resnet50", "v0.7"),
    ("resnet50", "v1.0"),
    ("resnet50", "v1.1"),
    ("resnet50", "v4.0"),
    ("ssd", "v0.7"),
    ("ssd", "v1.0"),
    ("ssd", "v1.1"),
    ("maskrcnn", "v0.7"),
    ("maskrcnn", "v1.0"),
    ("maskrcnn", "v1.1"),
    ("maskrcnn", "v3.1"),
    ("gnmt", "v0.7"),
    ("transformer", "v0.7"),
)
"""Each benchmark with v0.7, the rounds of v1, and the last that had it."""
TENSOR_PATTERN: Final = re.compile(r'"(\w+)"')


def run_submit(results: Path, target: Path, round_name: str, *more: str) -> Result:
    """Run the command in this process."""
    words = [str(results), "--round", round_name, "-o", str(target), "--org", "acme", *more]
    return CliRunner().invoke(submit, ["training", *words])


@pytest.fixture(scope="session")
def stated(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options with what podium does not know."""
    return write_statements(tmp_path_factory.mktemp("stated"))


def list_error_rules(tree: Path, round_name: str) -> set[str]:
    """The rules that podium finds broken."""
    findings = Judge(f"training-{round_name}").judge_path(str(tree)).findings
    return {each.rule for each in findings if each.severity is Severity.ERROR}


def list_official_errors(tree: Path, round_name: str) -> list[str]:
    """The errors of the package checker."""
    said = TrainingChecker().check_submission(tree / "acme", f"training-{round_name}")
    return [each.text for each in said.findings if each.severity is Severity.ERROR]


def name_tensors(results: Path, workload: str, round_name: str) -> None:
    """Log the tensors that the round's ruleset asks for: the names are the reference's, and podium
    has none of them.
    """
    import mlperf_logging

    folder = FULL_TRAININGS[workload].folder
    rules = Path(mlperf_logging.__file__).parent / "compliance_checker"
    text = (rules / f"training_{round_name[1:]}.0/closed_{folder}.yaml").read_text()
    ends = [str(each["END"]["CHECK"]) for each in yaml.safe_load(text) if "END" in each]
    for log in results.glob(f"closed/acme/results/{SYSTEM}/{folder}/result_*.txt"):
        lines = log.read_text().splitlines(keepends=True)
        (place,) = (at for at, line in enumerate(lines) if '"key": "init_stop"' in line)
        model = lines[place].replace("INTERVAL_END", "POINT_IN_TIME")
        model = model.replace('"init_stop"', '"weights_initialization"')
        lines[place:place] = [
            model.replace('"metadata": {', f'"metadata": {{"tensor": "{name}", ')
            for check in ends
            for name in TENSOR_PATTERN.findall(check)
        ]
        log.write_text("".join(lines))


@pytest.mark.parametrize(("workload", "round_name"), LAST_ROUNDS)
def test_a_set_becomes_a_tree_that_both_accept(
    tmp_path: Path, stated: list[str], workload: str, round_name: str
) -> None:
    """Rulesets of v1.1 ask for more than accepted logs have, which podium calls doubtful."""
    results = write_full_set(tmp_path, workload, BEGAN_MS[round_name])
    target = tmp_path / "tree"
    checker = ["--checker"] if IS_INSTALLED else []
    done = run_submit(results, target, round_name, *stated, *checker)
    assert done.exit_code == 0, done.output
    assert list_error_rules(target, round_name) == set()
    training = FULL_TRAININGS[workload]
    place = f"acme/results/{SYSTEM}/{training.folder}"
    logs = sorted((target / place).iterdir())
    assert len(logs) == training.runs
    for log in logs:
        source = results / "closed" / place / log.name
        assert log.read_bytes() == source.read_bytes()
    assert (target / f"acme/systems/{SYSTEM}.json").is_file()
    assert (target / f"acme/benchmarks/{training.folder}/implementations/code/run.sh").is_file()
    is_doubtful = "doubtful submit.initialization" in done.output
    assert is_doubtful == (round_name == "v1.1")
    if IS_INSTALLED:
        assert "podium: passed, errors: 0" in done.output
        assert (f"{round_name[1:]}.0: passed, errors: 0" in done.output) != is_doubtful


@pytest.mark.skipif(not IS_INSTALLED, reason="mlperf-logging is not installed")
@pytest.mark.parametrize("workload", ["resnet50", "ssd", "maskrcnn"])
def test_the_names_of_tensors_are_all_that_v1_1_asks_for_besides(
    tmp_path: Path, stated: list[str], workload: str
) -> None:
    results = write_full_set(tmp_path, workload, BEGAN_MS["v1.1"])
    name_tensors(results, workload, "v1.1")
    done = run_submit(results, tmp_path / "tree", "v1.1", *stated, "--checker")
    assert done.exit_code == 0, done.output
    assert "submit.initialization" not in done.output
    assert "podium: passed, errors: 0" in done.output
    assert "1.1.0: passed, errors: 0" in done.output


def replace_in_all(root: Path, old: str, new: str) -> None:
    """Replace a text in all logs of a tree: one of them may be broken."""
    for log in root.glob("acme/results/*/*/result_*.txt"):
        text = log.read_text()
        assert old in text
        log.write_text(text.replace(old, new))


def drop_in_all(root: Path, key: str) -> None:
    """Drop an event from all logs of a tree."""
    for log in root.glob("acme/results/*/*/result_*.txt"):
        lines = log.read_text().splitlines(keepends=True)
        kept = [line for line in lines if f'"key": "{key}"' not in line]
        assert len(kept) < len(lines)
        log.write_text("".join(kept))


def edit_value(key: str, old: str, new: str) -> Callable[[Path], None]:
    """Change a hyper-parameter in all logs."""
    name = f'"key": "{key}", "value": '
    return lambda root: replace_in_all(root, name + old, name + new)


def drop_run(root: Path) -> None:
    """Leave a run out."""
    (log,) = root.glob("acme/results/*/*/result_4.txt")
    log.unlink()


EDITS: Final[dict[str, tuple[str, str, Callable[[Path], Any], str, bool]]] = {
    "a run less": ("gnmt", "v0.7", drop_run, "runs.count", True),
    "another power of the decay": (
        "resnet50",
        "v0.7",
        edit_value("lars_opt_learning_rate_decay_poly_power", "2", "1"),
        "log.legality",
        True,
    ),
    "no accumulation": (
        "resnet50",
        "v1.0",
        lambda root: drop_in_all(root, "gradient_accumulation_steps"),
        "log.hyperparameters",
        True,
    ),
    "two crops": ("ssd", "v1.0", edit_value("max_samples", "1", "2"), "log.legality", True),
    "another epoch of the fall": (
        "ssd",
        "v0.7",
        edit_value("opt_learning_rate_decay_boundary_epochs", "[40, 50]", "[40, 51]"),
        "log.legality",
        True,
    ),
    "no masks": (
        "maskrcnn",
        "v0.7",
        lambda root: replace_in_all(root, '"SEGM": 0.33', '"SEGM": 0.23'),
        "log.target",
        True,
    ),
    "a smaller fall": (
        "maskrcnn",
        "v1.0",
        edit_value("opt_learning_rate_decay_factor", "0.1", "0.2"),
        "log.legality",
        True,
    ),
    "another fall": (
        "gnmt",
        "v0.7",
        edit_value("opt_learning_rate_decay_factor", "0.5", "0.6"),
        "log.legality",
        False,
    ),
    "no method": (
        "transformer",
        "v0.7",
        lambda root: replace_in_all(root, '"method": "discard", ', ""),
        "log.method",
        True,
    ),
    "another benchmark": (
        "transformer",
        "v0.7",
        lambda root: (root / f"acme/results/{SYSTEM}/transformer").rename(
            root / f"acme/results/{SYSTEM}/gnmt"
        ),
        "log.place",
        False,
    ),
}
"""Edits of a tree, each with its benchmark and round, podium's rule, and whether the package
checker finds it.
"""


@pytest.fixture(scope="session")
def build_tree(
    tmp_path_factory: pytest.TempPathFactory, stated: list[str]
) -> Callable[[str, str], Path]:
    """Build the tree of a benchmark and a round once."""
    built: dict[tuple[str, str], Path] = {}

    def build(workload: str, round_name: str) -> Path:
        if (workload, round_name) not in built:
            home = tmp_path_factory.mktemp(workload)
            results = write_full_set(home, workload, BEGAN_MS[round_name])
            done = run_submit(results, home / "tree", round_name, *stated)
            assert done.exit_code == 0, done.output
            built[workload, round_name] = home / "tree"
        return built[workload, round_name]

    return build


@pytest.mark.parametrize("name", EDITS)
def test_each_edit_is_found(
    build_tree: Callable[[str, str], Path], tmp_path: Path, name: str
) -> None:
    workload, round_name, change, rule, is_found_officially = EDITS[name]
    tree = Path(shutil.copytree(build_tree(workload, round_name), tmp_path / "tree"))
    change(tree)
    assert rule in list_error_rules(tree, round_name)
    if IS_INSTALLED:
        assert bool(list_official_errors(tree, round_name)) == is_found_officially


def test_runs_of_today_are_doubtful(tmp_path: Path, stated: list[str]) -> None:
    """They are of a round that was published years ago; its checker does not look."""
    results = write_full_set(tmp_path, "ssd", TODAY_MS)
    done = run_submit(results, tmp_path / "tree", "v1.0", *stated)
    assert done.exit_code == 0 and "doubtful log.date\n" in done.output, done.output


def test_what_is_missing_is_listed_and_nothing_written(tmp_path: Path) -> None:
    """Of two benchmarks at once, in a round that has one of them."""
    results = write_full_set(tmp_path, "maskrcnn", BEGAN_MS["v1.0"])
    others = write_full_set(tmp_path / "other", "gnmt", BEGAN_MS["v1.0"])
    place = f"closed/acme/results/{SYSTEM}"
    shutil.copytree(others / place / "gnmt", results / place / "gnmt")
    (results / place / "maskrcnn/result_4.txt").unlink()
    done = run_submit(results, tmp_path / "tree", "v1.0")
    assert isinstance(done.exception, JudgedError) and not (tmp_path / "tree").exists()
    assert "left out, as training-v1.0 has no gnmt" in done.output
    for rule in ("missing submit.code", "missing runs.count", "doubtful org.fields"):
        assert f"{rule}\n" in done.output
    assert "4 runs; required: 5 runs of maskrcnn" in done.output


@pytest.mark.parametrize(
    ("workload", "round_name", "others"),
    [
        ("ssd", "v2.0", "training-v0.6, training-v0.7, training-v1.0, training-v1.1"),
        ("ssd", "v4.1", "training-v0.6, training-v0.7, training-v1.0, training-v1.1"),
        ("gnmt", "v1.0", "training-v0.6, training-v0.7"),
        ("transformer", "v1.0", "training-v0.6, training-v0.7"),
    ],
)
def test_a_round_without_the_benchmark_is_refused(
    tmp_path: Path, workload: str, round_name: str, others: str
) -> None:
    """Since v2.0 RetinaNet is filed as ssd: the name stayed, the network did not."""
    results = write_full_set(tmp_path, workload, TODAY_MS)
    done = run_submit(results, tmp_path / "tree", round_name)
    assert isinstance(done.exception, RequestError)
    assert str(done.exception).endswith(f"rounds that have some of them: {others}")


@pytest.mark.parametrize("workload", ["resnet50", "ssd", "maskrcnn"])
def test_the_accumulation_of_the_logs_is_that_of_one_rank(workload: str) -> None:
    """As the workload's `facts` counts it from the settings of profile full."""
    row = registry.load_round().benchmark(workload).training
    settings = next(each.settings for name, each in row.items() if name == "full")
    batch = settings["global_batch_size"]
    span = settings.get("model_bn_span", settings.get("data.micro_batch"))
    assert isinstance(batch, int) and isinstance(span, int)
    assert count_rank_micro_batches(batch, span, 1) == FULL_TRAININGS[workload].accumulation
