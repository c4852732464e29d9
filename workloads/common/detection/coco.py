"""COCO's annotation JSON and its images as frozen records; imports no framework, since the judge
reads the ground truth with it.

`annotations/instances_<split>2017.json` and `<split>2017/<file_name>` below one folder. COCO's own
oddities are treated as the reference treats them: crowd regions, boxes without area and boxes
beyond the edge stay in the truth unchanged; for training, boxes are clipped to the image, and
those left without area are dropped. Meaningless annotations are rejected with a message.
"""

import codecs
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PureWindowsPath
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from suite.errors import RequestError
from suite.files import untrusted_files
from suite.files.untrusted_files import UTF16_MARKS, UnreadableError
from workloads.common.data_messages import format_leading_names
from workloads.common.detection import rle

# Legend: I images, A annotations of a split, O objects of an image, 4 left, top, right, bottom in
# pixels.
Floats: TypeAlias = npt.NDArray[np.float32]
Integers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

# maximum size of an annotation file in bytes; COCO's largest has 470 MB
MAX_ANNOTATION_FILE_BYTES: Final = 4 << 30
TRUTH_ANNOTATIONS_FILE: Final = (
    "annotations.json"  # file name of the annotations in a result's truth
)
MAX_NAMED_ANNOTATION_FAULTS: Final = 5  # faults listed in a message; the rest are counted
LABEL_SHUFFLE_STREAM: Final = 0x1ABE15  # separates the random stream of shuffled labels


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoCategory:
    """A class of objects, with the document's own id."""

    id: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoImage:
    """An image."""

    id: int
    file_name: str
    width: int
    height: int


# a dataclass does not allow a default for Raw
class CocoAnnotation(msgspec.Struct, frozen=True, kw_only=True):
    """An object, or with `iscrowd` a region of many objects."""

    id: int
    image_id: int
    category_id: int
    bbox: tuple[float, float, float, float]
    """Left, top, width, height in pixels."""
    area: float
    iscrowd: int = 0
    segmentation: msgspec.Raw = msgspec.Raw(b"[]")
    """`rle.Segmentation`, decoded on access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoDocument:
    """The content of an annotation file."""

    images: list[CocoImage]
    annotations: list[CocoAnnotation]
    categories: list[CocoCategory]


COCO_DOCUMENT_DECODER: Final = msgspec.json.Decoder(CocoDocument)


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureObjects:
    """The objects in one image, including crowd regions."""

    box_O4: Floats
    """Clipped to the image."""
    label_O: Integers
    """Labels from 1, in the order of the category ids; 0 is the background."""
    crowd_O: Flags
    number_O: Integers
    """Index into the split's annotations."""

    def __len__(self) -> int:
        """Count the objects."""
        return len(self.label_O)

    def select_objects(self, wanted_O: Flags) -> "PictureObjects":
        """Return only the selected objects."""
        return PictureObjects(
            box_O4=self.box_O4[wanted_O],
            label_O=self.label_O[wanted_O],
            crowd_O=self.crowd_O[wanted_O],
            number_O=self.number_O[wanted_O],
        )

    def replace_boxes(self, box_O4: Floats) -> "PictureObjects":
        """Return the same objects with other boxes."""
        return replace(self, box_O4=box_O4)


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoSplit:
    """One split as arrays: a million annotations as records would be copied page by page into each
    worker process.
    """

    folder: Path
    document: Path
    categories: tuple[CocoCategory, ...]
    """In the order of their ids."""
    image_I: Integers
    size_I2: Integers
    """Height, width."""
    name_I: npt.NDArray[np.bytes_]
    first_I: Integers
    """Index of each image's first annotation; annotations are in image order."""
    count_I: Integers
    box_A4: Floats
    label_A: Integers
    crowd_A: Flags
    text: npt.NDArray[np.uint8]
    """All segmentations as JSON, concatenated."""
    text_A2: Integers
    """Start and end of each segmentation."""

    def __len__(self) -> int:
        """Count the images."""
        return len(self.image_I)

    def path(self, index: int) -> Path:
        """Return the path of an image."""
        name: bytes = self.name_I[index]
        return self.folder / name.decode()

    def get_picture_size(self, index: int) -> tuple[int, int]:
        """Return an image's height and width."""
        height, width = self.size_I2[index].tolist()
        return height, width

    def get_stated_extent(self, index: int) -> tuple[int, int]:
        """Return an image's width and height as the annotations state them."""
        height, width = self.get_picture_size(index)
        return width, height

    def build_trainable_objects(self, index: int) -> PictureObjects:
        """Return an image's trainable objects: boxes clipped to it, those without area dropped."""
        first = int(self.first_I[index])
        number_O = np.arange(first, first + int(self.count_I[index]))
        height, width = self.get_picture_size(index)
        box_O4 = np.clip(
            self.box_A4[number_O], 0, np.array([width, height, width, height], dtype=np.float32)
        )
        clipped = PictureObjects(
            box_O4=box_O4,
            label_O=self.label_A[number_O],
            crowd_O=self.crowd_A[number_O],
            number_O=number_O,
        )
        return clipped.select_objects((box_O4[:, 2] > box_O4[:, 0]) & (box_O4[:, 3] > box_O4[:, 1]))

    def decode_object_masks(self, index: int, objects: PictureObjects) -> list[rle.Mask]:
        """Draw the masks of an image's objects."""
        height, width = self.get_picture_size(index)
        return [
            rle.decode_segmentation_mask(self.decode_segmentation(int(number)), height, width)
            for number in objects.number_O
        ]

    def decode_segmentation(self, number: int) -> rle.Segmentation:
        """Decode an annotation's segmentation."""
        start, stop = self.text_A2[number]
        found: rle.Segmentation = rle.SEGMENTATION_DECODER.decode(self.text[start:stop].tobytes())
        return found

    def select_images(self, wanted: Flags) -> "CocoSplit":
        """Return only the selected images; their annotations stay in place, unread."""
        selected_arrays = {
            name: getattr(self, name)[wanted]
            for name in ("image_I", "size_I2", "name_I", "first_I", "count_I")
        }
        return replace(self, **selected_arrays)

    def drop_empty_pictures(self) -> "CocoSplit":
        """Drop images without annotations, as both references do; 117,266 of COCO's 118,287
        training images remain.
        """
        return self.select_images(self.count_I > 0)

    def shuffle_labels(self, seed: int) -> "CocoSplit":
        """Give each image the objects of another: nothing can be learnt, which the benchmark must
        show.
        """
        order = np.random.default_rng([seed, LABEL_SHUFFLE_STREAM]).permutation(len(self))
        return replace(self, first_I=self.first_I[order], count_I=self.count_I[order])


def read_coco_split(root: Path, split: str) -> CocoSplit:
    """Read a split; RequestError if it is missing or invalid."""
    path = root / "annotations" / f"instances_{split}2017.json"
    document = read_coco_document(path)
    faults = list(check_coco_document(document))
    if faults:
        more = ""
        if len(faults) > MAX_NAMED_ANNOTATION_FAULTS:
            more = f" and {len(faults) - MAX_NAMED_ANNOTATION_FAULTS} more"
        raise RequestError(f"{path}: {'; '.join(faults[:MAX_NAMED_ANNOTATION_FAULTS])}{more}")
    try:
        return build_coco_split(root / f"{split}2017", path, document)
    except OverflowError as error:
        raise RequestError(f"{path}: contains a number of more than 64 bits") from error


def read_coco_document(path: Path) -> CocoDocument:
    """Parse an annotation file; RequestError if it is invalid."""
    try:
        return untrusted_files.read_untrusted_file(
            path, decode_coco_document, MAX_ANNOTATION_FILE_BYTES
        )
    except UnreadableError as error:
        if error.missing:
            raise RequestError(
                f"{error}; expected annotations/instances_<split>2017.json and <split>2017/, as in"
                " COCO"
            ) from error
        raise RequestError(f"{path}: not COCO annotations ({error.reason})") from error


def decode_coco_document(content: bytes) -> CocoDocument:
    """Decode annotations, with a byte order mark or without one; ValueError if they are invalid,
    which names UTF-16 and the field of a NaN.
    """
    if content.startswith(UTF16_MARKS):
        raise ValueError("is UTF-16; save it as UTF-8")
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return COCO_DOCUMENT_DECODER.decode(content)
    except msgspec.DecodeError as error:
        # JSON has no NaN, so the decoder names a byte; Python's json writes and reads it
        if b"NaN" in content or b"Infinity" in content:
            fault = next(find_non_finite_fields(json.loads(content)), None)
            if fault:
                raise ValueError(fault) from error
        raise


def find_non_finite_fields(table: Any) -> Iterator[str]:
    """Yield a description of each field of an annotation or image with a NaN or an infinity."""
    for group, kind in (("annotations", "annotation"), ("images", "image")):
        entries = table.get(group) if isinstance(table, dict) else None
        entries = entries if isinstance(entries, list) else []
        tables = [each for each in entries if isinstance(each, dict)]
        yield from (
            f"{kind} id {entry.get('id')}: {name} in {field}"
            for entry in tables
            for field, value in entry.items()
            if (name := find_non_finite_number(value))
        )


def find_non_finite_number(value: Any) -> str | None:
    """Return the name in JSON files of the first number in a value that is none; None if there is
    none.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity"
    if isinstance(value, dict | list | tuple):
        parts = value.values() if isinstance(value, dict) else value
        return next(filter(None, map(find_non_finite_number, parts)), None)
    return None


def check_coco_document(document: CocoDocument) -> Iterator[str]:
    """Yield a description of each inconsistency."""
    images = {image.id: image for image in document.images}
    categories = {category.id for category in document.categories}
    if not images or not categories:
        yield "contains no images" if categories else "contains no categories"
    if all(annotation.iscrowd for annotation in document.annotations):
        yield "contains no objects that could be learnt or found"
    for kind, entries in (
        ("image", document.images),
        ("category", document.categories),
        ("annotation", document.annotations),
    ):
        for number, count in Counter(entry.id for entry in entries).items():
            if count > 1:
                yield f"{kind} id {number} stands {count} times"
    yield from (
        f"image id {image.id} is {image.width} x {image.height}"
        for image in document.images
        if min(image.width, image.height) < 1
    )
    for annotation in document.annotations:
        fault = describe_annotation_fault(
            annotation, images.get(annotation.image_id), annotation.category_id in categories
        )
        if fault:
            yield f"annotation id {annotation.id}: {fault}"


def describe_annotation_fault(
    annotation: CocoAnnotation, image: CocoImage | None, is_category_known: bool
) -> str | None:
    """Describe what is wrong with an annotation; None if nothing is."""
    if image is None:
        return f"image id {annotation.image_id} does not exist"
    if not is_category_known:
        return f"category id {annotation.category_id} does not exist"
    for field, value in (("bbox", annotation.bbox), ("area", annotation.area)):
        if name := find_non_finite_number(value):
            return f"{name} in {field}"
    if min(annotation.bbox[2:]) < 0:
        return f"bbox {list(annotation.bbox)} has a negative width or height"
    if annotation.area < 0:
        return f"area is {annotation.area}"
    if annotation.iscrowd not in (0, 1):
        return f"iscrowd is {annotation.iscrowd}"
    try:
        rle.check_segmentation(
            rle.SEGMENTATION_DECODER.decode(annotation.segmentation), image.height, image.width
        )
    except (ValueError, OverflowError) as error:  # msgspec's errors are ValueErrors too
        return f"segmentation: {error}"
    return None


def build_coco_split(folder: Path, path: Path, document: CocoDocument) -> CocoSplit:
    """Convert a document's records to arrays: images in the order of their ids, as in MLPerf's
    COCO code.
    """
    images = sorted(document.images, key=lambda image: image.id)
    categories = tuple(sorted(document.categories, key=lambda category: category.id))
    index_of_image = {image.id: index for index, image in enumerate(images)}
    label_of_category = {category.id: number for number, category in enumerate(categories, 1)}
    annotations = sorted(
        document.annotations,
        key=lambda annotation: (index_of_image[annotation.image_id], annotation.id),
    )
    image_A = np.array(
        [index_of_image[annotation.image_id] for annotation in annotations], dtype=np.int64
    )
    ends_A = np.cumsum(
        [len(memoryview(annotation.segmentation)) for annotation in annotations], dtype=np.int64
    )
    return CocoSplit(
        folder=folder,
        document=path,
        categories=categories,
        image_I=np.array([image.id for image in images], dtype=np.int64),
        size_I2=np.array([(image.height, image.width) for image in images], dtype=np.int64),
        name_I=np.array([image.file_name.encode() for image in images], dtype=np.bytes_),
        first_I=np.searchsorted(image_A, np.arange(len(images))),
        count_I=np.bincount(image_A, minlength=len(images)),
        box_A4=convert_boxes_to_corners([annotation.bbox for annotation in annotations]),
        label_A=np.array(
            [label_of_category[annotation.category_id] for annotation in annotations],
            dtype=np.int64,
        ),
        crowd_A=np.array([annotation.iscrowd == 1 for annotation in annotations], dtype=np.bool_),
        text=np.frombuffer(
            b"".join(annotation.segmentation for annotation in annotations), dtype=np.uint8
        ),
        text_A2=np.stack(
            [np.concatenate([np.zeros(min(1, len(ends_A)), dtype=np.int64), ends_A[:-1]]), ends_A],
            axis=1,
        ),
    )


def convert_boxes_to_corners(boxes: Sequence[tuple[float, float, float, float]]) -> Floats:
    """Convert left, top, width, height to left, top, right, bottom."""
    box_A4 = np.array(boxes, dtype=np.float64).reshape(-1, 4)
    box_A4[:, 2:] += box_A4[:, :2]
    return box_A4.astype(np.float32)


def check_file_names(split: CocoSplit) -> None:
    """Reject names with a web address or a folder before the name of a file that is there: no image
    would be found.
    """
    misplaced = [
        name
        for name in map(bytes.decode, split.name_I.tolist())
        if PureWindowsPath(name).name != name
        and not (split.folder / name).exists()
        and (split.folder / PureWindowsPath(name).name).exists()
    ]
    if misplaced:
        prefix, advice = describe_name_prefix(misplaced[0], split.folder)
        raise RequestError(
            f"{split.document}: {len(misplaced)} of {len(split)} images have a file_name with"
            f" {prefix}: '{misplaced[0]}' in {split.folder}; {advice}"
        )


def describe_name_prefix(name: str, folder: Path) -> tuple[str, str]:
    """Return what stands before the name of an image's file, and what to do; folders may be
    separated as on Windows.
    """
    if "://" in name:
        return "a web address", "keep only what follows its last slash"
    if PureWindowsPath(name).parent.name == folder.name:
        return "a folder that is already in the path", "take the folder out of file_name"
    return "a folder that does not hold the image", "take the folder out of file_name"


def check_equal_categories(train: CocoSplit, val: CocoSplit) -> None:
    """Reject splits whose categories differ: their labels would not mean the same."""
    if differences := list(iterate_category_differences(train, val)):
        raise RequestError(
            f"{train.document} and {val.document}: their categories differ:"
            f" {format_leading_names(differences)}; give both files the same"
        )


def iterate_category_differences(train: CocoSplit, val: CocoSplit) -> Iterator[str]:
    """Yield each category id that does not stand for the same in both splits."""
    names, other_names = (
        {category.id: f"'{category.name}'" for category in split.categories}
        for split in (train, val)
    )
    for number in sorted(names.keys() | other_names.keys()):
        name, other_name = (table.get(number, "missing") for table in (names, other_names))
        if name != other_name:
            yield f"id {number} is {name} in train and {other_name} in val"


def build_coco_truth(split: CocoSplit) -> CocoDocument:
    """Return the unchanged annotations of a split's images, with the images in sample order."""
    document = read_coco_document(split.document)
    images = {image.id: image for image in document.images}
    image_ids = {int(number) for number in split.image_I}
    return CocoDocument(
        images=[images[int(number)] for number in split.image_I],
        annotations=[
            annotation for annotation in document.annotations if annotation.image_id in image_ids
        ],
        categories=sorted(document.categories, key=lambda category: category.id),
    )


def write_coco_truth(split: CocoSplit, folder: Path) -> None:
    """Write the truth of a split's images."""
    (folder / TRUTH_ANNOTATIONS_FILE).write_bytes(
        msgspec.json.encode(build_coco_truth(split)) + b"\n"
    )
