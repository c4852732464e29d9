"""The documents that are served: prompts as token ids, with the summaries that answers are compared
with; imports no framework.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from suite.errors import RequestError
from suite.workload import Run
from workloads.llama.news import NewsDocument, generate_documents
from workloads.llama.vocabulary import encode_prompt

SERVING_SEED: Final = 2
"""Stream of the served news; no document of it is trained on or evaluated."""
SERVING_DOCUMENTS: Final = 512
MAX_NEW_TOKENS_SETTING: Final = "decode.max_new_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingSet:
    """Prompts and reference summaries, by sample number."""

    prompts: Sequence[Sequence[int]]
    """Token ids of each prompt."""
    summaries: Sequence[str]


def generate_serving_documents(count: int = SERVING_DOCUMENTS) -> Sequence[NewsDocument]:
    """Generate the served news; the same on every machine."""
    return tuple(generate_documents(SERVING_SEED, count))


def require_generated_news(run: Run) -> None:
    """RequestError if the run names data of its own."""
    if run.data is not None:
        raise RequestError(
            "llama: --data is not supported yet; without it, the generated news are used"
        )


def load_serving_set(run: Run) -> ServingSet:
    """Load the serving set of a run; RequestError if it names data of its own."""
    require_generated_news(run)
    documents = generate_serving_documents()
    return ServingSet(
        prompts=[encode_prompt(document) for document in documents],
        summaries=[document.summary for document in documents],
    )
