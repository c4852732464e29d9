"""Surveys the generated news: encodes them into the cache, hashes and counts them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from suite.dataset import Survey
from suite.files.layout import compute_file_sha256
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.setting_values import require_positive_setting
from workloads.common.text.encoded import check_encoded_folder, resolve_encoded_folder
from workloads.llama import data
from workloads.llama.recipe import LlamaRecipe
from workloads.llama.serving_set import require_generated_news
from workloads.llama.vocabulary import compute_tokenizer_sha256, list_tokens

LLAMA_DATA_SETTINGS: Final = ("max_sequence_length", "data.shuffle_documents")


class LlamaDataSet:
    """Implements suite.dataset.DataSet."""

    def __init__(self, run: Run) -> None:
        require_generated_news(run)
        self._run = run
        self.settings: Mapping[str, HyperValue] = {
            key: run.settings[key] for key in LLAMA_DATA_SETTINGS
        }

    @property
    def parts(self) -> Sequence[str]:
        """Return the names of both splits' files."""
        return [
            data.locate_split(Path(), split).name
            for split in (data.TRAIN_SPLIT, data.VALIDATION_SPLIT)
        ]

    @property
    def root(self) -> Path:
        """Return the folder of the encoded news, which are generated at first use."""
        recipe = LlamaRecipe.build_from_settings(self._run.settings)
        sizes = data.select_sizes(self._run, recipe.sequence_length)
        return data.create_news_folder(self._run, sizes, shuffled=recipe.shuffle_documents)

    def survey(self) -> Survey:
        """Count and hash both splits."""
        folder, length = self.root, require_positive_setting(self.settings, "max_sequence_length")
        sizes = data.select_sizes(self._run, length)
        for split in (data.TRAIN_SPLIT, data.VALIDATION_SPLIT):
            data.read_sequences(folder, split, length)
        samples = {data.TRAIN_SPLIT: sizes.train, data.VALIDATION_SPLIT: sizes.evaluation}
        return Survey(
            samples=samples,
            sha256={name: compute_file_sha256(folder / name) for name in self.parts},
            found={
                **samples,
                "vocabulary": len(list_tokens()),
                "tokenizer_sha256": compute_tokenizer_sha256(),
                "folder": folder.name,
            },
        )

    def check(self, found: Mapping[str, Any]) -> None:
        """Reject a run whose encoded news have disappeared from the cache."""
        check_encoded_folder(self._run, found)


def open_surveyed_sequences(
    run: Run, found: Mapping[str, Any], length: int
) -> tuple[data.Tokens, data.Tokens]:
    """Open the training and the validation sequences: a run's first access to its data."""
    folder = resolve_encoded_folder(run, found)
    training, validation = (
        data.read_sequences(folder, split, length)
        for split in (data.TRAIN_SPLIT, data.VALIDATION_SPLIT)
    )
    return training, validation
