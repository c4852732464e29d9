"""Masks on pictures, against torchvision's way of one box at a time."""

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
        inference_pipeline.paste_masks(found.mask_DMM, boxes, HEIGHT, WIDTH),
        wanted,
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


def test_nothing_found_is_an_answer() -> None:
    """An empty picture: no boxes, no masks, no error."""
    found = inference_pipeline.convert_raw_detections(
        raw(torch.zeros(0, 4)), (HEIGHT, WIDTH), (HEIGHT, WIDTH)
    )
    assert len(found.box_D4) == len(found.mask_D) == 0
