"""The same classifiers over ImageNet's validation images: top-1 and top-5 of weights that were
trained elsewhere.

Preprocessing is that of the workload resnet50, which is torchvision's for these networks: the
shorter side to 256 pixels, the centre 224, mean and deviation of each channel.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from extras.networks.classifiers import (
    CLASSIFIER_SIDE_PX,
    MAX_LOADED_PICTURES,
    NoiseInference,
    NoisePredictor,
)
from suite.engine import Call, Engine
from suite.errors import RequestError
from suite.workload import Predictor, Run
from workloads.common import inputs
from workloads.common.pictures.files import PictureFiles
from workloads.common.pictures.served_pictures import ServedPictures, can_serve_bytes
from workloads.common.served_samples import LoadedSamples
from workloads.resnet50 import data, scoring
from workloads.resnet50.images import imagenet

VALIDATION_SPLIT: Final = "val"
IMAGENET_CLASS_COUNT: Final = 1000
"""Outputs of torchvision's networks, in the order of ImageNet's sorted class folders."""


def find_validation_pictures(folder: Path) -> imagenet.ImageNetSplit:
    """Index the validation images; RequestError if there are none, or not of the networks'
    classes.
    """
    pictures = imagenet.index_imagenet_split(folder, VALIDATION_SPLIT)
    if len(pictures.classes) != IMAGENET_CLASS_COUNT:
        raise RequestError(
            f"--data {folder}: {len(pictures.classes)} class folders in {VALIDATION_SPLIT}; the"
            f" networks' outputs are ImageNet's {IMAGENET_CLASS_COUNT}"
        )
    return pictures


def format_validation_listing(folder: Path) -> str:
    """Return a line for each image in order, its name and its bytes; RequestError as for
    `find_validation_pictures`.
    """
    pictures = find_validation_pictures(folder)
    return "".join(
        f"{path.relative_to(folder).as_posix()}\t{path.stat().st_size}\n"
        for path in map(pictures.path, range(len(pictures)))
    )


class LabelledPredictor(NoisePredictor):
    """One worker's predictor: image indices in, five classes out."""

    def __init__(
        self,
        call: Call[torch.Tensor],
        held: LoadedSamples[torch.Tensor],
        device: torch.device,
        batch: int,
        blank: torch.Tensor,
    ) -> None:
        super().__init__(call, held, device, batch)
        self._blank = blank

    def warm_up(self) -> None:
        """Answer one batch of blank images."""
        self._predict_classes([self._blank] * self._batch)

    def _predict_classes(self, pictures: Sequence[torch.Tensor]) -> Sequence[bytes]:
        # the network takes whole batches
        full_batch = [
            *pictures,
            *[pictures[-1]] * (self._batch - len(pictures)),
        ]
        with self._stream.enter_inference():
            (logit_NK,) = self._call(self._batcher.copy_to_device(full_batch))
            best_NA = logit_NK[: len(pictures)].topk(scoring.TOP_CLASS_COUNT).indices
            told_NA = self._stream.copy_to_host(best_NA)
        return [scoring.pack_class_answer(best) for best in told_NA.tolist()]


class LabelledInference(NoiseInference):
    """A network, an engine, and the validation images of `run.data`."""

    def __init__(
        self, run: Run, folder: Path, name: str, network: torch.nn.Module, engine: Engine[Any]
    ) -> None:
        super().__init__(run, name, network, engine)
        self._pictures = ServedPictures(
            run.device, CLASSIFIER_SIDE_PX, as_bytes=can_serve_bytes(engine, run.device)
        )
        self._val = find_validation_pictures(folder)
        self.sample_count = len(self._val)
        self.performance_sample_count = min(MAX_LOADED_PICTURES, self.sample_count)
        self._reader = inputs.open_input_reader(
            run,
            PictureFiles(partial(data.build_centre_crop_view, size=CLASSIFIER_SIDE_PX)),
            workers=0,
            threads=run.threads,
        )

    def _prepare_pictures(self, samples: Sequence[int]) -> Iterator[torch.Tensor]:
        return self._pictures.read_pictures(
            self._reader, [self._val.path(sample) for sample in samples]
        )

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        return LabelledPredictor(
            self._executable.open(), self._held, self._device, max_batch, self._pictures.blank
        )

    def truth(self, folder: Path) -> None:
        """Write the labels."""
        scoring.write_image_labels(folder, self._val.labels.tolist())
