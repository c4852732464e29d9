"""Opens a worker's predictor. Where memory does not suffice, one sentence names the batch that
fits, before any clock.
"""

from typing import Final

from harness.engines.outputs import is_out_of_memory
from harness.failures import describe_memory_request
from suite.errors import MissingError, PodiumError
from suite.workload import Inference, Predictor

MAX_BATCH_SETTING: Final = "batching.max_batch"


def open_warm_predictor(inference: Inference, number: int, max_batch: int) -> Predictor:
    """Open and warm up a predictor; MissingError where memory does not suffice for its batches."""
    try:
        return warm_up_predictor(inference, number, max_batch)
    except Exception as error:  # each framework has its own types
        if not is_batch_unnamed(error):
            raise
        asked = describe_memory_request(error.__cause__ or error)
        shortage = error.with_traceback(None)  # its frames keep the tensors of the batch
        shortage.__cause__ = shortage.__context__ = None
    fitting = find_fitting_batch(inference, number, max_batch)
    if fitting:
        hint = f"{fitting} fits: --set {MAX_BATCH_SETTING}={fitting}"
    else:
        hint = "not even one sample fits"
    raise MissingError(
        f"memory does not suffice for a batch of {max_batch} ({asked}); {hint}"
    ) from shortage


def warm_up_predictor(inference: Inference, number: int, max_batch: int) -> Predictor:
    """Open a predictor and warm it up."""
    predictor = inference.open(number, max_batch)
    predictor.warm_up()
    return predictor


def is_batch_unnamed(error: Exception) -> bool:
    """Return whether memory was short and the error names no batch that fits."""
    if isinstance(error, PodiumError):
        cause = error.__cause__
        return cause is not None and is_out_of_memory(cause) and MAX_BATCH_SETTING not in str(error)
    return is_out_of_memory(error)


def find_fitting_batch(inference: Inference, number: int, max_batch: int) -> int:
    """Halve a batch until memory suffices; 0 if it does not for one sample."""
    fitting = max_batch // 2
    while fitting and not can_warm_up(inference, number, fitting):
        fitting //= 2
    return fitting


def can_warm_up(inference: Inference, number: int, max_batch: int) -> bool:
    """Return whether memory suffices for a predictor's batches."""
    try:
        warm_up_predictor(inference, number, max_batch)
    except Exception as error:
        cause = error.__cause__ if isinstance(error, PodiumError) else error
        if cause is None or not is_out_of_memory(cause):
            raise
        return False
    return True
