"""`podium import`: weights from elsewhere become a checkpoint, by a table of names beside the
workload, or, for a folder as transformers writes it, by a part of the workload.
"""

import pickle
import shutil
import struct
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import click

from harness.request import RunRequest, resolve_request
from harness.serving.weights.initial import (
    build_untrained_run,
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
from suite import registry
from suite.cli import RunOptions
from suite.console.screen import convert_to_user_path, print_progress_note
from suite.errors import RequestError
from suite.files.layout import compute_file_sha256, compute_folder_sha256
from suite.process.lock import lock_results_folder
from suite.records import format_imported_origin

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
PUBLISHED_CHECKPOINT: Final = "a published checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenImport:
    """A checkpoint that was written from elsewhere."""

    request: RunRequest
    name: str
    """Of the source."""
    sha256: str


def import_weights(workload: str, source: Path, options: RunOptions) -> None:
    """Turn a file of weights, or the folder of a published checkpoint, into a checkpoint;
    RequestError if it cannot be read, or belongs to another network.
    """
    convert = registry.load_workload(workload).import_checkpoint
    if convert is None:
        write_checkpoint = prepare_file_import(workload, source, options)
    else:
        write_checkpoint = prepare_folder_import(workload, source, options, convert)
    with lock_results_folder(options.results.absolute()):
        made = create_scratch_folder(options, workload)
        try:
            written = write_checkpoint(made)
            folder = store_untrained_checkpoint(
                written.request, made, format_imported_origin(written.name, written.sha256)
            )
        finally:
            shutil.rmtree(made, ignore_errors=True)
    print_next_step(written, convert_to_user_path(folder, options.results))


def print_next_step(written: WrittenImport, folder: Path | str) -> None:
    """Say what may be done with imported weights, and by which command."""
    request = written.request
    command = f"next: podium infer {request.name} --profile {request.profile}"
    served = request.row.inference.get(request.profile)
    published = served.published_weights if served else ""
    if not published:
        click.echo(
            f"{request.name}: imported from {written.name}; never trained here, so it is no result"
        )
        print_progress_note(f"{command} --weights {folder}")
        return
    click.echo(
        f"{request.name}: imported from {written.name}; profile {request.profile} serves"
        f" {published}, and that these are its weights is your word"
    )
    print_progress_note(f"{command} --checkpoint {folder}")


def prepare_file_import(
    workload: str, file: Path, options: RunOptions
) -> Callable[[Path], WrittenImport]:
    """Read a file of weights and the workload's table of names; return what writes the checkpoint
    into a folder.
    """
    known = read_weight_layouts(workload)
    state = read_state_dict(file)

    def write_checkpoint(made: Path) -> WrittenImport:
        request = export_initial_weights(workload, options, made)
        layout = replace_exported_weights(
            made / EXPORTED_WEIGHTS_FILE,
            state,
            known,
            f"{file}: weights of another network than {workload} in profile {request.profile}",
        )
        return WrittenImport(request=request, name=layout.name, sha256=compute_file_sha256(file))

    return write_checkpoint


def prepare_folder_import(
    workload: str, source: Path, options: RunOptions, convert: str
) -> Callable[[Path], WrittenImport]:
    """Check that a source is a folder; return what converts it into a checkpoint's folder."""
    if not source.is_dir():
        raise RequestError(
            f"{source}: {workload} is imported from the folder of a published checkpoint, which has"
            " config.json, tokenizer.json, and weights as safetensors"
        )

    def write_checkpoint(made: Path) -> WrittenImport:
        request = resolve_request(options, workload)
        resolve_name(convert)(build_untrained_run(request), source, made)
        try:
            sha256 = compute_folder_sha256(source)
        except OSError as error:
            raise RequestError(f"{error.filename}: {error.strerror or error}") from error
        return WrittenImport(request=request, name=PUBLISHED_CHECKPOINT, sha256=sha256)

    return write_checkpoint


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
            if file.suffix == SAFETENSORS_SUFFIX:
                found: Any = load_file(file)
            else:
                found = torch.load(file, map_location="cpu", weights_only=True)
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
    if len(fewest) > MAX_NAMED_DIFFERENCES:
        more = f" and {len(fewest) - MAX_NAMED_DIFFERENCES} more"
    else:
        more = ""
    raise RequestError(f"{refusal}: {', '.join(fewest[:MAX_NAMED_DIFFERENCES])}{more}")
