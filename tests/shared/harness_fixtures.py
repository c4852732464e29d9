"""What tests of the harness have in common; the fake workloads are found by their entry points, here
and in child processes.
"""

import asyncio
from collections.abc import Iterator

import pytest
from offered_fakes import offer_fakes
from warm import RUN, Warm

from harness.machine import cpus
from harness.machine.telemetry import process

offer_fakes()


@pytest.fixture(autouse=True)
def no_loop_of_a_browser() -> Iterator[None]:
    """The browser of other tests in this process keeps its event loop running in this thread, and
    podium starts one of its own.
    """
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.fixture(autouse=True)
def quiet_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else runs on the cores, tests take all of them, and wait for no look at them."""
    monkeypatch.setattr(cpus, "measure_cpu_use", lambda: 0.0)


@pytest.fixture(scope="module", autouse=True)
def samplers_of_any_cache() -> Iterator[None]:
    """A sampler looks at no cache: the idle one serves the next test's run too, whose cache is
    another.
    """
    with pytest.MonkeyPatch.context() as patch:
        inherited = process.build_sampler_environment
        patch.setattr(
            process,
            "build_sampler_environment",
            lambda: {name: value for name, value in inherited().items() if name != "PODIUM_CACHE"},
        )
        yield


@pytest.fixture(scope="session")
def light() -> Iterator[Warm]:
    """Where runs of the fake workload come from that are interrupted, killed or refused, and its
    servers; without a framework.
    """
    started = Warm(
        *RUN,
        "extras.kserve.command",
        "podium_fakes.fake",
        "podium_fakes.engine",
        "podium_fakes.served",
        "numpy.random",
    )
    yield started
    started.end()
