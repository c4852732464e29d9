"""Measures one workload's full-size configuration on synthetic images of real size: a training step
and a prediction, in images per second.

    python benchmarks/full_size.py maskrcnn --device cuda --precision bf16 --batch 8 --format json

Scenes of 640 x 480 in COCO's own format go through the workload's own loader, training and
inference; start weights are random ones in the file format of the real ones. On a GPU the fraction
of the roofline is that of the matrix products and convolutions of a step (counted by
torch.utils.flop_counter) against `--peak-tflops`.
"""

import argparse
import hashlib
import json
import pickle
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain, count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from suite import registry
from suite.rounds import HyperValue, Profile
from suite.rounds.settings import resolve_settings
from suite.terms import Precision
from suite.workload import Run

PICTURES: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The measurement to make."""

    workload: str
    device: str
    precision: Precision
    batch: int
    steps: int
    threads: int
    workers: int
    """Processes that load training images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Both halves."""

    training_pictures_per_s: float
    training_tflop_per_picture: float
    inference_pictures_per_s: float
    n_steps: int
    pictures: str
    where: str


def mask_weights(folder: Path) -> Mapping[str, HyperValue]:
    """Write random blobs under Caffe2's names, as in MSRA's file."""
    from workloads.maskrcnn import model
    from workloads.maskrcnn import start_weights as start

    body: Any = model.build_maskrcnn_backbone(frozen_norm=True).body
    state = body.state_dict()
    blobs = {
        name: state[found].numpy()
        for name in start_names()
        if (found := start.convert_caffe2_blob_name(name))
    }
    path = folder / "R-50.pkl"
    path.write_bytes(pickle.dumps(blobs, protocol=2))
    return {
        "model.start_weights": str(path),
        "model.start_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def start_names() -> list[str]:
    """Return the name of every blob in a ResNet-50's body."""
    found = ["conv1_w", "res_conv1_bn_s", "res_conv1_bn_b"]
    for stage, blocks in ((2, 3), (3, 4), (4, 6), (5, 3)):
        for block in range(blocks):
            branches = ("branch1",) * (block == 0) + ("branch2a", "branch2b", "branch2c")
            found += [
                f"res{stage}_{block}_{branch}{end}"
                for branch in branches
                for end in ("_w", "_bn_s", "_bn_b")
            ]
    return found


def settings_of(asked: Asked, folder: Path) -> Mapping[str, HyperValue]:
    """Return the settings that each workload needs in addition to those of `full`."""
    own: dict[str, Callable[[], Mapping[str, HyperValue]]] = {
        "maskrcnn": lambda: {"data.micro_batch": asked.batch, **mask_weights(folder)},
        "ssd": lambda: {
            "model_bn_span": asked.batch,
            "model.start_weights": "random",
            "model.configuration": "300",
        },
    }
    return {
        "global_batch_size": asked.batch,
        "batching.max_batch": asked.batch,
        "data.workers": asked.workers,
        **own[asked.workload](),
    }


def synthetic(folder: Path) -> Path:
    """Render scenes of COCO's usual size and number of objects."""
    from workloads.common.detection import synthetic_scenes
    from workloads.common.detection.scene_looks import WeavingParameters

    scenery = synthetic_scenes.SceneParameters(
        pictures={"train": PICTURES, "val": PICTURES},
        classes=("circle", "cross", "star", "triangle"),
        extents=((640, 480), (480, 640)),
        mean_objects=7.3,
        most_objects=20,
        radius=(0.03, 0.3),
        crowd_share=0.1,
        empty_share=0.0,
        surfaces=WeavingParameters(
            periods_px=(5.0, 8.0), ground_strength=0.5, rags=(1, 4), rag_radius=(0.07, 0.2)
        ),
    )
    return synthetic_scenes.prepare_scene_folder(folder, scenery)


def run_of(asked: Asked, folder: Path, *, serving: bool) -> Run:
    """Build the run of `full` on the synthetic images."""
    round = registry.load_round()
    return Run(
        round=round,
        profile=Profile.FULL,
        seed=1,
        data=synthetic(folder),
        cache=folder / "cache",
        framework="torch",
        input="default",
        device=asked.device,
        precision=asked.precision,
        threads=asked.threads,
        settings=resolve_settings(
            round, asked.workload, Profile.FULL, dict(settings_of(asked, folder)), serving=serving
        ),
    )


def settled(device: str) -> float:
    """Return the time after the device has finished its work."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()


def train(asked: Asked, run: Run, checkpoint: Path) -> tuple[float, float]:
    """Return images per second and 10^12 operations per image; write a checkpoint."""
    from torch.utils.flop_counter import FlopCounterMode

    training = registry.load_workload(asked.workload).build_training(run)
    steps = chain.from_iterable(training.train_epoch(epoch) for epoch in count(1))
    with FlopCounterMode(display=False) as counter:
        counted = next(steps)
    began = settled(asked.device)
    pictures = sum(islice(steps, asked.steps))
    passed = settled(asked.device) - began
    checkpoint.mkdir()
    training.export(checkpoint)
    return pictures / passed, counter.get_total_flops() / counted / 1e12


def serve(asked: Asked, run: Run, checkpoint: Path) -> float:
    """Return images per second in batches of the requested size."""
    system = registry.load_workload(asked.workload).build_inference(
        run, checkpoint, registry.load_engine("torch")
    )
    system.load(range(PICTURES))
    predict = system.open(0, asked.batch)
    batches = [
        list(range(start, min(start + asked.batch, PICTURES)))
        for start in range(0, PICTURES, asked.batch)
    ]
    predict(batches[0])
    began = settled(asked.device)
    answered = sum(len(predict(batch)) for batch in islice(batches, asked.steps))
    passed = settled(asked.device) - began
    system.close()
    return answered / passed


def measure(asked: Asked) -> Measured:
    """Measure both halves."""
    import torch

    with TemporaryDirectory() as name:
        folder = Path(name)
        rate, work = train(asked, run_of(asked, folder, serving=False), folder / "checkpoint")
        served = serve(asked, run_of(asked, folder, serving=True), folder / "checkpoint")
    where = torch.cuda.get_device_name() if asked.device.startswith("cuda") else "CPU"
    return Measured(
        training_pictures_per_s=rate,
        training_tflop_per_picture=work,
        inference_pictures_per_s=served,
        n_steps=asked.steps,
        pictures="640 x 480 scenes, 7.3 objects each, through the workload's own loader",
        where=f"{where}, {asked.precision}, batch {asked.batch}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("workload", choices=["maskrcnn", "ssd"])
    parser.add_argument("--format", choices=["text", "json"], default="text", dest="form")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", type=Precision, default=Precision.FP32)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--workers", type=int, default=1, help="processes that load training pictures"
    )
    parser.add_argument(
        "--peak-tflops",
        type=float,
        default=0.0,
        help="peak of the device in this precision; 0: report no fraction",
    )
    given = parser.parse_args()
    asked = Asked(
        **{
            name: getattr(given, name)
            for name in ("workload", "device", "precision", "batch", "steps", "threads", "workers")
        }
    )
    found = measure(asked)
    table = {name: getattr(found, name) for name in found.__dataclass_fields__}
    if given.peak_tflops:
        table["fraction_of_roofline"] = (
            found.training_pictures_per_s * found.training_tflop_per_picture / given.peak_tflops
        )
    if given.form == "json":
        print(json.dumps(table))
    else:
        print("\n".join(f"  {name:<28} {value}" for name, value in table.items()))


if __name__ == "__main__":
    main()
