"""Turns the network's output into detections: softmax, decoding, per-class non-maximum suppression;
all inside LoadGen's clock.

mlcommons/training, single_stage_detector/ssd, utils.py, Encoder.decode_batch. In MLPerf v0.5's
inference reference the clamping of the overlap of two boxes has no effect, so boxes that lie
diagonally apart may suppress one another (ssd_r34.py, the result of `masked_fill_` on a clone is
dropped); the overlap here is correct, as in training.
"""

from typing import Final

import numpy as np
import torch

from workloads.common.detection.ops import torchvision
from workloads.ssd.detector.default_boxes import decode_box_offsets

# Legend: N images of a batch, B default boxes, K classes, 0 is the background, T best of a class,
# D detections, 4 left, top, right, bottom.
Tensor = torch.Tensor

MIN_SSD_SCORE: Final = 0.05  # utils.py, decode_single
SSD_NMS_IOU: Final = 0.5  # train.py: encoder.decode_batch(ploc, plabel, 0.50, 200)
EMPTY_DETECTION_17: Final = np.zeros((1, 7), dtype=np.float32)
"""The answer without detections: one of the background class with no size and no score; an empty
answer would look like a missing one.
"""
MAX_CANDIDATES_PER_CLASS: Final = 200
MAX_DETECTIONS_PER_PICTURE: Final = 200


def encode_ssd_answers(
    samples: list[int], offset_NB4: Tensor, logit_NBK: Tensor, default_B4: Tensor
) -> list[bytes]:
    """Return each image's detections as the accuracy log stores them: 7 float32 each, best
    first.
    """
    row_D7 = (
        select_ssd_detections(decode_box_offsets(offset_NB4, default_B4), logit_NBK.softmax(dim=2))
        .cpu()
        .numpy()
    )
    encoded = []
    for number, sample in enumerate(samples):
        if (row_D7[:, 0] == number).any():
            own_D7 = row_D7[row_D7[:, 0] == number][:MAX_DETECTIONS_PER_PICTURE]
        else:
            own_D7 = EMPTY_DETECTION_17.copy()
        own_D7[:, 0] = sample
        encoded.append(own_D7.astype(np.dtype("<f4")).tobytes())
    return encoded


def select_ssd_detections(box_NB4: Tensor, score_NBK: Tensor) -> Tensor:
    """Return (image, top, left, bottom, right, score, class) of the remaining detections, best
    first, [D, 7].
    """
    score_NCT, box_index_NCT = (
        score_NBK[..., 1:]
        .transpose(1, 2)
        .topk(min(MAX_CANDIDATES_PER_CLASS, score_NBK.shape[1]), dim=2)
    )
    picture_D, class_D, rank_D = (score_NCT > MIN_SSD_SCORE).nonzero(as_tuple=True)
    score_D = score_NCT[picture_D, class_D, rank_D]
    box_D4 = box_NB4[picture_D, box_index_NCT[picture_D, class_D, rank_D]]
    retained_D = torchvision.ops.batched_nms(
        box_D4, score_D, picture_D * score_NBK.shape[2] + class_D, SSD_NMS_IOU
    )
    columns = (
        picture_D.float()[:, None],
        box_D4[:, [1, 0, 3, 2]],
        score_D[:, None],
        (class_D + 1).float()[:, None],
    )
    return torch.cat(columns, dim=1)[retained_D]
