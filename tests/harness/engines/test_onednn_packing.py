"""Linear layers in oneDNN's layout: the same products, in every shape that networks have."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from harness.engines import onednn_packing
from harness.engines.onednn_packing import PackedLinear, is_packable_linear, pack_linear_layers

pytestmark = pytest.mark.skipif(
    not onednn_packing.can_pack_linear_layers(),
    reason="this build of PyTorch has no oneDNN to pack weights for",
)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 48), (3, 5, 48), (2, 7, 3, 48), (200, 48), (48,), (0, 48)])
def test_products_are_the_same(shape: tuple[int, ...], bias: bool) -> None:
    """Any number of rows and of axes."""
    layer, rows = nn.Linear(48, 33, bias=bias), torch.randn(shape)
    with torch.inference_mode():
        assert torch.allclose(PackedLinear(layer)(rows), layer(rows), atol=1e-5)


def test_rows_that_do_not_lie_side_by_side() -> None:
    """A slice of a cache, a transpose of heads."""
    layer, rows = nn.Linear(48, 33), torch.randn(48, 6, 5).permute(1, 2, 0)
    with torch.inference_mode():
        assert torch.allclose(
            PackedLinear(layer)(rows), functional.linear(rows, layer.weight, layer.bias), atol=1e-5
        )


def test_every_linear_layer_of_a_module_is_replaced() -> None:
    """Nested ones too, and none twice where two networks share a part."""
    shared = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    module = nn.ModuleDict({"a": shared, "b": nn.Sequential(nn.Linear(8, 4), nn.Conv1d(4, 4, 1))})
    assert pack_linear_layers(module) == 2
    assert pack_linear_layers(nn.ModuleDict({"again": shared})) == 0
    assert isinstance(shared[0], PackedLinear)


class Own(nn.Linear):
    """May do more than a product."""


@pytest.mark.parametrize(
    "layer",
    [
        Own(4, 4),
        nn.Linear(4, 4, dtype=torch.float64),
        nn.Linear(4, 4, device="meta"),
        nn.Conv2d(4, 4, 1),
    ],
)
def test_what_is_not_a_plain_fp32_layer_stays(layer: nn.Module) -> None:
    """A subclass, another number format, weights elsewhere."""
    assert not is_packable_linear(layer)


def test_a_build_without_these_operators_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not promised by PyTorch."""
    monkeypatch.setattr(
        onednn_packing, "PackedLinear", lambda layer: torch.ops.mkldnn.no_such_operator(layer)
    )
    module = nn.Sequential(nn.Linear(8, 8))
    assert pack_linear_layers(module) == 0 and type(module[0]) is nn.Linear
