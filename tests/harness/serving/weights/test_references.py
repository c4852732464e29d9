"""`podium import` of each reference's weights gives the reference's outputs: random weights, in a
file as the reference saves it.
"""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import click
import gnmt_there
import maskrcnn_there
import pytest
import ssd_there
import torch
import transformer_there
from click.testing import CliRunner
from safetensors.torch import save_file
from torch import nn

from harness.commands.import_weights import import_command
from harness.serving.weights.initial import export_random_weights
from suite.cli import RunOptions, add_run_options
from suite.console.options import RUN_OPTIONS
from suite.files.layout import CHECKPOINT_RECORD
from workloads.common import weights, weights_description
from workloads.gnmt import model as gnmt
from workloads.gnmt.scoring import GNMT_PAD_ID
from workloads.maskrcnn import model as maskrcnn
from workloads.maskrcnn.detector.geometry import convert_pixel_numbers_to_boxes
from workloads.maskrcnn.detector.inference_pipeline import (
    PYRAMID_LEVELS,
    BoxHead,
    DetectorTrunk,
    MaskHead,
)
from workloads.ssd import model as ssd
from workloads.transformer import checkpoint
from workloads.transformer.model import TransformerNetwork

SEED = 7
D = TypeVar("D", bound=weights_description.WeightsDescription)
CLOSE = 1e-4
"""Of the largest output: float32 sums in another order, through up to 53 layers."""


@pytest.fixture(autouse=True)
def _same_inputs() -> None:
    torch.manual_seed(SEED)


def imported(workload: str, file: Path, *more: str) -> Path:
    """Import weights for the embedded data; return the checkpoint. Initial values, which the file's
    replace, are not drawn.
    """
    results = file.parent / "results"
    with weights.SkippedInitialisation():
        CliRunner().invoke(
            import_command,
            [workload, str(file), "--results", str(results), *more],
            catch_exceptions=False,
        )
    (record,) = results.glob(f"checkpoints/{workload}/*/{CHECKPOINT_RECORD}")
    return record.parent


@click.command()
@click.argument("workload")
@add_run_options(*RUN_OPTIONS)
def untrained(workload: str, options: RunOptions) -> None:
    """Print the folder of random weights of the same network."""
    click.echo(export_random_weights(workload, options), nl=False)


def description(workload: str, kind: type[D], results: Path, *more: str) -> D:
    """Return what the network for the embedded data is: its numbers of classes, words, layers."""
    with weights.SkippedInitialisation():
        made = CliRunner().invoke(
            untrained, [workload, "--results", str(results), *more], catch_exceptions=False
        )
    return weights_description.read_weights_description(
        Path(made.stdout.splitlines()[-1]), kind, workload
    )


def drawn(shapes: Iterable[tuple[str, tuple[int, ...]]]) -> dict[str, torch.Tensor]:
    """Draw weights that keep values of about one size through the layers; variances are positive,
    and no two tensors alike.
    """
    generator = torch.Generator().manual_seed(SEED)
    found: dict[str, torch.Tensor] = {}
    for name, shape in shapes:
        noise = torch.randn(shape, generator=generator)
        inputs = math.prod(shape[1:]) if len(shape) > 1 else 4
        found[name] = (
            0.75 + 0.5 * noise.sigmoid()
            if name.endswith(("running_var", "normalize_scalar"))
            else noise / math.sqrt(inputs)
        )
    return found


def filled(network: nn.Module) -> dict[str, torch.Tensor]:
    """Give a reference network random weights; return them as it would save them."""
    shapes = {
        name: tuple(tensor.shape)
        for name, tensor in network.state_dict().items()
        if tensor.is_floating_point()
    }
    network.load_state_dict(drawn(shapes.items()), strict=False)
    network.eval()
    return network.state_dict()


def assert_same(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Compare outputs in the size of the largest; an output of nothing but zeros would say
    nothing.
    """
    assert ours.shape == theirs.shape and theirs.std() > 0
    torch.testing.assert_close(ours, theirs, rtol=0, atol=CLOSE * theirs.abs().max().item())


@pytest.mark.slow
@pytest.mark.parametrize("pixels", [300, 1200])
def test_ssd(pixels: int, tmp_path: Path) -> None:
    """The six maps, and the order of boxes and classes: another box's offsets would pass for a
    detection. Strides show in a smaller picture too.
    """
    configuration = ("--set", f"model.configuration={pixels}")
    classes = 1 + len(
        description("ssd", ssd.SSDDescription, tmp_path / "untrained", *configuration).categories
    )
    with weights.SkippedInitialisation():
        reference = ssd_there.Reference(pixels, classes)
    torch.save(
        {
            "model": {f"module.{name}": tensor for name, tensor in filled(reference).items()},
            "epoch": 49,
        },
        tmp_path / "ssd.pt",
    )
    ours, _ = ssd.load_ssd_checkpoint(imported("ssd", tmp_path / "ssd.pt", *configuration))
    side = min(pixels, 528)
    picture = torch.randn(1, 3, side, side)
    with torch.inference_mode():
        for mine, theirs in zip(ours(picture), reference(picture), strict=True):
            assert_same(mine, theirs.transpose(1, 2))


@pytest.mark.slow
def test_gnmt(tmp_path: Path) -> None:
    """Sentences of different lengths, padded here and alone there: a layer in the wrong place, a
    gate or a direction would change every logit.
    """
    shape = description("gnmt", gnmt.GNMTDescription, tmp_path / "untrained")
    with weights.SkippedInitialisation():
        reference = gnmt_there.Reference(shape.vocabulary, shape.width, shape.layers)
    torch.save({"state_dict": filled(reference), "epoch": 3}, tmp_path / "gnmt.pth")
    ours, _ = gnmt.load_gnmt_checkpoint(imported("gnmt", tmp_path / "gnmt.pth"))
    lengths = (9, 5)
    sources, targets = (
        [torch.randint(4, shape.vocabulary, (length,)) for length in lengths] for _ in range(2)
    )
    padded = [
        nn.utils.rnn.pad_sequence(each, batch_first=True, padding_value=GNMT_PAD_ID)
        for each in (sources, targets)
    ]
    with torch.inference_mode():
        state_NTH = ours.eval()(padded[0], torch.tensor(lengths), padded[1])
        logit_NTV = ours.compute_output_logits(state_NTH)
        for mine, source, target in zip(logit_NTV, sources, targets, strict=True):
            assert_same(mine[: len(target)], reference(source, target))


@pytest.mark.slow
def test_transformer(tmp_path: Path) -> None:
    """Transposed kernels of TensorFlow, and projections that are one matrix here: an exchange of
    keys and values would still be a network.
    """
    shape = description(
        "transformer", checkpoint.TransformerDescription, tmp_path / "untrained"
    ).shape
    state = drawn(
        transformer_there.variables(shape.layers, shape.width, shape.filter, shape.vocabulary)
    )
    save_file(state | {"global_step": torch.tensor(1)}, tmp_path / "transformer.safetensors")
    ours = weights.build_exported_network(
        lambda: TransformerNetwork(shape),
        imported("transformer", tmp_path / "transformer.safetensors"),
        checkpoint.TRANSFORMER_NAME,
    )
    source_T, target_T = (
        torch.randint(2, shape.vocabulary, (11,)),
        torch.randint(2, shape.vocabulary, (7,)),
    )
    with torch.inference_mode():
        theirs = transformer_there.logits(state, shape.layers, shape.heads, source_T, target_T)
        places_T = torch.arange(len(target_T))
        state_TW = ours(source_T[None], target_T[None], places_T)
        assert_same(ours.compute_output_logits(state_TW), theirs)


@pytest.mark.slow
def test_maskrcnn(tmp_path: Path) -> None:
    """Proposals' scores and deltas on five levels; classes, deltas and masks of regions on four;
    without the choice among them, which has no weights.
    """
    frozen = ("--set", "model.frozen_norm=true")
    classes = 1 + len(
        description(
            "maskrcnn", maskrcnn.MaskRCNNDescription, tmp_path / "untrained", *frozen
        ).classes
    )
    with weights.SkippedInitialisation():
        reference = maskrcnn_there.Reference(classes)
    torch.save(
        {
            "model": filled(reference) | {"rpn.anchor_generator.cell_anchors.0": torch.zeros(3, 4)},
            "iteration": 1,
        },
        tmp_path / "maskrcnn.pth",
    )
    ours, _ = maskrcnn.load_maskrcnn_checkpoint(
        imported("maskrcnn", tmp_path / "maskrcnn.pth", *frozen), maskrcnn.RegionCounts()
    )
    picture = torch.randn(1, 3, 256, 320)
    region_K4 = torch.tensor(
        [
            [3.0, 5.0, 40.0, 31.0],
            [20.0, 8.0, 150.0, 140.0],
            [0.0, 0.0, 319.0, 255.0],
            [100.5, 60.25, 101.5, 200.0],
        ]
    )
    with torch.inference_mode():
        for mine, theirs in zip(
            outputs(ours.eval(), picture, region_K4), reference(picture, region_K4), strict=True
        ):
            assert_same(mine, theirs)


def outputs(
    ours: maskrcnn.MaskRCNNNetwork, picture: torch.Tensor, region_K4: torch.Tensor
) -> list[torch.Tensor]:
    """Run the three networks that are served, with their pooling."""
    maps = DetectorTrunk(ours)(picture)
    levels, roi_heads, sizes = (
        dict(zip(PYRAMID_LEVELS, maps, strict=False)),
        ours.roi_heads,
        [tuple(picture.shape[2:])],
    )
    pooled = [
        pool(levels, [convert_pixel_numbers_to_boxes(region_K4)], sizes)
        for pool in (roi_heads.box_roi_pool, roi_heads.mask_roi_pool)
    ]
    return [*maps[len(PYRAMID_LEVELS) :], *BoxHead(ours)(pooled[0]), MaskHead(ours)(pooled[1])]
