"""`podium submit inference` of ResNet-50, SSD and GNMT, for the rounds that had them: served results
in the layout and under the names of each round, with the accuracy in the words of its script, and
what is missing for it, each with its rule; each edit of a tree is found.

The results are in the form of LoadGen's and podium's files. Their records say that they are closed
results of profile full, though they have the counts and the times of smoke: the lists name them.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from making import RESNET50, SERVER, Subject, write_tree
from system_records import put_system

from compliance.judge import Judge
from compliance.kinds.inference_mllog.round import load_inference_mllog_round
from compliance.verdict import Severity
from submissions.commands.submit import submit
from submissions.submit.accuracy_text import describe_accuracy
from suite import registry
from suite.errors import JudgedError, RequestError
from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, SUMMARY_LOG, compute_file_sha256
from suite.loadgen.scenario import Scenario
from suite.terms import Profile

pytestmark = pytest.mark.slow

SCENARIO: Final = Scenario.SINGLE_STREAM.folder
KNOWN_BY_PODIUM: Final = frozenset({"submitter", "division", "system_name"})


@cache
def build_subject(workload: str) -> Subject:
    """A workload with answers that nobody reads."""
    if workload == "resnet50":
        return RESNET50
    metric = {"gnmt": "bleu"}.get(workload, "box_ap")
    row = registry.load_round().benchmark(workload).inference[Profile.SMOKE]
    return Subject(
        workload=workload,
        metric=metric,
        served=0.25,
        others={"mask_ap": 0.2} if workload == "maskrcnn" else {},
        answers=[bytes(4)] * (row.accuracy_samples or 100),
        write_truth=lambda folder: None if folder.joinpath("none").write_text("") else None,
    )


@pytest.fixture(scope="session")
def write_results(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Write the closed results of a workload, once."""
    written: dict[str, Path] = {}

    def write(workload: str) -> Path:
        if workload not in written:
            home = tmp_path_factory.mktemp(workload)
            write_tree(home, Scenario.SINGLE_STREAM, subject=build_subject(workload))
            (home / "open").rename(home / "closed")
            (record,) = home.glob(f"closed/acme/results/*/*/{SCENARIO}/system.json")
            put_system(division="closed", profile="full")(record)
            written[workload] = home
        return written[workload]

    return write


@pytest.fixture(scope="session")
def stated(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options with what podium does not know, in the fields of all rounds."""
    home = tmp_path_factory.mktemp("stated")
    names = {
        name
        for round_name in ("inference-v1.0", "inference-v6.1")
        for name in load_inference_mllog_round(round_name).rules.system_fields
    } - KNOWN_BY_PODIUM
    fields = {name: "as it is" for name in names if name not in KNOWN_FIELDS}
    fields |= {"status": "available", "system_type": "edge"}
    lines = [f'"{name}" = "{value}"' for name, value in sorted(fields.items())]
    (home / "box.toml").write_text("\n".join(["[system]", *lines]))
    (home / "ours").mkdir()
    (home / "ours" / "main.py").write_text("print()\n")
    (home / "beside").mkdir()
    for name in ("user.conf", "mlperf.conf", "README.md"):
        (home / "beside" / name).write_text("*.SingleStream.target_latency = 10\n")
    options = {"--system-file": "box.toml", "--code": "ours", "--measurements": "beside"}
    return [word for name, file in options.items() for word in (name, str(home / file))]


KNOWN_FIELDS: Final = frozenset(
    {
        "number_of_nodes",
        "host_processors_per_node",
        "host_processor_core_count",
        "accelerators_per_node",
        "host_processor_model_name",
        "host_memory_capacity",
        "host_storage_type",
        "host_storage_capacity",
        "framework",
        "other_software_stack",
        "operating_system",
    }
)
"""Counts, which podium finds out."""


def run_submit(results: Path, round_name: str, target: Path, *more: str) -> Result:
    """Run the command in this process."""
    words = [str(results), "--round", round_name, "-o", str(target), "--org", "acme"]
    return CliRunner().invoke(submit, ["inference", *words, "--system", "box", *more])


def list_rules(tree: Path, round_name: str, *severities: Severity) -> set[str]:
    """The rules with findings of these weights."""
    findings = Judge(f"inference-{round_name}").judge_path(str(tree)).findings
    return {each.rule for each in findings if each.severity in severities}


@dataclass(frozen=True, kw_only=True)
class Served:
    """A benchmark in a round."""

    workload: str
    round: str
    folder: str
    """Its name there."""
    text: str
    """What accuracy.txt begins with."""
    missing: frozenset[str]
    """Rules that a smoke run does not keep, however it is called."""
    code: str = "code"
    measurements: str = "measurements/box/{}/SingleStream/box_ours_SingleStream.json"

    @property
    def entry(self) -> str:
        """The folder of the runs."""
        return f"closed/acme/results/box/{self.folder}/{SCENARIO}"


RESNET_TEXT: Final = "accuracy=87.500%, good=882, total=1008\nhash="
SSD_TEXT: Final = "mAP=25.000%\nhash="
TOGETHER: Final = {
    "code": "src",
    "measurements": "results/box/{}/SingleStream/measurements.json",
}
"""Places of the code and the measurements since v6.0."""


def name_rules(kind: str, names: str) -> frozenset[str]:
    """The rules of a kind of round, by their names."""
    return frozenset(f"{kind}.{name}" for name in names.split())


OLD_LOGS: Final = frozenset({"file.record"}) | name_rules(
    "inference-text", "headline seeds special valid"
)
"""What LoadGen's files of today are not for the rounds before v1.0."""
SHORT: Final = name_rules("inference-mllog", "duration scenarios seeds tests")
"""What one scenario of profile smoke is not."""
FEW: Final = name_rules("inference-mllog", "hash samples")
"""What the pictures of ResNet-50's smoke are not."""
COUNTED: Final = name_rules("inference-mllog", "accuracy data_set")
"""What they are not since v5.0."""
SEEDS: Final = name_rules("inference-mllog", "seeds")


def serve_resnet(
    round_name: str, missing: frozenset[str], folder: str = "resnet50", **places: str
) -> Served:
    """ResNet-50 in a round."""
    return Served(
        workload="resnet50",
        round=round_name,
        folder=folder,
        text=RESNET_TEXT,
        missing=missing,
        **places,
    )


def serve_ssd(round_name: str, missing: frozenset[str]) -> Served:
    """SSD in a round."""
    return Served(
        workload="ssd", round=round_name, folder="ssd-large", text=SSD_TEXT, missing=missing
    )


V4: Final = serve_resnet("v4.1", SHORT | FEW)
V6: Final = serve_resnet("v6.1", (SHORT | FEW | COUNTED) - SEEDS, **TOGETHER)
SSD: Final = serve_ssd("v2.0", SHORT)
SERVED: Final = (
    serve_resnet("v0.5", OLD_LOGS | name_rules("inference-text", "answers counts"), "resnet"),
    serve_resnet("v0.7", OLD_LOGS | name_rules("inference-text", "counts required_scenarios")),
    serve_resnet("v1.0", SHORT | FEW),
    serve_resnet("v2.0", SHORT | FEW),
    V4,
    serve_resnet("v5.1", SHORT | FEW | COUNTED),
    serve_resnet("v6.0", SHORT | FEW | COUNTED, **TOGETHER),
    V6,
    serve_ssd("v0.5", OLD_LOGS | name_rules("inference-text", "answers data")),
    serve_ssd("v0.7", OLD_LOGS | name_rules("inference-text", "required_scenarios")),
    serve_ssd("v1.0", SHORT),
    serve_ssd("v1.1", SHORT),
    SSD,
    Served(
        workload="gnmt",
        round="v0.5",
        folder="gnmt",
        text="BLEU: 25.000\nhash=",
        missing=OLD_LOGS | name_rules("inference-text", "answers"),
    ),
)


def name_served(served: Served) -> str:
    """The name of a case."""
    return f"{served.workload} {served.round}"


@pytest.fixture(scope="session")
def build_tree(
    tmp_path_factory: pytest.TempPathFactory,
    write_results: Callable[[str], Path],
    stated: list[str],
) -> Callable[[Served], tuple[Path, str]]:
    """Build a tree and what was said of it, once."""
    built: dict[str, tuple[Path, str]] = {}

    def build(served: Served) -> tuple[Path, str]:
        name = name_served(served)
        if name not in built:
            target = tmp_path_factory.mktemp("built") / "tree"
            results = write_results(served.workload)
            done = run_submit(results, served.round, target, *stated, "--incomplete")
            assert isinstance(done.exception, JudgedError), done.output
            built[name] = target, done.output
        return built[name]

    return build


@pytest.mark.parametrize("served", SERVED, ids=name_served)
def test_a_tree_has_the_layout_and_the_names_of_its_round(
    build_tree: Callable[[Served], tuple[Path, str]],
    write_results: Callable[[str], Path],
    served: Served,
) -> None:
    tree, _ = build_tree(served)
    home, entry = tree / "closed/acme", tree / served.entry
    name = build_subject(served.workload).row.inference_name
    source = write_results(served.workload) / f"closed/acme/results/{SERVER}/{name}/{SCENARIO}"
    for run in ("performance/run_1", "accuracy"):
        for file in (DETAIL_LOG, SUMMARY_LOG):
            assert (entry / run / file).read_bytes() == (source / run / file).read_bytes()
    log = source / "accuracy" / ACCURACY_LOG
    assert (entry / "accuracy" / ACCURACY_LOG).read_bytes() == log.read_bytes()
    text = (entry / "accuracy/accuracy.txt").read_text()
    assert text == f"{served.text}{compute_file_sha256(log)}\n"
    measured = home / served.measurements.format(served.folder)
    assert json.loads(measured.read_text())["retraining"] == "no"
    beside = {each.name for each in measured.parent.iterdir() if each.is_file()}
    asked = {"user.conf", "README.md", *(["mlperf.conf"] if served.round < "v5" else [])}
    assert beside == {measured.name, *asked}
    assert (home / served.code / served.folder / "ours/main.py").is_file()
    assert (home / "systems/box.json").is_file()


@pytest.mark.parametrize("served", SERVED, ids=name_served)
def test_what_is_missing_is_listed_with_its_rule(
    build_tree: Callable[[Served], tuple[Path, str]], served: Served
) -> None:
    tree, said = build_tree(served)
    assert list_rules(tree, served.round, Severity.ERROR) == served.missing
    for rule in (*served.missing, "submit.model"):
        assert f"missing {rule}\n" in said
    assert "weights that podium trained; required: those of the reference" in said
    assert ("model.configuration 64; required: 1200" in said) == (served.workload == "ssd")
    assert "submit.profile" not in said and "submit.code" not in said


EDITS: Final[dict[str, tuple[Served, Callable[[Path], Any], str]]] = {
    "no measurements": (
        V6,
        lambda entry: (entry / "measurements.json").unlink(),
        "inference-mllog.measurements",
    ),
    "no measurements apart": (
        V4,
        lambda entry: shutil.rmtree(entry.parents[3] / "measurements"),
        "inference-mllog.measurements",
    ),
    "another accuracy": (
        V4,
        lambda entry: replace_text(entry / "accuracy/accuracy.txt", "87.500", "57.500"),
        "inference-mllog.accuracy",
    ),
    "podium's own words": (
        SSD,
        lambda entry: replace_text(entry / "accuracy/accuracy.txt", "mAP=25.000%", "box_ap=0.25"),
        "inference-mllog.accuracy",
    ),
    "podium's own name": (
        SSD,
        lambda entry: entry.parent.rename(entry.parent.with_name("ssd")),
        "inference-mllog.benchmark",
    ),
    "another rate": (
        SSD,
        lambda entry: replace_value(entry, "result_90.00_percentile_latency_ns", 1),
        "inference-mllog.summary",
    ),
    "no description": (
        V6,
        lambda entry: (entry.parents[3] / "systems/box.json").unlink(),
        "inference-mllog.system",
    ),
}
"""Edits of a tree, each with podium's rule, which calls a missing document doubtful."""


def replace_text(path: Path, old: str, new: str) -> None:
    """Replace a text in a file that has it."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def replace_value(entry: Path, key: str, value: Any) -> None:
    """Change the value of a key in the detail log of the performance run."""
    path = entry / "performance/run_1" / DETAIL_LOG
    lines = path.read_text().splitlines()
    (place,) = (at for at, line in enumerate(lines) if f'"key": "{key}"' in line)
    record = json.loads(lines[place].removeprefix(":::MLLOG "))
    lines[place] = f":::MLLOG {json.dumps({**record, 'value': value})}"
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("name", EDITS)
def test_each_edit_is_found(
    build_tree: Callable[[Served], tuple[Path, str]], tmp_path: Path, name: str
) -> None:
    served, change, rule = EDITS[name]
    tree = Path(shutil.copytree(build_tree(served)[0], tmp_path / "tree"))
    told = (Severity.ERROR, Severity.WARNING)
    assert rule not in list_rules(tree, served.round, *told)
    change(tree / served.entry)
    assert rule in list_rules(tree, served.round, *told)


@pytest.mark.parametrize(
    ("workload", "round_name", "others"),
    [
        (
            "ssd",
            "v2.1",
            "inference-v0.5, inference-v0.7, inference-v1.0, inference-v1.1, inference-v2.0",
        ),
        ("gnmt", "v0.7", "inference-v0.5"),
        ("maskrcnn", "v0.7", "none"),
        ("transformer", "v1.0", "none"),
    ],
)
def test_a_round_without_the_benchmark_is_refused(
    write_results: Callable[[str], Path],
    tmp_path: Path,
    workload: str,
    round_name: str,
    others: str,
) -> None:
    """Since v2.1 RetinaNet stands in the place of SSD; v0.7 guesses that a name with `rcnn` in it
    is another detector's.
    """
    done = run_submit(write_results(workload), round_name, tmp_path / "tree")
    assert isinstance(done.exception, RequestError)
    assert str(done.exception).endswith(f"rounds that have some of them: {others}")


def test_the_words_of_scripts() -> None:
    """Scores in per cent, as the checkers read them; for other scores there is no script."""
    rouge = {"rouge1": 0.387792, "rouge2": 0.159075, "rougeL": 0.244957, "rougeLsum": 0.35793}
    told = describe_accuracy({**rouge, "gen_len": 8167644.0, "unended": 0.0}, 13368, "5a")
    assert told == (
        "{'rouge1': 38.7792, 'rouge2': 15.9075, 'rougeL': 24.4957, 'rougeLsum': 35.793,"
        " 'gen_len': 8167644, 'gen_num': 13368}\nhash=5a\n"
    )
    assert describe_accuracy({"top1": 0.760123}, 50_000, "5a") == (
        "accuracy=76.012%, good=38006, total=50000\nhash=5a\n"
    )
    assert describe_accuracy({"move_agreement": 0.5}, 100, "5a") is None
    assert describe_accuracy({"top1": 0.5}, 0, "5a") is None
