"""The system under test: positions in memory, the network that an engine compiles, policy and value
as answers.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from suite.engine import Calibration, Call, Engine, Network, ShapeProfile
from suite.errors import RequestError
from suite.workload import Predictor, Run
from workloads.common import malloc, run_request
from workloads.common.calibration import Listed, calibration, given, listed
from workloads.common.payloads import parsed, raw
from workloads.common.pictures.in_memory import Held, on_device, on_host
from workloads.common.run_request import inference_row, plan
from workloads.common.setting_values import positive
from workloads.minigo import data, model, scoring
from workloads.minigo.positions import embedded
from workloads.minigo.positions.records import (
    CALIBRATION,
    GAMES,
    Label,
    Position,
    Record,
    positions,
    read_labels,
    read_record,
    read_records,
)
from workloads.minigo.recipe import board_of
from workloads.minigo.survey import VAL, MiniGoSet

# Legend: N positions of a batch, F planes, H rows, W columns, A actions.
USUAL_BATCH: Final = (
    8  # between the smallest and the largest, for engines that want an example of what is common
)
Sample = tuple[torch.Tensor, torch.Tensor]
"""plane_FHW (uint8) and legal_A (bool)."""


class MiniGoPredictor:
    """One worker's way from sample numbers to answers."""

    def __init__(
        self,
        call: Call[torch.Tensor],
        held: Held[Sample],
        blank: Sample,
        device: torch.device,
        max_batch: int,
    ) -> None:
        self._call, self._held, self._blank, self._device, self._max_batch = (
            call,
            held,
            blank,
            device,
            max_batch,
        )

    def warm_up(self) -> None:
        """Run every batch size once, on empty boards."""
        for size in range(1, self._max_batch + 1):
            self._answer([self._blank] * size)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the shares of legal actions, and the value."""
        return self._answer([self._held[sample] for sample in samples])

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer positions that came over a network."""
        planes, legal = self._blank
        size = planes.numel()
        return self._answer(
            [
                (parsed(payload[:size], planes), parsed(payload[size:], legal))
                for payload in payloads
            ]
        )

    def _answer(self, samples: Sequence[Sample]) -> Sequence[bytes]:
        with torch.inference_mode():
            plane_NFHW = on_device([plane_FHW for plane_FHW, _ in samples], self._device).float()
            logit_NA, value_N = self._call(plane_NFHW)
            legal_NA = on_device([legal_A for _, legal_A in samples], self._device)
            policy_NA = torch.softmax(logit_NA.float().masked_fill(~legal_NA, -torch.inf), dim=1)
            answer_NB = (
                torch.cat([policy_NA, value_N.float().view(-1, 1)], dim=1)
                .cpu()
                .numpy()
                .astype("<f4", copy=False)
            )
        return [row.tobytes() for row in answer_NB]


class MiniGoInference:
    """A checkpoint, an engine and the positions of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed()
        torch.set_num_threads(run.threads)
        network = model.load(checkpoint, board_of(run.settings))
        self._run, self._row, self._description = (
            run,
            inference_row(run, model.NAME),
            network.description,
        )
        self._count: int = run_request.found(run, MiniGoSet)[VAL]
        self._held = Held(self._prepared)
        self._executable = engine.compile(
            self._network(network), plan(run, given(run, self._calibration))
        )

    def _network(self, network: model.MiniGo) -> Network[torch.Tensor]:
        shape = (self._description.planes, self._description.board, self._description.board)
        one, usual, most = (
            (size, *shape) for size in (1, min(USUAL_BATCH, self._max_batch), self._max_batch)
        )
        return Network(
            name=model.NAME,
            module=network.to(self._run.device),
            framework="torch",
            inputs=(torch.zeros(one, device=self._run.device),),
            input_names=("planes",),
            output_names=("logit", "value"),
            dimensions=({0: "batch"},),
            shapes=ShapeProfile(minimum=(one,), usual=(usual,), maximum=(most,)),
        )

    def _calibration(self) -> Calibration[torch.Tensor]:
        chosen = listed(
            self._run, Listed(name=CALIBRATION, samples=tuple(embedded.calibration_names()))
        )
        root = data.folder_of(self._run)
        accuracy = sorted({root / GAMES / label.name for label in self._labels})
        return calibration(self._run, chosen, lambda name: root / name, accuracy, self._shown)

    def _shown(self, path: Path) -> tuple[torch.Tensor, ...]:
        """Show the last position of a record, as calibration does."""
        game = read_record(path, self._description.board)
        (position,) = self._positions([game], [(game.name, len(game.moves))])
        return (self._sample(position)[0].float().unsqueeze(0).to(self._run.device),)

    @property
    def _max_batch(self) -> int:
        return positive(self._run.settings, "batching.max_batch")

    @cached_property
    def _records(self) -> list[Record]:
        return read_records(data.folder_of(self._run) / GAMES, self._description.board)

    @cached_property
    def _labels(self) -> list[Label]:
        found = read_labels(data.folder_of(self._run), self._records, self._description.board)
        if len(found) != self._count:
            raise RequestError(
                f"{data.folder_of(self._run)}: {len(found)} positions, and {self._count} when the"
                " data were surveyed"
            )
        return found

    def _positions(
        self, records: Sequence[Record], asked: Sequence[tuple[str, int]]
    ) -> list[Position]:
        return positions(records, asked, self._description.board, self._description.planes)

    @property
    def sample_count(self) -> int:
        """Positions of the accuracy set."""
        return self._count

    @property
    def performance_sample_count(self) -> int:
        """The round's number, or all where there are fewer."""
        return min(self._row.performance_samples, self._count)

    def load(self, samples: Sequence[int]) -> None:
        """Play the games up to the positions; none of that is timed."""
        self._held.load(samples)

    def _prepared(self, samples: Sequence[int]) -> Iterator[Sample]:
        asked = [(self._labels[sample].name, self._labels[sample].played) for sample in samples]
        return (self._sample(position) for position in self._positions(self._records, asked))

    def _sample(self, position: Position) -> Sample:
        side = self._description.board
        plane_FHW = torch.from_numpy(np.ascontiguousarray(position.plane_FP)).view(-1, side, side)
        return on_host(plane_FHW, self._run.device), on_host(
            torch.from_numpy(position.legal_A), self._run.device
        )

    def unload(self, samples: Sequence[int]) -> None:
        """Forget positions."""
        self._held.unload(samples)

    def payload(self, sample: int) -> bytes:
        """Return the planes, then which actions are legal; one byte each."""
        plane_FHW, legal_A = self._held[sample]
        return raw(plane_FHW) + raw(legal_A)

    def length(self, sample: int) -> int:
        """All positions are alike."""
        return 1

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Make the predictor of one worker."""
        side = self._description.board
        blank = (
            torch.zeros(self._description.planes, side, side, dtype=torch.uint8),
            torch.ones(side**2 + 1, dtype=torch.bool),
        )
        return MiniGoPredictor(
            self._executable.open(), self._held, blank, torch.device(self._run.device), max_batch
        )

    def truth(self, folder: Path) -> None:
        """Write the labels; the winner from the view of who moves."""
        scoring.write_labels(
            folder,
            [
                (label.move, label.winner * (-1 if label.played % 2 else 1))
                for label in self._labels
            ],
        )

    def close(self) -> None:
        """Forget all positions."""
        self._held.clear()
