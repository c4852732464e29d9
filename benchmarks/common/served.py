"""ResNet-50 at full image size as a system under test, with untrained weights: speed does not
depend on them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Final

from common.figures import options
from common.tiny import choose_size
from harness.request import resolve_request
from harness.serving.harness_ceiling import build_null_schedule
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.loadgen.session import LoadedSystem
from harness.serving.loadgen.test_settings import LoadGenSchedule
from suite.engine import Engine, Executable, Network, Plan
from suite.loadgen.scenario import Scenario
from suite.terms import Precision
from suite.workload import Inference, Run, Workload

SIZE_PX: Final = choose_size(224, 32)
MAX_BATCH: Final = choose_size(8, 2)
"""Batch size from which ONNX Runtime's INT8 convolutions are fastest per image, on the
tested CPUs.
"""
HELD: Final = choose_size(64, 8)
"""Images in memory."""
RATE: Final = "result_samples_per_second"


class PlainEager:
    """The plain implementation: the module in fp32, NCHW, in inference mode."""

    name: ClassVar[str] = "plain-eager"
    accepts: ClassVar[frozenset[str]] = frozenset({"torch"})

    def missing(self, device: str, precision: Precision) -> str | None:
        """Nothing is ever missing."""
        return None

    def compile(self, network: Network[Any], plan: Plan[Any]) -> Executable[Any]:
        """Keep the module."""
        return PlainExecutable(network.module.eval())


class PlainExecutable:
    """The module itself."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def open(self) -> Callable[..., tuple[Any, ...]]:
        """Return a call."""
        import torch

        def call(*inputs: Any) -> tuple[Any, ...]:
            with torch.inference_mode():
                return (self.module(*inputs),)

        return call

    def describe(self) -> Mapping[str, Any]:
        """Nothing to say."""
        return {}


class FewPictures:
    """The workload with only a few images in memory: decoding a thousand would take longer than a
    measurement.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload, self.name = workload, workload.name

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        from workloads.resnet50.inference import ResNet50Inference

        class Few(ResNet50Inference):
            performance_sample_count = HELD

        return Few(run, checkpoint, engine)


def write_checkpoint(folder: Path) -> Path:
    """Export random weights."""
    import torch

    from workloads.common import weights
    from workloads.resnet50 import model
    from workloads.resnet50.images import embedded

    torch.manual_seed(1)
    description = model.ResNet50Description(
        workload=model.RESNET50_NAME, classes=embedded.EMBEDDED_CLASSES, picture_size=SIZE_PX
    )
    folder.mkdir(parents=True)
    weights.write_exported_weights(
        model.build_resnet50(len(embedded.EMBEDDED_CLASSES)), description, folder
    )
    return folder


def system(
    engine: Engine[Any], precision: Precision, checkpoint: Path, threads: int
) -> LoadedSystem:
    """Build a system under test on enlarged embedded images."""
    request = resolve_request(
        options(
            checkpoint.parent,
            threads,
            f"data.picture_size={SIZE_PX}",
            f"batching.max_batch={MAX_BATCH}",
        ),
        "resnet50",
    )
    batching = BatchingSettings(workers=1, max_batch=MAX_BATCH, window_us=0)
    return LoadedSystem(
        workload=FewPictures(request.workload),
        engine=engine,
        run=request.build_run(1, precision),
        checkpoint=checkpoint,
        batching=batching,
    )


def offline(samples: int) -> LoadGenSchedule:
    """Plan one Offline query."""
    return replace(build_null_schedule(Scenario.OFFLINE), min_queries=samples)
