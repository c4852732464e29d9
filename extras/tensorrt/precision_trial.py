"""One dense layer, built and run in a precision: what a workload's networks would take minutes to
show.
"""

from collections.abc import Callable
from typing import Any, Final

import torch

from suite.engine import Calibration, Executable, Network, Plan
from suite.files.scratch import create_temporary_folder
from suite.terms import QUANTISED, Precision

TRIAL_WIDTH: Final = 128
"""Weights of a sum: one block of int4."""
TRIAL_SAMPLE: Final = "trial"


def run_dense_layer(
    compile_network: Callable[[Network[Any], Plan[Any]], Executable[Any]],
    device: str,
    precision: Precision,
) -> None:
    """Build a dense layer and run it; an exception says why it does not."""
    rows_NF = torch.ones(1, TRIAL_WIDTH)
    network = Network(
        name="trial",
        module=torch.nn.Linear(TRIAL_WIDTH, TRIAL_WIDTH),
        framework="torch",
        inputs=(rows_NF,),
        input_names=("rows",),
        output_names=("mapped",),
    )
    calibration = Calibration(
        inputs=((rows_NF,),),
        list_name=TRIAL_SAMPLE,
        listed=(TRIAL_SAMPLE,),
        samples=(TRIAL_SAMPLE,),
        sha256=(),
        touched=(),
        method="min-max",
    )
    with create_temporary_folder() as folder:
        plan: Plan[Any] = Plan(
            device=device,
            precision=precision,
            threads=1,
            max_batch=1,
            cache=folder,
            calibration=calibration if precision in QUANTISED else None,
        )
        compile_network(network, plan).open()(rows_NF.to(device))
