"""Rules about published training logs, sets and systems: what accepted logs do raises no alarm, and
each limit is where the rules have it.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kinds.training import FIRST, LOW, MISSED, edit, flatten, rename, set_of, tree
from making_training import (
    ADAM,
    GNMT,
    LARS,
    LARS_V06,
    MASK,
    SSD,
    START_MS,
    Change,
    Record,
    describe,
    double,
    drop,
    later,
    move,
    new,
    old,
    older,
    put,
    run,
)

from compliance.judge import Judge
from compliance.kinds.training.documents.log import read_published_log
from compliance.kinds.training.round import load_training_round
from compliance.recognition.path_kind import PathKind, recognise_path
from compliance.verdict import About, PathJudgement, Severity, Verdict

V06 = {"settings": LARS_V06, "samples": False}


def judged(folder: Path, text: str, name: str = "result_0.txt") -> PathJudgement:
    (folder / name).write_text(text)
    return Judge().judge_path(str(folder / name))


def errors(result: PathJudgement) -> set[str]:
    return {finding.rule for finding in result.findings if finding.severity is Severity.ERROR}


def forms(result: PathJudgement) -> set[str]:
    """The rules that warn of the form."""
    return {
        finding.rule
        for finding in result.findings
        if finding.severity is Severity.WARNING and finding.about is About.FORM
    }


FORM_RULES = {
    *("file.record", "file.shape", "log.order", "log.paired", "log.epochs", "log.metadata"),
    *("log.clock", "org.fields", "org.folders", "org.described", "runs.flat"),
}
"""Rules whose findings here bear on the form alone: a warning in a published round."""


def changed(*changes: Change, **told: Any) -> list[Record]:
    records = run(**told)
    for change in changes:
        records = change(records)
    return records


# ---- what accepted logs do ----


@pytest.mark.parametrize(
    "records",
    [
        changed(drop("seed")),
        changed(put("cache_clear", value="true")),
        changed(put("cache_clear", value=None)),
        changed(
            double("cache_clear", later=5), double("init_start", later=900), double("init_start")
        ),
        changed(put("cache_clear", later=-50_000)),
        changed(double("global_batch_size"), double("submission_org")),
        changed(drop("block_start"), drop("block_stop"), epochs=True),
        changed(drop("epoch_stop", -1), epochs=True),
        changed(drop("eval_stop", -1)),
        changed(drop("eval_stop", -1), drop("block_stop", -1), drop("epoch_stop", -1), epochs=True),
        changed(drop("eval_start"), drop("eval_stop")),
        changed(move("submission_org", "run_stop"), move("submission_division", "run_stop")),
        changed(scores=(0.4, 0.5, 0.76), first=3),
        changed(scores=(0.4, 0.5, 0.76), every=3),
        changed(scores=(0.4, 0.76), first=1, every=4, epochs=True),
        changed(put("lars_opt_weight_decay", value=0.000025)),
        changed(put("lars_opt_momentum", value=0.95), put("global_batch_size", value=32768)),
        changed(put("submission_benchmark", value="ResNet50")),
        changed(drop("lars_epsilon"), put("lars_opt_weight_decay", value=0.3), division="open"),
    ],
)
def test_what_accepted_logs_do_is_no_error(tmp_path: Path, records: Sequence[Record]) -> None:
    """A false alarm on an accepted log is worse than a fault that is missed."""
    assert errors(judged(tmp_path, new(records))) == set()


def shifted(by: int) -> Change:
    """Count epochs from another number."""

    def change(records: list[Record]) -> list[Record]:
        fields = ("epoch_num", "first_epoch_num")
        told = [
            {key: value + by if key in fields else value for key, value in record.metadata.items()}
            for record in records
        ]
        return [
            Record(record.key, record.value, record.after_ms, metadata)
            for record, metadata in zip(records, told, strict=True)
        ]

    return change


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"epochs": True},
        {"benchmark": "gnmt", "settings": GNMT, "scores": (0.2, 0.2401), "every": 1},
    ],
)
def test_epochs_are_counted_from_0_or_1(tmp_path: Path, told: dict[str, Any]) -> None:
    assert errors(judged(tmp_path, new(shifted(-1)(run(**told))))) == set()
    assert errors(judged(tmp_path, new(shifted(5)(run(**told)))))


@pytest.mark.parametrize(
    ("benchmark", "settings", "scores", "every", "first"),
    [
        ("ssd", SSD, (0.19, 0.2301), 10, 40),
        ("ssd", SSD, (0.19, 0.2301), 10, 41),
        ("maskrcnn", MASK, ({"BBOX": 0.2, "SEGM": 0.2}, {"BBOX": 0.377, "SEGM": 0.339}), 1, None),
        ("gnmt", GNMT, (0.2, 0.2401), 1, None),
        ("transformer", ADAM, (0.2, 0.2501), 1, None),
    ],
)
def test_each_benchmark_has_a_run_that_is_valid(
    tmp_path: Path,
    benchmark: str,
    settings: dict[str, Any],
    scores: Sequence[Any],
    every: int,
    first: int | None,
) -> None:
    result = judged(tmp_path, new(run(benchmark, settings, scores, every=every, first=first)))
    assert (result.verdict, result.findings) == (Verdict.VALID, ())


def weighed(result: PathJudgement, *rules: str) -> list[tuple[str, str]]:
    """Give severity and rule of what was found, of these rules; errors of all."""
    return sorted(
        {
            (finding.severity.value, finding.rule)
            for finding in result.findings
            if finding.rule in rules or finding.severity is Severity.ERROR
        }
    )


def stopped_early(records: list[Record], behind: str, which: int) -> list[Record]:
    """Let run_stop come behind a record; what follows it keeps its time."""
    return move("run_stop", behind, which)(records)


@pytest.mark.parametrize(("benchmark", "settings"), [("ssd", SSD), ("resnet", LARS)])
@pytest.mark.parametrize("last", [0.1, 0.77])
def test_an_evaluation_in_flight_may_end_behind_the_run(
    tmp_path: Path, benchmark: str, settings: dict[str, object], last: float
) -> None:
    """Whatever it gives: the evaluation before it reached the target, and stopped the clock."""
    records = stopped_early(run(benchmark, settings, (0.2, 0.7601, last)), "block_start", 2)
    result = judged(tmp_path, new(records))
    assert (result.verdict, weighed(result, "log.after")) == (
        Verdict.VALID,
        [("warning", "log.after")],
    )


def test_the_evaluation_that_counts_does_not_end_behind_the_run(tmp_path: Path) -> None:
    """A clock that stops before the target is reached is no faster run."""
    for benchmark, settings in (("ssd", SSD), ("resnet", LARS)):
        records = stopped_early(run(benchmark, settings, (0.2, 0.7601)), "eval_start", 1)
        result = judged(tmp_path, new(records))
        assert errors(result) == {"log.target"}
        assert "log.after" in forms(result)


def test_a_result_may_be_told_right_behind_the_end_that_it_brought(tmp_path: Path) -> None:
    records = changed(put("eval_accuracy", 1, later=-1950), put("eval_stop", 1, later=-1950))
    result = judged(tmp_path, new(stopped_early(records, "eval_start", 1)))
    assert weighed(result, "log.after") == [("warning", "log.after")]


def test_blocks_and_epochs_that_begin_behind_the_run_were_begun_ahead(tmp_path: Path) -> None:
    records = run(scores=(0.42, 0.7601), epochs=True)
    end = records[-1].after_ms
    ahead = [
        Record("block_start", None, end + 5, {"first_epoch_num": 9, "epoch_count": 4}),
        Record("epoch_start", None, end + 6, {"epoch_num": 9}),
    ]
    last = next(record for record in reversed(records) if record.key == "block_stop")
    late = [
        *(record for record in records if record is not last),
        *ahead,
        replace(last, after_ms=end + 7),
    ]
    for text in (new([*records, *ahead]), new(late)):
        result = judged(tmp_path, text)
        assert (result.verdict, weighed(result, "log.after")) == (
            Verdict.VALID,
            [("warning", "log.after")],
        )


@pytest.mark.parametrize("what", ["epoch", "block"])
def test_training_behind_the_run_is_no_flight(tmp_path: Path, what: str) -> None:
    """What begins and ends there was trained there."""
    records = run(scores=(0.42, 0.7601), epochs=True)
    end = records[-1].after_ms
    number = {"first_epoch_num": 9} if what == "block" else {"epoch_num": 9}
    more = [
        Record(f"{what}_start", None, end + 5, {**number, "epoch_count": 4}),
        Record(f"{what}_stop", None, end + 9000, number),
    ]
    assert "log.after" in forms(judged(tmp_path, new([*records, *more])))


def test_the_last_blocks_may_stay_open_and_not_those_between(tmp_path: Path) -> None:
    scores = tuple(0.4 + index / 100 for index in range(9)) + (0.7601,)
    three = changed(*[drop("block_stop", -1)] * 3, scores=scores)
    result = judged(tmp_path, new(three))
    assert (result.verdict, weighed(result, "log.paired")) == (
        Verdict.VALID,
        [("warning", "log.paired")],
    )
    for records in (
        changed(*[drop("block_stop", 3)] * 3, scores=scores),
        changed(*[drop("block_stop", -1)] * 9, scores=scores),
    ):
        assert "log.paired" in forms(judged(tmp_path, new(records)))


def test_blocks_that_do_not_follow_one_another_are_form(tmp_path: Path) -> None:
    """31 after 25 of 5: loggers of accepted logs count one epoch more at times."""
    scores = tuple(0.4 + index / 100 for index in range(6)) + (0.7601,)
    for by in (1, 2, -2):
        records = []
        seen = 0
        for record in run(scores=scores):
            seen += record.key == "block_start"
            moved = record.key in ("block_start", "block_stop") and seen >= 4
            records.append(
                replace(
                    record,
                    metadata={
                        **record.metadata,
                        "first_epoch_num": record.metadata["first_epoch_num"] + by,
                    },
                )
                if moved
                else record
            )
        result = judged(tmp_path, new(records))
        assert result.verdict is Verdict.VALID, (by, result.findings)
        assert [finding for finding in result.findings if finding.rule == "log.epochs"]


def test_evaluations_may_be_numbered_one_from_their_start(tmp_path: Path) -> None:
    scores = (0.42, 0.5, 0.6, 0.7601)
    for keys, key, which in (
        (("eval_stop", "eval_accuracy"), None, None),
        (("eval_accuracy",), None, None),
        (("eval_stop",), "eval_stop", 1),
        (("eval_accuracy",), "eval_accuracy", 2),
    ):
        records, seen = [], 0
        for record in run(scores=scores):
            counted = record.key in keys
            moved = counted and (key is None or seen == which)
            seen += counted
            records.append(
                replace(record, metadata={"epoch_num": record.metadata["epoch_num"] + 1})
                if moved
                else record
            )
        result = judged(tmp_path, new(records))
        assert errors(result) <= {"log.schedule"}, "counted otherwise, one is late"
        assert "log.paired" in forms(result), (keys, which)


def test_a_missing_end_in_the_middle_is_no_other_numbering(tmp_path: Path) -> None:
    """Behind it each end is one from the start that it follows in number."""
    scores = (0.1, 0.2, 0.21, 0.22, 0.23, 0.2512)
    records = changed(
        drop("eval_stop", 1), benchmark="transformer", settings=ADAM, scores=scores, every=1
    )
    assert "log.paired" in forms(judged(tmp_path, new(records)))


def test_blocks_may_end_under_the_number_of_their_end(tmp_path: Path) -> None:
    """block_stop 2 for block_start 0 of 2 epochs."""
    records = []
    for record in run(scores=(0.3, 0.4, 0.7601), every=2):
        first = record.metadata.get("first_epoch_num")
        number = first if first is None else first - 1 if record.key == "block_start" else first + 1
        records.append(
            record
            if number is None
            else replace(record, metadata={**record.metadata, "first_epoch_num": number})
        )
    result = judged(tmp_path, new(records))
    assert (result.verdict, weighed(result, "log.paired")) == (
        Verdict.VALID,
        [("warning", "log.paired")],
    )


# ---- each round's own table ----


@pytest.mark.parametrize(
    ("write", "benchmark", "settings", "key", "value", "legal"),
    [
        (old, "resnet", LARS_V06, "lars_opt_end_learning_rate", 0.0, True),
        (new, "resnet", LARS, "lars_opt_end_learning_rate", 0.0, False),
        (old, "resnet", LARS_V06, "lars_opt_end_learning_rate", -0.1, False),
        (old, "resnet", LARS_V06, "lars_opt_learning_rate_decay_poly_power", 1.5, True),
        (new, "resnet", LARS, "lars_opt_learning_rate_decay_poly_power", 1.5, False),
        (old, "maskrcnn", MASK, "opt_base_learning_rate", 0.0875, True),
        (new, "maskrcnn", MASK, "opt_base_learning_rate", 0.0875, False),
        (old, "gnmt", GNMT, "opt_learning_rate_decay_factor", 0.4, False),
        (old, "transformer", ADAM, "opt_adam_epsilon", 1e-8, False),
        (new, "ssd", SSD, "opt_learning_rate_warmup_factor", 0.5, True),
        (new, "ssd", SSD, "opt_learning_rate_warmup_factor", -0.5, False),
    ],
)
def test_each_round_is_judged_by_its_own_table(
    tmp_path: Path,
    write: Callable[[list[Record]], str],
    benchmark: str,
    settings: dict[str, object],
    key: str,
    value: object,
    legal: bool,
) -> None:
    """v0.6's text fixes less than v0.7's; ten accepted logs of it end at a learning rate of 0."""
    score: object = {"BBOX": 0.378, "SEGM": 0.34} if benchmark == "maskrcnn" else 0.77
    records = run(benchmark, {**settings, key: value}, (score,), every=1, samples=write is new)
    assert ("log.legality" not in errors(judged(tmp_path, write(records)))) is legal


# ---- games ----


@pytest.mark.parametrize(
    ("last", "legal"), [(8192, True), (8191, False), (1, False), (None, False), ("many", False)]
)
def test_each_generation_has_its_games(tmp_path: Path, last: object, legal: bool) -> None:
    """The number is logged in each generation: the rule holds for all of them, and not for the
    first alone.
    """
    records = run("minigo", {"train_batch_size": 4096}, (0.3, 0.51), samples=False)
    told = [
        Record("actual_selfplay_games_per_generation", value, 1000) for value in (8192, 8200, last)
    ]
    assert (
        "log.legality" not in errors(judged(tmp_path, new([*records[:-1], *told, records[-1]])))
    ) is legal


def games(metadata: str) -> str:
    """A run of v0.6's games, without run_stop; the result's metadata as given."""
    records = [
        record
        for record in run("minigo", {"global_batch_size": 4096}, (0.3, 0.51), samples=False)
        if record.key != "run_stop"
    ]
    return (
        old(records) + f':::MLL {START_MS / 1000 + 9000} eval_result: {{"value": null, "metadata":'
        f" {metadata}}}\n"
    )


@pytest.mark.parametrize(
    "metadata",
    [
        '{"iteration": 2, "timestamp": 1200.0}',
        "{'iteration': 2, 'timestamp': 1200.0}",
        "\"{'iteration': 2, 'timestamp': 1200.0, 'file': None}\"",
        '{"iteration": 2, "timestamp": "1200.0"}',
    ],
)
def test_games_of_v06_have_no_run_stop_and_succeed_by_their_result(
    tmp_path: Path, metadata: str
) -> None:
    """Ten published runs were read as not converged, and had no score; some print their metadata as
    Python does.
    """
    result = judged(tmp_path, games(metadata))
    found = read_published_log(tmp_path / "result_0.txt", load_training_round("training-v0.6"))
    assert (found.minutes, found.status, found.reached) == (20.0, "success", True)
    assert weighed(result, "file.record", "log.converged", "log.present", "log.target") == []


@pytest.mark.parametrize(
    "metadata", ['{"iteration": 2, "timestamp": 0}', "{'iteration': 2, 'timestamp': 0}", "{}"]
)
def test_games_without_a_result_did_not_converge(tmp_path: Path, metadata: str) -> None:
    judged(tmp_path, games(metadata))
    assert not read_published_log(
        tmp_path / "result_0.txt", load_training_round("training-v0.6")
    ).succeeded


@pytest.mark.parametrize(
    "metadata",
    [
        "{'a': __import__('os')}",
        "{'a': (1,) * 9}",
        "{'a': " + "[" * 3000 + "]" * 3000 + "}",
        "{1: 2}",
        "{'a': 'b'",
        "{'a'}",
    ],
)
def test_what_is_no_plain_dict_is_no_metadata(tmp_path: Path, metadata: str) -> None:
    """Nothing that somebody wrote is run."""
    assert "file.record" in forms(judged(tmp_path, games(metadata)))


def test_v06_has_text_lists_and_percentages(tmp_path: Path) -> None:
    for benchmark, settings, scores in (
        ("transformer", ADAM, ("20.1", "25.1")),
        ("gnmt", GNMT, (20.1, 24.1)),
        ("mask", {key: MASK[key] for key in list(MASK)[:5]}, ([0.2, 0.2], [0.38, 0.34])),
        (
            "maskrcnn",
            {key: MASK[key] for key in list(MASK)[:5]},
            ({"accuracy": {"BBOX": 0.38, "SEGM": 0.34}},),
        ),
    ):
        assert (
            errors(judged(tmp_path, old(run(benchmark, settings, scores, every=1, samples=False))))
            == set()
        ), benchmark


@pytest.mark.parametrize("value", ["0.7601", [0.7601], {"accuracy": 0.7601}])
def test_v07_has_plain_numbers(tmp_path: Path, value: object) -> None:
    assert "log.accuracy" in errors(
        judged(tmp_path, new(changed(put("eval_accuracy", -1, value=value))))
    )


def test_a_log_in_seconds_is_of_v07(tmp_path: Path) -> None:
    result = judged(tmp_path, new(run(), time="time_s"))
    assert (result.round, result.verdict) == ("training-v0.7", Verdict.VALID)


def test_a_log_that_no_checker_could_read_is_spared_what_only_the_checker_asks(
    tmp_path: Path,
) -> None:
    """Accepted logs of one organisation have time_s: what is established of the others is not of
    them.
    """
    aborted = changed(MISSED, drop("eval_samples"))
    assert judged(tmp_path, new(aborted, time="time_s")).verdict is Verdict.NOT_CONVERGED
    assert judged(tmp_path, new(aborted)).verdict is Verdict.BROKEN


@pytest.mark.parametrize("change", [put("seed", value=5), lambda records: records])
def test_the_text_form_is_valid_with_a_warning(tmp_path: Path, change: object) -> None:
    result = judged(tmp_path, older())
    assert (result.round, result.verdict) == ("training-v0.6", Verdict.VALID)
    assert [finding.rule for finding in result.findings] == ["log.older"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (older(minutes=7.0), "log.total"),
        (older().replace("Total runtime", "Total time"), "log.total"),
        (older().replace("train_epoch:5", "train_epoch:6"), "log.epochs"),
        (older().replace("input_batch_size: 256", "input_batch_size: 0"), "log.batch"),
        (older().replace("input_batch_size: 256", "input_size: 256"), "log.present"),
        (older().replace("10:08:00], run_stop", "09:08:00], run_stop"), "log.span"),
        (older() + older(), "log.once"),
        (older((42.0, 43.0, 76.1)).replace('"epoch": 7', '"epoch": 9'), "log.schedule"),
    ],
)
def test_the_text_form_is_judged_as_far_as_it_goes(tmp_path: Path, text: str, rule: str) -> None:
    result = judged(tmp_path, text)
    assert rule in (forms(result) if rule in FORM_RULES else errors(result))


def test_the_text_form_of_a_run_that_missed_the_target_did_not_converge(tmp_path: Path) -> None:
    assert judged(tmp_path, older((42.0, 75.0))).verdict is Verdict.NOT_CONVERGED


# ---- limits ----


@pytest.mark.parametrize(("seconds", "holds"), [(1193.0, True), (1194.0, False)])
def test_initialisation_takes_20_minutes_at_most(
    tmp_path: Path, seconds: float, holds: bool
) -> None:
    """From init_start, at 2 s, to init_stop, at 9 s: the rest is added."""
    assert (
        "log.init"
        not in errors(judged(tmp_path, new(changed(later("init_stop", seconds * 1000 - 1.5)))))
    ) is holds


@pytest.mark.parametrize(("score", "holds"), [(0.759, True), (0.75899, False), (0.9999, True)])
def test_the_target_is_reached_at_itself(tmp_path: Path, score: float, holds: bool) -> None:
    assert (
        "log.target"
        not in errors(judged(tmp_path, new(changed(put("eval_accuracy", -1, value=score)))))
    ) is holds


@pytest.mark.parametrize(
    ("box", "mask", "holds"), [(0.377, 0.339, True), (0.3769, 0.4, False), (0.5, 0.3389, False)]
)
def test_both_targets_of_mask_rcnn_are_reached(
    tmp_path: Path, box: float, mask: float, holds: bool
) -> None:
    records = run("maskrcnn", MASK, ({"BBOX": box, "SEGM": mask},), every=1)
    assert ("log.target" not in errors(judged(tmp_path, new(records)))) is holds


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ("success", Verdict.BROKEN),
        ("aborted", Verdict.NOT_CONVERGED),
        ("abort", Verdict.NOT_CONVERGED),
        ("failed", Verdict.BROKEN),
    ],
)
def test_a_run_that_misses_the_target_did_not_converge_if_it_says_so(
    tmp_path: Path, status: str, verdict: Verdict
) -> None:
    assert (
        judged(tmp_path, new(changed(LOW, put("run_stop", metadata={"status": status})))).verdict
        is verdict
    )


@pytest.mark.parametrize("batch", [4096, 8192])
def test_berts_target_depends_on_its_batch(tmp_path: Path, batch: int) -> None:
    records = run("bert", {"global_batch_size": batch}, (0.5, 0.708))
    assert ("log.target" in errors(judged(tmp_path, new(records)))) is (batch < 8192)


@pytest.mark.parametrize(
    ("epochs", "holds"),
    [
        ((4, 8, 12), True),
        ((1, 5, 9), True),
        ((3, 7, 11), True),
        ((4, 9, 13), False),
        ((4, 12, 16), False),
        ((8, 12, 16), False),
        ((6, 10, 14), False),
    ],
)
def test_resnet_is_evaluated_every_four_epochs(
    tmp_path: Path, epochs: tuple[int, ...], holds: bool
) -> None:
    change = [
        put(key, index, metadata={"epoch_num": epoch})
        for index, epoch in enumerate(epochs)
        for key in ("eval_start", "eval_accuracy", "eval_stop")
    ]
    records = changed(*change, drop("block_start"), drop("block_stop"), scores=(0.4, 0.5, 0.76))
    records = records[:20] + [Record("epoch_start", None, 9100, {"epoch_num": 0})] + records[20:]
    assert ("log.schedule" not in errors(judged(tmp_path, new(records)))) is holds


@pytest.mark.parametrize(("open_ones", "holds"), [(1, True), (3, True), (4, False)])
def test_up_to_three_evaluations_may_be_in_flight(
    tmp_path: Path, open_ones: int, holds: bool
) -> None:
    gone = [drop(key, -1) for key in ("eval_accuracy", "eval_stop") for _ in range(open_ones)]
    records = changed(*gone, scores=(0.2, 0.3, 0.76, 0.5, 0.5, 0.5, 0.5)[: 3 + open_ones])
    assert ("log.paired" not in forms(judged(tmp_path, new(records)))) is holds


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ([put("run_stop", later=-120_000)], "log.span"),
        ([put("run_stop", after_ms=0)], "log.span"),
        ([put("run_start", after_ms=-START_MS)], "log.span"),
        ([put("eval_accuracy", -1, later=86_400_000)], "log.span"),
        ([put("init_stop", after_ms=100)], "log.order"),
        ([put("init_stop", after_ms=60_000)], "log.order"),
        ([put("init_start", after_ms=30_000)], "log.order"),
        ([move("init_start", "init_stop")], "log.order"),
        ([move("cache_clear", "block_start")], "log.cache"),
        ([drop("eval_accuracy"), drop("eval_stop")], "log.present"),
        ([double("init_stop", later=1)], "log.once"),
        ([double("eval_accuracy", 0)], "log.paired"),
        ([drop("eval_start", 0)], "log.paired"),
        ([drop("eval_stop")], "log.paired"),
        ([put("block_stop", metadata={"first_epoch_num": 9})], "log.paired"),
        ([put("block_start", 1, metadata={"first_epoch_num": 9})], "log.epochs"),
        ([put("eval_start", 1, metadata={"epoch_num": 4})], "log.epochs"),
        ([put("eval_accuracy", metadata={"epoch_num": "four"})], "log.metadata"),
        ([put("block_stop", metadata={"first_epoch_num": None})], "log.metadata"),
        ([put("submission_org", value=" ")], "log.identity"),
        ([put("submission_division", value="Closed-ish")], "log.names"),
        ([put("train_samples", value="many")], "log.samples"),
        ([put("global_batch_size", value="4096")], "log.batch"),
        ([put("global_batch_size", value=10**400)], "log.batch"),
        ([put("model_bn_span", value=5000), put("submission_division", value="open")], "log.batch"),
        ([put("lars_opt_momentum", value=None)], "log.legality"),
        ([put("lars_opt_momentum", value={"a": 1})], "log.legality"),
        ([move("global_batch_size", "run_stop")], "log.hyperparameters"),
        ([double("lars_epsilon", value=1e-5)], "log.constant"),
        ([put("eval_accuracy", value=-0.1)], "log.accuracy"),
        ([put("eval_accuracy", -1, value=1.0)], "log.accuracy"),
        ([put("eval_accuracy", -1, value=10**400)], "log.accuracy"),
        ([put("run_stop", metadata={"status": ["success"]})], "log.status"),
    ],
)
def test_one_change_breaks_the_rule_that_is_about_it(
    tmp_path: Path, changes: list[Change], rule: str
) -> None:
    result = judged(tmp_path, new(changed(*changes)))
    if rule in FORM_RULES:
        assert rule in forms(result)
        assert errors(result) <= {"log.schedule"}, "an epoch that was moved is evaluated late"
    else:
        assert rule in errors(result)
        assert result.verdict is Verdict.BROKEN
    assert all(finding.file.endswith("result_0.txt") for finding in result.findings)


@pytest.mark.parametrize("value", [False, "no", []])
def test_caches_that_were_not_cleared_are_a_warning(tmp_path: Path, value: object) -> None:
    result = judged(tmp_path, new(changed(put("cache_clear", value=value))))
    assert result.verdict is Verdict.VALID
    assert [(each.rule, each.severity) for each in result.findings] == [
        ("log.cache", Severity.WARNING)
    ]


@pytest.mark.parametrize(
    ("benchmark", "key", "value", "warned"),
    [
        ("resnet", "train_samples", "1281167", False),
        ("resnet", "train_samples", 1_281_024, True),
        ("resnet", "eval_samples", 5000, True),
        ("ssd", "eval_samples", 5000, False),
        ("maskrcnn", "train_samples", 117_266, False),
        ("maskrcnn", "eval_samples", 1, True),
        ("gnmt", "train_samples", 3_442_299, False),
        ("transformer", "eval_samples", 3000, True),
        ("bert", "eval_samples", 10_000, False),
    ],
)
def test_another_size_of_a_data_set_is_a_warning(
    tmp_path: Path, benchmark: str, key: str, value: object, warned: bool
) -> None:
    """Accepted logs tell other sizes, so that it must not break a result; what the rules leave open
    is not judged.
    """
    result = judged(tmp_path, new(put(key, value=value)(run(benchmark))))
    found = [finding.severity for finding in result.findings if finding.rule == "log.sizes"]
    assert found == [Severity.WARNING] * warned


def test_an_evaluation_of_an_epoch_that_was_not_trained(tmp_path: Path) -> None:
    change = [
        put(key, 0, metadata={"epoch_num": 6})
        for key in ("eval_start", "eval_accuracy", "eval_stop")
    ]
    assert "log.epochs" in forms(judged(tmp_path, new(changed(*change, epochs=True))))


def test_epochs_that_nobody_evaluated(tmp_path: Path) -> None:
    more = [
        Record(key, None, 10**6, {"epoch_num": epoch})
        for epoch in range(9, 18)
        for key in ("epoch_start", "epoch_stop")
    ]
    records = run(epochs=True)
    assert "log.schedule" in errors(
        judged(tmp_path, new([*records[:-1], *more, put("run_stop", after_ms=10**6)(records)[-1]]))
    )


# ---- rounds ----


@pytest.mark.parametrize(
    ("text", "other"), [(new(run()), "training-v0.6"), (old(run(**V06)), "training-v0.7")]
)
def test_a_log_of_another_round_is_told_apart(tmp_path: Path, text: str, other: str) -> None:
    (tmp_path / "result_0.txt").write_text(text)
    assert Judge().judge_path(str(tmp_path / "result_0.txt")).verdict is Verdict.VALID
    assert "log.dialect" in forms(Judge(other).judge_path(str(tmp_path / "result_0.txt")))


# ---- places ----


def home(tmp_path: Path, *then: Callable[[Path], object]) -> Path:
    tree(*then)(tmp_path)
    return tmp_path / "acme"


def test_every_path_of_a_tree_is_judged_as_what_it_is(tmp_path: Path) -> None:
    """A PATH inside a tree is judged with that tree's context."""
    place = home(tmp_path)
    for path, kind in (
        (place, PathKind.ORGANISATION),
        (place / "results/box", PathKind.SYSTEM),
        (place / "results/box/resnet", PathKind.BENCHMARK),
        (place / FIRST, PathKind.LOG),
        (place / "systems/box.json", PathKind.SYSTEM_FILE),
    ):
        assert recognise_path(path).kind is kind
        result = Judge().judge_path(str(path))
        assert (result.round, result.verdict, result.findings) == (
            "training-v0.7",
            Verdict.VALID,
            (),
        ), path


@pytest.mark.parametrize("name", ["", "results/box", "results/box/resnet", FIRST])
def test_a_fault_in_a_log_is_found_from_every_path_above_it(tmp_path: Path, name: str) -> None:
    place = home(
        tmp_path,
        edit(FIRST, '"submission_org", "value": "acme"', '"submission_org", "value": "NVIDIA"'),
    )
    assert "log.place" in errors(Judge().judge_path(str(place / name)))


@pytest.mark.parametrize("name", ["ACME", "Acme.", "ac me"])
def test_an_organisation_is_known_by_its_letters(tmp_path: Path, name: str) -> None:
    place = home(
        tmp_path,
        edit(FIRST, '"submission_org", "value": "acme"', f'"submission_org", "value": "{name}"'),
    )
    assert "log.place" not in errors(Judge().judge_path(str(place / FIRST)))


def test_a_log_of_another_benchmark_is_in_the_wrong_folder(tmp_path: Path) -> None:
    place = home(
        tmp_path,
        edit(
            FIRST,
            '"submission_benchmark", "value": "resnet"',
            '"submission_benchmark", "value": "ssd"',
        ),
    )
    assert "log.place" in errors(Judge().judge_path(str(place / FIRST)))


def test_a_log_of_another_division_than_its_system_is_told(tmp_path: Path) -> None:
    place = home(tmp_path, lambda where: describe(where, division="Open"))
    assert {"log.division", "org.division"} <= errors(Judge().judge_path(str(place)))
    assert "log.division" in errors(Judge().judge_path(str(place / FIRST)))


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        (lambda where: (where / "systems/box.json").write_text("{"), "file.record"),
        (lambda where: (where / "systems/box.json").write_text("[]"), "file.shape"),
        (lambda where: (where / "systems/box.json").write_text(""), "file.record"),
        (lambda where: describe(where, submitter="globex"), "org.description"),
        (lambda where: describe(where, submitter=...), "org.description"),
        (lambda where: describe(where, status="sold"), "org.description"),
        (lambda where: describe(where, system_name=" "), "org.description"),
        (lambda where: describe(where, division="ajar"), "org.description"),
        (lambda where: describe(where, number_of_nodes=...), "org.fields"),
        (lambda where: (where / "results/box/ssd").mkdir(), "org.folders"),
        (rename("systems/box.json", "systems/bax.json"), "org.described"),
        (flatten, "runs.flat"),
        (rename("results/box/resnet", "results/box/resnets"), "runs.benchmark"),
        (rename("results/box/resnet", "results/box/minigo"), "log.place"),
    ],
)
def test_one_change_of_a_tree_breaks_the_rule_that_is_about_it(
    tmp_path: Path, step: Callable[[Path], object], rule: str
) -> None:
    result = Judge("training-v0.7").judge_path(str(home(tmp_path, step)))
    assert rule in (forms(result) if rule in FORM_RULES else errors(result))


def test_a_description_of_v06_may_be_lines(tmp_path: Path) -> None:
    lines = {
        "org": "acme",
        "division": "closed",
        "status": "onprem",
        "platform": "1xbox",
        "entry": "{'hardware': 'box'}",
    }
    text = "".join(
        f"{key}: {json.dumps({'value': value, 'metadata': {}})}\n" for key, value in lines.items()
    )
    place = tmp_path / "acme"
    (place / "systems").mkdir(parents=True)
    folder = place / "results/box/resnet"
    folder.mkdir(parents=True)
    for number in range(5):
        scores = (0.4 + number / 999, 0.5 + number / 998, 0.76 + number / 997)
        (folder / f"result_{number}.txt").write_text(
            old(run(number=number, scores=scores, **V06), START_MS + number * 10**7)
        )
    (place / "systems/box.json").write_text(text)
    assert errors(Judge().judge_path(str(place))) == set()
    (place / "systems/box.json").write_text(text.replace('"acme"', '"globex"'))
    assert errors(Judge().judge_path(str(place))) == {"org.description"}
    (place / "systems/box.json").write_text(text.replace("status: ", "status "))
    assert "file.record" in forms(Judge().judge_path(str(place)))


# ---- sets ----


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ([], Verdict.VALID),
        ([1], Verdict.VALID),
        ([1, 2], Verdict.BROKEN),
        ([0, 1, 2, 3, 4], Verdict.BROKEN),
    ],
)
def test_one_run_of_a_set_may_fail_to_converge(
    tmp_path: Path, changes: list[int], verdict: Verdict
) -> None:
    set_of(*((which, change) for which in changes for change in (LOW, MISSED)))(tmp_path)
    assert Judge().judge_path(str(tmp_path)).verdict is verdict


@pytest.mark.parametrize("first", [0, 1])
def test_runs_are_numbered_from_0_or_1(tmp_path: Path, first: int) -> None:
    set_of(first=first)(tmp_path)
    assert Judge().judge_path(str(tmp_path)).findings == ()


@pytest.mark.parametrize("runs", [0, 1, 4, 6])
def test_a_set_has_as_many_runs_as_the_benchmark_asks_for(tmp_path: Path, runs: int) -> None:
    set_of(runs=runs)(tmp_path)
    assert Judge("training-v0.7").judge_path(str(tmp_path)).verdict is Verdict.BROKEN


def test_the_odd_run_out_is_named_whichever_it_is(tmp_path: Path) -> None:
    """Where the first run differs, not the four others are at fault."""
    set_of((0, put("global_batch_size", value=2048)))(tmp_path)
    found = [
        finding
        for finding in Judge().judge_path(str(tmp_path)).findings
        if finding.rule == "runs.hyperparameters"
    ]
    assert [Path(finding.file).name for finding in found] == ["result_0.txt"]
    assert "2048" in found[0].found
    assert found[0].line


def test_a_key_that_one_log_lacks_is_called_missing(tmp_path: Path) -> None:
    """And not "nothing" in quotes, which looks like a value."""
    set_of((0, drop("opt_name")))(tmp_path)
    [found] = [
        finding
        for finding in Judge().judge_path(str(tmp_path)).findings
        if finding.rule == "runs.hyperparameters"
    ]
    assert found.found == "opt_name is missing"
    assert found.required.endswith(", as in result_1.txt")


def test_a_seed_that_is_not_logged_is_not_missed(tmp_path: Path) -> None:
    set_of(*((number, drop("seed")) for number in range(5)))(tmp_path)
    assert Judge().judge_path(str(tmp_path)).findings == ()


def test_a_copy_is_found_by_its_results_whatever_was_done_to_its_clock(tmp_path: Path) -> None:
    set_of()(tmp_path)
    text = new(
        run(number=1, scores=(0.42 + 1 / 1000, 0.55 + 1 / 999, 0.7601 + 1 / 1000)), START_MS + 10**9
    )
    (tmp_path / "result_2.txt").write_text(
        text.replace('"value": 101', '"value": 777').replace("21", "22")
    )
    assert "runs.distinct" in errors(Judge().judge_path(str(tmp_path)))


def test_a_set_that_holds_a_file_that_is_no_log_is_broken(tmp_path: Path) -> None:
    set_of()(tmp_path)
    (tmp_path / "result_3.txt").write_text("Epoch 1\n")
    result = Judge().judge_path(str(tmp_path))
    assert "file.readable" in errors(result)
    assert "runs.hyperparameters" not in errors(result)


def test_sets_outside_a_tree_are_judged_one_by_one(tmp_path: Path) -> None:
    for name in ("resnet", "other"):
        (tmp_path / "box" / name).mkdir(parents=True)
        set_of()(tmp_path / "box" / name)
    assert Judge().judge_path(str(tmp_path / "box")).verdict is Verdict.VALID
    (tmp_path / "box/other/result_0.txt").unlink()
    assert errors(Judge().judge_path(str(tmp_path / "box"))) == {"runs.count"}


# ---- forms that other organisations' logs may have ----


def test_a_log_of_v06_with_names_of_its_own_is_only_warned(tmp_path: Path) -> None:
    """Where most is missing, a log follows another convention; where one thing is missing, it was
    taken out.
    """
    own = changed(*(drop(key) for key in list(LARS_V06)[1:]), **V06)
    assert errors(judged(tmp_path, old(own))) == set()
    assert errors(judged(tmp_path, old(changed(drop("lars_epsilon"), **V06)))) == {
        "log.hyperparameters"
    }
    assert errors(judged(tmp_path, new(changed(*(drop(key) for key in list(LARS)[1:]))))) == {
        "log.hyperparameters"
    }
    nameless = changed(
        *(drop(f"submission_{name}") for name in ("org", "status", "platform")), **V06
    )
    assert errors(judged(tmp_path, old(nameless))) == set()


def test_lines_of_other_processes_may_be_written_late_if_they_say_when_they_happened(
    tmp_path: Path,
) -> None:
    """v0.6 has logs of hundreds of processes, whose lines come when their buffers are full."""
    late = changed(double("init_start"), move("init_start", "run_start", keep_time=True), **V06)
    assert errors(judged(tmp_path, old(late))) == set()
    assert "log.order" in forms(
        judged(tmp_path, old(changed(double("init_start"), move("init_start", "run_start"), **V06)))
    )


@pytest.mark.parametrize(
    ("submitter", "holds"),
    [
        ("Acme", True),
        ("ACME Corporation", True),
        ("A C M E", True),
        ("Advanced Chip Makers of Earth", True),
        ("Globex", False),
    ],
)
def test_a_submitter_is_known_by_a_longer_name_and_by_initials(
    tmp_path: Path, submitter: str, holds: bool
) -> None:
    place = home(tmp_path, lambda where: describe(where, submitter=submitter))
    assert ("org.description" not in errors(Judge().judge_path(str(place)))) is holds


@pytest.mark.parametrize(
    "status",
    [
        "on-premise",
        "Available on-premise",
        "available",
        "Cloud",
        "research",
        "Research, Development, or Internal",
        "preview",
    ],
)
def test_a_status_may_be_said_in_other_words(tmp_path: Path, status: str) -> None:
    assert (
        errors(
            Judge().judge_path(str(home(tmp_path, lambda where: describe(where, status=status))))
        )
        == set()
    )


def test_a_description_may_differ_from_its_folder_in_case_and_punctuation(tmp_path: Path) -> None:
    assert (
        errors(
            Judge().judge_path(str(home(tmp_path, rename("systems/box.json", "systems/Bo-x.json"))))
        )
        == set()
    )


def test_a_description_of_another_form_is_only_warned(tmp_path: Path) -> None:
    told = {
        "submitter": "acme",
        "division": "closed",
        "status": "onprem",
        "system_name": "box",
        "hardware": "chips",
    }
    place = home(tmp_path, lambda where: (where / "systems/box.json").write_text(json.dumps(told)))
    assert errors(Judge().judge_path(str(place))) == set()


@pytest.mark.parametrize(
    "records",
    [
        run(
            "bert",
            {"global_batch_size": 512, "opt_base_learning_rate": 0.001},
            (0.5, 0.7121),
            every=500_000,
            division="open",
        ),
        run(
            "dlrm",
            {"global_batch_size": 65536, "opt_base_learning_rate": 24.0},
            (0.79, 0.8026),
            division="open",
        ),
        run("minigo", {"train_batch_size": 4096}, (0.5, 0.3), samples=False, division="open"),
        run("minigo", {"train_batch_size": 4096}, (1.0,), samples=False, division="open"),
    ],
)
def test_benchmarks_that_count_no_epochs_are_judged_by_target_and_clock(
    tmp_path: Path, records: list[Record]
) -> None:
    assert errors(judged(tmp_path, new(records))) == set()
    assert "log.span" in errors(judged(tmp_path, new(put("run_stop", after_ms=0)(records))))
    assert errors(
        judged(
            tmp_path,
            new(put("eval_accuracy", -1, value=0.1)(put("eval_accuracy", 0, value=0.1)(records))),
        )
    ) == {"log.target"}


def test_evaluations_without_a_place_are_told_also_where_epochs_are_not_counted(
    tmp_path: Path,
) -> None:
    records = run("dlrm", {"global_batch_size": 65536}, (0.79, 0.8026), division="open")
    bare = [
        (
            Record(record.key, record.value, record.after_ms)
            if record.key == "eval_accuracy"
            else record
        )
        for record in records
    ]
    assert "log.metadata" in forms(judged(tmp_path, new(bare)))
