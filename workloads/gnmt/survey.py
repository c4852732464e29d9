"""Surveys a parallel text: checks, hashes and encodes it into the cache for later runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from suite.dataset import Survey
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.setting_values import flag, positive, whole
from workloads.common.text import encoded, parallel_text
from workloads.common.text.parallel_text import CORPUS, TEST, TRAIN
from workloads.gnmt import data

DECIDING: Final = ("data.merges", "data.skip_broken", "max_sequence_length")


class GnmtText:
    """Implements suite.dataset.DataSet."""

    parts: ClassVar = parallel_text.files()

    def __init__(self, run: Run) -> None:
        self._run = run
        self.settings: Mapping[str, HyperValue] = {key: run.settings[key] for key in DECIDING}

    @property
    def root(self) -> Path:
        """Return the user's folder, or the embedded language pair's."""
        return data.folder_of(self._run.data, self._run.cache)

    def survey(self) -> Survey:
        """Encode both splits, each text only once, and count the pairs available to a run."""
        settings = self._run.settings
        text = data.text(
            self._run.data,
            self._run.cache,
            whole(settings, "data.merges"),
            skip=flag(settings, "data.skip_broken"),
        )
        corpus, test = text.pairs(TRAIN), text.pairs(TEST)
        samples = {
            TRAIN: len(corpus.up_to(positive(settings, "max_sequence_length"))),
            TEST: len(test),
        }
        vocabulary = {
            "vocabulary": len(text.subwords.tokens),
            "vocabulary_sha256": text.subwords.sha256,
        }
        return Survey(
            samples=samples,
            sha256=parallel_text.hashes(self.root),
            found={**samples, CORPUS: len(corpus), **vocabulary, "folder": text.folder.name},
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject a run whose encoded text has disappeared from the cache."""
        encoded.check_prepared(self._run, found)
