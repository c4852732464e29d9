"""Images and their objects in, batches out: the same code for the embedded scenes and for COCO.

The reference's preprocessing: shorter side to 800 unless the longer would exceed 1,333, a
horizontal flip of every other image in training, blue-green-red bytes minus their means; batches
of one orientation, padded to multiples of 32.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch.nn import functional
from torch.utils.data import Dataset

from suite.workload import Run
from workloads.common.detection import synthetic_scenes
from workloads.common.detection.coco import CocoSplit
from workloads.common.device_constants import keep_constant_on_device
from workloads.common.inputs import batches
from workloads.common.inputs.batches import SampleKey
from workloads.common.inputs.device_copies import map_batch_tensors
from workloads.common.pictures.decoding import read_rgb_picture
from workloads.maskrcnn.detector import geometry
from workloads.maskrcnn.model import DetectionTarget, PictureSizes
from workloads.maskrcnn.scenes import MASKRCNN_SCENES

# Legend: N images of a batch, O objects of an image, H height, W width, F and G height and width in
# the file, C 3 colour channels, 4 left, top, right, bottom.
Tensor = torch.Tensor
ByteArray: TypeAlias = npt.NDArray[np.uint8]
# T:maskrcnn, config/defaults.py: INPUT.PIXEL_MEAN, blue, green, red; PIXEL_STD is 1
BGR_MEAN_C: Final = (
    102.9801,
    115.9465,
    122.7717,
)
PADDING_MULTIPLE_PX: Final = 32  # DATALOADER.SIZE_DIVISIBILITY


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureSizing:
    """The size that images are resized to."""

    min_size: int
    max_size: int

    def compute_padded_size(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width after resizing and padding."""
        resized_height, resized_width = self.compute_size(height, width)
        return compute_padded_side(resized_height), compute_padded_side(resized_width)

    def compute_size(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width after resizing (T:maskrcnn, data/transforms/transforms.py,
        Resize.get_size).

        A strip so narrow that the reference would reduce it to nothing keeps one pixel.
        """
        short, long = min(height, width), max(height, width)
        side = self.min_size
        if long / short * side > self.max_size:
            side = round(self.max_size * short / long)
        other = int(side * long / short) if side else self.max_size
        return (max(1, side), other) if height <= width else (other, max(1, side))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedPicture:
    """A resized image and its objects."""

    picture_HWC: Tensor
    """Bytes: blue, green, red."""
    box_O4: Tensor
    label_O: Tensor
    mask_OFG: Tensor
    """As in the file, F rows of G pixels: a large image's masks would be most of what a loader
    sends.
    """
    mask_row_H: Tensor
    """The row of the masks that each row of the image shows."""
    mask_column_W: Tensor
    weight: float

    def build_target(self) -> DetectionTarget:
        """Return the objects in the form that torchvision's heads expect; their masks get the
        image's size.
        """
        # filled in on the device, since the host would wait for the copy of each new size
        sides = [self.box_O4.new_full((1,), side) for side in self.picture_HWC.shape[:2]]
        return {
            "boxes": self.box_O4,
            "labels": self.label_O,
            "masks": self.draw_masks(),
            "size": torch.cat(sides),
        }

    def draw_masks(self) -> Tensor:
        """Return the masks in the image's size, [O, H, W]."""
        wide_OFW = self.mask_OFG.index_select(2, self.mask_column_W)
        return wide_OFW.index_select(1, self.mask_row_H)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPictures:
    """The images of a batch as one tensor of each kind, which a device gets in one copy each."""

    picture_F: Tensor
    """Bytes of all images, one after another."""
    box_O4: Tensor
    label_O: Tensor
    mask_F: Tensor
    mask_index_F: Tensor
    """Of each image: the masks' rows, then their columns."""
    picture_shapes: tuple[torch.Size, ...]
    mask_shapes: tuple[torch.Size, ...]
    weights: tuple[float, ...]

    def pin_memory(self) -> "PackedPictures":
        """Pin the memory, so that the copies to the device overlap with computation."""
        return map_batch_tensors(self, torch.Tensor.pin_memory)

    def unpack_pictures(self) -> list[AnnotatedPicture]:
        """Return the images on the batch's device; their tensors are views."""
        counts = [shape[0] for shape in self.mask_shapes]
        sides = [side for shape in self.picture_shapes for side in shape[:2]]
        pictures = torch.split(self.picture_F, [shape.numel() for shape in self.picture_shapes])
        masks = torch.split(self.mask_F, [shape.numel() for shape in self.mask_shapes])
        boxes, labels = torch.split(self.box_O4, counts), torch.split(self.label_O, counts)
        indices = torch.split(self.mask_index_F, sides)
        return [
            AnnotatedPicture(
                picture_HWC=pictures[number].view(self.picture_shapes[number]),
                box_O4=boxes[number],
                label_O=labels[number],
                mask_OFG=masks[number].view(self.mask_shapes[number]),
                mask_row_H=indices[2 * number],
                mask_column_W=indices[2 * number + 1],
                weight=weight,
            )
            for number, weight in enumerate(self.weights)
        ]


def pack_pictures(samples: Sequence[AnnotatedPicture]) -> PackedPictures:
    """Pack a batch."""
    indices = [index for each in samples for index in (each.mask_row_H, each.mask_column_W)]
    return PackedPictures(
        picture_F=torch.cat([each.picture_HWC.flatten() for each in samples]),
        box_O4=torch.cat([each.box_O4 for each in samples]),
        label_O=torch.cat([each.label_O for each in samples]),
        mask_F=torch.cat([each.mask_OFG.flatten() for each in samples]),
        mask_index_F=torch.cat(indices),
        picture_shapes=tuple(each.picture_HWC.shape for each in samples),
        mask_shapes=tuple(each.mask_OFG.shape for each in samples),
        weights=tuple(each.weight for each in samples),
    )


EvaluationLoader: TypeAlias = batches.BatchLoader[Tensor, list[Tensor]]
MaskRCNNLoader: TypeAlias = batches.BatchLoader[AnnotatedPicture, PackedPictures]


class AnnotatedPictures(Dataset[AnnotatedPicture]):
    """Images by key, with their trainable objects: no crowd regions and nothing one pixel wide,
    as in the reference.
    """

    def __init__(self, split: CocoSplit, sizing: PictureSizing, seed: int) -> None:
        self.split, self.sizing, self.seed = split, sizing, seed

    def __getitem__(self, key: SampleKey) -> AnnotatedPicture:
        split, index = self.split, key.index
        objects = split.build_trainable_objects(index)
        objects = objects.select_objects(
            ~objects.crowd_O & find_boxes_wider_than_pixel(objects.box_O4)
        )
        height, width = split.get_picture_size(index)
        picture_HWC = resize_picture_to_bgr(read_rgb_picture(split.path(index)), self.sizing)
        scale = np.array(picture_HWC.shape[1::-1] * 2, dtype=np.float32) / np.array(
            (width, height) * 2, dtype=np.float32
        )
        if len(objects):
            mask_OFG = np.stack(split.decode_object_masks(index, objects))
        else:
            mask_OFG = np.zeros((0, height, width), dtype=np.uint8)
        sample = AnnotatedPicture(
            picture_HWC=torch.from_numpy(picture_HWC),
            box_O4=geometry.resize_boxes(torch.from_numpy(objects.box_O4), torch.from_numpy(scale)),
            label_O=torch.from_numpy(objects.label_O),
            mask_OFG=torch.from_numpy(mask_OFG),
            mask_row_H=select_nearest_pixels(height, picture_HWC.shape[0]),
            mask_column_W=select_nearest_pixels(width, picture_HWC.shape[1]),
            weight=key.weight,
        )
        if key.create_generator(self.seed).random() < 0.5:
            return apply_horizontal_flip(sample)
        return sample


class ResizedPictures(Dataset[Tensor]):
    """Images by key, resized, without their objects: H W C bytes, blue first."""

    def __init__(self, split: CocoSplit, sizing: PictureSizing) -> None:
        self.split, self.sizing = split, sizing

    def __getitem__(self, key: SampleKey) -> Tensor:
        picture = read_rgb_picture(self.split.path(key.index))
        return torch.from_numpy(resize_picture_to_bgr(picture, self.sizing))


def find_boxes_wider_than_pixel(box_O4: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return which boxes have different first and last pixels in both directions
    (structures/bounding_box.py, clip_to_image: remove_empty).
    """
    return np.asarray((box_O4[:, 2:] - box_O4[:, :2] > geometry.LAST_PIXEL_WIDTH_PX).all(axis=1))


def select_nearest_pixels(pixels: int, side: int) -> Tensor:
    """Return which of a side's pixels each pixel shows after it is resized to `side`; torch's
    interpolation itself says it, in the type in which it computes for bytes (with float64, one
    pair of sizes in forty differs).
    """
    number_11P = torch.arange(pixels, dtype=torch.float32)[None, None]
    return functional.interpolate(number_11P, size=side, mode="nearest")[0, 0].long()


def resize_picture_to_bgr(picture: Image.Image, sizing: PictureSizing) -> ByteArray:
    """Resize an image; H W C bytes, blue first."""
    height, width = sizing.compute_size(picture.height, picture.width)
    if (width, height) != picture.size:
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(picture)[:, :, ::-1])


def apply_horizontal_flip(sample: AnnotatedPicture) -> AnnotatedPicture:
    """Mirror an image and its objects horizontally."""
    width = sample.picture_HWC.shape[1]
    left, top, right, bottom = sample.box_O4.unbind(dim=1)
    return AnnotatedPicture(
        picture_HWC=sample.picture_HWC.flip(1),
        box_O4=torch.stack([width - right, top, width - left, bottom], dim=1),
        label_O=sample.label_O,
        mask_OFG=sample.mask_OFG,
        mask_row_H=sample.mask_row_H,
        mask_column_W=sample.mask_column_W.flip(0),
        weight=sample.weight,
    )


def build_padded_batch(
    pictures: Sequence[Tensor], device: torch.device
) -> tuple[Tensor, PictureSizes]:
    """Normalise H W C bytes and pad them to one size: N C H W in channels-last memory, and the
    unpadded sizes.
    """
    sizes = [(picture.shape[0], picture.shape[1]) for picture in pictures]
    height, width = (compute_padded_side(max(sides)) for sides in zip(*sizes, strict=True))
    mean_C = keep_constant_on_device(BGR_MEAN_C, device)
    batch_NHWC = torch.zeros(len(pictures), height, width, len(BGR_MEAN_C), device=device)
    for target_HWC, picture_HWC, size in zip(batch_NHWC, pictures, sizes, strict=True):
        torch.sub(
            picture_HWC.to(device, non_blocking=True), mean_C, out=target_HWC[: size[0], : size[1]]
        )
    return batch_NHWC.permute(0, 3, 1, 2), sizes


def compute_padded_side(side: int) -> int:
    """Round up to a multiple of every stride of the pyramid."""
    return -(-side // PADDING_MULTIPLE_PX) * PADDING_MULTIPLE_PX


def build_maskrcnn_loader(
    samples: AnnotatedPictures, workers: int, *, pinned: bool
) -> MaskRCNNLoader:
    """Create the loader of the training set."""
    return batches.BatchLoader(samples, pack_pictures, workers, pinned=pinned)


def build_evaluation_loader(
    samples: ResizedPictures, workers: int, *, pinned: bool
) -> EvaluationLoader:
    """Create the loader of the validation set."""
    return batches.BatchLoader(samples, list, workers, pinned=pinned)


def plan_padded_batches(
    split: CocoSplit, sizing: PictureSizing, batch_size: int, rank: int, world_size: int
) -> list[list[SampleKey]]:
    """Plan an evaluation: this rank's share of the images, each once, in batches of one padded
    size; so each image is padded as it is alone.
    """
    groups: dict[tuple[int, int], list[SampleKey]] = {}
    for index in range(rank, len(split), world_size):
        size = sizing.compute_padded_size(*split.get_picture_size(index))
        groups.setdefault(size, []).append(SampleKey(index=index))
    planned = [
        keys[start : start + batch_size]
        for keys in groups.values()
        for start in range(0, len(keys), batch_size)
    ]
    return sorted(planned, key=lambda keys: keys[0].index)


def plan_orientation_batches(
    wide_I: npt.NDArray[np.bool_], batch_size: int, seed: int, epoch: int
) -> list[npt.NDArray[np.int64]]:
    """Plan an epoch's global batches, each of only wide or only tall images
    (DATALOADER.ASPECT_RATIO_GROUPING).

    They are ordered by their first images (T:maskrcnn, data/samplers/grouped_batch_sampler.py).
    """
    shuffled = batches.generate_epoch_order(len(wide_I), seed, epoch)
    position_of_index = {int(index): number for number, index in enumerate(shuffled)}
    batches_found = [
        batch
        for orientation in (True, False)
        for batch in batches.split_into_global_batches(
            shuffled[wide_I[shuffled] == orientation], batch_size
        )
    ]
    return sorted(batches_found, key=lambda batch: position_of_index[int(batch[0])])


def find_wide_pictures(split: CocoSplit) -> npt.NDArray[np.bool_]:
    """Return which images are wider than tall."""
    return np.asarray(split.size_I2[:, 1] > split.size_I2[:, 0])


def resolve_maskrcnn_folder(run: Run) -> Path:
    """Return the folder of a run's scenes: the user's, or the embedded one, generated at first
    use.
    """
    return run.data or synthetic_scenes.prepare_scene_folder(run.cache, MASKRCNN_SCENES)
