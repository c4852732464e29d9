"""What the embedded pictures are woven of: three weaves that differ, and nothing else that tells a
figure from its ground.
"""

import math

import numpy as np
import pytest

from workloads.common.pictures import cloth
from workloads.common.pictures.cloth import Cloth, Weave

PERIODS_PX = (10.0, 14.0)
SQUARE_PD = np.array([(10.0, 10.0), (30.0, 10.0), (30.0, 30.0), (10.0, 30.0)])


def plain(weave: Weave, turn: float = 0.0) -> Cloth:
    """A cloth of one period, from black to white."""
    return Cloth(
        weave=weave,
        turn=turn,
        period_px=12.0,
        phase_2=np.zeros(2),
        thread_2C=np.array([[0.0] * 3, [255.0] * 3]),
    )


def test_bars_are_level_and_posts_upright() -> None:
    """Were they swapped or alike, three weaves would be one class."""
    bars_HW, posts_HW, plaid_HW = (plain(weave).compute_light_share((48, 36)) for weave in Weave)
    assert np.ptp(bars_HW, axis=1).max() == 0 and np.ptp(bars_HW, axis=0).min() == 1
    assert np.ptp(posts_HW, axis=0).max() == 0 and np.ptp(posts_HW, axis=1).min() == 1
    assert np.ptp(plaid_HW, axis=0).max() == 1 and np.ptp(plaid_HW, axis=1).max() == 1


def test_a_quarter_turn_makes_bars_of_posts() -> None:
    """The turn is the cloth's, in radians, as the figure's."""
    turned_HW = plain(Weave.POSTS, math.pi / 2).compute_light_share((48, 36))
    assert np.allclose(turned_HW, plain(Weave.BARS).compute_light_share((48, 36)), atol=1e-9)


def test_a_period_is_in_pixels() -> None:
    """Too fine a weave would be gone at 32 px."""
    level_H = plain(Weave.BARS).compute_light_share((120, 1))[:, 0]
    assert np.argmax(np.abs(np.fft.rfft(level_H - level_H.mean()))) == 120 / 12


def test_only_the_outline_is_painted() -> None:
    """Paint beyond it would tell where a figure is."""
    picture_HWC = np.full((40, 40, 3), 77.0)
    cloth.draw_cloth_outline(picture_HWC, SQUARE_PD, plain(Weave.PLAID))
    changed_HW = (picture_HWC != 77.0).any(axis=2)
    assert (
        changed_HW[12:28, 12:28].all() and not changed_HW[:9].any() and not changed_HW[:, 32:].any()
    )


@pytest.mark.parametrize("away", [(-60.0, 0.0), (0.0, 60.0), (1000.0, 1000.0)])
def test_what_lies_outside_changes_nothing(away: tuple[float, float]) -> None:
    """A rag may fall beside the picture."""
    picture_HWC = np.full((40, 40, 3), 77.0)
    cloth.draw_cloth_outline(picture_HWC, SQUARE_PD + away, plain(Weave.BARS))
    assert (picture_HWC == 77.0).all()


def test_figures_and_ground_are_as_light() -> None:
    """Over many pictures neither is the lighter or the more coloured one: brightness and saturation
    tell nothing.
    """
    rng = np.random.default_rng(5)
    grounds = [cloth.generate_cloth_ground((40, 40), PERIODS_PX, 1.0, rng) for _ in range(200)]
    figures = [
        cloth.generate_cloth(Weave.PLAID, cloth.sample_figure_turn(rng), PERIODS_PX, rng).thread_2C
        for _ in range(200)
    ]
    level_G, level_F = (np.array([each.mean() for each in part]) for part in (grounds, figures))
    assert abs(level_G.mean() - level_F.mean()) < 0.2 * level_F.std()
    lighter = np.mean(level_G < level_F)
    assert 0.4 < lighter < 0.6


def test_strength_is_a_share_of_the_contrast() -> None:
    """The same draws with half the strength are half as far apart."""
    full, half = (
        cloth.generate_cloth(
            Weave.BARS, 0.0, PERIODS_PX, np.random.default_rng(3), strength
        ).thread_2C.mean(axis=1)
        for strength in (1.0, 0.5)
    )
    tint = 2 * cloth.MAX_THREAD_TINT
    assert abs((half[1] - half[0]) - (full[1] - full[0]) / 2) < tint
    assert abs(half.mean() - full.mean()) < 1e-9


def test_rags_are_turned_and_woven_as_figures_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """If they slanted as the ground does, the direction of edges alone would cut figures out."""
    laid: list[Cloth] = []
    monkeypatch.setattr(
        cloth, "draw_cloth_outline", lambda picture_HWC, points_PD, worn: laid.append(worn)
    )
    rng = np.random.default_rng(1)
    for _ in range(60):
        cloth.draw_random_rag(np.zeros((40, 40, 3)), (8.0, 21.0), PERIODS_PX, rng)
    assert {worn.weave for worn in laid} == set(Weave)
    assert max(abs(math.degrees(worn.turn)) for worn in laid) <= cloth.MAX_FIGURE_TURN_DEG


def test_a_photograph_is_a_function_of_its_generator() -> None:
    """Light and grain come from it, and from nothing else; the light is uneven."""
    flat_HWC = np.full((40, 40, 3), 128.0)
    first, second = (
        np.asarray(
            cloth.apply_light_and_grain(flat_HWC, np.random.default_rng(9)), dtype=np.float64
        )
        for _ in range(2)
    )
    assert np.array_equal(first, second)
    corners = [
        first[area].mean()
        for area in (np.s_[:10, :10], np.s_[:10, -10:], np.s_[-10:, :10], np.s_[-10:, -10:])
    ]
    assert max(corners) - min(corners) > 20
