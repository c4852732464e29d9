"""The generated news that are served; imports no framework, since reports show them."""

from collections.abc import Sequence
from typing import Final

from workloads.llama.news import NewsDocument, generate_documents

SERVING_SEED: Final = 2
"""Stream of the served news; no document of it is trained on or evaluated."""
SERVING_DOCUMENTS: Final = 512


def generate_serving_documents(count: int = SERVING_DOCUMENTS) -> Sequence[NewsDocument]:
    """Generate the served news; the same on every machine."""
    return tuple(generate_documents(SERVING_SEED, count))
