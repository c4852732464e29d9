"""How large everything is: as in the benchmarks, and tiny."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The shapes and counts of all items."""

    steps: int
    warm_up: int
    few_steps: int
    """Of what takes long, and of steps that read files."""
    few_warm_up: int
    seconds: float
    """How long a loader is read."""
    matrix: int
    """Rows of the square matrices by which the card's arithmetic is measured."""
    copied_mb: int
    worker_counts: tuple[int, ...]
    """Loader processes; those beyond the cores are left out."""
    many_workers: int
    pictures: int
    """Different JPEGs; each has as many names as `names`, so that an epoch is long."""
    names: int
    picture_extent: tuple[int, int]
    picture_px: int
    classes: int
    spans: tuple[int, ...]
    planned_pictures: int
    """Samples of the planned epoch."""
    scenes: int
    scene_extent: tuple[int, int]
    repeats: int
    """Entries of each scene in the annotations."""
    ssd_configuration: str
    ssd_batch: int
    mask_px: tuple[int, int]
    """Shorter and longer side of Mask R-CNN's images."""
    mask_batches: tuple[int, ...]
    mask_candidates: int
    evaluated: int
    detections: int
    served_batches: tuple[int, ...]
    served_calls: int
    loadgen_batches: tuple[int, ...]
    loadgen_samples: int
    vocabulary: int
    """The Transformer's; its sizes follow."""
    layers: int
    width: int
    filter: int
    heads: int
    sentence: int
    """Tokens of each side of the Transformer's pairs."""
    token_batches: tuple[int, ...]
    recurrent_width: int
    recurrent_layers: int
    recurrent_vocabulary: int
    pair_batches: tuple[tuple[int, int], ...]
    """GNMT's pairs of a step, and the tokens of each side."""
    pair_micro_batch: int
    decoded_batches: tuple[int, ...]
    decoded_tokens: int
    decoded_pairs: int
    """Pairs of translations, ours and theirs in turn."""


FULL: Final = Sizes(
    steps=20,
    warm_up=8,
    few_steps=20,
    few_warm_up=10,
    seconds=2.5,
    matrix=8192,
    copied_mb=1024,
    worker_counts=(1, 4, 8, 12, 15),
    many_workers=14,
    pictures=512,
    names=48,
    picture_extent=(500, 375),
    picture_px=224,
    classes=1000,
    spans=(64, 256),
    planned_pictures=1_281_167,
    scenes=32,
    scene_extent=(640, 480),
    repeats=96,
    ssd_configuration="300",
    ssd_batch=32,
    mask_px=(800, 1333),
    mask_batches=(2, 8),
    mask_candidates=1000,
    evaluated=24,
    detections=100,
    served_batches=(1, 32, 256),
    served_calls=60,
    loadgen_batches=(32, 256),
    loadgen_samples=65_536,
    vocabulary=33_708,
    layers=6,
    width=1024,
    filter=4096,
    heads=16,
    sentence=64,
    token_batches=(4096, 20_480),
    recurrent_width=1024,
    recurrent_layers=4,
    recurrent_vocabulary=32_320,
    pair_batches=((512, 30), (2048, 75)),
    pair_micro_batch=512,
    decoded_batches=(8, 1, 32),
    decoded_tokens=64,
    decoded_pairs=3,
)
TINY: Final = Sizes(
    steps=1,
    warm_up=1,
    few_steps=1,
    few_warm_up=1,
    seconds=0.1,
    matrix=64,
    copied_mb=1,
    worker_counts=(1,),
    many_workers=1,
    pictures=4,
    names=8,
    picture_extent=(40, 30),
    picture_px=32,
    classes=2,
    spans=(2,),
    planned_pictures=1000,
    scenes=2,
    scene_extent=(64, 48),
    repeats=8,
    ssd_configuration="128",
    ssd_batch=2,
    mask_px=(64, 96),
    mask_batches=(2,),
    mask_candidates=20,
    evaluated=2,
    detections=3,
    served_batches=(2,),
    served_calls=2,
    loadgen_batches=(2,),
    loadgen_samples=8,
    vocabulary=40,
    layers=1,
    width=16,
    filter=32,
    heads=2,
    sentence=6,
    token_batches=(24,),
    recurrent_width=16,
    recurrent_layers=2,
    recurrent_vocabulary=40,
    pair_batches=((8, 5),),
    pair_micro_batch=4,
    decoded_batches=(2,),
    decoded_tokens=4,
    decoded_pairs=1,
)
