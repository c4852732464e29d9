"""Surveys a parallel text: checks, hashes and encodes it into the cache for later runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from suite.dataset import Survey
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.setting_values import (
    require_flag_setting,
    require_integer_setting,
    require_positive_setting,
)
from workloads.common.text import encoded, parallel_text
from workloads.common.text.parallel_text import CORPUS_SIZE_KEY, TEXT_TEST_SPLIT, TEXT_TRAIN_SPLIT
from workloads.gnmt import data

GNMT_TEXT_SETTINGS: Final = ("data.merges", "data.skip_broken", "max_sequence_length")


class GNMTDataSet:
    """Implements suite.dataset.DataSet."""

    parts: ClassVar = parallel_text.list_parallel_files()

    def __init__(self, run: Run) -> None:
        self._run = run
        self.settings: Mapping[str, HyperValue] = {
            key: run.settings[key] for key in GNMT_TEXT_SETTINGS
        }

    @property
    def root(self) -> Path:
        """Return the user's folder, or the embedded language pair's."""
        return data.resolve_gnmt_text_folder(self._run.data, self._run.cache)

    def survey(self) -> Survey:
        """Encode both splits, each text only once, and count the pairs available to a run."""
        settings = self._run.settings
        text = data.prepare_gnmt_text(
            self._run.data,
            self._run.cache,
            require_integer_setting(settings, "data.merges"),
            skip=require_flag_setting(settings, "data.skip_broken"),
        )
        corpus, test = text.load_pairs(TEXT_TRAIN_SPLIT), text.load_pairs(TEXT_TEST_SPLIT)
        samples = {
            TEXT_TRAIN_SPLIT: len(
                corpus.drop_long_pairs(require_positive_setting(settings, "max_sequence_length"))
            ),
            TEXT_TEST_SPLIT: len(test),
        }
        vocabulary = {
            "vocabulary": len(text.subwords.tokens),
            "vocabulary_sha256": text.subwords.sha256,
        }
        return Survey(
            samples=samples,
            sha256=parallel_text.compute_text_hashes(self.root),
            found={
                **samples,
                CORPUS_SIZE_KEY: len(corpus),
                **vocabulary,
                "folder": text.folder.name,
            },
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject a run whose encoded text has disappeared from the cache."""
        encoded.check_encoded_folder(self._run, found)
