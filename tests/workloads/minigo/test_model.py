"""The network: shapes, fusing, symmetries, files."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from suite.errors import RequestError
from workloads.common import weights
from workloads.minigo import model
from workloads.minigo.go.board import Boards, build_board_geometry, play_actions
from workloads.minigo.player import NetworkPlayer, NotANumberError

TINY = model.MiniGoDescription(
    workload=model.MINIGO_NAME, board=5, planes=13, filters=8, blocks=2, hidden=8
)


def network(seed: int = 0) -> model.MiniGoNetwork:
    torch.manual_seed(seed)
    made = model.MiniGoNetwork(TINY)
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            assert module.running_mean is not None and module.running_var is not None
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    return made.eval()


def test_the_smoke_network_has_the_weights_that_the_page_tells() -> None:
    """37,375 of them."""
    smoke = model.MiniGoNetwork(
        model.MiniGoDescription(
            workload=model.MINIGO_NAME, board=5, planes=13, filters=24, blocks=3, hidden=64
        )
    )
    assert sum(parameter.numel() for parameter in smoke.parameters()) == 37_375


def test_a_fused_network_computes_the_same() -> None:
    """Batch-norm within convolutions rounds differently, no more."""
    one, plane_NFHW = network(), torch.rand(6, 13, 5, 5)
    with torch.inference_mode():
        for mine, other in zip(
            one(plane_NFHW), model.build_fused_network(one)(plane_NFHW), strict=True
        ):
            assert torch.allclose(mine, other, atol=1e-5)
    assert any(isinstance(module, torch.nn.BatchNorm2d) for module in one.modules()), (
        "fusing changed the network that is trained"
    )


def test_a_player_answers_for_the_board_as_it_lies() -> None:
    """Whatever symmetry the network is shown: averaged over many draws, a turned board's policy is
    the turned policy.
    """
    shape, player = build_board_geometry(5), NetworkPlayer(network())
    boards = play_actions(shape, Boards.build_empty(5, 4000), np.full(4000, 7))
    turned = play_actions(
        shape,
        Boards.build_empty(5, 4000),
        np.full(4000, int(np.flatnonzero(shape.symmetry_SP[1] == 7)[0])),
    )
    past = [
        np.concatenate(
            [found.stones_NC[:, None, shape.cell_P], np.zeros((4000, 3, 25), np.int8)], axis=1
        )
        for found in (boards, turned)
    ]
    first, value = player(boards, past[0], np.random.default_rng(0))
    second, _ = player(turned, past[1], np.random.default_rng(1))
    assert np.allclose(
        first.mean(axis=0)[:-1][shape.symmetry_SP[1]], second.mean(axis=0)[:-1], atol=2e-3
    )
    assert np.allclose(first.sum(axis=1), 1, atol=1e-5) and (abs(value) <= 1).all()


def test_a_network_without_numbers_does_not_play() -> None:
    """NaN compares as false everywhere: the search would go on, and nobody would see."""
    broken = network()
    with torch.no_grad():
        broken.value_out.bias.fill_(float("nan"))
    with pytest.raises(NotANumberError, match="has outputs that are not finite"):
        NetworkPlayer(broken)(
            Boards.build_empty(5, 2), np.zeros((2, 4, 25), np.int8), np.random.default_rng(0)
        )


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    """And is refused for another board, by name."""
    made = network()
    weights.write_exported_weights(made, TINY, tmp_path)
    found = model.load_minigo_checkpoint(tmp_path, 5)
    assert all(
        torch.equal(tensor, found.state_dict()[name]) for name, tensor in made.state_dict().items()
    )
    with pytest.raises(RequestError, match="it is for a board of 5 x 5, not 9 x 9"):
        model.load_minigo_checkpoint(tmp_path, 9)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("board", 50),
        ("planes", 14),
        ("filters", 10**9),
        ("blocks", 10**6),
        ("hidden", 0),
        ("filters", 0),
        ("board", -1),
    ],
)
def test_a_description_of_a_network_that_nobody_plays_is_refused(
    tmp_path: Path, key: str, value: int
) -> None:
    """Before memory is taken for it."""
    weights.write_exported_weights(network(), TINY, tmp_path)
    path = tmp_path / weights.DESCRIPTION_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(RequestError, match="does not describe a network of minigo"):
        model.load_minigo_checkpoint(tmp_path)


def test_kernels_and_scales_are_decayed_and_nothing_else() -> None:
    """dual_net.py: l2 on all that is neither beta nor bias."""
    made = network()
    decayed, plain = model.split_minigo_parameters(made)
    names = {id(parameter): name for name, parameter in made.named_parameters()}
    assert all(names[id(parameter)].endswith("weight") for parameter in decayed) and all(
        names[id(parameter)].endswith("bias") for parameter in plain
    )
    assert len(decayed) + len(plain) == len(names)
