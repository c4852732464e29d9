"""A Transformer's logits for whole sentences, in one pass as in training."""

import torch

from workloads.transformer.model import TransformerNetwork
from workloads.transformer.subwords import PAD_ID


def compute_target_logits(
    model: TransformerNetwork, source_BS: torch.Tensor, target_BT: torch.Tensor
) -> torch.Tensor:
    """Return the logits, N x V, of all target tokens but padding."""
    token_N = torch.nonzero(target_BT.flatten() != PAD_ID).flatten()
    return model.compute_output_logits(model(source_BS, target_BT, token_N))
