"""benchmarks/gnugo.py: games with another program's rules, where that is installed."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from workloads.minigo import model
from workloads.minigo.go.area import PassLastEvaluator
from workloads.minigo.go.board import build_board_geometry
from workloads.minigo.go.games import MatchPlayer, PlayerSettings
from workloads.minigo.player import NetworkPlayer

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
DEBIAN_GAMES = "/usr/games"
"""Where Debian installs games, outside of many a PATH."""


@pytest.fixture
def gnugo(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{DEBIAN_GAMES}")
    if shutil.which("gnugo") is None:
        pytest.skip("gnugo is not installed: apt-get install gnugo")
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location("gnugo", BENCHMARKS / "gnugo.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gnugo", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_games_against_gnu_go_are_legal_for_both(gnugo: ModuleType) -> None:
    """Both programs hold to one set of rules, else one would refuse the other's move; colours
    alternate, and an untrained network loses to White.
    """
    torch.manual_seed(1)
    network = model.MiniGoNetwork(
        model.MiniGoDescription(
            workload=model.MINIGO_NAME, board=5, planes=13, filters=4, blocks=1, hidden=8
        )
    ).eval()
    player = MatchPlayer(
        evaluate=PassLastEvaluator(build_board_geometry(5), NetworkPlayer(network)),
        settings=PlayerSettings(readouts=2, soft_moves=4),
    )
    played = gnugo.games(player, 5, 13, count=2, level=1, seed=1)
    assert [game.black for game in played] == [True, False] and played[0].points == 0.0
    assert all(4 < len(game.moves) <= 35 for game in played)
    assert gnugo.summary(played, {"level": 1})["games"] == 2


def test_without_gnu_go_there_is_one_sentence(
    gnugo: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3: it is missing, and how to get it."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "argv", ["gnugo.py", "--checkpoint", "nowhere"])
    assert gnugo.main() == 3
    assert "apt-get install gnugo" in capsys.readouterr().err
