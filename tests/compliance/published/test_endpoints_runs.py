"""Real runs of the MLPerf Endpoints client: judged without an error as they are, and with one after
each edit of a number.
"""

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from corpus import PUBLISHED
from kinds.endpoints import CHARACTERS, SNAPSHOT, SUMMARY, edited, in_text, scaled

from compliance.judge import Judge
from compliance.token_counter import load_token_counter
from compliance.verdict import PathJudgement, Severity, Verdict
from submissions.report.build import judge_and_build_report
from submissions.result_index import find_requested_results
from submissions.score.score import score_result

RUNS = ("c4", "poisson", "offline")
V61 = PUBLISHED / "inference_v6.1" / "closed"
ATLAS = "Atlas_Inference"
SUPERMICRO = "Supermicro"
Edit = Callable[[Path], object]


def judge(path: Path, round_name: str | None = None) -> PathJudgement:
    return Judge(round_name).judge_path(str(path))


def list_rules(result: PathJudgement, severity: Severity) -> set[str]:
    return {each.rule for each in result.findings if each.severity is severity}


@pytest.mark.parametrize("name", RUNS)
def test_a_genuine_run_is_recounted_and_valid(name: str) -> None:
    result = judge(PUBLISHED / "endpoints" / name)
    assert (result.round, result.verdict) == ("endpoints", Verdict.VALID)
    assert [each.evidence[-1] for each in result.results] == ["events"]


@pytest.mark.parametrize("name", RUNS)
def test_tokens_of_a_genuine_run_are_recounted_to_the_last_digit(tmp_path: Path, name: str) -> None:
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text(json.dumps(CHARACTERS))
    run = PUBLISHED / "endpoints" / name
    result = Judge(counter=load_token_counter(tokenizer)).judge_path(str(run))
    assert result.verdict is Verdict.VALID
    assert "endpoints.recount_tokens" not in {each.rule for each in result.findings}
    assert result.results[0].evidence == ("summary", "snapshot", "events", "tokenizer")


@pytest.mark.parametrize(("name", "words"), [("c4", "116 of 200"), ("poisson", "39 of 240")])
def test_first_fragments_behind_their_answers_are_counted(name: str, words: str) -> None:
    result = judge(PUBLISHED / "endpoints" / name)
    (found,) = [each for each in result.findings if each.rule == "endpoints.clocks"]
    assert words in found.found and found.severity is Severity.WARNING


def test_one_file_of_a_run_stands_for_the_run() -> None:
    whole = judge(PUBLISHED / "endpoints" / "c4")
    for name in ("events.jsonl", SUMMARY, SNAPSHOT, "config.yaml"):
        assert judge(PUBLISHED / "endpoints" / "c4" / name).verdict is whole.verdict


def test_a_run_is_held_against_a_round_that_is_named() -> None:
    """Its seeds are 42, and six seconds are no run of that round."""
    short = judge(PUBLISHED / "endpoints" / "poisson", "inference-v6.1")
    other = judge(PUBLISHED / "endpoints" / "c4", "inference-v6.1")
    assert list_rules(short, Severity.ERROR) == {"endpoints.duration"}
    assert list_rules(other, Severity.ERROR) == {"endpoints.duration", "endpoints.seeds"}


def test_packed_events_are_recounted(tmp_path: Path) -> None:
    run = Path(shutil.copytree(PUBLISHED / "endpoints" / "poisson", tmp_path / "run"))
    text = (run / "events.jsonl").read_bytes()
    (run / "events.jsonl.gz").write_bytes(gzip.compress(text))
    (run / "events.jsonl").unlink()
    result = judge(run)
    assert result.verdict is Verdict.VALID and result.results[0].evidence[-1] == "events"


def change_summary(*path: str | int, value: Any) -> Edit:
    return edited(SUMMARY, *path, value=value)


def scale_series(name: str, factor: float) -> Edit:
    return edited(SUMMARY, name, value=lambda each: scaled(each, factor))


FORGED_SUMMARIES: dict[str, Edit] = {
    "ten times the tokens per second": change_summary("tps", value=lambda each: each * 10),
    "a higher rate": change_summary("qps", value=lambda each: each * 1.01),
    "half the duration": change_summary("duration_ns", value=lambda each: each // 2),
    "half of the requests failed": change_summary("n_samples_failed", value=100),
    "more issued": change_summary("n_samples_issued", value=lambda each: each + 1),
    "fewer completed": change_summary("n_samples_completed", value=lambda each: each - 1),
    "latencies scaled": scale_series("latency", 0.5),
    "lower 99th percentile": change_summary(
        "latency", "percentiles", "99.0", value=lambda each: each * 0.1
    ),
    "lower 90th percentile": change_summary(
        "latency", "percentiles", "90.0", value=lambda each: each * 0.5
    ),
    "lower median": change_summary("latency", "median", value=lambda each: each * 0.5),
    "lower mean": change_summary("latency", "avg", value=lambda each: each * 0.5),
    "lower maximum": change_summary("latency", "max", value=lambda each: each // 2),
    "lower minimum": change_summary("latency", "min", value=lambda each: each // 2),
    "another total": change_summary("latency", "total", value=lambda each: each + 1_000_000),
    "a deviation that cannot be": change_summary("latency", "std_dev", value=1e12),
    "another histogram": change_summary(
        "latency", "histogram", "counts", 3, value=lambda each: each + 20
    ),
    "longer answers": change_summary(
        "output_sequence_lengths", "total", value=lambda each: each * 2
    ),
    "not complete": change_summary("complete", value=False),
    "another state": change_summary("state", value="draining"),
    "more reasons to end": change_summary("finish_reason_counts", "stop", value=10_000),
}


UNSEEN = {("offline", "latencies scaled", True)}
"""Edits that no summary shows: all requests are in flight at once, and nothing was streamed."""


@pytest.mark.parametrize("kind", FORGED_SUMMARIES)
@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("alone", [True, False])
def test_an_edited_number_of_a_summary_is_an_error(
    tmp_path: Path, name: str, kind: str, alone: bool
) -> None:
    """With events and without, of a closed loop, of Poisson arrivals and of Offline."""
    run = Path(shutil.copytree(PUBLISHED / "endpoints" / name, tmp_path / "run"))
    if alone:
        for path in ("events.jsonl", SNAPSHOT, "sample_idx_map.json"):
            (run / path).unlink()
    FORGED_SUMMARIES[kind](run)
    if (name, kind, alone) in UNSEEN:
        pytest.skip("consistent: nothing but the events shows it")
    assert list_rules(judge(run), Severity.ERROR)


FORGED_FILES: dict[str, Edit] = {
    "a snapshot with another count": edited(SNAPSHOT, "metrics", 3, "value", value=1),
    "a snapshot with another maximum": edited(SNAPSHOT, "metrics", 15, "max", value=5),
    "a configuration with another seed": in_text(
        "config.yaml", "dataloader_random_seed: ", "dataloader_random_seed: 1"
    ),
    "an event that is missing": lambda run: drop_line(run, 40),
    "an event that happens twice": lambda run: repeat_line(run, 40),
    "no events at all": lambda run: (run / "events.jsonl").write_text(""),
    "a folder of events": lambda run: replace_by_folder(run / "events.jsonl"),
    "another run's events": lambda run: link_to_other(run / "events.jsonl"),
    "an empty snapshot": lambda run: (run / SNAPSHOT).write_text("{}"),
    "a snapshot that failed": edited(SNAPSHOT, "state", value="failed"),
    "a shorter map": edited(
        "sample_idx_map.json",
        "performance",
        value=lambda each: dict([*each.items()][:150]),
    ),
    "a map with an index that does not exist": edited(
        "sample_idx_map.json",
        "performance",
        value=lambda each: {**each, next(iter(each)): -1},
    ),
    "a map of other samples": edited(
        "sample_idx_map.json",
        "performance",
        value=lambda each: {f"{name[::-1]}": index for name, index in each.items()},
    ),
    "three times the tokens": lambda run: triple_lengths(run),
}


def drop_line(run: Path, number: int) -> None:
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    (run / "events.jsonl").write_text("".join(lines[:number] + lines[number + 1 :]))


def repeat_line(run: Path, number: int) -> None:
    lines = (run / "events.jsonl").read_text().splitlines(keepends=True)
    place = next(at for at in range(number, len(lines)) if '"sample.complete"' in lines[at])
    (run / "events.jsonl").write_text("".join(lines[: place + 1] + lines[place:]))


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link_to_other(path: Path) -> None:
    other = path.parents[1] / "other.jsonl"
    path.rename(other)
    path.symlink_to(other)


def triple_lengths(run: Path) -> None:
    """Count three tokens for each, consistently in the summary and the snapshot."""
    for name, factor in (("output_sequence_lengths", 3), ("tpot", 1 / 3)):
        edited(SUMMARY, name, value=lambda each, by=factor: scaled(each, by))(run)
    edited(SUMMARY, "tps", value=lambda each: each * 3)(run)
    (run / SNAPSHOT).unlink()


def exchange_samples(run: Path) -> None:
    """Exchange two samples of the map."""
    found = json.loads((run / "sample_idx_map.json").read_text())
    table = found["performance"]
    first, other = list(table)[5], list(table)[90]
    table[first], table[other] = table[other], table[first]
    (run / "sample_idx_map.json").write_text(json.dumps(found))


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("name", RUNS)
def test_exchanged_samples_are_an_error(tmp_path: Path, name: str, alone: bool) -> None:
    """The runs issued a fifth of their data set, of a size that no file says."""
    run = Path(shutil.copytree(PUBLISHED / "endpoints" / name, tmp_path / "run"))
    if alone:
        (run / "events.jsonl").unlink()
    exchange_samples(run)
    (found,) = [each for each in judge(run).findings if each.rule == "endpoints.order"]
    assert found.found.endswith("issued as number 6")


REPORT_EDITS: dict[str, tuple[str, str]] = {
    "the rate": (r"QPS: .*", "QPS: 99.00"),
    "the duration": (r"Duration: .*", "Duration: 1.00 seconds"),
    "failed samples": (r"failed: 0", "failed: 1"),
    "a mean": (r"(?s)(Latency:.*?Avg.:) [0-9.]+", r"\1 0.50"),
    "a percentile": (r"(?s)(Latency:.*?99\.0:) [0-9.]+", r"\1 0.50"),
    "a proven percentile": (r"(?s)(Latency:.*?estimates.*?95\.0:) [0-9.]+", r"\1 0.50"),
    "tokens": (r"(?s)(Output sequence lengths:.*?Max:) [0-9.]+", r"\1 9000.00"),
}


@pytest.mark.parametrize("kind", REPORT_EDITS)
@pytest.mark.parametrize("name", RUNS)
def test_a_report_of_other_figures_is_an_error(tmp_path: Path, name: str, kind: str) -> None:
    run = Path(shutil.copytree(PUBLISHED / "endpoints" / name, tmp_path / "run"))
    text = (run / "report.txt").read_text()
    changed = re.sub(*REPORT_EDITS[kind], text, count=1)
    assert changed != text
    (run / "report.txt").write_text(changed)
    assert list_rules(judge(run), Severity.ERROR) == {"endpoints.report_text"}


@pytest.mark.parametrize(
    "text", ["", "\x00\xff", "TTFT:\n" * 50_000, "QPS: " + "9" * 400, "QPS: -\n"]
)
def test_a_report_that_is_none_raises_no_alarm(tmp_path: Path, text: str) -> None:
    run = Path(shutil.copytree(PUBLISHED / "endpoints" / "offline", tmp_path / "run"))
    (run / "report.txt").write_text(text, "latin-1")
    assert "endpoints.report_text" not in list_rules(judge(run), Severity.ERROR)


@pytest.mark.parametrize("kind", FORGED_FILES)
def test_an_edit_of_another_file_is_an_error(tmp_path: Path, kind: str) -> None:
    run = Path(shutil.copytree(PUBLISHED / "endpoints" / "poisson", tmp_path / "run"))
    FORGED_FILES[kind](run)
    assert list_rules(judge(run), Severity.ERROR)


@pytest.mark.parametrize("org", [ATLAS, SUPERMICRO])
def test_a_published_entry_is_valid(org: str) -> None:
    result = judge(V61 / org)
    assert (result.round, result.verdict) == ("inference-v6.1", Verdict.VALID)
    assert list_rules(result, Severity.WARNING) <= {"inference-mllog.measurements"}  # no README


@pytest.fixture
def entry(tmp_path: Path) -> Iterator[Path]:
    """An entry of Server, in its tree."""
    tree = tmp_path / "inference_v6.1" / "closed" / SUPERMICRO
    shutil.copytree(V61 / SUPERMICRO, tree)
    (found,) = tree.glob("results/*/*/Server")
    yield found


ACCURACY = "accuracy/accuracy_results.json"
FORGED_ENTRIES: dict[str, Edit] = {
    "accuracy of 1": lambda home: (
        edited(ACCURACY, "average_accuracy", value=1.0)(home),
        edited(ACCURACY, "accuracy_scores", 0, "total_samples", value=1)(home),
    ),
    "an accuracy too low": lambda home: (
        edited(ACCURACY, "average_accuracy", value=0.7)(home),
        edited(ACCURACY, "accuracy_scores", 0, "score", value=0.7)(home),
    ),
    "answers missing": edited(
        ACCURACY, "accuracy_scores", 0, "response_counts", "missing", value=4000
    ),
    "half of the data set": edited(ACCURACY, "accuracy_scores", 0, "total_samples", value=24_000),
    "not complete": edited(ACCURACY, "accuracy_scores", 0, "complete", value=False),
    "no accuracy": lambda home: (home / ACCURACY).unlink(),
    "half of the window": change_summary(
        "legacy_loadgen_window_duration_ns", value=lambda each: each // 2
    ),
    "half of window, twice the rate": lambda home: (
        change_summary("legacy_loadgen_window_duration_ns", value=lambda each: each // 2)(home),
        change_summary("qps", value=lambda each: each * 2)(home),
        change_summary("tps", value=lambda each: each * 2)(home),
    ),
    "a shorter run": lambda home: (change_summary("duration_ns", value=500_000_000_000)(home),),
    "another seed": change_summary("run_config", "scheduler_random_seed", value=42),
    "a closed loop": change_summary("run_config", "load_pattern", "type", value="concurrency"),
    "a lower proven percentile": change_summary(
        "latency", "early_stopping_percentiles", "99.0", value=9_000_000_000.0
    ),
    "no proven percentile": change_summary(
        "latency", "early_stopping_percentiles", "99.0", value=None
    ),
    "a mean alone": edited(SUMMARY, "latency", value=lambda each: {"avg": each["avg"] / 10}),
    "a window of nothing": lambda home: (
        change_summary("legacy_loadgen_window_duration_ns", value=0)(home),
        change_summary("duration_ns", value=610_000_000_000)(home),
    ),
    "no window and a shorter run": lambda home: shorten_without_window(home),
    "no target rate": change_summary("run_config", "load_pattern", "target_qps", value=None),
    "tokens without lengths": lambda home: (
        change_summary("tps", value=lambda each: each * 10)(home),
        change_summary("output_sequence_lengths", value={})(home),
    ),
    "an accuracy above what it can be": lambda home: (
        edited(ACCURACY, "average_accuracy", value=10.0)(home),
        edited(ACCURACY, "accuracy_scores", 0, "score", value=10.0)(home),
    ),
    "a second data set": lambda home: add_data_set(home),
    "no counts": lambda home: (
        edited(ACCURACY, "accuracy_scores", 0, "response_counts", value={})(home),
        edited(ACCURACY, "accuracy_scores", 0, "total_samples", value=None)(home),
    ),
    "answers missing in the histogram": edited(
        ACCURACY,
        *("accuracy_scores", 0, "output_sequence_lengths", "histogram", "counts", 9),
        value=0,
    ),
    "another model": in_text("config.yaml", "model: qwen3-vl-235b-a22b", "model: gpt-oss-120b"),
    "another model's weights": in_text(
        "config.yaml", "  name: nvidia/Qwen3-VL-235B-A22B", "  name: openai/gpt-oss-120b"
    ),
    "a smaller model of the same family": in_text(
        "config.yaml", "Qwen3-VL-235B-A22B-Instruct", "Qwen3-VL-30B-A3B-Instruct"
    ),
    "answers shorter than asked for": in_text(
        "config.yaml", "min_new_tokens: 1", "min_new_tokens: 128"
    ),
    "performance data of no benchmark": in_text(
        "config.yaml", "- name: shopify_product_catalogue::q3vl", "- name: gsm8k"
    ),
    "performance data of another benchmark": in_text(
        "config.yaml", "- name: shopify_product_catalogue::q3vl", "- name: cnn_dailymail::llama3_8b"
    ),
    "accuracy of another benchmark": edited(
        ACCURACY, "accuracy_scores", 0, "dataset_name", value="gpqa"
    ),
    "latencies alone": scale_series("latency", 0.5),
    "other samples to issue": in_text(
        "config.yaml", "max_duration_ms: 0", "max_duration_ms: 0\n    n_samples_to_issue: 500"
    ),
    "a rate that draws nothing": lambda home: (
        change_summary("run_config", "load_pattern", "target_qps", value=5e-324)(home),
    ),
    "one bucket": edited(SUMMARY, "latency", "histogram", "buckets", value=[[1, 2]]),
    "a negative deviation": change_summary("latency", "std_dev", value=-1.0),
    "another target rate": change_summary("run_config", "load_pattern", "target_qps", value=224.0),
}


@pytest.mark.parametrize(
    ("org", "lowered", "unseen"), [(SUPERMICRO, 0.92, 0.95), (ATLAS, 0.53, 0.6)]
)
def test_lowered_times_per_token_are_found_as_far_as_lengths_agree(
    tmp_path: Path, org: str, lowered: float, unseen: float
) -> None:
    """The limits in docs/internals/endpoints-checks.md."""
    for place, (factor, wanted) in enumerate(
        [(lowered, {"endpoints.token_time"}), (unseen, set())]
    ):
        tree = tmp_path / str(place) / "inference_v6.1" / "closed" / org
        shutil.copytree(V61 / org, tree)
        (home,) = {each.parents[1] for each in tree.rglob("result_summary.json")}
        scale_series("tpot", factor)(home)
        assert list_rules(judge(tree), Severity.ERROR) == wanted


def shorten_without_window(home: Path) -> None:
    """Divide by a duration that is too short for the drawn arrivals."""
    summary = json.loads((home / SUMMARY).read_text())
    summary["legacy_loadgen_window_duration_ns"] = None
    summary["run_config"]["load_pattern"]["use_legacy_loadgen_qps_metrics"] = False
    summary["duration_ns"] = 610_000_000_000
    summary["qps"] = summary["n_samples_completed"] / 610
    summary["tps"] = summary["output_sequence_lengths"]["total"] / 610
    (home / SUMMARY).write_text(json.dumps(summary))


def add_data_set(home: Path) -> None:
    """Hide a low score beside an invented one."""
    found = json.loads((home / ACCURACY).read_text())
    (score,) = found["accuracy_scores"]
    invented = {**score, "dataset_name": "b", "score": 0.95, "total_samples": 1}
    invented["response_counts"] = {"issued": 1, "scored": 1, "empty": 0, "missing": 0}
    found["accuracy_scores"] = [{**score, "score": 0.2}, invented]
    found["average_accuracy"] = (0.2 + 0.95) / 2
    (home / ACCURACY).write_text(json.dumps(found))


DOUBTFUL_ENTRIES: dict[str, tuple[Edit, str]] = {
    "accuracy in half a second": (
        edited(ACCURACY, "accuracy_scores", 0, "duration_s", value=0.5),
        "endpoints.accuracy_time",
    ),
    "accuracy of an unknown data set": (
        edited(ACCURACY, "accuracy_scores", 0, "dataset_name", value="catalogue_easy"),
        "endpoints.entry_data",
    ),
    "a shorter run than the round's": (
        change_summary("duration_ns", value=500_000_000_000),
        "endpoints.duration",
    ),
}


@pytest.mark.parametrize("kind", DOUBTFUL_ENTRIES)
def test_what_only_looks_wrong_in_an_entry_is_a_warning(entry: Path, kind: str) -> None:
    edit, rule = DOUBTFUL_ENTRIES[kind]
    assert rule not in list_rules(judge(entry), Severity.WARNING)
    edit(entry)
    assert rule in list_rules(judge(entry), Severity.WARNING)


def add_caching_test(run: Path, factor: float | None, rate: float) -> None:
    """Add a caching test whose reference run is another run of the client's, and whose caching run
    is that one with all times multiplied by a factor, or a third run.
    """
    others = PUBLISHED / "endpoints"
    caching = others / ("c4" if factor else "offline")
    for name, source in (("reference", others / "c4"), ("output_caching", caching)):
        shutil.copytree(source, run / "audit" / name)
    if factor:
        scale_series("latency", factor)(run / "audit" / "output_caching")
    outcome = {"passed": True, "ref_qps": rate, "audit_qps": rate, "threshold": 0.1}
    (run / "audit" / "audit_output_caching_test.json").write_text(json.dumps(outcome))


@pytest.mark.parametrize("factor", [1.0, 0.9999, 0.5])
def test_a_caching_run_that_is_the_reference_run_is_an_error(tmp_path: Path, factor: float) -> None:
    """Of a run folder, too, which belongs to no round."""
    run = Path(shutil.copytree(PUBLISHED / "endpoints" / "poisson", tmp_path / "run"))
    add_caching_test(run, factor, 1.0)
    assert "endpoints.audit_copy" in list_rules(judge(run), Severity.ERROR)


def test_the_rates_of_a_run_folders_caching_test_are_checked(tmp_path: Path) -> None:
    run = Path(shutil.copytree(PUBLISHED / "endpoints" / "poisson", tmp_path / "run"))
    rates = [
        json.loads((PUBLISHED / "endpoints" / name / SUMMARY).read_text())["qps"]
        for name in ("c4", "offline")
    ]
    add_caching_test(run, None, rates[0])
    outcome = run / "audit" / "audit_output_caching_test.json"
    document = json.loads(outcome.read_text()) | {"audit_qps": rates[1], "threshold": 1e9}
    outcome.write_text(json.dumps(document | {"passed": rates[1] < rates[0]}))
    assert "endpoints.audit_copy" not in list_rules(judge(run), Severity.ERROR)
    outcome.write_text(json.dumps(document | {"ref_qps": rates[0] * 2}))
    assert "endpoints.audit" in list_rules(judge(run), Severity.ERROR)


@pytest.mark.parametrize(("word", "verdict"), [("True", Verdict.VALID), ("False", Verdict.BROKEN)])
def test_the_text_of_a_caching_test_says_what_its_outcome_says(
    tmp_path: Path, word: str, verdict: Verdict
) -> None:
    run = Path(shutil.copytree(PUBLISHED / "endpoints" / "poisson", tmp_path / "run"))
    (run / "audit").mkdir()
    outcome = {"passed": True, "ref_qps": 1.0, "audit_qps": 1.0, "threshold": 0.1}
    (run / "audit" / "audit_output_caching_test.json").write_text(json.dumps(outcome))
    text = f"Performance check pass: {word}\n"
    (run / "audit" / "verify_OUTPUT_CACHING_TEST.txt").write_text(text)
    assert judge(run).verdict is verdict


@pytest.mark.parametrize("kind", FORGED_ENTRIES)
def test_an_edit_of_an_entry_is_an_error(entry: Path, kind: str) -> None:
    FORGED_ENTRIES[kind](entry)
    assert list_rules(judge(entry), Severity.ERROR)


def test_a_folder_called_online_is_server(entry: Path) -> None:
    online = entry.rename(entry.with_name("online"))
    assert judge(online).verdict is Verdict.VALID
    assert judge(online.parents[3]).verdict is Verdict.VALID


def test_a_published_entry_has_a_score_with_its_basis_and_a_page(tmp_path: Path) -> None:
    """Server divides by the window until the query issued last has ended."""
    (found,) = find_requested_results(V61 / SUPERMICRO)
    row = score_result(found)
    assert (row.metric, row.unit, row.figure.basis) == (
        "samples_per_second",
        "queries/s",
        "legacy_window",
    )
    assert row.value == pytest.approx(111.77383650675426) and row.compliant
    assert row.figure.whole_run == pytest.approx(96_578 / 864.992415313)
    assert row.accuracy == {"F1_HIERARCHICAL": pytest.approx(0.7871852181615411)}
    (part,) = judge_and_build_report([V61 / SUPERMICRO])[0].parts
    titles = [table.title for table in part.sections[0].parts[0].tables]
    assert titles[0] == "Performance runs, as measured by the Endpoints client"


def test_a_single_stream_is_scored_by_its_mean_latency() -> None:
    (found,) = find_requested_results(V61 / ATLAS)
    row = score_result(found)
    assert (row.metric, row.unit, row.figure.basis) == ("latency_mean", "ns", "whole_run")
    assert row.value == pytest.approx(3807663511.3614697)
    assert row.accuracy == {"mAP": pytest.approx(87.23618090452261)}
