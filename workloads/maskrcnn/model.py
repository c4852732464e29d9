"""Mask R-CNN with ResNet-50 and a feature pyramid: torchvision's components, assembled as in
MLPerf's reference.

He, Gkioxari, Dollar, Girshick 2017, arXiv:1703.06870; Lin et al. 2017, arXiv:1612.03144. Parameters
have torchvision's names.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import torch
from torch import nn
from torch.nn import functional

from workloads.common import weights
from workloads.common.detection.ops import torchvision
from workloads.maskrcnn.detector.frozen_norm import FrozenBatchNorm
from workloads.maskrcnn.detector.geometry import PyramidPool, convert_boxes_to_pixel_numbers
from workloads.maskrcnn.detector.proposals import MaskRCNNProposals

# Legend: N images, C channels, H height, W width, K regions, L classes including the background,
# 4 box deltas or corners,
# M side of a mask.
Tensor = torch.Tensor
FeatureMaps: TypeAlias = "OrderedDict[str, Tensor]"
PictureSizes: TypeAlias = Sequence[tuple[int, int]]
"""Height and width of each image of a batch, without padding."""
DetectionTarget: TypeAlias = dict[str, Tensor]
"""One image's target for torchvision's heads: boxes as in geometry.py, labels, masks; and size,
for the proposals' loss.
"""

MASKRCNN_NAME: Final = "maskrcnn"
PYRAMID_CHANNELS: Final = 256  # T:maskrcnn, config/defaults.py: of every level of the pyramid
ANCHOR_ASPECTS: Final = (0.5, 1.0, 2.0)  # RPN.ASPECT_RATIOS
POOLED_LEVELS: Final = ("0", "1", "2", "3")  # strides 4 to 32
POOLING_POINTS: Final = 2  # POOLER_SAMPLING_RATIO
BOX_BINS, MASK_BINS = 7, 14  # POOLER_RESOLUTION of ROI_BOX_HEAD and ROI_MASK_HEAD
BOX_HEAD_WIDTH: Final = 1024  # ROI_BOX_HEAD.MLP_HEAD_DIM
MASK_HEAD_CHANNELS: Final = (256, 256, 256, 256)  # ROI_MASK_HEAD.CONV_LAYERS
BOX_DELTA_WEIGHTS: Final = (10.0, 10.0, 5.0, 5.0)  # ROI_HEADS.BBOX_REG_WEIGHTS
REGION_FOREGROUND_IOU: Final = 0.5  # ROI_HEADS.FG_IOU_THRESHOLD and BG_IOU_THRESHOLD
REGION_POSITIVE_SHARE: Final = 0.25  # ROI_HEADS.POSITIVE_FRACTION
MIN_REGION_SCORE: Final = 0.05  # ROI_HEADS.SCORE_THRESH
DETECTION_NMS_IOU: Final = 0.5  # ROI_HEADS.NMS
BOX_LOSS_BETA: Final = 1.0  # roi_heads/box_head/loss.py; torchvision has 1/9
FROZEN_BACKBONE_STAGES: Final = 2  # BACKBONE.FREEZE_CONV_BODY_AT: conv1 and res2
BACKBONE_STAGES: Final = 5  # conv1, res2 to res5
# house rule: initial scale of residual branches without start weights (with 1, gradients grow
# 300-fold over the stages)
MASKRCNN_RANDOM_BRANCH_SCALE: Final = 0.2
# the mask predictor is initialised for this many classes: fewer would start it further from 0
COCO_CLASS_COUNT: Final = 81


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskRCNNDescription:
    """What a server needs to know about exported weights."""

    workload: str
    classes: tuple[str, ...]
    """Without the background class."""
    min_size: int
    """Target length of an image's shorter side ..."""
    max_size: int
    """... unless the longer side would exceed this."""
    anchor_sizes: tuple[int, ...]
    """Side of the anchors of each level, in pixels of the resized image."""
    frozen_norm: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionCounts:
    """Numbers of regions to process; `full` uses the reference's."""

    anchors: int = 256
    """Per image, in the proposals' loss (RPN.BATCH_SIZE_PER_IMAGE)."""
    before_train: int = 2000
    """Proposals of a level before suppression (RPN.PRE_NMS_TOP_N_TRAIN)."""
    before_test: int = 1000
    after_train: int = 2000
    """Proposals of a batch after suppression (RPN.FPN_POST_NMS_TOP_N_TRAIN); MLPerf's
    num_image_candidates.
    """
    after_test: int = 1000
    """Proposals of an image after suppression (RPN.FPN_POST_NMS_TOP_N_TEST)."""
    regions: int = 512
    """Per image, in the heads' loss (ROI_HEADS.BATCH_SIZE_PER_IMAGE)."""
    masks: int = 128
    """Per image, in the mask loss: at most the quarter of the regions that lie on objects; in the
    reference all of them.
    """
    detections: int = 100
    """Per image (ROI_HEADS.DETECTIONS_PER_IMG)."""
    inside_only: bool = True
    """Ignore anchors that cross the edge in training (RPN.STRADDLE_THRESH 0)."""


class MaskRCNNNetwork(nn.Module):
    """Backbone, proposals and heads; in training, calling it returns the five losses."""

    def __init__(self, description: MaskRCNNDescription, counts: RegionCounts) -> None:
        super().__init__()
        classes = len(description.classes) + 1
        self.backbone = build_maskrcnn_backbone(frozen_norm=description.frozen_norm)
        self.rpn = MaskRCNNProposals(
            PYRAMID_CHANNELS,
            description.anchor_sizes,
            ANCHOR_ASPECTS,
            counts.before_train,
            counts.before_test,
            counts.after_train,
            counts.after_test,
            counts.anchors,
            inside_only=counts.inside_only,
        )
        self.roi_heads = build_roi_heads(classes, counts)
        self.masks = counts.masks

    def forward(
        self, picture_NCHW: Tensor, sizes: PictureSizes, targets: list[DetectionTarget]
    ) -> dict[str, Tensor]:
        """Return the losses of a batch: of proposals (objectness, box), of regions (class, box) and
        of masks.
        """
        features: FeatureMaps = self.backbone(picture_NCHW)
        images = torchvision.models.detection.image_list.ImageList(picture_NCHW, list(sizes))
        proposals, losses = self.rpn(images, features, targets)
        return {**losses, **self._compute_head_losses(features, proposals, sizes, targets)}

    def _compute_head_losses(
        self,
        features: FeatureMaps,
        proposals: list[Tensor],
        sizes: PictureSizes,
        targets: list[DetectionTarget],
    ) -> dict[str, Tensor]:
        roi_heads: Any = self.roi_heads
        boxes, matched, labels, delta_targets = roi_heads.select_training_samples(
            proposals, targets
        )
        logit_KL, delta_K4L = apply_box_head(
            roi_heads, roi_heads.box_roi_pool(features, boxes, sizes)
        )
        class_loss, box_loss = compute_region_losses(
            logit_KL.float(), delta_K4L.float(), torch.cat(labels), torch.cat(delta_targets)
        )
        object_regions = [torch.where(label_K > 0)[0][: self.masks] for label_K in labels]
        boxes, matched = (
            [values[regions] for values, regions in zip(each, object_regions, strict=True)]
            for each in (boxes, matched)
        )
        mask_KLMM = apply_mask_head(
            roi_heads, roi_heads.mask_roi_pool(features, boxes, sizes)
        ).float()
        masks, classes = (
            [target["masks"] for target in targets],
            [target["labels"] for target in targets],
        )
        pixel_numbers = [convert_boxes_to_pixel_numbers(box_K4) for box_K4 in boxes]
        mask_loss = torchvision.models.detection.roi_heads.maskrcnn_loss(
            mask_KLMM, pixel_numbers, masks, classes, matched
        )
        return {"loss_classifier": class_loss, "loss_box_reg": box_loss, "loss_mask": mask_loss}


def compute_region_losses(
    logit_KL: Tensor, delta_K4L: Tensor, label_K: Tensor, target_K4: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute cross-entropy, and smooth L1 of the true class's deltas over non-background regions;
    both per region.
    """
    class_loss = functional.cross_entropy(logit_KL, label_K)
    object_regions = torch.where(label_K > 0)[0]
    delta_K4 = delta_K4L.view(len(label_K), -1, 4)[object_regions, label_K[object_regions]]
    box_loss = functional.smooth_l1_loss(
        delta_K4, target_K4[object_regions], beta=BOX_LOSS_BETA, reduction="sum"
    ) / len(label_K)
    return class_loss, box_loss


def apply_box_head(roi_heads: nn.Module, pooled_KCHW: Tensor) -> tuple[Tensor, Tensor]:
    """Run the box head: class scores and box deltas of regions."""
    features_KF = roi_heads.box_head(pooled_KCHW)  # type: ignore[operator]
    return cast(tuple[Tensor, Tensor], roi_heads.box_predictor(features_KF))  # type: ignore[operator]


def apply_mask_head(roi_heads: nn.Module, pooled_KCHW: Tensor) -> Tensor:
    """Run the mask head."""
    features_KCHW = roi_heads.mask_head(pooled_KCHW)  # type: ignore[operator]
    return cast(Tensor, roi_heads.mask_predictor(features_KCHW))  # type: ignore[operator]


def build_maskrcnn_backbone(*, frozen_norm: bool) -> nn.Module:
    """Build ResNet-50 with its feature pyramid; a stage's stride is in its first 1x1 convolution
    (RESNETS.STRIDE_IN_1X1).

    With frozen batch-norm the first two stages are frozen too; its epsilon is then 0, as in the
    reference.
    """
    network: nn.Module = torchvision.models.detection.backbone_utils.resnet_fpn_backbone(
        backbone_name="resnet50",
        weights=None,
        norm_layer=FrozenBatchNorm if frozen_norm else nn.BatchNorm2d,
        trainable_layers=(
            BACKBONE_STAGES - FROZEN_BACKBONE_STAGES if frozen_norm else BACKBONE_STAGES
        ),
    )
    for stage in ("layer2", "layer3", "layer4"):
        block: Any = network.body[stage][0]  # type: ignore[index]
        block.conv1.stride, block.conv2.stride = block.conv2.stride, block.conv1.stride
    if not frozen_norm:
        scale_down_branches(network)
    return network


def scale_down_branches(network: nn.Module) -> None:
    """Scale down initial residual branches, so that the sixteen blocks of a random network do not
    each double their input.
    """
    for block in network.modules():
        if isinstance(block, torchvision.models.resnet.Bottleneck):
            nn.init.constant_(block.bn3.weight, MASKRCNN_RANDOM_BRANCH_SCALE)


def build_roi_heads(classes: int, counts: RegionCounts) -> nn.Module:
    """Build box and mask heads, with the reference's initial weights (make_layers.py,
    roi_box_predictors.py, roi_mask_predictors.py).
    """
    detection = torchvision.models.detection
    roi_heads: nn.Module = detection.roi_heads.RoIHeads(
        box_roi_pool=PyramidPool(POOLED_LEVELS, BOX_BINS, POOLING_POINTS),
        box_head=detection.faster_rcnn.TwoMLPHead(PYRAMID_CHANNELS * BOX_BINS**2, BOX_HEAD_WIDTH),
        box_predictor=detection.faster_rcnn.FastRCNNPredictor(BOX_HEAD_WIDTH, classes),
        fg_iou_thresh=REGION_FOREGROUND_IOU,
        bg_iou_thresh=REGION_FOREGROUND_IOU,
        batch_size_per_image=counts.regions,
        positive_fraction=REGION_POSITIVE_SHARE,
        bbox_reg_weights=BOX_DELTA_WEIGHTS,
        score_thresh=MIN_REGION_SCORE,
        nms_thresh=DETECTION_NMS_IOU,
        detections_per_img=counts.detections,
        mask_roi_pool=PyramidPool(POOLED_LEVELS, MASK_BINS, POOLING_POINTS),
        mask_head=detection.mask_rcnn.MaskRCNNHeads(PYRAMID_CHANNELS, MASK_HEAD_CHANNELS, 1),
        mask_predictor=detection.mask_rcnn.MaskRCNNPredictor(
            MASK_HEAD_CHANNELS[-1], MASK_HEAD_CHANNELS[-1], classes
        ),
    )
    init_roi_heads(roi_heads)
    return roi_heads


def init_roi_heads(roi_heads: Any) -> None:
    """Initialise the weights that torchvision initialises differently from the reference."""
    for layer in (roi_heads.box_head.fc6, roi_heads.box_head.fc7):
        nn.init.kaiming_uniform_(layer.weight, a=1)
    nn.init.normal_(roi_heads.box_predictor.cls_score.weight, std=0.01)
    nn.init.normal_(roi_heads.box_predictor.bbox_pred.weight, std=0.001)
    nn.init.normal_(
        roi_heads.mask_predictor.mask_fcn_logits.weight, std=(2 / COCO_CLASS_COUNT) ** 0.5
    )
    for module in (roi_heads.box_head, roi_heads.box_predictor, roi_heads.mask_predictor):
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)


def split_maskrcnn_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Separate weights from biases, which have no decay and twice the learning rate
    (solver/build.py); frozen ones are in neither group.
    """
    trained = [
        (name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad
    ]
    biases = [parameter for name, parameter in trained if name.endswith("bias")]
    return [parameter for name, parameter in trained if not name.endswith("bias")], biases


def load_maskrcnn_checkpoint(
    folder: Path, counts: RegionCounts
) -> tuple[MaskRCNNNetwork, MaskRCNNDescription]:
    """Rebuild an exported network in evaluation mode."""
    description = weights.read_weights_description(folder, MaskRCNNDescription, MASKRCNN_NAME)
    return (
        weights.build_exported_network(
            lambda: MaskRCNNNetwork(description, counts), folder, MASKRCNN_NAME
        ),
        description,
    )
