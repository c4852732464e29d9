"""ResNet-50's inference: the predictor alone, under LoadGen, and timm's network."""

import os
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NoReturn
from unittest import mock

import torch
from gpu_shared.lines import RATIO_UNIT, read_item
from gpu_shared.workbench import Workbench

from gpu_items import pictures
from gpu_items.runs import build_run
from harness.engines import batch_norm_folding
from harness.engines.torch import TorchEngine
from harness.serving.harness_ceiling import build_null_schedule
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.loadgen.session import LoadedSystem, LoadGenJob, run_loadgen
from suite.engine import Engine
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.scenario import Scenario
from suite.rounds import HyperValue
from suite.workload import Inference, Predictor, Run
from workloads.common import weights
from workloads.resnet50 import inference, model
from workloads.resnet50.inference import ResNet50Inference

UNIT: Final = "images/s"
RATE: Final = "result_samples_per_second"
HELD: Final = 256
"""Images in memory."""
STREAM_WORKERS: Final = 2
WARM_UP_CALLS: Final = 8
COMPARED_PICTURES: Final = 8


class FewPictures(ResNet50Inference):
    """The inference with few images in memory: decoding more takes longer than a measurement."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        super().__init__(run, checkpoint, engine)
        self.performance_sample_count = min(HELD, self.sample_count)


@dataclass(frozen=True)
class FewPicturesWorkload:
    """The serving half that a session needs."""

    def build_inference(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        return FewPictures(run, checkpoint, engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedVariant:
    """One way to serve."""

    settings: Mapping[str, HyperValue]
    folded: bool = True
    """Whether batch-norm is folded into the convolutions, as the engine does."""
    as_bytes: bool = False
    """Whether images are sent as bytes and normalised on the device, as on a GPU by default."""
    workers: int = 1
    """Threads that answer batches at the same time, each on a stream of its own."""


EAGER: Final = {"engine.cuda_graphs": False}
GRAPHS: Final = {"engine.cuda_graphs": True}
BEST_VARIANT: Final = "graphs and streams"
VARIANTS: Final[Mapping[str, ServedVariant]] = {
    "eager": ServedVariant(settings=EAGER, folded=False),
    "folded": ServedVariant(settings=EAGER),
    "bytes": ServedVariant(settings=EAGER, as_bytes=True),
    "streams": ServedVariant(settings=EAGER, as_bytes=True, workers=STREAM_WORKERS),
    "graphs": ServedVariant(settings=GRAPHS, as_bytes=True),
    BEST_VARIANT: ServedVariant(settings=GRAPHS, as_bytes=True, workers=STREAM_WORKERS),
}
"""Each with what those before it have: what podium does by default is `graphs`."""


def build_serving_run(bench: Workbench, batch: int, variant: ServedVariant) -> Run:
    """Build the run of a variant."""
    folder = pictures.prepare_jpegs(bench)
    settings = {
        "data.picture_size": bench.sizes.picture_px,
        "batching.max_batch": batch,
        "batching.only_full": True,
        **variant.settings,
    }
    found = pictures.survey_jpegs(folder)
    return build_run(bench, "resnet50", settings, found, data=folder, serving=True)


def prepare_checkpoint(bench: Workbench) -> Path:
    """Export random weights once: speed does not depend on them."""
    folder = bench.data / "resnet50-weights"
    if not folder.exists():
        torch.manual_seed(1)
        classes = tuple(pictures.survey_jpegs(pictures.prepare_jpegs(bench))["classes"])
        description = model.ResNet50Description(
            workload=model.RESNET50_NAME, classes=classes, picture_size=bench.sizes.picture_px
        )
        partial = folder.with_suffix(".partial")
        partial.mkdir(exist_ok=True)
        weights.write_exported_weights(model.build_resnet50(len(classes)), description, partial)
        partial.replace(folder)
    return folder


@contextmanager
def leave_out_changes(variant: ServedVariant) -> Iterator[None]:
    """Build a system without what the variant lacks and podium always does."""
    with ExitStack() as stack:
        if not variant.folded:
            stack.enter_context(
                mock.patch.object(batch_norm_folding, "fold_batch_norms", lambda module: 0)
            )
        if not variant.as_bytes:
            stack.enter_context(
                mock.patch.object(inference, "can_serve_bytes", lambda engine, device: False)
            )
        yield


def open_system(bench: Workbench, batch: int, variant: ServedVariant) -> FewPictures:
    """Build the system under test, with images in memory."""
    with leave_out_changes(variant):
        system = FewPictures(
            build_serving_run(bench, batch, variant), prepare_checkpoint(bench), TorchEngine()
        )
    system.load(range(min(HELD, system.sample_count)))
    return system


def measure_predictor(bench: Workbench) -> None:
    """Measure each variant at each batch size, without LoadGen."""
    for batch in reversed(bench.sizes.served_batches):
        for name, variant in VARIANTS.items():
            bench.attempt(
                f"{batch} {name}",
                lambda title, batch=batch, variant=variant: tell_predictor(  # type: ignore[misc]
                    bench, title, batch, variant
                ),
            )


def tell_predictor(bench: Workbench, title: str, batch: int, variant: ServedVariant) -> None:
    """Answer batch after batch."""
    system = open_system(bench, batch, variant)
    predictors = [system.open(number, batch) for number in range(variant.workers)]
    for predictor in predictors:
        predictor.warm_up()
    held = min(HELD, system.sample_count)
    drawn = [
        [(number * batch + place) % held for place in range(batch)]
        for number in range(bench.sizes.served_calls)
    ]
    seconds, times = answer_batches(predictors, drawn)
    details = {
        **describe_times(times),
        "logit_difference": compare_logits(bench, system, batch),
        "engine": dict(system._executable.describe()),
    }
    system.close()
    answered = variant.workers * len(drawn) * batch
    bench.tell(title, answered / seconds, UNIT, details=details)


def answer_batches(
    predictors: Sequence[Predictor], drawn: Sequence[Sequence[int]]
) -> tuple[float, list[float]]:
    """Answer all batches with each predictor at the same time; the seconds of all, and of each.
    Raises what a predictor raises.
    """
    times: list[float] = []
    begun_s: list[float] = []
    ready = threading.Barrier(len(predictors) + 1)

    def answer(predictor: Predictor) -> None:
        try:
            for samples in drawn[:WARM_UP_CALLS]:
                predictor(samples)
            ready.wait()
        except Exception:
            ready.abort()  # the others would wait for ever
            raise
        begun_s.append(time.perf_counter())
        for samples in drawn:
            began_s = time.perf_counter()
            predictor(samples)
            times.append(time.perf_counter() - began_s)

    with ThreadPoolExecutor(len(predictors)) as threads:
        answering = [threads.submit(answer, each) for each in predictors]
        with suppress(threading.BrokenBarrierError):
            ready.wait()
    ended_s = time.perf_counter()
    raise_first_failure(answering)
    return ended_s - min(begun_s), times


def raise_first_failure(answering: Sequence[Future[None]]) -> None:
    """Raise why a predictor failed: what it did not answer must not count as answered."""
    errors = [error for each in answering if (error := each.exception())]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error


def describe_times(times: Sequence[float]) -> dict[str, float]:
    """Return median and 99th percentile in ms."""
    ordered = sorted(times)
    return {
        "p50_ms": statistics.median(ordered) * 1e3,
        "p99_ms": ordered[min(len(ordered) - 1, round(0.99 * len(ordered)))] * 1e3,
    }


def compare_logits(bench: Workbench, system: FewPictures, batch: int) -> float:
    """Return the largest difference from the eager network in fp32, as a share of its logits'
    deviation.
    """
    samples = range(min(batch, COMPARED_PICTURES, system.sample_count))
    network = model.load_resnet50_checkpoint(prepare_checkpoint(bench))[0].to(bench.device)
    with torch.inference_mode():
        picture_NCHW = system._tensors.copy_batch_to_device(
            [system._held[sample] for sample in samples]
        )
        expected_NK = network(picture_NCHW.float())
        (logit_NK,) = system._executable.open()(picture_NCHW)
    difference = (logit_NK.float() - expected_NK).abs().max() / expected_NK.std()
    return float(difference)


def measure_offline(bench: Workbench) -> None:
    """Measure the best variant, and the eager one, in LoadGen's Offline."""
    for batch in reversed(bench.sizes.loadgen_batches):
        for name in (BEST_VARIANT, "eager"):
            bench.attempt(
                f"{batch} {name}",
                lambda title, batch=batch, name=name: tell_offline(  # type: ignore[misc]
                    bench, title, batch, VARIANTS[name]
                ),
            )
    compare_with_predictor(bench)


def tell_offline(bench: Workbench, title: str, batch: int, variant: ServedVariant) -> None:
    """Answer one Offline query in this process."""
    run = build_serving_run(bench, batch, variant)
    system = LoadedSystem(
        workload=FewPicturesWorkload(),
        engine=TorchEngine(),
        run=run,
        checkpoint=prepare_checkpoint(bench),
        batching=BatchingSettings(workers=variant.workers, max_batch=batch, window_us=0),
    )
    schedule = replace(
        build_null_schedule(Scenario.OFFLINE), min_queries=bench.sizes.loadgen_samples
    )
    with (
        TemporaryDirectory(dir=bench.data) as folder,
        leave_out_changes(variant),
    ):
        run_loadgen(LoadGenJob(system=system, schedule=schedule, folder=Path(folder)), end_process)
        rate = read_detail_log(Path(folder)).require_number(RATE)
    bench.tell(title, rate, UNIT)


def end_process(error: BaseException) -> NoReturn:
    """End the item from any of its threads: LoadGen would wait for ever."""
    traceback.print_exception(error)
    sys.stderr.flush()
    os._exit(1)


def compare_with_predictor(bench: Workbench) -> None:
    """Set LoadGen's rates beside those of the predictor alone."""
    alone = read_item(bench.out, "serving")
    rates = alone.find_values(bench.card) if alone else {}
    for line in list(bench.lines):
        if line.value and (rate := rates.get(line.variant)):
            bench.tell(f"share of predictor, {line.variant}", line.value / rate, RATIO_UNIT)


def measure_timm(bench: Workbench) -> None:
    """Measure timm's ResNet-50 in bf16 and channels-last, fed from pinned memory."""
    tell_timm_batches(bench, lambda network: network)


def measure_timm_compiled(bench: Workbench) -> None:
    """Measure the same, compiled."""
    tell_timm_batches(bench, torch.compile)


def tell_timm_batches(bench: Workbench, change: Callable[[Any], Any]) -> None:
    """Measure each batch size."""
    for batch in reversed(bench.sizes.served_batches):
        if not bench.lacks_package("timm", f"{batch}"):
            bench.attempt(
                f"{batch}",
                lambda title, batch=batch: tell_timm(  # type: ignore[misc]
                    bench, title, batch, change
                ),
            )


def tell_timm(bench: Workbench, title: str, batch: int, change: Callable[[Any], Any]) -> None:
    """Copy, compute and read the answers, batch after batch."""
    import timm

    dtype = torch.bfloat16 if bench.on_gpu else torch.float32
    network = timm.create_model("resnet50", pretrained=False, num_classes=bench.sizes.classes)
    network = network.eval().to(bench.device, dtype, memory_format=torch.channels_last)
    run = change(network)
    side = bench.sizes.picture_px
    host = torch.randn(batch, 3, side, side)
    host = host.pin_memory() if bench.on_gpu else host

    def answer(_: Sequence[int]) -> Sequence[bytes]:
        with torch.inference_mode():
            picture = host.to(bench.device, non_blocking=True).to(
                dtype, memory_format=torch.channels_last
            )
            run(picture).argmax(dim=1).tolist()
        return ()

    drawn = [range(batch)] * bench.sizes.served_calls
    seconds, times = answer_batches([answer], drawn)  # type: ignore[list-item]
    bench.tell(title, len(drawn) * batch / seconds, UNIT, details=describe_times(times))
