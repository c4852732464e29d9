"""Five of torchvision's image classifiers, timed on noise: vendors publish throughput, latency and
power per batch of these.

Architectures are torchvision's (torchvision.models): AlexNet without groups and local response
normalisation ("One weird trick"), GoogLeNet with batch normalisation, ResNets with the stride in
the 3x3 convolution (v1.5), VGG-19 without batch normalisation.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from suite.engine import Call, Engine, Network, ShapeProfile
from suite.errors import RequestError
from suite.workload import Predictor, Run
from workloads.common import malloc
from workloads.common.detection.torchvision_import import torchvision
from workloads.common.pictures.in_memory import copy_sample_to_host
from workloads.common.pictures.served_pictures import PictureBatcher
from workloads.common.run_request import build_engine_plan, require_max_batch
from workloads.common.served_samples import LoadedSamples, ServedSamples
from workloads.common.weights import SkippedInitialisation
from workloads.common.worker_stream import WorkerStream

# Legend: N images of a batch, C channels, H height, W width, K classes.
CLASSIFIER_SIDE_PX: Final = 224
"""Side in pixels: torchvision documents these networks' accuracies and operation counts for this
size.
"""
CLASSIFIER_CHANNELS: Final = 3
MAX_LOADED_PICTURES: Final = 256
"""Images in memory, 154 MB: twice the largest batch that vendors publish."""
CLASS_ANSWER_FORMAT: Final = struct.Struct("<i")
"""The index of the likeliest class."""
CONSTRUCTOR_ARGUMENTS: Final[Mapping[str, Mapping[str, bool]]] = {
    "googlenet": {"aux_logits": False, "init_weights": False}
}
"""Arguments of torchvision's constructors: auxiliary classifiers are used only in training."""
PRETRAINED_ARGUMENTS: Final[Mapping[str, Mapping[str, bool]]] = {
    "googlenet": {"transform_input": True}
}
"""Arguments with which torchvision builds networks for weights: GoogLeNet's came from TensorFlow,
and expect pixels from -1 to 1.
"""
AUXILIARY_WEIGHT_PREFIXES: Final = ("aux1.", "aux2.")
"""Prefixes of the weight names of auxiliary classifiers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchvisionClassifier:
    """One of torchvision's classifiers."""

    name: str
    framework: str = "torch"

    def inference(self, run: Run, weights: Path | None, engine: Engine[Any]) -> "NoiseInference":
        """Build the system under test."""
        return NoiseInference(
            run, self.name, build_classifier(self.name, run.seed, weights), engine
        )

    def listing(self, data: Path) -> str:
        """List the validation images of a folder in ImageNet's layout; RequestError if it is
        none.
        """
        from extras.networks.labelled import format_validation_listing

        return format_validation_listing(data)

    def over_data(
        self, run: Run, data: Path, weights: Path, engine: Engine[Any]
    ) -> "NoiseInference":
        """Build the system under test over the validation images."""
        from extras.networks.labelled import LabelledInference

        return LabelledInference(
            run, data, self.name, build_classifier(self.name, run.seed, weights), engine
        )

    def check_weights(self, weights: Path) -> None:
        """Raise RequestError if the file's tensors are not this network's; no tensor is read."""
        with torch.device("meta"):
            check_classifier_weights(
                build_classifier(self.name, 0, None).state_dict(), self.name, weights
            )


def build_classifier(name: str, seed: int, weights: Path | None) -> torch.nn.Module:
    """Build the network in evaluation mode, with weights from a safetensors file under
    torchvision's names, or random ones.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        arguments = {
            **CONSTRUCTOR_ARGUMENTS.get(name, {}),
            **(PRETRAINED_ARGUMENTS.get(name, {}) if weights else {}),
        }
        with SkippedInitialisation() if weights else nullcontext():
            network: torch.nn.Module = torchvision.models.get_model(name, weights=None, **arguments)
    if weights is not None:
        load_classifier_weights(network, name, weights)
    return network.eval()


def load_classifier_weights(network: torch.nn.Module, name: str, weights: Path) -> None:
    """Load weights; RequestError if they cannot be read, or belong to another network."""
    check_classifier_weights(network.state_dict(), name, weights)
    network.load_state_dict(
        {
            key: value
            for key, value in load_file(weights).items()
            if not key.startswith(AUXILIARY_WEIGHT_PREFIXES)
        },
        strict=False,
    )


def check_classifier_weights(
    network_weights: Mapping[str, torch.Tensor], name: str, weights: Path
) -> None:
    """Raise RequestError if a file's names and shapes cannot be read, or belong to another
    network.
    """
    try:
        with safe_open(weights, framework="pt") as file:
            shapes = {
                key: tuple(file.get_slice(key).get_shape())
                for key in file.keys()  # noqa: SIM118 - a safe_open is no mapping
                if not key.startswith(AUXILIARY_WEIGHT_PREFIXES)
            }
    except (OSError, SafetensorError) as error:
        raise RequestError(f"--weights {weights}: {' '.join(str(error).split())}") from error
    # older files lack the counter
    batch_counters = {key for key in network_weights if key.endswith("num_batches_tracked")}
    if mismatched := sorted((set(shapes) ^ set(network_weights)) - batch_counters) or sorted(
        key for key in shapes if shapes[key] != tuple(network_weights[key].shape)
    ):
        raise RequestError(
            f"--weights {weights}: weights of a network other than {name}:"
            f" {', '.join(mismatched[:3])}{' ...' if len(mismatched) > 3 else ''}"
        )


class NoisePredictor:
    """One worker's predictor: image indices in, classes out."""

    def __init__(
        self,
        call: Call[torch.Tensor],
        held: LoadedSamples[torch.Tensor],
        device: torch.device,
        batch: int,
    ) -> None:
        self._call, self._held, self._batch = call, held, batch
        self._batcher, self._stream = PictureBatcher(device), WorkerStream(device)

    def warm_up(self) -> None:
        """Answer one batch of blank images: a closed loop has a single batch size."""
        self._predict_classes(
            [torch.zeros(CLASSIFIER_CHANNELS, CLASSIFIER_SIDE_PX, CLASSIFIER_SIDE_PX)] * self._batch
        )

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the class of each image."""
        return self._predict_classes([self._held[sample] for sample in samples])

    def _predict_classes(self, pictures_CHW: Sequence[torch.Tensor]) -> Sequence[bytes]:
        with self._stream.enter_inference():
            (logit_NK,) = self._call(self._batcher.copy_to_device(pictures_CHW))
            best_N = self._stream.copy_to_host(logit_NK.argmax(dim=1))
        return [CLASS_ANSWER_FORMAT.pack(best) for best in best_N.tolist()]


class NoiseInference(ServedSamples[torch.Tensor]):
    """A network, an engine, and noise images in host memory."""

    def __init__(self, run: Run, name: str, network: torch.nn.Module, engine: Engine[Any]) -> None:
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        self._run, self._device = run, torch.device(run.device)
        self._batch = require_max_batch(run)
        count = max(MAX_LOADED_PICTURES, self._batch)
        super().__init__(count, count, self._prepare_pictures)
        shape = ((self._batch, CLASSIFIER_CHANNELS, CLASSIFIER_SIDE_PX, CLASSIFIER_SIDE_PX),)
        self._executable = engine.compile(
            Network(
                name=name,
                module=network,
                framework="torch",
                inputs=(torch.zeros(shape[0], device=self._device),),
                input_names=("picture",),
                output_names=("logit",),
                shapes=ShapeProfile(minimum=shape, usual=shape, maximum=shape),
            ),
            build_engine_plan(run),
        )

    def _prepare_pictures(self, samples: Sequence[int]) -> Iterator[torch.Tensor]:
        return (
            copy_sample_to_host(generate_noise_picture(self._run.seed, sample), self._run.device)
            for sample in samples
        )

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        return NoisePredictor(self._executable.open(), self._held, self._device, max_batch)

    def truth(self, folder: Path) -> None:
        """Write nothing: noise has no labels."""


def generate_noise_picture(seed: int, sample: int) -> torch.Tensor:
    """Generate one normalised image, C H W, as a function of seed and index alone."""
    generator = torch.Generator().manual_seed(seed * MAX_LOADED_PICTURES + sample)
    return torch.randn(
        CLASSIFIER_CHANNELS, CLASSIFIER_SIDE_PX, CLASSIFIER_SIDE_PX, generator=generator
    )


alexnet = partial(TorchvisionClassifier, name="alexnet")
googlenet = partial(TorchvisionClassifier, name="googlenet")
resnet50 = partial(TorchvisionClassifier, name="resnet50")
resnet101 = partial(TorchvisionClassifier, name="resnet101")
vgg19 = partial(TorchvisionClassifier, name="vgg19")
