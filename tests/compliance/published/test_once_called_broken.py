"""Accepted results that the judge once called broken, one of each cause, and edits of them."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus import PUBLISHED

from compliance.judge import Judge
from compliance.verdict import Finding, Severity

ACCEPTED = PUBLISHED.parent / "wrongly_broken"
CUT = "inference-mllog.scenarios"
"""What the copies lack: other scenarios of their systems."""
OFFLINE = (
    "inference_v4.1/open/NeuralMagic/results/4xH100-SXM-80GB_vLLM_GPTQ-reference-cpu-pytorch-v2.3.1"
    "-default_config/llama2-70b-99/offline/performance/run_1"
)
DLRM = "inference_v0.7/closed/Cisco/results/T4x6_TRT/dlrm-99/Offline/accuracy/accuracy.txt"
RESNET = "inference_v1.1/closed/Dell/results/R750_Intel8352M_2S_32C/resnet50/offline"
DIFFUSION = (
    "training_v4.1/Lambda/results/lambda_1cc_n2_H100-SXM-80GB_ngc24.04_nemo/stable_diffusion/"
    "result_240930043022868987627_01.txt"
)
LLAMA = "training_v5.1/University-of-Florida/results/hpg.dgxb200x8.n32/llama31_405b/result_0.txt"


def list_errors(folder: Path) -> list[Finding]:
    """Judge a tree."""
    return [
        finding
        for finding in Judge().judge_path(str(folder)).findings
        if finding.severity is Severity.ERROR and finding.rule != CUT
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "tree",
    [
        "inference_v0.7",
        "inference_v1.1",
        "inference_v4.1",
        "inference_v5.1",
        "inference_v6.0",
        "training_v4.1",
        "training_v5.1",
    ],
)
def test_an_accepted_result_has_no_error(tree: str) -> None:
    if not (ACCEPTED / tree).is_dir():
        pytest.skip(f"no {tree} in {ACCEPTED}")
    assert list_errors(ACCEPTED / tree) == []


def replace_rate(text: str) -> str:
    """Twice the samples per second."""
    return text.replace("5.37058", "10.7412")


def replace_queries(text: str) -> str:
    """Another number of samples."""
    return text.replace("queries=330067", "queries=330000")


def replace_name(text: str) -> str:
    """Another system under test."""
    return re.sub(r"(SUT name\s*: )\S+", r"\1other", text)


def drop_garbled_line(text: str) -> str:
    """Leave a hyperparameter out."""
    return "".join(line for line in text.splitlines(keepends=True) if '"opt_name"' not in line)


def replace_rate_of_learning(text: str) -> str:
    """Another value of a hyperparameter in one run."""
    return re.sub(r'("key": "opt_base_learning_rate", "value": )[\d.e-]+', r"\g<1>0.123", text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "edit", "rule"),
    [
        (f"{OFFLINE}/mlperf_log_detail.txt", replace_rate, "inference-mllog.result"),
        (DLRM, replace_queries, "inference-text.counts"),
        (
            f"{RESNET}/performance/run_1/mlperf_log_summary.txt",
            replace_name,
            "inference-mllog.summary",
        ),
        (DIFFUSION, drop_garbled_line, "log.hyperparameters"),
        (LLAMA, replace_rate_of_learning, "runs.hyperparameters"),
    ],
)
def test_an_edit_of_such_a_result_is_still_found(
    file: str, edit: Callable[[str], str], rule: str, tmp_path: Path
) -> None:
    if not (ACCEPTED / file).is_file():
        pytest.skip(f"no {file} in {ACCEPTED}")
    tree = file.partition("/")[0]
    shutil.copytree(ACCEPTED / tree, tmp_path / tree)
    path = tmp_path / file
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    edited = edit(text)
    assert edited != text
    path.write_bytes(edited.encode("utf-8", "surrogateescape"))
    assert rule in {finding.rule for finding in list_errors(tmp_path / tree)}
