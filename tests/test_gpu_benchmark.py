"""benchmarks/gpu.py: it runs everything in tiny shapes, an item that fails or takes too long costs
one line, and what was predicted is what benchmarks/results/gpu-predictions.md says.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
BENCHMARKS = ROOT / "benchmarks"
ABSENT = re.compile("timm is not installed|only a GPU replays graphs|needs a GPU")
ITEMS = """
import os, signal, subprocess, sys, time

def measure(bench):
    bench.tell("good", 12.5, "images/s")

def fail(bench):
    bench.attempt("worse", lambda name: 1 / 0)
    bench.tell("after it", 3.0, "images/s")

def crash(bench):
    bench.tell("before it", 2.0, "images/s")
    raise KeyError("a key\\nin two lines")

def vanish(bench):
    os.kill(os.getpid(), signal.SIGKILL)

def few(bench):
    for number in range(3):
        bench.tell(f"line {number}", 1.0, "images/s")

def many(bench):
    for number in range(20):
        bench.tell(f"line {number}", 1.0, "images/s")

def hang(bench):
    bench.tell("before it", 4.0, "images/s")
    loader = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (bench.out / "loader").write_text(str(loader.pid))
    time.sleep(600)
"""
PROGRAM = """
import sys
from pathlib import Path
import gpu
from gpu_shared.catalogue import Item

if __name__ == "__main__":
    folder, limit, own_limit, *names = sys.argv[1:]
    items = tuple(
        Item(name=name, parts="a", limit_s=float(own_limit), code=f"tried_items:{name}")
        for name in names
    )
    gpu.TINY_LIMIT_S = float(own_limit)
    out = Path(folder) / "out"
    out.mkdir(exist_ok=True)
    asked = gpu.Asked(items=items, limit_s=float(limit), out=out, tiny=True)
    sys.exit(gpu.measure_items(asked, Path(folder)))
"""


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


def build_environment(*folders: Path) -> dict[str, str]:
    path = os.pathsep.join(
        [*map(str, (*folders, BENCHMARKS, ROOT)), os.environ.get("PYTHONPATH", "")]
    )
    # without bytecode: where files are full, Python keeps a part of it and cannot import it again
    return {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }


def start_items(
    folder: Path, limit_s: float, own_limit_s: float, *names: str, prepare: Any = None
) -> Any:
    (folder / "tried_items.py").write_text(ITEMS)
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, folder / "program.py", folder, str(limit_s), str(own_limit_s)]
    return subprocess.Popen(
        [*command, *names],
        env=build_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
    )


def run_script(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, BENCHMARKS / "gpu.py", *arguments],
        env=build_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)  # half a minute of a core to itself for each part
@pytest.mark.parametrize("part", ["a", "b"])
def test_everything_runs_in_tiny_shapes(load: Any, tmp_path: Path, part: str) -> None:
    ran = run_script("--part", part, "--tiny", "--limit", "800", "--out", tmp_path)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    catalogue, lines = load("gpu_shared.catalogue"), load("gpu_shared.lines")
    header = next(row for row in ran.stdout.splitlines() if row.startswith("item "))
    assert tuple(cell.strip() for cell in header.split("|")) == lines.COLUMNS
    assert ran.stdout.rstrip().endswith("tiny shapes: nothing here tells about speed")
    for item in catalogue.list_items(part):
        result = lines.read_item(tmp_path, item.name)
        assert result.complete
        assert result.lines
        for line in result.lines:
            assert line.value is None or line.value > 0, line
            assert line.value is not None or ABSENT.search(line.note), line
            assert line.card


@pytest.mark.slow
def test_an_item_that_fails_is_one_line(tmp_path: Path) -> None:
    started = start_items(tmp_path, 100, 50, "fail", "crash", "vanish", "measure")
    said, complaints = started.communicate(timeout=120)
    assert (started.returncode, complaints) == (1, "")
    assert "Traceback" not in said
    assert "crash: KeyError: 'a key\\nin two lines', 1 lines" in said
    assert "vanish: its process was ended by SIGKILL, 0 lines" in said
    assert "fail, worse: ZeroDivisionError: division by zero" in said
    for row in ("fail    | after it", "crash   | before it", "measure | good"):
        assert row in said
    assert (
        "not measured, or not to the end: crash (KeyError: 'a key\\nin two lines');"
        " vanish (its process was ended by SIGKILL)" in said
    )
    assert "Traceback" in (tmp_path / "out" / "crash.log").read_text()


@pytest.mark.slow
def test_a_limit_names_what_it_cuts_and_ends_loaders(tmp_path: Path) -> None:
    started = start_items(tmp_path, 100, 6, "hang", "measure")
    said, _ = started.communicate(timeout=120)
    assert started.returncode == 1
    assert re.search(r"not to the end: hang \(cut by its limit after \d+ s\)", said)
    assert "hang    | before it" in said
    assert "measure | good" in said
    loader = int((tmp_path / "out" / "loader").read_text())
    assert not Path(f"/proc/{loader}").exists() or is_zombie(loader)


def is_zombie(process: int) -> bool:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_limit_of_all_that_is_too_small_names_all(load: Any, tmp_path: Path) -> None:
    ran = run_script("--part", "b", "--tiny", "--limit", "1", "--out", tmp_path)
    assert ran.returncode == 1
    named = ran.stdout.partition("not measured, or not to the end: ")[2]
    names = [item.name for item in load("gpu_shared.catalogue").list_items("b")]
    assert named.count("s of --limit were left)") == len(names) == 10
    assert all(f"{name} (cut: " in named for name in names)
    assert json.loads((tmp_path / "gnmt-step.json").read_text())["complete"] is False


def wait_for_loader(folder: Path) -> int:
    """Wait until the item that hangs has started its loader."""
    path, deadline = folder / "out" / "loader", time.monotonic() + 100
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return int(path.read_text())


def has_ended(process: int, within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if not Path(f"/proc/{process}").exists() or is_zombie(process):
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_interruption_keeps_what_there_is(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """And ends the item and its loaders, which would keep the GPU."""
    started = start_items(tmp_path, 200, 150, "measure", "hang", "crash")
    loader = wait_for_loader(tmp_path)
    started.send_signal(number)
    said, complaints = started.communicate(timeout=60)
    assert (started.returncode, complaints) == (code, "")
    assert "measure | good" in said
    assert "hang    | before it" in said
    assert "not measured, or not to the end: hang (interrupted); crash (not begun)" in said
    assert has_ended(loader)


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_no_item(tmp_path: Path) -> None:
    started = start_items(tmp_path, 200, 150, "hang")
    loader = wait_for_loader(tmp_path)
    started.kill()
    started.communicate(timeout=60)
    assert has_ended(loader)


@pytest.mark.slow
def test_a_full_disk_keeps_the_table(tmp_path: Path) -> None:
    """Files above this size fail as on a full disk: there is room for three lines, not for a fourth,
    and not for why an item ended.
    """
    start_items(tmp_path, 100, 50, "few").communicate(timeout=120)
    size = (tmp_path / "out" / "few.json").stat().st_size + 12
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))  # noqa: E731
    started = start_items(tmp_path, 100, 50, "measure", "many", prepare=limit)
    said, complaints = started.communicate(timeout=120)
    assert (started.returncode, complaints) == (1, "")
    assert "measure | good" in said
    assert "many    | line 0" in said
    assert re.search(r"many \(its process ended with code 1; \S+many.json cannot be", said)


def test_a_predictor_that_fails_is_no_rate(load: Any) -> None:
    """One that stops early would look fast, and one that fails at first would stop all."""
    serving = load("gpu_items.serving")
    calls = list[int]()

    def fail_late(samples: Any) -> Any:
        calls.append(1)
        if len(calls) > serving.WARM_UP_CALLS + 2:
            raise MemoryError("no room")

    def fail_at_once(samples: Any) -> Any:
        raise MemoryError("no room")

    for predictors in ([fail_late], [fail_at_once], [lambda samples: None, fail_at_once]):
        with pytest.raises(MemoryError, match="no room"):
            serving.answer_batches(predictors, [[0]] * 100)
    seconds, times = serving.answer_batches([lambda samples: time.sleep(0.001)] * 2, [[0]] * 20)
    assert len(times) == 40
    assert seconds >= 0.02


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    ran = run_script("--part", "a", "--only", "machine", "--out", tmp_path)
    assert ran.returncode == 1
    assert "this machine has no GPU that PyTorch can use; --tiny runs on a CPU" in ran.stdout


@pytest.mark.parametrize(
    "options",
    [
        ("--part", "c"),
        ("--part", "a", "--limit", "0"),
        ("--part", "a", "--limit", "nan"),
        ("--part", "a", "--only", "decoding"),
        ("--part", "a", "--only", "unknown"),
    ],
)
def test_a_wrong_command_has_code_2(tmp_path: Path, options: tuple[str, ...]) -> None:
    ran = run_script(*options, "--out", tmp_path / "out")
    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("value", "hit", "of_floor"),
    [(1650.0, "below", 0.2), (2500.0, "yes", 0.30), (4e3, "above", 0.48)],
)
def test_a_value_stands_beside_its_prediction(
    load: Any, value: float, hit: str, of_floor: float
) -> None:
    lines, predictions = load("gpu_shared.lines"), load("gpu_shared.predictions")
    ceilings = predictions.Ceilings(flop_per_s=790e12, bytes_per_s=3.8e12)
    line = lines.build_line(
        "resnet50-step", "64 eager", "H100", value, "images/s", ceilings=ceilings, waits=2
    )
    assert (line.hit, line.predicted) == (hit, (2300, 2900))
    assert line.of_floor == pytest.approx(of_floor, abs=0.005)
    assert line.format_cells()[5:] == ("2,300-2,900", hit, f"{of_floor:.2f}", "2")


def test_ceilings_are_those_of_the_card(load: Any) -> None:
    predictions = load("gpu_shared.predictions")
    found = predictions.Ceilings.take_measured({"bf16 matrix product": 700.0})
    assert (found.flop_per_s, found.bytes_per_s) == (700e12, 3.0e12)


def test_values_of_another_card_are_not_taken(load: Any, tmp_path: Path) -> None:
    """A folder may hold an earlier run's files."""
    workbench = load("gpu_shared.workbench")

    def build_bench(item: str, card: str) -> Any:
        return workbench.Workbench(
            item=item, device="cuda", tiny=False, data=tmp_path, out=tmp_path, card=card
        )

    build_bench("machine", "H200").tell("bf16 matrix product", 700.0, "TFLOP/s")
    assert build_bench("serving", "H200").read_ceilings().flop_per_s == 700e12
    assert build_bench("serving", "H100").read_ceilings().flop_per_s == 790e12


def test_waits_are_the_warnings_of_one_step(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    timing, modes = load("gpu_shared.timing"), list[str]()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)

    def take_steps() -> Iterator[int]:
        for _ in range(3):
            warnings.warn("called a synchronizing CUDA operation", stacklevel=1)
        warnings.warn("something else", stacklevel=1)
        yield 1

    assert timing.count_waits(take_steps()) == 3
    assert modes == ["warn", "default"]


def test_steps_are_counted_after_the_warm_up(load: Any) -> None:
    timing, taken = load("gpu_shared.timing"), list[int]()

    def take_steps() -> Iterator[int]:
        for number in range(100):
            taken.append(number)
            time.sleep(0.002)
            yield 6

    times = timing.measure_steps(take_steps(), "cpu")
    assert (len(taken), times.steps, times.waits) == (28, 20, None)
    assert 0 < times.rate < 3000


def test_goals_need_both_sides(load: Any) -> None:
    goals, lines = load("gpu_shared.goals"), load("gpu_shared.lines")

    def build_result(item: str, **values: float) -> Any:
        return lines.ItemResult(
            item=item,
            complete=True,
            problem="",
            seconds=1.0,
            lines=tuple(
                lines.build_line(item, name, "H100", value, "images/s", ceilings=None)
                for name, value in values.items()
            ),
        )

    ours = build_result("maskrcnn-step", **{"2": 70.0, "8": 120.0})
    assert goals.compare_with_goals([ours]) == []
    (found,) = goals.compare_with_goals([ours, build_result("maskrcnn-peer", **{"8": 60.0})])
    assert (found.value, found.met) == (2.0, True)


def test_docs_have_the_same_predictions(load: Any) -> None:
    predictions = load("gpu_shared.predictions")
    text = (ROOT / "benchmarks" / "results" / "gpu-predictions.md").read_text()
    row = re.compile(r"^\| `([\w-]+)` \| ([^|]+?) \| ([\d.,]+) to ([\d.,]+) \|", re.MULTILINE)
    told = {
        (item, variant): tuple(float(number.replace(",", "")) for number in numbers)
        for item, variant, *numbers in row.findall(text)
    }
    assert told == predictions.PREDICTIONS
    floors = re.findall(r"^\| [^|]+ \| ([\d.,]+) GFLOP \| ([\d.,]+) MB \|", text, re.MULTILINE)
    assert {
        (round(float(flop.replace(",", "")) * 1e9), round(float(size.replace(",", "")) * 1e6))
        for flop, size in floors
    } == {(round(floor.flop), round(floor.bytes)) for floor in predictions.FLOORS.values()}


def test_every_prediction_and_floor_belongs_to_an_item(load: Any) -> None:
    catalogue: ModuleType = load("gpu_shared.catalogue")
    predictions = load("gpu_shared.predictions")
    names = {item.name for item in catalogue.ITEMS}
    assert {item for item, _ in predictions.PREDICTIONS} | set(predictions.FLOORS) <= names
    assert len(names) == len(catalogue.ITEMS)
