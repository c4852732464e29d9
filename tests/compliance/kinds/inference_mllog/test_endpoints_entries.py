"""Entries of Inference v6.1 with accuracy results in the shapes that the Endpoints client's scorers
write: a number, metrics by name, and several data sets.

Source: mlcommons/endpoints, evaluation/scoring.py and evaluation/accuracy_results.py.
"""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kinds.endpoints import (
    ACCURACY,
    ENTRY,
    MODEL,
    SUMMARY,
    Simulated,
    cached_entry,
    edited,
    in_text,
    scaled,
    series,
    simulate,
    summarising_entry,
    write_documents,
    write_json,
)

from compliance.judge import Judge
from compliance.verdict import Finding, PathJudgement, Severity
from submissions.result_index import find_requested_results
from submissions.score.score import score_result

DEEPSEEK = "deepseek-r1"
GPT_OSS = "gpt-oss-120b"
SUBSETS = {"subset_scores": {"aime": 84.0, "gpqa": 71.25}, "total_samples": 4388, "complete": True}


@pytest.fixture(scope="module")
def server_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ten minutes that keeps every bound of a language model."""
    folder = tmp_path_factory.mktemp("run")
    run = Simulated(samples=12_200, latency_ms=(40.0, 100.0), tokens=(100, 124))
    simulate(folder, run, events=False)
    write_documents(folder)
    return folder


def describe_set(
    name: str, score: object, unit: int, repeats: int = 1, **more: Any
) -> dict[str, Any]:
    """Results of one data set, as the client writes them."""
    total = unit * repeats
    return {
        "dataset_name": name,
        "extractor": None,
        "ground_truth_column": "ground_truth",
        "score": score,
        "unit_samples": unit,
        "num_repeats": repeats,
        "total_samples": total,
        "duration_s": 257.872,
        "complete": True,
        "dataset_type": "accuracy",
        "response_counts": {"issued": total, "scored": total, "empty": 0, "missing": 0},
        **more,
    }


def count_tokens(mean: int) -> dict[str, Any]:
    """Lengths of answers with this mean."""
    return {"output_sequence_lengths": series([mean - 200, mean, mean + 200], proven=False)}


def score_reasoning(aime: float = 0.92, gpqa: float = 0.8, code: float = 0.84) -> dict[str, Any]:
    """Fractions of three data sets, with their mean by samples without repeats."""
    sets = [
        describe_set("aime25::gptoss", aime, 30, 8, **count_tokens(9_000)),
        describe_set("gpqa::gptoss", gpqa, 198, 5, **count_tokens(9_000)),
        describe_set("livecodebench::gptoss", code, 1055, 3, **count_tokens(9_000)),
    ]
    mean = sum(each["score"] * each["unit_samples"] for each in sets) / (30 + 198 + 1055)
    return {"average_accuracy": mean, "accuracy_scores": sets}


def score_one(name: str, score: object, unit: int, **more: Any) -> dict[str, Any]:
    mean = score if isinstance(score, float) else None
    return {
        "average_accuracy": mean,
        "accuracy_scores": [describe_set(name, score, unit, **more)],
    }


def average_plainly(document: dict[str, Any]) -> dict[str, Any]:
    """As builds wrote it before they weighted data sets."""
    scores = [each["score"] for each in document["accuracy_scores"]]
    return {**document, "average_accuracy": sum(scores) / len(scores)}


def leave_out_empty(document: dict[str, Any]) -> dict[str, Any]:
    """Count an empty answer apart from the scored ones, as newer builds do."""
    counts = document["accuracy_scores"][2]["response_counts"]
    counts |= {"scored": counts["scored"] - 1, "empty": 1}
    return document


ROUGE = {
    "rouge1": "38.7852",
    "rouge2": "15.9412",
    "rougeL": "24.5021",
    "rougeLsum": "35.8103",
    "gen_len": "8167644",
    "gen_num": 13368,
}
SHAPES: dict[str, tuple[str, Mapping[str, Any]]] = {
    "one number in per cent": (
        DEEPSEEK,
        score_one("deepseek_r1", 81.4266, 4388, breakdown=SUBSETS, **count_tokens(3743)),
    ),
    "the overall score in its breakdown": (
        DEEPSEEK,
        score_one(
            "deepseek_r1",
            81.4266,
            4388,
            breakdown={**SUBSETS, "overall_accuracy": 81.43},
            **count_tokens(3743),
        ),
    ),
    "the metric by name": (
        DEEPSEEK,
        score_one("deepseek_r1", {"exact_match": 81.4266}, 4388, **count_tokens(3743)),
    ),
    "both metrics by name": (
        DEEPSEEK,
        score_one("deepseek_r1", {"exact_match": 81.4, "tokens_per_sample": 3743.2}, 4388),
    ),
    "tokens in the breakdown": (
        DEEPSEEK,
        score_one("deepseek_r1", 81.4, 4388, breakdown={**SUBSETS, "tokens_per_sample": 3743.2}),
    ),
    "fractions of three data sets": (GPT_OSS, score_reasoning()),
    "a plain mean of three data sets": (GPT_OSS, average_plainly(score_reasoning())),
    "metrics of text as text": ("llama3.1-8b", score_one("cnn_dailymail", ROUGE, 13368)),
    "one fraction": (MODEL, score_one("shopify_product_catalogue::q3vl", 0.787, 48_289)),
}


def judge_entry(folder: Path, run: Path, benchmark: str, scores: Any) -> tuple[Finding, ...]:
    home = folder / ENTRY.replace(MODEL, benchmark)
    shutil.copytree(run, home)
    write_json(home / ACCURACY, scores)
    return Judge().judge_path(str(home)).findings


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_as_the_client_writes_them_raise_no_alarm(
    tmp_path: Path, server_run: Path, shape: str
) -> None:
    assert judge_entry(tmp_path, server_run, *SHAPES[shape]) == ()


def test_empty_answers_counted_apart_are_a_warning(tmp_path: Path, server_run: Path) -> None:
    (found,) = judge_entry(tmp_path, server_run, GPT_OSS, leave_out_empty(score_reasoning()))
    assert (found.rule, found.severity) == ("endpoints.accuracy_counts", Severity.WARNING)
    assert found.found == "livecodebench::gptoss: 1 empty answers"


def test_missing_lengths_are_a_warning(tmp_path: Path, server_run: Path) -> None:
    (found,) = judge_entry(tmp_path, server_run, DEEPSEEK, score_one("deepseek_r1", 81.4266, 4388))
    assert (found.rule, found.severity) == ("endpoints.tokens_per_sample", Severity.WARNING)


LOW: dict[str, tuple[str, Mapping[str, Any], str]] = {
    "one number": (
        DEEPSEEK,
        score_one("deepseek_r1", 80.1, 4388, **count_tokens(3743)),
        "accuracy",
    ),
    "answers too short": (
        DEEPSEEK,
        score_one("deepseek_r1", 81.4, 4388, **count_tokens(3_000)),
        "tokens_per_sample",
    ),
    "answers too long": (
        DEEPSEEK,
        score_one("deepseek_r1", {"exact_match": 81.4, "tokens_per_sample": 4_300}, 4388),
        "tokens_per_sample",
    ),
    "fractions": (GPT_OSS, score_reasoning(code=0.80), "accuracy"),
    "another mean": (GPT_OSS, {**score_reasoning(), "average_accuracy": 0.87}, "accuracy_mean"),
    "a first metric alone": ("llama3.1-8b", score_one("cnn", "38.7852", 13368), "accuracy"),
    "a data set of more samples without repeats": (
        MODEL,
        score_one("shopify", 0.787, 96_578, total_samples=48_289, num_repeats=None),
        "accuracy_counts",
    ),
}


@pytest.mark.parametrize("kind", LOW)
def test_what_the_benchmark_does_not_allow_is_found(
    tmp_path: Path, server_run: Path, kind: str
) -> None:
    benchmark, scores, rule = LOW[kind]
    found = judge_entry(tmp_path, server_run, benchmark, scores)
    errors = {each.rule for each in found if each.severity is Severity.ERROR}
    assert f"endpoints.{rule}" in errors
    if rule == "accuracy":
        assert errors == {"endpoints.accuracy"}


def test_accuracy_is_scored_in_the_unit_of_its_minimum(tmp_path: Path, server_run: Path) -> None:
    """Each data set counts by its samples without repeats, as in the reference."""
    judge_entry(tmp_path, server_run, GPT_OSS, score_reasoning())
    judge_entry(tmp_path, server_run, *SHAPES["one number in per cent"])
    rows = {each.workload: each for each in map(score_result, find_requested_results(tmp_path))}
    wanted = (0.92 * 30 + 0.8 * 198 + 0.84 * 1055) / (30 + 198 + 1055)
    assert rows[GPT_OSS].accuracy == {"exact_match": pytest.approx(100 * wanted)}
    assert rows[DEEPSEEK].accuracy == {
        "exact_match": pytest.approx(81.4266),
        "TOKENS_PER_SAMPLE": pytest.approx(3743),
    }


def test_a_share_just_below_the_least_is_printed_as_it_is(tmp_path: Path) -> None:
    cached_entry()(tmp_path)
    (home,) = tmp_path.rglob("SingleStream")
    for name in ("latency", "ttft", "tpot"):
        edited(SUMMARY, name, value=lambda each: scaled(each, 0.8999))(home)
    (found,) = [
        each
        for each in Judge().judge_path(str(home)).findings
        if each.rule == "endpoints.single_stream"
    ]
    assert found.found != "latencies of 0.9 of the duration"
    assert found.found.startswith("latencies of 0.89")


def drop_newer_fields(home: Path) -> None:
    """Write the summary as an older build of the client: without rates and its own settings."""
    path = home / SUMMARY
    summary = json.loads(path.read_text())
    for name in ("qps", "tps", "run_config"):
        summary.pop(name)
    write_json(path, summary)


def judge_older_entry(
    folder: Path, run: Path, edit: Callable[[str], str]
) -> tuple[PathJudgement, Path]:
    home = folder / ENTRY.replace(MODEL, GPT_OSS)
    shutil.copytree(run, home)
    write_json(home / ACCURACY, score_reasoning())
    drop_newer_fields(home)
    config = home / "config.yaml"
    config.write_text(edit(config.read_text()))
    return Judge().judge_path(str(home)), home


def test_the_configuration_shows_the_round_of_an_older_build(
    tmp_path: Path, server_run: Path
) -> None:
    judged, home = judge_older_entry(tmp_path, server_run, str)
    assert judged.round == "inference-v6.1"
    assert {(each.rule, each.severity) for each in judged.findings} == {
        ("endpoints.counts", Severity.WARNING),
        ("endpoints.whole", Severity.WARNING),
    }
    (result,) = find_requested_results(tmp_path)
    summary = json.loads((home / SUMMARY).read_text())
    tokens, seconds = summary["output_sequence_lengths"]["total"], summary["duration_ns"] / 1e9
    assert score_result(result).value == pytest.approx(tokens / seconds, rel=0.01)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (r"dataloader_random_seed: \d+", "dataloader_random_seed: 7", "endpoints.seeds"),
        (r"type: poisson", "type: max_throughput", "endpoints.load_pattern"),
        (r"min_duration_ms: \d+", "min_duration_ms: 60000", "endpoints.duration"),
    ],
)
def test_a_configuration_of_another_run_is_found(
    tmp_path: Path, server_run: Path, old: str, new: str, rule: str
) -> None:
    judged, _ = judge_older_entry(tmp_path, server_run, lambda text: re.sub(old, new, text))
    assert rule in {each.rule for each in judged.findings if each.severity is Severity.ERROR}


@pytest.mark.parametrize(
    ("edit", "rule"),
    [
        (edited(ACCURACY, "accuracy_scores", 0, "duration_s", value=0.5), "accuracy_time"),
        (in_text("config.yaml", "max_new_tokens: 128", "max_new_tokens: 1024"), "token_limit"),
        (
            edited(ACCURACY, "accuracy_scores", 0, "dataset_name", value="cnn_easy"),
            "entry_data",
        ),
        (
            edited(ACCURACY, "accuracy_scores", 0, "score", "gen_len", value="7600000"),
            None,
        ),
    ],
)
def test_what_an_entry_says_twice_is_compared(
    tmp_path: Path, edit: Callable[[Path], object], rule: str | None
) -> None:
    summarising_entry(edit)(tmp_path)
    found = {(each.rule, each.severity) for each in Judge().judge_path(str(tmp_path)).findings}
    wanted = set() if rule is None else {(f"endpoints.{rule}", Severity.WARNING)}
    assert found == wanted


def test_answers_of_a_third_of_their_characters_tokens_are_a_warning(tmp_path: Path) -> None:
    """Forty tokens, where the accuracy run's answers have 611 characters."""
    summarising_entry(tokens=(38, 42))(tmp_path)
    (found,) = Judge().judge_path(str(tmp_path)).findings
    assert (found.rule, found.severity) == ("endpoints.characters", Severity.WARNING)
    assert found.found.startswith("answers of 40")


@pytest.mark.parametrize(("stated", "found"), [(0.06, True), (0.07, False)])
def test_a_run_faster_than_its_audits_stated_rate_is_a_warning(
    tmp_path: Path, stated: float, found: bool
) -> None:
    """Where the test's own runs were not submitted, the rate in its outcome counts."""
    cached_entry(ref_qps=stated, audit_qps=stated)(tmp_path)
    rules = {each.rule for each in Judge().judge_path(str(tmp_path)).findings}
    assert rules == ({"endpoints.audit_speed"} if found else set())
