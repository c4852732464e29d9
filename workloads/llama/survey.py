"""Surveys what a run reads, the generated news or the user's data: encodes texts into the cache,
hashes and counts everything.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from suite.dataset import Survey
from suite.errors import RequestError
from suite.files.layout import compute_file_sha256
from suite.rounds import HyperValue
from suite.workload import Run
from workloads.common.setting_values import require_flag_setting, require_positive_setting
from workloads.common.text.encoded import check_encoded_folder, resolve_encoded_folder
from workloads.llama import data
from workloads.llama.checkpoint import LlamaTokens
from workloads.llama.news import PROMPT_END
from workloads.llama.published import articles, corpus
from workloads.llama.published.megatron import SequenceSource
from workloads.llama.published.survey import (
    check_published_data,
    list_expected_file_names,
    survey_published_data,
)
from workloads.llama.published.tokenizer import read_published_tokenizer
from workloads.llama.recipe import LlamaRecipe
from workloads.llama.vocabulary import (
    BEGIN_ID,
    END_ID,
    compute_tokenizer_sha256,
    format_tokenizer,
    list_tokens,
)

LLAMA_DATA_SETTINGS: Final = ("max_sequence_length", "data.shuffle_documents")
NEWS_CHAT_TEMPLATE: Final = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}"
    f"{{% if add_generation_prompt %}}{PROMPT_END}{{% endif %}}"
)
"""Jinja template: a message holds an article, and the answer is its summary."""


class LlamaDataSet:
    """Implements suite.dataset.DataSet, for the generated news and for the user's folder."""

    def __init__(self, run: Run) -> None:
        if run.data is not None and require_flag_setting(run.settings, "data.shuffle_documents"):
            raise RequestError(
                "llama: data.shuffle_documents is for the generated news, not for --data"
            )
        self._run = run
        self.settings: Mapping[str, HyperValue] = {
            key: run.settings[key] for key in LLAMA_DATA_SETTINGS
        }

    @property
    def parts(self) -> Sequence[str]:
        """Return the names of the files that a run may read."""
        if self._run.data is not None:
            return list_expected_file_names()
        return [
            data.locate_split(Path(), split).name
            for split in (data.TRAIN_SPLIT, data.VALIDATION_SPLIT)
        ]

    @property
    def root(self) -> Path:
        """Return the user's folder, or that of the encoded news, which are generated at first
        use.
        """
        if self._run.data is not None:
            return self._run.data
        recipe = LlamaRecipe.build_from_settings(self._run.settings)
        sizes = data.select_sizes(self._run, recipe.sequence_length)
        return data.create_news_folder(self._run, sizes, shuffled=recipe.shuffle_documents)

    def survey(self) -> Survey:
        """Check, count and hash all files."""
        if self._run.data is not None:
            return survey_published_data(self._run, self._run.data)
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
        """Reject a run whose encoded text has disappeared from the cache, or whose data are too
        few.
        """
        if self._run.data is not None:
            check_published_data(self._run, self._run.data, found)
        check_encoded_folder(self._run, found)


def open_surveyed_sequences(
    run: Run, found: Mapping[str, Any], length: int, evaluated: int
) -> tuple[SequenceSource, SequenceSource]:
    """Open the training and the validation sequences: a run's first access to its data.

    Args:
        run: with its data and its seed.
        found: by the survey.
        length: tokens that a sequence predicts.
        evaluated: sequences of the user's validation split that are read; the generated news have
            as many.
    """
    if run.data is not None:
        return (
            corpus.open_training_sequences(run.data, length, run.seed),
            corpus.open_validation_sequences(run.data, length, evaluated),
        )
    folder = resolve_encoded_folder(run, found)
    training, validation = (
        data.read_sequences(folder, split, length)
        for split in (data.TRAIN_SPLIT, data.VALIDATION_SPLIT)
    )
    return training, validation


def load_run_tokens(run: Run) -> LlamaTokens:
    """Return what a checkpoint that a run exports says about its tokens."""
    if run.data is not None:
        return read_published_tokenizer(run.data).build_tokens(articles.CHAT_TEMPLATE)
    return LlamaTokens(
        tokenizer=format_tokenizer().encode(),
        begin=BEGIN_ID,
        ends=(END_ID,),
        chat_template=NEWS_CHAT_TEMPLATE,
    )
