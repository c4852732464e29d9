"""What to advise where samples of a data set are broken: leaving them out is no advice where it
would change what is measured.
"""

from typing import Final

TRAINING_SPLIT: Final = "train"
MIN_USABLE_PERCENT: Final = 99
"""House rule: with fewer of the samples, a training is one on another data set."""


def advise_about_broken_samples(split: str, usable: int, count: int, skipping: str) -> str:
    """Return what to do about a split's broken samples. `skipping`: what data.skip_broken does.

    A run is scored on the whole evaluation split; only of training samples a few may be missing.
    """
    if split != TRAINING_SPLIT:
        return f"restore them: a run is scored on all of {split}"
    if usable * 100 < count * MIN_USABLE_PERCENT:
        return "restore them: they are too many to leave out"
    return f"--set data.skip_broken=true {skipping}"
