"""One system under test: the accuracy set, decoded before LoadGen's clock, and answers as four bytes each."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suite.engine import Calibration, Call, Engine, Network, ShapeProfile
from suite.errors import RequestError
from suite.workload import Predictor, Run
from workloads.common import memory
from workloads.common.calibration import Listed, given, listed, of_pictures
from workloads.common.held import Held
from workloads.common.pictures import broken, decode, normalise, settle
from workloads.common.runs import inference_row, plan
from workloads.common.values import flag, positive
from workloads.resnet50 import data, embedded, model, pictures, scoring

# Legend: N pictures of a batch, K classes, H height, W width, C channels.
USUAL_BATCH = 8  # between the smallest and the largest, for engines that want an example of what is common


class ResNet50Predictor:
    """One worker's way from sample numbers to answers."""

    def __init__(self, call: Call[torch.Tensor], held: Held[torch.Tensor], blank_CHW: torch.Tensor, max_batch: int) -> None:
        self._call, self._held, self._blank, self._max_batch = call, held, blank_CHW, max_batch

    def warm_up(self) -> None:
        """Run every batch size once, on empty pictures."""
        for size in range(1, self._max_batch + 1):
            self._answer([self._blank] * size)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the class of each picture."""
        return self._answer([self._held[sample] for sample in samples])

    def _answer(self, pictures_CHW: Sequence[torch.Tensor]) -> Sequence[bytes]:
        with torch.inference_mode():
            picture_NCHW = torch.stack(list(pictures_CHW))
            (logit_NK,) = self._call(picture_NCHW)
            label_N: list[int] = logit_NK.argmax(dim=1).tolist()
        return [scoring.ANSWER.pack(label) for label in label_N]


class ResNet50Inference:
    """A checkpoint, an engine and the pictures of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        memory.keep_freed()
        torch.set_num_threads(run.threads)
        network, description = model.load(checkpoint)
        self._run = run
        self._val = accuracy_set(run, description)
        self._row = inference_row(run, model.NAME)
        self._size = check_size(run, description)
        self._held = Held(self._prepared, run.threads)
        self._blank = torch.zeros(3, self._size, self._size, device=run.device)
        self._executable = engine.compile(self._network(network), plan(run, given(run, self._calibration)))

    def _network(self, module: torch.nn.Module) -> Network[torch.Tensor]:
        one, usual, most = ((size, *self._blank.shape) for size in (1, min(USUAL_BATCH, self._max_batch), self._max_batch))
        return Network(
            name=model.NAME,
            module=module,
            framework="torch",
            inputs=(self._blank.unsqueeze(0),),
            input_names=("picture",),
            output_names=("logit",),
            dimensions=({0: "batch"},),
            shapes=ShapeProfile(minimum=(one,), usual=(usual,), maximum=(most,)),
        )

    def _calibration(self) -> Calibration[torch.Tensor]:
        return of_pictures(self._run, calibration_list(self._run), self._val, [self._val.root], lambda path: (self._picture(path).unsqueeze(0),))

    @property
    def _max_batch(self) -> int:
        return positive(self._run.settings, "batching.max_batch")

    @property
    def sample_count(self) -> int:
        """Pictures of the accuracy set."""
        return len(self._val)

    @property
    def performance_sample_count(self) -> int:
        """The round's number, or all where there are fewer."""
        return min(self._row.performance_samples, len(self._val))

    def load(self, samples: Sequence[int]) -> None:
        """Decode, resize, crop and normalise; none of that is timed in MLPerf (inference_rules.adoc, Data)."""
        self._held.load(samples)

    def _prepared(self, sample: int) -> torch.Tensor:
        return self._picture(self._val.path(sample))

    def _picture(self, path: Path) -> torch.Tensor:
        picture_HWC = data.for_eval(decode(path), self._size)
        picture_1HWC = torch.from_numpy(np.array(picture_HWC)).unsqueeze(0)
        return normalise(picture_1HWC)[0].contiguous().to(self._run.device)

    def unload(self, samples: Sequence[int]) -> None:
        """Forget pictures."""
        self._held.unload(samples)

    def length(self, sample: int) -> int:
        """All pictures are alike."""
        return 1

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Make the predictor of one worker."""
        return ResNet50Predictor(self._executable.open(), self._held, self._blank, max_batch)

    def truth(self, folder: Path) -> None:
        """Write the labels."""
        scoring.write_labels(folder, self._val.labels.tolist())

    def close(self) -> None:
        """Forget all pictures."""
        self._held.clear()


def accuracy_set(run: Run, description: model.Description) -> pictures.Pictures:
    """Index and look over the pictures; RequestError where the checkpoint knows other classes."""
    root = run.data or data.embedded_folder(run.cache)
    found = pictures.find(root, "val")
    if found.classes != description.classes:
        raise RequestError(f"checkpoint knows {len(description.classes)} classes, and {root} has {len(found.classes)}, not the same ones")
    bad = broken(found, range(len(found)))
    return settle(found, bad, skip=flag(run.settings, "data.skip_broken"))


def calibration_list(run: Run) -> Listed:
    """Name the pictures that quantisation may look at."""
    return listed(run, Listed(name=embedded.CALIBRATION, samples=tuple(embedded.calibration_names())))


def check_size(run: Run, description: model.Description) -> int:
    """Give the size of the pictures; RequestError where the checkpoint was trained for another."""
    wanted = positive(run.settings, "data.picture_size")
    if wanted != description.picture_size:
        raise RequestError(f"checkpoint was trained for pictures of {description.picture_size} px, and data.picture_size is {wanted}")
    return wanted
