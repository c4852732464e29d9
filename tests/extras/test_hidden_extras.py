"""A podium that comes without one of its extras: every command of the core goes on, and a sentence
says which part is missing where somebody asks for it.
"""

import importlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from click.testing import CliRunner
from offered_packages import hide_extra

from suite import registry
from suite.cli import group
from suite.errors import MissingError, PodiumError
from suite.extra_parts import EXTRA_PARTS
from suite.process.installation import format_install_command

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "tests" / "examples" / "base" / "tree"
EXTRAS: Final = sorted(path.parent.name for path in (ROOT / "extras").glob("*/__init__.py"))
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
POINTS: Final[Mapping[str, Mapping[str, str]]] = PROJECT["entry-points"]
TIME_TAKEN: Final = re.compile(r"; [\d.]+ s$", re.MULTILINE)
UNNAMED_GROUPS: Final = {
    registry.COMMAND_GROUP,
    registry.METER_GROUP,
    registry.PRICE_GROUP,
    registry.TIME_STAMP_GROUP,
}
"""Groups of which nobody asks for an entry point by name; commands have their summaries."""
PIP_EXTRAS: Final = frozenset[str](PROJECT["optional-dependencies"])


DRY_TRAINING: Final = ("train", "resnet50", "--dry-run", "--device", "cpu")


class Request(NamedTuple):
    """What somebody asks for, and the sentence that names the missing part."""

    words: Sequence[str]
    exit_code: int
    sentence: str


def ask_for_command(name: str, *words: str) -> Request:
    """Return the request for a command that an extra brings."""
    sentence = f"the command '{name}' is not installed with this podium"
    return Request([name, *words], MissingError.exit_code, sentence)


def ask_for_power(source: str, *words: str) -> Request:
    """Return the request for a power source that an extra brings."""
    missing = f"power source '{source}' is not installed: {format_install_command('run')}"
    return Request([*DRY_TRAINING, *words], MissingError.exit_code, missing)


PRICES: Final = ROOT / "examples" / "prices.toml"
REQUESTS: Final = {
    "cost": [
        ask_for_command("cost", str(RESULTS), "--prices", str(PRICES)),
        Request(
            ["compare", str(RESULTS), str(RESULTS), "--per", "dollar", "--prices", str(PRICES)],
            MissingError.exit_code,
            "no reader of prices is installed: no package offers one in podium.prices",
        ),
    ],
    "dali": [
        Request(
            ["train", "resnet50", "--input", "dali"],
            MissingError.exit_code,
            f"input pipeline 'dali' is not installed: {format_install_command('dali')}",
        ),
    ],
    "jetson": [
        ask_for_power("ina3221", "--power", "ina3221"),
        ask_for_power("tegrastats", "--power", "rapl,tegrastats"),
    ],
    "kserve": [
        Request(
            ["infer", "resnet50", "--endpoint", "grpc://127.0.0.1:1"],
            MissingError.exit_code,
            f"kind of server 'grpc' is not installed: {format_install_command('remote')}",
        ),
        Request(
            ["serve", "resnet50", "--listen", "127.0.0.1:0"],
            MissingError.exit_code,
            f"API 'grpc' is not installed: {format_install_command('remote')}",
        ),
    ],
    "launch": [ask_for_command("launch", "slurm", "resnet50", "--results", "/shared")],
    "meters": [
        ask_for_command("meter", "fake"),
        ask_for_power("hwmon", "--power", "hwmon"),
        Request(
            [*DRY_TRAINING, "--meter", "podium meter fake"],
            MissingError.exit_code,
            "no reader of external meters is installed: no package offers one in podium.meters",
        ),
    ],
    "networks": [
        Request(
            ["sweep", "--network", "alexnet"],
            MissingError.exit_code,
            f"network 'alexnet' is not installed: {format_install_command('run')}",
        ),
    ],
    "scaling": [ask_for_command("scaling", "resnet50", "--devices", "8", "--batch", "64")],
    "tensorflow": [
        Request(
            ["train", "transformer", "--framework", "tensorflow"],
            MissingError.exit_code,
            f"framework 'tensorflow' is not installed: {format_install_command('tensorflow')}",
        ),
        Request(
            ["infer", "resnet50", "--engine", "tensorflow"],
            MissingError.exit_code,
            f"engine 'tensorflow' is not installed: {format_install_command('tensorflow')}",
        ),
    ],
    "tensorrt": [
        ask_for_command("build", "resnet50", "--target", "sm89"),
        Request(
            ["infer", "resnet50", "--engine", "tensorrt"],
            MissingError.exit_code,
            f"engine 'tensorrt' is not installed: {format_install_command('tensorrt')}",
        ),
    ],
    "time_stamps": [ask_for_command("timestamp", str(RESULTS), "--query", "q.tsq")],
}
"""Extra -> requests for it."""
CORE_COMMANDS: Final = [
    ["list"],
    ["doctor", "--help"],
    ["check", str(RESULTS), "--format", "json"],
    ["score", str(RESULTS)],
    ["compare", str(RESULTS), str(RESULTS)],
    ["report", str(RESULTS), "--format", "json"],
]


def run_podium(words: Sequence[str]) -> tuple[int, str]:
    """Return the exit code of a command, and its output with its errors, but for the time that it
    took.
    """
    done = CliRunner().invoke(group, words, prog_name="podium")
    if isinstance(done.exception, PodiumError):
        return done.exception.exit_code, f"{done.output}{done.exception}"
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    return done.exit_code, TIME_TAKEN.sub("", done.output)


def list_points_of(extra: str) -> list[tuple[str, str]]:
    return [
        (kind, name)
        for kind, points in POINTS.items()
        for name, value in points.items()
        if f"{value.partition(':')[0]}.".startswith(f"extras.{extra}.")
    ]


def test_each_extra_is_reached_by_entry_points_and_has_a_request() -> None:
    """A folder that nothing offers is no extra, and one without a request is hidden unseen."""
    assert set(REQUESTS) == set(EXTRAS)
    assert [extra for extra in EXTRAS if not list_points_of(extra)] == []


def test_the_core_s_table_has_what_extras_offer() -> None:
    """A name that is not in it would be an unknown one, with the nearest as advice."""
    offered = {
        (kind, name): POINTS[kind][name]
        for extra in EXTRAS
        for kind, name in list_points_of(extra)
        if kind not in UNNAMED_GROUPS
    }
    assert offered.keys() == EXTRA_PARTS.keys()
    for point, value in offered.items():
        named = value.partition("[")[2].removesuffix("]")
        assert named in ("", EXTRA_PARTS[point])
    assert {*EXTRA_PARTS.values()} <= PIP_EXTRAS


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_hidden_extra_is_neither_offered_nor_imported(extra: str) -> None:
    """The test of hiding: a podium that still finds the extra would pass every test below."""
    with hide_extra(extra):
        for kind, name in list_points_of(extra):
            assert name not in registry.map_entry_points(kind)
        with pytest.raises(ImportError):
            importlib.import_module(f"extras.{extra}")
    for kind, name in list_points_of(extra):
        assert name in registry.map_entry_points(kind)
    assert importlib.import_module(f"extras.{extra}").__doc__


@pytest.mark.parametrize(
    ("extra", "asked"), [(extra, each) for extra, found in REQUESTS.items() for each in found]
)
def test_who_asks_for_a_hidden_extra_reads_its_name(extra: str, asked: Request) -> None:
    """No traceback, and no other feature in its place."""
    with hide_extra(extra):
        code, output = run_podium(asked.words)
    assert asked.sentence in output
    assert code == asked.exit_code


@pytest.mark.slow
@pytest.mark.parametrize("extra", EXTRAS)
def test_the_core_goes_on_without_an_extra(extra: str) -> None:
    """One import of an extra in the core would end every command that reaches it."""
    before = [run_podium(words) for words in CORE_COMMANDS[1:]]
    with hide_extra(extra):
        for name in registry.map_entry_points(registry.COMMAND_GROUP):
            assert registry.load_entry_point(registry.COMMAND_GROUP, "command", name)
        assert run_podium(CORE_COMMANDS[0])[0] == 0
        assert [run_podium(words) for words in CORE_COMMANDS[1:]] == before
    assert all(code in (0, 1) for code, _ in before), before
