"""`podium import`: weights from elsewhere become a checkpoint, by a table of names beside the
workload.
"""

import pickle
import shutil
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from harness.serving.weights.initial import (
    create_scratch_folder,
    export_initial_weights,
    store_untrained_checkpoint,
)
from harness.serving.weights.layouts import (
    WeightLayout,
    list_tensor_differences,
    read_weight_layouts,
    translate_state_dict,
)
from suite.cli import RunOptions
from suite.console.screen import convert_to_user_path, print_progress_note
from suite.errors import RequestError
from suite.files.layout import compute_file_sha256
from suite.process.lock import lock_results_folder

EXPORTED_WEIGHTS_FILE: Final = "model.safetensors"
SAFETENSORS_SUFFIX: Final = ".safetensors"
MAX_ERROR_WORDS: Final = 20
DAMAGED_FILE_ERRORS: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    RuntimeError,
    TypeError,
    ValueError,
    pickle.UnpicklingError,
    struct.error,
)
"""What torch.load raises for bytes that it did not write."""
MAX_NAMED_DIFFERENCES: Final = 3
"""Differences that a refusal names."""


def import_weights(workload: str, file: Path, options: RunOptions) -> None:
    """Turn a file of weights into a checkpoint; RequestError if it cannot be read, or belongs to
    another network.
    """
    known = read_weight_layouts(workload)
    state = read_state_dict(file)
    with lock_results_folder(options.results.absolute()):
        made = create_scratch_folder(options, workload)
        try:
            request = export_initial_weights(workload, options, made)
            layout = replace_exported_weights(
                made / EXPORTED_WEIGHTS_FILE,
                state,
                known,
                f"{file}: weights of another network than {workload} in profile {request.profile}",
            )
            folder = store_untrained_checkpoint(
                request, made, f"imported from {layout.name}, SHA-256 {compute_file_sha256(file)}"
            )
        finally:
            shutil.rmtree(made, ignore_errors=True)
    click.echo(f"{workload}: imported from {layout.name}; never trained here, so it is no result")
    print_progress_note(
        f"next: podium infer {workload} --profile {request.profile} --weights"
        f" {convert_to_user_path(folder, options.results)}"
    )


def read_state_dict(file: Path) -> Mapping[str, Any]:
    """Read a state dict without executing anything in the file; RequestError if it has none."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        with file.open("rb"), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of torch, on pickle protocols: what it cannot read it refuses
            found: Any = (
                load_file(file)
                if file.suffix == SAFETENSORS_SUFFIX
                else torch.load(file, map_location="cpu", weights_only=True)
            )
    except OSError as error:
        raise RequestError(f"{file}: {error.strerror or error}") from error
    except (SafetensorError, *DAMAGED_FILE_ERRORS) as error:
        said = " ".join([type(error).__name__, *str(error).split()][:MAX_ERROR_WORDS])
        raise RequestError(
            f"{file}: neither safetensors nor a state dict that torch.load(weights_only=True) reads"
            f" ({said})"
        ) from error
    if not isinstance(found, Mapping):
        raise RequestError(f"{file}: a {type(found).__name__}, not a state dict")
    return {str(name): tensor for name, tensor in found.items()}


def replace_exported_weights(
    target: Path, state: Mapping[str, Any], known: tuple[WeightLayout, ...], refusal: str
) -> WeightLayout:
    """Replace exported weights with imported ones, in the precision of the network's; RequestError
    with the refusal if no layout fits.
    """
    from safetensors.torch import load_file, save_file

    wanted = load_file(target)
    tried = []
    for layout in known:
        made, strange = translate_state_dict(state, layout)
        problems = [f"unknown {name}" for name in sorted(strange)] + list_tensor_differences(
            made, wanted
        )
        if not problems:
            save_file(
                wanted
                | {
                    name: tensor.to(wanted[name].dtype).contiguous()
                    for name, tensor in made.items()
                },
                target,
            )
            return layout
        tried.append(problems)
    fewest = min(tried, key=len)
    more = (
        f" and {len(fewest) - MAX_NAMED_DIFFERENCES} more"
        if len(fewest) > MAX_NAMED_DIFFERENCES
        else ""
    )
    raise RequestError(f"{refusal}: {', '.join(fewest[:MAX_NAMED_DIFFERENCES])}{more}")
