"""The served documents as prompts for servers behind an OpenAI-compatible API; imports no
framework.
"""

from collections.abc import Sequence
from pathlib import Path

from suite.workload import ChatMessage, Run
from workloads.common import run_request
from workloads.common.setting_values import require_positive_setting
from workloads.common.text.references import write_references
from workloads.common.weights_description import read_weights_description
from workloads.llama.checkpoint import (
    LLAMA_NAME,
    LlamaDescription,
    check_tokenizer_hash,
    read_end_tokens,
)
from workloads.llama.serving_set import (
    MAX_NEW_TOKENS_SETTING,
    generate_serving_documents,
    require_generated_news,
)
from workloads.llama.vocabulary import compute_tokenizer_sha256, encode_prompt


class LlamaPrompts:
    """Articles to summarise (suite's PromptSource).

    RequestError for a checkpoint of another workload or tokenizer, and for data of the user's.
    """

    def __init__(self, run: Run, checkpoint: Path) -> None:
        require_generated_news(run)
        self._row = run_request.require_run_inference_row(run, LLAMA_NAME)
        read_weights_description(checkpoint, LlamaDescription, LLAMA_NAME)
        check_tokenizer_hash(checkpoint, compute_tokenizer_sha256())
        self.end_token = read_end_tokens(checkpoint)[0]
        self.max_new_tokens = require_positive_setting(run.settings, MAX_NEW_TOKENS_SETTING)
        self._documents = generate_serving_documents()

    @property
    def sample_count(self) -> int:
        """Number of documents in the accuracy set."""
        return len(self._documents)

    @property
    def performance_sample_count(self) -> int:
        """The round's sample count, or all samples if there are fewer."""
        return min(self._row.performance_samples, self.sample_count)

    def tokenize_prompt(self, sample: int) -> Sequence[int]:
        """Return the token ids of a document's prompt."""
        return encode_prompt(self._documents[sample])

    def build_messages(self, sample: int) -> Sequence[ChatMessage]:
        """Return the article; the chat template appends what asks for a summary."""
        return (ChatMessage(role="user", content=self._documents[sample].article),)

    def write_truth(self, folder: Path) -> None:
        """Write the reference summaries."""
        write_references(folder, [document.summary for document in self._documents])
