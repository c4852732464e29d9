"""The network: its sizes, what it may see, and decoding step by step against one pass over the
whole sentence.
"""

import math

import numpy as np
import pytest
import torch
from whole_pass import compute_target_logits

from suite.errors import RequestError
from workloads.transformer.model import (
    TransformerNetwork,
    TransformerServingDecoderStep,
    TransformerServingEncoder,
    encode_positions,
)
from workloads.transformer.recipe import TransformerShape
from workloads.transformer.translation.decoding import CACHE_GROWTH_POSITIONS, AncestryMasks
from workloads.transformer.translation.torch_tensors import TorchConverter

SHAPE = TransformerShape(layers=2, width=32, filter=64, heads=4, vocabulary=40)
SOURCE_BS = torch.tensor([[5, 6, 7, 1, 0, 0], [4, 3, 9, 8, 2, 1], [12, 1, 0, 0, 0, 0]])
TARGET_BT = torch.tensor([[5, 6, 9, 11, 1], [7, 8, 1, 0, 0], [3, 1, 0, 0, 0]])


@pytest.fixture
def model() -> TransformerNetwork:
    torch.manual_seed(3)
    return TransformerNetwork(SHAPE).eval()


def test_it_has_its_full_size() -> None:
    """Big: 6 + 6 layers, 1024, 4096, 16 heads: 176 million weights without, 210 million with the
    reference's 33,708 embeddings.
    """
    with torch.device("meta"):
        model = TransformerNetwork(
            TransformerShape(layers=6, width=1024, filter=4096, heads=16, vocabulary=33708)
        )
    attention, filter_, norm = 4 * 1024**2, 2 * 1024 * 4096 + 1024 + 4096, 2 * 1024
    encoder, decoder = attention + filter_ + 2 * norm, 2 * attention + filter_ + 3 * norm
    assert (
        sum(p.numel() for p in model.parameters())
        == 6 * (encoder + decoder) + 2 * norm + 33708 * 1024
    )


def test_positions_are_waves() -> None:
    """Sines, then cosines; wave lengths from 2 pi to 10,000 times that; position 0 is 0s and 1s."""
    signal_TW = encode_positions(torch.arange(30), 8)
    assert signal_TW[0].tolist() == [0.0] * 4 + [1.0] * 4
    for position, wave in ((7, 0), (7, 3), (29, 2)):
        angle = position / 10000 ** (wave / 3)
        assert signal_TW[position, wave].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert signal_TW[position, wave + 4].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_one_matrix_embeds_and_makes_logits(model: TransformerNetwork) -> None:
    """Three matrices would have three times as many weights, and be another model."""
    assert [name for name, p in model.named_parameters() if SHAPE.vocabulary in p.shape] == [
        "embedding"
    ]


def test_padding_changes_nothing(model: TransformerNetwork) -> None:
    """Longer neighbours pad a sentence; its logits must not see that."""
    together = compute_target_logits(model, SOURCE_BS, TARGET_BT)
    alone = torch.cat(
        [
            compute_target_logits(model, SOURCE_BS[i : i + 1, :s], TARGET_BT[i : i + 1, :t])
            for i, (s, t) in enumerate(((4, 5), (6, 3), (2, 2)))
        ]
    )
    assert torch.allclose(together, alone, atol=1e-5)


def test_a_position_does_not_see_what_comes(model: TransformerNetwork) -> None:
    """A decoder that sees the word it is asked for learns nothing."""
    changed_BT = TARGET_BT.clone()
    changed_BT[0, 3:] = torch.tensor([30, 31])
    before, after = (
        compute_target_logits(model, SOURCE_BS, TARGET_BT),
        compute_target_logits(model, SOURCE_BS, changed_BT),
    )
    assert torch.equal(before[:4], after[:4])
    assert not torch.allclose(before[4], after[4])


def test_the_source_matters(model: TransformerNetwork) -> None:
    """Every one of its words."""
    for place in range(4):
        changed_BS = SOURCE_BS.clone()
        changed_BS[0, place] = 33
        assert not torch.allclose(
            compute_target_logits(model, SOURCE_BS, TARGET_BT)[:5],
            compute_target_logits(model, changed_BS, TARGET_BT)[:5],
            atol=1e-4,
        )


def stepwise(model: TransformerNetwork, beam: int, seen: int | None) -> torch.Tensor:
    """Decode the targets token by token; every hypothesis holds the target, and changes places with
    another at each step.
    """
    tensors, target_BT, rng = TorchConverter("cpu"), TARGET_BT, np.random.default_rng(1)
    ancestry = AncestryMasks(len(SOURCE_BS), beam, CACHE_GROWTH_POSITIONS)
    with torch.inference_mode():
        memory = TransformerServingEncoder(model)(SOURCE_BS)
        caches = tensors.build_empty_caches(memory[0], CACHE_GROWTH_POSITIONS * beam)
        token_BK, found = torch.zeros(len(SOURCE_BS), beam, dtype=torch.int64), []
        for position in range(target_BT.shape[1]):
            parent_BK = (
                rng.integers(0, beam, (len(SOURCE_BS), beam))
                if position
                else np.zeros((len(SOURCE_BS), beam), np.int64)
            )
            mask_BKM = torch.from_numpy(ancestry.follow_parents(parent_BK, position))[
                :, :, : (position + 1) * beam if seen else None
            ]
            logit_BKV, *new = TransformerServingDecoderStep(model).compute_logits(
                token_BK, torch.tensor([position]), mask_BKM, SOURCE_BS, *memory, *caches
            )
            caches = tensors.update_caches(caches, new, position * beam)
            found.append(logit_BKV)
            token_BK = target_BT[:, position : position + 1].expand(-1, beam)
    return torch.stack(found, dim=2)


@pytest.mark.parametrize("seen", [None, 1])
@pytest.mark.parametrize("beam", [1, 3])
def test_decoding_step_by_step_gives_the_log_probabilities_of_a_full_pass(
    model: TransformerNetwork, beam: int, seen: int | None
) -> None:
    """Cache, positions, masks and parents: wrong in any of them, and the served model is not the
    trained one.
    """
    full_NV = compute_target_logits(model, SOURCE_BS, TARGET_BT).log_softmax(-1)
    for hypothesis in stepwise(model, beam, seen).log_softmax(-1).unbind(1):
        assert torch.allclose(hypothesis[TARGET_BT != 0], full_NV, atol=1e-5)


def test_hypotheses_see_their_own_history_only(model: TransformerNetwork) -> None:
    """Two hypotheses with different beginnings share a cache; after a swap each follows its
    parent's.
    """
    tensors, ancestry = TorchConverter("cpu"), AncestryMasks(1, 2, CACHE_GROWTH_POSITIONS)
    source_1S, begun = SOURCE_BS[1:2], torch.tensor([[5, 9]])
    with torch.inference_mode():
        memory = TransformerServingEncoder(model)(source_1S)
        caches = tensors.build_empty_caches(memory[0], CACHE_GROWTH_POSITIONS * 2)
        for position, (token_BK, parent) in enumerate(
            [(torch.zeros_like(begun), [0, 0]), (begun, [0, 0]), (torch.tensor([[7, 7]]), [1, 0])]
        ):
            mask_BKM = torch.from_numpy(ancestry.follow_parents(np.array([parent]), position))
            logit_BKV, *new = TransformerServingDecoderStep(model).compute_logits(
                token_BK, torch.tensor([position]), mask_BKM, source_1S, *memory, *caches
            )
            caches = tensors.update_caches(caches, new, 2 * position)
    for hypothesis, first in enumerate((9, 5)):
        whole = compute_target_logits(model, source_1S, torch.tensor([[first, 7, 1]]))[2]
        assert torch.allclose(logit_BKV[0, hypothesis], whole, atol=1e-5)


def test_a_step_gives_the_best_continuations_as_log_probabilities(
    model: TransformerNetwork,
) -> None:
    """Twice as many as hypotheses: of those at most half end."""
    ancestry, memory = (
        AncestryMasks(3, 2, CACHE_GROWTH_POSITIONS),
        TransformerServingEncoder(model)(SOURCE_BS),
    )
    mask_BKM = torch.from_numpy(ancestry.follow_parents(np.zeros((3, 2), np.int64), 0))
    given = (torch.zeros(3, 2, dtype=torch.int64), torch.tensor([0]), mask_BKM, SOURCE_BS, *memory)
    caches = TorchConverter("cpu").build_empty_caches(memory[0], CACHE_GROWTH_POSITIONS * 2)
    logp_BKV = (
        TransformerServingDecoderStep(model).compute_logits(*given, *caches)[0].log_softmax(-1)
    )
    score_BKC, token_BKC, *new = TransformerServingDecoderStep(model)(*given, *caches)
    assert token_BKC.shape == (3, 2, 4)
    assert torch.allclose(score_BKC, logp_BKV.gather(2, token_BKC), atol=1e-6)
    assert torch.allclose(score_BKC, logp_BKV.topk(4).values, atol=1e-6)
    assert [tuple(part.shape) for part in new] == [(2, 3, 4, 2, 8)] * 2
    assert not caches[0].any()


def test_a_position_is_written_where_its_slots_are(model: TransformerNetwork) -> None:
    """In place, and nowhere else: a cache that is copied at every step costs more the longer it
    is.
    """
    tensors = TorchConverter("cpu")
    caches = tensors.build_empty_caches(
        TransformerServingEncoder(model)(SOURCE_BS)[0], CACHE_GROWTH_POSITIONS * 2
    )
    new = [torch.full((2, 3, 4, 2, 8), 5.0), torch.full((2, 3, 4, 2, 8), 7.0)]
    key, value = tensors.update_caches(caches, new, 6)
    assert (key.data_ptr(), value.data_ptr()) == (caches[0].data_ptr(), caches[1].data_ptr())
    assert torch.equal(key[:, :, :, 6:8], new[0]) and torch.equal(value[:, :, :, 6:8], new[1])
    assert (key != 0).sum() == new[0].numel() and (value != 0).sum() == new[1].numel()


def test_dropout_is_for_training_alone() -> None:
    """Served or evaluated with dropout, every answer would be another one."""
    torch.manual_seed(1)
    model = TransformerNetwork(SHAPE, 0.3)
    assert not torch.equal(
        compute_target_logits(model, SOURCE_BS, TARGET_BT),
        compute_target_logits(model, SOURCE_BS, TARGET_BT),
    )
    model.eval()
    assert torch.equal(
        compute_target_logits(model, SOURCE_BS, TARGET_BT),
        compute_target_logits(model, SOURCE_BS, TARGET_BT),
    )


@pytest.mark.slow
def test_training_s_pass_is_one_graph(model: TransformerNetwork) -> None:
    """A compiler stops at values that it would have to read: a number of NumPy's, or how many
    tokens a mask leaves.
    """
    every_N = torch.arange(TARGET_BT.numel())
    found = torch._dynamo.explain(model)(SOURCE_BS, TARGET_BT, every_N)
    assert (found.graph_count, found.graph_break_count) == (1, 0), found.break_reasons


def test_start_values_are_the_reference_s() -> None:
    """Glorot for each of query, key and value on its own, width^-0.5 for embeddings, no bias in
    attention.
    """
    torch.manual_seed(1)
    model = TransformerNetwork(
        TransformerShape(layers=1, width=256, filter=512, heads=4, vocabulary=999)
    )
    weights = dict(model.named_parameters())
    assert weights["embedding"].std().item() == pytest.approx(256**-0.5, rel=0.02)
    bound = math.sqrt(6 / (256 + 256))
    assert bound * 0.99 < weights["decoder.0.attention.qkv.weight"].abs().max().item() <= bound
    assert not [
        name
        for name in weights
        if "attention" in name and name.endswith("bias") and "norm" not in name
    ]


@pytest.mark.parametrize(("width", "heads"), [(30, 4), (12, 4), (6, 1)])
def test_sizes_that_do_not_divide_are_refused(width: int, heads: int) -> None:
    """One sentence instead of a shape error deep in a layer; a width of 6 has whole heads, and
    whole waves.
    """
    if (width, heads) == (6, 1):
        TransformerShape(layers=1, width=width, filter=8, heads=heads, vocabulary=9)
        return
    with pytest.raises(RequestError, match=f"model.width {width}"):
        TransformerShape(layers=1, width=width, filter=8, heads=heads, vocabulary=9)
