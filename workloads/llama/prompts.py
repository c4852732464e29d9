"""The served documents as prompts for servers behind an OpenAI-compatible API; imports no
framework.
"""

from collections.abc import Sequence
from pathlib import Path

from suite.rounds import MAX_NEW_TOKENS_SETTING
from suite.workload import ChatMessage, Run
from workloads.common import run_request
from workloads.common.setting_values import require_positive_setting
from workloads.common.weights_description import read_weights_description
from workloads.llama.checkpoint import (
    LLAMA_NAME,
    LlamaDescription,
    check_tokenizer_hash,
    read_end_tokens,
)
from workloads.llama.serving_set import load_serving_set


class LlamaPrompts:
    """Articles to summarise (suite's PromptSource).

    RequestError for a checkpoint of another workload or tokenizer, and for data that cannot be
    served.
    """

    def __init__(self, run: Run, checkpoint: Path) -> None:
        self._row = run_request.require_run_inference_row(run, LLAMA_NAME)
        self._set = load_serving_set(run)
        read_weights_description(checkpoint, LlamaDescription, LLAMA_NAME)
        check_tokenizer_hash(checkpoint, self._set.tokenizer_sha256)
        self.end_token = read_end_tokens(checkpoint)[0]
        self.max_new_tokens = require_positive_setting(run.settings, MAX_NEW_TOKENS_SETTING)

    @property
    def sample_count(self) -> int:
        """Number of documents in the accuracy set."""
        return len(self._set.prompts)

    @property
    def performance_sample_count(self) -> int:
        """The round's sample count, or all samples if there are fewer."""
        return min(self._row.performance_samples, self.sample_count)

    def tokenize_prompt(self, sample: int) -> Sequence[int]:
        """Return the token ids of a document's prompt."""
        return self._set.prompts[sample]

    def build_messages(self, sample: int) -> Sequence[ChatMessage]:
        """Return the article; the chat template adds what asks for a summary."""
        return (ChatMessage(role="user", content=self._set.decode_article(sample)),)

    def write_truth(self, folder: Path) -> None:
        """Write what answers are scored with."""
        self._set.write_truth(folder)
