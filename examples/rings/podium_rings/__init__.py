"""A workload in its own package. Imports no framework; its parts do, on use."""

from suite.workload import Workload

WORKLOAD = Workload(
    name="rings",
    training="podium_rings.training:RingsTraining",
    inference="podium_rings.inference:RingsInference",
    score="podium_rings.scoring:score",
    served_by={"torch": ("podium_rings.inference",)},
)
