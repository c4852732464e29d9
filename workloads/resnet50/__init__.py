"""ResNet-50 v1.5 on ImageNet; He et al. 2015, arXiv:1512.03385, with the stride in the 3x3
convolution. Imports no framework.
"""

from typing import Final

from suite.workload import Workload

WORKLOAD: Final = Workload(
    name="resnet50",
    frameworks=frozenset({"torch"}),
    hyperparameters="workloads.resnet50.recipe:select_resnet50_hyperparameters",
    check_run="workloads.common.run_request:check_run_with_input",
    training={"torch": "workloads.resnet50.training:ResNet50Training"},
    inference={"torch": "workloads.resnet50.inference:ResNet50Inference"},
    data_set="workloads.resnet50.survey:ImageNetDataSet",
    trial={"torch": "workloads.resnet50.trial:trial"},
    score="workloads.resnet50.scoring:score",
    sample_scores="workloads.resnet50.scoring:sample_resnet50_scores",
    agree="workloads.resnet50.agreement:agree",
    examples="workloads.resnet50.examples:examples",
    served_by={"torch": ("workloads.resnet50.inference",)},
)
