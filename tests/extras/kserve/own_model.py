"""A model of somebody's own on Triton: int32 number in, int32 class out, as the fake workload's
weights of 0.8 answer. Usage: own_model.py PORT.
"""

import os
import signal
import sys
import sysconfig

os.environ["LD_LIBRARY_PATH"] = str(sysconfig.get_config_var("LIBDIR"))

import numpy as np  # noqa: E402
from pytriton.decorators import batch  # noqa: E402
from pytriton.model_config import ModelConfig, Tensor  # noqa: E402
from pytriton.triton import Triton, TritonConfig  # noqa: E402


@batch
def own(number):  # noqa: ANN001, ANN201
    """Answer as podium_fakes.fake.answer does."""
    label = number * 7 % 10
    return [np.where((number + 0.5) / 100 < 0.8, label, (label + 1) % 10).astype(np.int32)]


with Triton(
    config=TritonConfig(
        allow_http=False,
        allow_metrics=False,
        grpc_address="127.0.0.1",
        grpc_port=int(sys.argv[1]),
        exit_timeout_secs=3,
    )
) as triton:
    tensors = [Tensor(name=name, dtype=np.int32, shape=(1,)) for name in ("number", "class")]
    triton.bind(
        model_name="own",
        infer_func=own,
        inputs=tensors[:1],
        outputs=tensors[1:],
        config=ModelConfig(max_batch_size=16),
    )
    triton.run()
    signal.pause()
