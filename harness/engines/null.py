"""The null engine and the null generator, systems under test that do nothing: they measure the
harness ceiling.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from suite.engine import Engine, Executable, Network, Plan, Precision
from suite.errors import MissingError
from suite.workload import Predictor, Run, TokenGenerator

NULL_ANSWER: Final = b"\0\0\0\0"
"""As long as a class number, the smallest answer of any workload."""
NULL_TOKEN: Final = 0
NULL_ANSWER_TOKENS: Final = 16
"""House rule: fewer than any language model's answers, of which MLPerf's shortest are cut at 128
tokens; the shorter an answer, the more its own cost weighs.
"""
NULL_SLOTS: Final = 256
"""Answers that are generated at once, as large servers do."""


class NullEngine:
    """Refuses networks; exists only because a workload receives an engine."""

    name: ClassVar[str] = "null"
    accepts: ClassVar[frozenset[str]] = frozenset()

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return None: nothing is ever missing."""
        return None

    def compile(self, network: Network[Any], plan: Plan[Any]) -> Executable[Any]:
        """Refuse."""
        raise MissingError("the null engine runs no networks")


class NullPredictor:
    """Answers at once."""

    def warm_up(self) -> None:
        """Do nothing."""

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Return the same four bytes for each sample."""
        return [NULL_ANSWER] * len(samples)

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Return the same four bytes for each payload."""
        return [NULL_ANSWER] * len(payloads)


@dataclass(frozen=True, slots=True)
class NullInference:
    """Samples that consist only of their number."""

    sample_count: int = 1024
    performance_sample_count: int = 1024
    predictor: Predictor = field(default_factory=NullPredictor)
    """What each worker has: it does nothing, or what is to be timed."""

    def load(self, samples: Sequence[int]) -> None:
        """Do nothing."""

    def unload(self, samples: Sequence[int]) -> None:
        """Do nothing."""

    def payload(self, sample: int) -> bytes:
        """Return nothing: the answer needs nothing."""
        return b""

    def length(self, sample: int) -> int:
        """Return the same length for all samples."""
        return 1

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Return the predictor."""
        return self.predictor

    def truth(self, folder: Path) -> None:
        """Do nothing: there is no ground truth."""

    def close(self) -> None:
        """Do nothing."""


class NullGenerator:
    """Gives each answer the same tokens, one per step and slot."""

    slots: ClassVar[int] = NULL_SLOTS

    def __init__(self) -> None:
        self._going = [(slot, NULL_TOKEN, False) for slot in range(self.slots)]
        self._ended = [(slot, NULL_TOKEN, True) for slot in range(self.slots)]
        self._left = [0] * self.slots
        self._live: dict[int, None] = {}

    def warm_up(self) -> None:
        """Do nothing."""

    def admit(self, slot: int, prompt: Sequence[int]) -> None:
        """Begin an answer."""
        self._left[slot] = NULL_ANSWER_TOKENS
        self._live[slot] = None

    def step(self) -> Sequence[tuple[int, int, bool]]:
        """Give each live slot the same token."""
        going, ended, left, found = self._going, self._ended, self._left, []
        for slot in self._live:
            left[slot] -= 1
            found.append(going[slot] if left[slot] else ended[slot])
        return found

    def release(self, slot: int) -> None:
        """Free a slot."""
        del self._live[slot]


class NullGeneratingInference(NullInference):
    """Samples whose prompts are empty."""

    def prompt(self, sample: int) -> Sequence[int]:
        """Return no tokens: the answer needs none."""
        return ()

    def open_generator(self) -> TokenGenerator:
        """Build a generator that does nothing."""
        return NullGenerator()


class NullGeneratingWorkload:
    """The serving half that the harness ceiling of generated answers is measured with."""

    def build_inference(
        self, run: Run, checkpoint: Path, engine: Engine[Any]
    ) -> NullGeneratingInference:
        """Return the system under test that does nothing."""
        return NullGeneratingInference()


class NullWorkload:
    """The serving half that the harness ceiling is measured with."""

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> NullInference:
        """Return the system under test that does nothing."""
        return NullInference()
