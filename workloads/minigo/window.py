"""The positions that a network learns from: those of the last generations, and the finished groups
of the current one.
"""

from collections import deque
from pathlib import Path
from typing import Final
from zipfile import BadZipFile

import numpy as np

from suite.errors import RequestError
from workloads.minigo.go.board import Array, BoardGeometry
from workloads.minigo.go.features import apply_plane_symmetries, apply_policy_symmetries
from workloads.minigo.go.games import SelfPlayExamples

# Legend: B positions of a batch, E examples, F planes, P points, A actions.
WINDOW_STATE_FILE: Final = "window.npz"
# kind of random draws, distinct from that of generation.py
BATCH_STREAM, WINDOW_SHUFFLE_STREAM = (
    3,
    4,
)
SAMPLED_SYMMETRIES: Final = 8


class TrainingWindow:
    """Stores the examples; batches are functions of (seed, generation, step)."""

    def __init__(
        self, shape: BoardGeometry, seed: int, generations: int, *, shuffled: bool
    ) -> None:
        """`shuffled`: each position gets the moves and the result of another one, as a control."""
        self._shape, self._seed, self._shuffled = shape, seed, shuffled
        self._held = deque[SelfPlayExamples](maxlen=generations)
        self.playing: list[SelfPlayExamples] = []
        """The finished groups of the current generation."""
        self._all: SelfPlayExamples | None = None
        self._label_E: Array = np.zeros(0, np.int64)

    def add_generation(self, generation: int) -> None:
        """Add the finished generation, and drop the oldest."""
        self._held.append(SelfPlayExamples.merge_examples(self.playing))
        self.playing = []
        self._merge_generations(generation)

    def _merge_generations(self, generation: int) -> None:
        self._all = SelfPlayExamples.merge_examples(list(self._held))
        rng = np.random.default_rng([self._seed, generation, 0, WINDOW_SHUFFLE_STREAM])
        self._label_E = (
            rng.permutation(len(self._all)) if self._shuffled else np.arange(len(self._all))
        )

    def sample_batch(self, generation: int, step: int, size: int) -> tuple[Array, Array, Array]:
        """Draw plane_BFP (float32), policy_BA and result_B, each position in one of its
        symmetries.
        """
        if self._all is None:
            self._merge_generations(generation)
        assert self._all is not None
        rng = np.random.default_rng([self._seed, generation, step, BATCH_STREAM])
        chosen_B = rng.integers(len(self._all), size=size)
        symmetry_B = rng.integers(SAMPLED_SYMMETRIES, size=size)
        label_B = self._label_E[chosen_B]
        plane_BFP = apply_plane_symmetries(
            self._shape, self._all.plane_EFP[chosen_B], symmetry_B
        ).astype(np.float32)
        return (
            plane_BFP,
            apply_policy_symmetries(self._shape, self._all.policy_EA[label_B], symmetry_B),
            self._all.result_E[label_B],
        )

    def save_window(self, folder: Path) -> None:
        """Save the whole window."""
        parts = {"held": list(self._held), "playing": self.playing}
        np.savez(
            folder / WINDOW_STATE_FILE,
            allow_pickle=False,
            **{
                f"{kind}.{number}.{name}": array
                for kind, many in parts.items()
                for number, part in enumerate(many)
                for name, array in list_example_arrays(part).items()
            },
        )

    def restore_window(self, folder: Path) -> None:
        """Restore a saved window; RequestError if it cannot be read."""
        try:
            with (
                (folder / WINDOW_STATE_FILE).open("rb") as stream,
                np.load(stream, allow_pickle=False) as found,
            ):
                generations, playing = (
                    [
                        SelfPlayExamples(
                            **{name: found[f"{kind}.{number}.{name}"] for name in EXAMPLE_ARRAYS}
                        )
                        for number in range(
                            sum(key.startswith(f"{kind}.") for key in found) // len(EXAMPLE_ARRAYS)
                        )
                    ]
                    for kind in ("held", "playing")
                )
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise RequestError(
                f"{folder / WINDOW_STATE_FILE}: the positions of the checkpoint are unreadable;"
                " start a new run without --resume"
            ) from error
        self._held = deque(generations, maxlen=self._held.maxlen)
        self.playing, self._all = playing, None


EXAMPLE_ARRAYS: Final = ("plane_EFP", "policy_EA", "result_E")


def list_example_arrays(examples: SelfPlayExamples) -> dict[str, Array]:
    """Return the arrays by name."""
    return {name: getattr(examples, name) for name in EXAMPLE_ARRAYS}
