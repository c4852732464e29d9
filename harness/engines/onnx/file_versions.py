"""Whether the installed ONNX Runtime reads files of a version, asked of itself with a file of one
node.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from suite.errors import MissingError

READ_BY_ALL: Final = (10, 21)
"""Version of the format, and of ONNX's operators, that ONNX Runtime 1.20 reads, the oldest that
podium takes; onnxruntime.ai, Compatibility.
"""
IR_LIMIT: Final = re.compile(r"max supported IR version: (\d+)")
OPSET_LIMIT: Final = re.compile(r"support for domain (\S+) is till opset (\d+)")
PROBED_DOMAINS: Final = ("", "ai.onnx", "ai.onnx.ml")


def check_runtime_reads(path: Path, ir_version: int, opsets: Sequence[tuple[str, int]]) -> None:
    """MissingError if the installed ONNX Runtime is too old for a file's version of the format or
    of its operators.
    """
    standard = [(domain, version) for domain, version in opsets if domain in PROBED_DOMAINS]
    newest = max((version for _, version in standard), default=1)
    if ir_version <= READ_BY_ALL[0] and newest <= READ_BY_ALL[1]:
        return
    said = probe_file_version(ir_version, standard)
    if found := IR_LIMIT.search(said):
        raise describe_new_file(
            path,
            f"IR version {ir_version}",
            found[1],
            f"save it with model.ir_version = {found[1]}",
        )
    if found := OPSET_LIMIT.search(said):
        asked = next((each for domain, each in standard if domain == found[1]), newest)
        raise describe_new_file(
            path,
            f"opset {asked} of {found[1]}",
            found[2],
            f"export it with opset {found[2]} (onnx.version_converter converts it)",
        )


def probe_file_version(ir_version: int, opsets: Sequence[tuple[str, int]]) -> str:
    """Load a file of one node and these versions; return what ONNX Runtime says against it."""
    import onnxruntime
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*each) for each in opsets])
    model.ir_version = ir_version
    try:
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its errors have no common class
        return str(error)
    return ""


def describe_new_file(path: Path, found: str, limit: str, way_out: str) -> MissingError:
    """Return the error of a file that is newer than the installed ONNX Runtime."""
    import onnxruntime

    return MissingError(
        f"{path.name} has {found}; ONNX Runtime {onnxruntime.__version__} reads up to {limit}:"
        f" {way_out}, or update ONNX Runtime"
    )
