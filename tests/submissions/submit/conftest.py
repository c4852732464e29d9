"""A curve of llama that podium traced under the real LoadGen, in this process: seven points, so
that each region has one. Its network has random weights, and its points last half a second.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parents[2]
for each in (TESTS / "compliance", TESTS / "compliance" / "builders", TESTS / "fakes"):
    if str(each) not in sys.path:
        sys.path.insert(0, str(each))

CONCURRENCIES: Final = (1, 4, 8, 16, 32, 48, 64)
BOX: Final = """
[system]
shortened_system_name = "box"
system_availability_status = "RDI"
division = "RDI"
max_supported_concurrency = 64
system_size = "1 node"
system_node_ensemble_count = 1
system_node_ensemble_total = 1

[[system.node_types]]
system_node_ensemble_id = 0
number_of_nodes = 1
host_processor_model_name = "Some CPU"
host_processors_per_node = 1
host_processor_core_count = 2
host_memory_configuration = "1 x 8 GB"
host_network_card_count = "1"
driver = "none"
filesystem = "ext4"

[point]
link_to_model = "https://example.org/model"
dataset_name = "CNN/DailyMail"
dataset_type = "Performance"
dataset_link = "https://example.org/data"
seed_set = "A"
target_cohort = "2026-11-C0"

[point.warmup]
duration_s = 0
requests_issued = 0
requests_completed = 0
data_source = "none"
concurrency = 0
initialization_steps = []
"""


@pytest.fixture(scope="session")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the curve."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from podium_fakes.drive import options
    from podium_fakes.llama import keep_llama_checkpoint

    from harness.serving.studies.driver import measure_study
    from harness.serving.studies.system import StudyOptions
    from suite.studies import concurrency_curve, kind
    from suite.studies.concurrency_curve import ConcurrencyCurve

    home = tmp_path_factory.mktemp("traced")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PODIUM_CACHE", str(home / "cache"))
        keep_llama_checkpoint(home / "results")
        chosen = options(home / "results", framework="torch", engine="torch")
        patch.setattr(ConcurrencyCurve, "check_request", lambda *_: None)  # shorter than `smoke`
        for module in (concurrency_curve, kind):  # long enough however busy the machine becomes
            patch.setattr(module, "RATE_MARGIN", 8.0)
        values = {"concurrencies": CONCURRENCIES, "seconds": 0.5}
        measure_study("curve", "llama", chosen, StudyOptions(values=values))
    (folder,) = (home / "results" / "studies").iterdir()
    return folder


@pytest.fixture(scope="session")
def make_documents() -> Callable[[Path], None]:
    """Write what a submitter states, and documents to submit, into a folder."""

    def make(folder: Path) -> None:
        (folder / "box.toml").write_text(BOX)
        (folder / "documents").mkdir()
        (folder / "documents" / "software_disclosure.md").write_text("podium.\n")

    return make


@pytest.fixture
def box(tmp_path: Path, make_documents: Callable[[Path], None]) -> Path:
    """What a submitter states of a system and a curve."""
    make_documents(tmp_path)
    return tmp_path / "box.toml"


@pytest.fixture
def documents(box: Path) -> Path:
    """Documents to submit."""
    return box.parent / "documents"
