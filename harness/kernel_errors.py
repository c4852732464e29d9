"""Detects kernels that lack the requested precision from each framework's errors, and reports them
to the user.
"""

from pathlib import Path
from typing import Final

from harness.failures import iterate_error_causes, write_traceback
from suite.errors import MissingError, PodiumError
from suite.terms import Precision

MISSING_KERNEL_MESSAGES: Final = (
    "could not create a primitive",
    "could not execute a primitive",
    "not implemented for 'half'",
    "not implemented for 'bfloat16'",
    "not implemented for 'float8",
    "could not run 'aten::",
    "could not run 'torchvision::",
    "no kernel image is available",
    "cublas_status_not_supported",
    "cublas_status_arch_mismatch",
    "cudnn_status_not_supported",
    "cudnn_status_arch_mismatch",
    "not_implemented : could not find an implementation",
    "no opkernel was registered",
)
"""Messages of oneDNN (ideep's mkldnn errors), PyTorch (Dispatch.h, the dispatcher), CUDA, cuBLAS
and cuDNN (status names), ONNX Runtime and TensorFlow.
"""


MAX_ERROR_EXCERPT: Final = 200
"""Characters of a framework's message that a sentence quotes."""


class KernelError(MissingError):
    """A kernel on this machine does not support the requested precision."""


def is_kernel_missing(error: BaseException) -> bool:
    """Check whether an error means that a kernel is missing."""
    return isinstance(error, KernelError) or any(
        sign in str(each).casefold()
        for each in iterate_error_causes(error)
        for sign in MISSING_KERNEL_MESSAGES
    )


def format_first_sentence(error: BaseException) -> str:
    """Return the first sentence of an exception, with its type."""
    text = " ".join(str(error).split()).partition(". ")[0][:MAX_ERROR_EXCERPT]
    if isinstance(error, PodiumError):
        return text
    return f"{type(error).__name__}: {text}"


def describe_missing_kernel(workload: str, precision: Precision, error: BaseException) -> str:
    """Describe the precision that this machine's kernels do not support for a workload, and name an
    alternative.
    """
    instead = ""
    if precision is not Precision.FP32:
        instead = "take --precision fp32; "
    return (
        f"{workload}: this machine's kernels do not run it in {precision}"
        f" ({format_first_sentence(error)}); {instead}`podium doctor {workload}` names what runs"
        " here"
    )


def write_traceback_and_explain(
    workload: str, precision: Precision, error: PodiumError, folder: Path
) -> PodiumError:
    """Add the traceback's path to a child's failure, and advice to a kernel error; other errors
    stay as they are.
    """
    if not hasattr(error, "__notes__"):
        return error
    if is_kernel_missing(error):
        explanation = describe_missing_kernel(workload, precision, error)
    else:
        explanation = str(error)
    return type(error)(f"{explanation}; {write_traceback(folder, 0, error)}")
