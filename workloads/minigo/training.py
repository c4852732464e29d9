"""The maths of one training run. The harness owns the clock, the log and the decision to stop.

An epoch is a generation: the network of the previous generation plays groups of games against
itself and learns from the positions of the window.
"""

import json
from collections.abc import Generator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from suite.errors import RequestError
from suite.rounds import HyperValue
from suite.workload import Run, Scores
from workloads.common import weights
from workloads.common.inputs.batches import OptimizerStep
from workloads.common.optimisation import mixed_precision
from workloads.common.optimisation.step import Stepper
from workloads.common.optimisation.stepped_training import SteppedTraining
from workloads.minigo import data, model
from workloads.minigo.generation import GameWorkers, GenerationSettings, NetworkWeights
from workloads.minigo.go.board import Array, build_board_geometry
from workloads.minigo.go.games import PlayedMatch
from workloads.minigo.player import NotANumberError
from workloads.minigo.positions.moves import format_go_move
from workloads.minigo.recipe import CHECKPOINT_PLAYER, MiniGoRecipe
from workloads.minigo.window import TrainingWindow

# Legend: B positions of a batch, F planes, P points, A actions.
GENERATION_STATE_FILE: Final = "generation.json"
HALF_A_GAME: Final = 0.5
"""Games subtracted when a match without a loss is logged: eval_accuracy must be below 1
(mlcommons/logging 0.7.0, closed_minigo.yaml).
"""
LOGGED_VALUE_DIGITS: Final = 4  # decimals of a value, -1 to 1, in a log
PositionBatch = tuple[Array, Array, Array]


class MiniGoTraining(SteppedTraining):
    """Network, window and optimizer."""

    def __init__(self, run: Run) -> None:
        if run.world_size > 1:
            raise RequestError(
                f"{model.MINIGO_NAME} trains on one rank; --set data.workers=N plays games in N "
                "processes"
            )
        super().__init__(run, model.MINIGO_NAME)
        self._recipe = recipe = MiniGoRecipe.build_from_settings(run.settings)
        self._checkpoints = data.require_checkpoint_hashes(run, recipe)
        self._network = build_seeded_minigo(run.seed, recipe, self._device)
        decayed, undecayed = model.split_minigo_parameters(self._network)
        groups: list[dict[str, Any]] = [
            {"params": decayed},
            {"params": undecayed, "weight_decay": 0.0},
        ]
        self._stepper = Stepper(
            run,
            self._network,
            torch.optim.SGD(
                groups, recipe.rates[0], recipe.momentum, weight_decay=recipe.weight_decay
            ),
        )
        self._window = TrainingWindow(
            build_board_geometry(recipe.board),
            run.seed,
            recipe.window,
            shuffled=recipe.shuffle_labels,
        )
        self._epoch, self._broken = 0, False
        self._played: list[PlayedMatch] = []

    @cached_property
    def _workers(self) -> GameWorkers:
        return GameWorkers(self._recipe.workers, self._run.device, self._run.precision)

    @cached_property
    def _opponent(self) -> NetworkWeights | None:
        if self._recipe.opponent != CHECKPOINT_PLAYER:
            return None
        return NetworkWeights.copy_network(
            data.load_opponent_network(self._run, self._recipe.board)
        )

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the positions per generation, the games per evaluation, and the signature of the
        metric, with the hash of the opponent's checkpoint if there is one.
        """
        recipe = self._recipe
        against = f"{recipe.opponent}:{recipe.opponent_settings.readouts}" + "".join(
            f"|{part}:{sha256}" for part, sha256 in self._checkpoints.items()
        )
        signature = (
            f"win_rate|{recipe.board}x{recipe.board}"
            f"|readouts:{recipe.evaluated_settings.readouts}|against:{against}|colours alternate"
        )
        return {
            "train_samples": recipe.examples,
            "eval_samples": recipe.eval_games,
            "metric_signature": signature,
        }

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Play the groups of a generation, each as a step without samples, then take the optimizer
        steps.
        """
        recipe, self._epoch = self._recipe, epoch
        if epoch == 1 and not first_step:
            self._load_start_weights()
        try:
            for examples in self._workers.play_selfplay_groups(
                self._build_selfplay_generation(epoch), range(first_step, recipe.group_count)
            ):
                self._window.playing.append(examples)
                yield 0
        except NotANumberError:
            self._broken = True  # the loss becomes NaN, and the harness ends the run
            return
        if len(self._window.playing) == recipe.group_count:
            self._window.add_generation(epoch)
        self._stepper.network.train()
        for step in range(max(0, first_step - recipe.group_count), recipe.step_count):
            samples = recipe.count_step_samples(step)
            batches = iter([self._window.sample_batch(epoch, step, samples)])
            self._stepper.take_step(
                build_single_batch_step(samples),
                recipe.compute_rate((epoch - 1) * recipe.step_count + step),
                batches,
                self._compute_batch_loss,
            )
            yield samples

    def _load_start_weights(self) -> None:
        """Load the user's start weights, inside the clock like all data."""
        if self._recipe.start == CHECKPOINT_PLAYER:
            self._network.load_state_dict(
                data.load_start_network(self._run, self._recipe.board).state_dict()
            )

    def _build_selfplay_generation(self, epoch: int) -> GenerationSettings:
        recipe = self._recipe
        noise = epoch == 1 and recipe.start != CHECKPOINT_PLAYER
        return GenerationSettings(
            seed=self._run.seed,
            generation=epoch,
            board=recipe.board,
            rules=recipe.rules,
            planes=recipe.planes,
            count=recipe.games_per_group,
            weights=None if noise else NetworkWeights.copy_network(self._network),
            player_settings=recipe.selfplay_settings,
            device=self._run.device,
            pass_last=recipe.pass_last,
        )

    def _compute_batch_loss(self, batch: PositionBatch) -> torch.Tensor:
        """Return the sum of the cross-entropy with the shares of visits and the weighted squared
        error of the value; dual_net.py.
        """
        plane_BFP, policy_BA, result_B = (
            torch.from_numpy(array).to(self._device) for array in batch
        )
        size = self._recipe.board
        with mixed_precision.build_autocast(self._run.device, self._run.precision):
            logit_BA, value_B = self._stepper.network(
                plane_BFP.view(-1, self._recipe.planes, size, size).contiguous(
                    memory_format=torch.channels_last
                )
            )
        policy = functional.cross_entropy(logit_BA.float(), policy_BA, reduction="sum")
        return policy + self._recipe.value_weight * functional.mse_loss(
            value_B.float(), result_B, reduction="sum"
        )

    def loss(self) -> float:
        """Mean loss over the positions of the last step; NaN before the first, and if the network
        that plays has outputs that are not finite.
        """
        return float("nan") if self._broken else super().loss()

    def evaluate(self) -> Scores:
        """Play against the fixed opponent; return the share of games won, with a draw as half a
        win.
        """
        recipe = self._recipe
        games = GenerationSettings(
            seed=self._run.seed,
            generation=self._epoch,
            board=recipe.board,
            rules=recipe.rules,
            planes=recipe.planes,
            count=recipe.eval_games_per_group,
            weights=NetworkWeights.copy_network(self._network),
            player_settings=recipe.evaluated_settings,
            device=self._run.device,
            pass_last=recipe.pass_last,
            opponent=self._opponent,
            opponent_settings=recipe.opponent_settings,
        )
        try:
            played = self._workers.play_evaluation_groups(
                games, range(recipe.eval_games // recipe.eval_games_per_group)
            )
        except NotANumberError:
            return {"win_rate": float("nan")}
        self._played = played
        won = float(np.concatenate([match.points_N for match in played]).sum())
        return {"win_rate": min(won, recipe.eval_games - HALF_A_GAME) / recipe.eval_games}

    def example(self) -> Mapping[str, Any]:
        """Return the first game of the evaluation, whatever its result; the network plays black."""
        first, board = self._played[0], self._recipe.board
        return {
            "board": board,
            "opponent": self._recipe.opponent,
            "moves": " ".join(format_go_move(move, board) for move in first.moves[0]),
            "values": [round(value, LOGGED_VALUE_DIGITS) for value in first.value_of_first[0]],
            "won": float(first.points_N[0]),
        }

    def save(self, folder: Path) -> None:
        """Save network, optimizer, window and the finished groups."""
        super().save(folder)
        self._window.save_window(folder)
        (folder / GENERATION_STATE_FILE).write_text(json.dumps({"epoch": self._epoch}) + "\n")

    def restore(self, folder: Path) -> None:
        """Restore a saved state."""
        super().restore(folder)
        self._window.restore_window(folder)
        self._epoch = int(json.loads((folder / GENERATION_STATE_FILE).read_text())["epoch"])

    def export(self, folder: Path) -> None:
        """Write the weights."""
        weights.write_exported_weights(self._network, self._network.description, folder)


def build_single_batch_step(size: int) -> OptimizerStep:
    """Build a step of one micro-batch."""
    return OptimizerStep(samples=size, micro_batches=([],))


def build_seeded_minigo(
    seed: int, recipe: MiniGoRecipe, device: torch.device
) -> model.MiniGoNetwork:
    """Build the network from its seed."""
    description = model.MiniGoDescription(
        workload=model.MINIGO_NAME,
        board=recipe.board,
        planes=recipe.planes,
        filters=recipe.filters,
        blocks=recipe.blocks,
        hidden=recipe.hidden,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = model.MiniGoNetwork(description)
    # not in the stubs
    return network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
