"""SSD's training at 300 px: on a resident batch, and from files."""

from collections.abc import Mapping
from typing import Final

from gpu_shared.workbench import Workbench

from gpu_items import pictures
from gpu_items.runs import ResidentBatches, build_run, tell_resident_steps, tell_steps_from_files
from suite.rounds import HyperValue
from workloads.common.inputs.batches import SampleKey
from workloads.ssd.training import SSDTraining

UNIT: Final = "images/s"
VARIANTS: Final[Mapping[str, Mapping[str, HyperValue]]] = {
    "eager": {},
    "graphs": {"train.graphs": True},
}


def build_training(
    bench: Workbench, chosen: Mapping[str, HyperValue], workers: int = 0
) -> SSDTraining:
    """Build a training on the generated scenes."""
    sizes, folder = bench.sizes, pictures.prepare_scenes(bench)
    settings = {
        "global_batch_size": sizes.ssd_batch,
        "model_bn_span": sizes.ssd_batch,
        "model.start_weights": "random",
        "model.configuration": sizes.ssd_configuration,
        "data.workers": workers,
        **chosen,
    }
    return SSDTraining(
        build_run(bench, "ssd", settings, pictures.survey_scenes(folder), data=folder)
    )


def build_resident_training(bench: Workbench, chosen: Mapping[str, HyperValue]) -> SSDTraining:
    """Build a training whose every batch is the first one, on the device."""
    training = build_training(bench, chosen)
    keys = [SampleKey(index=index, epoch=1) for index in range(bench.sizes.ssd_batch)]
    (batch,) = training._train_reader.read([keys])
    vars(training)["_train_reader"] = ResidentBatches(batch, bench.device)
    return training


def measure_steps_of_ssd(bench: Workbench) -> None:
    """Measure steps on a resident batch, in each variant."""
    for variant, chosen in VARIANTS.items():
        if bench.lacks_graphs(chosen, f"{bench.sizes.ssd_batch} {variant}"):
            continue
        bench.attempt(
            f"{bench.sizes.ssd_batch} {variant}",
            lambda name, chosen=chosen: tell_resident_steps(  # type: ignore[misc]
                bench, name, build_resident_training(bench, chosen), UNIT
            ),
        )


def measure_compiled(bench: Workbench) -> None:
    """Measure steps of the compiled network and loss; compiling is no part of them."""
    bench.attempt(
        f"{bench.sizes.ssd_batch}",
        lambda name: tell_resident_steps(
            bench, name, build_resident_training(bench, {"train.compile": True}), UNIT
        ),
    )


def measure_files(bench: Workbench) -> None:
    """Measure training from files with many loader processes."""
    workers = bench.sizes.many_workers
    bench.attempt(
        f"{workers} workers",
        lambda name: tell_steps_from_files(bench, name, build_training(bench, {}, workers), UNIT),
    )
