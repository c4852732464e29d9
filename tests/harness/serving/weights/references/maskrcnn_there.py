"""Mask R-CNN with the reference's names and layers: mlcommons/training,
object_detection/pytorch/maskrcnn_benchmark/modeling.

backbone/resnet.py and fpn.py, rpn/rpn.py, roi_heads; poolers.py and ROIAlign written as plain
interpolation. Regions are the reference's numbers,
first and last pixel.
"""

import math

import torch
from torch import nn
from torch.nn import functional

# Legend: N pictures, C channels, H height, W width, K regions, A anchors of a cell, L classes with
# the background.
Tensor = torch.Tensor
STAGES = ((64, 256, 3), (128, 512, 4), (256, 1024, 6), (512, 2048, 3))
LEVELS = (4, 8, 16, 32)
ANCHORS = 3
POINTS = 2


class Frozen(nn.Module):
    """Batch normalisation with constant statistics, and without an epsilon."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        for name in ("weight", "bias", "running_mean", "running_var"):
            self.register_buffer(name, torch.ones(channels))

    def forward(self, map_NCHW: Tensor) -> Tensor:
        """Normalise."""
        weight, bias, mean, variance = (each[:, None, None] for each in self.buffers())
        return (map_NCHW - mean) / variance.sqrt() * weight + bias


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1; a stage's stride is in the first."""

    def __init__(self, inside: int, narrow: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, narrow, 1, stride, bias=False), Frozen(narrow)
        self.conv2, self.bn2 = nn.Conv2d(narrow, narrow, 3, 1, 1, bias=False), Frozen(narrow)
        self.conv3, self.bn3 = nn.Conv2d(narrow, out, 1, bias=False), Frozen(out)
        self.downsample = (
            nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), Frozen(out))
            if inside != out
            else None
        )

    def forward(self, map_NCHW: Tensor) -> Tensor:
        """Return the block's output."""
        inner = functional.relu(self.bn1(self.conv1(map_NCHW)))
        inner = self.bn3(self.conv3(functional.relu(self.bn2(self.conv2(inner)))))
        return functional.relu(inner + (self.downsample(map_NCHW) if self.downsample else map_NCHW))


class Stem(nn.Module):
    """The first convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), Frozen(64)


class Body(nn.Module):
    """ResNet-50."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = Stem()
        inside = 64
        for number, (narrow, out, blocks) in enumerate(STAGES, 1):
            first = Bottleneck(inside, narrow, out, 1 if number == 1 else 2)
            self.add_module(
                f"layer{number}",
                nn.Sequential(first, *(Bottleneck(out, narrow, out, 1) for _ in range(blocks - 1))),
            )
            inside = out

    def forward(self, picture_NCHW: Tensor) -> list[Tensor]:
        """Return the maps of the four stages."""
        map_NCHW = functional.max_pool2d(
            functional.relu(self.stem.bn1(self.stem.conv1(picture_NCHW))), 3, 2, 1
        )
        found = []
        for number in range(1, len(STAGES) + 1):
            map_NCHW = getattr(self, f"layer{number}")(map_NCHW)
            found.append(map_NCHW)
        return found


class Pyramid(nn.Module):
    """Lateral 1x1 convolutions, each plus the level above doubled; a 3x3 convolution on each; every
    second pixel of the last as a fifth.
    """

    def __init__(self) -> None:
        super().__init__()
        for number, (_, out, _) in enumerate(STAGES, 1):
            self.add_module(f"fpn_inner{number}", nn.Conv2d(out, 256, 1))
            self.add_module(f"fpn_layer{number}", nn.Conv2d(256, 256, 3, 1, 1))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """Return five levels, the finest first."""
        above: Tensor | None = None
        found: list[Tensor] = []
        for number in range(len(maps), 0, -1):
            lateral = getattr(self, f"fpn_inner{number}")(maps[number - 1])
            above = (
                lateral
                if above is None
                else lateral + above.repeat_interleave(2, 2).repeat_interleave(2, 3)
            )
            found.insert(0, getattr(self, f"fpn_layer{number}")(above))
        return [*found, found[-1][:, :, ::2, ::2]]


class Proposer(nn.Module):
    """The head of the proposals."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.cls_logits, self.bbox_pred = (
            nn.Conv2d(256, 256, 3, 1, 1),
            nn.Conv2d(256, ANCHORS, 1),
            nn.Conv2d(256, ANCHORS * 4, 1),
        )

    def forward(self, levels: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """Return objectness and deltas of each level."""
        middle = [functional.relu(self.conv(level)) for level in levels]
        return [self.cls_logits(each) for each in middle], [self.bbox_pred(each) for each in middle]


class BoxHead(nn.Module):
    """Two dense layers over 7 x 7 bins, then scores and deltas."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.feature_extractor, self.predictor = nn.Module(), nn.Module()
        self.feature_extractor.fc6, self.feature_extractor.fc7 = (
            nn.Linear(256 * 7 * 7, 1024),
            nn.Linear(1024, 1024),
        )
        self.predictor.cls_score, self.predictor.bbox_pred = (
            nn.Linear(1024, classes),
            nn.Linear(1024, 4 * classes),
        )

    def forward(self, pooled_KCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores K L and deltas K 4L."""
        seen = functional.relu(self.feature_extractor.fc6(pooled_KCHW.flatten(1)))  # type: ignore[operator]
        seen = functional.relu(self.feature_extractor.fc7(seen))  # type: ignore[operator]
        return self.predictor.cls_score(seen), self.predictor.bbox_pred(seen)  # type: ignore[operator]


class MaskHead(nn.Module):
    """Four convolutions over 14 x 14 bins, one transposed, one to a mask of each class."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.feature_extractor, self.predictor = nn.Module(), nn.Module()
        for number in range(1, 5):
            self.feature_extractor.add_module(f"mask_fcn{number}", nn.Conv2d(256, 256, 3, 1, 1))
        self.predictor.conv5_mask, self.predictor.mask_fcn_logits = (
            nn.ConvTranspose2d(256, 256, 2, 2),
            nn.Conv2d(256, classes, 1),
        )

    def forward(self, pooled_KCHW: Tensor) -> Tensor:
        """Return masks K L 28 28."""
        for layer in self.feature_extractor.children():
            pooled_KCHW = functional.relu(layer(pooled_KCHW))
        found: Tensor = self.predictor.mask_fcn_logits(
            functional.relu(self.predictor.conv5_mask(pooled_KCHW))
        )  # type: ignore[operator]
        return found


class Reference(nn.Module):
    """All parts under the reference's names."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.backbone, self.rpn, self.roi_heads = nn.Module(), nn.Module(), nn.Module()
        self.backbone.body, self.backbone.fpn, self.rpn.head = Body(), Pyramid(), Proposer()
        self.roi_heads.box, self.roi_heads.mask = BoxHead(classes), MaskHead(classes)

    def forward(self, picture_NCHW: Tensor, region_K4: Tensor) -> list[Tensor]:
        """Return objectness and deltas of the five levels; scores, deltas and masks of the first
        picture's regions.
        """
        levels = self.backbone.fpn(self.backbone.body(picture_NCHW))  # type: ignore[operator]
        objectness, deltas = self.rpn.head(levels)  # type: ignore[operator]
        scores, moves = self.roi_heads.box(pooled(levels, region_K4, 7))  # type: ignore[operator]
        return [
            *objectness,
            *deltas,
            scores,
            moves,
            self.roi_heads.mask(pooled(levels, region_K4, 14)),
        ]  # type: ignore[operator]


def pooled(levels: list[Tensor], region_K4: Tensor, bins: int) -> Tensor:
    """Average two by two interpolated points in each bin of each region, on the level of its
    size.
    """
    found = []
    for left, top, right, bottom in region_K4.tolist():
        side = math.sqrt((right - left + 1) * (bottom - top + 1))
        level = min(max(math.floor(4 + math.log2(side / 224 + 1e-6)), 2), 5) - 2
        height, width = levels[level].shape[-2:]
        across, down = (
            points(left, right, LEVELS[level], bins, width),
            points(top, bottom, LEVELS[level], bins, height),
        )
        grid = torch.stack(torch.meshgrid(down, across, indexing="ij")[::-1], -1)
        values = functional.grid_sample(
            levels[level][:1], grid[None], align_corners=True, padding_mode="border"
        )
        found.append(functional.avg_pool2d(values, POINTS))
    return torch.cat(found)


def points(first: float, last: float, stride: int, bins: int, pixels: int) -> Tensor:
    """Place a region's points along an axis, from -1 (the first pixel) to 1 (the last)."""
    start, length = first / stride, max(last / stride - first / stride, 1.0)
    places = start + (torch.arange(bins * POINTS) + 0.5) * length / (bins * POINTS)
    return places * 2 / (pixels - 1) - 1
