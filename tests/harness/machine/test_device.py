"""Lists of GPUs are read before anything is expanded, imported or written; what is not there is
told beside what is.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.machine import device as device_module
from harness.machine.device import has_several_gpus, resolve_device, resolve_serving_devices
from suite import cli
from suite.errors import MissingError, RequestError

LISTS = [
    "cuda:0,0",
    "cuda:0-3,2",
    "cuda:3-1",
    "cuda:0,",
    "cuda:,",
    "cuda:0-",
    "cuda:-1",
    "cuda:0-x",
    "cuda:0..7",
    "cuda:0-1-2",
    "cuda:0,all",
    "cpu:0-1",
]


def gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """A torch that sees so many."""
    monkeypatch.setitem(
        sys.modules,
        "torch",
        SimpleNamespace(
            cuda=SimpleNamespace(is_available=lambda: count > 0, device_count=lambda: count)
        ),
    )


@pytest.mark.parametrize(
    ("option", "count", "found"),
    [
        ("cuda:0-7", 8, tuple(f"cuda:{number}" for number in range(8))),
        ("cuda:0,2", 8, ("cuda:0", "cuda:2")),
        ("cuda:2,0", 8, ("cuda:0", "cuda:2")),
        ("cuda:6,0-3", 8, ("cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:6")),
        ("cuda:all", 2, ("cuda:0", "cuda:1")),
        ("cuda:all", 1, ("cuda:0",)),
        ("cuda:1-1", 2, ("cuda:1",)),
        ("cuda:3", 8, ("cuda:3",)),
        ("cuda", 8, ("cuda:0",)),
        ("auto", 0, ("cpu",)),
        ("cpu", 8, ("cpu",)),
    ],
)
def test_a_list_names_devices(
    monkeypatch: pytest.MonkeyPatch, option: str, count: int, found: tuple[str, ...]
):
    """In ascending order, so that one set of GPUs has one name."""
    gpus(monkeypatch, count)
    assert resolve_serving_devices(option) == found


@pytest.mark.parametrize("option", LISTS)
@pytest.mark.parametrize("read", [resolve_serving_devices, resolve_device])
def test_a_list_that_is_none_is_a_wrong_request_on_every_machine(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str], object], option: str
):
    """Without PyTorch too: a GPU that is named twice would have two shares of the work."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RequestError, match="write auto, cpu, cuda or cuda:N") as caught:
        read(option)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("option", "count", "words"),
    [
        ("cuda:0-9", 8, "this machine has 8 usable GPUs: cuda:0-7$"),
        ("cuda:0,2", 2, "this machine has 2 usable GPUs: cuda:0-1$"),
        ("cuda:0-999999999999", 1, "this machine has 1 usable GPUs: cuda:0$"),
        ("cuda:all", 0, "this machine has 0 usable GPUs$"),
    ],
)
def test_gpus_that_are_not_there_are_missing(
    monkeypatch: pytest.MonkeyPatch, option: str, count: int, words: str
):
    """At once: a range of a million million numbers would fill the memory."""
    gpus(monkeypatch, count)
    with pytest.raises(MissingError, match=words) as caught:
        resolve_serving_devices(option)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("option", ["cuda:0-7", "cuda:0,2", "cuda:all"])
def test_most_commands_take_one_device(monkeypatch: pytest.MonkeyPatch, option: str):
    """The first of the list would be measured, and the record would name all."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert has_several_gpus(option) and not has_several_gpus("cuda:0")
    with pytest.raises(
        RequestError,
        match=f"--device {option}: this command takes one device; podium infer takes several",
    ):
        resolve_device(option)


@pytest.mark.parametrize(
    ("command", "device", "count", "code", "words"),
    [
        ("infer fake", "cuda:0,0", 8, 2, "write auto, cpu"),
        ("infer fake", "cuda:3-1", 8, 2, "write auto, cpu"),
        ("infer fake", "cuda:0-9", 8, 3, "this machine has 8 usable GPUs: cuda:0-7"),
        ("infer fake", "cuda:all", 0, 3, "this machine has 0 usable GPUs"),
        ("train fake", "cuda:0-7", 8, 2, "torchrun --nproc-per-node"),
        ("train fake", "cuda:0,0", 8, 2, "write auto, cpu"),
        ("run fake", "cuda:0-7", 8, 2, "torchrun --nproc-per-node"),
        ("precision fake", "cuda:0-7", 8, 2, "takes one device"),
        ("sweep --network alexnet", "cuda:0-7", 8, 2, "takes one device"),
        ("sweep fake", "cuda:0-7", 8, 2, "takes one device"),
        ("peak fake", "cuda:0-9", 8, 3, "this machine has 8 usable GPUs"),
    ],
)
def test_commands_end_with_their_codes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    device: str,
    count: int,
    code: int,
    words: str,
):
    """And leave nothing that looks like a result."""
    monkeypatch.setattr(device_module, "count_usable_gpus", lambda: count)
    fake = ["--framework", "fake"] if "fake" in command else []
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "podium",
            *command.split(),
            *fake,
            "--results",
            str(tmp_path / "results"),
            "--device",
            device,
        ],
    )
    with pytest.raises(SystemExit) as ended:
        cli.main()
    told = capsys.readouterr().err
    assert ended.value.code == code and words in told and len(told.strip().splitlines()) == 1, told
    assert not list(tmp_path.rglob("*.json")) and not list(tmp_path.rglob("result_*"))
