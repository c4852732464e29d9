"""The system under test: the accuracy set, decoded before LoadGen's clock starts, and answers as
class indices. Framework-independent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import torch

from suite.engine import Calibration, Call, Engine, Network, Shape
from suite.errors import RequestError
from suite.input import Reader
from suite.workload import Predictor, Run
from workloads.common import inputs, malloc, run_request
from workloads.common.calibration import (
    CalibrationSamples,
    build_picture_calibration,
    choose_calibration_list,
)
from workloads.common.pictures.files import PictureFiles
from workloads.common.served_samples import LoadedSamples, ServedSamples
from workloads.common.setting_values import require_positive_setting
from workloads.resnet50 import data, model, scoring, survey
from workloads.resnet50.images import embedded
from workloads.resnet50.images import imagenet as pictures

# Legend: N images of a batch, K classes, A classes of an answer, H height, W width, C channels.
H = TypeVar("H")
T = TypeVar("T")


class FrameworkTensors(Protocol[H, T]):
    """What a framework must supply: images as its own tensors in its own layout, and answers from
    its outputs.
    """

    framework: str

    def convert_network(self, network: torch.nn.Module) -> Any:
        """Build the framework's own network, with PyTorch's weights."""

    def open_worker(self) -> "FrameworkTensors[H, T]":
        """Return the same for one worker, with what no two workers may share."""

    def read_pictures(self, reader: Reader[Path, None], paths: Sequence[Path]) -> Iterator[H]:
        """Read files into host memory, one image each."""

    def build_blank_picture(self) -> H:
        """Build a blank image as it lies in host memory."""

    def encode_picture(self, picture: H) -> bytes:
        """Return a normalised image's float32 values, little-endian, as they travel over a
        network.
        """

    def decode_picture(self, payload: bytes) -> H:
        """Return a normalised image from its values; ValueError if the bytes are none of this
        size.
        """

    @property
    def picture_shape(self) -> Shape:
        """Return the shape of an image as the network takes it."""

    def copy_batch_to_device(self, pictures: Sequence[H]) -> T:
        """Copy images to the device as one batch; runs inside LoadGen's clock."""

    def select_best_classes(self, logit_NK: T, count: int) -> Sequence[Sequence[int]]:
        """Return the `count` likeliest classes of each image, best first."""

    def compute_log_probabilities(self, logit_NK: T) -> Sequence[Sequence[float]]:
        """Return the natural logarithms of the probabilities of all classes of each image."""

    def enter_inference_mode(self) -> AbstractContextManager[object]:
        """Enter the framework's inference mode, in this thread."""


class ClassLikelihoods:
    """Log-probabilities of the classes of the first samples, where they are kept."""

    def __init__(self) -> None:
        self.limit = 0
        """Samples from this number on are not kept."""
        self.values: dict[int, Sequence[float]] = {}

    def wants_any(self, samples: Sequence[int]) -> bool:
        """Return whether those of one of these samples are kept."""
        return self.limit > 0 and min(samples) < self.limit

    def keep_first(self, samples: Sequence[int], values: Sequence[Sequence[float]]) -> None:
        """Keep those of the first samples; a padded batch has more values than samples."""
        for sample, each in zip(samples, values, strict=False):
            if sample < self.limit:
                self.values[sample] = each


class ResNet50Predictor(Generic[H, T]):
    """One worker's predictor: sample indices in, answers out."""

    def __init__(
        self,
        call: Call[T],
        loaded: LoadedSamples[H],
        blank: H,
        tensors: FrameworkTensors[H, T],
        sizes: range,
        answer_classes: int,
        likelihoods: ClassLikelihoods,
    ) -> None:
        self._likelihoods = likelihoods
        self._call, self._held, self._blank, self._tensors, self._sizes, self._told = (
            call,
            loaded,
            blank,
            tensors,
            sizes,
            answer_classes,
        )

    def warm_up(self) -> None:
        """Run every batch size that may occur once, on blank images."""
        for size in self._sizes:
            self._predict_classes([self._blank] * size)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the class of each image."""
        return self._predict_classes([self._held[sample] for sample in samples], samples)

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer images that came over a network."""
        return self._predict_classes(
            [self._tensors.decode_picture(payload) for payload in payloads]
        )

    def _predict_classes(
        self, pictures: Sequence[H], samples: Sequence[int] = ()
    ) -> Sequence[bytes]:
        with self._tensors.enter_inference_mode():
            (logit_NK,) = self._call(self._tensors.copy_batch_to_device(pictures))
            best_NA = self._tensors.select_best_classes(logit_NK, self._told)
            if samples and self._likelihoods.wants_any(samples):
                values = self._tensors.compute_log_probabilities(logit_NK)
                self._likelihoods.keep_first(samples, values)
        return [scoring.pack_class_answer(best_A) for best_A in best_NA]


class ResNet50System(ServedSamples[H], Generic[H, T]):
    """A checkpoint, an engine and the images of the accuracy set."""

    def __init__(
        self,
        run: Run,
        checkpoint: Path,
        engine: Engine[Any],
        build_tensors: Callable[[int], FrameworkTensors[H, T]],
    ) -> None:
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        network, description = model.load_resnet50_checkpoint(checkpoint)
        self._run = run
        self._val = index_resnet50_accuracy_set(run, description)
        self._size, self._told = (
            require_trained_picture_size(run, description),
            require_answer_class_count(run, description),
        )
        self._reader = inputs.open_input_reader(
            run,
            PictureFiles(partial(data.build_centre_crop_view, size=self._size)),
            workers=0,
            threads=run.threads,
        )
        self._tensors = build_tensors(self._size)
        row = run_request.require_run_inference_row(run, model.RESNET50_NAME)
        super().__init__(len(self._val), row.performance_samples, self._prepare_pictures)
        self._likelihoods = ClassLikelihoods()
        self._blank = self._tensors.build_blank_picture()
        self._executable = engine.compile(
            self._describe_network(self._tensors.convert_network(network)),
            run_request.build_engine_plan(run, self._build_calibration),
        )

    def _describe_network(self, module: Any) -> Network[T]:
        return Network(
            name=model.RESNET50_NAME,
            module=module,
            framework=self._tensors.framework,
            inputs=(self._tensors.copy_batch_to_device([self._blank]),),
            input_names=("picture",),
            output_names=("logit",),
            dimensions=({0: "batch"},),
            shapes=run_request.build_batch_shapes(
                self._tensors.picture_shape, run_request.require_max_batch(self._run)
            ),
        )

    def _build_calibration(self) -> Calibration[T]:
        return build_picture_calibration(
            self._run,
            choose_resnet50_calibration(self._run),
            self._val,
            [self._val.root],
            lambda path: (self._tensors.copy_batch_to_device([*self._read_pictures([path])]),),
        )

    def _prepare_pictures(self, samples: Sequence[int]) -> Iterator[H]:
        """Decode, resize, crop, and normalise unless the device does."""
        return self._read_pictures([self._val.path(sample) for sample in samples])

    def _read_pictures(self, paths: Sequence[Path]) -> Iterator[H]:
        return self._tensors.read_pictures(self._reader, paths)

    def payload(self, sample: int) -> bytes:
        """Return the normalised image."""
        return self._tensors.encode_picture(self._held[sample])

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        return ResNet50Predictor(
            self._executable.open(),
            self._held,
            self._blank,
            self._tensors.open_worker(),
            run_request.list_warm_up_batch_sizes(self._run, max_batch),
            self._told,
            self._likelihoods,
        )

    def keep_log_probabilities(self, samples: int) -> None:
        """Keep how likely the network finds each class of the first samples from now on."""
        self._likelihoods.limit = samples

    def collect_log_probabilities(self) -> Mapping[int, Sequence[float]]:
        """Return what was kept, by sample."""
        return self._likelihoods.values

    def truth(self, folder: Path) -> None:
        """Write the labels."""
        scoring.write_image_labels(folder, self._val.labels.tolist())


def index_resnet50_accuracy_set(
    run: Run, description: model.ResNet50Description
) -> pictures.ImageNetSplit:
    """Index the images; RequestError if the checkpoint has other classes."""
    surveyed = run_request.resolve_data_survey(run, survey.ImageNetDataSet)
    if tuple(surveyed["classes"]) != description.classes:
        raise RequestError(
            f"the checkpoint's {len(description.classes)} classes differ from the"
            f" {len(surveyed['classes'])} in {survey.resolve_imagenet_folder(run)}"
        )
    return survey.index_usable_images(run, surveyed, "val")


def choose_resnet50_calibration(run: Run) -> CalibrationSamples:
    """Return the list of calibration images."""
    return choose_calibration_list(
        run,
        CalibrationSamples(
            name=embedded.RESNET50_CALIBRATION_LIST,
            samples=tuple(embedded.iterate_embedded_calibration()),
        ),
    )


def require_answer_class_count(run: Run, description: model.ResNet50Description) -> int:
    """Return the number of classes per answer, one if the checkpoint has fewer; RequestError for an
    unsupported number.
    """
    count = require_positive_setting(run.settings, "answer.classes")
    if count not in (1, scoring.TOP_CLASS_COUNT):
        raise RequestError(f"answer.classes={count}: 1 or {scoring.TOP_CLASS_COUNT}")
    return count if count <= len(description.classes) else 1


def require_trained_picture_size(run: Run, description: model.ResNet50Description) -> int:
    """Return the image size; RequestError if the checkpoint was trained for another."""
    requested = require_positive_setting(run.settings, "data.picture_size")
    if requested != description.picture_size:
        raise RequestError(
            f"checkpoint was trained for {description.picture_size}-pixel images, but"
            f" data.picture_size is {requested}"
        )
    return requested
