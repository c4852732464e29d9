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
from workloads.common.pictures.in_memory import LoadedSamples, copy_sample_to_host, wrap_in_threads
from workloads.common.run_request import build_engine_plan, require_run_inference_row
from workloads.common.setting_values import require_positive_setting
from workloads.maskrcnn import data, model, scoring, survey
from workloads.maskrcnn.detector import inference_pipeline
from workloads.maskrcnn.settings import counts

# Legend: N pictures of a batch, C channels, H height, W width, K regions.
USUAL_REGIONS: Final = 16  # of the mask head, for engines that need a typical example
BLANK_SAMPLE: Final = -1
HEAD: Final = struct.Struct("<q4i")
"""In front of a picture that travels over a network: its number, its own height and width, those of
the resized picture.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One picture to answer."""

    number: int
    size: tuple[int, int] | None
    """Height and width of the picture in its file; None for a blank one."""
    picture_HWC: torch.Tensor

    @property
    def padded_size(self) -> tuple[int, int]:
        """Return height and width after padding."""
        height, width = self.picture_HWC.shape[:2]
        return data.padded(height), data.padded(width)


def parsed(payload: bytes) -> Sample:
    """Read a picture from a payload; ValueError if the bytes are none."""
    if len(payload) < HEAD.size:
        raise ValueError(f"{len(payload)} bytes are too few for a picture")
    number, own_height, own_width, height, width = HEAD.unpack_from(payload)
    if min(own_height, own_width, height, width) < 1 or len(
        payload
    ) - HEAD.size != height * width * len(data.MEAN_C):
        raise ValueError(f"{len(payload)} bytes are no picture of {height}x{width}")
    picture_HWC = payloads.decode_tensor(
        memoryview(payload)[HEAD.size :],
        torch.empty(height, width, len(data.MEAN_C), dtype=torch.uint8),
    )
    return Sample(number=number, size=(own_height, own_width), picture_HWC=picture_HWC)


class MaskRCNNPredictor:
    """One worker's predictor: sample indices in, answers out; pictures of one padded size share a
    batch.
    """

    def __init__(
        self, inference: "MaskRCNNInference", detector: inference_pipeline.Detector, max_batch: int
    ) -> None:
        self._inference, self._detector, self._max_batch = inference, detector, max_batch

    def warm_up(self) -> None:
        """Run every batch size once, on a blank picture of each padded size."""
        for height, width in self._inference.padded_sizes():
            blank_HWC = torch.zeros(height, width, len(data.MEAN_C), dtype=torch.uint8)
            for count in range(1, self._max_batch + 1):
                self._answer(
                    [Sample(number=BLANK_SAMPLE, size=None, picture_HWC=blank_HWC)] * count
                )

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with boxes, scores, labels and masks of each picture."""
        return self._grouped(
            [
                Sample(
                    number=sample,
                    size=self._inference.size(sample),
                    picture_HWC=self._inference.pictures[sample],
                )
                for sample in samples
            ]
        )

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer pictures that came over a network."""
        return self._grouped([parsed(payload) for payload in payloads])

    def _grouped(self, samples: Sequence["Sample"]) -> Sequence[bytes]:
        groups: dict[tuple[int, int], list[int]] = {}
        for place, sample in enumerate(samples):
            groups.setdefault(sample.padded_size, []).append(place)
        answers: dict[int, bytes] = {}
        for places in groups.values():
            answers |= zip(places, self._answer([samples[place] for place in places]), strict=True)
        return [answers[place] for place in range(len(samples))]

    def _answer(self, samples: Sequence["Sample"]) -> list[bytes]:
        with torch.inference_mode():
            picture_NCHW, sizes = data.together(
                [sample.picture_HWC for sample in samples], self._inference.device
            )
            found = self._detector(picture_NCHW.contiguous(), sizes)
            each = zip(samples, found, sizes, strict=True)
            return [
                scoring.packed(
                    sample.number, inference_pipeline.finished(boxes, size, sample.size or size)
                )
                for sample, boxes, size in each
            ]


class MaskRCNNInference:
    """A checkpoint, an engine and the pictures of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        self._run, self.device = run, torch.device(run.device)
        self._model, described = model.load(checkpoint, counts(run.settings))
        self._model.to(self.device)
        self._val = accuracy_set(run, described)
        self._sizing = data.Sizing(min_size=described.min_size, max_size=described.max_size)
        check_sizing(run, self._sizing)
        self._row = require_run_inference_row(run, model.NAME)
        self.pictures = LoadedSamples(wrap_in_threads(self._prepared, run.threads))
        self._max_batch = require_positive_setting(run.settings, "batching.max_batch")
        self._executables: Mapping[str, Executable[torch.Tensor]] = {
            each.name: engine.compile(each, build_engine_plan(run)) for each in self._networks()
        }

    def _networks(self) -> list[Network[torch.Tensor]]:
        """Describe the three networks, and the input shapes that they will see."""
        most, regions = (
            self._max_batch,
            require_positive_setting(self._run.settings, "rpn.candidates_test"),
        )
        detections = require_positive_setting(self._run.settings, "roi.detections")
        heights, widths = zip(*self.padded_sizes(), strict=True)
        shapes = ShapeProfile(
            minimum=((1, 3, min(heights), min(widths)),),
            usual=((1, 3, heights[0], widths[0]),),
            maximum=((most, 3, max(heights), max(widths)),),
        )
        trunk: Network[torch.Tensor] = Network(
            name="trunk",
            module=inference_pipeline.Trunk(self._model),
            framework="torch",
            inputs=(torch.zeros(shapes.usual[0], device=self.device),),
            input_names=("picture",),
            output_names=tuple(
                f"{what}_{level}"
                for what in ("feature", "objectness", "delta")
                for level in inference_pipeline.LEVELS
            ),
            dimensions=({0: "batch", 2: "height", 3: "width"},),
            shapes=shapes,
        )
        box = self._head(
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
            self._head(
                "mask",
                inference_pipeline.MaskHead(self._model),
                ("mask",),
                model.MASK_BINS,
                USUAL_REGIONS,
                most * detections,
            ),
        ]

    def _head(
        self,
        name: str,
        module: torch.nn.Module,
        outputs: tuple[str, ...],
        bins: int,
        usual: int,
        most: int,
    ) -> Network[torch.Tensor]:
        one, common, largest = (
            (count, model.CHANNELS, bins, bins) for count in (1, min(usual, most), most)
        )
        return Network(
            name=name,
            module=module,
            framework="torch",
            inputs=(torch.zeros(common, device=self.device),),
            input_names=("pooled",),
            output_names=outputs,
            dimensions=({0: "regions"},),
            shapes=ShapeProfile(minimum=(one,), usual=(common,), maximum=(largest,)),
        )

    def padded_sizes(self) -> list[tuple[int, int]]:
        """Return the padded heights and widths in the accuracy set, most frequent first."""
        sizes = [self.padded_size(sample) for sample in range(len(self._val))]
        return sorted(set(sizes), key=lambda size: (-sizes.count(size), size))

    def padded_size(self, sample: int) -> tuple[int, int]:
        """Return a picture's height and width after resizing and padding."""
        height, width = self._sizing.of(*self._val.get_picture_size(sample))
        return data.padded(height), data.padded(width)

    def size(self, sample: int) -> tuple[int, int]:
        """Return a picture's own height and width."""
        return self._val.get_picture_size(sample)

    @property
    def sample_count(self) -> int:
        """Number of pictures in the accuracy set."""
        return len(self._val)

    @property
    def performance_sample_count(self) -> int:
        """The round's sample count, or all samples if there are fewer."""
        return min(self._row.performance_samples, len(self._val))

    def load(self, samples: Sequence[int]) -> None:
        """Decode and resize; MLPerf does not time this (inference_rules.adoc, Data)."""
        self.pictures.load(samples)

    def _prepared(self, sample: int) -> torch.Tensor:
        return copy_sample_to_host(
            torch.from_numpy(data.resized(read_rgb_picture(self._val.path(sample)), self._sizing)),
            self._run.device,
        )

    def unload(self, samples: Sequence[int]) -> None:
        """Release pictures."""
        self.pictures.unload(samples)

    def payload(self, sample: int) -> bytes:
        """Return the sample's number, its own height and width, the resized ones, and its bytes."""
        picture_HWC = self.pictures[sample]
        return HEAD.pack(sample, *self.size(sample), *picture_HWC.shape[:2]) + encode_tensor(
            picture_HWC
        )

    def length(self, sample: int) -> int:
        """Number of pixels: batches of similar pictures need the least padding."""
        height, width = self.padded_size(sample)
        return height * width

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        calls = {name: executable.open() for name, executable in self._executables.items()}
        return MaskRCNNPredictor(
            self,
            inference_pipeline.Detector(self._model, calls["trunk"], calls["box"], calls["mask"]),
            max_batch,
        )

    def truth(self, folder: Path) -> None:
        """Write the annotations."""
        coco.write_coco_truth(self._val, folder)

    def close(self) -> None:
        """Release all pictures."""
        self.pictures.clear()


def accuracy_set(run: Run, described: model.Description) -> coco.CocoSplit:
    """Read the annotations; RequestError if the checkpoint has other classes."""
    found = run_request.resolve_data_survey(run, survey.data_set)
    val = coco_survey.load_usable_coco_split(data.root(run), found, "val")
    if tuple(category.name for category in val.categories) != described.classes:
        raise RequestError(
            f"the checkpoint's {len(described.classes)} classes differ from the"
            f" {len(val.categories)} in {val.document}"
        )
    return val


def check_sizing(run: Run, trained: data.Sizing) -> None:
    """Reject picture sizes other than those the checkpoint was trained for."""
    wanted = data.Sizing(
        min_size=require_positive_setting(run.settings, "min_image_size"),
        max_size=require_positive_setting(run.settings, "max_image_size"),
    )
    if wanted != trained:
        raise RequestError(
            f"checkpoint was trained for pictures of {trained.min_size} to {trained.max_size} px, "
            f"and min_image_size and max_image_size are {wanted.min_size} and {wanted.max_size}"
        )
