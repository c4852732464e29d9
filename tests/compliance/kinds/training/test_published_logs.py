"""The parser of published training logs: every dialect, every quirk of accepted logs, and whatever
else a file may hold.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from making_training import (
    ADAM,
    GNMT,
    LARS_V06,
    MASK,
    SSD,
    START_MS,
    Record,
    double,
    drop,
    later,
    new,
    old,
    older,
    put,
    run,
)

from compliance.kinds.training.documents import retention
from compliance.kinds.training.documents.log import (
    PublishedLog,
    parse_evaluations,
    read_published_log,
    read_published_set,
)
from compliance.kinds.training.documents.values import parse_published_scores
from compliance.kinds.training.logs.published import (
    Dialect,
    PublishedRecord,
    read_published_records,
)
from compliance.kinds.training.round import load_training_round
from compliance.logs.finite_numbers import parse_finite_number
from compliance.logs.line_numbers import LineNumbers
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import ParseErrorKind, SourceFile

V06, V07 = "training-v0.6", "training-v0.7"
LINE = ':::MLLOG {"time_ms": 1594210618449, "key": "seed", "value": 7, "metadata": {"lineno": 3}}'


def written(folder: Path, text: str | bytes, name: str = "result_0.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)
    return path


def parsed(folder: Path, text: str | bytes) -> tuple[list[PublishedRecord], SourceFile]:
    source = SourceFile(written(folder, text))
    return list(read_published_records(source)), source


def flaws(source: SourceFile) -> list[tuple[ParseErrorKind, int | None]]:
    """Those that weigh."""
    return [
        (flaw.kind, flaw.line) for flaw in source.parse_errors if flaw.kind not in source.leniency
    ]


def log(folder: Path, text: str, round_name: str = V07) -> PublishedLog:
    return read_published_log(written(folder, text), load_training_round(round_name))


# ---- records ----


def test_both_dialects_and_the_text_form_give_the_same_kind_of_record(tmp_path: Path) -> None:
    """Rules must not have to know who wrote a log."""
    texts = {
        Dialect.MLL: old([Record("seed", 7)]),
        Dialect.MLLOG: new([Record("seed", 7)]),
        Dialect.SECONDS: new([Record("seed", 7)], time="time_s"),
    }
    for dialect, text in texts.items():
        [entry], source = parsed(tmp_path, text)
        assert (entry.key, entry.value, entry.time_ns, entry.dialect) == (
            "seed",
            7,
            START_MS * 1_000_000,
            dialect,
        )
        assert flaws(source) == []


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        LINE + "\r",
        LINE + "\r 73%|#####  | 12/16 [00:01<00:00]",
        "[1,0]<stdout>:" + LINE,
        "Binding: ['numactl', '--physcpubind=0-4'] " + LINE,
        " 10%|#    | 1/10\r 20%|##   | 2/10\r" + LINE,
        "warning: the rescale_grad is not n" + LINE,
        LINE.replace(
            '"time_ms"', '"namespace": "worker0", "event_type": "POINT_IN_TIME", "time_ms"'
        ),
        ':::MLLOG {"metadata": {"lineno": 3}, "value": 7, "key": "seed", "time_ms": 1594210618449}',
        ':::MLLOG {"key":"seed","value":7,"time_ms":1594210618449,"metadata":{"lineno":3}}',
        LINE.replace("1594210618449", "1594210618449.0"),
        LINE.replace('"lineno": 3', '"note": "a \\": inside"'),
        LINE.replace('"lineno": 3', '"file": "caf\\u00e9"'),
    ],
)
def test_a_record_is_read_wherever_it_stands_on_its_line(tmp_path: Path, line: str) -> None:
    """Accepted logs have launchers' marks, progress bars and halves of warnings around their
    records.
    """
    [entry], source = parsed(tmp_path, f"first line\n{line}\nlast line\n")
    assert (entry.key, entry.value, entry.line, entry.time_ns) == (
        "seed",
        7,
        2,
        1594210618449 * 1_000_000,
    )
    assert flaws(source) == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (LINE[:-1], ParseErrorKind.RECORD),
        (LINE[:-30], ParseErrorKind.RECORD),
        (LINE + " and more", ParseErrorKind.RECORD),
        (LINE + LINE, ParseErrorKind.GLUED),
        (LINE + " " + LINE, ParseErrorKind.GLUED),
        (":::MLLOG " + LINE, ParseErrorKind.GLUED),
        (LINE.replace("7", '":::MLLOG {}"'), ParseErrorKind.GLUED),
        (LINE.replace("7", "NaN"), ParseErrorKind.NUMBER),
        (LINE.replace("7", "-Infinity"), ParseErrorKind.NUMBER),
        (LINE.replace('"value": 7', '"value": 7, "value": 8'), ParseErrorKind.DUPLICATE),
        (LINE.replace('"lineno": 3', '"lineno": 3, "lineno": 4'), ParseErrorKind.DUPLICATE),
        (LINE.replace('"value": 7', '"value": {"a": 1, "a": 2}'), ParseErrorKind.DUPLICATE),
        (LINE.replace('"value": 7, ', ""), ParseErrorKind.SHAPE),
        (LINE.replace(', "metadata": {"lineno": 3}', ""), ParseErrorKind.SHAPE),
        (LINE.replace('{"lineno": 3}', "[]"), ParseErrorKind.SHAPE),
        (LINE.replace('{"lineno": 3}', "null"), ParseErrorKind.SHAPE),
        (LINE.replace('"time_ms": 1594210618449, ', ""), ParseErrorKind.SHAPE),
        (LINE.replace("1594210618449", '"1594210618449"'), ParseErrorKind.SHAPE),
        (LINE.replace("1594210618449", "-5"), ParseErrorKind.SHAPE),
        (LINE.replace("1594210618449", "1e300"), ParseErrorKind.SHAPE),
        (LINE.replace("1594210618449", "true"), ParseErrorKind.SHAPE),
        (LINE.replace("1594210618449", "9" * 400), ParseErrorKind.SHAPE),
        (LINE.replace('"seed"', "null"), ParseErrorKind.SHAPE),
        (LINE.replace('"seed"', '""'), ParseErrorKind.SHAPE),
        (LINE.replace('"key": "seed", ', ""), ParseErrorKind.SHAPE),
        (":::MLLOG [1, 2]", ParseErrorKind.RECORD),
        (":::MLLOG 7", ParseErrorKind.RECORD),
        (":::MLLOG ", ParseErrorKind.RECORD),
        (":::MLLOG", ParseErrorKind.RECORD),
        (":::MLLX 1.0 seed: {}", ParseErrorKind.RECORD),
        (LINE.replace("7", "[" * 5000 + "]" * 5000), ParseErrorKind.RECORD),
        (LINE.replace("7", "[" * 201 + "]" * 201), ParseErrorKind.RECORD),
        (LINE[:30] + "\x00\x01" + LINE[32:], ParseErrorKind.RECORD),
        (':::MLL x seed: {"value": 7, "metadata": {}}', ParseErrorKind.RECORD),
        (':::MLL 1.0 seed {"value": 7, "metadata": {}}', ParseErrorKind.RECORD),
        (':::MLL nan seed: {"value": 7, "metadata": {}}', ParseErrorKind.RECORD),
        (':::MLL -1.0 seed: {"value": 7, "metadata": {}}', ParseErrorKind.RECORD),
        (':::MLL 1e99 seed: {"value": 7, "metadata": {}}', ParseErrorKind.RECORD),
        (':::MLL 1.0 : {"value": 7, "metadata": {}}', ParseErrorKind.RECORD),
        (':::MLL 1.0 se ed: {"value": 7, "metadata": {}}', ParseErrorKind.RECORD),
        (':::MLL 1.0 seed: {"metadata": {}}', ParseErrorKind.SHAPE),
        (':::MLL 1.0 seed: {"value": 7}', ParseErrorKind.SHAPE),
    ],
)
def test_a_record_that_is_none_is_a_flaw_of_its_line(
    tmp_path: Path, line: str, kind: ParseErrorKind
) -> None:
    """The official checker drops such records unseen, or ends with a traceback."""
    _, source = parsed(tmp_path, f"noise\n{LINE}\n{line}\n{LINE}\n")
    assert (kind, 3) in flaws(source)
    assert {number for _, number in flaws(source)} == {3}


def test_a_loss_that_is_no_number_on_the_way_does_not_weigh(tmp_path: Path) -> None:
    """No rules text asks for it, and the library that writes it prints NaN; where it is the result,
    it weighs.
    """
    stats = LINE.replace(
        '"seed", "value": 7', '"tracked_stats", "value": {"loss": NaN, "throughput": 3.5}'
    )
    accuracy = LINE.replace('"seed", "value": 7', '"eval_accuracy", "value": NaN')
    found, source = parsed(tmp_path, f"{stats}\n{accuracy}\n{LINE}\n")
    assert [entry.key for entry in found] == ["tracked_stats", "eval_accuracy", "seed"]
    assert flaws(source) == [(ParseErrorKind.NUMBER, 2)]


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        (LINE.replace('"seed", "value": 7', '"grad_norm", "value": NaN'), []),
        (LINE.replace('"seed", "value": 7', '"my_metric", "value": [1, {"a": Infinity}]'), []),
        (
            LINE.replace('"seed", "value": 7', '"eval_accuracy", "value": 0.7').replace(
                '"metadata": {', '"metadata": {"loss": NaN, '
            ),
            [],
        ),
        (
            LINE.replace('"seed", "value": 7', '"eval_accuracy", "value": 0.7').replace(
                '"metadata": {', '"metadata": {"epoch_num": NaN, '
            ),
            [ParseErrorKind.NUMBER],
        ),
        (
            LINE.replace('"seed", "value": 7', '"eval_accuracy", "value": [0.7, NaN]'),
            [ParseErrorKind.NUMBER],
        ),
        (LINE.replace('"value": 7', '"value": -Infinity'), [ParseErrorKind.NUMBER]),
    ],
)
def test_a_number_that_is_none_weighs_where_a_rule_reads_it(
    tmp_path: Path, line: str, kinds: list[ParseErrorKind]
) -> None:
    """A submitter's own records may hold anything; a result, a setting or its place in training may
    not.
    """
    _, source = parsed(tmp_path, f"{line}\n{LINE}\n")
    assert [kind for kind, _ in flaws(source)] == kinds


def test_many_numbers_that_are_none_are_not_told_as_broken_records(tmp_path: Path) -> None:
    """Of a hundred flaws of a kind on, the rest is only counted."""
    _, source = parsed(tmp_path, (LINE.replace('"value": 7', '"value": NaN') + "\n") * 150)
    assert {flaw.kind for flaw in source.parse_errors} == {ParseErrorKind.NUMBER}
    assert source.counts[ParseErrorKind.NUMBER] == 150


def test_glued_records_are_all_read(tmp_path: Path) -> None:
    """A record behind another one counts: the official parser keeps the last alone."""
    entries, _ = parsed(
        tmp_path, LINE + LINE.replace("7", "8") + " :::MLLOG " + LINE.replace("7", "9") + "\n"
    )
    assert [entry.value for entry in entries] == [7, 8, 9]


def test_a_good_record_behind_broken_ones_of_its_line_is_read(tmp_path: Path) -> None:
    """A record that another process cut off must not hide the next one."""
    entries, source = parsed(tmp_path, ':::MLLOG {"time_ms": 15:::MLLOG :::MLL {"a' + LINE + "\n")
    assert [entry.key for entry in entries] == ["seed"]
    assert (ParseErrorKind.GLUED, 1) in flaws(source)


def test_garbage_costs_no_look_for_each_of_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few MB of marks must not take minutes: lines are looked for where a flaw is kept, and of a
    line only so many records.
    """
    looks: list[int] = []
    monkeypatch.setattr(
        LineNumbers, "find_record_line", lambda self, order: looks.append(order) or 1
    )
    _, source = parsed(
        tmp_path, ":::MLLOG \n" * 500 + ":::MLLOG {" * 4 * mllog_lines.MAX_CONCATENATED_RECORDS
    )
    assert (
        len(looks)
        == len(
            [flaw for flaw in source.parse_errors if flaw.line and flaw.kind not in source.leniency]
        )
        < 200
    )
    assert f"{mllog_lines.MAX_CONCATENATED_RECORDS} records on a line" in next(
        flaw.found for flaw in source.parse_errors if flaw.kind is ParseErrorKind.GLUED
    )


def test_one_line_in_another_form_does_not_change_how_the_others_are_read(tmp_path: Path) -> None:
    """Blocks are decoded at once; what does not fit is read line by line."""
    lines = [LINE.replace("7", str(index)) for index in range(50)]
    lines[20] = "[1,3]<stdout>:" + lines[20] + "\r"
    lines[30] = lines[30].replace('"key"', '"unknown_field": [1], "key"')
    entries, source = parsed(tmp_path, "\n".join(lines) + "\n")
    assert [(entry.line, entry.value) for entry in entries] == [
        (index + 1, index) for index in range(50)
    ]
    assert flaws(source) == []


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
def test_line_numbers_are_those_of_the_file_whatever_is_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(mllog_lines, "MLLOG_CHUNK_BYTES", size)
    entries, source = parsed(tmp_path, f"\n\n{LINE}\nnoise\r\n{LINE}\n\n\n{LINE}")
    assert [entry.line for entry in entries] == [3, 5, 8]
    assert [(flaw.kind, flaw.line) for flaw in source.parse_errors] == [(ParseErrorKind.CUT, 8)]


def test_bytes_that_are_no_text_are_told_and_do_not_weigh(tmp_path: Path) -> None:
    entries, source = parsed(tmp_path, b"caf\xe9 \x00\n" + LINE.encode() + b"\n\xff\xfe\n")
    assert len(entries) == 1
    assert flaws(source) == []
    assert [(flaw.kind, flaw.line) for flaw in source.parse_errors] == [
        (ParseErrorKind.ENCODING, 1)
    ]


@pytest.mark.parametrize(
    "text", ["", "\n", "Epoch 1\n" * 50, LINE.encode("utf-16"), bytes(range(256)) * 50]
)
def test_a_file_without_a_record_has_none(tmp_path: Path, text: str | bytes) -> None:
    entries, _ = parsed(tmp_path, text)
    assert entries == []


@pytest.mark.parametrize(
    "make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to(path), lambda path: None]
)
def test_what_cannot_be_read_is_a_flaw(tmp_path: Path, make: object) -> None:
    """A folder, a pipe, a loop of links, and nothing at all."""
    path = tmp_path / "result_0.txt"
    make(path)  # type: ignore[operator]
    source = SourceFile(path)
    assert list(read_published_records(source)) == []
    assert source.has_parse_error(ParseErrorKind.UNREADABLE, ParseErrorKind.MISSING)


# ---- the text form ----


def test_the_text_form_names_what_later_rounds_name(tmp_path: Path) -> None:
    found = log(tmp_path, older(), V06)
    assert found.benchmark == "resnet"
    assert found.minutes == 8.0
    assert found.succeeded
    assert found.reached
    assert [each.epoch for each in found.evaluations] == [3, 7]
    assert found.evaluations[-1].scores == {"top1": pytest.approx(0.761)}
    assert found.epochs["epoch_start"] == list(range(8))
    assert found.find_value("input_batch_size") == 256
    assert flaws(found.source) == []


@pytest.mark.parametrize(
    "text",
    [
        older().replace("42.00000%", "many"),
        older().replace("8.000000 minutes", "a while"),
        older().replace("06/01/19", "06/31/19"),
    ],
)
def test_values_of_the_text_form_that_cannot_be_read_are_flaws(tmp_path: Path, text: str) -> None:
    assert flaws(log(tmp_path, text, V06).source)


def test_processes_that_write_over_one_another_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    """One accepted log has two marks on a line, of which the first was cut off."""
    mark = "MLPerf: resnet [06/01/19 10:00:00]"
    entries, source = parsed(tmp_path, f"{mark}{mark}, run_start\n{mark}, eval_offset: 3\n")
    assert [entry.key for entry in entries] == ["submission_benchmark", "run_start", "eval_offset"]
    assert flaws(source) == []


# ---- documents ----


@pytest.mark.parametrize(
    ("value", "metrics", "scores"),
    [
        (0.76, ("top1",), (0.76,)),
        ("25.74", ("bleu",), (25.74,)),
        ([0.38, 0.34], ("box", "mask"), (0.38, 0.34)),
        ({"BBOX": 0.38, "SEGM": 0.34}, ("box", "mask"), (0.38, 0.34)),
        ({"accuracy": {"BBOX": 0.38, "SEGM": 0.34}}, ("box", "mask"), (0.38, 0.34)),
        ({"BBOX": 0.38}, ("box", "mask"), (0.38, None)),
        ([0.38], ("box", "mask"), (None, None)),
        (0.38, ("box", "mask"), (None, None)),
        ([0.38], ("top1",), (None,)),
        ({"top5": 0.9}, ("top1",), (None,)),
        (True, ("top1",), (None,)),
        (None, ("top1",), (None,)),
        ("good", ("top1",), (None,)),
        ("nan", ("top1",), (None,)),
        (1e300, ("top1",), (None,)),
        (10**400, ("top1",), (None,)),
        ({"accuracy": [1]}, ("box", "mask"), (None, None)),
    ],
)
def test_accuracies_are_read_in_every_form_that_accepted_logs_have(
    value: object, metrics: Sequence[str], scores: Sequence[float | None]
) -> None:
    keys = {"box": "BBOX", "mask": "SEGM"}
    assert (
        tuple(
            parse_published_scores(
                value, {metric: keys.get(metric, "") for metric in metrics}
            ).values()
        )
        == scores
    )


def test_bleu_is_a_share_whichever_unit_the_log_has(tmp_path: Path) -> None:
    """v0.6 has 0-100, and a first evaluation below 1 is no share of 1."""
    row = load_training_round(V06).benchmarks["transformer"]
    records, _ = parsed(
        tmp_path, old([Record("eval_accuracy", 0.6), Record("eval_accuracy", "25.1")])
    )
    assert [each.scores["bleu"] for each in parse_evaluations(records, row)] == [
        pytest.approx(0.006),
        pytest.approx(0.251),
    ]
    assert [each.scores["bleu"] for each in parse_evaluations(records[:1], row)] == [0.6]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (3, 3.0),
        ("3.5", 3.5),
        (True, None),
        ("", None),
        (None, None),
        ([3], None),
        (float("inf"), None),
    ],
)
def test_numbers_are_finite(value: object, told: float | None) -> None:
    assert parse_finite_number(value) == told


def test_minutes_are_those_of_the_clock(tmp_path: Path) -> None:
    records = run()
    found = log(tmp_path, new(records))
    span_ms = (
        records[-1].after_ms
        - next(record for record in records if record.key == "run_start").after_ms
    )
    assert found.minutes == pytest.approx(span_ms / 60_000)
    assert log(tmp_path, new(later("run_stop", 60_000)(records))).minutes == pytest.approx(
        span_ms / 60_000 + 1
    )


@pytest.mark.parametrize(
    "change",
    [
        drop("run_start"),
        drop("run_stop"),
        put("run_stop", after_ms=0),
        put("run_start", after_ms=10**9),
    ],
)
def test_minutes_that_cannot_be_computed_are_none(tmp_path: Path, change: object) -> None:
    assert log(tmp_path, new(change(run()))).minutes is None  # type: ignore[operator]


def test_minigo_of_v06_ends_where_its_result_says(tmp_path: Path) -> None:
    """Its evaluations come after the clock: the score is the time of the first model that wins."""
    records = [
        *run("minigo", {}, samples=False),
        Record("eval_result", None, 10**6, {"iteration": 3, "timestamp": 1200.0}),
    ]
    assert log(tmp_path, old(records), V06).minutes == 20.0
    lost = Record("eval_result", None, 9 * 10**5, {"iteration": 2, "timestamp": 600.0})
    assert log(tmp_path, old([*records[:-1], lost, records[-1]]), V06).minutes == 20.0
    won = Record("eval_result", 0.6, 9 * 10**5, {"iteration": 2, "timestamp": 900.0})
    assert log(tmp_path, old([*records[:-1], lost, won, records[-1]]), V06).minutes == 15.0
    assert log(tmp_path, old(records[:-1]), V06).minutes == pytest.approx(2.067, abs=0.01)


@pytest.mark.parametrize(
    ("benchmark", "settings", "scores"),
    [
        ("transformer", ADAM, (0.21, 0.2501)),
        ("ssd", SSD, (0.2, 0.2301)),
        ("gnmt", GNMT, (0.2, 0.2401)),
        ("maskrcnn", MASK, ({"BBOX": 0.377, "SEGM": 0.339},)),
    ],
)
def test_the_target_is_reached_in_the_last_evaluation(
    tmp_path: Path, benchmark: str, settings: dict[str, object], scores: Sequence[object]
) -> None:
    found = log(tmp_path, new(run(benchmark, settings, scores, every=1)))
    assert (found.benchmark, found.reached, found.succeeded) == (benchmark, True, True)
    assert not log(tmp_path, new(run(benchmark, settings, [*scores, 0.1], every=1))).reached


def test_a_header_may_stand_at_the_end_and_without_a_clock(tmp_path: Path) -> None:
    """Logs of one organisation name benchmark and division in their last lines, at time 0."""
    records = run()
    header, rest = records[:5], records[5:]
    text = new(rest) + new([Record(record.key, record.value) for record in header], start_ms=0)
    found = log(tmp_path, text)
    assert (found.benchmark, found.division, found.closed) == ("resnet", "closed", True)
    assert found.find_value("submission_org") == "acme"


def test_the_folder_names_the_benchmark_of_a_log_that_does_not(tmp_path: Path) -> None:
    folder = tmp_path / "mask"
    folder.mkdir()
    assert (
        log(folder, old(drop("submission_benchmark")(run("x", LARS_V06))), V06).benchmark
        == "maskrcnn"
    )
    assert (
        log(tmp_path, old(drop("submission_benchmark")(run("x", LARS_V06))), V06).benchmark is None
    )


def test_events_that_repeat_without_end_are_counted_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of a gigabyte must not need a gigabyte of memory."""
    monkeypatch.setattr(retention, "MAX_REPEATED_RECORDS", 10)
    records = run()
    many = [
        *records,
        *(Record("tracked_stats", number, 9500) for number in range(100)),
        *(Record("max_samples", 1, 9500) for _ in range(100)),
    ]
    found = log(tmp_path, new([*many, Record("max_samples", 2, 9500)]))
    assert (len(found.list_records("tracked_stats")), found.counts["tracked_stats"]) == (20, 100)
    assert (len(found.list_records("max_samples")), found.counts["max_samples"]) == (11, 101)
    assert found.list_records("max_samples")[-1].value == 2


def test_a_run_with_more_events_than_any_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "MAX_RUN_EVENTS", 5)
    assert (ParseErrorKind.RECORD, None) in flaws(log(tmp_path, new(run())).source)


def test_a_set_is_read_by_number_and_its_other_files_are_noted(tmp_path: Path) -> None:
    for name in (
        "result_10.txt",
        "result_2.txt",
        "result_1.txt",
        "result_3.txt.partial",
        "notes.md",
        ".hidden",
    ):
        (tmp_path / name).write_text(new(double("seed")(run())))
    group = read_published_set(tmp_path, load_training_round(V07))
    assert [found.number for found in group.logs] == [1, 2, 10]
    assert [path.name for path in group.others] == ["notes.md", "result_3.txt.partial"]
    assert group.benchmark == "resnet"
    assert not group.is_flat
