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
from workloads.ssd.detector.default_boxes import CONFIGURATIONS, Configuration

# Legend: N pictures of a batch, C channels, H height, W width, B default boxes, K classes, 0 is the
# background.
NAME: Final = "ssd"
CHANNELS: Final = (256, 512, 512, 256, 256, 256)  # ssd300.py, out_chan: of the six maps
NARROW: Final = (
    256,
    256,
    128,
    128,
    128,
)  # ssd300.py, _build_additional_features: inside the extra blocks
START_SHA256: Final = "333f7ec4"  # SHA-256 prefix of torchvision's resnet34-333f7ec4.pth
UNCOUNTED: Final = "num_batches_tracked"  # torchvision's file predates this counter
SAID_WORDS: Final = 20
RANDOM_START: Final = "random"
RANDOM_BRANCH: Final = (
    0.2  # house rule, as Mask R-CNN's: initial scale of residual branches without start weights
)
# house rule: standard deviation of the heads' weights in that case; the maps below them can have
# values of any size
RANDOM_HEAD: Final = 0.003


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a server needs to know about exported weights."""

    workload: str
    configuration: str
    categories: tuple[CocoCategory, ...]


class SSD(nn.Module):
    """One network for all configurations; only strides and paddings differ."""

    def __init__(self, configuration: Configuration, classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.trunk = trunk()
        blocks = zip(
            CHANNELS,
            NARROW,
            CHANNELS[1:],
            configuration.extra_strides,
            configuration.extra_padding,
            strict=False,
        )
        self.extras = nn.ModuleList(extra(*each) for each in blocks)
        heads = list(zip(CHANNELS, configuration.boxes_per_cell, strict=True))
        self.places = nn.ModuleList(
            head(channels, 4 * count, configuration.head_stride) for channels, count in heads
        )
        self.kinds = nn.ModuleList(
            head(channels, classes * count, configuration.head_stride) for channels, count in heads
        )
        for part in (self.extras, self.places, self.kinds):
            part.apply(start)

    def forward(self, picture_NCHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return offsets [N, B, 4] and logits [N, B, K]."""
        map_NCHW = self.trunk(picture_NCHW)
        offsets, logits = [], []
        for number, (place, kind) in enumerate(zip(self.places, self.kinds, strict=True)):
            map_NCHW = self.extras[number - 1](map_NCHW) if number else map_NCHW
            offsets.append(by_box(place(map_NCHW), 4))
            logits.append(by_box(kind(map_NCHW), self.classes))
        return torch.cat(offsets, dim=1), torch.cat(logits, dim=1)


def by_box(map_NCHW: torch.Tensor, each: int) -> torch.Tensor:
    """Reshape a head's map to [N, B, each]: channels are ordered by number, then by shape, as in
    the reference.
    """
    return map_NCHW.contiguous().view(map_NCHW.shape[0], each, -1).transpose(1, 2)


def trunk() -> nn.Sequential:
    """Build ResNet-34 up to conv4, which keeps its input's size; base_model.py, ResNet34."""
    whole = torchvision.models.resnet34()
    whole.layer3[0].conv1.stride = (1, 1)
    whole.layer3[0].downsample[0].stride = (1, 1)
    found = nn.Sequential()
    for name in ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3"):
        found.add_module(name, getattr(whole, name))
    return found


def extra(wide: int, narrow: int, out: int, stride: int, padding: int) -> nn.Sequential:
    """Build an extra block."""
    shrink, look = (
        nn.Conv2d(wide, narrow, 1),
        nn.Conv2d(narrow, out, 3, stride=stride, padding=padding),
    )
    return nn.Sequential(shrink, nn.ReLU(inplace=True), look, nn.ReLU(inplace=True))


def head(channels: int, out: int, stride: int) -> nn.Conv2d:
    """Build a head."""
    return nn.Conv2d(channels, out, 3, stride=stride, padding=1)


def start(module: nn.Module) -> None:
    """Initialise a layer as the reference does: Xavier uniform weights, PyTorch's default
    biases.
    """
    if isinstance(module, nn.Conv2d):
        nn.init.xavier_uniform_(module.weight)


def start_small(model: SSD) -> None:
    """Initialise a network without start weights so that its gradients have similar sizes: small
    residual branches and heads.
    """
    for block in model.trunk.modules():
        if isinstance(block, torchvision.models.resnet.BasicBlock):
            nn.init.constant_(block.bn2.weight, RANDOM_BRANCH)
    for each in (*model.places, *model.kinds):
        nn.init.normal_(each.weight, std=RANDOM_HEAD)
        nn.init.zeros_(each.bias)


def build(configuration: str, classes: int) -> SSD:
    """Build the network for `classes` classes, including the background."""
    return SSD(CONFIGURATIONS[configuration], classes)


def start_from(model: SSD, path: Path) -> None:
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
    if not sha256.startswith(START_SHA256):
        raise RequestError(
            f"model.start_weights {path}: its SHA-256 begins with {sha256[:8]}, not with"
            f" {START_SHA256} (torchvision's ResNet-34)"
        )
    wanted = model.trunk.state_dict()
    try:
        found: dict[str, torch.Tensor] = torch.load(
            io.BytesIO(content), map_location="cpu", weights_only=True
        )
        counts = {name: tensor for name, tensor in wanted.items() if name.endswith(UNCOUNTED)}
        model.trunk.load_state_dict(
            counts | {name: tensor for name, tensor in found.items() if name in wanted}
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
        said = " ".join([type(error).__name__, *str(error).split()][:SAID_WORDS])
        raise RequestError(
            f"model.start_weights {path}: not weights of a ResNet-34 ({said})"
        ) from error


def describe(folder: Path) -> Description:
    """Read the description of exported weights; RequestError if they belong to another workload."""
    found = weights.read_weights_description(folder, Description, NAME)
    if found.configuration not in CONFIGURATIONS:
        raise RequestError(f"checkpoint {folder}: unknown configuration {found.configuration}")
    return found


def load(folder: Path) -> tuple[nn.Module, Description]:
    """Rebuild an exported network in evaluation mode."""
    description = describe(folder)
    return (
        weights.build_exported_network(
            lambda: build(description.configuration, 1 + len(description.categories)), folder, NAME
        ),
        description,
    )
