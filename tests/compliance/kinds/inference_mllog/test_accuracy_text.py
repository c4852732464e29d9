"""accuracy.txt of a published inference entry: missing, unreadable, contradictory and too low are
different findings with different advice.
"""

from pathlib import Path

import pytest
from kinds.served import HASH, LANGUAGE, since

from compliance.judge import Judge
from compliance.verdict import Finding, Severity
from suite.files.layout import ACCURACY_TEXT

RULE = "inference-mllog.accuracy"
AGAIN = "run the benchmark's accuracy script"
ROUGE = "{{'rouge1': {}, 'rouge2': 22.1, 'rougeL': 28.7, 'tokens_per_sample': 290.1}}"


def judge(tree: Path, model: str, text: str | None) -> list[Finding]:
    """The findings about the accuracy of Server."""
    since(model=model)(tree)
    (path,) = tree.glob(f"closed/acme/results/box/*/Server/accuracy/{ACCURACY_TEXT}")
    path.unlink()
    if text is not None:
        path.write_text(f"{text}\nhash={HASH}\n" if text else "")
    found = Judge("inference-v5.1").judge_path(str(path.parents[1])).findings
    return [each for each in found if each.rule == RULE]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "empty"),
        ("Traceback (most recent call last):\nKeyError: 'answer'", "no score in it"),
    ],
)
def test_a_text_without_a_score_is_no_bad_model(tmp_path: Path, text: str, found: str) -> None:
    """Running the script again takes minutes, a new model days."""
    (told,) = judge(tmp_path, "retinanet", text)
    assert found in told.found and AGAIN in told.advice
    assert told.severity is Severity.ERROR


@pytest.mark.parametrize(
    "number", ["np.float64(44.5101)", "numpy.float32(44.5101)", "np.int64(45)"]
)
def test_a_number_as_numpy_shows_it_is_read(tmp_path: Path, number: str) -> None:
    (told,) = judge(tmp_path, LANGUAGE, ROUGE.format(number))
    assert told.severity is Severity.WARNING and number in told.found


def test_a_low_score_is_about_the_model(tmp_path: Path) -> None:
    (told,) = judge(tmp_path, "retinanet", "mAP=31.000%")
    assert told.found == "mAP 31" and "fix the model" in told.advice


def test_a_score_above_what_it_can_be_is_an_error(tmp_path: Path) -> None:
    """By a factor of 100."""
    (told,) = judge(tmp_path, LANGUAGE, ROUGE.format("4451.01"))
    assert told.found == "ROUGE1 4451.01" and told.required.startswith("at most 100")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("accuracy=76.500%, good=30000, total=50000", "accuracy 76.5 % with 30000 of 50000"),
        ("accuracy=76.500%, good=30600, total=40000", "an accuracy over 40000 samples"),
    ],
)
def test_an_accuracy_is_that_of_its_counts(tmp_path: Path, text: str, found: str) -> None:
    assert found in [each.found for each in judge(tmp_path, "resnet", text)]


def test_an_accuracy_that_is_that_of_its_counts_is_none(tmp_path: Path) -> None:
    assert judge(tmp_path, "resnet", "accuracy=76.500%, good=38250, total=50000") == []
