"""Surveys a parallel text: checks and hashes it, builds its vocabulary if there is none, and
encodes it into the cache for later runs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from suite.dataset import Survey
from suite.files.layout import compute_file_sha256
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.text import encoded, parallel_text
from workloads.common.text.parallel_text import CORPUS_SIZE_KEY, TEXT_TEST_SPLIT, TEXT_TRAIN_SPLIT
from workloads.transformer import data
from workloads.transformer.recipe import TransformerRecipe

TRANSFORMER_TEXT_SETTINGS: Final = (
    "data.vocabulary",
    "data.skip_broken",
    "data.over_length",
    "max_sequence_length",
)


class TransformerDataSet:
    """Implements suite.dataset.DataSet."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.settings: Mapping[str, HyperValue] = {
            key: run.settings[key] for key in TRANSFORMER_TEXT_SETTINGS
        }

    @property
    def parts(self) -> Sequence[str]:
        """Return the names of the text's files and of its vocabulary."""
        return (*parallel_text.list_parallel_files(), data.format_vocabulary_file_name(self._run))

    @property
    def root(self) -> Path:
        """Return the user's folder, or the embedded language pair's."""
        return data.resolve_transformer_folder(self._run)

    def survey(self) -> Survey:
        """Encode both splits, each text only once, and count the pairs available to a run."""
        text = data.load_text_with_vocabulary(self._run)
        folder = data.create_encoded_text_folder(self._run, text)
        training_data = data.load_training_data(
            self._run, text, folder, TransformerRecipe.build_from_settings(self._run.settings)
        )
        samples = {
            TEXT_TRAIN_SPLIT: len(training_data.train),
            TEXT_TEST_SPLIT: len(training_data.test),
        }
        vocabulary = {"vocabulary": len(text.words), "vocabulary_sha256": text.vocabulary_sha256}
        hashes = {
            **parallel_text.compute_text_hashes(text.root),
            text.vocabulary.name: compute_file_sha256(text.vocabulary),
        }
        return Survey(
            samples=samples,
            sha256=hashes,
            found={
                **samples,
                CORPUS_SIZE_KEY: training_data.train.corpus,
                **vocabulary,
                "folder": folder.name,
            },
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject a run whose encoded text has disappeared from the cache."""
        encoded.check_encoded_folder(self._run, found)


def load_surveyed_training_data(
    run: Run, found: Mapping[str, Any], recipe: TransformerRecipe
) -> data.TransformerTrainingData:
    """Open everything that training reads: a run's first access to its data."""
    return data.load_training_data(
        run, data.load_text_with_vocabulary(run), encoded.resolve_encoded_folder(run, found), recipe
    )
