"""What the language model reads of the user: indices of tokens, tokenizers, articles, summaries."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

from compliance.kinds.podium.reader import SCORER_EXCEPTIONS
from fuzzing.reading import Reader
from suite.files.tokenizer_files import TOKENIZER_FILE
from workloads.llama.checkpoint import read_llama_shape
from workloads.llama.published import articles, megatron, summaries
from workloads.llama.published.tokenizer import (
    BEGIN_OF_TEXT,
    ENDS_OF_ANSWERS,
    parse_published_tokenizer,
    read_published_tokenizer,
)

TOKENIZER = {
    "model": {"type": "BPE", "vocab": {BEGIN_OF_TEXT: 0, ENDS_OF_ANSWERS[0]: 1, "a": 2, "b": 3}},
    "added_tokens": [
        {"id": 0, "content": BEGIN_OF_TEXT, "special": True},
        {"id": 1, "content": ENDS_OF_ANSWERS[0], "special": True},
    ],
    "decoder": {"type": "ByteLevel"},
}
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
}


def read_index(path: Path) -> object:
    """Open a corpus, check it whole, and read a sequence in both orders."""
    corpus = megatron.open_indexed_tokens(path.with_suffix(""))
    megatron.check_index(corpus)
    megatron.hash_valid_tokens(corpus, 50)
    return (
        megatron.FirstSequences(corpus, 4, 1)[[0]],
        megatron.ShuffledSequences(corpus, 4, 1)[[0]],
    )


def language_models(work: Path) -> Iterator[Reader]:
    """Yield the readers."""
    folder = work / "llama"
    folder.mkdir()
    (folder / "c4.bin").write_bytes(struct.pack("<12i", *range(12)))
    index = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 4, 3, 4)
    index += struct.pack("<3i3q4q", 3, 4, 5, 0, 12, 28, 0, 1, 2, 3)
    yield Reader(name="token-index", file=folder / "c4.idx", seeds=[index], read=read_index)
    tokenizer = json.dumps(TOKENIZER).encode()
    at = work / "llama-tokenizer" / TOKENIZER_FILE
    yield Reader(
        name="tokenizer",
        file=at,
        seeds=[tokenizer],
        read=lambda path: read_published_tokenizer(path.parent).decode_answer([0, 2, 3, 1]),
    )
    known = parse_published_tokenizer(tokenizer, TOKENIZER_FILE)
    records = [{"instruction": "", "input": "a", "output": "b", "tok_input": [0, 2]}]
    yield Reader(
        name="articles",
        file=work / "llama-articles" / articles.ARTICLES_FILE,
        seeds=[json.dumps(records).encode()],
        read=lambda path: articles.read_articles(path, known),
    )
    yield Reader(
        name="summaries",
        file=work / "llama-truth" / summaries.SUMMARIES_FILE,
        seeds=[b'["a summary", "another\\none"]'],
        read=lambda path: summaries.read_summaries(path.parent),
        raises=SCORER_EXCEPTIONS,
    )
    yield Reader(
        name="llama-config",
        file=work / "llama-config" / "config.json",
        seeds=[json.dumps(CONFIG).encode()],
        read=lambda path: read_llama_shape(path.parent),
    )
