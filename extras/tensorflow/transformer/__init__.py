"""The Transformer in TensorFlow, with the same sizes, weight names, data, scoring and row as in
PyTorch.
"""

import os

# warnings and errors only; read when tensorflow is imported
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
