"""A published checkpoint as one of the workload's: the part of `podium import`."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from suite.errors import RequestError
from suite.files.tokenizer_files import TOKENIZER_CONFIG_FILE
from suite.workload import Run
from workloads.common.run_request import resolve_data_survey
from workloads.llama.checkpoint import (
    check_tokenizer_hash,
    read_checkpoint_document,
    read_end_tokens,
    read_llama_shape,
)
from workloads.llama.recipe import LlamaRecipe
from workloads.llama.survey import LlamaDataSet, load_run_tokens
from workloads.llama.weights import (
    export_llama_checkpoint,
    load_llama_checkpoint,
    read_weight_type,
)

CHAT_TEMPLATE_KEY: Final = "chat_template"


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
    recipe = LlamaRecipe.build_from_settings(run.settings)
    shape = read_llama_shape(source)
    wanted = recipe.build_shape(int(found["vocabulary"]), shape.context)
    if differences := shape.describe_differences(wanted):
        raise RequestError(
            f"checkpoint {source}: weights of another shape than llama in profile {run.profile}:"
            f" {differences}"
        )
    check_tokenizer_hash(source, str(found["tokenizer_sha256"]))
    tokens = replace(load_run_tokens(run), ends=read_end_tokens(source))
    if template := find_chat_template(source):
        tokens = replace(tokens, chat_template=template)
    network = load_llama_checkpoint(source, shape, read_weight_type(source))
    export_llama_checkpoint(network.state_dict(), shape, tokens, folder)


def find_chat_template(source: Path) -> str | None:
    """Return the template of a published checkpoint; None if it has none."""
    if not (source / TOKENIZER_CONFIG_FILE).is_file():
        return None
    config: Mapping[str, Any] = read_checkpoint_document(
        source, TOKENIZER_CONFIG_FILE, dict[str, Any]
    )
    template = config.get(CHAT_TEMPLATE_KEY)
    return template if isinstance(template, str) else None
