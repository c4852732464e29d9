"""The maths of one training run. The harness owns the clock, the log and the decision to stop."""

from collections.abc import Generator, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from suite import events
from suite.rounds import HyperValue
from suite.workload import Run, Scores
from workloads.common import run_request, weights
from workloads.common.detection import coco, coco_survey, memory_format
from workloads.common.inputs import batches
from workloads.common.optimisation import collectives, mixed_precision
from workloads.common.optimisation.step import Stepper
from workloads.common.optimisation.stepped_training import SteppedTraining
from workloads.common.pictures import file_checks
from workloads.common.setting_values import require_flag_setting
from workloads.maskrcnn import data, model, scoring, start_weights, survey
from workloads.maskrcnn.detector import inference_pipeline
from workloads.maskrcnn.recipe import MaskRCNNRecipe, require_anchor_sizes
from workloads.maskrcnn.settings import build_region_counts

# Legend: N images of a batch, C channels, H height, W width.


class MaskRCNNTraining(SteppedTraining):
    """Model, data and optimizer of one rank."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, model.MASKRCNN_NAME)
        self._recipe = recipe = MaskRCNNRecipe.build_from_settings(run.settings)
        self._found = run_request.resolve_data_survey(run, survey.build_maskrcnn_data_set)
        self._sizes = {
            split: file_checks.parse_split_survey(self._found, split).usable
            for split in coco_survey.COCO_SPLITS
        }
        self._description = describe_maskrcnn_weights(
            run, recipe, coco_survey.parse_surveyed_categories(self._found)
        )
        self._memory_format = memory_format.choose_training_memory_format(run, recipe.min_size)
        network_on_host = build_seeded_maskrcnn(run, recipe, self._description)
        self._model: model.MaskRCNNNetwork = network_on_host.to(
            self._device, memory_format=self._memory_format
        )  # type: ignore[call-overload]  # not in the stubs
        self._stepper = Stepper(
            run,
            self._model,
            build_maskrcnn_optimizer(self._model, recipe),
            clip_norm=recipe.clip_norm,
        )
        self._sizing = data.PictureSizing(min_size=recipe.min_size, max_size=recipe.max_size)
        self._schedule = recipe.build_schedule()

    @cached_property
    def _train_split(self) -> coco.CocoSplit:
        """Read the training annotations; like everything that opens the data, this runs inside the
        clock.
        """
        split = coco_survey.load_usable_coco_split(
            data.resolve_maskrcnn_folder(self._run), self._found, "train"
        )
        return split.shuffle_labels(self._run.seed) if self._recipe.shuffle_labels else split

    @cached_property
    def _val_split(self) -> coco.CocoSplit:
        return coco_survey.load_usable_coco_split(
            data.resolve_maskrcnn_folder(self._run), self._found, "val"
        )

    @cached_property
    def _truth(self) -> coco.CocoDocument:
        return coco.build_coco_truth(self._val_split)

    @cached_property
    def _wide_pictures(self) -> npt.NDArray[np.bool_]:
        return data.find_wide_pictures(self._train_split)

    @cached_property
    def _loader(self) -> data.MaskRCNNLoader:
        return data.build_maskrcnn_loader(
            data.AnnotatedPictures(self._train_split, self._sizing, self._run.seed),
            self._recipe.workers,
            pinned=self._run.device.startswith("cuda"),
        )

    @cached_property
    def _eval_loader(self) -> data.EvaluationLoader:
        return data.build_evaluation_loader(
            data.ResizedPictures(self._val_split, self._sizing),
            self._recipe.workers,
            pinned=self._run.device.startswith("cuda"),
        )

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sizes of both splits, the signature of the metric, and the micro-batches of a
        step.
        """
        recipe = self._recipe
        signature = f"coco_ap|bbox,segm|min:{recipe.min_size}|max:{recipe.max_size}|bilinear"
        return {
            "train_samples": self._sizes["train"],
            "eval_samples": self._sizes["val"],
            "metric_signature": signature,
            events.GRADIENT_ACCUMULATION_STEPS: batches.count_rank_micro_batches(
                recipe.batch_size, recipe.micro_batch, self._run.world_size
            ),
        }

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run the steps of an epoch from `first_step`; images of earlier steps are not
        decoded.
        """
        yield from self._stepper.take_planned_steps(
            self._plan_epoch(epoch),  # of equal length: orientations are grouped alike
            epoch,
            first_step,
            self._schedule,
            self._loader.read,
            self._compute_batch_loss,
        )

    def _plan_epoch(self, epoch: int) -> list[batches.OptimizerStep]:
        recipe, run = self._recipe, self._run
        global_batches = data.plan_orientation_batches(
            self._wide_pictures, recipe.batch_size, run.seed, epoch
        )
        return batches.plan_rank_steps(
            global_batches, recipe.micro_batch, epoch, run.rank, run.world_size
        )

    def _compute_batch_loss(self, batch: data.PackedPictures) -> torch.Tensor:
        """Return the sum of the five losses, which are batch means, times the number of images;
        filler images are excluded.
        """
        pictures = batch.unpack_pictures()
        weighted_samples = [sample for sample in pictures if sample.weight]
        samples = weighted_samples or pictures
        picture_NCHW, sizes = data.build_padded_batch(
            [sample.picture_HWC for sample in samples], self._device
        )
        picture_NCHW = picture_NCHW.contiguous(memory_format=self._memory_format)
        with mixed_precision.build_autocast(self._run.device, self._run.precision):
            losses: dict[str, torch.Tensor] = self._stepper.network(
                picture_NCHW, sizes, [sample.build_target() for sample in samples]
            )
        return torch.stack(list(losses.values())).sum() * len(weighted_samples)

    def evaluate(self) -> Scores:
        """Run detection on this rank's share of the images, and score the detections of all
        ranks.
        """
        collectives.average_batch_norm_statistics(self._model, self._run.world_size)
        self._model.eval()
        detector = inference_pipeline.build_eager_detector(self._model)
        keys = data.plan_padded_batches(
            self._val_split,
            self._sizing,
            self._recipe.evaluation_batch,
            self._run.rank,
            self._run.world_size,
        )
        answers: list[tuple[int, bytes]] = []
        with torch.inference_mode():
            for part, pictures_HWC in zip(keys, self._eval_loader.read(keys), strict=True):
                answers += zip(
                    [key.index for key in part],
                    self._detect_in_pictures(detector, part, pictures_HWC),
                    strict=True,
                )
        return scoring.score_maskrcnn_answers(
            dict(collectives.gather_from_ranks(answers, self._run.world_size)), self._truth
        )

    def _detect_in_pictures(
        self,
        detector: inference_pipeline.MaskRCNNDetector,
        keys: list[batches.SampleKey],
        pictures_HWC: list[torch.Tensor],
    ) -> Iterator[bytes]:
        """Answer as in inference."""
        picture_NCHW, sizes = data.build_padded_batch(pictures_HWC, self._device)
        with mixed_precision.build_autocast(self._run.device, self._run.precision):
            detections = detector(picture_NCHW, sizes)
        for key, raw, size in zip(keys, detections, sizes, strict=True):
            found = inference_pipeline.convert_raw_detections(
                raw, size, self._val_split.get_picture_size(key.index)
            )
            yield scoring.pack_maskrcnn_answer(key.index, found)

    def export(self, folder: Path) -> None:
        """Write the weights; the last evaluation has averaged the batch-norm statistics."""
        weights.write_exported_weights(self._model, self._description, folder)


def describe_maskrcnn_weights(
    run: Run, recipe: MaskRCNNRecipe, categories: tuple[coco.CocoCategory, ...]
) -> model.MaskRCNNDescription:
    """Describe what a server needs to know about the weights."""
    return model.MaskRCNNDescription(
        workload=model.MASKRCNN_NAME,
        classes=tuple(category.name for category in categories),
        min_size=recipe.min_size,
        max_size=recipe.max_size,
        anchor_sizes=require_anchor_sizes(run.settings),
        frozen_norm=require_flag_setting(run.settings, "model.frozen_norm"),
    )


def build_seeded_maskrcnn(
    run: Run, recipe: MaskRCNNRecipe, description: model.MaskRCNNDescription
) -> model.MaskRCNNNetwork:
    """Build the network, the same on every rank, from the user's start weights if the profile
    requires them.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        built = model.MaskRCNNNetwork(description, build_region_counts(run.settings))
    # a closed row requires a hash
    untrained = (
        recipe.start_weights == start_weights.MASKRCNN_RANDOM_START and not recipe.start_sha256
    )
    if not untrained and (recipe.start_weights or description.frozen_norm):
        start_weights.load_msra_weights(
            built.backbone.body, recipe.start_weights, recipe.start_sha256
        )
    return built


def build_maskrcnn_optimizer(network: nn.Module, recipe: MaskRCNNRecipe) -> torch.optim.Optimizer:
    """Create the optimizer: biases have no decay and twice the learning rate (T:maskrcnn,
    config/defaults.py, SOLVER.BIAS_LR_FACTOR).
    """
    decayed, biases = model.split_maskrcnn_parameters(network)
    groups: list[dict[str, Any]] = [
        {"params": decayed},
        {"params": biases, "weight_decay": 0.0, "rate_factor": 2.0},
    ]
    return torch.optim.SGD(
        groups, lr=recipe.base_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay
    )
