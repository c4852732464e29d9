"""An ONNX file as a bare network: what is measured of it, and what it refuses. Imports no
framework.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
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
    check_shape_names,
    choose_batch_size,
    format_input_sizes,
    resolve_input_shapes,
)
from suite.engine import ONNX_FRAMEWORK, Engine
from suite.errors import RequestError
from suite.files.layout import compute_folder_sha256, convert_to_slug
from suite.rounds import HyperValue
from suite.workload import Inference, Run

SHAPE_SETTING: Final = "onnx.shape."
DATA_SETTING: Final = "onnx.data"
NAME_HASH_DIGITS: Final = 8
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
        """Return the name of its studies: the file's, which no workload can have; with a hash of
        it where the letters of another script are left out, since two names would be one.
        """
        stem = self.graph.path.stem
        slug = convert_to_slug(stem)
        if any(letter.isalnum() and not letter.isascii() for letter in stem):
            slug += f"-{hashlib.sha256(os.fsencode(stem)).hexdigest()[:NAME_HASH_DIGITS]}"
        return f"{slug}.onnx"

    def describe_inputs(self) -> dict[str, HyperValue]:
        """Return what is measured beside the file itself, as settings of a study."""
        shapes: dict[str, HyperValue] = {
            f"{SHAPE_SETTING}{each.name}": format_input_sizes(each, batched=self.graph.is_batched)
            for each in self.shapes
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
    paths: Sequence[Path], given: NamedShapes, data: Path | None
) -> tuple[OnnxNetwork, ...]:
    """Read files as bare networks; RequestError if one cannot be used, or two have one name."""
    graphs = [read_onnx_graph(path) for path in paths]
    check_shape_names(graphs, given)
    networks = tuple(build_onnx_network(graph, given, data) for graph in graphs)
    for number, each in enumerate(networks):
        if other := next((one for one in networks[:number] if one.name == each.name), None):
            raise RequestError(
                f"--onnx {each.graph.path}: its study would have the name of"
                f" {other.graph.path}'s, {each.name}; rename one of the files"
            )
    return networks


def build_onnx_network(graph: FileGraph, given: NamedShapes, data: Path | None) -> OnnxNetwork:
    """Build the network of a file; the sizes of `--data` stand in for those of `--shape`."""
    own = {name: sizes for name, sizes in given.items() if name in {i.name for i in graph.inputs}}
    files = list_sample_files(data) if data else None
    shapes = resolve_input_shapes(graph, (read_first_shapes(files, graph) if files else {}) | own)
    if files:
        check_samples(files, shapes)
    return OnnxNetwork(
        graph=graph,
        shapes=shapes,
        batch=choose_batch_size(graph, own),
        files=files,
        data_sha256=compute_folder_sha256(files.folder) if files else "",
    )
