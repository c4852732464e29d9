"""What somebody might change in a good result so that it looks better, and what may go wrong with
its files: exit code 1, with a reason.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import making
import pytest
from click.testing import CliRunner
from examples import EXAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from making import SHA256, training_events, write_log
from spoiling import SYSTEM, first_answer, no_first_answer, put, relabelled, remove, set_value, swap
from system_records import put_system

from compliance.cli import check
from compliance.judge import Judge
from compliance.verdict import PathJudgement, Severity, Verdict
from suite.files.layout import (
    ACCURACY_LOG,
    DETAIL_LOG,
    SUMMARY_LOG,
    compute_bound_seed,
    compute_file_sha256,
)
from suite.loadgen.scenario import Scenario

TREE = EXAMPLES / "base" / "tree"
LOG, PERFORMANCE, ACCURATE = "**/resnet/result_0.txt", "**/performance/run_1", "**/accuracy"
MEASURED = "**/*_podium_SingleStream.json"
SUMMED = f"{PERFORMANCE}/{SUMMARY_LOG}"
pytestmark = pytest.mark.usefixtures("counted_once")


def judged(path: Path) -> PathJudgement:
    return Judge().judge_path(str(path))


def errors(path: Path) -> set[str]:
    return {finding.rule for finding in judged(path).findings if finding.severity is Severity.ERROR}


def one(tree: Path, pattern: str) -> Path:
    found = sorted(tree.glob(pattern))
    assert len(found) == 1, (pattern, found)
    return found[0]


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> None:
    """See that a copy of the campaign is what the judge accepts; all others are the same."""
    assert (
        judged(
            Path(shutil.copytree(TREE, tmp_path_factory.mktemp("accepted") / "results"))
        ).findings
        == ()
    )


@pytest.fixture
def tree(accepted: None, tmp_path: Path) -> Path:
    """A campaign that the judge accepts."""
    return Path(shutil.copytree(TREE, tmp_path / "results"))


def cut_in_half(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def as_utf16(path: Path) -> None:
    path.write_text(path.read_text(), "utf-16")


def as_garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 20)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def another_scenarios_run(folder: Path) -> None:
    """Put another scenario's performance run in a folder's place."""
    shutil.rmtree(folder)
    making.write_run(folder, making.LOADS[Scenario.OFFLINE], "performance")


def from_another_campaign(path: Path) -> None:
    """Take the detail log of a run that was bound to another campaign."""
    set_value(path, "effective_accuracy_log_rng_seed", compute_bound_seed("f" * 32, SHA256))
    set_value(path, "requested_accuracy_log_rng_seed", compute_bound_seed("f" * 32, SHA256))


def better_answers(folder: Path) -> None:
    """Put the labels into the accuracy log, with score and hash to match; the sampled answers give
    it away.
    """
    log = folder / ACCURACY_LOG
    for sample, label in enumerate(making.LABELS):
        log.write_text(
            re.sub(
                rf'"qsl_idx" : {sample}, "data" : "[0-9A-F]+"',
                f'"qsl_idx" : {sample}, "data" : "{label:02X}000000"',
                log.read_text(),
            )
        )
    (folder / "accuracy.txt").write_text(f"top1=1.000000, hash={compute_file_sha256(log)}\n")


def labels_from_answers(division: Path) -> None:
    """Make the answers the labels, with score and hashes to match: only a truth that everybody
    knows gives it away.
    """
    shutil.rmtree(division.parent)
    relabelled(division.parent)
    assert errors(division.parent) == {"accuracy.pinned", "accuracy.excess"}


def faster(folder: Path) -> None:
    """Raise the throughput everywhere that it is told."""
    set_value(folder / DETAIL_LOG, "result_qps_with_loadgen_overhead", 150.0)
    swap("QPS w/ loadgen overhead         : .*", "QPS w/ loadgen overhead         : 150.00")(
        folder / SUMMARY_LOG
    )


TAMPERED: list[tuple[str, str, Callable[[Path], object], str]] = [
    (
        "the last accuracy below target",
        LOG,
        swap('"value": 0.875', '"value": 0.75'),
        "training.target",
    ),
    (
        "an epoch mark deleted",
        LOG,
        swap(r":::MLLOG [^\n]*epoch_stop[^\n]*\n", ""),
        "training.nesting",
    ),
    (
        "an evaluation deleted",
        LOG,
        swap(r":::MLLOG [^\n]*eval_accuracy[^\n]*\n", ""),
        "training.evaluated",
    ),
    (
        "status success without the target",
        LOG,
        swap('"value": 0.875', '"value": 0.5'),
        "training.target",
    ),
    (
        "a second run_stop",
        LOG,
        lambda path: path.write_text(
            path.read_text() + path.read_text().splitlines(keepends=True)[-3]
        ),
        "training.once",
    ),
    (
        "two records glued",
        LOG,
        lambda path: path.write_text(path.read_text().replace("\n", " ", 1)),
        "file.glued",
    ),
    ("NaN as accuracy", LOG, swap('"value": 0.875', '"value": NaN'), "file.number"),
    ("an accuracy of a hundred", LOG, swap('"value": 0.875', '"value": 81.0'), "training.accuracy"),
    ("the log cut in half", LOG, cut_in_half, "file.cut"),
    ("the log in UTF-16", LOG, as_utf16, "file.encoding"),
    ("the log is garbage", LOG, as_garbage, "file.encoding"),
    ("the log is a folder", LOG, as_folder, "file.readable"),
    ("the log is a loop of links", LOG, as_loop, "file.readable"),
    (
        "the reference lowered",
        LOG,
        swap(r'(reference_accuracy", "value": {"top1": )0\.875', r"\g<1>0.5"),
        "training.reference_level",
    ),
    (
        "the reference lowered a little",
        LOG,
        swap(r'(reference_accuracy", "value": {"top1": )0\.875', r"\g<1>0.86"),
        "facts.agree",
    ),
    (
        "the target lowered",
        LOG,
        swap(r'(quality_target", "value": {"top1": )[0-9.]+', r"\g<1>0.5"),
        "training.quality_target",
    ),
    (
        "a smoke run called full",
        LOG,
        swap('"podium_profile", "value": "smoke"', '"podium_profile", "value": "full"'),
        "training.stamps",
    ),
    ("the run set taken away", "**/resnet", remove, "entry.checkpoint"),
    (
        "the summary's percentile",
        SUMMED,
        swap(r"(90.00 percentile latency \(ns\)   : )\d+", r"\g<1>99"),
        "loadgen.summary",
    ),
    (
        "the summary's headline",
        SUMMED,
        swap(r"(90.0th percentile latency \(ns\) : )\d+", r"\g<1>99"),
        "loadgen.summary",
    ),
    (
        "the summary's verdict",
        SUMMED,
        swap("Result is : VALID", "Result is : INVALID"),
        "loadgen.valid",
    ),
    ("the throughput everywhere", PERFORMANCE, faster, "loadgen.span"),
    (
        "a summary with an error",
        SUMMED,
        swap("No errors encountered during test.", "1 ERROR encountered."),
        "loadgen.errors",
    ),
    ("another scenario's run", PERFORMANCE, another_scenarios_run, "loadgen.mode"),
    (
        "another run's detail log",
        f"{PERFORMANCE}/{DETAIL_LOG}",
        lambda path: shutil.copy(path.parents[2] / "accuracy" / DETAIL_LOG, path),
        "loadgen.mode",
    ),
    (
        "another campaign's detail log",
        f"{PERFORMANCE}/{DETAIL_LOG}",
        from_another_campaign,
        "loadgen.binding",
    ),
    (
        "fewer queries",
        f"{PERFORMANCE}/{DETAIL_LOG}",
        lambda path: set_value(path, "result_query_count", 400),
        "loadgen.span",
    ),
    ("the detail log cut in half", f"{PERFORMANCE}/{DETAIL_LOG}", cut_in_half, "file.cut"),
    ("one answer deleted", f"{ACCURATE}/{ACCURACY_LOG}", no_first_answer, "answers.coverage"),
    (
        "one answer changed",
        f"{ACCURATE}/{ACCURACY_LOG}",
        first_answer(lambda line: line.replace("000000", "000001")),
        "accuracy.hash",
    ),
    (
        "no sampled answers",
        f"{PERFORMANCE}/{ACCURACY_LOG}",
        lambda path: path.write_text("[\n]\n"),
        "answers.sampled",
    ),
    ("the labels as answers", ACCURATE, better_answers, "answers.same"),
    (
        "the score raised",
        f"{ACCURATE}/accuracy.txt",
        swap("top1=0.875000", "top1=0.880000"),
        "accuracy.score",
    ),
    (
        "the score as nan",
        f"{ACCURATE}/accuracy.txt",
        swap("top1=0.875000", "top1=nan"),
        "file.record",
    ),
    (
        "the labels changed",
        "**/labels.txt",
        lambda path: path.write_text("1\n" * 1008),
        "accuracy.truth",
    ),
    ("labels, answers and hash together", "open", labels_from_answers, "accuracy.pinned"),
    (
        "the system's checkpoint",
        SYSTEM,
        put(checkpoint_sha256="7b" * 32),
        "entry.stamps",
    ),
    ("the system's nonce", SYSTEM, put_system(nonce="f" * 32), "loadgen.binding"),
    ("the system's precision", SYSTEM, put(precision="int8"), "entry.stamps"),
    ("a system of fewer samples", SYSTEM, put_system(sample_count=1007), "loadgen.samples"),
    (
        "the system that a run names",
        f"{PERFORMANCE}/run.json",
        put(system_sha256="7b" * 32),
        "entry.stamps",
    ),
    ("a system without a field", SYSTEM, lambda path: path.write_text("{}"), "file.shape"),
    (
        "a record without a field",
        f"{ACCURATE}/run.json",
        lambda path: path.write_text("{}"),
        "file.shape",
    ),
    (
        "a setting of the system",
        SYSTEM,
        put(settings__global_batch_size=128),
        "entry.stamps",
    ),
    (
        "a setting of the system and the digests that name it",
        SYSTEM,
        put_system(**{"settings__data.shuffle_labels": True}),
        "entry.agreement",
    ),
    ("a setting more", SYSTEM, put_system(settings__trick=1), "entry.agreement"),
    ("a setting of the measurements", MEASURED, put(settings__opt_name="sgd"), "entry.agreement"),
    (
        "a bound in the measurements",
        MEASURED,
        put(**{"settings__loadgen.min_duration_ms": 1}),
        "entry.agreement",
    ),
    (
        "a query fewer in the record",
        f"{PERFORMANCE}/run.json",
        put(**{"changed__loadgen.min_queries": 63}),
        "entry.settings",
    ),
    (
        "a setting of the checkpoint",
        "**/record.json",
        put(settings__opt_name="sgd"),
        "checkpoint.record",
    ),
    ("the checkpoint's framework", "**/record.json", put(framework="other"), "facts.agree"),
    (
        "the harness ceiling below the ground",
        f"{PERFORMANCE}/run.json",
        put(ceiling=-100.0),
        "entry.ceiling",
    ),
    ("a ceiling of nothing", f"{PERFORMANCE}/run.json", put(ceiling=0.0), "entry.ceiling"),
    (
        "fewer samples trained on",
        LOG,
        swap('"train_samples", "value": 4800', '"train_samples", "value": 480'),
        "training.samples",
    ),
    (
        "evaluated on fewer samples",
        LOG,
        swap('"eval_samples", "value": 1008', '"eval_samples", "value": 84'),
        "entry.evaluated",
    ),
    ("a run deleted", PERFORMANCE, remove, "entry.runs"),
    ("the accuracy run deleted", ACCURATE, remove, "entry.runs"),
    ("the measurements deleted", "**/*_podium_SingleStream.json", remove, "file.present"),
    ("the system deleted", "**/box-torch-fp32.json", remove, "tree.systems"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "pattern", "change", "rule"), TAMPERED, ids=[case[0] for case in TAMPERED]
)
def test_what_was_tampered_with_is_found_by_the_rule_that_is_there_for_it(
    tree: Path, what: str, pattern: str, change: Callable[[Path], object], rule: str
) -> None:
    change(one(tree, pattern))
    assert rule in errors(tree), what
    assert judged(tree).verdict is Verdict.BROKEN
    assert CliRunner().invoke(check, [str(tree)], standalone_mode=False).return_value == 1


def aborted(path: Path) -> Path:
    """A legal log of a run that missed its target."""
    write_log(
        path,
        [
            event
            for event in training_events(scores=(0.25, 0.5))
            if event.key not in ("checkpoint_sha256", "reference_accuracy")
        ],
    )
    path.write_text(path.read_text().replace('"status": "success"', '"status": "aborted"'))
    return path


def test_a_run_that_is_legal_but_missed_its_target_is_not_converged(tmp_path: Path) -> None:
    """Exit 1, but nobody is told that the log is broken."""
    path = aborted(tmp_path / "result_0.txt")
    for place in (path, tmp_path):
        result = judged(place)
        assert result.verdict is Verdict.NOT_CONVERGED
        assert CliRunner().invoke(check, [str(place)], standalone_mode=False).return_value == 1


def test_one_run_of_five_may_miss_its_target(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "base" / "set", tmp_path / "set")
    for number, verdict in ((3, Verdict.VALID), (1, Verdict.NOT_CONVERGED)):
        path = tmp_path / "set" / f"result_{number}.txt"
        lines = [
            line
            for line in path.read_text().splitlines(keepends=True)
            if "checkpoint_sha256" not in line and "reference_accuracy" not in line
        ]
        path.write_text(
            "".join(lines)
            .replace('"status": "success"', '"status": "aborted"')
            .replace('"value": 0.77', '"value": 0.7')
        )
        assert judged(tmp_path / "set").verdict is verdict


def test_a_run_aborted_at_nan_may_have_no_accuracy(tmp_path: Path) -> None:
    path = aborted(tmp_path / "result_0.txt")
    path.write_text(path.read_text().replace('"value": 0.5,', '"value": null,'))
    assert judged(path).verdict is Verdict.NOT_CONVERGED


@pytest.mark.slow
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_damage_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Bytes flipped, files cut, members of documents replaced: findings, always."""
    root = tmp_path_factory.mktemp("damage") / "results"
    shutil.copytree(TREE, root)
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(paths))
        content = bytearray(path.read_bytes() or b" ")
        place = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "value"])):
            case "flip":
                content[place] ^= data.draw(st.integers(1, 255))
            case "cut":
                del content[place:]
            case "insert":
                content[place:place] = data.draw(st.binary(max_size=20))
            case _:
                content = damaged_value(content, data)
        path.write_bytes(content)
    json.dumps([finding.found for finding in judged(root).findings])


def damaged_value(content: bytearray, data: st.DataObject) -> bytearray:
    """Replace one JSON value by one of another type."""
    places = list(re.finditer(rb'(?<=": )("[^"]*"|[0-9.]+|null|true|false)', content))
    if not places:
        return content
    place = data.draw(st.sampled_from(places))
    content[place.start() : place.end()] = data.draw(
        st.sampled_from(
            [b"null", b"true", b"-1", b"1e308", b'"x"', b"[]", b"{}", b"[[1]]", b'{"a": {}}']
        )
    )
    return content
