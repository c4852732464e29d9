"""The user's prompts as the samples of a system under test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.serving.network.openai.prompt_requests import PromptApi
from harness.serving.prompts.prompt_set import Prompt, PromptSet
from suite.engine import Engine
from suite.errors import JudgedError
from suite.workload import ChatMessage, Inference, PromptSource, Run

DEFAULT_MAX_TOKENS: Final = 256
"""House rule: of an answer, where neither the prompts nor the user say."""
NO_END_TOKEN: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPrompts:
    """All that requests for the user's prompts have, beside what every request of the API has.
    Picklable.
    """

    prompts: PromptSet
    max_tokens: int | None = None
    """The user's word, for all prompts; None: each prompt's own, or DEFAULT_MAX_TOKENS."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of each request's body."""

    def limit_answer(self, prompt: Prompt) -> int:
        """Return the tokens after which the answer to a prompt is cut."""
        return self.max_tokens or prompt.max_tokens or DEFAULT_MAX_TOKENS

    @property
    def most_tokens(self) -> int:
        """Return the highest of these limits."""
        return max(map(self.limit_answer, self.prompts.prompts))


class UserPrompts:
    """Prompts of the user's (suite's PromptSource): in the place of token ids, requests have the
    texts themselves.
    """

    def __init__(self, asked: AskedPrompts) -> None:
        self._asked, self._prompts = asked, asked.prompts.prompts
        self.max_new_tokens = asked.most_tokens
        self.end_token = NO_END_TOKEN

    @property
    def sample_count(self) -> int:
        """Number of prompts."""
        return len(self._prompts)

    @property
    def performance_sample_count(self) -> int:
        """All prompts: their requests are in memory."""
        return len(self._prompts)

    def tokenize_prompt(self, sample: int) -> Sequence[int]:
        """Return one number for each character: nothing but the order of lengths is known."""
        return range(sum(len(each["content"]) for each in self._prompts[sample].list_messages()))

    def build_messages(self, sample: int) -> Sequence[ChatMessage]:
        """Return the conversation, or the text as its only message."""
        return [ChatMessage(**each) for each in self._prompts[sample].list_messages()]

    def build_fields(self, sample: int, api: PromptApi) -> Mapping[str, Any]:
        """Return the fields of a prompt's request that the prompt decides; JudgedError for a
        conversation where the API takes texts.
        """
        prompt, asked = self._prompts[sample], self._asked
        if api is PromptApi.CHAT:
            return {"messages": prompt.list_messages(), **asked.fields}
        if prompt.messages:
            raise JudgedError(
                f"prompt {sample + 1} is a conversation, and /v1/completions takes texts: leave out"
                " endpoint.api"
            )
        return {"prompt": prompt.text, **asked.fields}

    def limit_answer(self, sample: int) -> int:
        """Return the tokens after which an answer is cut."""
        return self._asked.limit_answer(self._prompts[sample])

    def write_truth(self, folder: Path) -> None:
        """Write nothing: answers are not scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptedModel:
    """A model behind an address, in the form of a workload for LoadGen's session."""

    asked: AskedPrompts

    def build_prompts(self, run: Run, checkpoint: Path) -> PromptSource:
        """Return the samples."""
        return UserPrompts(self.asked)

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Refuse: the model is the servers'."""
        raise JudgedError("a network was run on LoadGen's side, and belongs to the servers")
