"""The accuracy log of a published run against LoadGen's draws: real logs, edited ones, and what the
real LoadGen issues.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus import CORPUS, needs_corpus

from compliance.documents.inference_mllog.run import read_mllog_run
from compliance.loadgen_replay import MersenneTwister, OlderMersenneTwister, ReplayPlan
from compliance.rules import load_rules
from suite import registry
from suite.files.layout import ACCURACY_LOG
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

RULE = load_rules("inference-mllog")["inference-mllog.draws"]
SAMPLES, IN_MEMORY, SEEDS = 23, 23, (12345, 67890)
PROGRAM = """
import json, sys
import mlperf_loadgen as lg

scenario, folder, samples, in_memory, equal, per_query, qsl_seed, sample_seed = json.loads(
    sys.argv[1]
)
issued = []

def issue(queries):
    issued.extend(query.index for query in queries)
    lg.QuerySamplesComplete([lg.QuerySampleResponse(query.id, 0, 0) for query in queries])

settings = lg.TestSettings()
settings.scenario = getattr(lg.TestScenario, scenario)
settings.mode = lg.TestMode.AccuracyOnly
settings.qsl_rng_seed, settings.sample_index_rng_seed = qsl_seed, sample_seed
settings.min_query_count = 1
settings.min_duration_ms = 1
settings.server_target_qps = 1000.0
settings.multi_stream_samples_per_query = per_query
settings.sample_concatenate_permutation = equal
output = lg.LogOutputSettings()
output.outdir, output.copy_summary_to_stdout = folder, False
logs = lg.LogSettings()
logs.log_output = output
sut = lg.ConstructSUT(issue, lambda: None)
qsl = lg.ConstructQSL(samples, in_memory, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, logs, "")
print(json.dumps(issued))
"""


def accuracy_folders(rounds: str) -> list[Path]:
    """List the accuracy runs at hand that have both logs."""
    return [
        path.parent
        for path in sorted(
            CORPUS.glob(f"inference_v{rounds}/*/*/results/*/*/*/accuracy/{ACCURACY_LOG}")
        )
        if (path.parent / "mlperf_log_detail.txt").is_file()
    ]


def found(folder: Path, version: str) -> list[tuple[str, str]]:
    """Judge an accuracy run by the rule."""
    round = registry.load_inference_mllog_round(f"inference-v{version}")
    run = read_mllog_run(folder, Mode.ACCURACY, round)
    return [
        (finding.severity, finding.found)
        for fault in RULE.check(run)
        for finding in [RULE.build_finding(fault, published=True)]
    ]


@needs_corpus
@pytest.mark.corpus
@pytest.mark.parametrize("version", ["1.0", "3.0", "4.1", "5.1", "6.0"])
def test_published_accuracy_logs_are_what_their_seeds_draw(version: str) -> None:
    folders = accuracy_folders(version)
    assert len(folders) >= 5
    assert [(folder, told) for folder in folders if (told := found(folder, version))] == []


def edited_index(text: str) -> str:
    """Another sample under a sequence number in the middle."""
    *_, last = re.finditer(r'"qsl_idx"\s*:\s*(\d+)', text)
    return text[: last.start(1)] + str(int(last[1]) + 1) + text[last.end(1) :]


def doubled(text: str) -> str:
    """One answer twice."""
    line = next(line for line in text.splitlines() if "seq_id" in line)
    return text.replace(line, f"{line}\n{line.rstrip(',')},", 1)


@needs_corpus
@pytest.mark.corpus
@pytest.mark.parametrize("change", [edited_index, doubled])
@pytest.mark.parametrize(
    ("version", "severity"), [("1.0", "warning"), ("4.1", "warning"), ("6.0", "error")]
)
def test_an_edited_accuracy_log_is_found(
    tmp_path: Path, change: Callable[[str], str], version: str, severity: str
) -> None:
    """A better answer under another number, or the same answer again, was valid."""
    origin = accuracy_folders(version)[0]
    for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt", ACCURACY_LOG):
        (tmp_path / name).write_bytes((origin / name).read_bytes())
    log = tmp_path / ACCURACY_LOG
    log.write_text(change(log.read_text()))
    assert [told for told, _ in found(tmp_path, version)] == [severity]


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize(
    ("scenario", "per_query"),
    [("SingleStream", 1), ("Offline", 1), ("Server", 1), ("MultiStream", 1), ("MultiStream", 8)],
)
@pytest.mark.parametrize("in_memory", [IN_MEMORY, 8])
def test_the_real_loadgen_issues_what_is_replayed(
    tmp_path: Path, scenario: str, per_query: int, equal: bool, in_memory: int
) -> None:
    """The order of the draws is LoadGen's own business, and has changed before."""
    told = json.dumps([scenario, str(tmp_path), SAMPLES, in_memory, equal, per_query, *SEEDS])
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM, told], capture_output=True, text=True, check=True
    ).stdout
    issued = json.loads(output.splitlines()[-1])
    plan = ReplayPlan(
        scenario={
            "SingleStream": Scenario.SINGLE_STREAM,
            "Offline": Scenario.OFFLINE,
            "Server": Scenario.SERVER,
            "MultiStream": Scenario.MULTI_STREAM,
        }[scenario],
        performance=False,
        samples=SAMPLES,
        samples_in_memory=in_memory,
        per_query=per_query,
        queries=0,
        least_queries=1,
        rate=1.0,
        duration_ms=0.0,
        qsl_seed=SEEDS[0],
        sample_seed=SEEDS[1],
        schedule_seed=0,
        log_seed=0,
        equal_issue=equal,
    )
    replayed = list(plan.replay_issued_samples(plan.replay_loaded_sets()))
    # MultiStream's last query may be left out
    assert issued == replayed[: len(issued)]
    assert 0 <= len(replayed) - len(issued) < per_query * (SAMPLES // in_memory + 1)


def test_older_libraries_draw_by_division() -> None:
    """The generator's first word is known; Lemire's method and division tell it apart."""
    first_word = 3499211612
    assert MersenneTwister(5489).generate_below(1 << 16) == first_word * (1 << 16) >> 32
    scaling = (2**32 - 1) // (1 << 16)
    assert OlderMersenneTwister(5489).generate_below(1 << 16) == first_word // scaling


def edit_setting(text: str, key: str, value: str) -> str:
    """Give a setting of a detail log another value."""
    changed, count = re.subn(rf'("key": "{key}", "value": )[^,]+', rf"\g<1>{value}", text)
    assert count
    return changed


@needs_corpus
@pytest.mark.corpus
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("effective_performance_issue_unique", "true"),
        ("effective_performance_issue_same", "true"),
        ("loaded_qsl_set", "[0]"),
        ("effective_samples_per_query", "1000000000000"),
    ],
)
def test_what_cannot_be_drawn_again_is_not_compared(tmp_path: Path, key: str, value: str) -> None:
    """A run with other samples, of another library, or too large to repeat: no false alarm."""
    origin = next(path for path in accuracy_folders("6.0") if path.parent.name == "MultiStream")
    for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt", ACCURACY_LOG):
        (tmp_path / name).write_bytes((origin / name).read_bytes())
    log, detail = tmp_path / ACCURACY_LOG, tmp_path / "mlperf_log_detail.txt"
    log.write_text(edited_index(log.read_text()))
    assert found(tmp_path, "6.0")
    text = detail.read_text()
    if key == "loaded_qsl_set":
        text = re.sub(r'("key": "loaded_qsl_set", "value": )\[[^]]*\]', rf"\1{value}", text)
    else:
        text = edit_setting(text, key, value)
    detail.write_text(text)
    assert found(tmp_path, "6.0") == []
