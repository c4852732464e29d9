"""`podium run ssd --profile full` over other data than COCO 2017, and what else it refuses, before
anything is trained.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from podium_fakes.drive import options

from submissions.campaign.run import run_campaigns
from suite.errors import RequestError
from suite.rounds import Profile
from workloads.common.detection import synthetic_scenes
from workloads.ssd import data, model

WEIGHTS = "model.start_weights=resnet34-333f7ec4.pth"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (
            (WEIGHTS,),
            (
                "train_samples [0-9], and profile full requires 117266; eval_samples 5, and profile"
                " full requires 5000: in the closed division"
            ),
        ),
        ((WEIGHTS, "model.configuration=1200"), "model.configuration is '1200'; it must be 300"),
        (
            ("model.start_weights=random",),
            "model.start_weights is 'random'; it must be anything but 'random'",
        ),
        ((WEIGHTS, "data.skip_broken=true"), "data.skip_broken is True; it must be False"),
    ],
)
def test_a_campaign_that_cannot_count_is_refused_before_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, assignments: tuple[str, ...], words: str
) -> None:
    """Five runs of days, and then a serving that is refused: nothing is written but the folder."""
    coco = synthetic_scenes.prepare_scene_folder(
        tmp_path / "coco", replace(data.SSD_SCENES, pictures={"train": 9, "val": 5})
    )
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(
        model, "load_resnet34_weights", lambda network, path: None
    )  # the file is the user's
    asked = options(
        tmp_path / "results",
        *assignments,
        profile=Profile.FULL,
        data=coco,
        framework="torch",
        engine="torch",
    )
    with pytest.raises(RequestError, match=words) as caught:
        run_campaigns("ssd", asked, seed=1, runs=None)
    assert caught.value.exit_code == 2
    assert not [
        path
        for path in (tmp_path / "results").rglob("*")
        if path.name.startswith(("result_", "step_"))
    ]
