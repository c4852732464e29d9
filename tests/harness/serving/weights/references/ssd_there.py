"""SSD on ResNet-34 with the reference's names, layers and order of outputs: mlcommons/training,
single_stage_detector/ssd, ssd300.py and base_model.py.

Written from the description of the network, not with the code here: the two must agree on every
output of every weight.
"""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional

# Legend: N pictures, C channels, H height, W width, B default boxes, K classes.
BOXES = (4, 6, 6, 6, 4, 4)
WIDTHS = (256, 512, 512, 256, 256, 256)
BETWEEN = (256, 256, 128, 128, 128)


class Block(nn.Module):
    """Two 3x3 convolutions around which the input goes."""

    def __init__(self, inside: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = (
            nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            if inside != out
            else None
        )

    def forward(self, map_NCHW: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        around = self.downsample(map_NCHW) if self.downsample else map_NCHW
        return functional.relu(
            self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(map_NCHW))))) + around
        )


def stage(inside: int, out: int, blocks: int, stride: int) -> nn.Sequential:
    """Build blocks of which the first may widen and shrink."""
    return nn.Sequential(
        Block(inside, out, stride), *(Block(out, out, 1) for _ in range(blocks - 1))
    )


class Base(nn.Module):
    """ResNet-34 up to conv4, whose stride is 1: base_model.py numbers torchvision's children in two
    sequences.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layer1 = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
            stage(64, 64, 3, 1),
            stage(64, 128, 4, 2),
        )
        self.layer2 = nn.Sequential(stage(128, 256, 6, 1))

    def forward(self, picture_NCHW: torch.Tensor) -> torch.Tensor:
        """Return the first of the six maps."""
        found: torch.Tensor = self.layer2(self.layer1(picture_NCHW))
        return found


class Reference(nn.Module):
    """300 pixels as trained, or 1,200 as served (mlcommons/inference, ssd_r34.py), which differ in
    strides alone.
    """

    def __init__(self, pixels: int, classes: int) -> None:
        super().__init__()
        self.classes = classes
        strides, pads = (
            ((2, 2, 2, 1, 1), (1, 1, 1, 0, 0))
            if pixels == 300
            else ((2, 2, 2, 2, 1), (1, 1, 1, 0, 0))
        )
        step = 1 if pixels == 300 else 3
        sizes = zip(WIDTHS, BETWEEN, WIDTHS[1:], strides, pads, strict=False)
        self.model = Base()
        self.additional_blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(wide, narrow, 1),
                nn.ReLU(),
                nn.Conv2d(narrow, out, 3, stride, pad),
                nn.ReLU(),
            )
            for wide, narrow, out, stride, pad in sizes
        )
        self.loc = nn.ModuleList(
            nn.Conv2d(wide, boxes * 4, 3, step, 1)
            for wide, boxes in zip(WIDTHS, BOXES, strict=True)
        )
        self.conf = nn.ModuleList(
            nn.Conv2d(wide, boxes * classes, 3, step, 1)
            for wide, boxes in zip(WIDTHS, BOXES, strict=True)
        )

    def maps(self, picture_NCHW: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the six maps."""
        map_NCHW = self.model(picture_NCHW)
        yield map_NCHW
        for block in self.additional_blocks:
            map_NCHW = block(map_NCHW)
            yield map_NCHW

    def forward(self, picture_NCHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return places N 4 B and classes N K B, as bbox_view joins them."""
        maps, count = list(self.maps(picture_NCHW)), len(picture_NCHW)
        places = [
            head(each).reshape(count, 4, -1) for head, each in zip(self.loc, maps, strict=True)
        ]
        kinds = [
            head(each).reshape(count, self.classes, -1)
            for head, each in zip(self.conf, maps, strict=True)
        ]
        return torch.cat(places, 2), torch.cat(kinds, 2)
