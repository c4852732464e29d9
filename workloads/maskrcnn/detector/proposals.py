"""The region proposal network: torchvision's, with the reference's anchors and those of its rules
for which torchvision has no setting.
"""

from collections.abc import Sequence
from typing import Any, Final

import torch

from workloads.common.detection.ops import torchvision
from workloads.maskrcnn.detector.geometry import Anchors, Coder, clipped, inside

# Legend: A anchors of a picture, P proposals, 4 left, top, right, bottom.
Tensor = torch.Tensor
detection: Any = torchvision.models.detection
Network: Any = detection.rpn.RegionProposalNetwork
FOREGROUND_OVERLAP, BACKGROUND_OVERLAP = (
    0.7,
    0.3,
)  # T:maskrcnn, config/defaults.py: RPN.FG_IOU_THRESHOLD, BG_IOU_THRESHOLD
POSITIVE_SHARE: Final = 0.5  # RPN.POSITIVE_FRACTION
MOST_OVERLAP: Final = 0.7  # RPN.NMS_THRESH
ENCODED: Final = (1.0, 1.0, 1.0, 1.0)  # rpn/rpn.py: weights of its BoxCoder
IGNORED: Final = -1.0  # torchvision's label of an ignored anchor


class Proposals(Network):  # type: ignore[misc]  # torchvision has no types
    """In training, keeps the best proposals of a batch, not of each picture; can ignore anchors
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
            Anchors(anchor_sizes, aspects),
            detection.rpn.RPNHead(channels, len(aspects)),
            FOREGROUND_OVERLAP,
            BACKGROUND_OVERLAP,
            anchors,
            POSITIVE_SHARE,
            {"training": before_train, "testing": before_test},
            {"training": after_train, "testing": after_test},
            MOST_OVERLAP,
        )
        self.box_coder = Coder(ENCODED)
        self.inside_only = inside_only

    def filter_proposals(
        self,
        proposals: Tensor,
        objectness: Tensor,
        image_shapes: list[tuple[int, int]],
        num_anchors_per_level: list[int],
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Apply suppression, and keep the best proposals (RPN.FPN_POST_NMS_PER_BATCH)."""
        cut = torch.stack(
            [clipped(boxes, *size) for boxes, size in zip(proposals, image_shapes, strict=True)]
        )
        boxes, scores = super().filter_proposals(
            cut, objectness.float(), image_shapes, num_anchors_per_level
        )
        most, all_scores = self.post_nms_top_n(), torch.cat(scores)
        if not self.training or len(all_scores) <= most:
            return boxes, scores
        best_P = torch.zeros_like(all_scores, dtype=torch.bool)
        best_P[all_scores.topk(most).indices] = True
        kept = torch.split(best_P, [len(each) for each in scores])
        return [each[keep] for each, keep in zip(boxes, kept, strict=True)], [
            each[keep] for each, keep in zip(scores, kept, strict=True)
        ]

    def assign_targets_to_anchors(
        self, anchors: list[Tensor], targets: list[dict[str, Tensor]]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Match anchors with objects; anchors outside the picture are ignored if the reference's
        rule applies.
        """
        labels, matched = super().assign_targets_to_anchors(anchors, targets)
        if self.inside_only:
            for label_A, anchor_A4, target in zip(labels, anchors, targets, strict=True):
                label_A[~inside(anchor_A4, target["size"])] = IGNORED
        return labels, matched
