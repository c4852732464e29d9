"""Published inference results: parsers and their quirks, what is recomputed, and which paths are
judged how.
"""

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from kinds.inference import filed, labelled, served
from making_inference import (
    LOADS,
    MULTI,
    OFF,
    SINGLE,
    SRV,
    answers,
    detail,
    summary,
    write_entry,
    write_run,
)

from compliance.judge import Judge
from compliance.kinds.inference_text.documents.entry import EntryHeadline, read_entry_headline
from compliance.kinds.inference_text.documents.entry_files import (
    find_implementation_file,
    read_claims,
    read_loadgen_configuration,
)
from compliance.kinds.inference_text.documents.top1 import count_correct_answers
from compliance.kinds.inference_text.logs import legacy_detail, legacy_summary
from compliance.logs.loadgen import accuracy_counts
from compliance.logs.loadgen.accuracy_counts import AnswerCounts
from compliance.logs.source_file import ParseErrorKind, SourceFile
from compliance.verdict import PathJudgement, Severity, Verdict
from suite.files.layout import ACCURACY_LOG, ACCURACY_TEXT, DETAIL_LOG, SUMMARY_LOG
from suite.loadgen.scenario import Scenario

Change = Callable[[str], str]


def tally(tmp_path: Path, content: str | bytes) -> tuple[AnswerCounts, list[ParseErrorKind]]:
    path = tmp_path / ACCURACY_LOG
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    source = SourceFile(path)
    return accuracy_counts.count_accuracy_answers(source), [
        flaw.kind for flaw in source.parse_errors
    ]


def logged(
    tmp_path: Path, content: str | bytes
) -> tuple[legacy_detail.LegacyDetailLog, SourceFile]:
    path = tmp_path / DETAIL_LOG
    path.write_bytes(content.encode("latin-1") if isinstance(content, str) else content)
    source = SourceFile(path)
    return legacy_detail.read_legacy_detail(source), source


def summarised(tmp_path: Path, content: str) -> tuple[legacy_summary.LegacySummary, SourceFile]:
    path = tmp_path / SUMMARY_LOG
    path.write_bytes(content.encode("latin-1"))
    source = SourceFile(path)
    return legacy_summary.read_legacy_summary(source), source


def errors(result: PathJudgement) -> set[str]:
    return {finding.rule for finding in result.findings if finding.severity is Severity.ERROR}


def judged(path: Path, truth: Path | None = None) -> PathJudgement:
    return Judge(truth=truth).judge_path(str(path))


def changed(
    tmp_path: Path,
    name: str,
    change: Change,
    scenario: Scenario = SINGLE,
    mode: str = "Performance",
) -> set[str]:
    """Judge a run with one of its files changed."""
    folder = write_run(
        tmp_path / scenario.folder / ("accuracy" if mode == "Accuracy" else "performance/run_1"),
        LOADS[scenario],
        mode,
    )
    text = (folder / name).read_text()
    assert change(text) != text
    (folder / name).write_text(change(text))
    return errors(judged(folder))


# ---- accuracy logs ----


def test_an_accuracy_log_is_counted(tmp_path: Path) -> None:
    found, flaws = tally(tmp_path, answers(LOADS[MULTI]))
    assert (found.answers, found.distinct, found.repeated, found.highest, found.whole, flaws) == (
        40,
        40,
        0,
        39,
        True,
        [],
    )


def test_multi_stream_pads_its_last_query(tmp_path: Path) -> None:
    """40 samples in queries of 12: eight of them are answered again."""
    found, flaws = tally(tmp_path, answers(replace(LOADS[MULTI], per_query=12)))
    assert (found.answers, found.distinct, found.repeated, found.differing, flaws) == (
        48,
        40,
        8,
        [],
        [],
    )


@pytest.mark.parametrize("content", ["[\n]\n", "[]", "[]\n", "[\r\n]\r\n", " [ ] "])
def test_a_performance_run_leaves_brackets(tmp_path: Path, content: str) -> None:
    found, flaws = tally(tmp_path, content)
    assert (found.answers, found.whole, flaws) == (0, True, [])


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", ""),
        lambda text: text.replace(" : ", ":").replace("{ ", "{").replace(" }", "}"),
        lambda text: text.rstrip("\n"),
        lambda text: json.dumps(json.loads(text)),
    ],
    ids=["crlf", "one line", "no spaces", "no last newline", "dumped again"],
)
def test_accuracy_logs_are_read_however_they_are_spaced(tmp_path: Path, change: Change) -> None:
    """A log that another program wrote again says the same."""
    found, flaws = tally(tmp_path, change(answers(LOADS[OFF])))
    assert (found.distinct, found.whole, flaws) == (40, True, [])


def rewritten(
    text: str,
    indent: int | None = None,
    end: str = "\n",
    names: tuple[str, ...] = ("data", "qsl_idx"),
    **more: object,
) -> str:
    """A log that another program wrote again."""
    rows = [{name: row[name] for name in names} | more for row in json.loads(text)]
    return json.dumps(rows, indent=indent).replace("\n", end)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: rewritten(text),
        lambda text: rewritten(text, 4, "\r\n"),
        lambda text: rewritten(text, 1, names=("qsl_idx", "seq_id", "data")),
        lambda text: rewritten(text, 2, note='a } brace, a \\" quote', size=[2, {"deep": "{"}]),
        lambda text: rewritten(text, names=("data", "seq_id", "qsl_idx"), token_count=7),
    ],
    ids=["no seq_id", "several lines, crlf", "another order", "more keys", "one more key"],
)
@pytest.mark.parametrize("chunk", [7, 1 << 20])
def test_accuracy_logs_are_read_whatever_their_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Change, chunk: int
) -> None:
    """459 accepted entries of one submitter have their keys in another order, and were broken at
    their first answer.
    """
    monkeypatch.setattr(accuracy_counts, "ACCURACY_CHUNK_BYTES", chunk)
    text = answers(LOADS[OFF])
    found, flaws = tally(tmp_path, change(text))
    usual, _ = tally(tmp_path, text)
    assert (found.answers, found.first, found.sizes, found.whole, flaws) == (
        40,
        usual.first,
        usual.sizes,
        True,
        [],
    )
    assert (found.rewritten is not None, usual.rewritten) == (True, None)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"qsl_idx": 17', '"qsl_idx": "17"', 1),
        lambda text: text.replace('"qsl_idx": 17', '"qsl_idx": 17.0', 1),
        lambda text: text.replace('"qsl_idx": 17', '"qsl_idx": -17', 1),
        lambda text: text.replace('"data": "4A61", "qsl_idx": 17', '"data": "4A61"', 1),
        lambda text: text.replace('"4A61"', "null", 1),
        lambda text: text.replace('"data"', '"data": "4A61", "data"', 1),
        lambda text: text.replace('"4A61"', '"4A6"', 1),
        lambda text: text.replace("}, {", "} {", 1),
        lambda text: text.replace("}, {", "}, [{", 1),
        lambda text: text[:-30],
        lambda text: text + "]",
        lambda text: text.replace("[", '{"answers": [', 1) + "}",
    ],
)
def test_a_rewritten_log_that_is_no_list_of_answers_is_a_flaw(
    tmp_path: Path, change: Change
) -> None:
    found, flaws = tally(tmp_path, change(rewritten(answers(LOADS[OFF]))))
    assert flaws
    assert not found.whole or found.broken


@pytest.mark.slow
def test_a_rewritten_log_needs_little_memory(tmp_path: Path) -> None:
    row = '    {\n        "data": "00802044",\n        "qsl_idx": %d\n    }'
    (tmp_path / ACCURACY_LOG).write_text(
        "[\n" + ",\n".join(row % (place % 1000) for place in range(60_000)) + "\n]\n"
    )
    tracemalloc.start()
    found = accuracy_counts.count_accuracy_answers(SourceFile(tmp_path / ACCURACY_LOG))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.answers, found.distinct) == (60_000, 1000)
    assert peak < 6 << 20


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-4],
        lambda text: text.replace("[\n", "", 1),
        lambda text: text.replace(",\n", "\n", 1),
        lambda text: text.replace(",\n", ",,\n", 1),
        lambda text: text.replace('"qsl_idx" : 17', '"qsl_idx" : NaN', 1),
        lambda text: text.replace('"qsl_idx" : 17', '"qsl_idx" : -17', 1),
        lambda text: text.replace('"4A61"', '"4G61"', 1),
        lambda text: text.replace('"4A61"', '"4A6"', 1),
        lambda text: text.replace('"data"', '"data" : "", "data"', 1),
        lambda text: text + "{}",
        lambda text: text.replace("]", "", 1),
        lambda text: "[" * 100_000,
        lambda text: '[\n{ "seq_id" : ' + "9" * 5000,
        lambda text: "",
        lambda text: "\0" * 100,
    ],
)
def test_what_is_no_accuracy_log_is_a_flaw(tmp_path: Path, change: Change) -> None:
    """Whatever is wrong, nothing raises and nothing is taken for whole."""
    found, flaws = tally(tmp_path, change(answers(LOADS[OFF])))
    assert flaws
    assert not found.whole or found.broken


def test_long_answers_are_told_apart_behind_their_first_bytes(tmp_path: Path) -> None:
    """Two detections that differ in the last byte only are two answers."""
    rows = [
        f'{{ "seq_id" : {place}, "qsl_idx" : 1, "data" : "{"AB" * 200}{place:02X}" }}'
        for place in range(2)
    ]
    found, _ = tally(tmp_path, "[\n" + ",\n".join(rows) + "\n]\n")
    assert [sample for sample, _ in found.differing] == [1]


@pytest.mark.slow
def test_an_answer_across_pieces_is_one(tmp_path: Path) -> None:
    """The file is read a megabyte at a time; an answer of three must not be cut."""
    found, flaws = tally(
        tmp_path, '[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "' + "AB" * (3 << 20) + '" }\n]\n'
    )
    assert (found.answers, found.sizes, flaws) == (1, {3 << 20: 1}, [])


@pytest.mark.slow
def test_an_accuracy_log_needs_little_memory(tmp_path: Path) -> None:
    """Six megabytes of answers to a thousand samples: what is kept is about the samples, not about
    the file.
    """
    row = '{ "seq_id" : %d, "qsl_idx" : %d, "data" : "00802044" }'
    (tmp_path / ACCURACY_LOG).write_text(
        "[\n" + ",\n".join(row % (place, place % 1000) for place in range(100_000)) + "\n]\n"
    )
    tracemalloc.start()
    found = accuracy_counts.count_accuracy_answers(SourceFile(tmp_path / ACCURACY_LOG))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found.answers, found.distinct) == (100_000, 1000)
    assert peak < 6 << 20


# ---- detail logs and summaries ----


def test_a_detail_log_is_read(tmp_path: Path) -> None:
    log, source = logged(tmp_path, detail(LOADS[SRV], "Performance"))
    (phase,) = log.phases
    assert source.parse_errors == []
    assert (log.version and log.version.text, log.hashes["/loadgen.cc"].text[:8]) == (
        ".5a1 @ 33ff466d0a",
        "19242fc8",
    )
    assert (
        log.index.find_value("effective_min_duration_ms"),
        log.index.find_value("requested_server_target_qps"),
    ) == (
        "60000",
        "500",
    )
    assert (
        phase.generated[0].queries,
        phase.loaded[0].distinct,
        len(phase.power),
        log.clock_steps_back,
    ) == (90112, 40, 2, [])
    assert log.index.find_line("effective_qsl_rng_seed") == next(
        number
        for number, line in enumerate(detail(LOADS[SRV], "Performance").split("\n"), 1)
        if "qsl_rng_seed" in line
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("(SUT) name: Box", "(SUT) name: Box\0"),
        lambda text: text.rstrip("\n"),
        lambda text: text + "\0" * 64,
        lambda text: text.replace(
            "a commit of ours", "a commit of J\xfcrgen's: check for ERROR in detailed logs"
        ),
    ],
    ids=["crlf", "nul", "no last newline", "nul at the end", "latin-1"],
)
@pytest.mark.parametrize("scenario", Scenario)
def test_quirks_of_accepted_logs_are_no_faults(
    tmp_path: Path, scenario: Scenario, change: Change
) -> None:
    """73 accepted logs hold NUL bytes, those from Windows have CRLF, and commits are named in any
    language.
    """
    folder = write_run(
        tmp_path / scenario.folder / "performance" / "run_1",
        replace(LOADS[scenario], queries=LOADS[scenario].queries),
    )
    for name in (DETAIL_LOG, SUMMARY_LOG):
        (folder / name).write_bytes(change((folder / name).read_text()).encode("latin-1"))
    assert errors(judged(folder)) == set()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 50,
        b"\xff\xfe" + b"x\0" * 40,
        bytes(range(256)) * 9,
        b'"pid": 1',
        b'"ts": ' + b"9" * 5000 + b"ns : x",
        b"[" * 9999,
    ],
)
def test_what_is_no_detail_log_is_a_flaw(tmp_path: Path, content: bytes) -> None:
    log, source = logged(tmp_path, content)
    assert log.stamped_lines <= 1
    assert source.parse_errors or log.stamped_lines


@pytest.mark.parametrize("listed", ["1,2,x", "1,,2", "", "99999999999999999999", "-4", "1,2"])
def test_a_list_of_samples_that_is_none_is_a_flaw(tmp_path: Path, listed: str) -> None:
    end = "" if listed == "1,2" else ']"'
    log, source = logged(
        tmp_path,
        '"pid": 1, "tid": 1, "ts": 1ns : Starting performance mode:\n"ts": 2ns : Loading QSL :'
        f' "set" : "[{listed}{end}\n',
    )
    assert source.has_parse_error(ParseErrorKind.RECORD)
    assert log.phases[0].loaded == []


def test_gnmt_lists_millions_of_samples(tmp_path: Path) -> None:
    """performance_sample_count of GNMT is 3,903,900: a line of 30 MB."""
    listed = ",".join(map(str, range(400_000)))
    log, source = logged(
        tmp_path,
        f'"ts": 1ns : Starting performance mode:\n"ts": 2ns : Loading QSL : "set" : "[{listed}]"\n',
    )
    assert source.parse_errors == []
    assert (
        log.phases[0].loaded[0].count,
        log.phases[0].loaded[0].distinct,
        log.phases[0].loaded[0].highest,
    ) == (400_000, 400_000, 399_999)


def test_multi_stream_has_three_lists_of_percentiles(tmp_path: Path) -> None:
    """The same names stand twice in its summary: per query and per sample."""
    told = "99.00 percentile latency (ns)   : 9000000"
    found, source = summarised(
        tmp_path, summary(LOADS[MULTI], "Performance").replace(f"{told}0", f"{told}1", 1)
    )
    assert source.parse_errors == []
    names = (
        "query 99.00 percentile latency",
        "99.00 percentile latency",
        "interval 99.00 percentile",
    )
    assert [found.find_number(name) for name in names] == [90_000_001, 90_000_000, 1]
    assert (found.parameters["target_latency_ns"].text, found.errors and found.errors.text) == (
        "100000000",
        "0",
    )


def test_the_summary_of_an_accuracy_run_tells_no_results(tmp_path: Path) -> None:
    found, source = summarised(tmp_path, summary(LOADS[OFF], "Accuracy"))
    assert (found.has_results, source.parse_errors) == (False, [])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_a_summary_of_two_bytes_a_letter_is_no_summary(tmp_path: Path, encoding: str) -> None:
    """With a byte order mark or without one: NUL bytes in names are accepted, UTF-16 is not."""
    run = write_run(tmp_path / "SingleStream" / "performance" / "run_1", LOADS[SINGLE])
    summary = run / SUMMARY_LOG
    summary.write_bytes(summary.read_text().encode(encoding))
    assert "file.record" in errors(judged(run))


def test_both_logs_name_one_system(tmp_path: Path) -> None:
    """The summary of another system, put beside this detail log, is told."""
    assert changed(
        tmp_path, SUMMARY_LOG, lambda text: text.replace("SUT name : Box", "SUT name : Other")
    ) == {"inference-text.parameters"}


def test_a_value_that_stands_twice_is_a_flaw(tmp_path: Path) -> None:
    _, source = summarised(
        tmp_path,
        summary(LOADS[OFF], "Performance").replace(
            "Result is : VALID", "Result is : INVALID\nResult is : VALID"
        ),
    )
    assert source.has_parse_error(ParseErrorKind.DUPLICATE)


# ---- what is filed ----


@pytest.mark.parametrize(
    ("text", "metric", "value"),
    [
        ("accuracy=76.038%, good=38019, total=50000", "accuracy", 76.038),
        (
            (
                " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] ="
                " 0.198\nmAP=19.810%"
            ),
            "mAP",
            19.81,
        ),
        ("BLEU: 23.8", "BLEU", 23.8),
        ('{"exact_match": 83.6, "f1": 90.8}', "F1", 90.8),
        ("AUC=80.2%, good=1, total=2", "AUC", 80.2),
        ("Word Error Rate: 0.07, accuracy=92.5%", "WER", 92.5),
        ("Accuracy: mean = 0.85, whole tumor = 0.9", "DICE", 0.85),
    ],
)
def test_scores_are_read_as_the_accuracy_scripts_print_them(
    tmp_path: Path, text: str, metric: str, value: float
) -> None:
    (tmp_path / ACCURACY_TEXT).write_text(f"loading annotations\n{text}\n")
    assert read_claims(tmp_path / ACCURACY_TEXT).scores[metric][0].value == value


@pytest.mark.parametrize(
    ("name", "implementation"),
    [
        ("box_ours_Server.json", "ours"),
        ("box_ours.json", "ours"),
        ("box_Server.json", ""),
        ("box_a_b_server.json", "a_b"),
        ("other_ours_Server.json", None),
    ],
)
def test_a_measurements_file_is_named_in_several_ways(
    name: str, implementation: str | None
) -> None:
    """With or without the scenario, or the implementation: accepted entries have all of these."""
    assert find_implementation_file(["README.md", name], "box", "Server")[1] == implementation


def test_a_configuration_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "user.conf").write_text(
        "# ours\n\n*.Server.target_qps = 12.5 # fast\nresnet50.*.min_duration=60000\nnonsense\na"
        " = b\n"
    )
    assert [
        line[:4] for line in read_loadgen_configuration(SourceFile(tmp_path / "user.conf"))
    ] == [
        ("*", "Server", "target_qps", "12.5"),
        ("resnet50", "*", "min_duration", "60000"),
    ]


@pytest.mark.parametrize(
    ("data", "format", "offset"),
    [
        (lambda label: f"{label:02X}000000", "<i", 0),
        (lambda label: f"{label + 1:02X}000000", "<i", 1),
        (lambda label: f"{label:02X}00000000000000", "<i", 0),
        (lambda label: {7: "0000E040", 42: "00002842"}[label], "<f", 0),
    ],
    ids=["int32", "classes from 1", "int64", "float32"],
)
def test_top1_is_counted_whatever_the_answers_bytes_are(
    tmp_path: Path, data: Callable[[int], str], format: str, offset: int
) -> None:
    """The log does not say what its bytes are: a wrong reading gives next to no right answers."""
    truth = [42 if sample % 4 else 7 for sample in range(40)]
    rows = [
        f'{{ "seq_id" : {sample}, "qsl_idx" : {sample}, "data" :'
        f' "{data(42 if sample < 30 else 7)}" }}'
        for sample in range(40)
    ]
    found, _ = tally(tmp_path, "[\n" + ",\n".join(rows) + "\n]\n")
    top1 = count_correct_answers(found, truth)
    assert top1 is not None
    right = sum((42 if sample < 30 else 7) == truth[sample] for sample in range(40))
    assert (top1.good, top1.format, top1.offset, top1.samples) == (right, format, offset, 40)


@pytest.mark.parametrize("scenario", Scenario)
def test_the_headline_is_the_summarys(tmp_path: Path, scenario: Scenario) -> None:
    entry = write_entry(tmp_path, LOADS[scenario])
    expected = {
        SINGLE: EntryHeadline("90th percentile latency", 50_000_000, "ns", (50_000_000,)),
        MULTI: EntryHeadline("Samples per query", 8, "samples/query", (8,)),
        SRV: EntryHeadline("Scheduled samples per second", 499.79, "queries/s", (499.79,) * 5),
        OFF: EntryHeadline("Samples per second", 400, "samples/s", (400,)),
    }
    assert read_entry_headline(entry) == expected[scenario]


def test_of_several_runs_the_lowest_result_counts(tmp_path: Path) -> None:
    entry = write_entry(tmp_path, LOADS[SRV])
    file = entry / "performance" / "run_4" / SUMMARY_LOG
    file.write_text(file.read_text().replace("499.79", "498.5"))
    assert read_entry_headline(entry) == EntryHeadline(
        "Scheduled samples per second", 498.5, "queries/s", (499.79, 499.79, 499.79, 498.5, 499.79)
    )


def test_a_folder_without_runs_has_no_headline(tmp_path: Path) -> None:
    assert read_entry_headline(tmp_path / "Server") is None


# ---- rules ----


@pytest.mark.parametrize("scenario", Scenario)
@pytest.mark.parametrize(
    "names", [("performance", "run_0"), ("Performance", "run_1"), ("performance",)]
)
def test_runs_lie_where_accepted_entries_have_them(
    tmp_path: Path, scenario: Scenario, names: tuple[str, ...]
) -> None:
    """run_0, Performance, or the logs right in performance/."""
    entry = write_entry(tmp_path, replace(LOADS[scenario], scenario=scenario))
    run = next((entry / "performance").glob("run_1"))
    aside = run.rename(tmp_path / "aside")
    for left in (entry / "performance").glob("run_*"):
        left.rename(tmp_path / left.name)
    (entry / "performance").rmdir()
    aside.rename(_made(entry.joinpath(*names)))
    assert errors(judged(entry)) == ({"inference-text.runs"} if scenario is SRV else set())


def _made(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def test_scenario_folders_are_read_in_any_case(tmp_path: Path) -> None:
    entry = write_entry(tmp_path, LOADS[SRV])
    entry = entry.rename(entry.with_name("server"))
    assert errors(judged(entry)) == set()


def test_any_path_of_a_tree_is_judged_with_its_context(tmp_path: Path) -> None:
    """A wrong claim in accuracy.txt is found from the entry, what belongs to it, and everything
    above.
    """
    entry = write_entry(
        tmp_path, LOADS[OFF], model="resnet", claim="accuracy=77.500%, good=30, total=40"
    )
    home = tmp_path / "open" / "acme"
    below = ("box", "resnet", "Offline")
    measured = home.joinpath("measurements", *below)
    paths = [
        entry,
        *entry.parents[:4],
        tmp_path / "open",
        tmp_path,
        home.joinpath("audit", *below),
        home.joinpath("audit", *below, "TEST05"),
        measured,
    ]
    for path in (*paths, entry / "performance", measured / "user.conf"):
        assert "inference-text.counts" in errors(judged(path)), path
    assert judged(home / "systems" / "box.json").verdict is Verdict.VALID


def test_a_run_on_its_own_is_judged_without_its_benchmark(tmp_path: Path) -> None:
    """GNMT's 90,112 queries are too few for the others: outside a tree nobody can tell."""
    folder = write_run(tmp_path / "copy", LOADS[SRV])
    assert judged(folder).findings == ()


@pytest.mark.parametrize(
    ("scenario", "old", "new", "weight"),
    [
        (SRV, "min_duration", "10000", Severity.WARNING),
        (SINGLE, "min_duration", "10000", Severity.ERROR),
        (SINGLE, "min_query_count", "100", Severity.ERROR),
    ],
)
def test_a_smaller_minimum_is_excused_by_another_reason_only(
    tmp_path: Path, scenario: Scenario, old: str, new: str, weight: Severity
) -> None:
    """A Server run that its number of queries made long enough is accepted; SingleStream is never
    asked for less.
    """
    folder = write_run(tmp_path / "run", LOADS[scenario])
    for name in (DETAIL_LOG, SUMMARY_LOG):
        text = (folder / name).read_text()
        for spelt in (f"{old} : ", f"{old}_ms : ", f"{old} (ms): "):
            for value in ("60000", "1024"):
                text = text.replace(f"{spelt}{value}\n", f"{spelt}{new}\n")
        (folder / name).write_text(text)
    found = {finding.rule: finding.severity for finding in judged(folder).findings}
    assert found == {"inference-text.minimums": weight}


@pytest.mark.parametrize(
    ("division", "weight"), [("open", Severity.WARNING), ("closed", Severity.ERROR)]
)
def test_changed_sources_of_loadgen_are_an_error_in_closed(
    tmp_path: Path, division: str, weight: Severity
) -> None:
    entry = write_entry(tmp_path, LOADS[OFF], division=division)
    file = entry / "performance" / "run_1" / DETAIL_LOG
    file.write_text(file.read_text().replace("git_status :\n", "git_status :\n\n M loadgen.cc\n"))
    assert [
        finding.severity
        for finding in judged(entry).findings
        if finding.rule == "inference-text.version"
    ] == [weight]


@pytest.mark.parametrize("division", ["open", "closed"])
def test_a_source_of_loadgen_that_differs_between_runs_is_told(
    tmp_path: Path, division: str
) -> None:
    """Not loadgen.cc alone makes a LoadGen: any file with another sum in one of the runs was
    changed.
    """
    entry = write_entry(tmp_path, LOADS[OFF], division=division)
    file = entry / "performance" / "run_1" / DETAIL_LOG
    file.write_text(
        file.read_text().replace(" /loadgen.cc\n", f" /loadgen.cc\n{'1' * 40} /loadgen.h\n")
    )
    assert [
        finding.severity
        for finding in judged(entry).findings
        if finding.rule == "inference-text.claimed_version"
    ] == [Severity.WARNING]


def test_loadgen_may_be_built_outside_a_repository(tmp_path: Path) -> None:
    """Then it tells NA where git would have told something; nothing was changed."""
    entry = write_entry(tmp_path, LOADS[OFF])
    for file in entry.rglob(DETAIL_LOG):
        file.write_text(file.read_text().replace("git_status :\n", "git_status :\n\nNA\n"))
    assert not [
        finding for finding in judged(entry).findings if finding.rule == "inference-text.version"
    ]


RAN_OUT = (
    "Ending early: Ran out of generated queries to issue before the minimum query count and test"
    " duration were reached."
)


@pytest.mark.parametrize("text", [RAN_OUT, "CAS failed."])
def test_errors_that_the_round_accepts_are_none(tmp_path: Path, text: str) -> None:
    folder = write_run(tmp_path / "run", LOADS[OFF])
    log = (folder / DETAIL_LOG).read_text()
    start = log.rindex('"pid"', 0, log.index("Log Contention"))
    (folder / DETAIL_LOG).write_text(
        log[:start] + log[start : log.index("Log Contention")] + f"ERROR : {text}\n" + log[start:]
    )
    (folder / SUMMARY_LOG).write_text(
        (folder / SUMMARY_LOG)
        .read_text()
        .replace("No errors encountered during test.", "1 ERROR encountered. See detailed log.")
    )
    assert errors(judged(folder)) == set()


def test_the_clocks_hour_in_spring_is_no_fault(tmp_path: Path) -> None:
    """POWER_END an hour later than it was: clocks are set forwards while a run lasts."""
    told = 'POWER_END: "mode" : Performance, "time" : 01-15-2020 0'
    assert changed(tmp_path, DETAIL_LOG, lambda text: text.replace(f"{told}8", f"{told}9")) == set()


def test_the_open_division_chooses_its_bounds(tmp_path: Path) -> None:
    """Half the latency, or twice: the bound is part of what an open result says about itself."""
    slow = replace(LOADS[SRV], bound_ns=900_000_000)
    assert errors(judged(write_entry(tmp_path / "a", slow))) == set()
    assert "inference-text.bound" in errors(
        judged(write_entry(tmp_path / "b", slow, division="closed"))
    )


def test_truth_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    build = labelled(
        filed(model="resnet", claim="accuracy=75.000%, good=30, total=40", data=["2A000000"] * 40)
    )
    build(tmp_path)
    labels = tmp_path / "labels" / "imagenet" / "val_map.txt"
    labels.write_text("one\ntwo\n")
    told = [
        finding.found
        for finding in judged(tmp_path, tmp_path / "labels").findings
        if finding.rule == "inference-text.unscored"
    ]
    assert len(told) == 1
    assert "val_map.txt" in told[0]


def test_a_later_round_files_its_accuracy_logs_cut(tmp_path: Path) -> None:
    """v0.7: what is left of the log is no JSON, and its hash stands in accuracy.txt."""
    load = replace(LOADS[OFF], round="inference-v0.7")
    entry = write_entry(
        tmp_path, load, model="bert-99", claim='{"exact_match": 83.6, "f1": 90.8}', hashed=True
    )
    log = entry / "accuracy" / ACCURACY_LOG
    log.write_text(log.read_text()[:400] + "\n...\n" + log.read_text()[-100:])
    result = judged(entry)
    assert (result.round, errors(result)) == ("inference-v0.7", set())


@pytest.mark.parametrize("build", [served(), filed()], ids=["run", "tree"])
def test_no_file_is_needed_to_judge(tmp_path: Path, build: Callable[[Path], object]) -> None:
    """With any one file gone, or a folder in its place, there is a result."""
    build(tmp_path)
    for path in sorted(path for path in tmp_path.rglob("*") if path.is_file()):
        content = path.read_bytes()
        path.unlink()
        assert judged(tmp_path).path
        path.mkdir()
        assert judged(tmp_path).path
        path.rmdir()
        path.write_bytes(content)


def test_answers_counted_together_are_counted_as_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs of answers are counted at once: repeated samples, reused numbers, and the lines where
    they stand must not be lost.
    """
    random = Random(1)
    for turn in range(40):
        few = 8 if turn % 2 else 10**6
        rows = [
            (
                random.randrange(few),
                random.randrange(few),
                random.choice(("08000000", "0800", "", "AB" * 40, "ab" * 32)),
            )
            for _ in range(60)
        ]
        each = (
            f'{{ "seq_id" : {sequence}, "qsl_idx" : {sample}, "data" : "{data}" }}'
            for sequence, sample, data in rows
        )
        text = (
            "[" + ",".join(random.choice(("\n", "\r\n", " ")) + answer for answer in each) + "\n]\n"
        )
        together, flaws = tally(tmp_path, text)
        with monkeypatch.context() as patch:
            patch.setattr(
                accuracy_counts.AnswerCounter, "count_short_answers", lambda _reader, _text, at: at
            )
            assert tally(tmp_path, text) == (together, flaws)
        assert together.answers == 60 and together.whole
