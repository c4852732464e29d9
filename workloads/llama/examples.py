"""Examples of summaries for reports."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from workloads.common.text.examples import TranslationExamples
from workloads.common.text.token_answers import unpack_token_ids
from workloads.llama.scoring import read_summary_truth
from workloads.llama.served_news import generate_serving_documents

SUMMARY_NAMES: Final = ("Document", "Answer")
"""What the model reads, and what it writes."""


def build_llama_examples(
    answers: Mapping[int, bytes], truth: Path, embedded: bool, cache: Path
) -> TranslationExamples:
    """Return articles, reference summaries and generated ones; ValueError if the truth is invalid.

    The articles are generated again, so that the cache is not read.
    """
    target = read_summary_truth(truth)
    if embedded:
        articles = [
            document.article for document in generate_serving_documents(len(target.references))
        ]
    else:
        articles = []
    return TranslationExamples(
        answers,
        target.references,
        lambda answer: target.decode(unpack_token_ids(answer)),
        articles,
        SUMMARY_NAMES,
    )
