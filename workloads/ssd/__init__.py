"""SSD-ResNet34 on COCO; Liu et al. 2016, arXiv:1512.02325, at MLPerf's training size (300 px) and
serving size (1200 px). Imports no framework.
"""

from typing import Final

from suite.workload import Workload

WORKLOAD: Final = Workload(
    name="ssd",
    frameworks=frozenset({"torch"}),
    check_run="workloads.common.run_request:check_run_with_input",
    training="workloads.ssd.training:SSDTraining",
    inference="workloads.ssd.inference:SSDInference",
    data_set="workloads.ssd.survey:build_ssd_data_set",
    trial="workloads.ssd.trial:build_ssd_trial",
    score="workloads.ssd.scoring:score",
    sample_scores="workloads.ssd.scoring:sample_ssd_scores",
    agree="workloads.ssd.agreement:agree",
    examples="workloads.ssd.examples:examples",
    has_large_kernels=True,
    served_by={"torch": ("workloads.ssd.inference",)},
)
