"""A published checkpoint as one of the workload's: the part of `podium import`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from suite.console.screen import print_progress_note
from suite.errors import RequestError
from suite.files.tokenizer_files import TOKENIZER_CONFIG_FILE
from suite.files.untrusted_files import UnreadableError, read_untrusted_text
from suite.workload import Run
from workloads.common.run_request import resolve_data_survey
from workloads.llama.checkpoint import (
    INDEX_FILE,
    LLAMA_NAME,
    check_checkpoint_file,
    check_tokenizer_hash,
    read_checkpoint_document,
    read_end_tokens,
    read_llama_shape,
)
from workloads.llama.recipe import LlamaRecipe, format_shape_value, list_shape_settings
from workloads.llama.shape import LlamaShape
from workloads.llama.survey import LlamaDataSet, load_run_tokens
from workloads.llama.weights import (
    WEIGHT_TYPES,
    WeightFormat,
    export_llama_checkpoint,
    load_llama_checkpoint,
    read_weight_format,
)

TEMPLATE_FILE: Final = "chat_template.jinja"
"""Of a template in a file of its own, as transformers writes it since 4.51."""
TEMPLATE_DOCUMENT: Final = "chat_template.json"
"""Of the templates of processors, up to transformers 4.50."""
DEFAULT_TEMPLATE: Final = "default"
"""Name of the template that is used where there are several and nobody asks for one."""
NEWS_PROMPTS: Final = "prompts are news articles as the round has them"


class NamedTemplate(msgspec.Struct, frozen=True):
    """One template of several."""

    name: str
    template: str


class TemplateDocument(msgspec.Struct, frozen=True):
    """What is read of `tokenizer_config.json` and `chat_template.json`."""

    chat_template: str | tuple[NamedTemplate, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """What a published checkpoint turns messages into prompts with."""

    text: str | None = None
    """None: it says nothing about it."""
    note: str = ""
    """For the user: why there is none."""


def import_llama_checkpoint(run: Run, source: Path, folder: Path) -> None:
    """Write a published checkpoint as an exported one, in the number format that it has.

    RequestError if a file is missing or damaged, if the weights are of another shape than the run's
    settings and data ask for, or if the tokenizer is not that of the data. Nothing is unpickled:
    only safetensors are read.

    Args:
        run: with its settings and data.
        source: a folder as transformers' `save_pretrained` writes it.
        folder: exists and is empty.
    """
    found = resolve_data_survey(run, LlamaDataSet)
    shape = read_llama_shape(source)
    check_imported_shape(run, source, shape, int(found["vocabulary"]))
    check_tokenizer_hash(source, str(found["tokenizer_sha256"]))
    tokens = replace(load_run_tokens(run), ends=read_end_tokens(source))
    template = find_chat_template(source)
    if template.text:
        tokens = replace(tokens, chat_template=template.text)
    weights = read_weight_format(source)
    network = load_llama_checkpoint(source, shape, weights.dtype)
    export_llama_checkpoint(network.state_dict(), shape, tokens, folder)
    for note in (template.note, *describe_weight_format(weights)):
        if note:
            print_progress_note(f"{LLAMA_NAME}: {note}")


def check_imported_shape(run: Run, source: Path, shape: LlamaShape, vocabulary: int) -> None:
    """RequestError for weights of another shape than the run's settings ask for; it names the
    settings with which they come in, if there are such.
    """
    wanted = LlamaRecipe.build_from_settings(run.settings).build_shape(vocabulary, shape.context)
    differences = shape.describe_differences(wanted)
    if not differences:
        return
    needed = {
        key: value
        for key, value in list_shape_settings(shape).items()
        if run.settings[key] != value
    }
    advice = ""
    if shape.vocabulary == vocabulary and needed:
        words = (f"--set {key}={format_shape_value(value)}" for key, value in needed.items())
        advice = f"; {' '.join(words)} takes them"
    raise RequestError(
        f"checkpoint {source}: weights of another shape than llama in profile {run.profile}:"
        f" {differences}{advice}"
    )


def describe_weight_format(weights: WeightFormat) -> Iterator[str]:
    """Say what an import changes or leaves out of the weights, if anything."""
    if len(weights.found) > 1:
        kept = next(name for name, kind in WEIGHT_TYPES.items() if kind is weights.dtype)
        found = " and ".join(weights.found)
        yield f"weights in {found}: all are kept in {kept}, which holds each number exactly"
    for name, file in weights.leftovers.items():
        yield f"{name} of {file} is left out: {INDEX_FILE} names another file for it"


def find_chat_template(source: Path) -> ChatTemplate:
    """Find the template of a published checkpoint in the places where transformers has written it
    over the years, the newest first; RequestError if a file is damaged.
    """
    if (source / TEMPLATE_FILE).is_file():
        return ChatTemplate(text=read_template_text(source))
    named: Any = None
    for name in (TOKENIZER_CONFIG_FILE, TEMPLATE_DOCUMENT):
        if named is None and (source / name).is_file():
            named = read_checkpoint_document(source, name, TemplateDocument).chat_template
    if isinstance(named, str):
        return ChatTemplate(text=named)
    templates = {each.name: each.template for each in named or ()}
    if DEFAULT_TEMPLATE in templates:
        return ChatTemplate(text=templates[DEFAULT_TEMPLATE])
    others = f" named {DEFAULT_TEMPLATE}, only {', '.join(sorted(templates))}" if templates else ""
    return ChatTemplate(note=f"no chat template{others}: {NEWS_PROMPTS}")


def read_template_text(source: Path) -> str:
    """Read a template that has a file of its own."""
    check_checkpoint_file(source, TEMPLATE_FILE, "a Jinja template")
    try:
        return read_untrusted_text(source / TEMPLATE_FILE)
    except UnreadableError as error:
        raise RequestError(
            f"checkpoint {source}: no readable {TEMPLATE_FILE} ({error.reason})"
        ) from error
