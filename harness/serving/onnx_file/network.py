"""An ONNX file as a bare network: what is measured of it, and what it refuses. Imports no
framework.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from harness.serving.onnx_file.graph import FileGraph, read_onnx_graph
from harness.serving.onnx_file.samples import (
    SampleFiles,
    check_samples,
    list_sample_files,
    read_first_shapes,
)
from harness.serving.onnx_file.shapes import (
    InputShape,
    NamedShapes,
    NamedValues,
    check_input_names,
    check_input_values,
    choose_batch_size,
    format_input_sizes,
    resolve_input_shapes,
)
from suite.engine import ONNX_FRAMEWORK, Engine
from suite.errors import RequestError
from suite.files.layout import compute_folder_sha256
from suite.rounds import HyperValue
from suite.workload import Inference, Run

SHAPE_SETTING: Final = "onnx.shape."
VALUE_SETTING: Final = "onnx.value."
DATA_SETTING: Final = "onnx.data"
NAME_LETTERS: Final = re.compile(r"[^A-Za-z0-9._]+")
"""What a folder's name has a hyphen for."""
NAME_HASH_DIGITS: Final = 8
NO_VALUES: Final[NamedValues] = MappingProxyType({})
INFERENCE_MODULE: Final = "harness.serving.onnx_file.inference"
"""Imported once, before LoadGen's processes are forked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxNetwork:
    """A file as a bare network (suite.studies.bare_network); picklable."""

    graph: FileGraph
    shapes: tuple[InputShape, ...]
    batch: int
    """The samples of a batch that `--shape` asks for."""
    files: SampleFiles | None = None
    """The samples of `--data`; None: random ones."""
    data_sha256: str = ""
    """Of those files."""
    framework: str = ONNX_FRAMEWORK

    @property
    def name(self) -> str:
        """Return the name of its studies, which no workload can have: the file's and the begin of
        its hash, since half of the world's files are called model.onnx.
        """
        stem = NAME_LETTERS.sub("-", self.graph.path.stem).strip("-._") or "unnamed"
        return f"{stem}-{self.graph.sha256[:NAME_HASH_DIGITS]}.onnx"

    def describe_inputs(self) -> dict[str, HyperValue]:
        """Return what is measured beside the file itself, as settings of a study."""
        shapes: dict[str, HyperValue] = {
            f"{SHAPE_SETTING}{each.name}": format_input_sizes(each, batched=self.graph.is_batched)
            for each in self.shapes
        }
        shapes |= {
            f"{VALUE_SETTING}{each.name}": each.value
            for each in self.shapes
            if each.value is not None
        }
        return shapes | ({DATA_SETTING: self.data_sha256} if self.files else {})

    def check_batch_sizes(self, sizes: Sequence[int]) -> None:
        """Raise RequestError for a batch that the file's own sizes do not allow."""
        if not self.graph.is_batched and any(size != 1 for size in sizes):
            fixed = next(each for each in self.graph.inputs if not each.is_first_free)
            raise RequestError(
                f"{self.graph.path}: the first size of input {fixed.name} ({fixed}) is not free, so"
                " it answers one sample at a time: measure batches of 1, or export it with a free"
                " first size"
            )

    def inference(self, run: Run, weights: Path | None, engine: Engine[Any]) -> Inference:
        """Build the system under test."""
        from harness.serving.onnx_file.inference import OnnxInference  # late: it imports torch

        return OnnxInference(run, self, engine)


def open_onnx_networks(
    paths: Sequence[Path],
    given: NamedShapes,
    data: Path | None,
    values: NamedValues = NO_VALUES,
) -> tuple[OnnxNetwork, ...]:
    """Read files as bare networks; RequestError if one cannot be used, or two are one."""
    graphs = [read_onnx_graph(path) for path in paths]
    check_input_names(graphs, "--shape", given)
    check_input_names(graphs, "--value", values)
    networks = tuple(build_onnx_network(graph, given, data, values) for graph in graphs)
    for number, each in enumerate(networks):
        if other := next((one for one in networks[:number] if one.name == each.name), None):
            raise RequestError(
                f"--onnx {each.graph.path}: the same network as {other.graph.path}, with the same"
                " name; give one of the two"
            )
    return networks


def build_onnx_network(
    graph: FileGraph, given: NamedShapes, data: Path | None, values: NamedValues
) -> OnnxNetwork:
    """Build the network of a file; the sizes of `--data` stand in for those of `--shape`."""
    names = {each.name for each in graph.inputs}
    own = {name: sizes for name, sizes in given.items() if name in names}
    fixed = {name: value for name, value in values.items() if name in names}
    check_input_values(graph, fixed)
    files = list_sample_files(data) if data else None
    sampled = read_first_shapes(files, graph, fixed) if files else {}
    source = f"--data {files.locate_sample(0)}" if files and not own else None
    shapes = tuple(
        replace(each, value=fixed.get(each.name))
        for each in resolve_input_shapes(graph, sampled | own, source)
    )
    if files:
        check_samples(files, shapes)
    return OnnxNetwork(
        graph=graph,
        shapes=shapes,
        batch=choose_batch_size(graph, own),
        files=files,
        data_sha256=compute_folder_sha256(files.folder) if files else "",
    )
