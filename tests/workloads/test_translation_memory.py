"""benchmarks/translation.py: the steps of `full` that it counts fit a GPU, and the plans that it
times are the same.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
GPU_GB = 80.0


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    spec = importlib.util.spec_from_file_location(
        "translation_benchmark", BENCHMARKS / "translation.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_that_exists_at_once_is_counted(benchmark: ModuleType) -> None:
    """Not what was freed before, and a view of a tensor not twice."""
    with FakeTensorMode(), benchmark.PeakMemory() as memory:
        kept = torch.empty(1000)
        freed = torch.empty(3000)
        del freed
        view, more = kept[:10], torch.empty(500)
        assert memory.bytes == 4 * 1500 and memory.peak == 4 * 4000
        del view, more
        assert memory.bytes == 4 * 1000


@pytest.mark.slow
def test_full_fits_a_gpu(benchmark: ModuleType) -> None:
    """With room for what the count does not see; before, two of the four steps did not."""
    rows = benchmark.count_full_steps()
    assert [row.before > GPU_GB for row in rows] == [False, True, False, True]
    assert all(row.after < min(row.before, GPU_GB / 2) for row in rows)


@pytest.mark.slow
def test_plans_of_arrays_are_those_of_objects(benchmark: ModuleType) -> None:
    """Each step has the same target tokens, so that the times compare one piece of work."""
    recipe = benchmark.TransformerRecipe.build_from_settings(
        benchmark.resolve_full_settings("transformer")
    )
    pairs = benchmark.invent_pairs(20_000, recipe.max_sentence_tokens)
    assert benchmark.plan_with_objects(pairs, recipe) == benchmark.plan_with_arrays(pairs, recipe)
