"""Makes torchvision importable with any build of torch: `from
workloads.common.detection.torchvision_import import torchvision`.

torchvision's wheels on PyPI are linked against CUDA libraries. With the CPU build of torch, its
compiled operators do not load, and its import fails at the first operator that it describes. In
that case their schemas are declared here before the import, which suffices for models that only
need convolutions. If the compiled operators load, nothing is declared.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

import torch

COMPILER_MODULE: Final = "torch._dynamo.utils"
# torchvision/csrc/ops/*.cpp, TORCH_LIBRARY_FRAGMENT(torchvision, m): the schemas, copied verbatim.
_POOL_SCHEMA: Final = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SHAPE_SCHEMA: Final = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_DEFORM_SCHEMA: Final = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
    "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)
OPERATOR_SCHEMAS: Final = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    (
        f"roi_align(Tensor input, Tensor rois, {_POOL_SCHEMA}, int sampling_ratio, bool aligned) ->"
        " Tensor"
    ),
    (
        f"_roi_align_backward(Tensor grad, Tensor rois, {_POOL_SCHEMA}, {_SHAPE_SCHEMA}, int"
        " sampling_ratio, bool aligned) -> Tensor"
    ),
    (
        "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float"
        f" rois_scale, int rois_zero_point, {_POOL_SCHEMA}, int sampling_ratio, bool aligned) ->"
        " Tensor"
    ),
    f"roi_pool(Tensor input, Tensor rois, {_POOL_SCHEMA}) -> (Tensor, Tensor)",
    (
        f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_POOL_SCHEMA},"
        f" {_SHAPE_SCHEMA}) -> Tensor"
    ),
    (
        f"ps_roi_align(Tensor input, Tensor rois, {_POOL_SCHEMA}, int sampling_ratio) -> (Tensor,"
        " Tensor)"
    ),
    (
        f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_POOL_SCHEMA}, "
        f"int sampling_ratio, {_SHAPE_SCHEMA}) -> Tensor"
    ),
    f"ps_roi_pool(Tensor input, Tensor rois, {_POOL_SCHEMA}) -> (Tensor, Tensor)",
    (
        f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_POOL_SCHEMA},"
        f" {_SHAPE_SCHEMA}) -> Tensor"
    ),
    f"deform_conv2d({_DEFORM_SCHEMA}) -> Tensor",
    (
        f"_deform_conv2d_backward(Tensor grad, {_DEFORM_SCHEMA}) -> (Tensor, Tensor, Tensor,"
        " Tensor, Tensor)"
    ),
)


def _has_compiled_operators() -> bool:
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return True  # the import below gives the best error message
    for library in Path(spec.origin).parent.glob("_C*"):
        try:
            torch.ops.load_library(library)  # type: ignore[no-untyped-call]
        except OSError:
            return False
        return True
    return False


def _declare_operator_schemas() -> torch.library.Library | None:
    if _has_compiled_operators():
        return None
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in OPERATOR_SCHEMAS:
        library.define(schema)  # type: ignore[no-untyped-call]
    return library


@contextmanager
def _leave_compiler_out() -> Iterator[None]:
    """Avoid the import of torch's compiler, a second of CPU time in every serving process:
    torchvision needs only one of its functions.

    No other thread may import the compiler meanwhile: this module is imported before threads start.
    """
    compiler_module = sys.modules.get(COMPILER_MODULE)
    if compiler_module is None:
        placeholder = ModuleType(COMPILER_MODULE)
        placeholder.is_compile_supported = _is_compile_supported  # type: ignore[attr-defined]
        sys.modules[COMPILER_MODULE] = placeholder
    try:
        yield
    finally:
        if compiler_module is None:
            del sys.modules[COMPILER_MODULE]


def _is_compile_supported(device_type: str) -> bool:
    """Return what torch's compiler says; it is imported only on this call (for deterministic
    gradients of RoIAlign).
    """
    return bool(importlib.import_module(COMPILER_MODULE).is_compile_supported(device_type))


# kept alive: the schemas disappear with the library object
DECLARED_OPERATORS: Final = _declare_operator_schemas()

with _leave_compiler_out():
    import torchvision  # its import needs the schemas above

__all__ = ["DECLARED_OPERATORS", "OPERATOR_SCHEMAS", "torchvision"]
