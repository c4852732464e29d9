"""ONNX Runtime's messages keep their reason, and lose its C++."""

import pytest

from harness.engines.onnx.runtime_messages import format_runtime_message

SIGNATURE = (
    "onnxruntime::Model::Model(onnx::ModelProto&&, const onnxruntime::PathString&, const"
    " onnxruntime::IOnnxRuntimeOpSchemaRegistryList*, const onnxruntime::logging::Logger&, const"
    " onnxruntime::ModelOptions&)"
)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "[ONNXRuntimeError] : 1 : FAIL : Load model from ir-14.onnx failed:/onnxruntime_src/"
            f"onnxruntime/core/graph/model.cc:256 {SIGNATURE} Unsupported model IR version: 14, max"
            " supported IR version: 13\n",
            "1 : FAIL : Load model from ir-14.onnx failed: Unsupported model IR version: 14, max"
            " supported IR version: 13",
        ),
        (
            "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : /s/core/a.h:12 T& f(int) const [with T ="
            " g(h)] it is wrong",
            "2 : INVALID_ARGUMENT : it is wrong",
        ),
        ("Got invalid dimensions for input: x", "Got invalid dimensions for input: x"),
        ("see model.cc:7 for more", "see for more"),
    ],
)
def test_a_signature_does_not_stand_before_the_reason(said: str, kept: str) -> None:
    assert format_runtime_message(RuntimeError(said)) == kept


def test_a_long_message_keeps_its_end() -> None:
    told = format_runtime_message(RuntimeError("first " + "x" * 5000 + " the reason"))
    assert told.startswith("first ") and told.endswith(" the reason") and len(told) < 700
