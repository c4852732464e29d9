"""The accuracy of a served result in the words of the reference's script, which the checkers of
MLPerf Inference read.

Source: mlcommons/inference, accuracy-imagenet.py, accuracy-coco.py, translation/gnmt and
language/llama3.1-8b/evaluation.py; submission-checker.py, ACC_PATTERN and check_accuracy_dir.
"""

from collections.abc import Callable, Mapping
from typing import Final

from suite.workload import Scores

PER_CENT: Final = 100
ROUGE_NAMES: Final = ("rouge1", "rouge2", "rougeL", "rougeLsum")
LENGTH_NAME: Final = "gen_len"


def describe_counted_accuracy(scores: Scores, samples: int) -> str:
    """Return what the script for ImageNet prints."""
    good = round(scores["top1"] * samples)
    return f"accuracy={PER_CENT * good / samples:.3f}%, good={good}, total={samples}"


def describe_box_precision(scores: Scores, _: int) -> str:
    """Return what the script for COCO prints last."""
    return f"mAP={PER_CENT * scores['box_ap']:.3f}%"


def describe_translation(scores: Scores, _: int) -> str:
    """Return what the script for newstest2014 prints."""
    return f"BLEU: {PER_CENT * scores['bleu']:.3f}"


def describe_summaries(scores: Scores, samples: int) -> str:
    """Return what the script for CNN/DailyMail prints."""
    rouge = {name: round(PER_CENT * scores[name], 4) for name in ROUGE_NAMES}
    return str({**rouge, LENGTH_NAME: int(scores[LENGTH_NAME]), "gen_num": samples})


SCRIPTS: Final[Mapping[frozenset[str], Callable[[Scores, int], str]]] = {
    frozenset({"top1"}): describe_counted_accuracy,
    frozenset({"box_ap"}): describe_box_precision,
    frozenset({"bleu"}): describe_translation,
    frozenset({*ROUGE_NAMES, LENGTH_NAME}): describe_summaries,
}
"""Scores that a benchmark's script prints, by podium's names."""


def describe_accuracy(scores: Scores, samples: int, sha256: str) -> str | None:
    """Return the content of accuracy.txt; None for scores that no script of the rounds prints.

    Args:
        samples: of the accuracy set.
        sha256: of the accuracy log.
    """
    for names, describe in SCRIPTS.items():
        if names <= scores.keys() and samples:
            return f"{describe(scores, samples)}\nhash={sha256}\n"
    return None
