"""Surveys a parallel text: checks and hashes it, builds its vocabulary if there is none, and
encodes it into the cache for later runs.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from suite.dataset import Survey
from suite.files.layout import file_sha256
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.text import encoded, parallel_text
from workloads.common.text.parallel_text import CORPUS, TEST, TRAIN
from workloads.transformer import data
from workloads.transformer.recipe import Recipe

DECIDING: Final = ("data.vocabulary", "data.skip_broken", "data.over_length", "max_sequence_length")


class TransformerText:
    """Implements suite.dataset.DataSet."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.settings: Mapping[str, HyperValue] = {key: run.settings[key] for key in DECIDING}

    @property
    def parts(self) -> Sequence[str]:
        """Return the names of the text's files and of its vocabulary."""
        return (*parallel_text.files(), data.vocabulary_name(self._run))

    @property
    def root(self) -> Path:
        """Return the user's folder, or the embedded language pair's."""
        return data.root_of(self._run)

    def survey(self) -> Survey:
        """Encode both splits, each text only once, and count the pairs available to a run."""
        text = data.open_text(self._run)
        folder = data.encoded_text(self._run, text)
        opened = data.opened(self._run, text, folder, Recipe.of(self._run.settings))
        samples = {TRAIN: len(opened.train), TEST: len(opened.test)}
        vocabulary = {"vocabulary": len(text.words), "vocabulary_sha256": text.vocabulary_sha256}
        hashes = {
            **parallel_text.hashes(text.root),
            text.vocabulary.name: file_sha256(text.vocabulary),
        }
        return Survey(
            samples=samples,
            sha256=hashes,
            found={**samples, CORPUS: opened.train.corpus, **vocabulary, "folder": folder.name},
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject a run whose encoded text has disappeared from the cache."""
        encoded.check_prepared(self._run, found)


def opened(run: Run, found: Mapping[str, Any], recipe: Recipe) -> data.Opened:
    """Open everything that training reads: a run's first access to its data."""
    return data.opened(run, data.open_text(run), encoded.prepared(run, found), recipe)
