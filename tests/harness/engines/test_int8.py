"""INT8 through ONNX Runtime: ranges from calibration samples alone, weights per channel, kept by
what made them; fp16 files beside it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.engines.onnx import quantization
from harness.engines.onnx.engine import OnnxRuntimeEngine
from suite.engine import RANGE, Calibration, Network, Plan
from suite.errors import RequestError
from suite.terms import Precision

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

SHAPE = (3, 8, 8)


class Small(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A convolution whose channels differ a hundredfold in size, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.head = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Linear(8, 5)
        with torch.no_grad():
            self.conv.weight[0] *= 100

    def forward(self, picture_NCHW: Any) -> Any:
        return self.head(self.conv(picture_NCHW).relu().mean((2, 3)))


def network() -> Network[Any]:
    return Network(
        name="small",
        module=Small(),
        framework="torch",
        inputs=(torch.zeros(1, *SHAPE),),
        input_names=("picture",),
        output_names=("logit",),
        dimensions=({0: "batch"},),
    )


def pictures(scale: float = 1.0, count: int = 24) -> list[tuple[Any, ...]]:
    noise = torch.Generator().manual_seed(1)
    return [(torch.randn(1, *SHAPE, generator=noise).clamp(-2, 2) * scale,) for _ in range(count)]


def calibration(inputs: list[tuple[Any, ...]], method: str = "min-max") -> Calibration[Any]:
    names = tuple(f"train/{number}" for number in range(len(inputs)))
    hashes = tuple(f"{number + len(method):064x}" for number in range(len(inputs)))
    return Calibration(
        inputs=inputs,
        list_name="embedded",
        listed=names,
        samples=names,
        sha256=hashes,
        touched=(),
        method=method,
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("engines")


def plan(cache: Path, samples: Calibration[Any] | None) -> Plan[Any]:
    return Plan(
        device="cpu",
        precision=Precision.INT8,
        threads=1,
        max_batch=8,
        cache=cache,
        calibration=samples,
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["min-max", "entropy", "percentile"])
def test_each_method_keeps_the_network_near_its_source(cache: Path, method: str) -> None:
    """A method that loses the network's answers would be blamed on INT8."""
    executable = OnnxRuntimeEngine().compile(
        network(), plan(cache, calibration(pictures(), method))
    )
    picture_NCHW = torch.cat([picture for (picture,) in pictures(count=30)[24:]])
    (found_NK,) = executable.open()(picture_NCHW)
    wanted_NK = Small()(picture_NCHW).detach()
    assert (found_NK - wanted_NK).abs().max() < 0.06 * wanted_NK.abs().max()


@pytest.mark.slow
def test_ranges_are_those_of_the_samples_and_are_told(cache: Path) -> None:
    """Ranges from anything but the samples would be statistics of data that nobody listed."""
    facts = OnnxRuntimeEngine().compile(network(), plan(cache, calibration(pictures()))).describe()
    lowest, highest = facts[f"{RANGE}picture"]  # type: ignore[misc]
    assert (lowest, highest) == pytest.approx((-2, 2), abs=0.02)
    assert sum(name.startswith(RANGE) for name in facts) >= 3
    assert "per channel" in str(facts["weights"])


@pytest.mark.slow
def test_weights_have_a_scale_for_each_channel(cache: Path) -> None:
    """One scale for all channels would leave the small ones two or three levels."""
    samples = calibration(pictures())
    OnnxRuntimeEngine().compile(network(), plan(cache, samples))
    model = onnx.load(kept(cache, samples))
    assert any(
        tensor.dims == [8] and tensor.name.endswith("_scale") for tensor in model.graph.initializer
    )
    assert {"QuantizeLinear", "DequantizeLinear"} <= {node.op_type for node in model.graph.node}


def kept(cache: Path, samples: Calibration[Any]) -> Path:
    from harness.engines.onnx.export import ensure_onnx_export

    source = ensure_onnx_export(network(), cache)
    return source.with_name(f"{quantization.compute_int8_key(source, samples)}.onnx")


@pytest.mark.slow
def test_other_samples_make_another_file_and_the_same_ones_are_not_read_again(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file kept from other samples would carry ranges that the measurements do not tell."""
    samples = calibration(pictures())
    OnnxRuntimeEngine().compile(network(), plan(cache, samples))
    monkeypatch.setattr(quantization, "write_int8_onnx", lambda *_: pytest.fail("calibrated again"))
    OnnxRuntimeEngine().compile(network(), plan(cache, samples))
    others = [
        replace(samples, sha256=("f" * 64, *samples.sha256[1:])),
        replace(samples, method="entropy"),
    ]
    assert len({kept(cache, each) for each in (samples, *others)}) == 3


@pytest.mark.slow
def test_nothing_to_calibrate_with_is_refused(cache: Path) -> None:
    with pytest.raises(
        RequestError, match="small: int8 needs calibration samples, but this workload provides none"
    ):
        OnnxRuntimeEngine().compile(network(), plan(cache, None))
    with pytest.raises(RequestError, match="the calibration list embedded is empty"):
        OnnxRuntimeEngine().compile(network(), plan(cache, calibration([])))


@pytest.mark.parametrize(
    ("flags", "narrow"),
    [("avx2 fma", True), ("avx512f avx512_vnni", False), ("avx2 avx_vnni", False), ("", True)],
)
def test_weights_keep_to_seven_bits_where_sums_of_pairs_would_overflow(
    monkeypatch: pytest.MonkeyPatch, flags: str, narrow: bool
) -> None:
    """Without VNNI two products of bytes are summed in 16 bits, and large ones are cut without a
    word.
    """
    monkeypatch.setattr(
        quantization, "read_cpu_fields", lambda: [{"flags": flags}] if flags else []
    )
    assert quantization.has_narrow_int8_products() is narrow


@pytest.mark.slow
def test_an_fp16_file_answers_within_its_precision(cache: Path) -> None:
    """For GPUs' providers; the CPU's runs it with conversions, which is enough to see that it is
    right.
    """
    import onnxruntime

    from harness.engines.onnx.export import ensure_onnx_export
    from harness.engines.onnx.io_binding import BoundCall

    path = quantization.ensure_fp16_onnx(ensure_onnx_export(network(), cache))
    call: Callable[..., Any] = BoundCall(
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]), network(), "cpu"
    )
    (picture_NCHW,) = pictures(count=1)[0]
    torch.testing.assert_close(
        call(picture_NCHW)[0], Small()(picture_NCHW).detach(), rtol=2e-2, atol=2e-2
    )
