"""The round of a path is told by its content, whatever its name, and what a path is by its place
and its content.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from dialects import ANSWERS, DETAIL, NEW, OLD, SUMMARY, TEXT
from examples import EXAMPLES

from compliance.commands import CheckOptions, run_check_command
from compliance.judge import Judge
from compliance.recognition import evidence, first_record
from compliance.recognition.path_kind import PathKind, find_judgeable_parts, recognise_path
from compliance.recognition.round import decide_round_by_files, recognise_path_round
from compliance.verdict import Verdict

PODIUM = EXAMPLES / "base" / "tree"
LOG = (EXAMPLES / "base" / "log" / "result_0.txt").read_text()


UNKNOWN = "unknown"
UNSET = re.sub(r'("time_m?s": ?)\d+', r"\g<1>12345", NEW)
"""A training log of a machine whose clock was never set: 1970."""
TESTED = '"pid": 7, "tid": 7, "ts": 4100ns : Date + time of test: 2020-09-15T08:00:00Z\n'
SERVED = (
    ':::MLLOG {"key": "loadgen_version", "value": "5.1.0 @ 50de99161e", "time_ms": 0.005657,'
    ' "event_type": "POINT_IN_TIME", "metadata": {}}\n:::MLLOG {"key": "effective_qsl_rng_seed",'
    ' "value": SEED, "time_ms": 0.05, "event_type": "POINT_IN_TIME", "metadata": {}}\n'
)
"""LoadGen's detail log since 1.0, which no round that is judged as a published one has."""


def round_at(path: Path) -> str | None:
    found = recognise_path_round(recognise_path(path))
    return (found.round or UNKNOWN) if found else None


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# ---- one file ----


@pytest.mark.parametrize(
    ("name", "content", "round_name"),
    [
        ("result_0.txt", NEW, "training-v0.7"),
        ("train.log", NEW, "training-v0.7"),
        ("result_0.txt", OLD, "training-v0.6"),
        ("result_0.txt", TEXT, "training-v0.6"),
        ("result_0.txt", LOG, "podium-v1"),
        (
            "result_0.txt",
            LOG.replace(
                '"podium_round", "value": "podium-v1"', '"podium_round", "value": "podium-v9"'
            ),
            "podium-v1",
        ),
        (
            "result_0.txt",
            LOG.replace(
                '"podium_round", "value": "podium-v1"', '"podium_round", "value": "training-v0.7"'
            ),
            "podium-v1",
        ),
        ("mlperf_log_detail.txt", DETAIL, "inference-v0.5"),
        ("some.log", DETAIL, "inference-v0.5"),
        ("mlperf_log_detail.txt", DETAIL.replace(".5a1", "1.0"), "inference-v0.5"),
        (
            "mlperf_log_detail.txt",
            DETAIL.replace("3133965575612453542", "12786827339337101903"),
            "inference-v0.7",
        ),
        ("mlperf_log_detail.txt", DETAIL.replace("3133965575612453542", "7"), "inference-v0.5"),
        (
            "mlperf_log_detail.txt",
            DETAIL.replace("3133965575612453542", "7") + TESTED,
            "inference-v0.7",
        ),
        (
            "mlperf_log_detail.txt",
            DETAIL.replace("3133965575612453542", "7322528924094909334"),
            "inference-v1.0",
        ),
        (
            "mlperf_log_detail.txt",
            DETAIL.replace(" : version : .5a1 @ 33ff466d0a", " : nothing"),
            "inference-v0.5",
        ),
        ("mlperf_log_detail.txt", SERVED.replace("SEED", "3133965575612453542"), "inference-v0.5"),
        ("mlperf_log_detail.txt", SERVED.replace("SEED", "3066443479025735752"), "inference-v4.1"),
        ("mlperf_log_detail.txt", SERVED.replace("SEED", "2085463073848966840"), "inference-v6.1"),
        ("mlperf_log_detail.txt", SERVED.replace("SEED", "148687905518835231"), "inference-v3.1"),
        ("mlperf_log_detail.txt", SERVED.replace("SEED", "7"), UNKNOWN),
        (
            "result_0.txt",
            NEW.replace('"time_ms": 16000', '"time_ms": 17280').replace("resnet", "bert"),
            "training-v4.1",
        ),
        ("result_0.txt", NEW.replace("resnet", "rnnt"), "training-v1.0"),
        ("result_0.txt", NEW.replace("resnet", "oc20"), UNKNOWN),
        ("result_0.txt", NEW.replace("resnet", "resnetto"), "training-v0.7"),
        ("result_0.txt", NEW.replace('"time_ms": 16000', '"time_ms": 39999'), "training-v0.7"),
        (
            "result_0.txt",
            NEW.replace('"time_ms": 16000', '"time_ms": 39999').replace("resnet", "mind_reading"),
            UNKNOWN,
        ),
        ("result_0.txt", re.sub(r'("time_m?s": ?)16', r"\g<1>9", NEW), UNKNOWN),
        ("result_0.txt", UNSET, UNKNOWN),
        ("training_results_v0.7/result_0.txt", UNSET, "training-v0.7"),
        ("training_results_v9.0/result_0.txt", UNSET, UNKNOWN),
        (
            "mlperf_log_detail.txt",
            '"pid": 7, "tid": 7, "ts": 3ns : qsl_rng_seed : 12786827339337101903\n',
            "inference-v0.7",
        ),
        ("mlperf_log_summary.txt", SUMMARY, "inference-v0.5"),
        (
            "mlperf_log_summary.txt",
            SUMMARY.replace("3133965575612453542", "12786827339337101903"),
            "inference-v0.7",
        ),
        ("result_0.txt", "", None),
        ("result_0.txt", "no record at all\n", None),
        ("result_0.txt", ":::MLPv0.5.0 resnet 1541685083.9\n", UNKNOWN),
        (
            "mlperf_log_summary.txt",
            SUMMARY.replace("3133965575612453542", "1780908523862526354"),
            "inference-v5.1",
        ),
        ("result_0.txt", b"\x00\xff" * 500, None),
    ],
)
def test_a_file_is_known_by_what_it_says(
    tmp_path: Path, name: str, content: str | bytes, round_name: str | None
) -> None:
    assert round_at(put(tmp_path / name, content)) == round_name


def test_a_summary_with_other_seeds_tells_nothing(tmp_path: Path) -> None:
    """Its lines are the same in all rounds: the detail log beside it decides."""
    assert (
        evidence.read_round_evidence(
            put(tmp_path / "mlperf_log_summary.txt", SUMMARY.replace("3133965575612453542", "7"))
        )
        is None
    )


def test_a_record_behind_a_million_lines_of_something_else_is_found(tmp_path: Path) -> None:
    """In published logs 97 % of the lines are other programs'."""
    assert (
        round_at(put(tmp_path / "result_0.txt", "Epoch 1: 10 samples/s\n" * 200_000 + OLD))
        == "training-v0.6"
    )


def test_a_record_that_a_chunk_cuts_in_two_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path / "result_0.txt", "x\n" * 100 + NEW)
    for size in (1, 7, 203):
        monkeypatch.setattr(first_record, "EVIDENCE_CHUNK_BYTES", size)
        assert round_at(path) == "training-v0.7"


def test_little_is_read_of_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recognition comes before reading, for each PATH: a gigabyte must not be read twice."""
    path = put(tmp_path / "result_0.txt", NEW + "x" * (8 << 20))
    assert (
        len(first_record.read_first_record(path))
        <= first_record.EVIDENCE_CHUNK_BYTES + first_record.EVIDENCE_HEAD_BYTES
    )
    monkeypatch.setattr(first_record, "MAX_SEARCHED_BYTES", 1 << 20)
    path.write_bytes(b"x\n" * (2 << 20) + NEW.encode())
    assert round_at(path) is None


@pytest.mark.parametrize("make", ["folder", "loop", "pipe", "gone"])
def test_what_is_no_file_tells_nothing(tmp_path: Path, make: str) -> None:
    path = tmp_path / "result_0.txt"
    if make == "folder":
        path.mkdir()
    elif make == "loop":
        path.symlink_to(path)
    elif make == "pipe":
        os.mkfifo(path)
    assert round_at(path) is None


# ---- sets, trees, neighbours ----


def test_most_logs_of_a_set_decide(tmp_path: Path) -> None:
    """One log of another round among them is a fault of the set, not its round."""
    for number in range(5):
        put(tmp_path / f"result_{number}.txt", OLD if number == 1 else NEW)
    assert round_at(tmp_path) == "training-v0.7"


def test_podiums_stamps_decide_alone(tmp_path: Path) -> None:
    """A log whose stamps somebody took out does not make a published set of podium's."""
    for number in range(5):
        put(tmp_path / f"result_{number}.txt", LOG if number == 3 else NEW)
    assert round_at(tmp_path) == "podium-v1"
    assert decide_round_by_files([]) is None


@pytest.mark.parametrize("content", ["", "garbage\n", b"\xff\xfe\0"])
def test_a_log_that_tells_nothing_is_of_its_neighbours_round(
    tmp_path: Path, content: str | bytes
) -> None:
    put(tmp_path / "result_0.txt", OLD)
    assert round_at(put(tmp_path / "result_1.txt", content)) == "training-v0.6"


def test_a_run_that_tells_nothing_is_of_its_entrys_round(tmp_path: Path) -> None:
    put(tmp_path / "Offline" / "accuracy" / "mlperf_log_detail.txt", DETAIL)
    run = put(tmp_path / "Offline" / "performance" / "run_1" / "mlperf_log_summary.txt", "cut")
    assert round_at(run) == round_at(run.parent) == round_at(run.parent.parent) == "inference-v0.5"


@pytest.mark.parametrize(
    ("folder", "round_name"),
    [
        ("training_results_v0.7", "training-v0.7"),
        ("training_v0.6", "training-v0.6"),
        ("inference_results_v0.5", "inference-v0.5"),
        ("training_results_v0.9", UNKNOWN),
        ("inference_results_v6.1", "inference-v6.1"),
        ("inference_results_v7.0", UNKNOWN),
        ("hpc_results_v3.0", UNKNOWN),
        ("results", None),
    ],
)
def test_where_no_content_tells_the_folders_name_does(
    tmp_path: Path, folder: str, round_name: str | None
) -> None:
    assert round_at(put(tmp_path / folder / "acme" / "result_0.txt", "cut")) == round_name


@pytest.mark.parametrize(
    "path",
    [
        path.relative_to(PODIUM)
        for path in (PODIUM, *sorted(PODIUM.rglob("*")))
        if "checkpoints" not in (path.name, path.parent.name)  # folders without any file
    ],
    ids=str,
)
def test_everything_that_podium_makes_is_podiums(path: Path) -> None:
    assert Judge().resolve_round_name(recognise_path(PODIUM / path)) == "podium-v1"


# ---- what a path is ----


@pytest.fixture
def published(tmp_path: Path) -> Path:
    """A published inference tree, in outline, as upstream has it."""
    home = tmp_path / "round" / "closed" / "Org"
    entry = home / "results" / "box" / "resnet" / "Server"
    for folder in ("accuracy", "performance/run_1", "performance/run_2"):
        put(entry / folder / "mlperf_log_detail.txt", DETAIL)
        put(entry / folder / "mlperf_log_summary.txt", SUMMARY)
        put(entry / folder / "mlperf_log_accuracy.json", ANSWERS)
    put(home / "systems" / "box.json", "{}")
    put(home / "measurements" / "box" / "resnet" / "Server" / "user.conf", "")
    put(
        home
        / "audit"
        / "box"
        / "resnet"
        / "Server"
        / "TEST01"
        / "performance"
        / "run_1"
        / "mlperf_log_detail.txt",
        DETAIL,
    )
    put(home / "code" / "resnet" / "impl" / ".keep", "")
    return home


@pytest.mark.parametrize(
    ("path", "kind", "below"),
    [
        (".", PathKind.ORGANISATION, "."),
        ("results", PathKind.ORGANISATION, "results"),
        ("systems", PathKind.ORGANISATION, "systems"),
        ("measurements", PathKind.ORGANISATION, "results"),
        ("code/resnet", PathKind.ORGANISATION, "code/resnet"),
        ("results/box", PathKind.SYSTEM, "results/box"),
        ("measurements/box", PathKind.SYSTEM, "results/box"),
        ("results/box/resnet", PathKind.BENCHMARK, "results/box/resnet"),
        ("results/box/resnet/Server", PathKind.ENTRY, "results/box/resnet/Server"),
        ("measurements/box/resnet/Server", PathKind.ENTRY, "results/box/resnet/Server"),
        (
            "measurements/box/resnet/Server/user.conf",
            PathKind.MEASUREMENTS,
            "measurements/box/resnet/Server/user.conf",
        ),
        ("results/box/resnet/Server/accuracy", PathKind.RUN, "results/box/resnet/Server/accuracy"),
        (
            "results/box/resnet/Server/performance",
            PathKind.RUNS,
            "results/box/resnet/Server/performance",
        ),
        (
            "results/box/resnet/Server/performance/run_2",
            PathKind.RUN,
            "results/box/resnet/Server/performance/run_2",
        ),
        (
            "results/box/resnet/Server/accuracy/mlperf_log_accuracy.json",
            PathKind.RUN,
            "results/box/resnet/Server/accuracy",
        ),
        ("audit/box/resnet/Server", PathKind.AUDIT, "audit/box/resnet/Server"),
        ("audit/box/resnet/Server/TEST01", PathKind.AUDIT, "audit/box/resnet/Server/TEST01"),
        ("systems/box.json", PathKind.SYSTEM_FILE, "systems/box.json"),
        ("../../closed", PathKind.TREE, "../../closed"),
        ("../..", PathKind.TREE, "../.."),
    ],
)
def test_every_part_of_a_published_tree_is_what_it_is(
    published: Path, path: str, kind: PathKind, below: str
) -> None:
    target = recognise_path(published / path)
    assert (target.kind, target.path) == (kind, (published / below).resolve())
    assert (found := recognise_path_round(target)) is not None
    assert found.round == "inference-v0.5"


def test_logs_may_lie_in_performance_itself(published: Path) -> None:
    run = published / "results" / "box" / "resnet" / "Server" / "performance"
    shutil.rmtree(run)
    put(run / "mlperf_log_detail.txt", DETAIL)
    assert recognise_path(run).kind is PathKind.RUN


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        (("result_0.txt",), PathKind.SET),
        (("mlperf_log_summary.txt",), PathKind.RUN),
        (("run_1/mlperf_log_summary.txt", "run_2/mlperf_log_summary.txt"), PathKind.RUNS),
        (("accuracy/mlperf_log_summary.txt",), PathKind.ENTRY),
        (("Server/performance/run_1/mlperf_log_detail.txt",), PathKind.BENCHMARK),
        (("resnet/Server/performance/run_1/mlperf_log_detail.txt",), PathKind.SYSTEM),
        (("resnet/result_0.txt", "ssd/result_0.txt"), PathKind.SYSTEM),
        (("closed/Org/results/box/resnet/result_0.txt",), PathKind.TREE),
        (("Org/results/box/resnet/result_0.txt", "Org/systems/box.json"), PathKind.TREE),
        (("Org/results/box/resnet/result_0.txt",), PathKind.TREE),
        (("results/box/resnet/result_0.txt", "systems/box.json"), PathKind.ORGANISATION),
        (("record.json",), PathKind.CHECKPOINT),
        (("manifest.json",), PathKind.BUNDLE),
        ((".keep",), PathKind.EMPTY),
        ((), PathKind.EMPTY),
        (("notes.txt",), PathKind.UNKNOWN),
    ],
)
def test_a_folder_outside_a_tree_is_known_by_what_is_in_it(
    tmp_path: Path, files: tuple[str, ...], kind: PathKind
) -> None:
    folder = tmp_path / "thing"
    folder.mkdir()
    for name in files:
        put(folder / name, "")
    assert recognise_path(folder).kind is kind


def test_a_folder_named_results_makes_no_organisation_of_the_one_above(tmp_path: Path) -> None:
    """~/results/box/resnet: `home` filed nothing, and no log need name it."""
    path = put(tmp_path / "home" / "results" / "box" / "resnet" / "result_0.txt", NEW)
    assert recognise_path(path).position is None
    assert recognise_path(path.parent).kind is PathKind.SET


@pytest.mark.parametrize(
    "sign",
    [
        "home/systems/box.json",
        "home/measurements/box/resnet/Offline/user.conf",
        "home/results/box/entry.json",
        "other/systems/box.json",
    ],
)
def test_a_sign_of_who_filed_makes_one(tmp_path: Path, sign: str) -> None:
    """Descriptions, MLPerf's entry.json, or other organisations beside it."""
    path = put(tmp_path / "home" / "results" / "box" / "resnet" / "result_0.txt", NEW)
    (tmp_path / "other" / "results").mkdir(parents=True)
    put(tmp_path / sign, "{}")
    place = recognise_path(path).position
    assert place is not None
    assert (place.org, place.system, place.benchmark) == ("home", "box", "resnet")


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        ("home", ':::MLLOG {"key": "submission_org", "value": "Home", "metadata": {}}'),
        ("home", ':::MLL 0.0 submission_org: {"value": "HOME", "metadata": {}}'),
        ("training_v5.1/home", ""),
    ],
)
def test_a_log_and_a_round_name_who_filed(tmp_path: Path, folder: str, text: str) -> None:
    """An organisation of its own, without the descriptions of its systems."""
    path = put(tmp_path / folder / "results" / "box" / "resnet" / "result_0.txt", text or NEW)
    place = recognise_path(path).position
    assert place is not None
    assert (place.org, place.system, place.benchmark) == ("home", "box", "resnet")


def test_a_folder_of_systems_is_judged_system_by_system(tmp_path: Path) -> None:
    """`home` and `home/results` hold results, whoever filed them."""
    path = put(tmp_path / "home" / "results" / "box" / "resnet" / "result_0.txt", NEW)
    for folder in (path.parents[2], path.parents[3]):
        assert recognise_path(folder).kind is PathKind.TREES
        assert list(find_judgeable_parts(folder)) == [path.parents[1]]


def test_a_flat_log_has_a_system_and_no_benchmark(tmp_path: Path) -> None:
    put(tmp_path / "Org" / "systems" / "box.json", "{}")
    place = recognise_path(put(tmp_path / "Org" / "results" / "box" / "result_1.txt", NEW)).position
    assert place is not None
    assert (place.system, place.benchmark) == ("box", None)


# ---- what is said of what is nothing ----


@pytest.mark.parametrize(
    ("files", "found"),
    [((), "an empty folder"), (("notes.md",), "nothing that the judge recognises")],
)
def test_a_folder_with_nothing_to_judge_says_what_would_be(
    tmp_path: Path, files: tuple[str, ...], found: str
) -> None:
    folder = tmp_path / "thing"
    folder.mkdir()
    for name in files:
        put(folder / name, NEW)
    result = Judge().judge_path(str(folder))
    assert (result.round, result.verdict) == (UNKNOWN, Verdict.UNKNOWN)
    assert [finding.found for finding in result.findings] == [found]
    assert [finding.advice for finding in result.findings] == ["name the path of a result itself."]


def test_results_trees_in_a_folder_are_judged_each_by_its_own_round(tmp_path: Path) -> None:
    """A submitter's repository holds results of several rounds; its root is one PATH, with one
    result.
    """
    shutil.copytree(PODIUM, tmp_path / "mine" / "deep" / "podium")
    shutil.copytree(EXAMPLES / "base" / "trained-tree", tmp_path / "mine" / "round")
    result = Judge().judge_path(str(tmp_path / "mine"))
    assert (result.verdict, result.round, result.findings) == (
        Verdict.VALID,
        "podium-v1, training-v0.7",
        (),
    )
    (tmp_path / "mine" / "round" / "acme" / "results" / "box" / "resnet" / "result_3.txt").unlink()
    result = Judge().judge_path(str(tmp_path / "mine"))
    assert result.verdict is Verdict.BROKEN
    assert {
        Path(finding.file).is_relative_to(tmp_path / "mine" / "round" / "acme")
        for finding in result.findings
    } == {True}


def test_a_log_of_podiums_under_another_name_is_no_set(tmp_path: Path) -> None:
    """In published rounds a log needs no number; of podium's a folder without a numbered log has
    nothing to judge.
    """
    put(tmp_path / "result_old.txt", LOG)
    assert Judge().judge_path(str(tmp_path)).verdict is Verdict.BROKEN


@pytest.mark.parametrize("content", ["{}", NEW, '{"a": [1, 2]}', ""])
def test_a_json_file_of_another_kind_is_no_training_log(tmp_path: Path, content: str) -> None:
    """Nothing is said of missing records in a file that is no log; with --round neither."""
    for judge in (Judge(), Judge("training-v0.7"), Judge("inference-v0.5")):
        result = judge.judge_path(str(put(tmp_path / "package.json", content)))
        assert [finding.found for finding in result.findings] == ["an unrecognised JSON file"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named_first_with_a_mark_and_without(tmp_path: Path, encoding: str) -> None:
    """An editor saved it so: that explains all that follows."""
    path = tmp_path / "result_0.txt"
    path.write_bytes(LOG.encode(encoding))
    result = Judge().judge_path(str(path))
    (only,) = result.findings
    assert (result.round, only.rule, only.found) == (UNKNOWN, "file.encoding", "UTF-16 text")


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        (
            "open/acme/measurements/box-torch-fp32/resnet50/SingleStream/box-torch-fp32_podium_SingleStream.json",
            Verdict.VALID,
        ),
        ("open/acme/results/box-torch-fp32/resnet50/SingleStream/performance", Verdict.VALID),
        ("open/acme/results/box-torch-fp32/resnet50", Verdict.VALID),
        ("open/acme/systems", Verdict.VALID),
    ],
)
def test_every_part_of_podiums_tree_can_be_given(path: str, verdict: Verdict) -> None:
    assert Judge().judge_path(str(PODIUM / path)).verdict is verdict


def test_the_record_of_a_checkpoint_is_judged_with_the_logs_of_its_tree(tmp_path: Path) -> None:
    shutil.copytree(PODIUM, tmp_path / "t")
    path = next((tmp_path / "t" / "checkpoints").rglob("record.json"))
    assert Judge().judge_path(str(path)).verdict is Verdict.VALID
    assert Judge().judge_path(str(path.parent)).verdict is Verdict.VALID
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"reference_accuracy": {"top1": 0.5}}))
    assert [finding.rule for finding in Judge().judge_path(str(path)).findings] == [
        "checkpoint.record"
    ]


def test_a_system_outside_a_tree_is_judged_set_by_set(tmp_path: Path) -> None:
    for name in ("resnet", "resnet-again"):
        put(tmp_path / "box" / name / "result_0.txt", LOG)
    assert recognise_path(tmp_path / "box").kind is PathKind.SYSTEM
    assert Judge().judge_path(str(tmp_path / "box")).verdict is Verdict.VALID


def test_a_workload_that_is_not_installed_is_one_finding_a_result(tmp_path: Path) -> None:
    """Whoever lacks a plugin's package learns that, instead of everything that follows from it."""
    shutil.copytree(PODIUM, tmp_path / "t")
    for path in (tmp_path / "t").rglob("*"):
        if path.is_file() and path.suffix in (".txt", ".json"):
            path.write_text(
                path.read_text().replace(
                    '"podium_workload", "value": "resnet50"', '"podium_workload", "value": "toy"'
                )
            )
            path.write_text(path.read_text().replace('"workload": "resnet50"', '"workload": "toy"'))
    (tmp_path / "t" / "checkpoints" / "resnet50").rename(tmp_path / "t" / "checkpoints" / "toy")
    for path in (
        tmp_path / "t",
        tmp_path / "t" / "open" / "acme",
        next((tmp_path / "t").rglob("result_0.txt")),
        next((tmp_path / "t").rglob("run_1")),
    ):
        errors = [
            finding
            for finding in Judge().judge_path(str(path)).findings
            if finding.severity == "error"
        ]
        assert {finding.rule for finding in errors} == {"tree.installed"}, path
        assert len({finding.file for finding in errors}) == len(errors)
        assert "'toy'" in errors[0].found


# ---- rounds that are not known ----


def test_an_unknown_round_is_neither_valid_nor_broken(tmp_path: Path) -> None:
    """A BERT of a later round reached v0.7's target and missed its own, and was valid; of the
    rounds behind v5.0 none has BERT.
    """
    for number in range(10):
        put(
            tmp_path / "bert" / f"result_{number}.txt",
            NEW.replace('"time_ms": 16000', '"time_ms": 17600').replace("resnet", "bert"),
        )
    result = Judge().judge_path(str(tmp_path / "bert"))
    assert (result.round, result.verdict) == ("unknown", Verdict.UNKNOWN)
    (finding,) = result.findings
    assert finding.found == "10 training logs, among them of bert from 2025-10-09"
    assert "podium-v1, training-v0.6 to v6.1" in finding.required
    assert Judge("training-v0.7").judge_path(str(tmp_path / "bert")).round == "training-v0.7"


def test_an_unknown_verdict_ends_with_1(tmp_path: Path) -> None:
    assert (
        run_check_command(
            [str(put(tmp_path / "mlperf_log_detail.txt", SERVED.replace("SEED", "7")))],
            CheckOptions(output_format="json"),
        )
        == 1
    )


def test_one_log_of_another_year_makes_no_set_of_a_later_round(tmp_path: Path) -> None:
    """An edited clock is a fault of the set."""
    for number in range(5):
        put(
            tmp_path / f"result_{number}.txt",
            NEW.replace('"time_ms": 16000', '"time_ms": 16936') if number == 1 else NEW,
        )
    assert round_at(tmp_path) == "training-v0.7"


def test_a_good_part_of_later_logs_makes_a_tree_of_a_later_round(tmp_path: Path) -> None:
    """A later round may hold results that were handed in for an earlier one."""
    for number in range(12):
        text = NEW.replace('"time_ms": 16000', '"time_ms": 16256') if number % 3 == 0 else NEW
        put(tmp_path / "Org" / "results" / f"box{number}" / "resnet" / "result_0.txt", text)
    put(tmp_path / "Org" / "systems" / "box.json", "{}")
    assert round_at(tmp_path / "Org") == "training-v1.1"


def filed(home: Path, system: str, benchmark: str, day: int, stray: str = "") -> Path:
    """Put five logs with a time of `day` (ms / 1e8), one of which may be of another benchmark."""
    text = NEW.replace('"time_ms": 16000', f'"time_ms": {day}')
    for number in range(5):
        put(
            home / "results" / system / benchmark / f"result_{number}.txt",
            text.replace("resnet", stray if stray and number == 2 else benchmark),
        )
    put(home / "systems" / f"{system}.json", "{}")
    return home / "results" / system / benchmark


def test_organisations_of_several_rounds_are_judged_each_by_its_own(tmp_path: Path) -> None:
    """No round has both benchmarks: the newest one called the other organisation's results
    broken.
    """
    filed(tmp_path / "new", "box", "llama31_8b", 17570)
    filed(tmp_path / "old", "box", "resnet", 16200)
    assert Judge().judge_path(str(tmp_path)).round == "training-v1.0, training-v5.1"


def test_sets_of_several_rounds_in_one_organisation_are_judged_each_by_its_own(
    tmp_path: Path,
) -> None:
    """v5.0 has no GNN, so a set of v4.1 beside one of v5.0 is not of its organisation's newest
    round.
    """
    filed(tmp_path / "acme", "new", "stable_diffusion", 17460)
    old = filed(tmp_path / "acme", "old", "gnn", 17280)
    assert Judge().judge_path(str(old)).round == "training-v4.1"
    for path in (
        tmp_path,
        tmp_path / "acme",
        tmp_path / "acme" / "results",
        tmp_path / "acme" / "systems",
    ):
        assert Judge().judge_path(str(path)).round == "training-v4.1, training-v5.0", path


def test_systems_of_several_rounds_of_inference_are_judged_each_by_its_own(tmp_path: Path) -> None:
    for system, seed in (("a", "7322528924094909334"), ("b", "10003631887983097364")):
        put(
            tmp_path
            / "closed"
            / "acme"
            / "results"
            / system
            / "resnet"
            / "Offline"
            / "accuracy"
            / "mlperf_log_detail.txt",
            SERVED.replace("SEED", seed),
        )
    for path in (tmp_path, tmp_path / "closed" / "acme"):
        assert Judge().judge_path(str(path)).round == "inference-v1.0, inference-v3.0", path


@pytest.mark.parametrize("folder", ["training_results_v4.1", "results"])
def test_one_log_of_another_benchmark_does_not_change_the_round(
    tmp_path: Path, folder: str
) -> None:
    """v4.1 has no ResNet, v4.0 has: the set was judged by v4.0. Now that log alone is at fault."""
    own = filed(tmp_path / folder / "acme", "box", "ssd", 17280, stray="resnet")
    for path in (own / "result_2.txt", own, own.parents[2], tmp_path / folder):
        result = Judge().judge_path(str(path))
        assert result.round == "training-v4.1", path
        wrong = [
            finding
            for finding in result.findings
            if finding.severity == "error" and "resnet" in finding.found
        ]
        assert {Path(finding.file).name for finding in wrong} == {"result_2.txt"}, path


def test_of_three_runs_one_wrong_clock_does_not_change_the_round(tmp_path: Path) -> None:
    """Sets of the largest benchmarks have three runs."""
    for number in range(3):
        day = 17900 if number == 1 else 17460
        put(
            tmp_path / f"result_{number}.txt",
            NEW.replace('"time_ms": 16000', f'"time_ms": {day}').replace("resnet", "llama31_405b"),
        )
    assert round_at(tmp_path) == "training-v5.0"


def test_a_folder_of_a_later_round_tells_what_a_resubmitted_log_cannot(tmp_path: Path) -> None:
    assert (
        round_at(put(tmp_path / "training_results_v1.0" / "box" / "result_0.txt", NEW))
        == "training-v1.0"
    )
    assert (
        round_at(put(tmp_path / "training_results_v0.9" / "box" / "result_0.txt", NEW)) == UNKNOWN
    )
    assert (
        round_at(put(tmp_path / "training_results_v1.0" / "mine" / "result_0.txt", LOG))
        == "podium-v1"
    )


def test_a_compliance_test_with_seeds_of_its_own_is_of_its_trees_round(published: Path) -> None:
    test = published / "audit" / "box" / "resnet" / "Server" / "TEST05"
    put(
        test / "performance" / "run_1" / "mlperf_log_detail.txt",
        (DETAIL + TESTED).replace("3133965575612453542", "195"),
    )
    assert round_at(test) == "inference-v0.5"


def test_a_stamp_before_the_number_makes_a_set(tmp_path: Path) -> None:
    """Three in a hundred published logs are called so: their folders held no set."""
    for number in range(5):
        put(tmp_path / "resnet" / f"result_20210517_{number}.txt", NEW)
    assert recognise_path(tmp_path / "resnet").kind is PathKind.SET
    put(tmp_path / "other" / "results_1.txt", "no record\n")
    assert recognise_path(tmp_path / "other").kind is PathKind.UNKNOWN
