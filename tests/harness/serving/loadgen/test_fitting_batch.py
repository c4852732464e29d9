"""Memory that does not suffice for a batch: the sentence names the batch that fits."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.engines.outputs import wrap_with_memory_report
from harness.serving.loadgen.fitting_batch import open_warm_predictor
from suite.errors import MissingError, RequestError

SHORTAGE = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of"


class Predictor:
    """Warms up by its largest batch, or by all of them; what it does there is the test's."""

    def __init__(self, sizes: range, work: Callable[[int], None]) -> None:
        self.sizes, self.work = sizes, work

    def warm_up(self) -> None:
        for size in self.sizes:
            self.work(size)


class Inference:
    """A system whose memory suffices for some samples."""

    def __init__(self, fits: int, *, all_sizes: bool = False, in_engine: bool = False) -> None:
        self.fits, self.all_sizes, self.in_engine = fits, all_sizes, in_engine
        self.tried: list[int] = []

    def open(self, worker: int, max_batch: int) -> Any:
        self.tried.append(max_batch)
        work: Callable[[int], None] = self.allocate
        if self.in_engine:
            call = wrap_with_memory_report("torch", self.run_network)
            work = lambda size: void(call(torch.zeros(size, 1)))  # noqa: E731
        return Predictor(range(1 if self.all_sizes else max_batch, max_batch + 1), work)

    def allocate(self, size: int) -> None:
        if size > self.fits:
            raise torch.OutOfMemoryError(SHORTAGE)

    def run_network(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        self.allocate(len(rows))
        return (rows,)


def void(value: object) -> None:
    """Return nothing."""


@pytest.mark.parametrize("in_engine", [False, True])
@pytest.mark.parametrize(
    ("fits", "hint", "tried"),
    [
        (11, "8 fits: --set batching.max_batch=8", [64, 32, 16, 8]),
        (1, "1 fits: --set batching.max_batch=1", [64, 32, 16, 8, 4, 2, 1]),
        (0, "not even one sample fits", [64, 32, 16, 8, 4, 2, 1]),
    ],
)
def test_the_batch_that_fits_is_found_and_named(
    fits: int, hint: str, tried: list[int], in_engine: bool
) -> None:
    """Outside the engine, as in the copy of a batch or behind the network, and inside it where no
    smaller batch is warmed up.
    """
    system: Any = Inference(fits, in_engine=in_engine)
    with pytest.raises(MissingError) as caught:
        open_warm_predictor(system, 0, 64)
    assert str(caught.value) == (
        "memory does not suffice for a batch of 64 (CUDA out of memory. Tried to allocate 2.00"
        f" GiB); {hint}"
    )
    assert system.tried == tried


def test_what_the_engine_names_already_is_not_searched_again() -> None:
    """It has warmed up the smaller ones, and knows the very largest."""
    system: Any = Inference(11, all_sizes=True, in_engine=True)
    with pytest.raises(MissingError, match="the largest that fitted is 11: --set batching.max_b"):
        open_warm_predictor(system, 0, 64)
    assert system.tried == [64]


@pytest.mark.parametrize(
    "error", [RuntimeError("illegal address"), RequestError("no such file"), KeyError("x")]
)
def test_other_failures_stay_what_they_are(error: Exception) -> None:
    system: Any = Inference(0)

    def fail(size: int) -> None:
        raise error

    system.allocate = fail
    with pytest.raises(type(error)) as caught:
        open_warm_predictor(system, 0, 64)
    assert caught.value is error and system.tried == [64]


def test_memory_that_suffices_costs_nothing() -> None:
    system: Any = Inference(64)
    assert isinstance(open_warm_predictor(system, 0, 64), Predictor) and system.tried == [64]
