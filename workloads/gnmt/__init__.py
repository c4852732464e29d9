"""GNMT v2, recurrent translation from English to German; Wu et al. 2016, arXiv:1609.08144. Imports
no framework.
"""

from typing import Final

from suite.workload import Workload

WORKLOAD: Final = Workload(
    name="gnmt",
    frameworks=frozenset({"torch"}),
    check_run="workloads.common.run_request:check_run_without_input",
    training="workloads.gnmt.training:GNMTTraining",
    inference="workloads.gnmt.inference:GNMTInference",
    data_set="workloads.gnmt.survey:GNMTDataSet",
    trial="workloads.gnmt.trial:build_gnmt_trial",
    score="workloads.gnmt.scoring:score",
    sample_scores="workloads.gnmt.scoring:sample_gnmt_scores",
    agree="workloads.common.text.agreement:agree",
    examples="workloads.gnmt.examples:examples",
    served_by={"torch": ("workloads.gnmt.inference",)},
)
