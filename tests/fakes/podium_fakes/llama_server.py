"""podium's own server of OpenAI's API in this process, over a network that a test has changed; it
says nothing of what it serves, as other programs' servers do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.serving.network.access import ServerCredentials
from harness.serving.network.openai.server.openai_server import OpenAiServer, ServedModel
from harness.serving.network.openai.server.request_fields import PromptLimits
from harness.serving.network.openai.server.served_text import ServedText
from harness.serving.network.openai.server.token_service import TokenService
from harness.serving.network.wire import Endpoint

SLOTS = 32
LONGEST_ANSWER = 24


@contextmanager
def serve_network(network: Any, folder: Path, dtype: Any) -> Iterator[str]:
    """Serve a network with the tokenizer and the chat template of a folder; yield the address."""
    from workloads.llama.generation import LlamaGenerator

    text = ServedText(folder)
    service = TokenService(
        lambda: LlamaGenerator(
            network,
            slots=SLOTS,
            longest=network.shape.context,
            ends=text.ends,
            max_new_tokens=LONGEST_ANSWER,
            dtype=dtype,
        ),
        text.ends,
    )
    generator = service.start_service()
    server = OpenAiServer(Endpoint(tls=False, host="127.0.0.1", port=0), ServerCredentials())
    port = server.start_server()
    server.serve_model(
        ServedModel(
            limits=PromptLimits(
                model="llama",
                vocabulary_size=generator.vocabulary_size,
                max_sequence_tokens=generator.max_sequence_tokens,
                max_new_tokens=generator.max_new_tokens,
                has_log_probabilities=True,
            ),
            text=text,
            service=service,
            most_calls=2048,
            facts=b"{}",
        )
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop_server()
        service.stop_service()
