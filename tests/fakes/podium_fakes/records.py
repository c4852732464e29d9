"""The records that the entry points of the fakes name."""

from suite.studies.bare_network import BareNetworkRecord
from suite.workload import Workload

FAKE = Workload(
    name="fake",
    training="podium_fakes.fake:build_training",
    inference="podium_fakes.fake:FakeInference",
    trial="podium_fakes.fake:build_trial",
    score="podium_fakes.fake:score",
)
DESCENT = Workload(
    name="descent",
    training="podium_fakes.descent:DescentTraining",
    inference="podium_fakes.fake:FakeInference",
    score="podium_fakes.fake:score",
)
AUDITED = Workload(
    name="audited",
    training="podium_fakes.audited:refuse_training",
    inference="podium_fakes.audited:build_inference",
    score="podium_fakes.audited:score",
)
SHUFFLENET = BareNetworkRecord(
    network="podium_fakes.networks:shufflenet", score="workloads.resnet50.scoring:score"
)
