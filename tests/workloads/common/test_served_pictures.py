"""Pictures as bytes: the same numbers as normalised ones, gathered in memory of the worker's own."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from testbed import PlainEngine

from harness.engines.torch import TorchEngine
from workloads.common.pictures import served_pictures
from workloads.common.pictures.decoding import normalise_pictures
from workloads.common.pictures.files import PICTURES_PER_READ
from workloads.common.pictures.in_memory import allocate_host_memory
from workloads.common.pictures.served_pictures import (
    PictureBatcher,
    ServedPictures,
    can_serve_bytes,
)

# Legend: N images of a batch, C 3 colour channels, H height, W width.
SIDE = 16
CPU = torch.device("cpu")


class Reader:
    """Delivers pictures in parts, as a pipeline does."""

    def __init__(self, picture_NHWC: torch.Tensor) -> None:
        self.picture_NHWC = picture_NHWC

    def read(self, batches: Sequence[Sequence[Any]]) -> Iterator[tuple[torch.Tensor, None]]:
        for batch in batches:
            yield self.picture_NHWC[[int(path.name) for path in batch]], None


@pytest.fixture
def picture_NHWC() -> torch.Tensor:
    """Every value of a byte in every channel, in pictures that differ."""
    picture_NHWC = torch.arange(256, dtype=torch.uint8).view(1, SIDE, SIDE, 1).repeat(40, 1, 1, 3)
    return (picture_NHWC + torch.arange(40, dtype=torch.uint8).view(-1, 1, 1, 1)).contiguous()


def serve(picture_NHWC: torch.Tensor, *, as_bytes: bool) -> list[torch.Tensor]:
    paths = [Path(str(number)) for number in range(len(picture_NHWC))]
    pictures = ServedPictures("cpu", SIDE, as_bytes=as_bytes)
    return list(pictures.read_pictures(Reader(picture_NHWC), paths))


def test_normalising_on_the_device_changes_no_bit(picture_NHWC: torch.Tensor) -> None:
    """Each of the 256 values of a byte, in each channel, in batches of several sizes."""
    assert len(picture_NHWC) > PICTURES_PER_READ
    usual, by_bytes = (serve(picture_NHWC, as_bytes=each) for each in (False, True))
    assert (usual[0].dtype, by_bytes[0].dtype) == (torch.float32, torch.uint8)
    before, after = PictureBatcher(CPU), PictureBatcher(CPU)
    for chosen in ([0], [1, 2, 3, 4, 5], [39, 7], list(range(40)), [6]):
        expected = before.copy_to_device([usual[place] for place in chosen])
        found = after.copy_to_device([by_bytes[place] for place in chosen])
        assert torch.equal(found, expected) and found.dtype == expected.dtype
        assert torch.equal(expected, normalise_pictures(picture_NHWC[chosen]))


def test_a_batch_is_gathered_in_one_slab(
    picture_NHWC: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pinning memory for each batch anew costs more than the copy; a slab of another worker's
    would be written while it is copied.
    """
    asked: list[tuple[int, ...]] = []

    def allocate(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        asked.append(tuple(shape))
        return allocate_host_memory(shape, dtype, device)

    monkeypatch.setattr(served_pictures, "allocate_host_memory", allocate)
    held = serve(picture_NHWC, as_bytes=True)
    first, second = PictureBatcher(CPU), PictureBatcher(CPU)
    for count in (1, 8, 3, 8, 2):
        first.copy_to_device(held[:count])
    second.copy_to_device(held[:8])
    assert asked == [(count, SIDE, SIDE, 3) for count in (1, 8, 8)]


def test_what_is_held_is_memory_of_its_own(picture_NHWC: torch.Tensor) -> None:
    """A view would keep all pictures that were read together when the others are unloaded."""
    (first, *_) = serve(picture_NHWC, as_bytes=True)
    assert first.untyped_storage().nbytes() == first.numel()


def test_over_a_network_go_the_same_values(picture_NHWC: torch.Tensor) -> None:
    """A server with a GPU and a client without one have to understand each other."""
    usual, by_bytes = (ServedPictures("cpu", SIDE, as_bytes=each) for each in (False, True))
    plain, held = (serve(picture_NHWC[:1], as_bytes=each)[0] for each in (False, True))
    payload = by_bytes.encode_picture(held)
    assert payload == usual.encode_picture(plain)
    assert torch.equal(by_bytes.decode_picture(payload), plain)
    batch_NCHW = PictureBatcher(CPU).copy_to_device([by_bytes.decode_picture(payload)])
    assert torch.equal(batch_NCHW, plain[None])
    with pytest.raises(ValueError, match="are not a tensor of 3x16x16"):
        by_bytes.decode_picture(payload[1:])


def test_only_torch_on_a_gpu_takes_bytes() -> None:
    """Another engine is given what it was given before."""
    engine: Any = TorchEngine()
    assert can_serve_bytes(engine, "cuda:1") and not can_serve_bytes(engine, "cpu")
    other: Any = PlainEngine()
    assert not can_serve_bytes(other, "cuda:1")


@pytest.mark.parametrize(
    ("device", "refused", "pinned"),
    [("cuda:0", False, [True]), ("cuda:0", True, [True, False]), ("cpu", False, [False])],
)
def test_memory_is_pinned_for_a_gpu_unless_there_is_no_more(
    monkeypatch: pytest.MonkeyPatch, device: str, refused: bool, pinned: list[bool]
) -> None:
    """A limit on locked memory would end the run; plain memory is slower, and serves."""
    asked: list[bool] = []
    usual = torch.empty

    def allocate(*shape: Any, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        asked.append(pin_memory)
        if pin_memory and refused:
            raise RuntimeError("CUDA error: OS call failed or operation not supported")
        return usual(*shape, **options)

    monkeypatch.setattr(torch, "empty", allocate)
    found = allocate_host_memory((2, 3), torch.uint8, torch.device(device))
    assert asked == pinned and found.shape == (2, 3) and found.dtype == torch.uint8
