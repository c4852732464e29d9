"""The system under test: positions in memory, the network that an engine compiles, policy and value
as answers.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suite.engine import Calibration, Call, Engine, Network
from suite.errors import RequestError
from suite.workload import Predictor, Run
from workloads.common import malloc, run_request
from workloads.common.calibration import (
    CalibrationSamples,
    build_calibration,
    choose_calibration_list,
)
from workloads.common.payloads import decode_tensor, encode_tensor
from workloads.common.pictures.in_memory import (
    copy_sample_to_host,
    stack_samples_on_device,
)
from workloads.common.served_samples import LoadedSamples, ServedSamples
from workloads.common.worker_stream import WorkerStream
from workloads.minigo import data, model, scoring
from workloads.minigo.positions import embedded
from workloads.minigo.positions.records import (
    CALIBRATION_FOLDER,
    GAMES_FOLDER,
    GameRecord,
    PositionLabel,
    RecordedPosition,
    read_game_record,
    read_game_records,
    read_position_labels,
    replay_to_positions,
)
from workloads.minigo.recipe import require_board_side
from workloads.minigo.survey import POSITIONS_SPLIT, MiniGoDataSet

# Legend: N positions of a batch, F planes, H rows, W columns, A actions.
PositionTensors = tuple[torch.Tensor, torch.Tensor]
"""plane_FHW (uint8) and legal_A (bool)."""


class MiniGoPredictor:
    """One worker's predictor: sample indices in, answers out."""

    def __init__(
        self,
        call: Call[torch.Tensor],
        loaded: LoadedSamples[PositionTensors],
        blank: PositionTensors,
        device: torch.device,
        max_batch: int,
    ) -> None:
        self._call, self._held, self._blank, self._device, self._max_batch = (
            call,
            loaded,
            blank,
            device,
            max_batch,
        )
        self._stream = WorkerStream(device)

    def warm_up(self) -> None:
        """Run every batch size once, on empty boards."""
        for size in range(1, self._max_batch + 1):
            self._predict_answers([self._blank] * size)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the shares of legal actions, and the value."""
        return self._predict_answers([self._held[sample] for sample in samples])

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer positions that came over a network."""
        planes, legal = self._blank
        size = planes.numel()
        return self._predict_answers(
            [
                (decode_tensor(payload[:size], planes), decode_tensor(payload[size:], legal))
                for payload in payloads
            ]
        )

    def _predict_answers(self, samples: Sequence[PositionTensors]) -> Sequence[bytes]:
        with self._stream.enter_inference():
            plane_NFHW = stack_samples_on_device(
                [plane_FHW for plane_FHW, _ in samples], self._device
            ).float()
            logit_NA, value_N = self._call(plane_NFHW)
            legal_NA = stack_samples_on_device([legal_A for _, legal_A in samples], self._device)
            policy_NA = torch.softmax(logit_NA.float().masked_fill(~legal_NA, -torch.inf), dim=1)
            answer_NB = (
                self._stream.copy_to_host(
                    torch.cat([policy_NA, value_N.float().view(-1, 1)], dim=1)
                )
                .numpy()
                .astype("<f4", copy=False)
            )
        return [row.tobytes() for row in answer_NB]


class MiniGoInference(ServedSamples[PositionTensors]):
    """A checkpoint, an engine and the positions of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        network = model.load_minigo_checkpoint(checkpoint, require_board_side(run.settings))
        self._run, self._description = run, network.description
        row = run_request.require_run_inference_row(run, model.MINIGO_NAME)
        count: int = run_request.resolve_data_survey(run, MiniGoDataSet)[POSITIONS_SPLIT]
        super().__init__(count, row.performance_samples, self._prepare_samples)
        self._executable = engine.compile(
            self._describe_network(network),
            run_request.build_engine_plan(run, self._build_calibration),
        )

    def _describe_network(self, network: model.MiniGoNetwork) -> Network[torch.Tensor]:
        shape = (self._description.planes, self._description.board, self._description.board)
        return Network(
            name=model.MINIGO_NAME,
            module=network.to(self._run.device),
            framework="torch",
            inputs=(torch.zeros(1, *shape, device=self._run.device),),
            input_names=("planes",),
            output_names=("logit", "value"),
            dimensions=({0: "batch"},),
            shapes=run_request.build_batch_shapes(shape, run_request.require_max_batch(self._run)),
        )

    def _build_calibration(self) -> Calibration[torch.Tensor]:
        chosen = choose_calibration_list(
            self._run,
            CalibrationSamples(
                name=CALIBRATION_FOLDER, samples=tuple(embedded.iterate_calibration_records())
            ),
        )
        root = data.resolve_minigo_folder(self._run)
        accuracy = sorted({root / GAMES_FOLDER / label.name for label in self._labels})
        return build_calibration(
            self._run, chosen, lambda name: root / name, accuracy, self._build_calibration_input
        )

    def _build_calibration_input(self, path: Path) -> tuple[torch.Tensor, ...]:
        """Build the network's input for the last position of a record, for calibration."""
        game = read_game_record(path, self._description.board)
        (position,) = self._build_positions([game], [(game.name, len(game.moves))])
        return (self._convert_to_tensors(position)[0].float().unsqueeze(0).to(self._run.device),)

    @cached_property
    def _records(self) -> list[GameRecord]:
        return read_game_records(
            data.resolve_minigo_folder(self._run) / GAMES_FOLDER, self._description.board
        )

    @cached_property
    def _labels(self) -> list[PositionLabel]:
        found = read_position_labels(
            data.resolve_minigo_folder(self._run), self._records, self._description.board
        )
        if len(found) != self.sample_count:
            raise RequestError(
                f"{data.resolve_minigo_folder(self._run)}: {len(found)} positions, but the survey "
                f"found {self.sample_count}"
            )
        return found

    def _build_positions(
        self, records: Sequence[GameRecord], requested: Sequence[tuple[str, int]]
    ) -> list[RecordedPosition]:
        return replay_to_positions(
            records, requested, self._description.board, self._description.planes
        )

    def _prepare_samples(self, samples: Sequence[int]) -> Iterator[PositionTensors]:
        """Replay the games up to the positions."""
        requested = [(self._labels[sample].name, self._labels[sample].played) for sample in samples]
        return (
            self._convert_to_tensors(position)
            for position in self._build_positions(self._records, requested)
        )

    def _convert_to_tensors(self, position: RecordedPosition) -> PositionTensors:
        side = self._description.board
        plane_FHW = torch.from_numpy(np.ascontiguousarray(position.plane_FP)).view(-1, side, side)
        return copy_sample_to_host(plane_FHW, self._run.device), copy_sample_to_host(
            torch.from_numpy(position.legal_A), self._run.device
        )

    def payload(self, sample: int) -> bytes:
        """Return the planes, then the legal actions; one byte per value."""
        plane_FHW, legal_A = self._held[sample]
        return encode_tensor(plane_FHW) + encode_tensor(legal_A)

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        side = self._description.board
        blank = (
            torch.zeros(self._description.planes, side, side, dtype=torch.uint8),
            torch.ones(side**2 + 1, dtype=torch.bool),
        )
        return MiniGoPredictor(
            self._executable.open(), self._held, blank, torch.device(self._run.device), max_batch
        )

    def truth(self, folder: Path) -> None:
        """Write the labels, with the winner from the mover's point of view."""
        scoring.write_truth_labels(
            folder,
            [
                (label.move, label.winner * (-1 if label.played % 2 else 1))
                for label in self._labels
            ],
        )
