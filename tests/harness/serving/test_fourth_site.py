"""A site that podium does not have, in thirty lines, works wherever a system is served."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.drive import options
from podium_fakes.kept import keep_ceiling, keep_checkpoint

from harness.engine_choice import ServingRequest
from harness.request import RunRequest
from harness.serving.audits.command import audit_workload
from harness.serving.checkpoint_selection import ExportedCheckpoint
from harness.serving.dry_run import try_serving
from harness.serving.infer import serve_workload
from harness.serving.loadgen.session import LoadedSystem
from harness.serving.setup import LocalHost, LocalSite, ServingSetup
from harness.serving.sites import BoundSystem
from harness.serving.studies.driver import measure_study
from harness.serving.studies.round_peak import ROUND_PEAK_VALUES
from harness.serving.studies.system import StudyOptions
from suite.loadgen.scenario import Scenario
from suite.records import read_served_run
from suite.served_identity import ServedIdentity
from suite.studies import peak_search

pytestmark = pytest.mark.slow
OFFLINE = (Scenario.OFFLINE,)


class FridgeHost(LocalHost):
    """Says that a refrigerator answers, and how many threads it has."""

    def identify_served(self, request: RunRequest, system: LoadedSystem) -> ServedIdentity:
        said = super().identify_served(request, system)
        return replace(said, device=replace(said.device, value="fridge"))

    def describe_system(self, setup: ServingSetup) -> Mapping[str, Any]:
        return {**super().describe_system(setup), "hw_notes": "a refrigerator"}

    def choose_threads(self, setup: ServingSetup, earlier: int) -> int:
        return 1


class FridgeSite(LocalSite):
    """Serves here, in the name of a refrigerator."""

    def bind_system(
        self, asked: ServingRequest, choose: Callable[[], ExportedCheckpoint]
    ) -> BoundSystem:
        bound = super().bind_system(asked, choose)
        return replace(bound, host=FridgeHost(), entry=replace(bound.entry, system="fridge"))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    keep_ceiling(tmp_path / "cache")
    keep_checkpoint(tmp_path / "results")
    return tmp_path / "results"


def test_runs_and_audits_are_of_the_site(results: Path) -> None:
    chosen = options(results)
    serve_workload(
        "fake", chosen, scenarios=OFFLINE, mode="all", checkpoint=None, site=FridgeSite()
    )
    (run,) = results.glob("*/*/results/fridge/fake/Offline/performance/run_1")
    system = read_served_run(run).system
    assert (system.device, system.threads, system.name) == ("fridge", 1, "fridge")
    (described,) = results.glob("*/*/systems/fridge.json")
    assert "a refrigerator" in described.read_text()
    audit_workload(
        "fake",
        chosen,
        scenarios=OFFLINE,
        test="TEST01",
        rules="podium-v1",
        checkpoint=None,
        site=FridgeSite(),
    )
    (audited,) = results.glob("*/*/compliance/fridge/fake/Offline/TEST01/system.json")
    assert '"fridge"' in audited.read_text()


def test_a_dry_run_is_of_the_site(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estimate = try_serving(
        "fake",
        options(results),
        scenarios=OFFLINE,
        mode="performance",
        checkpoint=None,
        site=FridgeSite(),
    )
    assert estimate.stages[0].seconds > 0 and not list(results.glob("*/*/results"))
    assert "took one query each of Offline" in capsys.readouterr().out


def test_a_study_is_of_the_site(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peak_search, "MAX_PROBES", 2)
    monkeypatch.setattr(peak_search, "MAX_FULL_RUNS", 1)
    chosen = options(results, "batching.max_batch=1", "fake.sleep_ms=2")
    asked = StudyOptions(values=ROUND_PEAK_VALUES, site=FridgeSite())
    study, folder = measure_study("peak", "fake", chosen, asked)
    assert study.points and study.subject.system == "fridge"
    devices = {read_served_run(run.parent).system.device for run in folder.glob("*/*/run.json")}
    assert devices == {"fridge"}
