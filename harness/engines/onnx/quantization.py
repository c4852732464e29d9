"""Quantises an fp32 ONNX file to INT8: static quantisation, explicit Q/DQ nodes, weights per
channel.

Sources of the form: ONNX Runtime, Quantize ONNX models; NVIDIA TensorRT, Explicit quantisation.
Ranges come from calibration samples alone.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.machine.system_description import read_cpu_fields
from suite.engine import RANGE
from suite.errors import RequestError
from suite.files.cache import fill_cache_entry
from suite.files.scratch import create_temporary_folder

if TYPE_CHECKING:
    import onnx
    import torch

    from suite.engine import Calibration, Network
    from suite.rounds import HyperValue

CALIBRATION_METHODS: Final = {"min-max": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
"""calibration.method -> onnxruntime.quantization.CalibrationMethod."""
CALIBRATION_GROUP_SIZE: Final = 8
"""Samples whose intermediate values are in memory together; histograms are merged from group to
group.
"""
INT8_PRODUCT_CPU_FLAGS: Final = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp"})
"""Processor flags: byte products are summed in 32 bits. Without them x86 sums pairs in 16 bits, and
weights are limited to 7 bits.
"""
QUANTISED_TYPE_LIMITS: Final = {
    "UINT8": (0.0, 255.0),
    "INT8": (-128.0, 127.0),
    "FLOAT8E4M3FN": (-448.0, 448.0),
}
"""Type -> its lowest and highest number; ONNX, Float stored in 8 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisationForm:
    """The form of quantised file that an engine requires."""

    symmetric: bool
    """Activations in int8 around 0, as TensorRT requires, instead of uint8 with a zero point."""
    narrow: bool
    """Weights are limited to 7 bits."""
    kinds: tuple[str, ...]
    """Operators whose inputs are quantised; empty: all that ONNX Runtime supports, and their
    outputs too.
    """


def choose_default_form() -> QuantisationForm:
    """Return ONNX Runtime's form on this processor."""
    return QuantisationForm(symmetric=False, narrow=has_narrow_int8_products(), kinds=())


def ensure_int8_onnx(
    network: Network[torch.Tensor],
    source: Path,
    calibration: Calibration[torch.Tensor] | None,
    form: QuantisationForm | None = None,
) -> Path:
    """Return a network's INT8 file, cached if possible; RequestError without calibration
    samples.
    """
    form = form or choose_default_form()
    if calibration is None:
        raise RequestError(
            f"network {network.name}: int8 needs calibration samples, but this workload provides"
            " none"
        )
    if not calibration.samples:
        raise RequestError(
            f"network {network.name}: the calibration list {calibration.list_name} is empty"
        )
    path = source.with_name(f"{compute_int8_key(source, calibration, form)}.onnx")
    with fill_cache_entry(path) as partial:
        if partial is not None:
            with redirect_stdout(io.StringIO()):  # the library prints to stdout
                write_int8_onnx(network, source, calibration, form, partial)
    return path


def compute_int8_key(
    source: Path, calibration: Calibration[Any], form: QuantisationForm | None = None
) -> str:
    """Hash what the file depends on."""
    ingredients = (
        source.stem,
        calibration.method,
        calibration.samples,
        calibration.sha256,
        form or choose_default_form(),
    )
    return hashlib.sha256(repr(ingredients).encode()).hexdigest()


def has_narrow_int8_products() -> bool:
    """Check whether weights are limited to 7 bits, so that pair sums fit in 16 (ONNX Runtime,
    Quantize ONNX models: reduce_range).
    """
    fields = next(iter(read_cpu_fields()), {})
    return INT8_PRODUCT_CPU_FLAGS.isdisjoint(
        f"{fields.get('flags', '')} {fields.get('Features', '')}".split()
    )


def write_int8_onnx(
    network: Network[torch.Tensor],
    source: Path,
    calibration: Calibration[torch.Tensor],
    form: QuantisationForm,
    path: Path,
) -> None:
    """Calibrate and write."""
    from onnxruntime.quantization import QDQQuantizer, QuantType
    from onnxruntime.quantization.quant_utils import load_model_with_shape_infer
    from onnxruntime.quantization.registry import QDQRegistry
    from onnxruntime.quantization.shape_inference import quant_pre_process

    kinds = sorted(form.kinds or QDQRegistry)
    with create_temporary_folder() as folder:
        prepared = folder / "prepared.onnx"
        quant_pre_process(str(source), str(prepared), skip_symbolic_shape=True)
        ranges = calibrate_tensor_ranges(
            network, prepared, calibration, kinds, symmetric=form.symmetric
        )
        model = load_model_with_shape_infer(prepared)
        activations = QuantType.QInt8 if form.symmetric else QuantType.QUInt8
        quantizer = QDQQuantizer(
            model,
            True,
            form.narrow,
            QuantType.QInt8,
            activations,
            ranges,
            [],
            [],
            kinds,
            build_quantizer_options(form),
        )
        quantizer.quantize_model()
        quantizer.model.save_model_to_file(str(path), False)


def build_quantizer_options(form: QuantisationForm) -> dict[str, Any]:
    """Return a form as ONNX Runtime's extra options: TensorRT needs Q and DQ on weights, biases in
    floats, and fuses what follows a product itself.
    """
    if not form.symmetric:
        return {}
    outputs = {"OpTypesToExcludeOutputQuantization": list(form.kinds)}
    return {
        "ActivationSymmetric": True,
        "WeightSymmetric": True,
        "AddQDQPairToWeight": True,
        "QuantizeBias": False,
        **outputs,
    }


def calibrate_tensor_ranges(
    network: Network[torch.Tensor],
    prepared: Path,
    calibration: Calibration[torch.Tensor],
    kinds: Sequence[str],
    *,
    symmetric: bool = False,
) -> Any:
    """Return the range of each tensor over the samples."""
    from onnxruntime.quantization import CalibrationMethod, create_calibrator

    method = CalibrationMethod[CALIBRATION_METHODS[calibration.method]]
    calibrator = create_calibrator(
        prepared,
        kinds,
        str(prepared.with_name("augmented.onnx")),
        method,
        extra_options={"symmetric": symmetric},
    )
    used_names = {one.name for one in calibrator.infer_session.get_inputs()}
    for start in range(0, len(calibration.inputs), CALIBRATION_GROUP_SIZE):
        group = (
            calibration.inputs[place]
            for place in range(start, min(start + CALIBRATION_GROUP_SIZE, len(calibration.inputs)))
        )
        calibrator.collect_data(CalibrationReader(iterate_input_arrays(network, group, used_names)))
    return calibrator.compute_data()


def iterate_input_arrays(
    network: Network[torch.Tensor], group: Iterator[tuple[torch.Tensor, ...]], used_names: set[str]
) -> Iterator[dict[str, Any]]:
    """Map the input names to each sample's arrays."""
    for inputs in group:
        yield {
            name: tensor.cpu().numpy()
            for name, tensor in zip(network.input_names, inputs, strict=True)
            if name in used_names
        }


class CalibrationReader:
    """ONNX Runtime's CalibrationDataReader interface."""

    def __init__(self, feeds: Iterator[dict[str, Any]]) -> None:
        self.feeds = feeds

    def get_next(self) -> dict[str, Any] | None:
        """Return the next sample's inputs, None after the last."""
        return next(self.feeds, None)


def ensure_fp16_onnx(source: Path) -> Path:
    """Return a network's fp16 file, with fp32 inputs and outputs; cached if possible."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    path = source.with_name(f"{source.stem}-fp16.onnx")
    with fill_cache_entry(path) as partial:
        if partial is not None:
            half = OnnxModel(convert_float_to_float16(onnx.load(source), keep_io_types=True))
            half.topological_sort()  # required by ONNX; the converter appends its casts at the end
            onnx.save(half.model, partial)
    return path


def collect_activation_ranges(model: onnx.ModelProto) -> Mapping[str, HyperValue]:
    """Read the ranges back from the file's quantising nodes: tensor -> the values of the lowest and
    the highest step.
    """
    import onnx
    from onnx.numpy_helper import to_array

    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    found: dict[str, HyperValue] = {}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.input[0] not in constants:
            scale, zero = (constants[name] for name in node.input[1:3])
            step, origin = float(to_array(scale).item()), float(to_array(zero).item())
            lowest, highest = QUANTISED_TYPE_LIMITS[onnx.TensorProto.DataType.Name(zero.data_type)]
            found[f"{RANGE}{node.input[0]}"] = ((lowest - origin) * step, (highest - origin) * step)
    return found
