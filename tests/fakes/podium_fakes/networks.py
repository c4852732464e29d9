"""A bare network of a twentieth of the arithmetic that podium's smallest takes: torchvision's
ShuffleNet V2 of half the width.
"""

from functools import partial

from extras.networks.classifiers import TorchvisionClassifier

shufflenet = partial(TorchvisionClassifier, name="shufflenet_v2_x0_5")
