"""Mask R-CNN with ResNet-50 and a feature pyramid on COCO; He et al. 2017, arXiv:1703.06870.
Imports no framework.
"""

from typing import Final

from suite.workload import Workload

WORKLOAD: Final = Workload(
    name="maskrcnn",
    frameworks=frozenset({"torch"}),
    check_run="workloads.common.run_request:check_run_without_input",
    training="workloads.maskrcnn.training:MaskRCNNTraining",
    inference="workloads.maskrcnn.inference:MaskRCNNInference",
    data_set="workloads.maskrcnn.survey:build_maskrcnn_data_set",
    trial="workloads.maskrcnn.trial:build_maskrcnn_trial",
    score="workloads.maskrcnn.scoring:score",
    sample_scores="workloads.maskrcnn.scoring:sample_maskrcnn_scores",
    agree="workloads.maskrcnn.agreement:agree",
    examples="workloads.maskrcnn.examples:examples",
    has_large_kernels=True,
    served_by={"torch": ("workloads.maskrcnn.inference",)},
)
