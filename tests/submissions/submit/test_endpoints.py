"""`podium submit endpoints`: a real curve becomes a submission that lacks what it says it lacks, and
nothing else, by podium and by the official checker; each edit of it is found.

The points last half a second: the official checker says nothing about a point's duration but for a claimed
steady window, and these claim none.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner, Result
from official_endpoints import IS_INSTALLED, check_submission_officially

from compliance.judge import Judge
from compliance.verdict import Severity
from submissions.commands.submit import submit
from suite import registry
from suite.errors import JudgedError, RequestError
from suite.files.layout import DETAIL_LOG, SUMMARY_LOG
from suite.rounds.endpoints_curve import SeedSet

pytestmark = pytest.mark.slow

CURVE: Final = "results/box/llama3_1-8b"
MISSING: Final = {"endpoints.seed_set", "endpoints.whole_passes", "endpoints.accuracy_points"}
"""What a curve of podium's cannot have: the seeds of a published set, the benchmark's own data set
as often as it is, and accuracy runs.
"""
SEEDS: Final = ("scheduler_rng_seed", "sample_index_rng_seed", "model_seed")


def run_submit(*words: str) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(submit, ["endpoints", *words])


def list_words(curve: Path, target: Path, box: Path, documents: Path) -> list[str]:
    """The command line of a submission in which nothing is left out."""
    where = ["-o", str(target), "--org", "acme", "--name", "s1", "--system", "box"]
    return [str(curve), *where, "--system-file", str(box), "--docs", str(documents)]


@pytest.fixture(scope="session")
def written(
    traced: Path, tmp_path_factory: pytest.TempPathFactory, make_documents: Callable[[Path], None]
) -> Path:
    """A submission, written although something is missing."""
    home = tmp_path_factory.mktemp("written")
    make_documents(home)
    words = list_words(traced, home / "tree", home / "box.toml", home / "documents")
    done = run_submit(*words, "--incomplete")
    assert isinstance(done.exception, JudgedError), done.output
    return home / "tree"


@pytest.fixture
def tree(written: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(written, tmp_path / "tree"))


def list_error_rules(tree: Path) -> set[str]:
    """The rules that podium finds broken."""
    findings = Judge().judge_path(str(tree)).findings
    return {each.rule for each in findings if each.severity is Severity.ERROR}


def list_official_errors(tree: Path) -> set[str]:
    """The errors of the official checker."""
    said = check_submission_officially(tree / "acme" / "s1")
    return {f"{each.rule}: {each.text}" for each in said if each.severity == "error"}


def test_nothing_is_written_while_something_is_missing(
    traced: Path, tmp_path: Path, box: Path, documents: Path
) -> None:
    """Each missing thing is listed with its rule, what is required, and what to do."""
    words = list_words(traced, tmp_path / "tree", box, documents)
    done = run_submit(*words)
    assert isinstance(done.exception, JudgedError) and done.exception.exit_code == 1
    assert "what 3 rules ask for is missing" in str(done.exception)
    assert not (tmp_path / "tree").exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["box.toml", "documents"]
    for rule in MISSING:
        assert f"missing {rule}\n" in done.output
    assert "scheduler_rng_seed 16159082839903944936; required: 10487924139932647040" in done.output
    assert f"in acme/s1/{CURVE}/{{r1,r4,r8,r16,r32,r48,r64}}/result_summary.json" in done.output


def test_a_tree_lacks_what_the_list_says(tree: Path) -> None:
    assert list_error_rules(tree) == MISSING


def test_fields_that_podium_does_not_know_are_asked_for_by_name(
    traced: Path, tmp_path: Path
) -> None:
    done = run_submit(str(traced), "-o", str(tmp_path / "tree"), "--org", "acme")
    for field in ("link_to_model", "target_cohort", "system_size", "system_availability_status"):
        assert field in done.output
    assert "[point] of --system-file" in done.output and "--docs" in done.output


def test_files_of_loadgen_are_copied_as_they_are(tree: Path, traced: Path) -> None:
    for run in traced.glob("*/in-flight-*"):
        point = tree / "acme/s1" / CURVE / f"r{run.name.removeprefix('in-flight-')}"
        for name in (SUMMARY_LOG, DETAIL_LOG, "tokens.npy", "starts.npy", "run.json"):
            assert (point / "loadgen" / name).read_bytes() == (run / name).read_bytes()


def test_figures_are_those_of_the_curve(tree: Path, traced: Path) -> None:
    from submissions.curves.curve import read_path_curves
    from submissions.curves.podium_curve import read_comparable_curves

    (curve,), (own,) = read_path_curves(tree), read_comparable_curves(traced)
    assert [each.concurrency for each in curve.points] == [1, 4, 8, 16, 32, 48, 64]
    for submitted, measured in zip(curve.points, own.points, strict=True):
        assert submitted.region == measured.region
        assert submitted.system_tps == pytest.approx(measured.system_tps)


@pytest.mark.skipif(not IS_INSTALLED, reason="endpoints-submission-cli is not installed")
def test_the_official_checker_refuses_what_is_listed_and_nothing_else(tree: Path) -> None:
    """With the seeds of the set and accuracy runs, which the test adds as the client would have
    written them, it accepts the tree.
    """
    refused = {each.partition(":")[0] for each in list_official_errors(tree)}
    assert refused == {"seed-runtime-match", "accuracy-present", "accuracy-coverage"}
    seeds = registry.load_endpoints_round("endpoints-v1.0").seeds["A"]
    for point in (tree / "acme/s1" / CURVE).iterdir():
        add_seeds(point, seeds)
    for name in ("r1", "r4", "r8", "r64"):
        point = tree / "acme/s1" / CURVE / name
        (point / "accuracy_results.json").write_text(json.dumps(describe_accuracy(point)))
    assert list_official_errors(tree) == set()


def add_seeds(point: Path, seeds: SeedSet) -> None:
    """State the seeds of a set."""
    document = yaml.safe_load((point / "point.yaml").read_text())
    document["runtime_settings"]["runtime"] = {name: getattr(seeds, name) for name in SEEDS}
    (point / "point.yaml").write_text(yaml.safe_dump(document))


def describe_accuracy(point: Path) -> dict[str, Any]:
    """What the client would write of an accuracy run that is good enough."""
    scores = {"rouge1": 38.8, "rouge2": 16.1, "rougeL": 24.6, "rougeLsum": 35.9}
    return {
        "accuracy_scores": [
            {
                "dataset_name": "cnn_dailymail",
                "score": {**scores, "gen_len": 8_000_000, "gen_num": 13_368},
                "unit_samples": 13_368,
                "num_repeats": 1,
                "total_samples": 13_368,
                "duration_s": float(point.name[1:]),
                "complete": True,
                "dataset_type": "accuracy",
                "response_counts": {"issued": 13_368, "scored": 13_368, "empty": 0, "missing": 0},
            }
        ]
    }


def edit_json(name: str, *path: str, value: Any) -> Callable[[Path], None]:
    """Change one value of one of a point's JSON files."""

    def change(point: Path) -> None:
        document = json.loads((point / name).read_text())
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value(place[path[-1]]) if callable(value) else value
        (point / name).write_text(json.dumps(document))

    return change


def edit_yaml(name: str, *path: str, value: Any) -> Callable[[Path], None]:
    """Change one value of one of a point's YAML files."""

    def change(point: Path) -> None:
        document = yaml.safe_load((point / name).read_text())
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        (point / name).write_text(yaml.safe_dump(document))

    return change


def copy_summary(point: Path) -> None:
    """Take the result of another point."""
    shutil.copy(point.parent / "r48" / "result_summary.json", point / "result_summary.json")


def copy_records(point: Path) -> None:
    """Take the records of another point."""
    shutil.rmtree(point / "loadgen")
    shutil.copytree(point.parent / "r48" / "loadgen", point / "loadgen")


SUMMARY: Final = "result_summary.json"
EDITS: Final[dict[str, tuple[Callable[[Path], Any], str, bool]]] = {
    "no docs": (lambda point: shutil.rmtree(point.parents[3] / "docs"), "endpoints.tree", True),
    "no readme": (
        lambda point: (point.parents[3] / "src/podium/README.md").unlink(),
        "endpoints.tree",
        True,
    ),
    "a point less": (lambda point: shutil.rmtree(point.parent / "r16"), "endpoints.points", True),
    "a region less": (lambda point: shutil.rmtree(point.parent / "r4"), "endpoints.regions", True),
    "no system": (
        lambda point: (point / "system_desc.json").unlink(),
        "endpoints.point_files",
        True,
    ),
    "no summary": (lambda point: (point / SUMMARY).unlink(), "endpoints.state", True),
    "no disclosure": (lambda point: (point / "point.yaml").unlink(), "endpoints.point_files", True),
    "a folder renamed": (
        lambda point: point.rename(point.parent / "x64"),
        "endpoints.points",
        True,
    ),
    "another's result": (copy_summary, "endpoints.same_summary", False),
    "shorter": (
        edit_json(SUMMARY, "duration_ns", value=lambda old: old // 2),
        "endpoints.rate",
        False,
    ),
    "more tokens": (
        edit_json(SUMMARY, "output_sequence_lengths", "total", value=lambda old: 2 * old),
        "endpoints.series",
        False,
    ),
    "faster tokens": (
        edit_json(SUMMARY, "tpot", "percentiles", "90.0", value=1.0),
        "endpoints.series",
        False,
    ),
    "a deviation within its buckets": (
        edit_json(SUMMARY, "latency", "std_dev", value=lambda old: 1.02 * old),
        "endpoints.records",
        False,
    ),
    "another's records": (copy_records, "endpoints.records", False),
    "no records": (
        lambda point: shutil.rmtree(point / "loadgen"),
        "endpoints.records",
        False,
    ),
    "cut records": (
        lambda point: (point / "loadgen/tokens.npy").write_bytes(b""),
        "endpoints.records",
        False,
    ),
    "other requests in flight": (
        edit_json(SUMMARY, "run_config", "load_pattern", "target_concurrency", value=32),
        "endpoints.point_load",
        False,
    ),
    "Poisson": (
        edit_yaml("point.yaml", "runtime_settings", "load_pattern", value="poisson"),
        "endpoints.point_load",
        True,
    ),
    "another model": (
        edit_yaml("point.yaml", "model_name", value="gpt-oss-120b"),
        "endpoints.model_name",
        True,
    ),
    "another maximum": (
        edit_yaml("point.yaml", "max_supported_concurrency", value=128),
        "endpoints.regions",
        False,
    ),
    "no Offline": (
        edit_yaml("point.yaml", "offline", value="none"),
        "endpoints.offline_present",
        True,
    ),
    "a wrong status": (
        edit_json("system_desc.json", "system_availability_status", value="Sold"),
        "endpoints.system_status",
        True,
    ),
}
"""Edits of the point with 64 requests in flight, each with podium's rule, and whether the official
checker says something new.
"""


@pytest.mark.parametrize("name", EDITS)
def test_each_edit_is_found(tree: Path, name: str) -> None:
    change, rule, is_found_officially = EDITS[name]
    before = list_official_errors(tree) if IS_INSTALLED else set()
    change(tree / "acme/s1" / CURVE / "r64")
    assert rule in list_error_rules(tree)
    if IS_INSTALLED:
        assert bool(list_official_errors(tree) - before) == is_found_officially


@pytest.mark.skipif(not IS_INSTALLED, reason="endpoints-submission-cli is not installed")
def test_both_verdicts_are_printed_with_the_differences_first(
    traced: Path, tmp_path: Path, box: Path, documents: Path
) -> None:
    done = run_submit(*list_words(traced, tmp_path / "tree", box, documents), "--checker")
    lines = done.output.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("endpoints-submission"))
    assert lines[at - 1].startswith("podium: failed") and ": failed, errors: 10" in lines[at]
    assert lines[at + 1] == "results: only one finds errors"
    assert [each.rpartition(": ")[2] for each in lines[at + 2 :] if each[0] != " "][0] == (
        "both find errors"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[point]\nconcurrency = 3\n", "podium has it from the run"),
        ("[point]\ndivision = 'RDI'\n", "state it in [system]"),
        ("[pint]\n", "pint is none of the tables [system], [point], [power]"),
        ("[system]\nday = 2026-01-01\n", "write dates as texts"),
        ("system = 1\n", "system is none of the tables"),
    ],
)
def test_wrong_statements_are_refused(traced: Path, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "box.toml"
    file.write_text(text)
    words = ("-o", str(tmp_path / "tree"), "--org", "acme", "--system-file", str(file))
    done = run_submit(str(traced), *words)
    assert isinstance(done.exception, RequestError) and said in str(done.exception)
    assert [each.name for each in tmp_path.iterdir()] == ["box.toml"]


def test_what_is_no_curve_and_a_folder_with_files_are_refused(traced: Path, tmp_path: Path) -> None:
    done = run_submit(str(traced.parents[1]), "-o", str(tmp_path / "tree"), "--org", "acme")
    assert isinstance(done.exception, RequestError) and "no curve of podium's" in str(
        done.exception
    )
    (tmp_path / "file").write_text("")
    done = run_submit(str(traced), "-o", str(tmp_path), "--org", "acme")
    assert isinstance(done.exception, RequestError) and "name a new folder" in str(done.exception)
