"""What the process that items are forked from has loaded: each item would spend seconds on it."""

import torch._dynamo

from gpu_items import maskrcnn, resnet50, serving, ssd, translation
from suite import registry

__all__ = ["maskrcnn", "registry", "resnet50", "serving", "ssd", "torch", "translation"]
