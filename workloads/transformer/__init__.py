"""The Transformer (big) on WMT English-German; Vaswani et al. 2017, arXiv:1706.03762. Imports no
framework.
"""

from typing import Final

from suite.workload import Workload

WORKLOAD: Final = Workload(
    name="transformer",
    frameworks=frozenset({"torch"}),
    check_run="workloads.common.run_request:check_run_without_input",
    training={"torch": "workloads.transformer.training:TransformerTraining"},
    inference={"torch": "workloads.transformer.inference:TransformerInference"},
    data_set="workloads.transformer.survey:TransformerDataSet",
    trial={"torch": "workloads.transformer.trial:trial"},
    score="workloads.transformer.scoring:score",
    sample_scores="workloads.transformer.scoring:sample_transformer_scores",
    agree="workloads.common.text.agreement:agree",
    examples="workloads.transformer.examples:examples",
    served_by={"torch": ("workloads.transformer.inference",)},
)
