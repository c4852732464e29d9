"""What somebody might change in a good result so that it looks better, and what may go wrong with
its files.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import making
from making import SHA256
from spoiling import SYSTEM, first_answer, no_first_answer, put, relabelled, remove, set_value, swap
from system_records import put_system

from suite.files.layout import (
    ACCURACY_LOG,
    DETAIL_LOG,
    SUMMARY_LOG,
    compute_bound_seed,
    compute_file_sha256,
)
from suite.loadgen.scenario import Scenario

LOG, PERFORMANCE, ACCURATE = "**/resnet/result_0.txt", "**/performance/run_1", "**/accuracy"
MEASURED = "**/*_podium_SingleStream.json"
SUMMED = f"{PERFORMANCE}/{SUMMARY_LOG}"


def find_one(tree: Path, pattern: str) -> Path:
    """Find the one file of a pattern."""
    found = sorted(tree.glob(pattern))
    assert len(found) == 1, (pattern, found)
    return found[0]


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
"""What was done, to which file, how, and the rule that finds it."""
