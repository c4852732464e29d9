"""Compares ONNX Runtime INT8 with its fp32 and with eager PyTorch: ResNet-50 at 224x224 on the CPU,
Offline under LoadGen.

Ours is INT8; "theirs" is ONNX Runtime fp32. Beside it: the ratio to eager fp32 PyTorch in NCHW, as
a user would write it, and to this suite's torch engine, which is channels-last. All sides in turns,
each in a process of its own.

Usage: python benchmarks/int8.py [--pairs N] [--threads N] [--format text|json]
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from common.figures import arguments, compare, show
from common.served import MAX_BATCH, RATE, PlainEager, offline, system, write_checkpoint
from common.tiny import choose_size

from harness.children.process import run_in_child
from harness.engines.onnx.engine import OnnxRuntimeEngine
from harness.engines.torch import TorchEngine
from harness.serving.loadgen.session import LoadGenJob, run_loadgen
from suite.engine import Engine
from suite.loadgen.detail_log import read_detail_log
from suite.terms import Precision

SIDES: Final[Mapping[str, tuple[Engine[Any], Precision, int]]] = {
    "int8": (OnnxRuntimeEngine(), Precision.INT8, choose_size(320, 4)),
    "fp32": (OnnxRuntimeEngine(), Precision.FP32, choose_size(128, 4)),
    "eager": (PlainEager(), Precision.FP32, choose_size(64, 4)),
    "channels-last": (TorchEngine(), Precision.FP32, choose_size(64, 4)),
}
"""Side -> engine, precision, and the samples of its query: some seconds of work on two cores."""


def rate(name: str, checkpoint: Path, threads: int) -> float:
    """Return one side's samples/s."""
    engine, precision, samples = SIDES[name]
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        run_in_child(
            run_loadgen,
            LoadGenJob(
                system=system(engine, precision, checkpoint, threads),
                schedule=offline(samples),
                folder=Path(folder),
            ),
        )
        return read_detail_log(Path(folder)).require_number(RATE)


def main() -> None:
    """Measure all sides in one run."""
    given = arguments(__doc__ or "", pairs=3)
    with TemporaryDirectory(prefix="podium-benchmark-") as folder:
        checkpoint = write_checkpoint(Path(folder) / "checkpoint")
        rounds = [
            {name: rate(name, checkpoint, given.threads) for name in SIDES}
            for _ in range(given.pairs)
        ]
    figures = {
        name: compare(
            [each["int8"] for each in rounds], [each[name] for each in rounds], "samples/s"
        )
        for name in SIDES
        if name != "int8"
    }
    notes = {
        f"times {name}": f"{figure.ratio:.2f} ({figure.theirs:.1f} samples/s)"
        for name, figure in figures.items()
    }
    title = (
        f"ResNet-50 at 224x224, Offline, batches of {MAX_BATCH}: ONNX Runtime INT8 against fp32"
        " (aim: 3), eager NCHW (aim: 5), channels-last"
    )
    show(title, figures["fp32"], given.form, notes)


if __name__ == "__main__":
    main()
