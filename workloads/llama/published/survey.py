"""Surveys the user's data: C4 as MLCommons preprocessed it, the articles that are served, and the
tokenizer of both.

A folder without C4 can be served, and one without articles cannot be trained on, either: the
reference accuracy of a training is a score of its summaries.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from suite.dataset import Survey
from suite.errors import RequestError
from suite.files.layout import compute_file_sha256
from suite.files.tokenizer_files import TOKENIZER_FILE
from suite.workload import Run
from workloads.common.run_request import require_run_training_row
from workloads.common.setting_values import require_positive_setting
from workloads.llama.checkpoint import LLAMA_NAME
from workloads.llama.data import TRAIN_SPLIT, VALIDATION_SPLIT
from workloads.llama.published.articles import (
    ARTICLES_FILE,
    create_articles_folder,
    open_prompts,
)
from workloads.llama.published.corpus import list_corpus_files, survey_split
from workloads.llama.published.tokenizer import read_published_tokenizer
from workloads.llama.scoring import split_into_sentences

ARTICLES: Final = "articles"
"""Name of the served samples in the survey."""
DOCUMENTS: Final = "documents"
"""Name of the training split's documents in the findings."""
LONGEST_PROMPT: Final = "longest_prompt"
"""Name of the tokens of the longest prompt in the findings."""


def list_expected_file_names() -> Sequence[str]:
    """Return the names of all files, whether they are there or not."""
    return (TOKENIZER_FILE, ARTICLES_FILE, *list_corpus_files())


def survey_published_data(run: Run, root: Path) -> Survey:
    """Check, count and hash the files of the user's folder, and encode the articles into the cache.

    MissingError if this machine lacks what the answers to them are scored with: better now than
    behind days of training.
    """
    split_into_sentences("")
    tokenizer = read_published_tokenizer(root)
    folder = create_articles_folder(run.cache, root / ARTICLES_FILE, tokenizer)
    prompts, trained = open_prompts(folder), survey_corpus(run, root, tokenizer.vocabulary)
    hashes = {name: compute_file_sha256(root / name) for name in (TOKENIZER_FILE, ARTICLES_FILE)}
    return Survey(
        samples={ARTICLES: len(prompts), **trained.samples},
        sha256={**hashes, **trained.sha256},
        found={
            **trained.found,
            "vocabulary": tokenizer.vocabulary,
            "tokenizer_sha256": hashes[TOKENIZER_FILE],
            LONGEST_PROMPT: int(prompts.encoded.lengths.max()),
            "folder": folder.name,
        },
        remarks=trained.remarks,
    )


def survey_corpus(run: Run, root: Path, vocabulary: int) -> Survey:
    """Survey both splits of C4; empty, with a remark, if no file of them is there."""
    if not any((root / name).exists() for name in list_corpus_files()):
        remark = f"{root} has no C4 to train on, so it can only be served"
        return Survey(samples={}, sha256={}, found={}, remarks=(remark,))
    length = require_positive_setting(run.settings, "max_sequence_length")
    train, validation = (
        survey_split(root, split, length, vocabulary) for split in (TRAIN_SPLIT, VALIDATION_SPLIT)
    )
    samples = {TRAIN_SPLIT: train.sequences, VALIDATION_SPLIT: validation.sequences}
    return Survey(
        samples=samples,
        sha256=train.sha256 | validation.sha256,
        found={**samples, DOCUMENTS: train.documents},
    )


def check_published_data(run: Run, root: Path, found: Mapping[str, Any]) -> None:
    """Reject a validation split of fewer sequences than the run's row evaluates."""
    wanted = require_run_training_row(run, LLAMA_NAME).eval_samples or 1
    sequences = found.get(VALIDATION_SPLIT, wanted)
    if sequences < wanted:
        raise RequestError(
            f"{root}: its validation split has {sequences:,} sequences; needed: {wanted:,}"
        )


def check_training_data(found: Mapping[str, Any], context: int) -> None:
    """RequestError if a survey found nothing to train on, or prompts that a network of this context
    could not answer when it is trained: its reference accuracy would be missing.
    """
    if TRAIN_SPLIT not in found:
        raise RequestError(
            "llama: the folder of --data has no C4 to train on, which is"
            f" {', '.join(list_corpus_files())}"
        )
    longest = found.get(LONGEST_PROMPT, 0)
    if longest >= context:
        raise RequestError(
            f"llama: the longest prompt has {longest:,} tokens, and a network that is trained on"
            f" sequences of {context:,} reads {context - 1:,} of them"
        )
