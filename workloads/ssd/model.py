"""SSD on ResNet-34: torchvision's backbone up to conv4 (with stride 1), five extra blocks, a pair
of heads on each of six feature maps.

Liu et al. 2016, arXiv:1512.02325; mlcommons/training, single_stage_detector/ssd, ssd300.py and
base_model.py.
"""

import hashlib
import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import nn

from suite.errors import RequestError
from workloads.common import weights
from workloads.common.detection.coco import CocoCategory
from workloads.common.detection.torchvision_import import torchvision
from workloads.ssd.detector.default_boxes import SSD_CONFIGURATIONS, SSDConfiguration

# Legend: N images of a batch, C channels, H height, W width, B default boxes, K classes, 0 is the
# background.
SSD_NAME: Final = "ssd"
SSD_MAP_CHANNELS: Final = (256, 512, 512, 256, 256, 256)  # ssd300.py, out_chan: of the six maps
# ssd300.py, _build_additional_features: inside the extra blocks
EXTRA_BLOCK_CHANNELS: Final = (
    256,
    256,
    128,
    128,
    128,
)
RESNET34_SHA256_PREFIX: Final = "333f7ec4"  # SHA-256 prefix of torchvision's resnet34-333f7ec4.pth
BATCH_NORM_COUNTER_SUFFIX: Final = "num_batches_tracked"  # torchvision's file predates this counter
MAX_QUOTED_ERROR_WORDS: Final = 20
SSD_RANDOM_START: Final = "random"
SSD_RANDOM_BRANCH_SCALE: Final = (
    0.2  # house rule, as Mask R-CNN's: initial scale of residual branches without start weights
)
# house rule: standard deviation of the heads' weights in that case; the maps below them can have
# values of any size
SSD_RANDOM_HEAD_DEVIATION: Final = 0.003


@dataclass(frozen=True, slots=True, kw_only=True)
class SSDDescription:
    """What a server needs to know about exported weights."""

    workload: str
    configuration: str
    categories: tuple[CocoCategory, ...]


class SSDNetwork(nn.Module):
    """One network for all configurations; only strides and paddings differ."""

    def __init__(self, configuration: SSDConfiguration, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.trunk = build_ssd_trunk()
        blocks = zip(
            SSD_MAP_CHANNELS,
            EXTRA_BLOCK_CHANNELS,
            SSD_MAP_CHANNELS[1:],
            configuration.extra_strides,
            configuration.extra_padding,
            strict=False,
        )
        self.extras = nn.ModuleList(build_extra_block(*each) for each in blocks)
        heads = list(zip(SSD_MAP_CHANNELS, configuration.boxes_per_cell, strict=True))
        self.places = nn.ModuleList(
            build_ssd_head(channels, 4 * count, configuration.head_stride)
            for channels, count in heads
        )
        self.kinds = nn.ModuleList(
            build_ssd_head(channels, classes * count, configuration.head_stride)
            for channels, count in heads
        )
        for part in (self.extras, self.places, self.kinds):
            part.apply(init_ssd_layer)

    def forward(self, picture_NCHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return offsets [N, B, 4] and logits [N, B, K]."""
        map_NCHW = self.trunk(picture_NCHW)
        offsets, logits = [], []
        for number, (place, kind) in enumerate(zip(self.places, self.kinds, strict=True)):
            map_NCHW = self.extras[number - 1](map_NCHW) if number else map_NCHW
            offsets.append(split_map_by_box(place(map_NCHW), 4))
            logits.append(split_map_by_box(kind(map_NCHW), self.classes))
        return torch.cat(offsets, dim=1), torch.cat(logits, dim=1)


def split_map_by_box(map_NCHW: torch.Tensor, values_per_box: int) -> torch.Tensor:
    """Reshape a head's map to [N, B, each]: channels are ordered by number, then by shape, as in
    the reference.
    """
    return map_NCHW.contiguous().view(map_NCHW.shape[0], values_per_box, -1).transpose(1, 2)


def build_ssd_trunk() -> nn.Sequential:
    """Build ResNet-34 up to conv4, which keeps its input's size; base_model.py, ResNet34."""
    resnet34 = torchvision.models.resnet34()
    resnet34.layer3[0].conv1.stride = (1, 1)
    resnet34.layer3[0].downsample[0].stride = (1, 1)
    layers = nn.Sequential()
    for name in ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3"):
        layers.add_module(name, getattr(resnet34, name))
    return layers


def build_extra_block(wide: int, narrow: int, out: int, stride: int, padding: int) -> nn.Sequential:
    """Build an extra block."""
    shrink, convolution = (
        nn.Conv2d(wide, narrow, 1),
        nn.Conv2d(narrow, out, 3, stride=stride, padding=padding),
    )
    return nn.Sequential(shrink, nn.ReLU(inplace=True), convolution, nn.ReLU(inplace=True))


def build_ssd_head(channels: int, out: int, stride: int) -> nn.Conv2d:
    """Build a head."""
    return nn.Conv2d(channels, out, 3, stride=stride, padding=1)


def init_ssd_layer(module: nn.Module) -> None:
    """Initialise a layer as the reference does: Xavier uniform weights, PyTorch's default
    biases.
    """
    if isinstance(module, nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)


def init_random_ssd(model: SSDNetwork) -> None:
    """Initialise a network without start weights so that its gradients have similar sizes: small
    residual branches and heads.
    """
    for block in model.trunk.modules():
        if isinstance(block, torchvision.models.resnet.BasicBlock):
            nn.init.constant_(block.bn2.weight, SSD_RANDOM_BRANCH_SCALE)
    for each in (*model.places, *model.kinds):
        nn.init.normal_(each.weight, std=SSD_RANDOM_HEAD_DEVIATION)
        nn.init.zeros_(each.bias)


def build_ssd(configuration: str, classes: int) -> SSDNetwork:
    """Build the network for `classes` classes, including the background."""
    return SSDNetwork(SSD_CONFIGURATIONS[configuration], classes)


def load_resnet34_weights(model: SSDNetwork, path: Path) -> None:
    """Load the trunk's start weights from the user's file; RequestError if it is a different one,
    or incomplete.

    The file name that torchvision publishes contains only the first digits of its hash; no code in
    the file is executed.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RequestError(f"model.start_weights {path}: {error.strerror}") from error
    sha256 = hashlib.sha256(content).hexdigest()
    if not sha256.startswith(RESNET34_SHA256_PREFIX):
        raise RequestError(
            f"model.start_weights {path}: its SHA-256 begins with {sha256[:8]}, not with"
            f" {RESNET34_SHA256_PREFIX} (torchvision's ResNet-34)"
        )
    trunk_state = model.trunk.state_dict()
    try:
        file_state: dict[str, torch.Tensor] = torch.load(
            io.BytesIO(content), map_location="cpu", weights_only=True
        )
        counts = {
            name: tensor
            for name, tensor in trunk_state.items()
            if name.endswith(BATCH_NORM_COUNTER_SUFFIX)
        }
        model.trunk.load_state_dict(
            counts | {name: tensor for name, tensor in file_state.items() if name in trunk_state}
        )
    except (
        pickle.UnpicklingError,
        EOFError,
        AttributeError,
        ValueError,
        TypeError,
        RuntimeError,
        MemoryError,
    ) as error:
        reason = " ".join([type(error).__name__, *str(error).split()][:MAX_QUOTED_ERROR_WORDS])
        raise RequestError(
            f"model.start_weights {path}: not weights of a ResNet-34 ({reason})"
        ) from error


def read_ssd_description(folder: Path) -> SSDDescription:
    """Read the description of exported weights; RequestError if they belong to another workload."""
    description = weights.read_weights_description(folder, SSDDescription, SSD_NAME)
    if description.configuration not in SSD_CONFIGURATIONS:
        raise RequestError(
            f"checkpoint {folder}: unknown configuration {description.configuration}"
        )
    return description


def load_ssd_checkpoint(folder: Path) -> tuple[nn.Module, SSDDescription]:
    """Rebuild an exported network in evaluation mode."""
    description = read_ssd_description(folder)
    return (
        weights.build_exported_network(
            lambda: build_ssd(description.configuration, 1 + len(description.categories)),
            folder,
            SSD_NAME,
        ),
        description,
    )
