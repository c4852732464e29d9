"""LoadGen's query sample library (QSL) over an Inference: loads samples into memory, on LoadGen's thread, outside the clock."""

from collections.abc import Callable, Sequence

from harness.child_process import Abort
from suite.workload import Inference


class Library:
    """Loads and unloads samples, and knows whether there is anything to sort."""

    def __init__(self, inference: Inference, abort: Abort) -> None:
        self.inference = inference
        self.load = guarded(self.load_samples, abort)
        self.unload = guarded(self.unload_samples, abort)
        self.lengths: dict[int, int] = {}
        self.sorts = False
        """There was something to sort."""

    def load_samples(self, samples: Sequence[int]) -> None:
        """Bring samples into memory and note their lengths."""
        self.inference.load(samples)
        self.lengths = {sample: self.inference.length(sample) for sample in samples}
        self.sorts |= self.sort_key is not None

    def unload_samples(self, samples: Sequence[int]) -> None:
        """Forget samples."""
        self.inference.unload(samples)
        self.lengths = {}

    @property
    def sort_key(self) -> Callable[[int], int] | None:
        """Give what batches are sorted by; None where all samples are alike."""
        return self.lengths.__getitem__ if len(set(self.lengths.values())) > 1 else None


def guarded(callback: Callable[[Sequence[int]], None], abort: Abort) -> Callable[[Sequence[int]], None]:
    """Name each sample once, since MultiStream repeats some to fill its last query; end the process at an exception, which C++ cannot pass on."""

    def call(samples: Sequence[int]) -> None:
        try:
            callback(tuple(dict.fromkeys(samples)))
        except BaseException as error:
            abort(error)

    return call
