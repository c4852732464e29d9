"""The region proposal network: torchvision's, with the reference's anchors and those of its rules
for which torchvision has no setting.
"""

from collections.abc import Sequence
from typing import Any, Final

import torch

from workloads.common.detection.ops import torchvision
from workloads.maskrcnn.detector.geometry import (
    Fp32BoxCoder,
    PyramidAnchors,
    clip_boxes_to_picture,
    find_anchors_inside_picture,
)

# Legend: A anchors of an image, P proposals, 4 left, top, right, bottom.
Tensor = torch.Tensor
detection: Any = torchvision.models.detection
RegionProposalNetwork: Any = detection.rpn.RegionProposalNetwork
# T:maskrcnn, config/defaults.py: RPN.FG_IOU_THRESHOLD, BG_IOU_THRESHOLD
ANCHOR_FOREGROUND_IOU, ANCHOR_BACKGROUND_IOU = (
    0.7,
    0.3,
)
ANCHOR_POSITIVE_SHARE: Final = 0.5  # RPN.POSITIVE_FRACTION
PROPOSAL_NMS_IOU: Final = 0.7  # RPN.NMS_THRESH
PROPOSAL_CODER_WEIGHTS: Final = (1.0, 1.0, 1.0, 1.0)  # rpn/rpn.py: weights of its BoxCoder
IGNORED_ANCHOR_LABEL: Final = -1.0  # torchvision's label of an ignored anchor


class MaskRCNNProposals(RegionProposalNetwork):  # type: ignore[misc]  # torchvision has no types
    """In training, keeps the best proposals of a batch, not of each image; can ignore anchors
    that cross the edge.
    """

    def __init__(
        self,
        channels: int,
        anchor_sizes: Sequence[int],
        aspects: tuple[float, ...],
        before_train: int,
        before_test: int,
        after_train: int,
        after_test: int,
        anchors: int,
        *,
        inside_only: bool,
    ) -> None:
        super().__init__(
            PyramidAnchors(anchor_sizes, aspects),
            detection.rpn.RPNHead(channels, len(aspects)),
            ANCHOR_FOREGROUND_IOU,
            ANCHOR_BACKGROUND_IOU,
            anchors,
            ANCHOR_POSITIVE_SHARE,
            {"training": before_train, "testing": before_test},
            {"training": after_train, "testing": after_test},
            PROPOSAL_NMS_IOU,
        )
        self.box_coder = Fp32BoxCoder(PROPOSAL_CODER_WEIGHTS)
        self.inside_only = inside_only

    def filter_proposals(
        self,
        proposals: Tensor,
        objectness: Tensor,
        image_shapes: list[tuple[int, int]],
        num_anchors_per_level: list[int],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Apply suppression, and keep the best proposals (RPN.FPN_POST_NMS_PER_BATCH)."""
        clipped_boxes = torch.stack(
            [
                clip_boxes_to_picture(boxes, *size)
                for boxes, size in zip(proposals, image_shapes, strict=True)
            ]
        )
        boxes, scores = super().filter_proposals(
            clipped_boxes, objectness.float(), image_shapes, num_anchors_per_level
        )
        proposal_limit, all_scores = self.post_nms_top_n(), torch.cat(scores)
        if not self.training or len(all_scores) <= proposal_limit:
            return boxes, scores
        best_P = torch.zeros_like(all_scores, dtype=torch.bool)
        best_P[all_scores.topk(proposal_limit).indices] = True
        retained = torch.split(best_P, [len(each) for each in scores])
        return [each[keep] for each, keep in zip(boxes, retained, strict=True)], [
            each[keep] for each, keep in zip(scores, retained, strict=True)
        ]

    def assign_targets_to_anchors(
        self, anchors: list[Tensor], targets: list[dict[str, Tensor]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Match anchors with objects; anchors outside the image are ignored if the reference's
        rule applies.
        """
        labels, matched = super().assign_targets_to_anchors(anchors, targets)
        if self.inside_only:
            for label_A, anchor_A4, target in zip(labels, anchors, targets, strict=True):
                inside_A = find_anchors_inside_picture(anchor_A4, target["size"])
                label_A.masked_fill_(~inside_A, IGNORED_ANCHOR_LABEL)
        return labels, matched
