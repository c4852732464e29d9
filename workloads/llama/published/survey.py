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
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.run_request import require_run_training_row
from workloads.common.setting_values import require_flag_setting, require_positive_setting
from workloads.common.text.encoded import check_encoded_folder
from workloads.llama.checkpoint import LLAMA_NAME, TOKENIZER_FILE
from workloads.llama.data import TRAIN_SPLIT, VALIDATION_SPLIT
from workloads.llama.published.articles import (
    ARTICLES_FILE,
    create_articles_folder,
    open_prompts,
)
from workloads.llama.published.corpus import list_corpus_files, survey_split
from workloads.llama.published.tokenizer import PublishedTokenizer, read_published_tokenizer
from workloads.llama.scoring import split_into_sentences

PUBLISHED_SETTINGS: Final = ("max_sequence_length",)
ARTICLES: Final = "articles"
"""Name of the served samples in the survey."""
DOCUMENTS: Final = "documents"
"""Name of the training split's documents in the findings."""


class PublishedDataSet:
    """Implements suite.dataset.DataSet for a folder of the user's."""

    def __init__(self, run: Run, root: Path) -> None:
        if require_flag_setting(run.settings, "data.shuffle_documents"):
            raise RequestError(
                "llama: data.shuffle_documents is for the generated news, not for --data"
            )
        self._run, self._root = run, root
        self.settings: Mapping[str, HyperValue] = {
            key: run.settings[key] for key in PUBLISHED_SETTINGS
        }

    @property
    def parts(self) -> Sequence[str]:
        """Return the names of all files, whether they are there or not."""
        return (TOKENIZER_FILE, ARTICLES_FILE, *list_corpus_files())

    @property
    def root(self) -> Path:
        """Return the user's folder."""
        return self._root

    def survey(self) -> Survey:
        """Check, count and hash the files, and encode the articles into the cache.

        MissingError if this machine lacks what the answers to them are scored with: better now
        than behind days of training.
        """
        split_into_sentences("")
        tokenizer = read_published_tokenizer(self._root)
        articles = self._root / ARTICLES_FILE
        folder = create_articles_folder(self._run.cache, articles, tokenizer)
        trained = self._survey_corpus(tokenizer)
        served = len(open_prompts(folder))
        files = (self._root / TOKENIZER_FILE, articles)
        hashes = {path.name: compute_file_sha256(path) for path in files}
        return Survey(
            samples={ARTICLES: served, **trained.samples},
            sha256={**hashes, **trained.sha256},
            found={
                **trained.found,
                "vocabulary": tokenizer.vocabulary,
                "tokenizer_sha256": hashes[TOKENIZER_FILE],
                "folder": folder.name,
            },
            remarks=trained.remarks,
        )

    def _survey_corpus(self, tokenizer: PublishedTokenizer) -> Survey:
        """Survey both splits of C4; empty, with a remark, if no file of them is there."""
        if not any((self._root / name).exists() for name in list_corpus_files()):
            return Survey(
                samples={},
                sha256={},
                found={},
                remarks=(f"{self._root} has no C4 to train on, so it can only be served",),
            )
        length = require_positive_setting(self.settings, "max_sequence_length")
        train, validation = (
            survey_split(self._root, split, length, tokenizer.vocabulary)
            for split in (TRAIN_SPLIT, VALIDATION_SPLIT)
        )
        samples = {TRAIN_SPLIT: train.sequences, VALIDATION_SPLIT: validation.sequences}
        return Survey(
            samples=samples,
            sha256=train.sha256 | validation.sha256,
            found={**samples, DOCUMENTS: train.documents},
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject a validation split of fewer sequences than the run's row evaluates; StaleError if
        the encoded articles have disappeared from the cache.
        """
        wanted = require_run_training_row(self._run, LLAMA_NAME).eval_samples or 1
        sequences = found.get(VALIDATION_SPLIT, wanted)
        if sequences < wanted:
            raise RequestError(
                f"{self._root}: its validation split has {sequences:,} sequences; needed:"
                f" {wanted:,}"
            )
        check_encoded_folder(self._run, found)


def require_training_data(found: Mapping[str, Any]) -> None:
    """RequestError if a survey found nothing to train on."""
    if TRAIN_SPLIT not in found:
        raise RequestError(
            "llama: the folder of --data has no C4 to train on, which is"
            f" {', '.join(list_corpus_files())}"
        )
