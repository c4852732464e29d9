"""The items of both parts, the most important ones first."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from gpu_shared.workbench import Workbench


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One process of a run."""

    name: str
    parts: str
    limit_s: float
    """When it is ended."""
    code: str
    """Module and function, imported in the item's own process."""

    def load_function(self) -> Callable[[Workbench], None]:
        """Import what measures it."""
        module, _, function = self.code.partition(":")
        found: Callable[[Workbench], None] = getattr(import_module(module), function)
        return found


ITEMS: Final = (
    Item(name="machine", parts="ab", limit_s=20, code="gpu_items.machine:measure_machine"),
    Item(
        name="resnet50-step",
        parts="a",
        limit_s=45,
        code="gpu_items.resnet50:measure_steps_of_resnet50",
    ),
    Item(
        name="resnet50-peer",
        parts="a",
        limit_s=25,
        code="gpu_items.resnet50:measure_reference_loop",
    ),
    Item(name="resnet50-files", parts="a", limit_s=35, code="gpu_items.resnet50:measure_files"),
    Item(
        name="resnet50-files-peer",
        parts="a",
        limit_s=25,
        code="gpu_items.resnet50:measure_peer_files",
    ),
    Item(
        name="maskrcnn-step",
        parts="a",
        limit_s=30,
        code="gpu_items.maskrcnn:measure_steps_of_maskrcnn",
    ),
    Item(
        name="maskrcnn-peer",
        parts="a",
        limit_s=25,
        code="gpu_items.maskrcnn:measure_torchvision_loop",
    ),
    Item(name="ssd-step", parts="a", limit_s=20, code="gpu_items.ssd:measure_steps_of_ssd"),
    Item(name="ssd-files", parts="a", limit_s=20, code="gpu_items.ssd:measure_files"),
    Item(
        name="maskrcnn-evaluation",
        parts="a",
        limit_s=15,
        code="gpu_items.maskrcnn:measure_evaluation",
    ),
    Item(name="maskrcnn-files", parts="a", limit_s=25, code="gpu_items.maskrcnn:measure_files"),
    Item(name="loaders", parts="a", limit_s=45, code="gpu_items.loaders:measure_loaders"),
    Item(
        name="resnet50-compile", parts="a", limit_s=60, code="gpu_items.resnet50:measure_compiled"
    ),
    Item(
        name="resnet50-peer-compile",
        parts="a",
        limit_s=60,
        code="gpu_items.resnet50:measure_peer_compiled",
    ),
    Item(name="ssd-compile", parts="a", limit_s=60, code="gpu_items.ssd:measure_compiled"),
    Item(name="serving", parts="b", limit_s=60, code="gpu_items.serving:measure_predictor"),
    Item(name="serving-peer", parts="b", limit_s=20, code="gpu_items.serving:measure_timm"),
    Item(name="offline", parts="b", limit_s=50, code="gpu_items.serving:measure_offline"),
    Item(
        name="transformer-step",
        parts="b",
        limit_s=25,
        code="gpu_items.translation:measure_transformer",
    ),
    Item(
        name="transformer-peer",
        parts="b",
        limit_s=25,
        code="gpu_items.translation:measure_transformers",
    ),
    Item(name="decoding", parts="b", limit_s=60, code="gpu_items.decoded:measure_decoding"),
    Item(name="gnmt-step", parts="b", limit_s=25, code="gpu_items.translation:measure_gnmt"),
    Item(
        name="serving-peer-compile",
        parts="b",
        limit_s=60,
        code="gpu_items.serving:measure_timm_compiled",
    ),
    Item(
        name="transformer-peer-compile",
        parts="b",
        limit_s=60,
        code="gpu_items.translation:measure_transformers_compiled",
    ),
)


def list_items(part: str, only: tuple[str, ...] = ()) -> tuple[Item, ...]:
    """Return the items of a part in their order; of them, those asked for."""
    return tuple(item for item in ITEMS if part in item.parts and (not only or item.name in only))
