"""The accuracy log of a published run against LoadGen's draws: real logs, and edited ones."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus import CORPUS

from compliance.kinds.inference_mllog.documents.run import read_mllog_run
from compliance.kinds.inference_mllog.round import load_inference_mllog_round
from compliance.rules import load_rules
from suite.files.layout import ACCURACY_LOG
from suite.workload import Mode

RULE = load_rules("inference-mllog")["inference-mllog.draws"]


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
    round = load_inference_mllog_round(f"inference-v{version}")
    run = read_mllog_run(folder, Mode.ACCURACY, round)
    return [
        (finding.severity, finding.found)
        for fault in RULE.check(run)
        for finding in [RULE.build_finding(fault, published=True)]
    ]


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


def edit_setting(text: str, key: str, value: str) -> str:
    """Give a setting of a detail log another value."""
    changed, count = re.subn(rf'("key": "{key}", "value": )[^,]+', rf"\g<1>{value}", text)
    assert count
    return changed


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
