"""Five of torchvision's image classifiers, timed on noise: vendors publish throughput, latency and
power per batch of these.

Architectures are torchvision's (torchvision.models): AlexNet without groups and local response
normalisation ("One weird trick"), GoogLeNet with
batch normalisation, ResNets with the stride in the 3x3 convolution (v1.5), VGG-19 without batch
normalisation.
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
from workloads.common.pictures.in_memory import Held, on_device, on_host
from workloads.common.run_request import plan
from workloads.common.setting_values import positive
from workloads.common.weights import Undrawn

# Legend: N pictures of a batch, C channels, H height, W width, K classes.
SIZE: Final = 224
"""Side in pixels: torchvision documents these networks' accuracies and operation counts for this
size.
"""
CHANNELS: Final = 3
PICTURES: Final = 256
"""Pictures in memory, 154 MB: twice the largest batch that vendors publish."""
ANSWER: Final = struct.Struct("<i")
"""The index of the likeliest class."""
ARGUMENTS: Final[Mapping[str, Mapping[str, bool]]] = {
    "googlenet": {"aux_logits": False, "init_weights": False}
}
"""Arguments of torchvision's constructors: auxiliary classifiers are used only in training."""
PUBLISHED: Final[Mapping[str, Mapping[str, bool]]] = {"googlenet": {"transform_input": True}}
"""Arguments with which torchvision builds networks for weights: GoogLeNet's came from TensorFlow,
and expect pixels from -1 to 1.
"""
TRAINING_ALONE: Final = ("aux1.", "aux2.")
"""Prefixes of the weight names of auxiliary classifiers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """One of torchvision's classifiers."""

    name: str
    framework: str = "torch"

    def inference(self, run: Run, weights: Path | None, engine: Engine[Any]) -> "NoiseInference":
        """Build the system under test."""
        return NoiseInference(run, self.name, module(self.name, run.seed, weights), engine)

    def listing(self, data: Path) -> str:
        """List the validation pictures of a folder in ImageNet's layout; RequestError if it is
        none.
        """
        from workloads.networks.labelled import listing

        return listing(data)

    def over_data(
        self, run: Run, data: Path, weights: Path, engine: Engine[Any]
    ) -> "NoiseInference":
        """Build the system under test over the validation pictures."""
        from workloads.networks.labelled import LabelledInference

        return LabelledInference(run, data, self.name, module(self.name, run.seed, weights), engine)

    def check_weights(self, weights: Path) -> None:
        """RequestError if the file's tensors are not this network's; no tensor is read."""
        with torch.device("meta"):
            fits(module(self.name, 0, None).state_dict(), self.name, weights)


def module(name: str, seed: int, weights: Path | None) -> torch.nn.Module:
    """Build the network in evaluation mode, with weights from a safetensors file under
    torchvision's names, or random ones.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        arguments = {**ARGUMENTS.get(name, {}), **(PUBLISHED.get(name, {}) if weights else {})}
        with Undrawn() if weights else nullcontext():
            made: torch.nn.Module = torchvision.models.get_model(name, weights=None, **arguments)
    if weights is not None:
        fill(made, name, weights)
    return made.eval()


def fill(made: torch.nn.Module, name: str, weights: Path) -> None:
    """Load weights; RequestError if they cannot be read, or belong to another network."""
    fits(made.state_dict(), name, weights)
    made.load_state_dict(
        {
            key: value
            for key, value in load_file(weights).items()
            if not key.startswith(TRAINING_ALONE)
        },
        strict=False,
    )


def fits(own: Mapping[str, torch.Tensor], name: str, weights: Path) -> None:
    """RequestError if a file's names and shapes cannot be read, or are of another network."""
    try:
        with safe_open(weights, framework="pt") as file:
            shapes = {
                key: tuple(file.get_slice(key).get_shape())
                for key in file.keys()  # noqa: SIM118 - a safe_open is no mapping
                if not key.startswith(TRAINING_ALONE)
            }
    except (OSError, SafetensorError) as error:
        raise RequestError(f"--weights {weights}: {' '.join(str(error).split())}") from error
    counted = {
        key for key in own if key.endswith("num_batches_tracked")
    }  # older files lack the counter
    if strange := sorted((set(shapes) ^ set(own)) - counted) or sorted(
        key for key in shapes if shapes[key] != tuple(own[key].shape)
    ):
        raise RequestError(
            f"--weights {weights}: weights of another network than {name}:"
            f" {', '.join(strange[:3])}{' ...' if len(strange) > 3 else ''}"
        )


class NoisePredictor:
    """One worker's predictor: picture indices in, classes out."""

    def __init__(
        self, call: Call[torch.Tensor], held: Held[torch.Tensor], device: torch.device, batch: int
    ) -> None:
        self._call, self._held, self._device, self._batch = call, held, device, batch

    def warm_up(self) -> None:
        """Answer one batch of blank pictures: a closed loop has a single batch size."""
        self._answer([torch.zeros(CHANNELS, SIZE, SIZE)] * self._batch)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the class of each picture."""
        return self._answer([self._held[sample] for sample in samples])

    def _answer(self, pictures_CHW: Sequence[torch.Tensor]) -> Sequence[bytes]:
        with torch.inference_mode():
            (logit_NK,) = self._call(on_device(pictures_CHW, self._device))
            return [ANSWER.pack(best) for best in logit_NK.argmax(dim=1).tolist()]


class NoiseInference:
    """A network, an engine, and noise pictures in host memory."""

    def __init__(self, run: Run, name: str, network: torch.nn.Module, engine: Engine[Any]) -> None:
        malloc.keep_freed()
        torch.set_num_threads(run.threads)
        self._run, self._device = run, torch.device(run.device)
        self._batch = positive(run.settings, "batching.max_batch")
        self._held: Held[torch.Tensor] = Held(self._prepared)
        shape = ((self._batch, CHANNELS, SIZE, SIZE),)
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
            plan(run),
        )

    def _prepared(self, samples: Sequence[int]) -> Iterator[torch.Tensor]:
        return (on_host(noise(self._run.seed, sample), self._run.device) for sample in samples)

    @property
    def sample_count(self) -> int:
        """Number of pictures."""
        return max(PICTURES, self._batch)

    @property
    def performance_sample_count(self) -> int:
        """All pictures."""
        return self.sample_count

    def load(self, samples: Sequence[int]) -> None:
        """Generate pictures, outside the clock."""
        self._held.load(samples)

    def unload(self, samples: Sequence[int]) -> None:
        """Release pictures."""
        self._held.unload(samples)

    def length(self, sample: int) -> int:
        """Return one constant: all pictures have the same size."""
        return 1

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        return NoisePredictor(self._executable.open(), self._held, self._device, max_batch)

    def truth(self, folder: Path) -> None:
        """Write nothing: noise has no labels."""

    def close(self) -> None:
        """Release all pictures."""
        self._held.clear()


def noise(seed: int, sample: int) -> torch.Tensor:
    """Generate one normalised picture, C H W, as a function of seed and index alone."""
    generator = torch.Generator().manual_seed(seed * PICTURES + sample)
    return torch.randn(CHANNELS, SIZE, SIZE, generator=generator)


alexnet = partial(Classifier, name="alexnet")
googlenet = partial(Classifier, name="googlenet")
resnet50 = partial(Classifier, name="resnet50")
resnet101 = partial(Classifier, name="resnet101")
vgg19 = partial(Classifier, name="vgg19")
