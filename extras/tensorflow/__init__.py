"""TensorFlow: an engine, and what ResNet-50 and the Transformer are in it. Imports no framework."""

from typing import Final

from suite.workload import WorkloadFramework

TENSORFLOW: Final = "tensorflow"
RESNET50: Final = WorkloadFramework(
    workload="resnet50",
    framework=TENSORFLOW,
    inference="extras.tensorflow.resnet50.inference:ResNet50Inference",
    trial="extras.tensorflow.resnet50.trial:build_resnet50_trial",
)
TRANSFORMER: Final = WorkloadFramework(
    workload="transformer",
    framework=TENSORFLOW,
    training="extras.tensorflow.transformer.training:TransformerTraining",
    inference="extras.tensorflow.transformer.inference:TransformerInference",
    trial="extras.tensorflow.transformer.trial:build_transformer_trial",
)
