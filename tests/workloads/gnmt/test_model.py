"""The network: attention, loss and optimizer step against float64 by hand; serving's step against
training's pass.
"""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from suite.errors import RequestError
from workloads.common import weights
from workloads.common.optimisation import recomputation
from workloads.gnmt import model
from workloads.gnmt.recipe import GNMT_ADAM_BETAS, GNMT_ADAM_EPSILON

WIDTH, LAYERS, VOCABULARY, SEED = 6, 4, 13, 3
SOURCE_NS = torch.tensor([[2, 5, 7, 9, 3], [2, 8, 3, 0, 0], [2, 4, 6, 3, 0]])
LENGTH_N = torch.tensor([5, 3, 4])
TARGET_NT = torch.tensor([[2, 6, 4, 3], [2, 9, 3, 0], [2, 5, 8, 3]])


@pytest.fixture
def network() -> model.GNMTNetwork:
    made = model.build_seeded_gnmt(SEED, VOCABULARY, WIDTH, LAYERS, 0.0).eval()
    with torch.no_grad():  # so that nothing is near 0, where mistakes do not show
        for parameter in made.parameters():
            parameter.mul_(6).add_(0.1)
    return made


def compute_batch_loss(network: model.GNMTNetwork) -> torch.Tensor:
    """The loss of the module's sentences."""
    state_NTH = network(SOURCE_NS, LENGTH_N, TARGET_NT[:, :-1])
    return model.compute_sentence_losses(network, state_NTH, TARGET_NT[:, 1:], 0.1).sum()


def compute_gradients(
    network: model.GNMTNetwork, *, autocast: bool = False
) -> dict[str, torch.Tensor]:
    """The gradients of that loss, by the weights' names."""
    network.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = compute_batch_loss(network)
    loss.backward()  # type: ignore[no-untyped-call]
    return {
        name: value.grad.clone()
        for name, value in network.named_parameters()
        if value.grad is not None
    }


@pytest.mark.parametrize("autocast", [False, True])
def test_scores_computed_again_have_the_same_gradients(
    network: model.GNMTNetwork, autocast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training a large sum of queries and keys is not kept but computed again: to the bit."""
    calls: list[int] = []
    compute = model.compute_attention_scores

    def count_calls(*inputs: torch.Tensor) -> torch.Tensor:
        calls.append(len(inputs))
        return compute(*inputs)

    monkeypatch.setattr(model, "compute_attention_scores", count_calls)
    kept = compute_gradients(network.train(), autocast=autocast)
    assert len(calls) == 1
    monkeypatch.setattr(recomputation, "LARGEST_KEPT_BYTES", 3 * 3 * 5 * WIDTH * 4 - 1)
    again = compute_gradients(network, autocast=autocast)
    assert len(calls) == 3
    assert len(kept) == len(again) > 20 and kept["decoder.attention.bias"].any()
    assert all(torch.equal(again[name], gradient) for name, gradient in kept.items())


@pytest.mark.parametrize("autocast", [False, True])
def test_chunks_of_logits_have_the_gradients_of_all(
    network: model.GNMTNetwork, autocast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rows at a time, and the classifier's gradients added up."""
    whole = compute_gradients(network, autocast=autocast)
    monkeypatch.setattr(recomputation, "LARGEST_KEPT_BYTES", 2 * VOCABULARY * 4)
    chunked = compute_gradients(network, autocast=autocast)
    for name, gradient in whole.items():
        # sums in another order: in fp32, 5e-6 of the largest on one of two processors
        rounding = (1e-2 if autocast else 2e-5) * float(gradient.abs().max())
        assert torch.allclose(chunked[name], gradient, rtol=1e-5, atol=rounding), name


def test_a_processor_without_an_lstm_in_bf16_computes_it_in_fp32(
    network: model.GNMTNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """oneDNN's LSTM in bf16 needs AVX-512, and raises an error without it."""
    layer, input_NTH = network.encoder.onward, torch.randn(2, 3, WIDTH)
    expected, _ = layer(input_NTH)
    monkeypatch.setattr(model, "has_cpu_lstm", lambda dtype: False)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model.run_lstm_layer(layer, input_NTH), expected)


def test_the_bias_is_in_the_keys(network: model.GNMTNetwork) -> None:
    """In bf16 too: an fp32 bias would widen the largest tensor of a step."""
    attention, memory_NSH = network.decoder.attention, torch.randn(2, 5, WIDTH)
    expected = memory_NSH @ attention.key.weight.T + attention.bias
    assert torch.allclose(attention.compute_keys(memory_NSH), expected, atol=1e-6)
    with torch.autocast("cpu", torch.bfloat16):
        assert attention.compute_keys(memory_NSH).dtype is torch.bfloat16


def test_attention_by_hand(network: model.GNMTNetwork) -> None:
    """score = g v/|v| tanh(W q + U k + b), a softmax over the known positions, and the memory
    weighed by it.
    """
    attention = network.decoder.attention
    rng = np.random.default_rng(1)
    query_TH, memory_SH = rng.normal(size=(2, WIDTH)), rng.normal(size=(4, WIDTH))
    w_HH, u_HH, v_H, g, b_H = (
        part.detach().double().numpy()
        for part in (
            attention.query.weight,
            attention.key.weight,
            attention.direction,
            attention.scale,
            attention.bias,
        )
    )
    memory_NSH = torch.tensor(memory_SH, dtype=torch.float32)[None]
    known_NS = torch.tensor([[True, True, True, False]])
    context_NTH, share_NTS = attention(
        torch.tensor(query_TH, dtype=torch.float32)[None],
        memory_NSH,
        attention.compute_keys(memory_NSH),
        known_NS,
    )
    for place, query_H in enumerate(query_TH):
        score_S = [
            g[0] * v_H / math.sqrt(sum(v_H**2)) @ np.tanh(w_HH @ query_H + u_HH @ key_H + b_H)
            for key_H in memory_SH[:3]
        ]
        share_S = np.exp(score_S) / sum(np.exp(score_S))
        assert np.allclose(share_NTS[0, place].detach().numpy(), [*share_S, 0.0], atol=1e-6)
        assert np.allclose(
            context_NTH[0, place].detach().numpy(), share_S @ memory_SH[:3], atol=1e-6
        )


def test_loss_by_hand() -> None:
    """(1 - s) of the label's cross-entropy and s of the mean over the vocabulary, summed over
    tokens that are no padding.
    """
    logit_NTV, label_NT, smoothing = (
        torch.randn(3, 3, VOCABULARY, generator=torch.Generator().manual_seed(1)),
        TARGET_NT[:, 1:],
        0.1,
    )
    found = (
        model.compute_padded_losses(logit_NTV.flatten(0, 1), label_NT.flatten(), smoothing)
        .view_as(label_NT)
        .sum(1)
        .tolist()
    )
    for sentence, labels in enumerate(label_NT.tolist()):
        expected = 0.0
        for logit_V, label in zip(logit_NTV[sentence].double().numpy(), labels, strict=True):
            logp_V = logit_V - np.log(np.exp(logit_V).sum())
            expected -= (
                ((1 - smoothing) * logp_V[label] + smoothing * logp_V.mean()) if label else 0.0
            )
        assert found[sentence] == pytest.approx(expected, rel=1e-6)


@pytest.mark.slow
def test_one_adam_step_by_hand(network: model.GNMTNetwork) -> None:
    """Gradients clipped by their common norm, then Kingma and Ba's first step."""
    rate, clip = 2e-3, 0.5
    optimizer = torch.optim.Adam(
        network.parameters(), lr=rate, betas=GNMT_ADAM_BETAS, eps=GNMT_ADAM_EPSILON
    )
    compute_batch_loss(network).backward()  # type: ignore[no-untyped-call]
    before = [parameter.detach().double().numpy().copy() for parameter in network.parameters()]
    gradients = [
        parameter.grad.double().numpy().copy()
        for parameter in network.parameters()
        if parameter.grad is not None
    ]
    assert len(gradients) == len(before)
    norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients))
    assert norm > clip
    nn.utils.clip_grad_norm_(network.parameters(), clip)
    optimizer.step()
    for parameter, old, gradient in zip(network.parameters(), before, gradients, strict=True):
        clipped = gradient * clip / (norm + 1e-6)
        first, second = (
            (1 - GNMT_ADAM_BETAS[0]) * clipped / (1 - GNMT_ADAM_BETAS[0]),
            (1 - GNMT_ADAM_BETAS[1]) * clipped**2 / (1 - GNMT_ADAM_BETAS[1]),
        )
        assert np.allclose(
            parameter.detach().numpy(),
            old - rate * first / (np.sqrt(second) + GNMT_ADAM_EPSILON),
            atol=2e-6,
        )


@pytest.mark.slow
def test_the_first_layer_reads_both_ways(network: model.GNMTNetwork) -> None:
    """As torch's own bidirectional layer does over packed sentences; the mirror must not take
    padding for the last word.
    """
    encoder = network.encoder
    both = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    both.load_state_dict(
        {name: getattr(encoder.onward, name) for name in names}
        | {f"{name}_reverse": getattr(encoder.backward_, name) for name in names}
    )
    embedded_NSH = network.embedding(SOURCE_NS)
    packed = nn.utils.rnn.pack_padded_sequence(
        embedded_NSH, LENGTH_N, batch_first=True, enforce_sorted=False
    )
    expected, _ = nn.utils.rnn.pad_packed_sequence(both(packed)[0], batch_first=True)
    second, _ = encoder.layers[0](expected)
    third = encoder.layers[1](second)[0] + second
    fourth = encoder.layers[2](third)[0] + third
    found = encoder(embedded_NSH, LENGTH_N)
    for sentence, length in enumerate(LENGTH_N.tolist()):
        assert torch.allclose(found[sentence, :length], fourth[sentence, :length], atol=1e-5)


def test_padding_changes_nothing(network: model.GNMTNetwork) -> None:
    """A sentence among longer ones has the logits that it has alone."""
    together = network.compute_output_logits(network(SOURCE_NS, LENGTH_N, TARGET_NT))
    alone = network.compute_output_logits(
        network(SOURCE_NS[1:2, :3], LENGTH_N[1:2], TARGET_NT[1:2, :3])
    )
    assert torch.allclose(together[1, :3], alone[0], atol=1e-5)


def test_step_by_step_is_the_whole_pass(network: model.GNMTNetwork) -> None:
    """What is served is what was trained: each step's logits, with both beams of a sentence
    alike.
    """
    reader, writer = model.GNMTServingEncoder(network), model.GNMTServingDecoderStep(network)
    whole_NTV = network.compute_output_logits(network(SOURCE_NS, LENGTH_N, TARGET_NT))
    memory_NSH, key_NSH = reader(SOURCE_NS, LENGTH_N)
    state = (torch.zeros(6, LAYERS, WIDTH), torch.zeros(6, LAYERS, WIDTH))
    for place in range(TARGET_NT.shape[1]):
        token_NK = TARGET_NT[:, place, None].expand(3, 2)
        logit_NKV, share_NKS, *state = writer(token_NK, *state, memory_NSH, key_NSH, SOURCE_NS != 0)
        assert torch.allclose(logit_NKV, whole_NTV[:, place, None].expand_as(logit_NKV), atol=1e-5)
        assert torch.allclose(share_NKS.sum(-1), torch.ones(3, 2))


def test_the_start() -> None:
    """Weights, the classifier's bias and the LSTM layers' input biases uniform on (-0.1, 0.1), the
    other biases 0, attention's scale 1/sqrt(width).

    T, rnn_translator: utils.py, init_lstm_; decoder.py, Classifier; attention.py. The same for a
    seed, whatever was drawn before.
    """
    torch.rand(7)
    made, again = (model.build_seeded_gnmt(5, 400, 32, LAYERS, 0.2) for _ in range(2))
    assert all(
        torch.equal(first, second)
        for first, second in zip(made.parameters(), again.parameters(), strict=True)
    )
    zero = {name for name, parameter in made.state_dict().items() if not parameter.any()}
    assert (
        zero
        == {name for name in made.state_dict() if name.endswith("bias_hh_l0")}
        | {"decoder.attention.bias"}
        and len(zero) == 2 * LAYERS + 2
    )
    for name, parameter in made.state_dict().items():
        if name not in zero and not name.endswith("scale"):
            value = parameter.double()
            assert 0.09 < float(value.abs().max()) <= 0.1 and abs(float(value.mean())) < 0.02
            assert float(value.std()) == pytest.approx(
                0.2 / 12**0.5, abs=0.3 * value.numel() ** -0.5
            )
    assert float(made.decoder.attention.scale.detach()) == pytest.approx(32**-0.5)


@pytest.mark.slow
def test_dropout_is_for_training_alone() -> None:
    made = model.build_seeded_gnmt(5, VOCABULARY, WIDTH, LAYERS, 0.5)
    first, second = (made.train()(SOURCE_NS, LENGTH_N, TARGET_NT) for _ in range(2))
    assert not torch.equal(first, second)
    first, second = (made.eval()(SOURCE_NS, LENGTH_N, TARGET_NT) for _ in range(2))
    assert torch.equal(first, second)


def export(folder: Path, **changes: object) -> Path:
    table = {
        "workload": "gnmt",
        "framework": "torch",
        "width": WIDTH,
        "layers": LAYERS,
        "vocabulary": VOCABULARY,
    }
    table |= {"vocabulary_sha256": "ab", "max_answer_length": 9}
    weights.write_exported_weights(
        model.build_seeded_gnmt(1, VOCABULARY, WIDTH, LAYERS, 0.0),
        model.GNMTDescription(**{**table, **changes}),
        folder,
    )  # type: ignore[arg-type]
    return folder


def test_what_is_exported_is_loaded(tmp_path: Path) -> None:
    loaded, description = model.load_gnmt_checkpoint(export(tmp_path))
    made = model.build_seeded_gnmt(1, VOCABULARY, WIDTH, LAYERS, 0.0)
    assert not loaded.training and description.vocabulary_sha256 == "ab"
    assert all(
        torch.equal(first, second)
        for first, second in zip(loaded.parameters(), made.parameters(), strict=True)
    )


def test_a_checkpoint_of_another_framework_is_refused(tmp_path: Path) -> None:
    """Its weights may have other names, shapes and orders of gates."""
    with pytest.raises(RequestError, match="framework is tensorflow, but gnmt supports only torch"):
        model.load_gnmt_checkpoint(export(tmp_path, framework="tensorflow"))


def test_a_checkpoint_of_another_workload_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="workload is transformer, not gnmt"):
        model.load_gnmt_checkpoint(export(tmp_path, workload="transformer"))


def test_weights_of_another_size_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="does not fit gnmt"):
        model.load_gnmt_checkpoint(export(tmp_path, width=WIDTH + 1))


@pytest.mark.slow
def test_full_size() -> None:
    """One training step and one step of decoding as MLPerf has the model: width 1024, WMT16's
    vocabulary.
    """
    network = model.build_seeded_gnmt(1, 32_320, 1024, LAYERS, 0.2).train()
    assert sum(parameter.numel() for parameter in network.parameters()) == pytest.approx(
        160e6, rel=0.05
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = compute_batch_loss(network)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[1] < losses[0]
    reader, writer = model.GNMTServingEncoder(network.eval()), model.GNMTServingDecoderStep(network)
    with torch.inference_mode():
        state = torch.zeros(30, LAYERS, 1024)
        logit_NKV, *_ = writer(
            torch.full((3, 10), 2), state, state, *reader(SOURCE_NS, LENGTH_N), SOURCE_NS != 0
        )
    assert logit_NKV.shape == (3, 10, 32_320)
