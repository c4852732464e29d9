"""A checkpoint's folder: podium's description, and the files that transformers and vLLM read beside
the weights; imports no framework.

`config.json` (shape), `tokenizer.json` (as it was given), `tokenizer_config.json` (chat template,
first and last token), `generation_config.json` (greedy, with the tokens that end an answer), and
the weights as `model.safetensors` or as shards with an index. File names and keys: Hugging Face,
transformers documentation, "Sharing models" and "Big models".
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from suite.errors import RequestError
from suite.files.foreign_content import describe_foreign_file
from suite.files.tokenizer_files import MAX_TOKENIZER_BYTES, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from workloads.common.weights_description import WEIGHTS_FILE, write_weights_description
from workloads.llama.shape import LlamaShape, convert_config_to_shape, convert_shape_to_config

LLAMA_NAME: Final = "llama"
CONFIG_FILE: Final = "config.json"
GENERATION_CONFIG_FILE: Final = "generation_config.json"
INDEX_FILE: Final = "model.safetensors.index.json"
SHARD_FORMAT: Final = "model-{number:05}-of-{count:05}.safetensors"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaDescription:
    """What podium records of exported weights; their shape is in `config.json`."""

    workload: str
    tokenizer_sha256: str
    """Hash of `tokenizer.json`, which defines the tokens' ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaTokens:
    """A tokenizer, and the tokens with which texts and answers begin and end."""

    tokenizer: bytes
    """Content of `tokenizer.json`."""
    begin: int
    """First token of every text."""
    ends: tuple[int, ...]
    """Tokens that end an answer; the first one also ends a document and pads."""
    chat_template: str
    """Jinja template that turns messages into a prompt."""


class AddedToken(msgspec.Struct, frozen=True):
    """A token that is never split."""

    id: int
    content: str


class TokenizerModel(msgspec.Struct, frozen=True):
    """The part of `tokenizer.json` that numbers pieces of text."""

    vocab: dict[str, int]


class TokenizerDocument(msgspec.Struct, frozen=True):
    """What is read of `tokenizer.json`."""

    model: TokenizerModel
    added_tokens: tuple[AddedToken, ...] = ()

    def build_token_table(self) -> dict[int, str]:
        """Return all tokens by id."""
        pieces = {number: piece for piece, number in self.model.vocab.items()}
        return pieces | {token.id: token.content for token in self.added_tokens}


class EndTokens(msgspec.Struct, frozen=True):
    """What is read of `generation_config.json`, and of `config.json` if that names none."""

    eos_token_id: int | tuple[int, ...] | None = None


class WeightIndex(msgspec.Struct, frozen=True):
    """What is read of `model.safetensors.index.json`."""

    weight_map: dict[str, str]
    """Name of a tensor -> name of its file."""


def write_llama_documents(shape: LlamaShape, dtype: str, tokens: LlamaTokens, folder: Path) -> None:
    """Write everything but the weights; RequestError if the tokenizer does not fit the shape.

    Args:
        shape: the network's.
        dtype: type of the weights' numbers, such as "float32".
        tokens: written as they are.
        folder: exists; files of these names are replaced.
    """
    table = parse_tokenizer(tokens.tokenizer, TOKENIZER_FILE)
    check_token_table(table, shape, tokens)
    end = tokens.ends[0]
    ids = {"bos_token_id": tokens.begin, "eos_token_id": list(tokens.ends), "pad_token_id": end}
    documents = {
        CONFIG_FILE: convert_shape_to_config(shape, dtype) | ids,
        GENERATION_CONFIG_FILE: ids | {"do_sample": False},
        TOKENIZER_CONFIG_FILE: {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": table[tokens.begin],
            "eos_token": table[end],
            "pad_token": table[end],
            "chat_template": tokens.chat_template,
            "clean_up_tokenization_spaces": False,
            "model_max_length": shape.context,
        },
    }
    for name, document in documents.items():
        write_json_document(folder / name, document)
    (folder / TOKENIZER_FILE).write_bytes(tokens.tokenizer)
    sha256 = hashlib.sha256(tokens.tokenizer).hexdigest()
    write_weights_description(
        LlamaDescription(workload=LLAMA_NAME, tokenizer_sha256=sha256), folder
    )


def write_json_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document with sorted keys, so that equal contents have equal hashes."""
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", "utf-8")


def parse_tokenizer(content: bytes, source: str) -> dict[int, str]:
    """Return a tokenizer's tokens by id; RequestError, which begins with `source`, if it is no
    tokenizer of the Hugging Face library.
    """
    try:
        return msgspec.json.decode(content, type=TokenizerDocument).build_token_table()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"{source}: no tokenizer with numbered tokens ({error})") from error


def check_token_table(table: Mapping[int, str], shape: LlamaShape, tokens: LlamaTokens) -> None:
    """RequestError if a tokenizer has more tokens than the network embeds, or lacks one that begins
    or ends texts.
    """
    largest = max(table, default=0)
    if largest >= shape.vocabulary:
        raise RequestError(
            f"{TOKENIZER_FILE}: it has a token {largest}, and the network embeds"
            f" {shape.vocabulary} tokens, counted from 0; it belongs to another checkpoint"
        )
    absent = [number for number in (tokens.begin, *tokens.ends) if number not in table]
    if absent or not tokens.ends:
        raise RequestError(
            f"{TOKENIZER_FILE}: it lacks token {absent[0] if absent else 'that ends an answer'}"
        )


def read_llama_shape(folder: Path, expected: LlamaShape | None = None) -> LlamaShape:
    """Read the shape of a checkpoint, podium's or another source's; RequestError if there is none,
    if it is another network's, or if it is not the expected one.
    """
    config = read_checkpoint_document(folder, CONFIG_FILE, dict[str, Any])
    shape = convert_config_to_shape(config, f"checkpoint {folder}: {CONFIG_FILE}")
    if expected is not None and shape != expected:
        raise RequestError(
            f"checkpoint {folder}: weights of another shape: {shape.describe_differences(expected)}"
        )
    return shape


def read_end_tokens(folder: Path) -> tuple[int, ...]:
    """Read the ids of the tokens that end an answer, as transformers finds them: in
    `generation_config.json`, or else in `config.json`; RequestError if there are none.
    """
    for name in (GENERATION_CONFIG_FILE, CONFIG_FILE):
        if not (folder / name).exists():
            continue
        found = read_checkpoint_document(folder, name, EndTokens).eos_token_id
        if found is not None:
            return (found,) if isinstance(found, int) else found
    raise RequestError(
        f"checkpoint {folder}: neither {GENERATION_CONFIG_FILE} nor {CONFIG_FILE} has an"
        " eos_token_id, which ends an answer"
    )


def locate_weight_files(folder: Path) -> dict[str, tuple[str, ...] | None]:
    """Return the files that hold a checkpoint's weights, and the tensors that the index promises in
    each; None: all in one file, without an index. RequestError if a file is missing.
    """
    if (folder / WEIGHTS_FILE).is_file():
        return {WEIGHTS_FILE: None}
    if not (folder / INDEX_FILE).is_file():
        raise RequestError(f"checkpoint {folder}: it has neither {WEIGHTS_FILE} nor {INDEX_FILE}")
    weight_map = read_checkpoint_document(folder, INDEX_FILE, WeightIndex).weight_map
    files = sorted(set(weight_map.values()))
    for name in files:
        if Path(name).name != name or not (folder / name).is_file():
            raise RequestError(
                f"checkpoint {folder}: {INDEX_FILE} names {name!r:.80}, which is not there"
            )
    return {
        file: tuple(name for name, place in weight_map.items() if place == file) for file in files
    }


def read_checkpoint_document(folder: Path, name: str, kind: type[T]) -> T:
    """Read one of a checkpoint's JSON documents; RequestError if it is missing or malformed."""
    check_checkpoint_file(folder, name, "JSON")
    try:
        return read_untrusted_file(folder / name, msgspec.json.Decoder(kind).decode)
    except UnreadableError as error:
        raise RequestError(f"checkpoint {folder}: no readable {name} ({error.reason})") from error


def check_checkpoint_file(folder: Path, name: str, wanted: str) -> None:
    """RequestError for a file that stands for another one, or is of another format."""
    if said := describe_foreign_file(folder / name, wanted):
        raise RequestError(f"checkpoint {folder}: {name} {said}")


def check_tokenizer_hash(folder: Path, sha256: str) -> None:
    """RequestError if a checkpoint's tokenizer is not the one with this hash."""
    check_checkpoint_file(folder, TOKENIZER_FILE, TOKENIZER_FILE)
    try:
        content = read_untrusted_file(folder / TOKENIZER_FILE, bytes, MAX_TOKENIZER_BYTES)
    except UnreadableError as error:
        raise RequestError(
            f"checkpoint {folder}: no readable {TOKENIZER_FILE} ({error.reason})"
        ) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise RequestError(
            f"checkpoint {folder}: its {TOKENIZER_FILE} is not that of the data or description"
        )
