"""What the judge says of a record that is left out: telemetry, queries, tokens, a ledger. Each of
them contradicts figures, so that a figure without it is a claim.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
from examples import EXAMPLES
from kinds.records import SECOND_NS, UTC_NS, add_training_telemetry, telemetry
from kinds.tokens import write_server_tree
from ledgers import LEDGER, adopted, chained, keep, read, recorded_tree
from making import written_by
from making_study import write_study
from spoiling import bundle, put

from compliance.judge import Judge
from compliance.kinds.podium.documents.recorded_run import FIRST_VERSION, is_written_since
from compliance.verdict import About, Severity, Verdict
from suite import events
from suite.files.layout import (
    QUERY_RECORD_FILE,
    RUN_RECORD,
    TELEMETRY_FILE,
    TOKEN_RECORD_FILE,
    locate_staged_campaign,
)
from suite.ledger.steps import LedgerStep, StepKind

TREE = EXAMPLES / "base" / "recorded-tree"
RUN = "open/acme/results/box-torch-fp32/resnet50/Server/performance/run_1"
SET = "open/acme/results/box-torch-bf16/resnet"
ENDED = (StepKind.TRAINED, StepKind.SERVED)
RECORDS = (f"{RUN}/{QUERY_RECORD_FILE}", f"{RUN}/{TELEMETRY_FILE}", f"{SET}/telemetry_0.jsonl")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return shutil.copytree(TREE, tmp_path / "results")


def told(path: Path, *rules: str) -> list[tuple[str, str, Severity]]:
    """Rule, finding and severity of what is said of a path by some rules; by all without any."""
    return [
        (each.rule, each.found, each.severity)
        for each in Judge().judge_path(str(path)).findings
        if not rules or each.rule in rules
    ]


def errors(path: Path) -> set[str]:
    return {rule for rule, _, severity in told(path) if severity is Severity.ERROR}


def relink(tree: Path, edit: Callable[[list[LedgerStep]], Sequence[LedgerStep]]) -> None:
    (tree / LEDGER).write_bytes(chained(edit(read(tree / LEDGER))))


def test_what_podium_leaves_is_valid_without_a_word() -> None:
    assert told(TREE) == []
    assert told(EXAMPLES / "base" / "recorded-bundle" / "acme.tar.zst") == []


@pytest.mark.parametrize("name", RECORDS)
@pytest.mark.parametrize("damaged", [False, True])
def test_a_record_that_is_left_out_is_an_error_about_the_score(
    tree: Path, name: str, damaged: bool
) -> None:
    """Also where the ledger was linked again without it, and where garbage is in its place."""
    (tree / name).unlink()
    if damaged:
        (tree / name).write_bytes(b"garbage\n")
    keep(tree)
    found = [each for each in Judge().judge_path(str(tree)).findings if each.rule.startswith("rec")]
    assert [(each.severity, each.about) for each in found] == [(Severity.ERROR, About.SCORE)]
    word = f"{Path(name).name} that cannot be read" if damaged else f"no {Path(name).name}"
    assert found[0].found == word
    assert errors(tree) == {"records.present"}


def test_tokens_that_are_left_out_are_an_error(tmp_path: Path) -> None:
    """Of generated answers: LoadGen's rates in tokens have no other record, whether the ledger
    names it or was linked again.
    """
    with written_by(FIRST_VERSION):
        write_server_tree(tmp_path)
    add_training_telemetry(next(tmp_path.glob("open/acme/results/*/*/result_0.txt")))
    (tokens,) = tmp_path.glob(f"**/{TOKEN_RECORD_FILE}")
    queries = numpy.load(tokens.with_name(QUERY_RECORD_FILE))
    begin_ns = int(queries["issued_ns"].min()) - SECOND_NS
    seconds = 2 + int(queries["done_ns"].max() - begin_ns) // SECOND_NS
    tokens.with_name(TELEMETRY_FILE).write_text(telemetry(begin_ns, UTC_NS, seconds))
    keep(tmp_path)
    assert told(tmp_path) == []
    tokens.unlink()
    assert errors(tmp_path) == {"ledger.kept", "records.present"}
    keep(tmp_path)
    assert told(tmp_path) == [("records.present", "no tokens.npy", Severity.ERROR)]


def test_a_bundle_without_a_record_is_broken(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        recorded_tree(folder)
        (folder / RUN / TELEMETRY_FILE).unlink()
        keep(folder)

    bundle(made=build)(tmp_path)
    assert errors(tmp_path / "acme.tar.zst") == {"records.present"}


@pytest.mark.parametrize("name", RECORDS)
def test_a_file_that_the_ledger_names_is_missed(tree: Path, name: str) -> None:
    """As the file lay there, or after a line that supersedes it alone."""
    (tree / name).unlink()
    assert errors(tree) == {"ledger.kept", "records.present"}

    def supersede(steps: list[LedgerStep]) -> list[LedgerStep]:
        made = [step for step in steps if name in step.files and step.step in ENDED][-1]
        gone = replace(
            made, step=StepKind.SUPERSEDED, files={name: made.files[name]}, made=made.n, what=""
        )
        return [*steps, gone]

    relink(tree, supersede)
    assert "ledger.kept" in errors(tree)


def test_telemetry_of_another_run_is_no_step_s(tree: Path) -> None:
    """The step that made the log names the telemetry with its hash."""
    path = tree / SET / "telemetry_0.jsonl"
    path.write_text(path.read_text().replace('"cpu_own":0.93', '"cpu_own":0.92', 1))
    assert errors(tree) == {"ledger.kept"}


def test_a_run_that_says_what_was_lost_is_a_warning(tree: Path) -> None:
    """The disk was full, or the sampler died: everybody sees it, and the run counts."""
    (tree / RUN / QUERY_RECORD_FILE).unlink()
    put(lost=["queries.npy is lost: No space left"])(tree / RUN / RUN_RECORD)
    log = tree / SET / "result_0.txt"
    (tree / SET / "telemetry_0.jsonl").unlink()
    log.write_text(log.read_text() + tell_lost_telemetry(log))
    keep(tree)
    found = told(tree, "records.present")
    assert {severity for _, _, severity in found} == {Severity.WARNING}
    assert sorted(words for _, words, _ in found) == [
        "'queries.npy is lost: No space left'",
        "'telemetry_0.jsonl is lost'",
    ]
    assert Judge().judge_path(str(tree)).verdict is Verdict.VALID


def tell_lost_telemetry(log: Path) -> str:
    """The last line of a log as the one that podium writes where telemetry is lost."""
    line = log.read_text().splitlines()[-1]
    head, rest = line.split(f'"{events.REFERENCE_ACCURACY}", "value": ')
    metadata = rest[rest.index(', "metadata"') :]
    return f'{head}"{events.TELEMETRY_LOST}", "value": "telemetry_0.jsonl is lost"{metadata}\n'


@pytest.mark.parametrize("place", [RUN, str(Path(RUN).parents[1]), SET])
def test_a_part_on_its_own_warns_and_stays_valid(tree: Path, tmp_path: Path, place: str) -> None:
    """A copy of a run: nothing says that it is whole."""
    copy = tmp_path / "copy" / Path(place).name
    shutil.copytree(tree / place, copy)
    if place == RUN:
        shutil.copy(tree / Path(RUN).parents[1] / "system.json", copy)
    before = told(copy, "records.present")
    for name in RECORDS:
        if name.startswith(place):
            (copy / Path(name).relative_to(place)).unlink()
    assert before == []
    found = told(copy, "records.present")
    assert found and {severity for _, _, severity in found} == {Severity.WARNING}


def test_a_part_inside_of_its_tree_is_an_error(tree: Path) -> None:
    """Its ledger lies beside it."""
    (tree / RUN / TELEMETRY_FILE).unlink()
    assert errors(tree / Path(RUN).parents[1]) == {"records.present"}


def test_results_have_a_ledger(tree: Path) -> None:
    """Also a bundle: without it nobody knows how often a run was tried."""
    (tree / LEDGER).unlink()
    assert errors(tree) == {"tree.ledger"}
    assert errors(tree / "open/acme/results/box-torch-fp32") == {"tree.ledger"}


def test_a_new_ledger_in_place_of_the_old_one_is_refused(tree: Path) -> None:
    """Deleted, and begun again behind the results: how often they were tried is gone."""
    relink(tree, adopted)
    assert errors(tree) == {"ledger.begun"}


def test_a_bundle_has_a_ledger(tmp_path: Path) -> None:
    def build(folder: Path) -> None:
        recorded_tree(folder)
        (folder / LEDGER).unlink()

    bundle(made=build)(tmp_path)
    assert "tree.ledger" in errors(tmp_path / "acme.tar.zst")


def test_a_campaign_under_way_has_its_ledger_in_the_results_folder(tree: Path) -> None:
    """Its results lie in a folder below, until they are complete."""
    staged = locate_staged_campaign(tree, "resnet50")
    staged.mkdir(parents=True)
    for name in ("checkpoints", "open"):
        shutil.copytree(tree / name, staged / name, ignore=shutil.ignore_patterns("ledger"))
    assert errors(staged) == set()
    (staged / RUN / TELEMETRY_FILE).unlink()
    assert errors(staged) == {"records.present"}


def test_an_older_podium_wrote_no_records() -> None:
    """Its results are judged as before."""
    tree = EXAMPLES / "base" / "tree"
    assert not list(tree.rglob(TELEMETRY_FILE)) and told(tree) == []


@pytest.mark.parametrize(
    ("version", "written"),
    [
        ("0.1.0", False),
        ("0.1.99", False),
        ("0.2", True),
        ("0.2.0", True),
        ("0.2.0.dev3+g5a", True),
        ("0.10.0", True),
        ("9.0.0", True),
        ("", True),
        ("0.x", True),
    ],
)
def test_which_versions_write_records(version: str, written: bool) -> None:
    """What is no version is no excuse."""
    assert is_written_since(version, FIRST_VERSION) is written


def test_a_study_counts_its_runs(tmp_path: Path) -> None:
    """Its table is computed from them."""
    with written_by(FIRST_VERSION):
        folder = write_study(tmp_path)
    assert told(folder, "records.present") == []
    places = sorted(folder.glob(f"*/*/{QUERY_RECORD_FILE}"))
    places[0].unlink()
    found = told(folder, "records.present")
    assert [severity for _, _, severity in found] == [Severity.ERROR]
