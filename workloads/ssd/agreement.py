"""Whether two answers to one sample may come from one model; no framework, since the judge runs it."""

import numpy as np

from workloads.common import agreement
from workloads.common.agreement import Found
from workloads.ssd.scoring import DETECTION_BYTES, FIELDS, LARGEST


def agree(first: bytes, second: bytes) -> bool:
    """Compare detections: an answer that is none agrees with nothing but itself."""
    if len(first) % DETECTION_BYTES or len(second) % DETECTION_BYTES or not first or not second:
        return False
    one, other = (np.frombuffer(answer, dtype="<f4").astype(np.float64).reshape(-1, FIELDS) for answer in (first, second))
    if not np.isfinite(one).all() or not np.isfinite(other).all() or max(np.abs(one[:, 1:]).max(), np.abs(other[:, 1:]).max()) > LARGEST:
        return False
    if {*one[:, 0].tolist()} != {*other[:, 0].tolist()}:
        return False
    return agreement.agree(*(Found(box_D4=rows[:, 1:5], score_D=rows[:, 5], label_D=rows[:, 6]) for rows in (one, other)))
