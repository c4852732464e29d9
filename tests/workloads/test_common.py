"""What workloads share: typed settings, number formats, random state, memory, torchvision beside
any torch.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from warm import Warm

from suite.engine import Precision
from suite.errors import RequestError
from suite.workload import Run
from workloads.common import malloc, rng, setting_values
from workloads.common.detection import torchvision_import
from workloads.common.optimisation import collectives, gradient_exchange, mixed_precision


@pytest.fixture(scope="module")
def with_torch() -> Iterator[Warm]:
    """An interpreter that has loaded PyTorch and nothing on top of it."""
    started = Warm("torch", "program")
    yield started
    started.end()


def assert_runs(program: str, where: Warm) -> None:
    """Run a program in a process of its own, to its end without an error."""
    found = where.run([program], launcher="program")
    assert found.returncode == 0, found.stderr


def test_values_of_the_right_type_pass() -> None:
    """A whole number is a number too."""
    settings = {"a": 3, "b": 0.5, "c": True, "d": "x", "e": (1, 2.5)}
    assert (
        setting_values.require_integer_setting(settings, "a"),
        setting_values.require_number_setting(settings, "a"),
        setting_values.require_number_setting(settings, "b"),
    ) == (3, 3.0, 0.5)
    assert (
        setting_values.require_flag_setting(settings, "c"),
        setting_values.require_text_setting(settings, "d"),
        setting_values.require_numbers_setting(settings, "e"),
    ) == (True, "x", (1.0, 2.5))


@pytest.mark.parametrize("value", [True, 0.5, "3", -1])
def test_what_is_no_whole_number_is_refused(value: object) -> None:
    """True is 1 to Python and nonsense to a user."""
    with pytest.raises(RequestError, match="setting a"):
        setting_values.require_integer_setting({"a": value}, "a")  # type: ignore[dict-item]


def test_bf16_and_fp16_run_in_autocast() -> None:
    """A format that is asked for and not used would be logged and not true."""
    for asked, found in (
        (Precision.BF16, torch.bfloat16),
        (Precision.FP16, torch.float16),
        (Precision.FP32, torch.float32),
    ):
        with mixed_precision.build_autocast("cpu", asked):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is found


def test_only_fp16_scales_its_loss() -> None:
    """bf16 has fp32's range; scaling would only cost time."""
    assert [
        mixed_precision.build_loss_scaler("cpu", asked).is_enabled()
        for asked in (Precision.FP32, Precision.BF16, Precision.FP16)
    ] == [False, False, True]


def test_formats_that_cannot_train_are_refused() -> None:
    """Before anything is built."""
    with pytest.raises(RequestError, match="int8"):
        mixed_precision.prepare_training_precision("cpu", Precision.INT8)
    with pytest.raises(
        RequestError, match="only NVIDIA GPUs"
    ):  # a log that says tf32 of what was fp32 would not be true
        mixed_precision.prepare_training_precision("cpu", Precision.TF32)


def test_fp32_is_no_tf32() -> None:
    """cuDNN takes TF32 by default; a result that says fp32 must not."""
    mixed_precision.prepare_training_precision("cuda", Precision.TF32)
    assert torch.backends.cudnn.allow_tf32
    mixed_precision.prepare_training_precision("cpu", Precision.FP32)
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32


def test_random_state_comes_back(tmp_path: object) -> None:
    """All four generators, through a file that nothing can hide code in."""

    def draw() -> tuple[float, float, float, float]:
        return float(torch.rand(())), float(np.random.normal()), random.random(), random.gauss(0, 1)

    draw()  # leaves Python's and numpy's second Gaussian waiting
    path = f"{tmp_path}/rng.pt"
    torch.save(rng.save_generator_state(), path)
    expected = [draw() for _ in range(3)]
    rng.restore_generator_state(torch.load(path, weights_only=True))
    assert [draw() for _ in range(3)] == expected


def test_dropout_follows_from_seed_epoch_and_rank() -> None:
    """Whatever was drawn before; one stream on all ranks would drop the same places of each rank's
    batch.
    """

    def drawn(seed: int, epoch: int, rank: int) -> float:
        rng.seed_epoch_generators(seed, epoch, rank)
        return float(torch.rand(()))

    assert drawn(1, 1, 0) == drawn(1, 1, 0)
    assert len({drawn(1, 1, 0), drawn(2, 1, 0), drawn(1, 2, 0), drawn(1, 1, 1)}) == 4


def test_keeping_memory_is_harmless() -> None:
    """Twice, and a computation after it."""
    assert malloc.keep_freed_memory() == malloc.keep_freed_memory()
    assert float(torch.ones(1000, 1000).sum()) == 1e6


@pytest.mark.slow
def test_torchvision_is_imported_without_the_compiler(with_torch: Warm) -> None:
    """Its import takes a second of each process that serves; whoever asks torchvision for it gets
    torch's own answer.
    """
    program = (
        "import sys\n"
        "from workloads.common.detection.torchvision_import import torchvision\n"
        "assert 'torch._dynamo' not in sys.modules and 'torch._dynamo.utils' not in sys.modules\n"
        "found = torchvision.ops.roi_align.__globals__['is_compile_supported']('cpu')\n"
        "from torch._dynamo.utils import is_compile_supported\n"
        "assert found is is_compile_supported('cpu') and callable(is_compile_supported)\n"
    )
    assert_runs(program, with_torch)


def test_torchvision_imports_and_builds() -> None:
    """Beside the CPU build of torch the plain import fails at torchvision::nms."""
    assert torchvision_import.torchvision.models.resnet50 is not None
    assert hasattr(torch.ops.torchvision, "nms")


def test_schemas_are_declared_only_where_they_are_missing() -> None:
    """Over compiled operators a second declaration would be an error; without them each must be
    there. Older libraries have no quantised ones.
    """
    compiled = hasattr(
        torch.ops.torchvision, "_cuda_version"
    )  # nothing but the compiled library has it
    assert (torchvision_import.DECLARED_OPERATORS is None) == compiled
    for schema in (
        torchvision_import.OPERATOR_SCHEMAS
        if not compiled
        else ("nms(", "roi_align(", "_roi_align_backward(")
    ):
        assert hasattr(torch.ops.torchvision, schema.partition("(")[0])


@pytest.mark.slow
def test_what_a_template_loads_can_be_forked(with_torch: Warm) -> None:
    """Nothing that serves workloads, bare networks or over a network starts a thread or asks for a
    GPU when it is imported; nor is gRPC, which has threads.
    """
    program = (
        "from importlib import import_module\nfrom harness.children.template import"
        " COMMON_MODULES, can_fork\nfrom suite import registry\nnames"
        " = ('gnmt', 'llama', 'maskrcnn', 'minigo', 'resnet50', 'ssd', 'transformer')\nmodules ="
        " [registry.load_workload(name).served_by['torch'] for name in names]\nmodules +="
        " [(type(registry.load_bare_network('alexnet')).__module__,),"
        " ('harness.serving.network.setup',)]\nassert all(modules), modules\nfor module in"
        " (*COMMON_MODULES, *sum(modules, ())): import_module(module)\nimport sys, torch\nassert can_fork()"
        " and not torch.cuda.is_initialized() and 'grpc' not in sys.modules\n"
    )
    assert_runs(program, with_torch)


def test_one_rank_tells_nobody(make_run: Callable[..., Run]) -> None:
    """No process group is needed for one process."""
    network = torch.nn.BatchNorm1d(2)
    assert gradient_exchange.wrap_for_gradient_exchange(network, make_run()) is network
    collectives.average_batch_norm_statistics(network, 1)
    assert collectives.gather_from_ranks([1], 1) == [1]
    assert int(collectives.sum_over_ranks(torch.tensor(3), 1)) == 3


def test_bf16_gradients_are_refused_on_cpus(make_run: Callable[..., Run]) -> None:
    """gloo does not add them up, and PyTorch would end with a traceback when the clock runs."""
    with pytest.raises(RequestError, match="train.gradient_format=bf16 needs GPUs"):
        gradient_exchange.wrap_for_gradient_exchange(
            torch.nn.Linear(2, 2), make_run(train__gradient_format="bf16")
        )


def test_a_bucket_of_nothing_is_refused(make_run: Callable[..., Run]) -> None:
    """PyTorch would take it for its own size."""
    with pytest.raises(RequestError, match="train.bucket_mib"):
        gradient_exchange.wrap_for_gradient_exchange(
            torch.nn.Linear(2, 2), replace(make_run(train__bucket_mib=0), world_size=2)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes(setting_values.SettingsRecord):
    """A record of some settings."""

    width: int = setting_values.declare_positive("model.width")
    share: int = setting_values.declare_positive("data.share", "model.width")
    rate: float | None = setting_values.declare_field(
        lambda settings: setting_values.require_number_setting(settings, "rate") or None
    )


def test_a_record_reads_its_settings() -> None:
    """A field without its setting takes the one that it names instead; others are left alone."""
    settings: setting_values.Settings = {"model.width": 3, "rate": 0, "name": "x"}
    assert Sizes.build_from_settings(settings) == Sizes(width=3, share=3, rate=None)
    assert Sizes.build_from_settings({**settings, "data.share": 2}).share == 2


@pytest.mark.parametrize("settings", [{}, {"model.width": 0, "rate": 1.0}])
def test_a_record_names_the_setting_that_it_cannot_read(settings: setting_values.Settings) -> None:
    with pytest.raises(RequestError, match=r"setting model\.width"):
        Sizes.build_from_settings(settings)
