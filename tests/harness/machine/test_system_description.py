"""The system description: read from the machine, null where it cannot be, and corrected by the
user.
"""

import json
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from types import SimpleNamespace

import pytest
from podium_fakes.drive import entry, options

from harness.machine import gpus as gpu_module
from harness.machine import system_description
from harness.machine.gpus import Gpu, list_gpus
from harness.machine.system_description import (
    build_system_name,
    count_processors,
    count_run_nodes,
    describe_system,
    find_storage_type,
    read_cpu_fields,
    read_system_file,
    strip_cpu_model,
)
from harness.request import RunRequest, resolve_request
from suite.errors import RequestError

H200 = Gpu(name="NVIDIA H200", memory_bytes=139 * 2**30, driver="575.1", clock_mhz=1980)
MODEL = "model name\t: AMD EPYC(TM) 7B13 64-Core Processor @ 2.2GHz\n"
CPU_INFO = f"processor\t: 0\nphysical id\t: 0\n{MODEL}\nprocessor\t: 1\nphysical id\t: 1\n{MODEL}\n"


@pytest.fixture
def request_here(tmp_path: Path) -> RunRequest:
    return resolve_request(options(tmp_path), "fake")


@pytest.fixture
def two_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_text(CPU_INFO)
    monkeypatch.setattr(system_description, "CPU_INFO_FILE", tmp_path / "cpuinfo")


def test_every_field_of_the_official_description_is_there(tmp_path: Path, request_here: RunRequest):
    """mlcommons/policies refuses a description that lacks one."""
    found = describe_system(entry(tmp_path), request_here.described)
    fields = (
        "submitter division status system_name number_of_nodes host_processors_per_node"
        " host_processor_model_name host_processor_core_count"
    )
    fields += (
        " host_memory_capacity host_storage_type host_storage_capacity accelerators_per_node"
        " accelerator_model_name"
    )
    fields += (
        " accelerator_memory_configuration accelerator_memory_capacity framework"
        " other_software_stack operating_system podium"
    )
    assert sorted(found) == sorted(fields.split())
    assert (found["submitter"], found["division"], found["status"], found["system_name"]) == (
        "tests",
        "open",
        "research",
        "testbed",
    )
    assert found["host_memory_capacity"].endswith("GiB") and found["number_of_nodes"] == 1


def test_the_environment_names_packages_and_source(request_here: RunRequest):
    """A bundle has to say with what it was made."""
    block = system_description.describe_environment(request_here.described)
    assert (
        block["packages"]["click"]
        and block["packages"]["podium-suite"]
        and block["python"] == sys.version.split()[0]
    )
    assert (block["round"], block["profile"]) == ("podium-v1", "smoke")
    assert block["git_commit"] is None or len(block["git_commit"]) == 40
    assert (
        " ".join(sorted(block))
        == "cpu_clock_mhz cpu_governor git_commit git_dirty gpu_clock_mhz packages power_mode"
        " profile python round"
    )


def test_packages_are_named_as_their_metadata_name_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "odd-1.0.dist-info").mkdir()
    (tmp_path / "odd-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nSummary: odd\nAuthor: nobody\nName: Odd\nVersion: 1.0\n"
    )
    monkeypatch.setattr(
        system_description, "distributions", lambda: distributions(path=[str(tmp_path)])
    )
    assert system_description.list_installed_packages.__wrapped__() == {"Odd": "1.0"}


def test_what_cannot_be_read_is_null(
    tmp_path: Path, request_here: RunRequest, monkeypatch: pytest.MonkeyPatch
):
    """An invented number would be worse than none."""
    monkeypatch.setattr(system_description, "CPU_INFO_FILE", tmp_path / "nothing")
    monkeypatch.setattr(system_description, "GOVERNOR_FILE", tmp_path / "nothing")
    monkeypatch.setattr(system_description.platform, "processor", lambda: "")
    found = describe_system(entry(tmp_path), request_here.described)
    assert (
        found["host_processors_per_node"] is None
        and found["host_processor_model_name"] is None
        and found["podium"]["cpu_governor"] is None
    )
    assert read_cpu_fields() == []


def test_the_user_may_fill_in_what_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """--system-file has the last word on detected fields, but knows no others."""
    own = tmp_path / "own.toml"
    own.write_text('accelerator_memory_configuration = "HBM3e"\n')
    found = describe_system(
        entry(tmp_path), resolve_request(options(tmp_path, system_file=own), "fake").described
    )
    assert found["accelerator_memory_configuration"] == "HBM3e"
    own.write_text("host_memory_capcity = 5\n")
    with pytest.raises(RequestError, match="did you mean 'host_memory_capacity'"):
        read_system_file(own, found)
    for damaged in (
        b"not toml",
        b"\xff",
        b"x = " + b"[" * 5000,
        b"x = " + b"9" * 5000,
        b"hw_notes = 2020-01-01",
        b"hw_notes = inf",
    ):
        own.write_bytes(damaged)
        with pytest.raises(RequestError, match="--system-file"):
            read_system_file(own, found)
    for wrong in (
        "number_of_nodes = 0",
        'accelerators_per_node = "many"',
        "host_processor_core_count = 1.5",
    ):
        own.write_text(wrong)
        with pytest.raises(RequestError, match="a whole number from"):
            read_system_file(own, found)
    assert read_system_file(None, found) == {}


def test_the_host_is_named_after_its_processor(
    two_processors: None, monkeypatch: pytest.MonkeyPatch
):
    """The name is a folder: short, lower case, without trade marks, core counts and clock rates."""
    monkeypatch.setattr(system_description.os, "sched_getaffinity", lambda _: set(range(8)))
    assert build_system_name("cpu") == "8c-amd-epyc-7b13-processor" and count_processors() == 2
    assert strip_cpu_model("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz").split() == [
        "Intel",
        "Xeon",
        "E5-2680",
        "v4",
    ]


def test_the_host_is_named_after_its_gpus(monkeypatch: pytest.MonkeyPatch):
    """As many as the run uses on a machine."""
    monkeypatch.setattr(system_description, "list_gpus", lambda: (H200, H200))
    assert build_system_name("cuda:0") == "1x-nvidia-h200"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert build_system_name("cuda:1") == "2x-nvidia-h200"
    monkeypatch.setattr(system_description, "list_gpus", tuple)
    assert build_system_name("cuda") == "2x-cuda-device"


def test_gpus_are_described(
    tmp_path: Path, request_here: RunRequest, monkeypatch: pytest.MonkeyPatch
):
    """Count, model and memory; the kind of memory is not told by the driver and stays null."""
    monkeypatch.setattr(system_description, "list_gpus", lambda: (H200,))
    found = describe_system(entry(tmp_path), request_here.described)
    assert (
        found["accelerators_per_node"],
        found["accelerator_model_name"],
        found["accelerator_memory_capacity"],
    ) == (1, "NVIDIA H200", "139 GiB")
    assert (
        found["accelerator_memory_configuration"] is None
        and "driver 575.1" in found["other_software_stack"]
    )
    assert found["podium"]["gpu_clock_mhz"] == [1980]


def fake_pynvml(**changes: object) -> SimpleNamespace:
    library = SimpleNamespace(NVMLError=RuntimeError, NVML_CLOCK_SM=1, closed=False)
    library.nvmlInit = lambda: None
    library.nvmlShutdown = lambda: setattr(library, "closed", True)
    library.nvmlSystemGetDriverVersion = lambda: b"575.1"
    library.nvmlDeviceGetCount = lambda: 1
    library.nvmlDeviceGetHandleByIndex = lambda index: index
    library.nvmlDeviceGetName = lambda _: "NVIDIA H200"
    library.nvmlDeviceGetMemoryInfo = lambda _: SimpleNamespace(total=5)
    library.nvmlDeviceGetClockInfo = lambda *_: 1980
    for name, value in changes.items():
        setattr(library, name, value)
    return library


def failing(*_: object) -> None:
    raise RuntimeError("not supported")


def test_gpus_are_read_from_the_driver(monkeypatch: pytest.MonkeyPatch):
    """Older libraries give bytes; a GPU that hides its clock is still a GPU; no driver is no
    GPU.
    """
    library = fake_pynvml(nvmlDeviceGetClockInfo=failing)
    monkeypatch.setitem(sys.modules, "pynvml", library)
    list_gpus.cache_clear()
    assert (
        list_gpus() == (Gpu(name="NVIDIA H200", memory_bytes=5, driver="575.1", clock_mhz=None),)
        and library.closed
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake_pynvml(nvmlInit=failing))
    list_gpus.cache_clear()
    assert list_gpus() == ()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    list_gpus.cache_clear()
    assert gpu_module.list_gpus() == ()
    list_gpus.cache_clear()


def test_storage_is_told_by_its_device(tmp_path: Path):
    """A disk that the kernel does not describe is null; a virtual one is called that."""
    assert find_storage_type(tmp_path) in {"NVMe SSD", "SSD", "HDD", "virtual disk", None}
    assert find_storage_type(Path("/proc")) is None


def test_the_description_is_json(tmp_path: Path, request_here: RunRequest):
    """Bundles read it as JSON from its place in the tree."""
    assert json.loads(json.dumps(describe_system(entry(tmp_path), request_here.described)))[
        "framework"
    ].startswith("fake")
    assert (
        system_description.describe_framework("click").startswith("click ")
        and system_description.describe_framework("nothing-such") == "nothing-such"
    )


def test_git_is_asked_only_in_a_checkout(monkeypatch: pytest.MonkeyPatch):
    """Installed from a wheel there is no commit; without git there is none either."""
    monkeypatch.setattr(
        system_description, "__file__", "/nowhere/harness/machine/system_description.py"
    )
    assert system_description.run_git("rev-parse", "HEAD") is None
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "")
    assert system_description.run_git("rev-parse", "HEAD") is None


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (None, (None, None)),
        ("# branch.oid (initial)\n# branch.head main", (None, False)),
        (
            (
                "# branch.oid c0ffee\n# branch.head main\n1 .M N... 100644 100644 100644 a b"
                " suite/cli.py"
            ),
            ("c0ffee", True),
        ),
    ],
)
def test_the_source_is_a_commit_and_what_was_changed_since(
    monkeypatch: pytest.MonkeyPatch, told: str | None, found: tuple[str | None, bool | None]
):
    monkeypatch.setattr(system_description, "run_git", lambda *_: told)
    assert system_description.read_source_commit() == found


def test_changed_tests_are_no_changed_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No result depends on them; a changed module of podium is told."""
    for name in ("harness/machine/system_description.py", "tests/test_it.py"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    own = (
        "user.name=nobody",
        "user.email=nobody@localhost",
        "commit.gpgsign=false",
        "core.hooksPath=/dev/null",
    )
    git = ("git", "-C", str(tmp_path), *(word for setting in own for word in ("-c", setting)))
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "made")):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(
        system_description, "__file__", str(tmp_path / "harness/machine/system_description.py")
    )
    (tmp_path / "tests/test_it.py").write_text("changed")
    commit, dirty = system_description.read_source_commit()
    assert commit is not None and len(commit) == 40 and dirty is False
    (tmp_path / "harness/machine/system_description.py").write_text("changed")
    assert system_description.read_source_commit() == (commit, True)


@pytest.mark.parametrize("text", ["²", "two", "-1", "", "9" * 5000])
def test_a_number_of_ranks_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, text: str):
    """A superscript two is a digit to str.isdigit; whatever stands there was a traceback."""
    monkeypatch.setenv("WORLD_SIZE", text)
    with pytest.raises(RequestError, match="WORLD_SIZE"):
        count_run_nodes()
