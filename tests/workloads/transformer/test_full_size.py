"""MLPerf's own sizes: one training step and one translation, on whatever this machine has."""

import numpy as np
import pytest
import torch

from workloads.common import malloc
from workloads.transformer.model import TransformerNetwork
from workloads.transformer.recipe import DecodingParameters, TransformerShape
from workloads.transformer.training import compute_state_loss
from workloads.transformer.translation.torch_tensors import build_torch_translator

pytestmark = pytest.mark.slow
BIG = TransformerShape(layers=6, width=1024, filter=4096, heads=16, vocabulary=33708)


def test_a_step_and_a_translation_at_full_size() -> None:
    """A step lowers the loss of its own batch; a translation ends at its limit. Needs 4 GiB."""
    malloc.keep_freed_memory()
    torch.manual_seed(1)
    model = TransformerNetwork(BIG, dropout=0.0)
    adam = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    source_BS, target_BT = (
        torch.randint(2, BIG.vocabulary, (2, 24)),
        torch.randint(2, BIG.vocabulary, (2, 20)),
    )

    def loss() -> torch.Tensor:
        state_NW = model(source_BS, target_BT, torch.arange(target_BT.numel()))
        return compute_state_loss(model, state_NW, target_BT.flatten(), 0.1) / target_BT.numel()

    before = loss()
    before.backward()  # type: ignore[no-untyped-call]
    adam.step()
    with torch.no_grad():
        assert loss().item() < before.item() - 0.1
    with torch.inference_mode():
        (answer,) = build_torch_translator(
            model.eval(), DecodingParameters(beam=4, alpha=0.6, extra_length=4), "cpu"
        )([np.array([7, 8, 9, 1], np.int32)])
    assert len(answer) <= 8
