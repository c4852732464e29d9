"""ResNet-50 in TensorFlow, with PyTorch's weights, data, scoring and row."""

import os

import torch  # noqa: F401  # reads the checkpoint; before TensorFlow, behind which it was seen to fail while it was imported

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # warnings and errors alone; read when tensorflow is imported
