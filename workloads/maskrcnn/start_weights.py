"""Loads start weights: MSRA's ResNet-50 as Caffe2 blobs in a pickle, from a file that the user
names; nothing is downloaded.

T:maskrcnn, utils/c2_model_loading.py: MODEL.WEIGHT catalog://ImageNetPretrained/MSRA/R-50.
Batch-norm there is one scale and one shift, so the statistics of the frozen layers are 0 and 1.
"""

import hashlib
import io
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from suite.errors import RequestError

MASKRCNN_RANDOM_START: Final = "random"
"""Value of model.start_weights for networks that are not trained: of random weights only the speed
is measured.
"""
TORCHVISION_BRANCH_NAMES: Final[Mapping[str, str]] = {
    "branch1": "downsample",
    "branch2a": "1",
    "branch2b": "2",
    "branch2c": "3",
}
CAFFE2_BLOB_PATTERN: Final = re.compile(
    r"res(?P<stage>[2-5])_(?P<block>\d+)_(?P<branch>branch1|branch2[abc])(?P<norm>_bn)?"
    r"_(?P<kind>[wsb])"
)
ALLOWED_PICKLE_GLOBALS: Final = frozenset(
    {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }
)
"""The only globals that a pickle of arrays needs; any other is rejected."""


class ArrayUnpickler(pickle.Unpickler):
    """Unpickles arrays, and nothing that could execute code."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a global that builds arrays."""
        if (module.replace("numpy._core", "numpy.core"), name) not in ALLOWED_PICKLE_GLOBALS:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return super().find_class(module, name)


def load_msra_weights(body: Any, file: str, sha256: str) -> None:
    """Load the weights into a ResNet-50; RequestError if the file is missing, is a different one,
    or does not fit.
    """
    if not file or not sha256:
        raise RequestError(
            "this profile of maskrcnn starts from MSRA's ResNet-50: --set "
            "model.start_weights=R-50.pkl --set model.start_sha256=HASH"
        )
    content = read_start_weights(Path(file).expanduser(), sha256)
    try:
        blobs = ArrayUnpickler(io.BytesIO(content), encoding="latin1").load()
        weights = {
            name: torch.from_numpy(np.asarray(value))
            for key, value in blobs.get("blobs", blobs).items()
            if (name := convert_caffe2_blob_name(str(key)))
        }
        missing_weights = [
            key
            for key in load_matching_weights(body, weights).missing_keys
            if "running" not in key and "num_batches" not in key
        ]
    except (
        pickle.UnpicklingError,
        EOFError,
        AttributeError,
        ValueError,
        TypeError,
        RuntimeError,
        LookupError,
        OverflowError,
        MemoryError,
    ) as error:
        reason = [*str(error).splitlines(), type(error).__name__][0]
        raise RequestError(
            f"model.start_weights {file}: not weights of a ResNet-50 ({reason})"
        ) from error
    if missing_weights:
        raise RequestError(f"model.start_weights {file}: {missing_weights[0]} is missing")


def read_start_weights(path: Path, sha256: str) -> bytes:
    """Read a file and compare its hash with the required one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(f"model.start_weights {path}: {error.strerror}") from error
    file_sha256 = hashlib.sha256(content).hexdigest()
    if file_sha256 != sha256.lower():
        raise RequestError(
            f"model.start_weights {path}: its SHA-256 is {file_sha256}, but model.start_sha256 is"
            f" {sha256}"
        )
    return content


def load_matching_weights(body: nn.Module, weights: Mapping[str, torch.Tensor]) -> Any:
    """Load the weights, and return what was missing; classifier layers have no counterpart and were
    dropped.
    """
    return body.load_state_dict(weights, strict=False)


def convert_caffe2_blob_name(blob: str) -> str | None:
    """Return torchvision's name for a Caffe2 blob; None for blobs outside a ResNet's body."""
    if blob in ("conv1_w", "res_conv1_bn_s", "res_conv1_bn_b"):
        return {
            "conv1_w": "conv1.weight",
            "res_conv1_bn_s": "bn1.weight",
            "res_conv1_bn_b": "bn1.bias",
        }[blob]
    blob_match = CAFFE2_BLOB_PATTERN.fullmatch(blob)
    if blob_match is None or (blob_match["kind"] == "w") == bool(blob_match["norm"]):
        return None
    branch, norm = TORCHVISION_BRANCH_NAMES[blob_match["branch"]], bool(blob_match["norm"])
    if branch == "downsample":
        layer = f"downsample.{int(norm)}"
    else:
        layer = f"{'bn' if norm else 'conv'}{branch}"
    parameter = "bias" if blob_match["kind"] == "b" else "weight"
    return f"layer{int(blob_match['stage']) - 1}.{blob_match['block']}.{layer}.{parameter}"
