"""The records of podium's workloads and bare networks: each part is there, and the judge needs no
framework for its own.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pkgutil import resolve_name

import pytest

from suite import plugins, registry
from suite.workload import Workload

FRAMEWORKS = {"torch", "torchvision", "tensorflow", "onnx", "onnxruntime", "tensorrt"}
JUDGED = ("score", "agree", "hyperparameters", "examples", "episode")


def list_own(group: str) -> list[str]:
    points = registry.map_entry_points(group).items()
    return [name for name, point in points if plugins.is_own_entry_point(point)]


def collect_targets(record: Workload) -> Iterator[tuple[str, str]]:
    """Yield each target of a record with the framework that it needs."""
    for each in fields(record):
        value = getattr(record, each.name)
        if isinstance(value, str) and each.name != "name":
            yield "torch", value
        if isinstance(value, Mapping) and each.name != "served_by":
            yield from value.items()


@pytest.mark.parametrize("name", list_own(registry.WORKLOAD_GROUP))
def test_each_part_is_there(name: str) -> None:
    """A typo in a record would show when the part is used, at the end of a training."""
    record = registry.load_workload(name)
    assert record.name == name and record.frameworks
    for framework, target in collect_targets(record):
        if find_spec(framework) is not None:
            assert callable(resolve_name(target)), target
    for framework, modules in record.served_by.items():
        assert framework in record.frameworks and [import_module(module) for module in modules]


def test_the_judge_s_parts_need_no_framework() -> None:
    """It runs where none is installed; a bare network's scorer is read from its record alone."""
    code = (
        "import sys\nfrom pkgutil import resolve_name\nfrom suite import registry\n"
        f"for name in {list_own(registry.WORKLOAD_GROUP)}:\n"
        "    record = registry.load_workload(name)\n"
        f"    [resolve_name(getattr(record, part)) for part in {JUDGED} if getattr(record, part)]\n"
        f"[registry.load_scorer(name) for name in {list_own(registry.NETWORK_GROUP)}]\n"
        f"assert not {FRAMEWORKS} & sys.modules.keys(), {FRAMEWORKS} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
