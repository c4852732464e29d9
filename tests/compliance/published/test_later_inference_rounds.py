"""Published inference entries since v1.0, where they lie beside the checkout: valid, of their
round, and with MLCommons' own figures.
"""

import json
import math
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from corpus import CORPUS

from compliance.judge import Judge
from compliance.kinds.inference_mllog.documents.headline import find_mllog_headline
from compliance.kinds.inference_mllog.documents.run import parse_scenario_folder, read_mllog_run
from compliance.kinds.inference_mllog.round import load_inference_mllog_round
from compliance.verdict import Severity, Verdict
from submissions.result_index import find_requested_results
from submissions.score.score import score_result
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

ROUNDS = ("v1.0", "v3.0", "v5.1", "v6.0")
NS_PER_MS = 1e6
MISPRINTED = "whisper"
"""Its tokens per second are called samples per second in the tables."""


def entries(version: str) -> Iterator[Path]:
    yield from sorted(
        path
        for path in (CORPUS / f"inference_{version}").glob("*/*/results/*/*/*")
        if path.is_dir()
    )


def has_logs(entry: Path) -> bool:
    """The corpus leaves out large logs, those of two entries of rgat among them."""
    return (entry / "performance" / "run_1" / "mlperf_log_detail.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize("version", ROUNDS)
def test_every_entry_is_valid_and_of_its_round(version: str) -> None:
    judge = Judge()
    for entry in filter(has_logs, entries(version)):
        result = judge.judge_path(str(entry))
        assert (result.round, result.verdict) == (f"inference-{version}", Verdict.VALID), entry


@pytest.mark.parametrize("version", ["v5.1", "v6.0"])
def test_figures_are_those_of_the_published_tables(version: str) -> None:
    """To six digits, with the unit."""
    rows: list[Mapping[str, Any]] = json.loads(
        (CORPUS / "expected" / f"inference_{version}_published.json").read_text()
    )
    compared = 0
    for row in rows:
        entry = (
            CORPUS
            / f"inference_{version}"
            / row["Location"].removeprefix("./").split("/performance")[0]
        )
        if not has_logs(entry):
            continue
        named = parse_scenario_folder(entry.name)
        scenario = next((each for each in Scenario if each.folder == named), None)
        found = find_mllog_headline(
            read_mllog_run(
                entry / "performance" / "run_1",
                Mode.PERFORMANCE,
                load_inference_mllog_round(f"inference-{version}"),
            ),
            scenario,
        )
        assert found is not None, entry
        _, unit, value = found
        assert math.isclose(
            value / (NS_PER_MS if unit == "ns" else 1),
            float(row["Performance_Result"]),
            rel_tol=1e-5,
        ), entry
        wanted = {
            "Tokens/s": "tokens/s",
            "Samples/s": "samples/s",
            "Queries/s": "queries/s",
            "Latency (ms)": "ns",
        }[row["Performance_Units"]]
        assert unit == wanted or MISPRINTED in row["UsedModel"], entry
        compared += 1
    assert compared > 10


def test_each_organisation_of_a_mixed_tree_is_judged_by_its_own_round(tmp_path: Path) -> None:
    """The majority's seeds would call the rest wrong."""
    for version, org in (("v5.1", "ASUSTeK"), ("v6.0", "Intel")):
        (tmp_path / "closed" / org).parent.mkdir(exist_ok=True)
        (tmp_path / "closed" / org).symlink_to(CORPUS / f"inference_{version}" / "closed" / org)
    result = Judge().judge_path(str(tmp_path))
    assert (result.round, result.verdict) == ("inference-v5.1, inference-v6.0", Verdict.VALID)


@pytest.mark.parametrize("version", ["v5.1", "v6.0"])
def test_results_of_a_round_to_come_are_unknown_and_not_broken(
    version: str, tmp_path: Path
) -> None:
    """Its seeds are those of no known round."""
    folder = next(filter(has_logs, entries(version)))
    seed = str(load_inference_mllog_round(f"inference-{version}").rules.qsl_rng_seed)
    run = (
        tmp_path
        / "closed"
        / "acme"
        / "results"
        / "box"
        / folder.parent.name
        / folder.name
        / "performance"
        / "run_1"
    )
    run.mkdir(parents=True)
    for path in (folder / "performance" / "run_1").glob("*.txt"):
        (run / path.name).write_text(path.read_text().replace(seed, "4711"))
    result = Judge().judge_path(str(tmp_path))
    assert result.verdict is Verdict.UNKNOWN
    assert "4711" in result.findings[0].found
    assert "inference-v0.5 to v6.1" in result.findings[0].required


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("result_tokens_per_second", "0", "inference-mllog.token_count"),
        ("result_tokens_per_second", "NaN", "file.record"),
    ],
)
def test_a_run_without_tokens_does_not_count(
    key: str, value: str, rule: str, tmp_path: Path
) -> None:
    folder = next(
        path for path in entries("v5.1") if path.parts[-2:] == ("mixtral-8x7b", "Offline")
    )
    run = (
        tmp_path
        / "closed"
        / "acme"
        / "results"
        / "box"
        / "mixtral-8x7b"
        / "Offline"
        / "performance"
        / "run_1"
    )
    run.mkdir(parents=True)
    text = (folder / "performance" / "run_1" / "mlperf_log_detail.txt").read_text()
    (run / "mlperf_log_detail.txt").write_text(
        re.sub(rf'("{key}", "value": )[^,]*', rf"\g<1>{value}", text)
    )
    found = {finding.rule for finding in Judge().judge_path(str(run)).findings}
    assert found & {rule, "file.number"}, found


def test_interactive_is_scored_beside_server() -> None:
    """LoadGen calls both Server."""
    folder = next(path.parent for path in entries("v5.1") if path.name == "Interactive")
    rows = {row.scenario: row for row in map(score_result, find_requested_results(folder))}
    assert {"Interactive", "Server"} <= rows.keys()
    assert rows["Interactive"].value < rows["Server"].value
    assert rows["Interactive"].unit == "tokens/s"


def rewritten(home: Path, into: Path, pattern: str, *changes: tuple[str, str]) -> Path:
    """Copy an organisation's tree, and change texts in the files of a pattern."""
    made = into / "closed" / home.name
    shutil.copytree(home, made, copy_function=shutil.copyfile)
    found = list(made.glob(pattern))
    assert found
    for path in found:
        text = path.read_text("latin-1")
        for before, after in changes:
            text = re.sub(before, after, text)
        path.write_text(text, "latin-1")
    return made


@pytest.mark.parametrize(
    ("version", "org", "verdict"),
    [("v1.0", "Mobilint", Verdict.VALID), ("v3.0", "Dell", Verdict.BROKEN)],
)
def test_what_the_checker_of_that_time_only_logged_of_a_tests_run_is_a_warning(
    version: str, org: str, verdict: Verdict, tmp_path: Path
) -> None:
    """Up to v2.0 it looked for TEST PASS and the files; seeds and validity of a result's own run
    stay errors.
    """
    log = "TEST0*/performance/run_1/mlperf_log_detail.txt"
    changes = ((r'(effective_qsl_rng_seed", "value": )\d+', r"\g<1>7"), ('"VALID"', '"INVALID"'))
    home = rewritten(
        CORPUS / f"inference_{version}" / "closed" / org,
        tmp_path,
        f"compliance/*/*/*/{log}",
        *changes,
    )
    result = Judge().judge_path(str(home))
    told = {
        finding.severity
        for finding in result.findings
        if finding.rule == "inference-mllog.test_seeds"
    }
    assert (result.verdict, told) == (
        verdict,
        {Severity.WARNING if verdict is Verdict.VALID else Severity.ERROR},
    )


def test_a_run_of_v1_with_other_seeds_is_broken_although_its_checker_only_logged_that(
    tmp_path: Path,
) -> None:
    log = "results/*/*/Offline/performance/run_1/mlperf_log_detail.txt"
    home = rewritten(
        CORPUS / "inference_v1.0/closed/Mobilint",
        tmp_path,
        log,
        (r'(effective_sample_index_rng_seed", "value": )\d+', r"\g<1>7"),
    )
    errors = {
        finding.rule
        for finding in Judge().judge_path(str(home)).findings
        if finding.severity is Severity.ERROR
    }
    assert "inference-mllog.seeds" in errors


@pytest.mark.parametrize("day", ["1970-01-02", "2000-01-01", "2008-01-01"])
def test_a_board_whose_clock_was_never_set_is_a_warning(day: str, tmp_path: Path) -> None:
    """Edge boards have no battery: their clock starts with 1970 and may be set while the run goes
    on.
    """
    change = (r'(test_datetime", "value": ")[-\d]+', rf"\g<1>{day}")
    home = rewritten(
        CORPUS / "inference_v1.0/closed/Mobilint",
        tmp_path,
        "results/**/mlperf_log_detail.txt",
        change,
    )
    result = Judge().judge_path(str(home))
    assert {
        finding.severity for finding in result.findings if finding.rule == "inference-mllog.date"
    } == {Severity.WARNING}
    assert result.verdict is Verdict.VALID


def test_a_name_in_another_encoding_is_form(tmp_path: Path) -> None:
    """LoadGen prints what a system calls itself, in the machine's own encoding."""
    home = tmp_path / "inference_v5.1" / "closed" / "Dell"
    shutil.copytree(CORPUS / "inference_v5.1/closed/Dell", home)
    log = next(home.glob("results/*/*/*/performance/run_1/mlperf_log_detail.txt"))
    summary = log.with_name("mlperf_log_summary.txt")
    for path, name in ((log, b'"key": "sut_name", "value": "'), (summary, b"SUT name : ")):
        path.write_bytes(path.read_bytes().replace(name, name + b"\xb5\xff"))
    entry = log.parents[2]
    result = Judge().judge_path(str(entry))
    assert result.verdict is Verdict.VALID
    assert "file.encoding" in {finding.rule for finding in result.findings}


def test_word_error_rate_and_accuracy_add_up(tmp_path: Path) -> None:
    """An accuracy was raised, and its error rate left as it was."""
    home = tmp_path / "inference_v5.1" / "closed" / "Dell"
    shutil.copytree(CORPUS / "inference_v5.1/closed/Dell", home)
    text = next(home.glob("results/*/whisper/*/accuracy/accuracy.txt"))
    assert Judge().judge_path(str(text.parents[1])).verdict is Verdict.VALID
    text.write_text(re.sub(r"accuracy=[\d.]+", "accuracy=99.9", text.read_text()))
    found = Judge().judge_path(str(text.parents[1])).findings
    assert {each.rule for each in found if each.severity is Severity.ERROR} == {
        "inference-mllog.accuracy"
    }
