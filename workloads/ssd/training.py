"""The maths of one training run. The harness owns the clock, the log and the decision to stop."""

from collections.abc import Generator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

import torch
from torch import nn

from suite import events
from suite.input import Reader
from suite.rounds import HyperValue
from suite.workload import Run, Scores, StepPreparation
from workloads.common import inputs, run_request, weights
from workloads.common.detection import coco, coco_survey, memory_format
from workloads.common.detection.coco import CocoSplit
from workloads.common.inputs import batches
from workloads.common.optimisation import collectives, mixed_precision
from workloads.common.optimisation.convolution_search import search_convolution_algorithms
from workloads.common.optimisation.prepared_loss import LossFunction, PreparedLoss
from workloads.common.optimisation.step import Stepper
from workloads.common.optimisation.stepped_training import SteppedTraining
from workloads.common.pictures import file_checks
from workloads.common.pictures.decoding import (
    build_row_constants,
    normalise_pictures,
    normalise_rows,
)
from workloads.common.pictures.files import PictureFiles
from workloads.ssd import data, model, scoring, survey
from workloads.ssd.colours import change_colours
from workloads.ssd.detector import postprocessing
from workloads.ssd.detector.default_boxes import (
    SSD_CONFIGURATIONS,
    build_default_boxes,
    match_default_boxes,
)
from workloads.ssd.detector.loss import compute_ssd_losses
from workloads.ssd.recipe import SSD_MOMENTUM, SSDRecipe

# Legend: N images of a batch, B default boxes, K classes, H height, W width, C channels, 4
# offsets.
SSD_EVAL_BATCH_PICTURES = 20  # images


class SSDTraining(SteppedTraining):
    """Model, data and optimizer of one rank."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, model.SSD_NAME)
        self._recipe = recipe = SSDRecipe.build_from_settings(run.settings)
        self._configuration = SSD_CONFIGURATIONS[recipe.configuration]
        self._memory_format = memory_format.choose_training_memory_format(
            run, self._configuration.picture_px
        )
        batches.check_micro_batch_span(recipe.batch_size, recipe.span, run.world_size)
        self._found = run_request.resolve_data_survey(run, survey.build_ssd_data_set)
        self._categories = coco_survey.parse_surveyed_categories(self._found)
        self._sizes = {
            split: file_checks.parse_split_survey(self._found, split).usable
            for split in coco_survey.COCO_SPLITS
        }
        network = build_seeded_ssd(run.seed, 1 + len(self._categories), recipe)
        # not in the stubs
        self._model: nn.Module = network.to(self._device, memory_format=self._memory_format)  # type: ignore[call-overload]
        optimizer = torch.optim.SGD(
            self._model.parameters(),
            lr=recipe.base_rate,
            momentum=SSD_MOMENTUM,
            weight_decay=recipe.weight_decay,
        )
        self._stepper = Stepper(run, self._model, optimizer, clip_norm=recipe.clip_norm)
        self._default_B4 = build_default_boxes(self._configuration).to(self._device)
        self._compute_batch_loss = PreparedLoss(
            run,
            self._select_inputs,
            build_ssd_loss(
                self._stepper.network,
                self._configuration.picture_px,
                self._memory_format,
                self._device,
            ),
        )
        self._schedule = recipe.build_schedule(len(self._plan_epoch(1)))

    def prepare_steps(self) -> Sequence[StepPreparation]:
        """Compile and record the steps of a whole micro-batch, on black images without objects."""
        recipe, device, side = self._recipe, self._device, self._configuration.picture_px
        boxes = len(self._default_B4)
        blank = (
            torch.zeros(recipe.span, side, side, 3, dtype=torch.uint8, device=device),
            torch.zeros(recipe.span, boxes, 4, device=device),
            torch.zeros(recipe.span, boxes, dtype=torch.int64, device=device),
            torch.ones(recipe.span, device=device),
        )
        with search_convolution_algorithms():
            return self._stepper.prepare_loss(
                self._compute_batch_loss, blank, compiled=recipe.compiled, recorded=recipe.recorded
            )

    @cached_property
    def _train_split(self) -> CocoSplit:
        """Read the training annotations; like everything that opens the data, this runs inside the
        clock.
        """
        split = coco_survey.load_usable_coco_split(
            data.resolve_ssd_folder(self._run), self._found, "train"
        )
        return split.shuffle_labels(self._run.seed) if self._recipe.shuffle_labels else split

    @cached_property
    def _val_split(self) -> CocoSplit:
        return coco_survey.load_usable_coco_split(
            data.resolve_ssd_folder(self._run), self._found, "val"
        )

    @cached_property
    def _truth(self) -> coco.CocoDocument:
        return coco.build_coco_truth(self._val_split)

    @cached_property
    def _train_reader(self) -> Reader[batches.SampleKey, data.SSDTargetBatch]:
        recipe = self._recipe
        return inputs.open_input_reader(
            self._run,
            data.SSDTrainingAlbum(
                self._train_split,
                self._configuration.picture_px,
                self._run.seed,
                recipe.max_samples,
            ),
            recipe.workers,
        )

    @cached_property
    def _eval_reader(self) -> Reader[Path, None]:
        view = partial(data.build_square_view, size=self._configuration.picture_px)
        return inputs.open_input_reader(self._run, PictureFiles(view), self._recipe.workers)

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sizes of both splits, the signature of the metric, and the micro-batches of a
        step.
        """
        recipe = self._recipe
        signature = (
            "coco-box-ap|0.50:0.95|100 detections|all"
            f" pictures|resize:{self._configuration.picture_px}|bilinear"
        )
        return {
            "train_samples": self._sizes["train"],
            "eval_samples": self._sizes["val"],
            "metric_signature": signature,
            events.GRADIENT_ACCUMULATION_STEPS: batches.count_rank_micro_batches(
                recipe.batch_size, recipe.span, self._run.world_size
            ),
        }

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run the steps of an epoch from `first_step`; images of earlier steps are not
        decoded.
        """
        with search_convolution_algorithms():
            yield from self._stepper.take_planned_steps(
                self._plan_epoch(epoch),
                epoch,
                first_step,
                self._schedule,
                self._train_reader.read,
                self._compute_batch_loss,
            )

    def _plan_epoch(self, epoch: int) -> list[batches.OptimizerStep]:
        recipe, run = self._recipe, self._run
        return batches.plan_epoch_steps(
            self._sizes["train"],
            recipe.batch_size,
            recipe.span,
            run.seed,
            epoch,
            run.rank,
            run.world_size,
        )

    def _select_inputs(
        self, batch: tuple[torch.Tensor, data.SSDTargetBatch]
    ) -> tuple[torch.Tensor, ...]:
        """Return the images in their changed colours, what each default box is to predict, offsets
        and label, and the images' weights: tensors of one shape, however many objects there are.
        """
        picture_NHWC, targets = batch
        picture_NHWC = change_colours(
            picture_NHWC,
            targets.blend_number_NS,
            targets.blend_factor_NS,
            targets.hue_shift_N,
        )
        matched = match_default_boxes(targets.box_NO4, targets.label_NO, self._default_B4)
        return picture_NHWC, *matched, targets.weight_N

    def _predict_boxes(self, picture_NHWC: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        picture_NCHW = normalise_pictures(picture_NHWC.to(self._device, non_blocking=True))
        with mixed_precision.build_autocast(self._run.device, self._run.precision):
            offset_NB4, logit_NBK = self._stepper.network(picture_NCHW)
        return offset_NB4.float(), logit_NBK.float()

    def evaluate(self) -> Scores:
        """Run detection on this rank's share of the images, and score the detections of all
        ranks.
        """
        collectives.average_batch_norm_statistics(self._model, self._run.world_size)
        self._stepper.network.eval()
        keys = batches.plan_evaluation_batches(
            self._sizes["val"], SSD_EVAL_BATCH_PICTURES, self._run.rank, self._run.world_size
        )
        paths = [[self._val_split.path(key.index) for key in part] for part in keys]
        answers: list[tuple[int, bytes]] = []
        with torch.inference_mode():
            for part, (picture_NHWC, _) in zip(keys, self._eval_reader.read(paths), strict=True):
                predicted = self._predict_boxes(picture_NHWC)
                samples = [key.index for key in part]
                answers += zip(
                    samples,
                    postprocessing.encode_ssd_answers(samples, *predicted, self._default_B4),
                    strict=True,
                )
        return {
            scoring.SSD_METRIC: scoring.score_ssd_answers(
                dict(collectives.gather_from_ranks(answers, self._run.world_size)), self._truth
            )
        }

    def export(self, folder: Path) -> None:
        """Write the weights; the last evaluation has averaged the batch-norm statistics."""
        description = model.SSDDescription(
            workload=model.SSD_NAME,
            configuration=self._configuration.name,
            categories=self._categories,
        )
        weights.write_exported_weights(self._model, description, folder)


def build_ssd_loss(
    network: nn.Module, side: int, layout: torch.memory_format, device: torch.device
) -> LossFunction:
    """Build the function of images, of the offsets and labels that default boxes are to predict,
    and of weights that returns the loss summed over the images.
    """
    mean_R, scale_R = build_row_constants(device, side)

    def compute_loss(
        picture_NHWC: torch.Tensor,
        target_NB4: torch.Tensor,
        label_NB: torch.Tensor,
        weight_N: torch.Tensor,
    ) -> torch.Tensor:
        picture_NCHW = normalise_rows(picture_NHWC, mean_R, scale_R)
        offset_NB4, logit_NBK = network(picture_NCHW.contiguous(memory_format=layout))
        loss_N = compute_ssd_losses(offset_NB4.float(), logit_NBK.float(), target_NB4, label_NB)
        return (loss_N * weight_N).sum()

    return compute_loss


def build_seeded_ssd(seed: int, classes: int, recipe: SSDRecipe) -> nn.Module:
    """Build the network with the same initial weights on every rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = model.build_ssd(recipe.configuration, classes)
        if recipe.start_weights == model.SSD_RANDOM_START:
            model.init_random_ssd(network)
    if recipe.start_weights != model.SSD_RANDOM_START:
        model.load_resnet34_weights(network, Path(recipe.start_weights).expanduser())
    return network
