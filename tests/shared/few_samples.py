"""Embedded data of a few samples: drawing all of them takes half a minute, and few tests look at
more than one.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from workloads.common.text import synthetic_language
from workloads.maskrcnn import data as maskrcnn
from workloads.resnet50.images import embedded
from workloads.ssd import data as ssd


def draw_few(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Let every workload draw a few samples of each class or language, in a cache of their own."""
    few = {"train": 8, "val": 2}
    monkeypatch.setattr(embedded, "EMBEDDED_IMAGES_PER_CLASS", {"train": 2, "val": 1})
    monkeypatch.setattr(ssd, "SSD_SCENES", replace(ssd.SSD_SCENES, pictures=few))
    monkeypatch.setattr(
        maskrcnn, "MASKRCNN_SCENES", replace(maskrcnn.MASKRCNN_SCENES, pictures=few)
    )
    for name in ("NEAR_LANGUAGE", "FAR_LANGUAGE"):
        monkeypatch.setattr(
            synthetic_language, name, replace(getattr(synthetic_language, name), train=60, test=6)
        )
    monkeypatch.setenv("PODIUM_CACHE", str(cache))
