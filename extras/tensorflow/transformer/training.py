"""The maths of one training run in TensorFlow. The harness owns the clock, the log and the decision
to stop.
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import count
from pathlib import Path

import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from extras.tensorflow.engine import limit_tensorflow_threads
from extras.tensorflow.transformer.model import (
    SeededDropout,
    TensorFlowTensor,
    TensorFlowTransformer,
    generate_initial_weights,
)
from extras.tensorflow.transformer.tensors import build_tensorflow_translator
from suite.engine import Precision
from suite.errors import RequestError
from suite.rounds import HyperValue
from suite.workload import Block, Run, Scores
from workloads.common import malloc, run_request, weights_description
from workloads.common.optimisation.schedules import iterate_epoch_blocks
from workloads.common.run_request import require_run_training_row
from workloads.common.text.bleu import BleuForm, compute_bleu
from workloads.common.text.parallel_text import list_translation_facts
from workloads.transformer import data, survey
from workloads.transformer.checkpoint import TRANSFORMER_NAME, TransformerDescription
from workloads.transformer.recipe import (
    DecodingParameters,
    TransformerRecipe,
    compute_smoothed_label_entropy,
)
from workloads.transformer.subwords import PAD_ID

# Legend: N sentences of a batch, S source and T target positions, X target tokens of a batch, V
# subtokens.


class TransformerTraining:
    """Model, data and optimizer; all random numbers follow from seed and step, so there is no
    generator state.
    """

    def __init__(self, run: Run) -> None:
        prepare_tensorflow_training(run)
        malloc.keep_freed_memory()
        limit_tensorflow_threads(run.threads)
        self._run, self._row = run, require_run_training_row(run, TRANSFORMER_NAME)
        recipe, self._decoding = (
            TransformerRecipe.build_from_settings(run.settings),
            DecodingParameters.build_from_settings(run.settings),
        )
        self._recipe = replace(recipe, micro_tokens=recipe.batch_tokens)  # no micro-batches here
        self._found = run_request.resolve_data_survey(run, survey.TransformerDataSet)
        self._shape = self._recipe.sizes.build_shape(int(self._found["vocabulary"]))
        self._model = TensorFlowTransformer(
            self._shape, generate_initial_weights(self._shape, run.seed)
        )
        self._adam = TensorFlowAdam(self._model, self._recipe)
        self._schedule = self._recipe.build_schedule()
        pair = tf.TensorSpec([None, None], tf.int64)
        number = tf.TensorSpec([], tf.int64)
        self._take = tf.function(
            self._take_training_step,
            input_signature=[pair, pair, number, tf.TensorSpec([], tf.float32)],
            autograph=False,
        )
        self._translate = build_tensorflow_translator(self._model, self._decoding)
        self._loss: TensorFlowTensor = None

    @cached_property
    def _data(self) -> data.TransformerTrainingData:
        """Open text and vocabulary; like everything that opens the data, this runs inside the
        clock.
        """
        return survey.load_surveyed_training_data(self._run, self._found, self._recipe)

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sizes of both splits, and the signature of the metric."""
        return list_translation_facts(self._found, BleuForm.T2T)

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of epochs between evaluations, as the round's row sets them."""
        return iterate_epoch_blocks(self._row)

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run the steps of an epoch from `first_step`."""
        pairs = self._data.train
        planned = data.plan_transformer_batches(pairs, self._recipe, self._run.seed, epoch)
        first_number = (epoch - 1) * len(planned) + first_step  # every epoch has as many steps
        for number, batch_N in enumerate(planned[first_step:], first_number):
            step = data.plan_transformer_step(pairs, self._recipe, batch_N, epoch)
            batch = pairs.collate_pairs(step.micro_batches[0])
            self._loss = self._take(
                batch.source_NS,
                batch.target_NT,
                np.int64(number),
                np.float32(self._schedule(number)),
            )
            yield step.samples

    def _take_training_step(
        self,
        source_NS: TensorFlowTensor,
        target_NT: TensorFlowTensor,
        number: TensorFlowTensor,
        rate: TensorFlowTensor,
    ) -> TensorFlowTensor:
        """Take one step, and return the mean loss over its target tokens."""
        drop = SeededDropout(
            self._recipe.dropout, tf.stack([tf.constant(self._run.seed, tf.int64), number]), count()
        )
        with tf.GradientTape() as tape:
            logit_XV = self._model.compute_logits(source_NS, target_NT, drop)
            loss = tf.reduce_mean(
                compute_token_losses(
                    logit_XV,
                    tf.boolean_mask(target_NT, target_NT != PAD_ID),
                    self._recipe.smoothing,
                )
            )
        variables = list(self._model.weights.values())
        self._adam.apply_gradients(tape.gradient(loss, variables), number, rate)
        return loss

    def loss(self) -> float:
        """Mean loss over the target tokens of the last step; NaN before the first."""
        return float("nan") if self._loss is None else float(self._loss)

    def evaluate(self) -> Scores:
        """Translate and score all sentences."""
        texts = [""] * len(self._data.sources)
        for indices in data.plan_translation_batches(self._data.sources, 0, 1):
            answers = self._translate([self._data.sources[index] for index in indices])
            for index, ids in zip(indices, answers, strict=True):
                texts[index] = self._data.text.words.decode_ids(ids)
        return {"bleu": compute_bleu(BleuForm.T2T, texts, self._data.test.targets)}

    def save(self, folder: Path) -> None:
        """Save weights and Adam's moments; the harness keeps the step number."""
        for kind, variables in self._iterate_saved_variables():
            save_file(
                {name: variable.numpy() for name, variable in variables.items()},
                folder / f"{kind}.safetensors",
            )

    def restore(self, folder: Path) -> None:
        """Restore a saved state; nothing in it is executed."""
        for kind, variables in self._iterate_saved_variables():
            for name, value in load_file(folder / f"{kind}.safetensors").items():
                variables[name].assign(value)

    def _iterate_saved_variables(self) -> Iterator[tuple[str, Mapping[str, TensorFlowTensor]]]:
        yield "weights", self._model.weights
        yield "mean", self._adam.means
        yield "square", self._adam.squares

    def export(self, folder: Path) -> None:
        """Write the weights in PyTorch's form."""
        save_file(
            {name: variable.numpy() for name, variable in self._model.weights.items()},
            folder / weights_description.WEIGHTS_FILE,
        )
        weights_description.write_weights_description(
            TransformerDescription(
                workload=TRANSFORMER_NAME,
                shape=self._shape,
                vocabulary_sha256=self._found["vocabulary_sha256"],
            ),
            folder,
        )


class TensorFlowAdam:
    """Adam as in Kingma and Ba 2015, section 2, in PyTorch's form: epsilon is added to the
    bias-corrected root.
    """

    def __init__(self, model: TensorFlowTransformer, recipe: TransformerRecipe) -> None:
        self.recipe, self.variables = recipe, model.weights
        self.means, self.squares = (
            {name: tf.Variable(tf.zeros_like(one)) for name, one in model.weights.items()}
            for _ in range(2)
        )

    def apply_gradients(
        self, gradients: list[TensorFlowTensor], number: TensorFlowTensor, rate: TensorFlowTensor
    ) -> None:
        """Update all weights; `number` counts steps from 0."""
        recipe, step = self.recipe, tf.cast(number + 1, tf.float32)
        first, second = 1 - recipe.beta_1**step, tf.sqrt(1 - recipe.beta_2**step)
        for (name, variable), gradient in zip(self.variables.items(), gradients, strict=True):
            dense = tf.convert_to_tensor(gradient)
            mean = self.means[name].assign_add((1 - recipe.beta_1) * (dense - self.means[name]))
            square = self.squares[name].assign_add(
                (1 - recipe.beta_2) * (tf.square(dense) - self.squares[name])
            )
            variable.assign_sub(rate / first * mean / (tf.sqrt(square) / second + recipe.epsilon))


def compute_token_losses(
    logit_XV: TensorFlowTensor, label_X: TensorFlowTensor, smoothing: float
) -> TensorFlowTensor:
    """Cross-entropy of each token with smoothed labels, minus its minimum; metrics.py,
    padded_cross_entropy_loss.
    """
    vocabulary = logit_XV.shape[1]
    low = smoothing / (vocabulary - 1)
    right_X = tf.gather(logit_XV, label_X, batch_dims=1)
    expected_X = (1 - smoothing - low) * right_X + low * tf.reduce_sum(logit_XV, axis=1)
    return (
        tf.reduce_logsumexp(logit_XV, axis=1)
        - expected_X
        - compute_smoothed_label_entropy(smoothing, vocabulary)
    )


def prepare_tensorflow_training(run: Run) -> None:
    """Reject what is not implemented; keep fp32 in true fp32, for which TensorFlow would use TF32
    by default.
    """
    tf.config.experimental.enable_tensor_float_32_execution(False)
    check_tensorflow_precision(run.precision)
    if run.world_size > 1:
        raise RequestError(
            f"{TRANSFORMER_NAME} in TensorFlow trains on one rank; run it without torchrun, or with"
            " --framework torch"
        )


def check_tensorflow_precision(precision: Precision) -> None:
    """Reject precisions that are not implemented."""
    if precision is not Precision.FP32:
        raise RequestError(
            f"precision {precision}: {TRANSFORMER_NAME} in TensorFlow trains in fp32"
        )
