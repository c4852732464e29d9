"""Plug-ins with a broken part: which package, part and contract, once, and all else goes on."""

import json
from collections.abc import Mapping
from importlib.metadata import EntryPoint, distribution
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple, cast

import pytest
from offered_packages import hide_extra, offer_package

from submissions.compare.per_unit import parse_figure_request
from suite import plugins, registry
from suite.console.added_options import iterate_added_options
from suite.console.listing import format_installed_parts
from suite.contracts import find_misfits, list_part_functions
from suite.errors import MissingError
from suite.plugin_problems import GROUP_KINDS, LOADERS, iterate_plugin_problems

PACKAGE = "podium_odd"
ENGINE = """
class Engine:
    name = "odd"
    accepts = frozenset({"torch"})
    def missing(self, device, precision): ...
    def compile(self, network, plan): ...
"""
INPUT = """
class Input:
    name = "odd"
    places = ()
    def missing(self, device, place): ...
    def open(self, album, means): ...
"""
POWER = """
class Source:
    name = "odd"
    def probe(self, root): ...
    def read(self, channel): ...
    def close(self): ...
"""
WORKLOAD = """
from suite.workload import Workload
WORKLOAD = Workload(
    name="odd", training="torch_is_not_here:a", inference="torch_is_not_here:b",
    score="podium_odd:score",
)
def score(answers, truth): ...
"""
NETWORK = """
from suite.studies.bare_network import BareNetworkRecord
def score(answers, truth): ...
NETWORK = BareNetworkRecord(network="torch_is_not_here:a", score="podium_odd:score")
"""
FRAMEWORK = """
from suite.workload import WorkloadFramework
FRAMEWORK = WorkloadFramework(workload="odd", framework="jax", training="torch_is_not_here:a")
"""
STUDY = """
from suite.studies.concurrency_curve import ConcurrencyCurve
class Study(ConcurrencyCurve):
    name = "odd"
STUDY = Study()
"""
COMMAND = """
import click
@click.command()
def command(): ...
"""
OPTION = """
from suite.console.added_options import AddedOptions
OPTION = AddedOptions(options=(), resolve=lambda options, values: options)
"""
VERIFIER = """
class Verifier:
    def describe_obstacle(self): ...
    def verify_time_stamp(self, content, digest, authorities): ...
"""
METERS = """
class Meters:
    opening = "a:b"
    def greet_meter(self, address): ...
"""
RULES = '"""No rules."""\n'


class Broken(NamedTuple):
    """A plug-in, what is spoilt in it, and what is told."""

    group: str
    value: str
    text: str
    old: str
    new: str
    told: str


BROKEN: Mapping[str, Broken] = {
    "an engine without a method": Broken(
        registry.ENGINE_GROUP, "Engine", ENGINE, "def compile", "def build",
        "compile: expected a method that takes (network, plan), found nothing",
    ),
    "an engine whose method lacks a parameter": Broken(
        registry.ENGINE_GROUP, "Engine", ENGINE, "network, plan", "network",
        "compile: expected a method that takes (network, plan), found a method that takes"
        " (network)",
    ),
    "an engine with an attribute for a method": Broken(
        registry.ENGINE_GROUP, "Engine", ENGINE, "    def missing(self, device, precision): ...",
        "    missing = None",
        "missing: expected a method that takes (device, precision), found an attribute",
    ),
    "an engine of another name": Broken(
        registry.ENGINE_GROUP, "Engine", ENGINE, '"odd"', '"even"',
        "name: expected 'odd', as the entry point, found 'even'",
    ),
    "an engine with an optional part of another kind": Broken(
        registry.ENGINE_GROUP, "Engine", ENGINE, "    accepts", "    options = ()\n    accepts",
        "options: expected frozenset[str], found ()",
    ),
    "an input pipeline": Broken(
        registry.INPUT_GROUP, "Input", INPUT, "self, album, means", "self, album, means, more",
        "open: expected a method that takes (album, means), found a method that takes"
        " (album, means, more)",
    ),
    "a power source": Broken(
        registry.POWER_GROUP, "Source", POWER, "    def close(self): ...", "",
        "close: expected a method that takes (), found nothing",
    ),
    "a workload that is something else": Broken(
        registry.WORKLOAD_GROUP, "score", WORKLOAD, "", "",
        "object: expected a Workload, found the function score",
    ),
    "a workload with a field of another type": Broken(
        registry.WORKLOAD_GROUP, "WORKLOAD", WORKLOAD, 'training="torch_is_not_here:a"',
        "training=3",
        "training: expected str | Mapping[str, str], found 3",
    ),
    "a workload whose scorer takes something else": Broken(
        registry.WORKLOAD_GROUP, "WORKLOAD", WORKLOAD, "answers, truth", "answers",
        "score: expected a function that takes (answers, truth), found a function that takes"
        " (answers)",
    ),
    "a workload with an unknown part": Broken(
        registry.WORKLOAD_GROUP, "WORKLOAD", WORKLOAD, "score=", 'scorer="a:b", score=',
        "scorer: expected score, or another part of Workload, found an unknown part",
    ),
    "a network": Broken(
        registry.NETWORK_GROUP, "NETWORK", NETWORK, '"podium_odd:score"', "score",
        "score: expected str | None, found <function score",
    ),
    "a framework": Broken(
        registry.FRAMEWORK_GROUP, "FRAMEWORK", FRAMEWORK, '"torch_is_not_here:a"', "()",
        "training: expected str | None, found ()",
    ),
    "a kind of study without a part": Broken(
        registry.STUDY_GROUP, "STUDY", STUDY, '    name = "odd"', "    name = 3",
        "name: expected str, found 3",
    ),
    "a kind of study whose method lacks a parameter": Broken(
        registry.STUDY_GROUP, "STUDY", STUDY, "STUDY =",
        "    def name_point(self): ...\nSTUDY =",
        "name_point: expected a method that takes (point), found a method that takes ()",
    ),
    "a command": Broken(
        registry.COMMAND_GROUP, "command", COMMAND, "@click.command()", "",
        "object: expected a Command, found the function command",
    ),
    "options of a command": Broken(
        registry.OPTION_GROUP, "OPTION", OPTION, "options=()", "options=3",
        "options: expected tuple[",
    ),
    "a kind of server": Broken(
        registry.SITE_GROUP, "build", "def build(endpoints, access, scenarios): ...\n",
        ", scenarios", "",
        "__call__: expected a method that takes (endpoints, access, scenarios), found a method that"
        " takes (endpoints, access)",
    ),
    "an API of servers": Broken(
        registry.SERVER_GROUP, "serve",
        "def serve(workload, options, *, checkpoint, listen, files): ...\n", ", files", "",
        "__call__: expected a method that takes (workload, options, *, checkpoint, listen, files),"
        " found a method that takes (workload, options, *, checkpoint, listen)",
    ),
    "a reader of prices": Broken(
        registry.PRICE_GROUP, "read", "def read(path): ...\n", "path", "",
        "__call__: expected a method that takes (path), found a method that takes ()",
    ),
    "a verifier of time stamps": Broken(
        registry.TIME_STAMP_GROUP, "Verifier", VERIFIER, ", authorities", "",
        "verify_time_stamp: expected a method that takes (content, digest, authorities), found a"
        " method that takes (content, digest)",
    ),
    "a reader of external meters": Broken(
        registry.METER_GROUP, "Meters", METERS, "opening", "open",
        "opening: expected str, found nothing",
    ),
    "rules": Broken(
        registry.RULE_GROUP, "RULES", RULES, "", "RULES = 3\n",
        "object: expected a module, found an int",
    ),
    "rounds without a file": Broken(
        registry.ROUND_GROUP, "", RULES, "", "",
        "package: expected files *.toml, found none",
    ),
    "schemas without a file": Broken(
        registry.SCHEMA_GROUP, "", RULES, "", "",
        "package: expected files *.json, found none",
    ),
}  # fmt: skip


def offer_broken(folder: Path, broken: Broken) -> Any:
    assert broken.old in broken.text
    value = f"{PACKAGE}:{broken.value}".removesuffix(":")
    files = {"__init__.py": broken.text.replace(broken.old, broken.new, 1) or broken.new}
    return offer_package(folder, PACKAGE, files, [(broken.group, "odd", value)])


@pytest.mark.parametrize("kind", BROKEN)
def test_the_list_tells_which_part_does_not_fit_and_how(kind: str, tmp_path: Path) -> None:
    """Once, with its package, group and name; the workloads are listed as before."""
    with offer_broken(tmp_path, BROKEN[kind]):
        listed = json.loads(format_installed_parts("json"))
        (problem,) = [each for each in listed["problems"] if each["name"] == "odd"]
        told = [line for line in format_installed_parts("text").splitlines() if "'odd'" in line]
    assert BROKEN[kind].told in problem["problem"]
    assert (problem["package"], problem["group"]) == (PACKAGE, BROKEN[kind].group)
    assert len(told) == 1 and f"({BROKEN[kind].group}): {problem['problem']}" in told[0]
    assert "resnet50" in listed["workloads"]


USED = [
    each
    for each, broken in BROKEN.items()
    if broken.group in LOADERS and broken.group not in (registry.ROUND_GROUP, registry.SCHEMA_GROUP)
]


@pytest.mark.parametrize("kind", USED)
def test_its_use_is_refused_with_the_same_sentence(kind: str, tmp_path: Path) -> None:
    """Exit code 3, before anything starts."""
    with offer_broken(tmp_path, BROKEN[kind]), pytest.raises(MissingError) as refused:
        LOADERS[BROKEN[kind].group]("odd")
    assert BROKEN[kind].told in str(refused.value) and PACKAGE in str(refused.value)


@pytest.mark.parametrize("sentence", ["raise SystemExit(9)", "raise ImportError('x')"])
def test_a_package_that_ends_the_program_is_told(tmp_path: Path, sentence: str) -> None:
    """`sys.exit("install ...")` at the top of a module ended `podium list`, without a word."""
    made = f"class Engine:\n    def __init__(self):\n        {sentence}\n"
    files = {"__init__.py": made, "far.py": f"{sentence}\n"}
    points = [
        (registry.ENGINE_GROUP, "made", f"{PACKAGE}:Engine"),
        (registry.ENGINE_GROUP, "far", f"{PACKAGE}.far:Engine"),
    ]
    with offer_package(tmp_path, PACKAGE, files, points):
        told = {each.name: each.sentence for each in iterate_plugin_problems()}
    error = sentence.removeprefix("raise ").partition("(")[0]
    assert f"engine 'made' cannot be made: package {PACKAGE}: {error}" in told["made"]
    assert f"engine 'far' cannot be loaded: package {PACKAGE}.far: {error}" in told["far"]


def test_no_package_takes_the_place_of_a_part_of_podiums(tmp_path: Path) -> None:
    """Its `check` judged in podium's place, and its prices were those of `podium compare`."""
    points = [
        (registry.COMMAND_GROUP, "check", f"{PACKAGE}:command"),
        (registry.PRICE_GROUP, "toml", f"{PACKAGE}:command"),
    ]
    with offer_package(tmp_path, PACKAGE, {"__init__.py": COMMAND}, points, is_first=True):
        for group, name, _ in points:
            assert plugins.is_own_entry_point(registry.map_entry_points(group)[name])
        told = {each.name: each.sentence for each in iterate_plugin_problems()}
    own = f"podium-suite {distribution('podium-suite').version}"
    assert told == dict.fromkeys(("check", "toml"), f"left out: {own} has that name, too")


def test_prices_are_read_by_podiums_reader_or_by_one_that_fits(tmp_path: Path) -> None:
    """`podium compare --per dollar` ended in a traceback; the first name in the alphabet read."""
    text = "def read(path, more): ...\n"
    points = [(registry.PRICE_GROUP, "a", f"{PACKAGE}:read")]
    with offer_package(tmp_path, PACKAGE, {"__init__.py": text}, points):
        assert registry.load_price_reader().__module__ == "extras.cost.prices"
        with (
            hide_extra("cost"),
            pytest.raises(MissingError, match=r"found a method that takes \(path, more\)"),
        ):
            parse_figure_request("dollar", tmp_path / "prices.toml")


def test_options_that_cannot_be_added_are_told(tmp_path: Path) -> None:
    """One that fails ended every `podium infer`; those of another command were never looked for."""
    failing = OPTION.replace("options=()", "options=(lambda command: 1 / 0,)")
    files = {"__init__.py": OPTION, "far.py": failing}
    points = [
        (registry.OPTION_GROUP, "infer.odd", f"{PACKAGE}.far:OPTION"),
        (registry.OPTION_GROUP, "train.odd", f"{PACKAGE}:OPTION"),
    ]
    with offer_package(tmp_path, PACKAGE, files, points):
        told = {each.name: each.sentence for each in iterate_plugin_problems()}
        assert PACKAGE not in {each.resolve.__module__ for each in iterate_added_options("infer")}
    assert "ZeroDivisionError" in told["infer.odd"]
    assert told["train.odd"] == "name: expected infer.OPTION, found 'train.odd'"


def test_a_group_that_nothing_reads_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it offers was never looked for, and nothing said so."""
    described = tmp_path / "podium_odd-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: podium-odd\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[podium.engine]\nodd = podium_odd:Engine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (told,) = [line for line in format_installed_parts("text").splitlines() if "'odd'" in line]
    assert told == (
        "podium-odd 1.0, podium.engine 'odd' (podium.engine): unknown group of entry points"
        " 'podium.engine'; did you mean 'podium.engines'?"
    )


def test_whole_plugins_have_no_problem(tmp_path: Path) -> None:
    for number, broken in enumerate((ENGINE, INPUT, POWER, WORKLOAD, NETWORK, STUDY, COMMAND)):
        group, value = next(
            (each.group, each.value)
            for each in BROKEN.values()
            if each.text == broken and each.value != "score"
        )
        files = {"__init__.py": broken}
        points = [(group, "odd", f"{PACKAGE}:{value}")]
        with offer_package(tmp_path / str(number), PACKAGE, files, points):
            assert list(iterate_plugin_problems()) == []


def test_every_group_is_checked() -> None:
    """A group that was added later, and what is wrong in it was not told."""
    groups = {value for name, value in vars(registry).items() if name.endswith("_GROUP")}
    assert groups == set(LOADERS) == set(GROUP_KINDS)


def test_podiums_own_fit_in_all_parts() -> None:
    """Also those that import a framework, which no command checks before it builds them."""
    for group in (registry.WORKLOAD_GROUP, registry.NETWORK_GROUP, registry.ROUND_KIND_GROUP):
        for name in registry.map_entry_points(group):
            record = registry.load_entry_point(group, "record", name)
            for part in list_part_functions(type(record)):
                if isinstance(getattr(record, part), str):
                    registry.load_part(group, "part", name, record, part)


def test_a_misfit_of_podiums_own_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not pass for a package that is not installed."""
    own = cast(
        EntryPoint,
        EntryPoint("odd", "suite.files.layout:fold_name", registry.WORKLOAD_GROUP)._for(  # type: ignore[attr-defined]  # as importlib.metadata does
            distribution("podium-suite")
        ),
    )
    misfits = find_misfits(resolve_name(own.value), registry.load_workload("resnet50").__class__)
    with pytest.raises(TypeError, match=r"expected a Workload, found the function fold_name"):
        plugins.require_fit(own, "workload", misfits)
