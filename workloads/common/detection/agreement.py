"""Whether two sets of detections may come from one model: sums of floats depend on the size of the batch, and with them scores,
which of two near boxes suppresses the other, and what just misses a threshold. No framework: the judge runs it.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

# Legend: D detections of the one, E of the other, 4 left, top, right, bottom.
Floats: TypeAlias = npt.NDArray[np.float64]

SURE: Final = 0.3  # house rule: score from which a detection has to be found again ...
SCORE_SLACK: Final = 0.1  # ... with a score no further away
OVERLAP: Final = 0.5  # suppression keeps either of two boxes that overlap by more
MOST: Final = 1000  # house rule: more detections than any round asks for (200) would only fill the memory, each pair with a number
ODD_SHARE: Final = 0.2  # house rule: one in five may be odd, where a suppressed box had suppressed others


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Detections in one picture."""

    box_D4: Floats
    score_D: Floats
    label_D: Floats


def agree(one: Found, other: Found) -> bool:
    """Return whether what the one is sure of the other has found too, and the other way round; answers without end agree with none."""
    return max(len(one.score_D), len(other.score_D)) <= MOST and covered(one, other) and covered(other, one)


def covered(one: Found, other: Found) -> bool:
    """Return whether the other has found what the one is sure of."""
    sure_D = one.score_D >= SURE
    near_DE = np.abs(one.score_D[sure_D, None] - other.score_D) <= SCORE_SLACK
    near_DE &= one.label_D[sure_D, None] == other.label_D
    near_DE &= overlaps(one.box_D4[sure_D], other.box_D4) >= OVERLAP
    missed = int((~near_DE.any(axis=1)).sum())
    return missed <= int(ODD_SHARE * int(sure_D.sum()))


def overlaps(box_D4: Floats, box_E4: Floats) -> Floats:
    """Intersection over union of each box of the one with each of the other; boxes of no area overlap none."""
    corner_DE2 = np.maximum(box_D4[:, None, :2], box_E4[:, :2])
    shared_DE = np.clip(np.minimum(box_D4[:, None, 2:], box_E4[:, 2:]) - corner_DE2, 0, None).prod(axis=2)
    area_D, area_E = ((each[:, 2:] - each[:, :2]).prod(axis=1) for each in (box_D4, box_E4))
    both_DE = area_D[:, None] + area_E - shared_DE
    found: Floats = np.divide(shared_DE, both_DE, out=np.zeros_like(shared_DE), where=both_DE > 0)
    return found
