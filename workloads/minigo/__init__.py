"""Mini-Go: a policy and value network that learns Go by playing itself (MLPerf Training v0.5 to
v2.1). Imports no framework.
"""

from typing import Final

from suite.workload import Workload

WORKLOAD: Final = Workload(
    name="minigo",
    frameworks=frozenset({"torch"}),
    hyperparameters="workloads.minigo.recipe:select_minigo_hyperparameters",
    check_run="workloads.common.run_request:check_run_without_input",
    training="workloads.minigo.training:MiniGoTraining",
    inference="workloads.minigo.inference:MiniGoInference",
    data_set="workloads.minigo.survey:MiniGoDataSet",
    trial="workloads.minigo.trial:build_minigo_trial",
    score="workloads.minigo.scoring:score",
    sample_scores="workloads.minigo.scoring:sample_minigo_scores",
    agree="workloads.minigo.agreement:agree",
    examples="workloads.minigo.examples:examples",
    episode="workloads.minigo.episodes:episode",
    served_by={"torch": ("workloads.minigo.inference",)},
)
