"""Every network that podium hands to TensorRT, parsed and built by a real TensorRT for RTX for GPUs
that are not here.
"""

from pathlib import Path

import pytest
from tensorrt_builds import build_workload, list_unnamed, read_table

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "workload", ["resnet50", "ssd", "maskrcnn", "minigo", "gnmt", "transformer"]
)
def test_each_build_ends_as_the_documentation_says(workload: str, tmp_path: Path) -> None:
    """A network of which the parser or the builder refuses a node would be found out on somebody's
    T4 first.
    """
    outcome = build_workload(workload, tmp_path)
    assert outcome.ends == read_table()[f"`{workload}`, `smoke`"], outcome.reasons
    assert list(list_unnamed(outcome)) == []
    built = outcome.builder.engines
    assert {each.file for each in built} == {path.name for path in tmp_path.glob("*.engine")}
    assert all(each.weights_bytes and each.activation_bytes and each.layers > 5 for each in built)
