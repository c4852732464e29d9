"""Within a training step the host never waits for the device: it reads no value, and copies nothing
from memory that is not pinned, or with a wait.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from testbed import SETTINGS, a_run, shallow
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from suite import registry
from suite.measurement.data_waiting import MeasuredBatches
from workloads.resnet50 import training as resnet50

OWN_CODE: Final = str(Path(__file__).parents[2] / "workloads")
SIZED_BY_VALUES: Final = frozenset(
    ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "_unique2")
)
"""Operators whose result the host has to see: a number, or how many there are."""
READING: Final = ("cpu", "numpy", "tolist")
CREATING: Final = ("tensor", "as_tensor")


class Watch:
    """What was counted, while it is on."""

    def __init__(self) -> None:
        self.found, self.on = Counter[str](), False

    def note(self, name: str) -> None:
        if self.on:
            self.found[name] += 1


class WaitingOperators(TorchDispatchMode):
    """Notes operators that wait, in the forward and in the backward pass, whoever calls them."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        lists = [each for each in (*args[1:], *(kwargs or {}).values()) if isinstance(each, list)]
        masks = [part for each in lists for part in each if getattr(part, "dtype", 0) is torch.bool]
        if name in SIZED_BY_VALUES or (name.startswith("index") and masks):
            self.watch.note(name)
        return func(*args, **(kwargs or {}))


class WaitingCopies(TorchFunctionMode):
    """Notes copies between host and device that the host waits for, as our code asks for them: on
    a CPU they copy nothing.
    """

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self.watch = watch

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        name = getattr(func, "__name__", "")
        if sys._getframe(1).f_code.co_filename.startswith(OWN_CODE) and (
            name in READING
            or (name in CREATING and "device" in given)
            or (name == "to" and self.is_blocking_copy(args[1:], given))
        ):
            self.watch.note(name)
        return func(*args, **given)

    def is_blocking_copy(self, args: Any, given: Any) -> bool:
        places = (str, torch.device)
        moved = any(isinstance(each, places) for each in (*args, given.get("device")))
        return moved and not given.get("non_blocking", False)


@pytest.fixture
def count_waits(small: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Return what a step of a workload waits for. What its loader does on the host is not of the
    step, nor are the optimizers of a CPU, which count their steps in numbers.
    """
    watch = Watch()
    read_next = MeasuredBatches.__next__

    def read_uncounted(batches: Any) -> Any:
        before, watch.on = watch.on, False
        try:
            return read_next(batches)
        finally:
            watch.on = before

    monkeypatch.setattr(MeasuredBatches, "__next__", read_uncounted)

    def switch_watch(state: bool) -> Callable[..., None]:
        return lambda *_: setattr(watch, "on", state)

    def count(workload: str, **asked: Any) -> Counter[str]:
        run = a_run(workload, None, small / "cache", SETTINGS[workload], **asked)
        with shallow():
            training: Any = registry.load_workload(workload).build_training(run)
        optimizer: torch.optim.Optimizer = training._stepper._optimizer
        with closing(training.train_epoch(1)) as steps:
            next(steps)  # in which constants come to the device
            optimizer.register_step_pre_hook(switch_watch(False))
            watch.on = True
            with WaitingCopies(watch), WaitingOperators(watch):
                next(steps)
        watch.on = False
        return watch.found

    return count


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["resnet50", "ssd", "gnmt", "transformer", "llama"])
def test_a_step_waits_for_nothing(count_waits: Callable[..., Any], workload: str) -> None:
    """Not one number, and not one copy."""
    assert not count_waits(workload)


@pytest.mark.slow
def test_a_step_of_mask_rcnn_waits_for_numbers_of_regions_alone(
    count_waits: Callable[..., Any],
) -> None:
    """Three pictures in two micro-batches wait 73 times, 68 of them in torchvision: as many
    anchors, proposals and regions go on as their values say. No copy is among them.
    """
    found = count_waits("maskrcnn")
    assert found.keys() <= {"nonzero", "index_put_"}
    assert 0 < found.total() <= 73


@pytest.mark.slow
def test_an_evaluation_of_resnet_50_waits_once(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the number of its correct answers, however many batches it has."""
    monkeypatch.setattr(resnet50, "RESNET50_EVAL_BATCH_PICTURES", 2)
    run = a_run("resnet50", None, small / "cache", SETTINGS["resnet50"])
    with shallow():
        training: Any = registry.load_workload("resnet50").build_training(run)
    watch = Watch()
    training.evaluate()  # in which constants come to the device
    watch.on = True
    with WaitingCopies(watch), WaitingOperators(watch):
        training.evaluate()
    assert watch.found == {"_local_scalar_dense": 1}


def test_waits_are_seen() -> None:
    """Each kind of them, of operators whoever calls them."""
    watch = Watch()
    watch.on = True
    value_N = torch.tensor([1.0, 2.0], requires_grad=True)
    with WaitingCopies(watch), WaitingOperators(watch):
        value_N[value_N > 1].sum().backward()
        float(value_N.detach().sum())
        exec(compile(COPYING, f"{OWN_CODE}/copying.py", "exec"), {"torch": torch, "x": value_N})
    assert watch.found == {
        "index": 1,
        "index_put": 1,
        "_local_scalar_dense": 1,
        "to": 2,
        "tensor": 1,
        "cpu": 1,
        "tolist": 1,
    }


COPYING: Final = """
x.to("cpu"), x.to(device=torch.device("cpu")), x.to("cpu", non_blocking=True), x.to(torch.float64)
torch.tensor([1], device="cpu"), torch.tensor([1]), x.detach().cpu(), x.tolist()
"""
