"""LoadGen's query sample library (QSL) over an Inference: loads samples into memory, on LoadGen's
thread, outside the clock.
"""

from collections.abc import Callable, Sequence

from harness.children.process import Abort
from suite.workload import Inference


class SampleLibrary:
    """Loads and unloads samples, and knows whether their lengths differ."""

    def __init__(self, inference: Inference, abort: Abort) -> None:
        self.inference = inference
        self.load = wrap_sample_callback(self.load_samples, abort)
        self.unload = wrap_sample_callback(self.unload_samples, abort)
        self.lengths: dict[int, int] = {}
        self.sorts = False
        """Sample lengths differed."""
        self.longest: int | None = None
        """The longest of the samples that were loaded last; None if all had the same length."""

    def load_samples(self, samples: Sequence[int]) -> None:
        """Load samples into memory and record their lengths."""
        self.inference.load(samples)
        self.lengths = {sample: self.inference.length(sample) for sample in samples}
        self.sorts |= self.sort_key is not None
        self.longest = max(self.lengths, key=self.lengths.__getitem__) if self.sort_key else None

    def unload_samples(self, samples: Sequence[int]) -> None:
        """Release samples."""
        self.inference.unload(samples)
        self.lengths = {}

    @property
    def sort_key(self) -> Callable[[int], int] | None:
        """Return the sort key of batches; None if all samples have the same length."""
        return self.lengths.__getitem__ if len(set(self.lengths.values())) > 1 else None


def wrap_sample_callback(
    callback: Callable[[Sequence[int]], None], abort: Abort
) -> Callable[[Sequence[int]], None]:
    """Pass each sample once, since MultiStream repeats some to fill its last query; end the process
    on an exception, which C++ cannot propagate.
    """

    def call_with_unique_samples(samples: Sequence[int]) -> None:
        try:
            callback(tuple(dict.fromkeys(samples)))
        except BaseException as error:
            abort(error)

    return call_with_unique_samples
