"""Text and tokens of a served checkpoint: its tokenizer and its chat template, applied as
transformers applies them.

Files and keys: Hugging Face, transformers documentation, "Chat templates" and "Tokenizers". The
template comes from whoever made the checkpoint, and runs in Jinja's sandbox.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import jinja2
import jinja2.ext
import msgspec
from jinja2.sandbox import ImmutableSandboxedEnvironment

from suite.errors import RequestError
from suite.files.tokenizer_files import (
    MAX_TOKENIZER_BYTES,
    TOKENIZER_CONFIG_FILE,
    TOKENIZER_FILE,
    import_tokenizers,
    parse_tokenizer_file,
)
from suite.files.untrusted_files import UnreadableError, read_untrusted_file

OPENAI_EXTRA: Final = "openai"
"""The extra for servers of this API, and for measuring them."""
CHAT_TEMPLATE_FILE: Final = "chat_template.jinja"
"""Takes the place of the template in the tokenizer's configuration."""
GENERATION_CONFIG_FILE: Final = "generation_config.json"
DEFAULT_TEMPLATE: Final = "default"
"""Name of the template that is meant, where a checkpoint has several."""


class TokenizerConfig(msgspec.Struct, frozen=True):
    """What is read of the tokenizer's configuration, beside its special tokens."""

    chat_template: str | list[dict[str, str]] | None = None


class GenerationDefaults(msgspec.Struct, frozen=True):
    """What is read of the generation's configuration."""

    eos_token_id: int | tuple[int, ...]


class PromptTextError(RequestError):
    """A prompt that the checkpoint's template refuses."""


class ServedText:
    """Converts between text and tokens.

    Args:
        folder: the checkpoint's. RequestError if it has no readable tokenizer, or names no tokens
            that end answers; MissingError if the package for tokenizers is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.tokenizer = load_tokenizer(folder)
        self.ends = read_end_token_ids(folder)
        self.template, self.special_tokens = load_chat_template(folder)
        self.longest_token: int = max(map(len, self.tokenizer.get_vocab()), default=1)
        """Characters of the longest token."""
        self.new_stream = import_tokenizers(str(folder), OPENAI_EXTRA).decoders.DecodeStream

    def encode_text(self, text: str) -> list[int]:
        """Convert a text to the ids of a prompt, with the tokens that begin every text."""
        return self.encode_one(text, add_special_tokens=True)

    def encode_rendered(self, text: str) -> list[int]:
        """Convert a text that the template has written to the ids of a prompt."""
        return self.encode_one(text, add_special_tokens=False)

    def encode_one(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Convert a text to ids. The call for one text alone keeps all other threads waiting."""
        (encoded,) = self.tokenizer.encode_batch([text], add_special_tokens=add_special_tokens)
        ids: list[int] = encoded.ids
        return ids

    def render_chat(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Convert messages to the text of a prompt, by the checkpoint's template; PromptTextError
        if there is none, or if it refuses them.
        """
        if self.template is None:
            raise PromptTextError(
                "this checkpoint has no chat template: use /v1/completions, or a checkpoint that"
                " has one"
            )
        try:
            return self.template.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=True,
                **self.special_tokens,
            )
        except Exception as error:  # the template is somebody else's program
            raise PromptTextError(
                f"the chat template refuses these messages: {' '.join(str(error).split())}"
            ) from error

    def open_stream(self) -> "TextStream":
        """Begin the text of an answer."""
        return TextStream(self)


class TextStream:
    """An answer's text, as its tokens come."""

    def __init__(self, owner: ServedText) -> None:
        self.tokenizer, self.ends = owner.tokenizer, owner.ends
        self.decoder = owner.new_stream(skip_special_tokens=True)
        self.ids: list[int] = []
        self.length = 0
        """Characters so far."""

    def decode_alone(self, token: int) -> str:
        """Return the text of a token by itself, special ones' names included."""
        text: str = self.tokenizer.decode([token], skip_special_tokens=False)
        return text

    def add_token(self, token: int) -> str:
        """Return the text that is whole with this token: "" for a part of a character, and for
        special tokens.
        """
        if token in self.ends:
            return ""
        self.ids.append(token)
        text: str = self.decoder.step(self.tokenizer, token) or ""
        self.length += len(text)
        return text

    def finish_text(self) -> str:
        """Return what the whole text has behind the parts so far: of a character that the answer
        cuts, the sign for it.
        """
        whole: str = self.tokenizer.decode(self.ids, skip_special_tokens=True)
        return whole[self.length :]


def load_tokenizer(folder: Path) -> Any:
    """Load a checkpoint's tokenizer; RequestError if it has none."""
    path = folder / TOKENIZER_FILE
    try:
        content = read_untrusted_file(path, bytes, MAX_TOKENIZER_BYTES)
    except UnreadableError as error:
        raise RequestError(
            f"checkpoint {folder}: no readable {TOKENIZER_FILE} ({error.reason}); this API needs it"
        ) from error
    return parse_tokenizer_file(content, str(path), OPENAI_EXTRA)


def read_end_token_ids(folder: Path) -> frozenset[int]:
    """Read the tokens that end an answer; RequestError if a checkpoint names none."""
    path = folder / GENERATION_CONFIG_FILE
    try:
        found = read_untrusted_file(path, msgspec.json.Decoder(GenerationDefaults).decode)
    except UnreadableError as error:
        raise RequestError(f"{path}: no tokens that end an answer ({error.reason})") from error
    ends = found.eos_token_id
    return frozenset((ends,) if isinstance(ends, int) else ends)


def load_chat_template(folder: Path) -> tuple[jinja2.Template | None, dict[str, str]]:
    """Load a checkpoint's template, None if it has none, and the special tokens that templates may
    name; RequestError if it cannot be read.
    """
    path = folder / TOKENIZER_CONFIG_FILE
    if not path.is_file():
        return None, {}
    try:
        document = read_untrusted_file(path, msgspec.json.Decoder(dict[str, Any]).decode)
        config = msgspec.convert(document, TokenizerConfig)
        own = folder / CHAT_TEMPLATE_FILE
        source: str | None
        if own.is_file():
            source = read_untrusted_file(own, bytes).decode()
        else:
            source = choose_template_source(config)
        template = None if source is None else build_chat_environment().from_string(source)
    except (UnreadableError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise RequestError(f"{path}: no readable chat template ({error})") from error
    except jinja2.TemplateError as error:
        raise RequestError(f"{path}: its chat template is broken ({error})") from error
    return template, select_special_tokens(document)


def choose_template_source(config: TokenizerConfig) -> str | None:
    """Return the template's text: of several, the default one."""
    if not isinstance(config.chat_template, list):
        return config.chat_template
    named = {each.get("name"): each.get("template") for each in config.chat_template}
    return named.get(DEFAULT_TEMPLATE)


def select_special_tokens(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the tokens that a template may name, such as `bos_token`; written as text, or as an
    object with the text in it.
    """
    found = {
        key: value.get("content") if isinstance(value, dict) else value
        for key, value in document.items()
        if key.endswith("_token")
    }
    return {key: value for key, value in found.items() if isinstance(value, str)}


def build_chat_environment() -> ImmutableSandboxedEnvironment:
    """Build the environment that templates are written for. Source: transformers,
    utils/chat_template_utils.py, `_cached_compile_jinja_template`.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = format_template_json
    environment.globals["raise_exception"] = raise_template_error
    environment.globals["strftime_now"] = format_current_time
    return environment


def read_generation_block(_: jinja2.ext.Extension, parser: Any) -> Any:
    """Return the statements inside the block, as Jinja asks an extension for them."""
    next(parser.stream)
    return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class GenerationBlock(jinja2.ext.Extension):
    """The block `generation`, which marks what the model has said and changes no text."""

    tags = {"generation"}  # noqa: RUF012 - Jinja's own declaration
    parse = read_generation_block


def format_template_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Format a value as JSON, without Jinja's own escapes for HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def raise_template_error(message: str) -> None:
    """Refuse messages, as a template asks for."""
    raise jinja2.TemplateError(message)


def format_current_time(pattern: str) -> str:
    """Format the local time, as templates ask for."""
    return datetime.now().strftime(pattern)
