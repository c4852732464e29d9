"""Loads start weights: MSRA's ResNet-50 as Caffe2 blobs in a pickle, from a file that the user
names; nothing is downloaded.

T:maskrcnn, utils/c2_model_loading.py: MODEL.WEIGHT catalog://ImageNetPretrained/MSRA/R-50.
Batch-norm there is one scale and one shift,
so the statistics of the frozen layers are 0 and 1.
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

NONE: Final = "random"
"""Value of model.start_weights for networks that are not trained: of random weights only the speed
is measured.
"""
BRANCHES: Final[Mapping[str, str]] = {
    "branch1": "downsample",
    "branch2a": "1",
    "branch2b": "2",
    "branch2c": "3",
}
BLOB: Final = re.compile(
    r"res(?P<stage>[2-5])_(?P<block>\d+)_(?P<branch>branch1|branch2[abc])(?P<norm>_bn)?_(?P<kind>[wsb])"
)
ARRAYS: Final = frozenset(
    {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }
)
"""The only globals that a pickle of arrays needs; any other is rejected."""


class Arrays(pickle.Unpickler):
    """Unpickles arrays, and nothing that could execute code."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a global that builds arrays."""
        if (module.replace("numpy._core", "numpy.core"), name) not in ARRAYS:
            raise pickle.UnpicklingError(f"it wants {module}.{name}")
        return super().find_class(module, name)


def fill(body: Any, file: str, sha256: str) -> None:
    """Load the weights into a ResNet-50; RequestError if the file is missing, is a different one,
    or does not fit.
    """
    if not file or not sha256:
        raise RequestError(
            "maskrcnn starts from MSRA's ResNet-50 here: --set model.start_weights=R-50.pkl --set"
            " model.start_sha256=HASH"
        )
    content = content_of(Path(file).expanduser(), sha256)
    try:
        blobs = Arrays(io.BytesIO(content), encoding="latin1").load()
        weights = {
            name: torch.from_numpy(np.asarray(value))
            for key, value in blobs.get("blobs", blobs).items()
            if (name := renamed(str(key)))
        }
        lacking = [
            key
            for key in fitted(body, weights).missing_keys
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
        said = [*str(error).splitlines(), type(error).__name__][0]
        raise RequestError(
            f"model.start_weights {file}: not weights of a ResNet-50 ({said})"
        ) from error
    if lacking:
        raise RequestError(f"model.start_weights {file}: it has no {lacking[0]}")


def content_of(path: Path, sha256: str) -> bytes:
    """Read a file and compare its hash with the required one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(f"model.start_weights {path}: {error.strerror}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256.lower():
        raise RequestError(
            f"model.start_weights {path}: its SHA-256 is {found}, but model.start_sha256 is"
            f" {sha256}"
        )
    return content


def fitted(body: nn.Module, weights: Mapping[str, torch.Tensor]) -> Any:
    """Load the weights, and return what was missing; classifier layers have no counterpart and were
    dropped.
    """
    return body.load_state_dict(weights, strict=False)


def renamed(blob: str) -> str | None:
    """Return torchvision's name for a Caffe2 blob; None for blobs outside a ResNet's body."""
    if blob in ("conv1_w", "res_conv1_bn_s", "res_conv1_bn_b"):
        return {
            "conv1_w": "conv1.weight",
            "res_conv1_bn_s": "bn1.weight",
            "res_conv1_bn_b": "bn1.bias",
        }[blob]
    found = BLOB.fullmatch(blob)
    if found is None or (found["kind"] == "w") == bool(found["norm"]):
        return None
    branch, norm = BRANCHES[found["branch"]], bool(found["norm"])
    layer = (
        f"downsample.{int(norm)}"
        if branch == "downsample"
        else f"{'bn' if norm else 'conv'}{branch}"
    )
    parameter = "bias" if found["kind"] == "b" else "weight"
    return f"layer{int(found['stage']) - 1}.{found['block']}.{layer}.{parameter}"
