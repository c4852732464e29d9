"""What was predicted for an H100 or H200 before anything ran there, and the least work of a sample.

benchmarks/results/gpu-predictions.md has the same table, with how each range was worked out; a test
holds both together. A prediction is no measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What a card can do."""

    flop_per_s: float
    bytes_per_s: float

    @classmethod
    def take_measured(cls, measured: Mapping[str, float]) -> "Ceilings":
        """Take what the item `machine` measured, else what an H100 was measured to do."""
        return cls(
            flop_per_s=(measured.get("bf16 matrix product") or 790.0) * 1e12,
            bytes_per_s=(measured.get("copy on the device") or 3.0) * 1e12,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The work of one sample in eager form, each operator reading and writing once."""

    flop: float
    bytes: float

    def compute_rate(self, ceilings: Ceilings) -> float:
        """Return the samples per second at which the scarcer of both is busy throughout."""
        return 1 / max(self.flop / ceilings.flop_per_s, self.bytes / ceilings.bytes_per_s)


RESNET50_STEP: Final = Floor(flop=24.3e9, bytes=460e6)
SSD_STEP: Final = Floor(flop=94.8e9, bytes=425e6)
MASKRCNN_STEP: Final = Floor(flop=0.92e12, bytes=4.5e9)
TRANSFORMER_TOKEN: Final = Floor(flop=1.27e9, bytes=12.9e6)
GNMT_TOKEN: Final = Floor(flop=0.31e9, bytes=4.0e6)
RESNET50_ANSWER: Final = Floor(flop=8.2e9, bytes=145e6)

FLOORS: Final[Mapping[str, Floor]] = {
    **dict.fromkeys(
        (
            "resnet50-step",
            "resnet50-compile",
            "resnet50-peer",
            "resnet50-peer-compile",
            "resnet50-files",
            "resnet50-files-peer",
        ),
        RESNET50_STEP,
    ),
    **dict.fromkeys(("ssd-step", "ssd-compile", "ssd-files"), SSD_STEP),
    **dict.fromkeys(("maskrcnn-step", "maskrcnn-peer", "maskrcnn-files"), MASKRCNN_STEP),
    **dict.fromkeys(
        ("transformer-step", "transformer-peer", "transformer-peer-compile"),
        TRANSFORMER_TOKEN,
    ),
    "gnmt-step": GNMT_TOKEN,
    **dict.fromkeys(
        ("serving", "serving-peer", "serving-peer-compile", "offline"), RESNET50_ANSWER
    ),
}
PREDICTIONS: Final[Mapping[tuple[str, str], tuple[float, float]]] = {
    ("resnet50-step", "64 eager"): (2300, 2900),
    ("resnet50-step", "64 graphs"): (2700, 3200),
    ("resnet50-step", "256 eager"): (2500, 3000),
    ("resnet50-compile", "256"): (3000, 3700),
    ("resnet50-files", "1 workers"): (260, 320),
    ("resnet50-files", "14 workers"): (2300, 2900),
    ("loaders", "resnet50, 1 workers"): (260, 320),
    ("loaders", "resnet50, 15 workers"): (3600, 4500),
    ("ssd-step", "32 eager"): (1800, 2300),
    ("ssd-step", "32 graphs"): (2300, 2800),
    ("ssd-compile", "32"): (2300, 2800),
    ("ssd-files", "14 workers"): (1800, 2300),
    ("maskrcnn-step", "2"): (60, 75),
    ("maskrcnn-step", "8"): (90, 130),
    ("serving", "1 graphs"): (710, 1000),
    ("serving", "32 eager"): (5500, 6500),
    ("serving", "32 graphs"): (15_000, 18_000),
    ("serving", "256 eager"): (12_000, 13_000),
    ("serving", "256 folded"): (16_000, 17_000),
    ("serving", "256 bytes"): (19_000, 20_000),
    ("serving", "256 streams"): (22_000, 24_000),
    ("transformer-step", "4096 tokens"): (115_000, 145_000),
    ("gnmt-step", "2048 x 75"): (700_000, 900_000),
    ("decoding", "8 ratio, ours"): (2.0, 2.5),
}
"""Item and variant -> lowest and highest value."""
