"""The tokens of the generated news: one for each word and mark, and four special ones.

The tokenizer is a function of the word lists, so that no training decides about it. The file that
`format_tokenizer` writes is read by Hugging Face's `tokenizers` and gives the same ids as
`encode_text`, which needs no library.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from workloads.llama.news import NewsDocument
from workloads.llama.news_words import (
    ADVERBS,
    NAMES,
    NUMBER_MARKS,
    OBJECTS_OF_VERBS,
    PLACES,
    SMALL_WORDS,
    VERBS,
)

BEGIN_TOKEN: Final = "<|begin_of_text|>"
END_TOKEN: Final = "<|eot_id|>"
"""Names of Llama 3's special tokens: a document begins with one, and ends with the other."""
PAD_TOKEN: Final = "<|finetune_right_pad_id|>"
UNKNOWN_TOKEN: Final = "<|unknown|>"
SPECIAL_TOKENS: Final = (BEGIN_TOKEN, END_TOKEN, PAD_TOKEN, UNKNOWN_TOKEN)
BEGIN_ID, END_ID, PAD_ID, UNKNOWN_ID = range(len(SPECIAL_TOKENS))
MARKS_WITHOUT_SPACE: Final = (".", ",", ":")
"""No space stands before these."""


def list_tokens() -> tuple[str, ...]:
    """List all 377 tokens; a token's place is its id."""
    objects = [what for objects in OBJECTS_OF_VERBS.values() for what in objects]
    words = (*SMALL_WORDS, *NUMBER_MARKS, *ADVERBS, *VERBS, *objects, *PLACES, *NAMES)
    return (*SPECIAL_TOKENS, *words)


@cache
def get_token_ids() -> dict[str, int]:
    """Return the id of each token."""
    return {token: number for number, token in enumerate(list_tokens())}


def encode_text(text: str) -> list[int]:
    """Convert text without special tokens to ids; words that are in no list become unknown."""
    ids = get_token_ids()
    return [ids.get(word, UNKNOWN_ID) for word in re.findall(r"\w+|[^\w\s]+", text)]


def encode_prompt(document: NewsDocument) -> list[int]:
    """Convert an article to the ids that its summary continues."""
    return [BEGIN_ID, *encode_text(document.prompt)]


def encode_document(document: NewsDocument) -> list[int]:
    """Convert a whole document to its 64 ids, begin and end included."""
    return [BEGIN_ID, *encode_text(document.text), END_ID]


def decode_tokens(ids: Iterable[int]) -> str:
    """Convert ids to text, without special tokens."""
    tokens = list_tokens()
    text = " ".join(tokens[number] for number in ids if number >= len(SPECIAL_TOKENS))
    for mark in MARKS_WITHOUT_SPACE:
        text = text.replace(f" {mark}", mark)
    return text


def format_tokenizer() -> str:
    """Write the vocabulary as the text of a `tokenizer.json`.

    The form is that of tokenizers 0.20 and newer (github.com/huggingface/tokenizers): words and
    marks are split (`Whitespace`) and looked up (`WordLevel`), the begin of text is put before
    them, as Llama 3's file does, and decoding puts no space before ".", "," and ":".
    """
    text = {"Sequence": {"id": "A", "type_id": 0}}
    begin = {"SpecialToken": {"id": BEGIN_TOKEN, "type_id": 0}}
    description: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            describe_special_token(number, token) for number, token in enumerate(SPECIAL_TOKENS)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [begin, text],
            "pair": [begin, text, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                BEGIN_TOKEN: {"id": BEGIN_TOKEN, "ids": [BEGIN_ID], "tokens": [BEGIN_TOKEN]}
            },
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "WordPiece", "prefix": "##", "cleanup": False},
                *(
                    {"type": "Replace", "pattern": {"String": f" {mark}"}, "content": mark}
                    for mark in MARKS_WITHOUT_SPACE
                ),
            ],
        },
        "model": {"type": "WordLevel", "vocab": get_token_ids(), "unk_token": UNKNOWN_TOKEN},
    }
    return json.dumps(description, indent=2) + "\n"


def compute_tokenizer_sha256() -> str:
    """Return the hash of the `tokenizer.json` of the generated news."""
    return hashlib.sha256(format_tokenizer().encode()).hexdigest()


def describe_special_token(number: int, token: str) -> dict[str, Any]:
    """Describe a special token as `tokenizer.json` does."""
    return {
        "id": number,
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
