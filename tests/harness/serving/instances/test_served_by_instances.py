"""Real LoadGen runs over instances: answers are those of one process, and an instance that ends
takes the run with it.
"""

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from podium_fakes.drive import until
from podium_fakes.served import Served, content, job

from harness.machine.placement import InstancePlacement
from harness.serving.instances.instance import Instance
from harness.serving.loadgen.session import LoadGenJob, LoadGenOutcome, run_loadgen_in_child
from suite.errors import JudgedError
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario
from suite.process import garbage
from suite.process.names import TEMPLATE_PROCESS_NAME
from suite.workload import Mode

FREE = (InstancePlacement(device="cpu"), InstancePlacement(device="cpu"))
UNEVEN = Served(samples=50, held=20, lengths=3)
BOUND_S = 20.0
"""The longest time that a run of half a minute may go on after an instance has ended; it takes a
tenth of a second where nothing is held up.
"""


def on_instances(run: LoadGenJob) -> LoadGenJob:
    """Serve by two processes that may use all cores."""
    return replace(run, system=replace(run.system, placement=FREE))


def do(run: LoadGenJob) -> LoadGenOutcome:
    """Hold a run and keep it."""
    with run_loadgen_in_child(run) as (_, outcome):
        pass
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("scenario", Scenario)
def test_two_instances_answer_as_one_process_does(tmp_path: Path, scenario: Scenario):
    """Each loads its own samples, in parts; an answer of the wrong instance or sample would be
    another one's bytes.
    """
    outcome = do(on_instances(job(tmp_path, scenario, Mode.ACCURACY, UNEVEN, workers=2)))
    assert dict(read_logged_answers(tmp_path / "run")) == {
        sample: content(sample) for sample in range(50)
    }
    assert outcome.sample_count == 50 and outcome.samples >= 50
    assert [sum(column) for column in zip(*outcome.workers, strict=True)] == [
        outcome.batches,
        outcome.samples,
    ]
    assert len(outcome.workers) == (4 if scenario is Scenario.OFFLINE else 2), (
        "Offline has a batch ahead for each instance"
    )


def instances() -> list[psutil.Process]:
    """List the processes of instances, children of LoadGen's, which may be a child of the
    template.
    """
    children = psutil.Process().children()
    served = [
        one
        for child in children
        for one in (child.children() if child.name() == TEMPLATE_PROCESS_NAME else [child])
    ]
    return [
        one
        for child in served
        for one in child.children()
        if "spawn_main" in " ".join(one.cmdline())
    ]


def killed(after: list[float]) -> None:
    """Kill one instance when LoadGen's queries are on their way; note when."""
    while not (Path(os.environ["RUN"]) / "mlperf_log_detail.txt").exists() or len(instances()) < 2:
        time.sleep(0.02)
    time.sleep(0.3)
    os.kill(max(one.pid for one in instances()), signal.SIGKILL)
    after.append(time.monotonic())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a run, known to the thread that kills."""
    monkeypatch.setenv("RUN", str(tmp_path / "run.partial"))
    yield tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("scenario", Scenario)
def test_an_instance_that_is_killed_ends_the_run_with_its_cause(folder: Path, scenario: Scenario):
    """LoadGen would wait for its answers for ever; an idle instance counts too, since it would
    serve the next batch.
    """
    long = on_instances(
        job(folder, scenario, Mode.PERFORMANCE, replace(UNEVEN, pause_s=0.05), workers=2)
    )
    after: list[float] = []
    killer = threading.Thread(target=killed, args=(after,), daemon=True)
    killer.start()
    with pytest.raises(
        JudgedError,
        match=r"instance \d \(cores not pinned\) was ended by SIGKILL; nothing of that run counts",
    ):
        do(
            replace(
                long, schedule=replace(long.schedule, min_duration_ms=30_000, min_queries=5_000)
            )
        )
    killer.join()
    assert time.monotonic() - after[0] < BOUND_S
    assert not list(folder.glob("run*")) and not instances()


@pytest.mark.slow
def test_an_instance_that_fails_tells_its_own_error(tmp_path: Path):
    """And not only that a process has ended."""
    with pytest.raises(JudgedError, match="on purpose"):
        do(
            on_instances(
                job(
                    tmp_path, Scenario.OFFLINE, Mode.PERFORMANCE, Served(fault="predict"), workers=2
                )
            )
        )


def seen(cores: list[set[int]]) -> None:
    """Note the cores of LoadGen's process and of the instance when queries are on their way."""
    log = Path(os.environ["RUN"]) / "mlperf_log_detail.txt"
    until(lambda: log.exists() and bool(instances()), BOUND_S)
    (one,) = instances()
    cores.extend((set(os.sched_getaffinity(one.ppid())), set(os.sched_getaffinity(one.pid))))


@pytest.mark.slow
def test_loadgen_has_the_cores_that_are_kept_for_it(folder: Path):
    """Instances start first, and must not inherit them."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        pytest.skip("one core cannot be divided")
    run = job(folder, Scenario.SINGLE_STREAM, Mode.PERFORMANCE, replace(UNEVEN, pause_s=0.1))
    run = replace(
        run, schedule=replace(run.schedule, min_duration_ms=3_000, min_queries=1)
    )  # long enough to be looked at
    cores: list[set[int]] = []
    looker = threading.Thread(target=seen, args=(cores,), daemon=True)
    looker.start()
    do(
        replace(
            run,
            system=replace(
                run.system,
                placement=(InstancePlacement(device="cpu", cores=(others[0],)),),
                loadgen_cores=(first,),
            ),
        )
    )
    looker.join(BOUND_S)
    assert cores == [{first}, {others[0]}]


def test_an_instance_has_the_usual_looks_when_it_is_warm() -> None:
    """Warming up may load a compiler."""
    warm = SimpleNamespace(warm_up=lambda: gc.set_threshold(garbage.SELDOM_THRESHOLD))
    Instance(0, lambda: (SimpleNamespace(open=lambda worker, most: warm), None)).open(1)  # type: ignore[arg-type,return-value]
    assert gc.get_threshold() == garbage.USUAL_THRESHOLDS
