"""Prompts for servers: the same tokens as in LoadGen's own process, whichever way they are sent."""

import subprocess
import sys
from pathlib import Path

import jinja2
import pytest
from tokenizers import Tokenizer

from workloads.llama.serving_set import generate_serving_documents
from workloads.llama.survey import NEWS_CHAT_TEMPLATE
from workloads.llama.vocabulary import BEGIN_TOKEN, encode_prompt, encode_text, format_tokenizer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_str(format_tokenizer())


def test_messages_become_the_tokens_of_the_prompt(tokenizer: Tokenizer) -> None:
    """By the checkpoint's template, as a server applies it."""
    template = jinja2.Environment().from_string(NEWS_CHAT_TEMPLATE)
    for document in generate_serving_documents():
        text = template.render(
            bos_token=BEGIN_TOKEN,
            messages=[{"role": "user", "content": document.article}],
            add_generation_prompt=True,
        )
        assert tokenizer.encode(text, add_special_tokens=False).ids == encode_prompt(document)


def test_summaries_become_the_same_tokens_again(tokenizer: Tokenizer) -> None:
    """Answers come as text: whatever was generated has to be found in it."""
    for document in generate_serving_documents():
        ids = encode_text(document.summary)
        text = tokenizer.decode(ids)
        assert tokenizer.encode(text, add_special_tokens=False).ids == ids


def test_prompts_import_no_framework() -> None:
    """LoadGen's side of servers starts within a second."""
    script = "import sys, workloads.llama.prompts; sys.exit('torch' in sys.modules)"
    root = Path(__file__).parents[3]
    assert subprocess.run([sys.executable, "-c", script], cwd=root).returncode == 0
