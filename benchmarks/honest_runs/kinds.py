"""Kinds of honest runs: commands of podium that take seconds, each on a folder of its own."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FAKE: Final = (
    "--framework", "fake", "--engine", "fake", "--precision", "fp32",
    "--org", "tests", "--system", "testbed",
)  # fmt: skip
CPU: Final = ("--device", "cpu", "--threads", "1")
TORCH: Final = (*CPU, "--engine", "torch")
SPEED: Final = ("--weights", "random", *TORCH)
"""Speed of random weights: the way of a result from the command to LoadGen's files."""
POINTS: Final = ("--points", "1,4")
SMALL: Final[dict[str, tuple[str, ...]]] = {
    "gnmt": ("model.width=16", "model.layers=2", "data.max_answer_length=8"),
    "transformer": ("model.width=24", "model.filter=48", "decode.extra_length=0", "decode.beam=1"),
    "llama": (),
    "minigo": (),
    "resnet50": (),
    "ssd": (),
    "maskrcnn": (),
}
"""Workload -> settings that make a query short, so that LoadGen needs no minutes."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of run."""

    name: str
    model: str
    """null or real."""
    commands: Callable[["Place"], Sequence[Sequence[str]]]
    """Words of podium, run one after the other."""
    server: Callable[["Place"], Sequence[str]] | None = None
    """Words of the server that the commands measure."""
    judged: str = "runs and folder"
    """Each run of LoadGen by itself, its folder as a result or a study, or both."""
    tiny: bool = False
    """Whether a test runs it."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one run works, and what all runs share."""

    results: Path
    shared: Path
    """Folder of what is made once: checkpoints and an ONNX file."""
    brief: bool = False
    port: int = field(default_factory=lambda: find_port())

    def locate_llama(self, name: str) -> str:
        """Name the folder of llama's weights: null, of a tiny network, or real."""
        return str(self.shared / f"llama-{name}")


def find_port() -> int:
    """Find a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def assign(*settings: str) -> list[str]:
    """Write settings as options."""
    return [word for each in settings for word in ("--set", each)]


def build_campaign(place: Place, *settings: str) -> list[list[str]]:
    """A whole campaign of the workload for tests: training, four scenarios in both modes, check
    and pack.
    """
    duration = f"loadgen.min_duration_ms={300 if place.brief else 2000}"
    words = ["run", "fake", "--results", str(place.results), *FAKE, *CPU]
    return [[*words, *assign(duration, *settings)]]


def build_speed(place: Place, workload: str, scenario: str) -> list[list[str]]:
    """LoadGen on random weights of a workload."""
    words = ["infer", workload, "--scenario", scenario, "--results", str(place.results), *SPEED]
    return [[*words, *assign(*SMALL[workload])]]


def build_llama(place: Place, weights: str) -> list[list[str]]:
    """LoadGen on llama's weights, all its scenarios."""
    words = ["infer", "llama", "--results", str(place.results), *TORCH]
    return [[*words, "--weights", place.locate_llama(weights)]]


def build_curve(place: Place, weights: str) -> list[list[str]]:
    """A curve in process."""
    words = ["curve", "llama", "--results", str(place.results), *TORCH, *POINTS]
    return [[*words, "--checkpoint", place.locate_llama(weights)]]


def build_remote_curve(place: Place, scheme: str, weights: str) -> list[list[str]]:
    """A curve over the network."""
    words = ["curve", "llama", "--results", str(place.results), *POINTS]
    there = ["--endpoint", f"{scheme}://127.0.0.1:{place.port}"]
    more = ["--checkpoint", place.locate_llama(weights)]
    return [[*words, *there, *more]]


def build_llama_server(place: Place, weights: str) -> list[str]:
    """The server of that curve."""
    words = ["serve", "llama", "--results", f"{place.results}-server", *TORCH, "--api", "openai"]
    there = ["--listen", f"127.0.0.1:{place.port}"]
    return [*words, *there, "--checkpoint", place.locate_llama(weights)]


def build_remote_infer(place: Place, weights: str) -> list[list[str]]:
    """Offline and Server over the network."""
    words = ["infer", "llama", "--results", str(place.results), "--mode", "performance"]
    there = ["--endpoint", f"http://127.0.0.1:{place.port}"]
    return [[*words, *there, "--checkpoint", place.locate_llama(weights)]]


def build_sweep(place: Place) -> list[list[str]]:
    """A sweep of a bare network."""
    words = ["sweep", "--network", "shufflenet_v2_x0_5", "--results", str(place.results)]
    return [[*words, *TORCH, "--precision", "fp32", "--batches", "1,2"]]


def build_peak(place: Place) -> list[list[str]]:
    """A search on trained weights of the workload for tests."""
    results, tuned = str(place.results), assign("fake.work_kib=256", "loadgen.min_duration_ms=1000")
    return [
        ["train", "fake", "--results", results, *select_training_options(FAKE), *CPU],
        ["peak", "fake", "--results", results, *FAKE, *CPU, "--budget-s", "20", *tuned],
    ]


def build_precision(place: Place) -> list[list[str]]:
    """The table of engines and precisions of trained weights of the workload for tests."""
    results, tuned = str(place.results), assign("loadgen.min_duration_ms=1000")
    return [
        ["train", "fake", "--results", results, *select_training_options(FAKE), *CPU],
        ["precision", "fake", "--results", results, *FAKE, *CPU, *tuned],
    ]


def select_training_options(words: Sequence[str]) -> list[str]:
    """Leave out the engine, which trainings have not."""
    place = words.index("--engine")
    return [*words[:place], *words[place + 2 :]]


def build_onnx(place: Place) -> list[list[str]]:
    """The speed of an ONNX file."""
    words = ["infer", "--onnx", str(place.shared / "network.onnx"), "--results", str(place.results)]
    return [[*words, *CPU, "--engine", "onnxruntime"]]


def list_kinds() -> tuple[Kind, ...]:
    """List all kinds; the table has them in this order."""
    return (
        Kind(
            name="campaign",
            model="null",
            tiny=True,
            commands=lambda place: build_campaign(place, "fake.step_ms=5", "fake.evaluate_s=0.1"),
        ),
        Kind(
            name="campaign-work",
            model="null",
            commands=lambda place: build_campaign(place, "fake.work_kib=256"),
        ),
        Kind(
            name="campaign-sleep",
            model="null",
            commands=lambda place: build_campaign(place, "fake.sleep_ms=1.5"),
        ),
        Kind(name="llama-null", model="null", commands=lambda place: build_llama(place, "null")),
        *(
            Kind(
                name=workload,
                model="real",
                commands=lambda place, workload=workload: build_speed(place, workload, "all"),
            )
            for workload in SMALL
        ),
        Kind(name="curve-null", model="null", commands=lambda place: build_curve(place, "null")),
        Kind(name="curve", model="real", commands=lambda place: build_curve(place, "real")),
        Kind(
            name="curve-network-null",
            model="null",
            commands=lambda place: build_remote_curve(place, "http", "null"),
            server=lambda place: build_llama_server(place, "null"),
        ),
        Kind(
            name="curve-network",
            model="real",
            commands=lambda place: build_remote_curve(place, "http", "real"),
            server=lambda place: build_llama_server(place, "real"),
        ),
        Kind(
            name="llama-network-null",
            model="null",
            judged="runs",
            commands=lambda place: build_remote_infer(place, "null"),
            server=lambda place: build_llama_server(place, "null"),
        ),
        Kind(name="sweep", model="real", commands=build_sweep),
        Kind(name="peak", model="null", commands=build_peak),
        Kind(name="precision", model="null", commands=build_precision),
        Kind(name="onnx", model="real", judged="folder", commands=build_onnx),
    )
