"""The network as a player: it supplies priors and values to the search."""

from typing import Final

import numpy as np
import torch

from workloads.minigo.go.board import Array, Boards, build_board_geometry
from workloads.minigo.go.features import (
    apply_plane_symmetries,
    build_feature_planes,
    revert_policy_symmetries,
)
from workloads.minigo.model import MiniGoNetwork, build_fused_network

# Legend: N positions, F planes, P points, A actions, T positions seen.
BOARD_SYMMETRIES: Final = 8
NOISE_DEVIATION: Final = 0.4
"""House rule: spread of the noise model, for the logarithms of priors and for values."""


class NotANumberError(ArithmeticError):
    """The output of a network that plays contains NaN or infinity."""


class NetworkPlayer:
    """Implements Evaluator; each position is evaluated in one of its eight symmetries, drawn at
    random.
    """

    def __init__(self, network: MiniGoNetwork, device: str = "cpu") -> None:
        self._planes, self._size = network.description.planes, network.description.board
        self._shape, self._device = build_board_geometry(self._size), torch.device(device)
        self._network = build_fused_network(network).to(self._device)

    def __call__(
        self, boards: Boards, past_NTP: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Evaluate positions; NotANumberError if an output is not finite."""
        plane_NFP = build_feature_planes(self._shape, boards, past_NTP, self._planes)
        symmetry_N = rng.integers(BOARD_SYMMETRIES, size=len(boards))
        shown = torch.from_numpy(
            apply_plane_symmetries(self._shape, plane_NFP, symmetry_N).astype(np.float32)
        )
        with torch.inference_mode():
            plane_NFHW = shown.view(-1, self._planes, self._size, self._size).contiguous(
                memory_format=torch.channels_last
            )
            logit_NA, value_N = self._network(plane_NFHW.to(self._device))
            prior_NA = revert_policy_symmetries(
                self._shape, torch.softmax(logit_NA, dim=1).cpu().numpy(), symmetry_N
            )
        found_N: Array = value_N.cpu().numpy()
        if not (np.isfinite(found_N).all() and np.isfinite(prior_NA).all()):
            raise NotANumberError("the network that plays has outputs that are not finite")
        return prior_NA, found_N


class NoiseEvaluator:
    """Implements Evaluator with random noise, for the first games of a network that starts without
    weights.
    """

    def __init__(self, actions: int) -> None:
        self._actions = actions

    def __call__(
        self, boards: Boards, past_NTP: Array, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draw priors and values."""
        prior_NA = np.exp(rng.normal(0, NOISE_DEVIATION, (len(boards), self._actions)))
        return prior_NA, np.clip(rng.normal(0, NOISE_DEVIATION, len(boards)), -1, 1)
