"""Mask R-CNN's training at 800 px, its evaluation, and torchvision's reference loop."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, Final

import torch
from gpu_shared.timing import read_settled_clock
from gpu_shared.workbench import Workbench

from gpu_items import pictures
from gpu_items.runs import (
    ResidentBatches,
    build_run,
    tell_resident_steps,
    tell_steps,
    tell_steps_from_files,
)
from workloads.common.detection.torchvision_import import torchvision
from workloads.common.inputs.batches import SampleKey
from workloads.common.pictures.decoding import read_rgb_picture
from workloads.maskrcnn import data
from workloads.maskrcnn.detector import inference_pipeline
from workloads.maskrcnn.detector.inference_pipeline import RawDetections
from workloads.maskrcnn.start_weights import MASKRCNN_RANDOM_START
from workloads.maskrcnn.training import MaskRCNNTraining

UNIT: Final = "images/s"
MASK_SIDE: Final = 28
BLOB_SIDE: Final = 5
"""Values of a planted mask before it is smoothed, so that outlines are few and round."""
WARM_UP_PASSES: Final = 1


def build_training(bench: Workbench, batch: int, workers: int = 0) -> MaskRCNNTraining:
    """Build a training on the generated scenes, which all have one size."""
    sizes, folder = bench.sizes, pictures.prepare_scenes(bench)
    shorter, longer = sizes.mask_px
    settings = {
        "global_batch_size": batch,
        "data.micro_batch": batch,
        "data.evaluation_batch": batch,
        "data.workers": workers,
        "model.start_weights": MASKRCNN_RANDOM_START,
        "model.start_sha256": "",
        "model.frozen_norm": True,
        "min_image_size": shorter,
        "max_image_size": longer,
        "num_image_candidates": sizes.mask_candidates,
    }
    return MaskRCNNTraining(
        build_run(bench, "maskrcnn", settings, pictures.survey_scenes(folder), data=folder)
    )


def build_resident_training(bench: Workbench, batch: int) -> MaskRCNNTraining:
    """Build a training whose every batch is the first one, on the device."""
    training = build_training(bench, batch)
    (packed,) = training._loader.read([[SampleKey(index=index, epoch=1) for index in range(batch)]])
    vars(training)["_loader"] = ResidentBatches(packed, bench.device)
    return training


def measure_steps_of_maskrcnn(bench: Workbench) -> None:
    """Measure steps on resident batches."""
    for batch in bench.sizes.mask_batches:
        bench.attempt(
            f"{batch}",
            lambda name, batch=batch: tell_resident_steps(  # type: ignore[misc]
                bench, name, build_resident_training(bench, batch), UNIT
            ),
        )


def measure_files(bench: Workbench) -> None:
    """Measure training from files with many loader processes."""
    batch, workers = bench.sizes.mask_batches[-1], bench.sizes.many_workers
    bench.attempt(
        f"{batch}, {workers} workers",
        lambda name: tell_steps_from_files(
            bench, name, build_training(bench, batch, workers), UNIT
        ),
    )


def measure_torchvision_loop(bench: Workbench) -> None:
    """Measure torchvision's network and loop on the same images."""
    for batch in bench.sizes.mask_batches:
        bench.attempt(
            f"{batch}",
            lambda name, batch=batch: tell_steps(  # type: ignore[misc]
                bench, name, take_torchvision_steps(bench, batch), UNIT
            ),
        )


def take_torchvision_steps(bench: Workbench, batch: int) -> Iterator[int]:
    """Take steps as references/detection/engine.py does, in bf16 autocast, on resident images."""
    samples = read_peer_samples(bench, batch)
    shorter, longer = bench.sizes.mask_px
    model = torchvision.models.detection.maskrcnn_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=1 + max(int(target["labels"].max()) for _, target in samples),
        trainable_backbone_layers=3,
        min_size=shorter,
        max_size=longer,
    ).to(bench.device)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=1e-4, momentum=0.9, weight_decay=1e-4)
    autocast: Any = torch.autocast("cuda", torch.bfloat16) if bench.on_gpu else nullcontext()
    model.train()
    while True:
        with autocast:
            losses = model([picture for picture, _ in samples], [target for _, target in samples])
            loss = sum(losses.values())
        loss.item()  # the reference reads it in each step, to stop at infinity
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield batch


def read_peer_samples(bench: Workbench, batch: int) -> list[tuple[torch.Tensor, dict[str, Any]]]:
    """Return the first images as torchvision's loader delivers them: fractions of 1, C H W, with
    boxes, labels and masks of the file's size.
    """
    training = build_training(bench, batch)
    split = training._train_split
    found = []
    for index in range(batch):
        objects = split.build_trainable_objects(index)
        picture = torchvision.transforms.functional.pil_to_tensor(
            read_rgb_picture(split.path(index))
        )
        masks = [torch.from_numpy(mask) for mask in split.decode_object_masks(index, objects)]
        target = {
            "boxes": torch.from_numpy(objects.box_O4),
            "labels": torch.from_numpy(objects.label_O),
            "masks": torch.stack(masks),
        }
        found.append(
            (
                (picture / 255).to(bench.device),
                {name: tensor.to(bench.device) for name, tensor in target.items()},
            )
        )
    return found


def measure_evaluation(bench: Workbench) -> None:
    """Measure the evaluation of images that have as many detections as COCO allows, and of the
    few that random weights find.
    """
    bench.attempt(f"{bench.sizes.detections} planted", lambda name: tell_evaluation(bench, name, 1))
    bench.attempt("random weights", lambda name: tell_evaluation(bench, name, 0))


def tell_evaluation(bench: Workbench, name: str, planted: int) -> None:
    """Detect, paste and encode; scoring is no part of it."""
    training = build_training(bench, bench.sizes.mask_batches[-1])
    training._model.eval()
    detector: Any = inference_pipeline.build_eager_detector(training._model)
    if planted:
        detector = plant_detections(bench, detector)
    keys = data.plan_padded_batches(
        training._val_split, training._sizing, training._recipe.evaluation_batch, 0, 1
    )
    wanted = -(-bench.sizes.evaluated // training._recipe.evaluation_batch)
    keys = (keys * wanted)[:wanted]
    batches = list(zip(keys, training._eval_loader.read(keys), strict=True))

    def answer_all() -> int:
        with torch.inference_mode():
            return sum(
                len(list(training._detect_in_pictures(detector, part, found)))
                for part, found in batches
            )

    for _ in range(WARM_UP_PASSES):
        answer_all()
    began_s = read_settled_clock(bench.device)
    answered = answer_all()
    bench.tell(name, answered / (read_settled_clock(bench.device) - began_s), UNIT)


def plant_detections(
    bench: Workbench, detector: Callable[..., Any]
) -> Callable[..., list[RawDetections]]:
    """Let the network compute, and answer with drawn detections instead."""

    def detect(picture_NCHW: torch.Tensor, sizes: Sequence[tuple[int, int]]) -> list[RawDetections]:
        detector(picture_NCHW, sizes)
        return [draw_detections(bench, size) for size in sizes]

    return detect


def draw_detections(bench: Workbench, size: tuple[int, int]) -> RawDetections:
    """Draw boxes of an eighth to a half of the image with round masks."""
    generator = torch.Generator().manual_seed(1)
    count = bench.sizes.detections
    extent = torch.tensor([size[1], size[0]], dtype=torch.float32)
    centre = torch.rand(count, 2, generator=generator) * extent
    half = (torch.rand(count, 2, generator=generator) * 3 + 1) / 16 * extent
    box_D4 = torch.cat([(centre - half).clamp(min=0), torch.minimum(centre + half, extent)], dim=1)
    blob_D1MM = torch.rand(count, 1, BLOB_SIDE, BLOB_SIDE, generator=generator)
    mask_DMM = torch.nn.functional.interpolate(blob_D1MM, size=MASK_SIDE, mode="bicubic")[:, 0]
    return RawDetections(
        box_D4=box_D4.to(bench.device),
        label_D=torch.ones(count, dtype=torch.int64, device=bench.device),
        score_D=torch.ones(count, device=bench.device),
        mask_DMM=mask_DMM.clamp(0, 1).to(bench.device),
    )
