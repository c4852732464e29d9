"""Bare networks for `podium sweep`: no training and no data of their own. Imports no framework."""

from typing import Final

from suite.studies.bare_network import BareNetworkRecord


def describe_classifier(name: str) -> BareNetworkRecord:
    """Return the record of one of torchvision's classifiers."""
    return BareNetworkRecord(
        network=f"extras.networks.classifiers:{name}", score="workloads.resnet50.scoring:score"
    )


ALEXNET: Final = describe_classifier("alexnet")
GOOGLENET: Final = describe_classifier("googlenet")
RESNET50: Final = describe_classifier("resnet50")
RESNET101: Final = describe_classifier("resnet101")
VGG19: Final = describe_classifier("vgg19")
