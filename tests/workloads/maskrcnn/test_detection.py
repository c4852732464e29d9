"""Masks on pictures, against torchvision's way of one box at a time."""

from typing import Any

import numpy as np
import pytest
import torch

from workloads.common.detection import rle
from workloads.common.detection.ops import torchvision
from workloads.maskrcnn.detector import inference_pipeline

HEIGHT, WIDTH = 50, 70


def raw(boxes: torch.Tensor) -> inference_pipeline.RawDetections:
    count = len(boxes)
    mask = torch.rand(count, 28, 28, generator=torch.Generator().manual_seed(1))
    return inference_pipeline.RawDetections(
        box_D4=boxes,
        label_D=torch.ones(count, dtype=torch.int64),
        score_D=torch.ones(count),
        mask_DMM=mask,
    )


@pytest.mark.parametrize("seed", range(5))
def test_pasting_is_torchvision_s(seed: int) -> None:
    """Boxes inside and at the edges, where they were cut, tiny ones and one as large as the
    picture.
    """
    random = torch.Generator().manual_seed(seed)
    corner = torch.rand(20, 2, generator=random) * torch.tensor([90.0, 70.0]) - 10
    boxes = torch.cat([corner, corner + torch.rand(20, 2, generator=random) ** 3 * 90], dim=1)
    boxes = torchvision.ops.clip_boxes_to_image(
        torch.cat([boxes, torch.tensor([[-5.0, -5.0, 80.0, 60.0]])]), (HEIGHT, WIDTH)
    )
    found = raw(boxes)
    wanted = torchvision.models.detection.roi_heads.paste_masks_in_image(
        found.mask_DMM[:, None], boxes, (HEIGHT, WIDTH)
    )[:, 0]
    torch.testing.assert_close(
        inference_pipeline.paste_masks_by_column(found.mask_DMM, boxes, HEIGHT, WIDTH),
        wanted.transpose(1, 2),
        rtol=1e-4,
        atol=1e-5,
    )


def test_detections_come_back_to_the_picture_s_size() -> None:
    """Boxes as shares, masks as large as the picture itself, whatever the network saw."""
    found = inference_pipeline.convert_raw_detections(
        raw(torch.tensor([[10.0, 20.0, 60.0, 80.0]])), (100, 140), (HEIGHT, WIDTH)
    )
    assert found.box_D4[0].tolist() == pytest.approx(
        [10 / 140, 0.2, (59 / 2 + 1) / 70, (79 / 2 + 1) / 50]
    )
    mask = rle.decode_segmentation_mask(
        rle.RunLengths(size=(HEIGHT, WIDTH), counts=found.mask_D[0].decode()), HEIGHT, WIDTH
    )
    ys, xs = np.nonzero(mask)
    assert ys.min() >= 9 and ys.max() <= 41 and xs.min() >= 4 and xs.max() <= 31


def test_large_pictures_are_pasted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred masks of 10,000 x 10,000 pixels would be 40 GB at once; part by part they are the
    same.
    """
    boxes = torch.tensor([[10.0, 20.0, 60.0, 80.0], [0.0, 0.0, 30.0, 30.0], [5.0, 5.0, 90.0, 40.0]])
    wanted = inference_pipeline.convert_raw_detections(
        raw(boxes), (100, 140), (HEIGHT, WIDTH)
    ).mask_D
    for most in (1, 2 * HEIGHT * WIDTH):
        monkeypatch.setattr(inference_pipeline, "MAX_PASTED_PIXELS", most)
        assert (
            inference_pipeline.convert_raw_detections(
                raw(boxes), (100, 140), (HEIGHT, WIDTH)
            ).mask_D
            == wanted
        )


@pytest.mark.parametrize("height,width", [(50, 70), (70, 50), (1, 9), (9, 1)])
def test_run_lengths_are_those_of_each_mask_alone(
    height: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library reads the pasted masks' own memory, and writes what it writes for one at a
    time.
    """
    library, seen = rle.library, []

    def encode(mask_HWD: "np.ndarray[Any, Any]") -> Any:
        seen.append(mask_HWD)
        return encode_alone(mask_HWD)

    encode_alone = library.encode
    monkeypatch.setattr(library, "encode", encode)
    boxes = torch.tensor([[0.0, 0.0, width, height], [width / 3, 0.0, width / 2, height / 2]])
    pasted_DWH = inference_pipeline.paste_masks_by_column(raw(boxes).mask_DMM, boxes, height, width)
    covered_DWH = inference_pipeline.find_mask_pixels(pasted_DWH)
    assert covered_DWH.any() and not covered_DWH.all()
    found = rle.encode_masks_by_column(covered_DWH.view(np.uint8))
    assert found == inference_pipeline.encode_pasted_masks(pasted_DWH)
    assert np.shares_memory(seen[0], covered_DWH) and seen[0].flags.f_contiguous
    assert found == rle.encode_masks([mask.T.copy() for mask in covered_DWH.view(np.uint8)])
    assert found == [
        encode_alone(np.asfortranarray(mask.T.astype(np.uint8)))["counts"] for mask in covered_DWH
    ]


def test_nothing_found_is_an_answer() -> None:
    """An empty picture: no boxes, no masks, no error."""
    found = inference_pipeline.convert_raw_detections(
        raw(torch.zeros(0, 4)), (HEIGHT, WIDTH), (HEIGHT, WIDTH)
    )
    assert len(found.box_D4) == len(found.mask_D) == 0
