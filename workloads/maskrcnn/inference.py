"""The system under test: the accuracy set, resized before LoadGen's clock starts; detection,
suppression and masks inside it.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from suite.engine import Engine, Executable, Network, ShapeProfile
from suite.errors import RequestError
from suite.workload import Predictor, Run
from workloads.common import malloc, payloads, run_request
from workloads.common.detection import coco, coco_survey
from workloads.common.payloads import encode_tensor
from workloads.common.pictures.decoding import read_rgb_picture
from workloads.common.pictures.in_memory import copy_sample_to_host
from workloads.common.served_samples import ServedSamples, wrap_in_threads
from workloads.common.setting_values import require_positive_setting
from workloads.common.worker_stream import WorkerStream
from workloads.maskrcnn import data, model, scoring, survey
from workloads.maskrcnn.detector import inference_pipeline
from workloads.maskrcnn.settings import build_region_counts

# Legend: N images of a batch, C channels, H height, W width, K regions.
TYPICAL_MASK_REGIONS: Final = 16  # of the mask head, for engines that need a typical example
BLANK_SAMPLE_NUMBER: Final = -1
PICTURE_HEADER_FORMAT: Final = struct.Struct("<q4i")
"""In front of an image that travels over a network: its number, its own height and width, those of
the resized image.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPicture:
    """One image to answer."""

    number: int
    size: tuple[int, int] | None
    """Height and width of the image in its file; None for a blank one."""
    picture_HWC: torch.Tensor

    @property
    def padded_size(self) -> tuple[int, int]:
        """Return height and width after padding."""
        height, width = self.picture_HWC.shape[:2]
        return data.compute_padded_side(height), data.compute_padded_side(width)


def parse_served_picture(payload: bytes) -> ServedPicture:
    """Parse an image from a payload; ValueError if it is malformed."""
    if len(payload) < PICTURE_HEADER_FORMAT.size:
        raise ValueError(f"{len(payload)} bytes are too few for an image")
    number, own_height, own_width, height, width = PICTURE_HEADER_FORMAT.unpack_from(payload)
    if min(own_height, own_width, height, width) < 1 or len(
        payload
    ) - PICTURE_HEADER_FORMAT.size != height * width * len(data.BGR_MEAN_C):
        raise ValueError(f"{len(payload)} bytes are not an image of {height}x{width}")
    picture_HWC = payloads.decode_tensor(
        memoryview(payload)[PICTURE_HEADER_FORMAT.size :],
        torch.empty(height, width, len(data.BGR_MEAN_C), dtype=torch.uint8),
    )
    return ServedPicture(number=number, size=(own_height, own_width), picture_HWC=picture_HWC)


class MaskRCNNPredictor:
    """One worker's predictor: sample indices in, answers out; images of one padded size share a
    batch.
    """

    def __init__(
        self,
        inference: "MaskRCNNInference",
        detector: inference_pipeline.MaskRCNNDetector,
        max_batch: int,
    ) -> None:
        self._inference, self._detector, self._max_batch = inference, detector, max_batch
        self._stream = WorkerStream(inference.device)

    def warm_up(self) -> None:
        """Run every batch size once, on a blank image of each padded size."""
        for height, width in self._inference.list_padded_sizes():
            blank_HWC = torch.zeros(height, width, len(data.BGR_MEAN_C), dtype=torch.uint8)
            for count in range(1, self._max_batch + 1):
                self._detect_objects(
                    [ServedPicture(number=BLANK_SAMPLE_NUMBER, size=None, picture_HWC=blank_HWC)]
                    * count
                )

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with boxes, scores, labels and masks of each image."""
        return self._detect_by_padded_size(
            [
                ServedPicture(
                    number=sample,
                    size=self._inference.get_picture_size(sample),
                    picture_HWC=self._inference.get_loaded_picture(sample),
                )
                for sample in samples
            ]
        )

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer images that came over a network."""
        return self._detect_by_padded_size([parse_served_picture(payload) for payload in payloads])

    def _detect_by_padded_size(self, samples: Sequence["ServedPicture"]) -> Sequence[bytes]:
        groups: dict[tuple[int, int], list[int]] = {}
        for index, sample in enumerate(samples):
            groups.setdefault(sample.padded_size, []).append(index)
        answers: dict[int, bytes] = {}
        for indices in groups.values():
            answers |= zip(
                indices, self._detect_objects([samples[index] for index in indices]), strict=True
            )
        return [answers[index] for index in range(len(samples))]

    def _detect_objects(self, samples: Sequence["ServedPicture"]) -> list[bytes]:
        with self._stream.enter_inference():
            picture_NCHW, sizes = data.build_padded_batch(
                [sample.picture_HWC for sample in samples], self._inference.device
            )
            detections = self._detector(picture_NCHW.contiguous(), sizes)
            each = zip(samples, detections, sizes, strict=True)
            return [
                scoring.pack_maskrcnn_answer(
                    sample.number,
                    inference_pipeline.convert_raw_detections(boxes, size, sample.size or size),
                )
                for sample, boxes, size in each
            ]


class MaskRCNNInference(ServedSamples[torch.Tensor]):
    """A checkpoint, an engine and the images of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        self._run, self.device = run, torch.device(run.device)
        self._model, described = model.load_maskrcnn_checkpoint(
            checkpoint, build_region_counts(run.settings)
        )
        self._model.to(self.device)
        self._val = read_maskrcnn_accuracy_set(run, described)
        self._sizing = data.PictureSizing(min_size=described.min_size, max_size=described.max_size)
        check_trained_sizing(run, self._sizing)
        row = run_request.require_run_inference_row(run, model.MASKRCNN_NAME)
        prepare = wrap_in_threads(self._prepare_picture, run.threads)
        super().__init__(len(self._val), row.performance_samples, prepare)
        self._executables: Mapping[str, Executable[torch.Tensor]] = {
            each.name: engine.compile(each, run_request.build_engine_plan(run))
            for each in self._describe_networks()
        }

    def _describe_networks(self) -> list[Network[torch.Tensor]]:
        """Describe the three networks, and the input shapes that they will see."""
        most, regions = (
            run_request.require_max_batch(self._run),
            require_positive_setting(self._run.settings, "rpn.candidates_test"),
        )
        detections = require_positive_setting(self._run.settings, "roi.detections")
        heights, widths = zip(*self.list_padded_sizes(), strict=True)
        shapes = ShapeProfile(
            minimum=((1, 3, min(heights), min(widths)),),
            usual=((1, 3, heights[0], widths[0]),),
            maximum=((most, 3, max(heights), max(widths)),),
        )
        trunk: Network[torch.Tensor] = Network(
            name="trunk",
            module=inference_pipeline.DetectorTrunk(self._model),
            framework="torch",
            inputs=(torch.zeros(shapes.usual[0], device=self.device),),
            input_names=("picture",),
            output_names=tuple(
                f"{what}_{level}"
                for what in ("feature", "objectness", "delta")
                for level in inference_pipeline.PYRAMID_LEVELS
            ),
            dimensions=({0: "batch", 2: "height", 3: "width"},),
            shapes=shapes,
        )
        box = self._describe_head_network(
            "box",
            inference_pipeline.BoxHead(self._model),
            ("logit", "delta"),
            model.BOX_BINS,
            regions,
            most * regions,
        )
        return [
            trunk,
            box,
            self._describe_head_network(
                "mask",
                inference_pipeline.MaskHead(self._model),
                ("mask",),
                model.MASK_BINS,
                TYPICAL_MASK_REGIONS,
                most * detections,
            ),
        ]

    def _describe_head_network(
        self,
        name: str,
        module: torch.nn.Module,
        outputs: tuple[str, ...],
        bins: int,
        usual: int,
        most: int,
    ) -> Network[torch.Tensor]:
        shapes = run_request.build_batch_shapes((model.PYRAMID_CHANNELS, bins, bins), most, usual)
        return Network(
            name=name,
            module=module,
            framework="torch",
            inputs=(torch.zeros(shapes.usual[0], device=self.device),),
            input_names=("pooled",),
            output_names=outputs,
            dimensions=({0: "regions"},),
            shapes=shapes,
        )

    def list_padded_sizes(self) -> list[tuple[int, int]]:
        """Return the padded heights and widths in the accuracy set, most frequent first."""
        sizes = [self.compute_padded_size(sample) for sample in range(len(self._val))]
        return sorted(set(sizes), key=lambda size: (-sizes.count(size), size))

    def compute_padded_size(self, sample: int) -> tuple[int, int]:
        """Return an image's height and width after resizing and padding."""
        return self._sizing.compute_padded_size(*self._val.get_picture_size(sample))

    def get_picture_size(self, sample: int) -> tuple[int, int]:
        """Return an image's own height and width."""
        return self._val.get_picture_size(sample)

    def get_loaded_picture(self, sample: int) -> torch.Tensor:
        """Return a loaded image, H W C."""
        return self._held[sample]

    def _prepare_picture(self, sample: int) -> torch.Tensor:
        """Decode and resize."""
        return copy_sample_to_host(
            torch.from_numpy(
                data.resize_picture_to_bgr(read_rgb_picture(self._val.path(sample)), self._sizing)
            ),
            self._run.device,
        )

    def payload(self, sample: int) -> bytes:
        """Return the sample's number, its own height and width, the resized ones, and its bytes."""
        picture_HWC = self._held[sample]
        return PICTURE_HEADER_FORMAT.pack(
            sample, *self.get_picture_size(sample), *picture_HWC.shape[:2]
        ) + encode_tensor(picture_HWC)

    def length(self, sample: int) -> int:
        """Number of pixels: batches of similar images need the least padding."""
        height, width = self.compute_padded_size(sample)
        return height * width

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        calls = {name: executable.open() for name, executable in self._executables.items()}
        return MaskRCNNPredictor(
            self,
            inference_pipeline.MaskRCNNDetector(
                self._model, calls["trunk"], calls["box"], calls["mask"]
            ),
            max_batch,
        )

    def truth(self, folder: Path) -> None:
        """Write the annotations."""
        coco.write_coco_truth(self._val, folder)


def read_maskrcnn_accuracy_set(run: Run, described: model.MaskRCNNDescription) -> coco.CocoSplit:
    """Read the annotations; RequestError if the checkpoint has other classes."""
    surveyed = run_request.resolve_data_survey(run, survey.build_maskrcnn_data_set)
    val = coco_survey.load_usable_coco_split(data.resolve_maskrcnn_folder(run), surveyed, "val")
    if tuple(category.name for category in val.categories) != described.classes:
        raise RequestError(
            f"the checkpoint's {len(described.classes)} classes differ from the"
            f" {len(val.categories)} in {val.document}"
        )
    return val


def check_trained_sizing(run: Run, trained: data.PictureSizing) -> None:
    """Reject image sizes other than those the checkpoint was trained for."""
    requested = data.PictureSizing(
        min_size=require_positive_setting(run.settings, "min_image_size"),
        max_size=require_positive_setting(run.settings, "max_image_size"),
    )
    if requested != trained:
        raise RequestError(
            f"checkpoint was trained for images of {trained.min_size} to {trained.max_size} px,"
            f" and min_image_size and max_image_size are {requested.min_size} and"
            f" {requested.max_size}"
        )
