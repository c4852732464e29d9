"""Samples in memory for LoadGen: prepared once, in any order, and gone when they are unloaded."""

import pytest

from workloads.common.served_samples import LoadedSamples, wrap_in_threads


def test_loaded_samples_are_there_until_they_are_unloaded() -> None:
    """LoadGen loads a part, runs, unloads it and goes on with the next."""
    held = LoadedSamples(wrap_in_threads(lambda sample: sample * 10, threads=3))
    held.load([4, 2, 9])
    assert [held[sample] for sample in (2, 4, 9)] == [20, 40, 90]
    held.unload([4, 7])
    with pytest.raises(KeyError):
        held[4]
    held.release_samples()
    with pytest.raises(KeyError):
        held[2]


def test_a_sample_that_cannot_be_prepared_says_why() -> None:
    """A picture that vanished: the exception reaches LoadGen's thread."""
    with pytest.raises(ZeroDivisionError):
        LoadedSamples(wrap_in_threads(lambda sample: 1 // sample, threads=2)).load([1, 0])
