"""From images to answers: three networks, with proposals, suppression, pooling and mask pasting
between them.

An engine runs the networks (training's evaluation runs the modules themselves); everything else is
here, shared by both.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from workloads.common.detection import rle
from workloads.common.detection.ops import torchvision
from workloads.maskrcnn.detector.geometry import (
    convert_boxes_to_pixel_numbers,
    convert_pixel_numbers_to_boxes,
)
from workloads.maskrcnn.model import MaskRCNNNetwork, PictureSizes, apply_box_head, apply_mask_head
from workloads.maskrcnn.scoring import MaskedDetections

# Legend: N images, C channels, H height, W width, D detections of an image, K regions, L classes
# including the background,
# M side of a mask, 4 left, top, right, bottom.
Tensor = torch.Tensor
NetworkCall: TypeAlias = Callable[..., tuple[Tensor, ...]]
PYRAMID_LEVELS: Final = ("0", "1", "2", "3", "pool")  # torchvision's names, strides 4 to 64
MASK_THRESHOLD: Final = (
    0.5  # T:maskrcnn, config/defaults.py: ROI_MASK_HEAD.POSTPROCESS_MASKS_THRESHOLD
)
# of pasted masks in memory at once: a hundred of COCO's largest images, 256 MiB of floats
MAX_PASTED_PIXELS: Final = 1 << 26
# around a mask before it is pasted, so that edges fade out; roi_heads/mask_head/inference.py,
# Masker
MASK_MARGIN_PX: Final = 1


class DetectorTrunk(nn.Module):
    """Backbone and RPN heads: five maps, five objectness maps, five maps of box deltas."""

    def __init__(self, model: MaskRCNNNetwork) -> None:
        super().__init__()
        self.backbone, self.head = model.backbone, model.rpn.head

    def forward(self, picture_NCHW: Tensor) -> tuple[Tensor, ...]:
        """Return the maps of all levels, then all objectness maps, then all deltas."""
        features = list(self.backbone(picture_NCHW).values())
        objectness, deltas = self.head(features)
        return (*features, *objectness, *deltas)


class BoxHead(nn.Module):
    """Maps pooled regions to class scores and box deltas."""

    def __init__(self, model: MaskRCNNNetwork) -> None:
        super().__init__()
        self.box_head, self.box_predictor = model.roi_heads.box_head, model.roi_heads.box_predictor

    def forward(self, pooled_KCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Run the head."""
        return apply_box_head(self, pooled_KCHW)


class MaskHead(nn.Module):
    """Maps pooled regions to masks of every class."""

    def __init__(self, model: MaskRCNNNetwork) -> None:
        super().__init__()
        self.mask_head, self.mask_predictor = (
            model.roi_heads.mask_head,
            model.roi_heads.mask_predictor,
        )

    def forward(self, pooled_KCHW: Tensor) -> Tensor:
        """Run the head."""
        return apply_mask_head(self, pooled_KCHW)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawDetections:
    """Detections of one image, in pixels of the resized image; boxes as in geometry.py."""

    box_D4: Tensor
    label_D: Tensor
    score_D: Tensor
    mask_DMM: Tensor
    """Probabilities inside the box."""


class MaskRCNNDetector:
    """Combines the three networks."""

    def __init__(
        self, model: MaskRCNNNetwork, trunk: NetworkCall, box: NetworkCall, mask: NetworkCall
    ) -> None:
        self._rpn: Any = model.rpn.eval()
        self._heads: Any = model.roi_heads.eval()
        self._trunk, self._box, self._mask = trunk, box, mask

    def __call__(self, picture_NCHW: Tensor, sizes: PictureSizes) -> list[RawDetections]:
        """Run detection on a batch of padded images; `sizes` are the unpadded ones."""
        outputs = [output.float() for output in self._trunk(picture_NCHW)]
        features = OrderedDict(zip(PYRAMID_LEVELS, outputs, strict=False))
        proposals = self._compute_proposals(picture_NCHW, sizes, outputs)
        logit_KL, delta_K4L = self._box(self._heads.box_roi_pool(features, proposals, sizes))
        boxes, scores, labels = self._heads.postprocess_detections(
            logit_KL.float(), delta_K4L.float(), proposals, sizes
        )
        return self._add_masks(features, sizes, boxes, labels, scores)

    def _compute_proposals(
        self, picture_NCHW: Tensor, sizes: PictureSizes, outputs: list[Tensor]
    ) -> list[Tensor]:
        features, objectness, deltas = (
            outputs[start : start + len(PYRAMID_LEVELS)]
            for start in range(0, 3 * len(PYRAMID_LEVELS), len(PYRAMID_LEVELS))
        )
        detection = torchvision.models.detection
        anchors = self._rpn.anchor_generator(
            detection.image_list.ImageList(picture_NCHW, list(sizes)), features
        )
        counts = [scores.shape[1] * scores.shape[2] * scores.shape[3] for scores in objectness]
        score_A, delta_A4 = detection.rpn.concat_box_prediction_layers(objectness, deltas)
        proposals = self._rpn.box_coder.decode(delta_A4, anchors).view(len(sizes), -1, 4)
        boxes: list[Tensor] = self._rpn.filter_proposals(proposals, score_A, list(sizes), counts)[0]
        return boxes

    def _add_masks(
        self,
        features: Any,
        sizes: PictureSizes,
        boxes: list[Tensor],
        labels: list[Tensor],
        scores: list[Tensor],
    ) -> list[RawDetections]:
        pooled_KCHW = self._heads.mask_roi_pool(features, boxes, sizes)
        label_K = torch.cat(labels)
        if len(label_K):
            (mask_KLMM,) = self._mask(pooled_KCHW)
            mask_KMM = mask_KLMM.float()[
                torch.arange(len(label_K), device=label_K.device), label_K
            ].sigmoid()
        else:
            mask_KMM = pooled_KCHW.new_zeros(0, 2 * pooled_KCHW.shape[2], 2 * pooled_KCHW.shape[3])
        masks = torch.split(mask_KMM, [len(each) for each in labels])
        each = zip(boxes, labels, scores, masks, strict=True)
        return [
            RawDetections(box_D4=box, label_D=label, score_D=score, mask_DMM=mask)
            for box, label, score, mask in each
        ]


def build_eager_detector(model: MaskRCNNNetwork) -> MaskRCNNDetector:
    """Create a detector that runs the modules themselves."""
    box, mask = BoxHead(model).eval(), MaskHead(model).eval()
    return MaskRCNNDetector(model, DetectorTrunk(model).eval(), box, lambda pooled: (mask(pooled),))


def convert_raw_detections(
    raw: RawDetections, network_size: tuple[int, int], size: tuple[int, int]
) -> MaskedDetections:
    """Convert detections to the image's own height and width: boxes as fractions of it, masks
    pasted and encoded as run lengths.

    As in the reference (data/datasets/evaluation/coco/coco_eval.py), numbers are resized, and
    widths computed afterwards.
    """
    height, width = size
    scale = raw.box_D4.new_tensor([width / network_size[1], height / network_size[0]] * 2)
    number_D4 = convert_boxes_to_pixel_numbers(raw.box_D4) * scale
    box_D4 = convert_pixel_numbers_to_boxes(number_D4)
    masks_at_once = max(1, MAX_PASTED_PIXELS // (height * width))
    parts = zip(
        torch.split(raw.mask_DMM, masks_at_once), torch.split(number_D4, masks_at_once), strict=True
    )
    return MaskedDetections(
        box_D4=(box_D4 / box_D4.new_tensor([width, height] * 2)).cpu().numpy().astype(np.float32),
        score_D=raw.score_D.cpu().numpy().astype(np.float32),
        label_D=raw.label_D.cpu().numpy(),
        mask_D=[
            mask
            for masks, pixel_numbers in parts
            for mask in encode_pasted_masks(
                paste_masks_by_column(masks, pixel_numbers, height, width)
            )
        ],
    )


def encode_pasted_masks(mask_DWH: Tensor) -> list[bytes]:
    """Encode pasted masks as run lengths."""
    return rle.encode_masks_by_column(find_mask_pixels(mask_DWH).view(np.uint8))


def find_mask_pixels(mask_DWH: Tensor) -> npt.NDArray[np.bool_]:
    """Return which pixels masks cover; a device sends one byte a pixel, not its probability.

    On the host NumPy compares, because it is five times as fast as PyTorch at that.
    """
    if mask_DWH.device.type == "cpu":
        return np.asarray(mask_DWH.numpy() > MASK_THRESHOLD)
    return np.asarray((mask_DWH > MASK_THRESHOLD).cpu().numpy())


def paste_masks_by_column(mask_DMM: Tensor, number_D4: Tensor, height: int, width: int) -> Tensor:
    """Paste each mask into its box, given by its numbers, on an empty image; [D, W, H], the order
    that run lengths have.

    As in the reference (Masker): a margin of one pixel, the box enlarged accordingly and truncated
    to whole pixels, bilinear. The interpolation is separable: rows and columns are two matrix
    products, for all detections at once.
    """
    side = mask_DMM.shape[-1]
    padded_masks = nn.functional.pad(mask_DMM, (MASK_MARGIN_PX,) * 4)
    half_D2 = (number_D4[:, 2:] - number_D4[:, :2]) * 0.5 * ((side + 2 * MASK_MARGIN_PX) / side)
    centre_D2 = (number_D4[:, 2:] + number_D4[:, :2]) * 0.5
    low_D2, high_D2 = (centre_D2 - half_D2).to(torch.int64), (centre_D2 + half_D2).to(torch.int64)
    columns_DWM = compute_stretch_matrices(
        low_D2[:, 0], high_D2[:, 0], width, side + 2 * MASK_MARGIN_PX
    )
    rows_DHM = compute_stretch_matrices(
        low_D2[:, 1], high_D2[:, 1], height, side + 2 * MASK_MARGIN_PX
    )
    return columns_DWM @ (rows_DHM @ padded_masks).transpose(1, 2)


def compute_stretch_matrices(low_D: Tensor, high_D: Tensor, pixels: int, side: int) -> Tensor:
    """Return the matrices that stretch `side` values over the pixels from `low` to `high`,
    inclusive; [D, pixels, side].
    """
    pixel_P = torch.arange(pixels, device=low_D.device)
    length_D1 = (high_D - low_D + 1).clamp(min=1)[:, None]
    from_low_DP = pixel_P - low_D[:, None]
    at_DP = ((from_low_DP + 0.5) * (side / length_D1) - 0.5).clamp(min=0)
    matrix_DPM = (
        1 - (at_DP.clamp(max=side - 1)[:, :, None] - torch.arange(side, device=low_D.device)).abs()
    ).clamp(min=0)
    return matrix_DPM * ((from_low_DP >= 0) & (from_low_DP < length_D1))[:, :, None]
