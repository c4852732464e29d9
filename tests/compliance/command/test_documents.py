"""Documents of podium's own round: what is read from where, what resumed runs make void, and which
other files belong to an entry.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import making
import pytest
from examples import EXAMPLES
from hypothesis import given
from hypothesis import strategies as st
from making import Event, training_events, write_log
from spoiling import resumed, set_value
from system_records import put_system

from compliance.kinds.podium.documents import training
from compliance.kinds.podium.documents.inference import (
    parse_run_mode,
    read_accuracy_scores,
    read_loadgen_run,
)
from compliance.kinds.podium.documents.training import (
    is_logged_count,
    parse_logged_scores,
    read_training_log,
    split_voided_records,
)
from compliance.kinds.podium.reader import (
    DocumentLibrary,
    list_division_folders,
    score_inference_entry,
)
from compliance.logs.finite_numbers import is_finite_number
from compliance.logs.mllog.mllog_lines import MllogEvent as Logged
from compliance.logs.mllog.mllog_lines import MllogRecord
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.recognition.tree_path import TreePosition, iterate_performance_runs
from compliance.rules import judge_document
from suite import registry
from suite.files.layout import DETAIL_LOG
from suite.loadgen.scenario import Scenario
from suite.rounds.quality import has_reached_target
from suite.terms import Profile
from suite.workload import Mode

ROUND = registry.load_round()
ENTRY = Path("open", "acme", "results", "box-torch-fp32", "resnet50", "SingleStream")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A campaign to take things from."""
    shutil.copytree(EXAMPLES / "base" / "tree", tmp_path / "t")
    return tmp_path / "t"


def place(tree: Path, division: str = "open", org: str = "acme") -> TreePosition:
    return TreePosition(
        organisation_folder=tree / division / org,
        system="box-torch-fp32",
        benchmark="resnet50",
        scenario=Scenario.SINGLE_STREAM,
    )


# ---- training logs ----


def test_a_log_knows_its_row_by_its_stamps(tmp_path: Path) -> None:
    """Workload and profile decide by which row it is judged."""
    log = read_training_log(write_log(tmp_path / "result_7.txt", training_events()), ROUND, None)
    assert (log.workload, log.profile, log.number, log.succeeded, log.reached) == (
        "resnet50",
        Profile.SMOKE,
        7,
        True,
        True,
    )
    assert (
        log.training is not None
        and log.training.target == {"top1": 0.759}
        and log.checkpoint == making.SHA256
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("podium_workload", "resnet51"),
        ("podium_workload", 5),
        ("podium_profile", "tiny"),
        ("podium_profile", None),
    ],
)
def test_a_stamp_that_the_round_does_not_know_leads_to_no_row(
    tmp_path: Path, key: str, value: object
) -> None:
    """Rules about rows pass over it; training.stamps says what is wrong."""
    log = read_training_log(
        write_log(tmp_path / "result_0.txt", making.changed(training_events(), key, value=value)),
        ROUND,
        None,
    )
    assert (
        log.training is None
        and (log.workload is None) is (key == "podium_workload")
        and log.reached is False
    )


def test_a_file_under_another_name_has_no_number(tmp_path: Path) -> None:
    """Its run_index is compared with nothing."""
    assert (
        read_training_log(write_log(tmp_path / "log.txt", training_events()), ROUND, None).number
        is None
    )


def test_the_first_of_several_values_counts_and_all_are_there(tmp_path: Path) -> None:
    """A second value is for the rule about constancy to find."""
    events = [*training_events(), Event("seed", 9)]
    log = read_training_log(write_log(tmp_path / "result_0.txt", events), ROUND, None)
    assert log.find_value("seed") == 100 and [
        record.value for record in log.list_records("seed")
    ] == [100, 9]
    assert (
        log.find_record("nothing") is None
        and log.find_value("nothing") is None
        and log.find_line("nothing") is None
    )


def test_what_a_resumed_run_made_void_is_not_judged(tmp_path: Path) -> None:
    """All that was logged behind the checkpoint's offset."""
    resumed(training_events(), epoch=1)(tmp_path)
    log = read_training_log(tmp_path / "result_0.txt", ROUND, None)
    assert (
        len(log.void) == 7
        and len(log.list_records("resumed")) == 1
        and len(log.list_records("eval_accuracy")) == len(making.SCORES)
    )


def record(key: str, offset: int, **metadata: Any) -> MllogRecord:
    return MllogRecord(
        offset + 1,
        offset,
        Logged(key=key, value=None, time_ms=0, event_type="POINT_IN_TIME", metadata=metadata),
    )


def stood(*records: MllogRecord) -> list[str]:
    return [record.key for record in split_voided_records(iter(records))[0]]


def test_two_interruptions_void_what_each_names() -> None:
    """The second may go back behind the first."""
    first = [record("a", 0), record("b", 10), record("c", 20), record("resumed", 30, log_offset=20)]
    assert stood(*first) == ["a", "b", "resumed"]
    assert stood(*first, record("d", 40), record("resumed", 50, log_offset=10)) == ["a", "resumed"]


@pytest.mark.parametrize("offset", [None, -1, True, "20", 1e300, 2.5])
def test_an_offset_that_is_no_count_voids_nothing(offset: object) -> None:
    """Somebody else's text: training.resumed says what is wrong with it."""
    assert stood(record("a", 0), record("b", 10), record("resumed", 30, log_offset=offset)) == [
        "a",
        "b",
        "resumed",
    ]


@given(st.lists(st.integers(0, 200), max_size=4))
def test_voiding_never_loses_a_record(offsets: list[int]) -> None:
    """Whatever stands or is void, together they are the file."""
    records: list[MllogRecord] = []
    for number, offset in enumerate(offsets):
        records += [
            record("x", 50 * number),
            record("resumed", 50 * number + 25, log_offset=offset),
        ]
    live, void = split_voided_records(iter(records))
    assert sorted(live + void, key=lambda each: each.offset) == records


@pytest.mark.parametrize(
    ("value", "metrics", "scores"),
    [
        (0.8, {"top1": ""}, {"top1": 0.8}),
        (1, {"top1": ""}, {"top1": 1.0}),
        (True, {"top1": ""}, {"top1": None}),
        ("0.8", {"top1": ""}, {"top1": None}),
        (None, {"top1": ""}, {"top1": None}),
        (float("inf"), {"top1": ""}, {"top1": None}),
        ({"BBOX": 0.3, "SEGM": 0.2}, {"box": "BBOX", "mask": "SEGM"}, {"box": 0.3, "mask": 0.2}),
        ({"BBOX": 0.3}, {"box": "BBOX", "mask": "SEGM"}, {"box": 0.3, "mask": None}),
        (0.3, {"box": "BBOX", "mask": "SEGM"}, {"box": None, "mask": None}),
        ([], {"top1": ""}, {"top1": None}),
    ],
)
def test_an_accuracy_is_a_number_or_a_table_as_the_row_says(
    value: object, metrics: dict[str, str], scores: dict[str, float | None]
) -> None:
    """Mask R-CNN has two, and both must reach their targets."""
    assert parse_logged_scores(value, metrics) == scores


@pytest.mark.parametrize(
    ("scores", "target", "reached"),
    [
        ({"a": 0.5}, {"a": 0.5}, True),
        ({"a": 0.4999}, {"a": 0.5}, False),
        ({"a": 0.9, "b": 0.1}, {"a": 0.5, "b": 0.2}, False),
        ({"a": None}, {"a": 0.5}, False),
        ({}, {"a": 0.5}, False),
        ({"a": 0.9}, {}, True),
    ],
)
def test_every_metric_reaches_its_target(
    scores: dict[str, float | None], target: dict[str, float], reached: bool
) -> None:
    """At the target is reached; one of two is not."""
    assert has_reached_target(scores, target) is reached


@pytest.mark.parametrize(
    ("value", "number", "count"),
    [
        (0, True, True),
        (5, True, True),
        (-1, True, False),
        (0.5, True, False),
        (True, False, False),
        ("5", False, False),
        (None, False, False),
    ],
)
def test_numbers_and_counts(value: object, number: bool, count: bool) -> None:
    """True is neither; arithmetic on what is too large may overflow."""
    assert is_finite_number(value) is number and is_logged_count(value) is count
    assert (
        not is_finite_number(10**40)
        and not is_logged_count(10**40)
        and not is_finite_number(float("nan"))
    )


def test_a_reference_accuracy_is_taken_where_it_is_well_formed(tmp_path: Path) -> None:
    """What is no number holds nobody to anything; training.reference finds it."""
    events = making.changed(
        training_events(), "reference_accuracy", value={"top1": 0.9, "top5": "high", "map": None}
    )
    assert dict(
        read_training_log(write_log(tmp_path / "result_0.txt", events), ROUND, None).reference
    ) == {"top1": 0.9}
    events = making.changed(training_events(), "reference_accuracy", value=0.9)
    assert (
        dict(read_training_log(write_log(tmp_path / "result_1.txt", events), ROUND, None).reference)
        == {}
    )


# ---- LoadGen runs ----


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("accuracy", Mode.ACCURACY),
        ("Accuracy", Mode.ACCURACY),
        ("run_1", Mode.PERFORMANCE),
        ("x", Mode.PERFORMANCE),
    ],
)
def test_a_folders_name_says_what_a_run_was_for(name: str, mode: Mode) -> None:
    """Submissions spell it in both cases."""
    assert parse_run_mode(Path("any") / name) is mode


def test_performance_runs_come_by_number(tmp_path: Path) -> None:
    """run_10 behind run_9; what is no run is not among them."""
    for name in ("run_10", "run_9", "run_1", "run_x", "run_²", "run_2.partial", "notes"):
        (tmp_path / "performance" / name).mkdir(parents=True)
    assert [path.name for path in iterate_performance_runs(tmp_path)] == [
        "run_1",
        "run_9",
        "run_10",
    ]
    assert list(iterate_performance_runs(tmp_path / "nothing")) == []


@pytest.mark.parametrize(
    ("text", "metrics", "flaws"),
    [
        (f"top1=0.875000, hash={'a' * 64}\n", {"top1": 0.875}, 0),
        (f"box=0.3, hash={'a' * 64}\nmask=0.25, hash={'b' * 64}\n", {"box": 0.3, "mask": 0.25}, 0),
        (f"top1=0.8, hash={'a' * 64}\ntop1=0.9, hash={'a' * 64}\n", {"top1": 0.8}, 1),
        (f"top1=nan, hash={'a' * 64}\n", {}, 1),
        *(
            (f"top1={number}, hash={'a' * 64}\n", {}, 1)
            for number in ("0.871-0", "--1", "1e", ".", "e5", "1.2.3", "")
        ),
        (f"top1=0.8, hash={'A' * 64}\n", {}, 1),
        ("top1=0.8\n", {}, 1),
        ("accuracy=87.5%, good=44, total=50\n", {}, 1),
        ("", {}, 0),
    ],
)
def test_accuracy_txt_has_one_line_per_metric(
    tmp_path: Path, text: str, metrics: dict[str, float], flaws: int
) -> None:
    """The first of two counts, and the second is a flaw."""
    path = tmp_path / "accuracy.txt"
    path.write_text(text)
    source = SourceFile(path)
    assert {
        metric: score for metric, (score, _, _) in read_accuracy_scores(source).items()
    } == metrics and len(source.parse_errors) == flaws


def test_a_runs_scenario_is_its_folders_or_else_its_logs(tmp_path: Path) -> None:
    """A run on its own still knows what it was."""
    making.write_run(tmp_path / "run", making.LOADS[Scenario.SERVER], "performance")
    assert (
        read_loadgen_run(tmp_path / "run", Mode.PERFORMANCE, None, ROUND).scenario
        is Scenario.SERVER
    )
    assert (
        read_loadgen_run(tmp_path / "run", Mode.PERFORMANCE, Scenario.OFFLINE, ROUND).scenario
        is Scenario.OFFLINE
    )
    (tmp_path / "run" / DETAIL_LOG).unlink()
    assert read_loadgen_run(tmp_path / "run", Mode.PERFORMANCE, None, ROUND).scenario is None


def test_values_of_the_detail_log_are_numbers_only_where_they_are(tmp_path: Path) -> None:
    """A text in a number's place is no zero."""
    folder = making.write_run(
        tmp_path / "Server" / "performance" / "run_1", making.LOADS[Scenario.SERVER], "performance"
    )
    set_value(folder / DETAIL_LOG, "result_query_count", "500")
    run = DocumentLibrary(ROUND, None).read_run(folder)
    assert (
        run.find_value("result_query_count") == "500"
        and run.find_number("result_query_count") is None
    )
    assert run.find_numbers(
        "result_query_count", "effective_target_qps"
    ) is None and run.find_numbers("effective_target_qps") == (83.0,)
    assert (
        run.scenario is Scenario.SERVER
        and run.wall_ms == 5698.0
        and run.span_ms == pytest.approx(5718.051)
    )


@pytest.mark.parametrize("key", ["power_begin", "power_end"])
@pytest.mark.parametrize("value", [..., None, 5, "", "2023-01-15 08:00:00", "01-15-2023 08:00:00"])
def test_stamps_that_cannot_be_read_are_no_time(tmp_path: Path, key: str, value: object) -> None:
    """No exception, and not zero."""
    folder = making.write_run(tmp_path / "run_1", making.LOADS[Scenario.SERVER], "performance")
    set_value(folder / DETAIL_LOG, key, value)
    assert read_loadgen_run(folder, Mode.PERFORMANCE, Scenario.SERVER, ROUND).wall_ms is None


@pytest.mark.parametrize(
    "name", ["mlperf_log_summary.txt", DETAIL_LOG, "mlperf_log_accuracy.json", "run.json"]
)
def test_a_run_without_one_of_its_files_is_still_read(tmp_path: Path, name: str) -> None:
    """Everything that is wrong is told, not only the first thing."""
    folder = making.write_run(
        tmp_path / "run_1", making.LOADS[Scenario.SINGLE_STREAM], "performance"
    )
    (folder / name).unlink()
    run = read_loadgen_run(folder, Mode.PERFORMANCE, Scenario.SINGLE_STREAM, ROUND)
    assert [
        source.path.name for source in run.sources if source.has_parse_error(ParseErrorKind.MISSING)
    ] == [name]


# ---- what belongs to an entry ----


def test_an_entry_finds_its_training_log_in_the_tree(tree: Path) -> None:
    """By the checkpoint's hash, on whatever system it was trained."""
    entry = DocumentLibrary(ROUND, None).read_entry(tree / ENTRY, place(tree))
    assert [log.path.parent.parent.name for log in entry.origins] == ["box-torch-bf16"]
    assert (
        entry.measurements is not None
        and entry.system is not None
        and entry.scores == {"top1": 0.875}
        and entry.unscored is None
    )


def test_training_in_the_other_division_is_found(tree: Path) -> None:
    """Smoke trains and serves in the open one; a closed training may be served in the open
    division.
    """
    shutil.move(tree / "open" / "acme" / "results" / "box-torch-bf16", tree / "moved")
    (tree / "closed" / "acme" / "results").mkdir(parents=True)
    shutil.move(tree / "moved", tree / "closed" / "acme" / "results" / "box-torch-bf16")
    assert len(DocumentLibrary(ROUND, None).read_entry(tree / ENTRY, place(tree)).origins) == 1
    assert list_division_folders(tree / "open" / "acme") == [
        tree / "open" / "acme",
        tree / "closed" / "acme",
    ]
    assert list_division_folders(tree / "acme") == [tree / "acme"]


def test_training_of_another_organisation_is_not(tree: Path) -> None:
    """Whoever serves foreign weights says so elsewhere."""
    shutil.move(tree / "open" / "acme" / "results" / "box-torch-bf16", tree / "moved")
    (tree / "open" / "beta" / "results").mkdir(parents=True)
    shutil.move(tree / "moved", tree / "open" / "beta" / "results" / "box-torch-bf16")
    assert DocumentLibrary(ROUND, None).read_entry(tree / ENTRY, place(tree)).origins == ()


def test_outside_a_tree_nothing_belongs_to_an_entry(tree: Path) -> None:
    """Neither training logs nor measurements nor truth."""
    entry = DocumentLibrary(ROUND, None).read_entry(tree / ENTRY, None)
    assert (entry.origins, entry.measurements, entry.system, entry.truth, entry.scores) == (
        (),
        None,
        None,
        None,
        None,
    )
    assert (
        entry.unscored == "no ground truth in the tree or from --truth"
        and entry.truth_sha256 is None
    )


@pytest.mark.parametrize("below", ["", "resnet50", "truth/resnet50"])
def test_truth_that_is_given_is_found_in_every_usual_place(
    tree: Path, tmp_path: Path, below: str
) -> None:
    """`--truth DIR` may be the folder itself, or one that holds it."""
    shutil.move(tree / "open" / "acme" / "truth" / "resnet50", tmp_path / "labels")
    given_folder = tmp_path / "given"
    shutil.copytree(tmp_path / "labels", given_folder / below)
    entry = DocumentLibrary(ROUND, given_folder).read_entry(tree / ENTRY, place(tree))
    assert entry.truth == given_folder / below and entry.scores == {"top1": 0.875}


def test_truth_of_the_tree_goes_before_what_is_given(tree: Path, tmp_path: Path) -> None:
    """The judge scores against what was packed; another truth would be another result."""
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "labels.txt").write_text("1\n")
    assert DocumentLibrary(ROUND, tmp_path / "given").read_entry(
        tree / ENTRY, place(tree)
    ).scores == {"top1": 0.875}


@pytest.mark.parametrize("labels", ["", "one\n", "9" * 5000, "1.5\n", "\u00e4\n"])
def test_a_truth_that_the_scorer_cannot_read_is_said(tree: Path, labels: str) -> None:
    """As a reason, not as a traceback: truth is anybody's bytes."""
    (tree / "open" / "acme" / "truth" / "resnet50" / "labels.txt").write_text(labels)
    entry = DocumentLibrary(ROUND, None).read_entry(tree / ENTRY, place(tree))
    assert (
        entry.scores is None
        and entry.unscored is not None
        and "the scorer cannot read the answers" in entry.unscored
    )


def test_an_entry_of_another_workload_says_what_is_missing(tree: Path) -> None:
    """Its package brings the scorer."""
    put_system(workload="resnet51")(tree / ENTRY / "system.json")
    (tree / "open" / "acme" / "truth" / "resnet50").rename(
        tree / "open" / "acme" / "truth" / "resnet51"
    )
    entry = DocumentLibrary(ROUND, None).read_entry(tree / ENTRY, place(tree))
    assert (
        entry.scores is None
        and entry.unscored is not None
        and "unknown scorer 'resnet51'" in entry.unscored
    )
    assert (entry.rule, entry.inference, entry.workload) == (None, None, "resnet51")


def test_without_an_accuracy_run_nothing_is_scored(tree: Path) -> None:
    """A performance run has a sample of the answers alone."""
    shutil.rmtree(tree / ENTRY / "accuracy")
    entry = DocumentLibrary(ROUND, None).read_entry(tree / ENTRY, place(tree))
    assert (
        score_inference_entry(entry) == (None, "no accuracy run with a record")
        and entry.record is not None
        and len(entry.runs) == 1
    )


def test_what_is_not_finished_is_named_with_the_entry(tree: Path) -> None:
    """In its own folder and among the performance runs."""
    (tree / ENTRY / "accuracy.partial").mkdir()
    (tree / ENTRY / "performance" / "run_2.partial").mkdir()
    assert [
        path.name
        for path in DocumentLibrary(ROUND, None).read_entry(tree / ENTRY, place(tree)).unfinished
    ] == ["accuracy.partial", "run_2.partial"]


def test_a_log_is_read_once(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four scenarios trace their checkpoint to it."""
    calls: list[Path] = []
    real = training.read_training_log

    def counted(path: Path, round: Any, where: Any) -> Any:
        calls.append(path)
        return real(path, round, where)

    monkeypatch.setattr("compliance.kinds.podium.reader.read_training_log", counted)
    library = DocumentLibrary(ROUND, None)
    for _ in range(3):
        library.read_entry(tree / ENTRY, place(tree))
    assert len(calls) == 1


def test_a_library_tells_what_it_has_read(tree: Path) -> None:
    """Bundles are compared with it: a file that nobody read is part of no result."""
    library = DocumentLibrary(ROUND, None)
    library.read_entry(tree / ENTRY, place(tree))
    names = {path.name for path in library.iterate_read_files()}
    assert {
        "result_0.txt",
        "accuracy.txt",
        "box-torch-fp32.json",
        "box-torch-fp32_podium_SingleStream.json",
    } <= names


@pytest.fixture(params=["record", "log"])
def checkpoint(
    tree: Path, request: pytest.FixtureRequest
) -> Iterator[tuple[DocumentLibrary, Path]]:
    """A checkpoint's folder, with or without its logs read before."""
    library = DocumentLibrary(ROUND, None)
    if request.param == "log":
        library.read_set(tree / "open" / "acme" / "results" / "box-torch-bf16" / "resnet", None)
    yield library, next((tree / "checkpoints" / "resnet50").iterdir())


def test_a_checkpoints_record_is_read_with_the_logs_of_its_tree(
    checkpoint: tuple[DocumentLibrary, Path],
) -> None:
    """Those that were read; a record without any says nothing against it."""
    library, folder = checkpoint
    found = library.read_checkpoint(folder)
    assert (
        found is not None
        and found.record.sha256 == folder.name
        and len(found.logs) == len(library.logs)
    )


def test_a_record_that_is_none_is_a_flaw_not_a_document(tree: Path) -> None:
    """file.shape tells."""
    folder = next((tree / "checkpoints" / "resnet50").iterdir())
    (folder / "record.json").write_text(json.dumps({"workload": "resnet50"}))
    library = DocumentLibrary(ROUND, None)
    assert library.read_checkpoint(folder) is None and library.sources[folder][0].has_parse_error(
        ParseErrorKind.SHAPE
    )
    assert (
        list(library.iterate_checkpoint_folders(tree)) == [folder]
        and list(library.iterate_checkpoint_folders(tree / "no")) == []
    )


@pytest.mark.parametrize("name", ["/", "..", "../../..", "", "a/b"])
def test_a_workload_whose_name_is_a_path_has_no_truth(tree: Path, name: str) -> None:
    """`/` in a record had the judge look through every folder of the machine."""
    put_system(workload=name)(tree / ENTRY / "system.json")
    entry = DocumentLibrary(ROUND, None).read_entry(tree / ENTRY, place(tree))
    assert entry.truth is None and entry.scores is None


@pytest.mark.parametrize(
    ("name", "advised"),
    [("mlperf_log_detail.txt", "LoadGen writes no"), ("result_0.txt", "learning rate")],
)
def test_what_is_no_number_is_advised_about_for_its_kind_of_file(name: str, advised: str) -> None:
    """A LoadGen log was told that a run that reaches NaN is aborted, which is training's rule."""
    source = SourceFile(Path(name))
    source.add_parse_error(ParseErrorKind.NUMBER, "NaN", "a finite number", 3)
    (finding,) = judge_document(source, "podium-v1")
    assert finding.rule == "file.number" and advised in finding.advice
