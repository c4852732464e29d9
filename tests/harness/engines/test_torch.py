"""The torch engine against the module itself."""

import copy
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from harness.engines import onednn_packing
from harness.engines import torch as module
from harness.engines.batch_norm_folding import fold_batch_norms
from harness.engines.torch import TorchEngine
from suite.engine import Network, Plan
from suite.errors import MissingError, RequestError
from suite.terms import Precision

# Legend: N pictures, C channels, H height, W width, K classes.


class Small(nn.Module):
    """Convolution, batch-norm, linear layer; two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.Linear(8, 5),
        )
        self.norm.running_mean = torch.linspace(-1, 1, 8)
        self.seen: list[tuple[bool, bool, bool]] = []

    def forward(self, picture_NCHW: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if not torch.compiler.is_compiling():
            channels_last = picture_NCHW.is_contiguous(memory_format=torch.channels_last)
            self.seen.append(
                (torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), channels_last)
            )
        feature_NC = self.norm(self.conv(picture_NCHW)).relu().mean((2, 3))
        return self.head(feature_NC), feature_NC


def network(made: nn.Module) -> Network[torch.Tensor]:
    return Network(
        name="small",
        module=made,
        framework="torch",
        inputs=(torch.zeros(1, 3, 8, 8),),
        input_names=("picture",),
        output_names=("logit", "feature"),
        dimensions=({0: "batch"},),
    )


def plan(
    tmp_path: Path, precision: Precision = Precision.FP32, device: str = "cpu", **options: Any
) -> Plan[torch.Tensor]:
    return Plan(
        device=device,
        precision=precision,
        threads=1,
        max_batch=4,
        cache=tmp_path,
        options={f"engine.{key}": value for key, value in options.items()},
    )


@pytest.fixture
def picture_NCHW() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(4, 3, 8, 8)


def test_fp32_is_the_module_itself(tmp_path: Path, picture_NCHW: torch.Tensor):
    """Channels-last and evaluation mode change the order of sums, not the answers."""
    torch.manual_seed(0)
    made = Small().train()
    expected_NK, feature_NC = copy.deepcopy(made).eval()(picture_NCHW)
    found = TorchEngine().compile(network(made), plan(tmp_path)).open()(picture_NCHW)
    torch.testing.assert_close(found, (expected_NK, feature_NC), rtol=1e-4, atol=1e-5)
    assert made.seen[-1] == (True, False, True) and found[0].dtype is torch.float32


@pytest.mark.parametrize(
    ("precision", "dtype"), [(Precision.BF16, torch.bfloat16), (Precision.FP16, torch.float16)]
)
def test_lower_precisions_are_autocasts(
    tmp_path: Path, picture_NCHW: torch.Tensor, precision: Precision, dtype: torch.dtype
):
    """Weights rounded once give the very numbers that autocast gives, which rounds them at every
    call; batch-norm is folded into them before, in fp32.
    """
    torch.manual_seed(0)
    made = Small().eval()
    assert fold_batch_norms(made) == 1
    with torch.inference_mode(), torch.autocast("cpu", dtype=dtype):
        expected = copy.deepcopy(made).to(memory_format=torch.channels_last)(
            picture_NCHW.to(memory_format=torch.channels_last)
        )
    found = TorchEngine().compile(network(made), plan(tmp_path, precision)).open()(picture_NCHW)
    assert found[0].dtype is dtype and torch.equal(found[0], expected[0])
    assert made.conv.weight.dtype is dtype and made.seen[-1] == (True, True, True)


def test_inference_mode_and_autocast_are_entered_in_the_calling_thread(
    tmp_path: Path, picture_NCHW: torch.Tensor
):
    """Both are per thread: entered where the engine is built they would do nothing in a worker, and
    an answer would carry a graph.
    """
    made = Small()
    call = TorchEngine().compile(network(made), plan(tmp_path, Precision.BF16)).open()
    worker = threading.Thread(target=call, args=(picture_NCHW,))
    worker.start()
    worker.join()
    assert (
        made.seen == [(True, True, True)]
        and not torch.is_inference_mode_enabled()
        and not torch.is_autocast_enabled("cpu")
    )


@pytest.fixture
def build_alone() -> Iterator[None]:
    """Have PyTorch build the network's code and nothing before it: trying vector instructions and
    compiling headers ahead takes longer than the rest.
    """
    from torch._inductor import config, cpu_vec_isa

    untried = {
        "cpp.vec_isa_ok": True
    }  # the instructions that the processor names: those that a trial leaves
    alone = {
        "cpp_cache_precompile_headers": False
    }  # compiled ahead, headers pay off after three builds, and lie outside the plan's folder
    cpu_vec_isa.valid_vec_isa_list.cache_clear()
    with config.patch(
        {name: value for name, value in (untried | alone).items() if hasattr(config, name)}
    ):
        yield
    cpu_vec_isa.valid_vec_isa_list.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("build_alone")
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # of torch's own modules, which torch's compiler loads
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_answers_are_the_eager_ones_for_every_batch(
    tmp_path: Path, picture_NCHW: torch.Tensor, mode: str
):
    """The batch is a dynamic dimension: a compiler that fixed it would build anew inside LoadGen's
    clock.
    """
    torch.manual_seed(0)
    made = Small().eval()
    eager = copy.deepcopy(made)
    executable = TorchEngine().compile(
        network(made), plan(tmp_path, compile=True, compile_mode=mode)
    )
    call = executable.open()
    for size in (1, 2, 4):
        with torch.inference_mode():
            torch.testing.assert_close(
                call(picture_NCHW[:size]), eager(picture_NCHW[:size]), rtol=1e-4, atol=1e-5
            )
    assert (executable.describe()["compiled"], executable.describe()["compile_mode"]) == (
        True,
        mode,
    )
    assert mode != "default" or list(
        (tmp_path / "inductor").rglob("*.so")
    )  # the same code is not built twice by one process


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "compiled", "weights"),
    [
        (Precision.FP32, False, torch.float32),
        (Precision.FP32, True, torch.float32),
        (Precision.BF16, False, torch.bfloat16),
        (Precision.FP16, True, torch.float16),
    ],
)
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # of torch's own modules, which torch's compiler loads
def test_what_was_built_is_described(
    tmp_path: Path, precision: Precision, compiled: bool, weights: torch.dtype
):
    """It lands in the measurements file: a speed is compared by it, so it says what was built, not
    what was asked for.
    """
    made = Small()
    found = (
        TorchEngine().compile(network(made), plan(tmp_path, precision, compile=compiled)).describe()
    )
    assert (found["precision"], found["compiled"], found["layout"]) == (
        precision.value,
        compiled,
        "channels-last",
    )
    assert made.conv.weight.dtype is weights and made.conv.weight.is_contiguous(
        memory_format=torch.channels_last
    )
    assert (found["torch"], found["threads"]) == (torch.__version__, 1)


def test_layout_and_packed_layers_are_described(tmp_path: Path):
    """A network without pictures keeps its layout; where linear layers were laid out anew, it says
    how many.
    """
    rows = Network(
        name="rows",
        module=nn.Linear(4, 4),
        framework="torch",
        inputs=(torch.zeros(1, 4),),
        input_names=("row",),
        output_names=("row",),
    )
    found = TorchEngine().compile(rows, plan(tmp_path)).describe()
    assert found["layout"] == "contiguous" and found["packed_layers"] == 0
    pair = replace(rows, module=nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    assert TorchEngine().compile(pair, plan(tmp_path)).describe()["packed_layers"] == (
        2 if onednn_packing.can_pack_linear_layers() else 0
    )
    assert (
        TorchEngine().compile(pair, plan(tmp_path, Precision.BF16)).describe()["packed_layers"] == 0
    )


@pytest.mark.parametrize(
    ("device", "precision", "words"),
    [
        ("cpu", Precision.INT8, "has no int8"),
        ("cpu", Precision.TF32, "NVIDIA GPUs only"),
        ("cpu", Precision.BF16, None),
    ],
)
def test_what_is_missing_is_said(device: str, precision: Precision, words: str | None):
    """doctor asks for every engine and number format."""
    found = TorchEngine().missing(device, precision)
    assert found is None if words is None else words in str(found)


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    """The light core has the engine's entry point, and not torch."""
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert "[run]'" in str(TorchEngine().missing("cpu", Precision.FP32))


def test_what_it_cannot_build_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Before anything is built."""
    with pytest.raises(MissingError, match="has no int8"):
        TorchEngine().compile(network(Small()), plan(tmp_path, Precision.INT8))
    foreign = Network(
        name="x", module=None, framework="tensorflow", inputs=(), input_names=(), output_names=()
    )
    with pytest.raises(RequestError, match="does not accept tensorflow networks"):
        TorchEngine().compile(foreign, plan(tmp_path))
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(MissingError, match="needs a C\\+\\+ compiler"):
        TorchEngine().compile(network(Small()), plan(tmp_path, compile=True))


def test_outputs_are_a_tuple_whatever_the_module_gives():
    """Detection models give a dict."""
    one, two = torch.zeros(1), torch.ones(1)
    assert module.convert_outputs_to_tuple({"a": one, "b": two}) == (
        one,
        two,
    ) == module.convert_outputs_to_tuple([one, two]) and module.convert_outputs_to_tuple(one) == (
        one,
    )
