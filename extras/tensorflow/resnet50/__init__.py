"""ResNet-50 in TensorFlow, with PyTorch's weights, data, scoring and row."""

import os

# reads the checkpoint; must precede TensorFlow, after which its import was seen to fail
import torch  # noqa: F401

# warnings and errors only; read when tensorflow is imported
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
