"""The example of an engine in a package of its own: OpenVINO answers as ONNX Runtime does."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from offered_packages import change_entry_points

from harness.engines.onnx.engine import OnnxRuntimeEngine
from suite import registry
from suite.engine import RANGE, Calibration, Network, Plan
from suite.errors import MissingError
from suite.terms import Precision

torch = pytest.importorskip("torch")
pytest.importorskip("openvino", reason="OpenVINO is not installed: pip install openvino")
pytestmark = pytest.mark.slow  # exports

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "openvino-engine"
SHAPE = (3, 8, 8)
STEPS = 6


class Pictures(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A convolution and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(8, 5)

    def forward(self, picture_NCHW: Any) -> Any:
        return self.head(self.conv(picture_NCHW).relu().mean((2, 3)))


class Step(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A decoder step: writes one place of a cache, and tells the cache's sum."""

    def forward(self, value_N: Any, position: Any, cache_NS: Any) -> Any:
        next_NS = cache_NS.index_copy(1, position, value_N[:, None])
        return {"total": next_NS.sum(dim=1), "next_cache": next_NS}


@pytest.fixture(scope="module")
def engine() -> Iterator[Any]:
    """The engine, as podium finds it."""
    point = EntryPoint(
        group=registry.ENGINE_GROUP, name="openvino", value="podium_openvino:OpenVinoEngine"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        with change_entry_points(lambda group, found: [*found, *[point][: group == point.group]]):
            yield registry.load_engine("openvino")
        sys.modules.pop("podium_openvino", None)


def build_pictures() -> Network[Any]:
    """Describe the network of pictures."""
    return Network(
        name="pictures",
        module=Pictures(),
        framework="torch",
        inputs=(torch.zeros(1, *SHAPE),),
        input_names=("picture",),
        output_names=("logit",),
        dimensions=({0: "batch"},),
    )


def build_plan(cache: Path, precision: Precision = Precision.FP32) -> Plan[Any]:
    """Plan on one thread, with samples for calibration."""
    noise = torch.Generator().manual_seed(1)
    names = tuple(f"train/{number}" for number in range(24))
    samples: Calibration[Any] = Calibration(
        inputs=[(torch.randn(1, *SHAPE, generator=noise).clamp(-2, 2),) for _ in names],
        list_name="embedded",
        listed=names,
        samples=names,
        sha256=tuple(f"{number:064x}" for number in range(len(names))),
        touched=(),
        method="min-max",
    )
    return Plan(
        device="cpu",
        precision=precision,
        threads=1,
        max_batch=8,
        cache=cache,
        calibration=samples,
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache of files."""
    return tmp_path_factory.mktemp("engines")


@pytest.mark.parametrize(
    ("precision", "tolerance"), [(Precision.FP32, 1e-5), (Precision.INT8, 0.02)]
)
def test_answers_are_those_of_onnx_runtime(
    engine: Any, cache: Path, precision: Precision, tolerance: float
) -> None:
    """For each batch size; in int8 from the same file, up to how products are rounded."""
    plan = build_plan(cache, precision)
    executable = engine.compile(build_pictures(), plan)
    mine, other = executable.open(), OnnxRuntimeEngine().compile(build_pictures(), plan).open()
    for size in (1, 8, 3):
        picture_NCHW = torch.randn(size, *SHAPE).clamp(-2, 2)
        (found,), (wanted,) = mine(picture_NCHW), other(picture_NCHW)
        assert (found - wanted).abs().max() <= tolerance * wanted.abs().max()
    facts = executable.describe()
    assert (facts["precision"], facts["computes_in"], facts["threads"]) == (precision, "f32", 1)
    assert any(name.startswith(RANGE) for name in facts) == (precision is Precision.INT8)


def test_bf16_is_bf16(engine: Any, cache: Path) -> None:
    """Where the processor has it; its answers are near, and not those of fp32."""
    if why := engine.missing("cpu", Precision.BF16):
        pytest.skip(why)
    executable = engine.compile(build_pictures(), build_plan(cache, Precision.BF16))
    picture_NCHW = torch.randn(4, *SHAPE)
    (found,) = executable.open()(picture_NCHW)
    wanted = Pictures()(picture_NCHW).detach()
    gap = (found - wanted).abs().max() / wanted.abs().max()
    assert executable.describe()["computes_in"] == "bf16"
    assert 1e-5 < gap < 0.05


def test_a_cache_is_not_overwritten_while_it_is_read(engine: Any, cache: Path) -> None:
    """By the same worker, or by another one."""
    network = Network(
        name="step",
        module=Step(),
        framework="torch",
        inputs=(torch.zeros(1), torch.zeros(1, dtype=torch.int64), torch.zeros(1, STEPS)),
        input_names=("value", "position", "cache"),
        output_names=("total", "next_cache"),
        dimensions=({0: "batch"}, {}, {0: "batch"}),
        state={"next_cache": "cache"},
    )
    executable = engine.compile(network, replace(build_plan(cache), calibration=None))
    mine, other = executable.open(), executable.open()
    cache_NS = torch.zeros(2, STEPS)
    for place in range(STEPS):
        before = cache_NS.clone()
        total_N, cache_NS = mine(torch.tensor([1.0, 2.0]), torch.tensor([place]), cache_NS)
        other(torch.tensor([9.0, 9.0]), torch.tensor([place]), torch.zeros(2, STEPS))
        before[:, place] = torch.tensor([1.0, 2.0])
        torch.testing.assert_close(cache_NS, before)
        torch.testing.assert_close(total_N, before.sum(dim=1))


def test_what_it_lacks_is_told(engine: Any, cache: Path, tmp_path: Path) -> None:
    """Before anything starts, or as one sentence."""
    assert engine.missing("cuda:0", Precision.FP32) == "has no cuda:0; it has cpu"
    assert engine.missing("cpu", Precision.FP8) == "has no fp8; it has fp32, bf16, int8"
    with pytest.raises(MissingError, match="engine openvino: has no fp16"):
        engine.compile(build_pictures(), build_plan(cache, Precision.FP16))
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"no model")
    network = replace(build_pictures(), framework="onnx", module=damaged)
    with pytest.raises(MissingError, match="engine openvino cannot run damaged.onnx"):
        engine.compile(network, build_plan(cache))
