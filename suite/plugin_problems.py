"""What other packages offer and podium cannot use: which part of which package does not fit its
contract, and how. `podium list` shows it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint
from tomllib import TOMLDecodeError
from types import ModuleType
from typing import Any, Final

from suite import plugins, registry
from suite.console.added_options import load_added_options
from suite.contracts import Misfit, list_part_functions
from suite.errors import MissingError, PodiumError, RequestError, build_unknown_name_error
from suite.files.package_files import PackageFile, find_point_package, read_package_files
from suite.rounds.kind_checks import find_round_obstacle
from suite.rounds.load import check_round
from suite.workload import WorkloadFramework

GROUP_KINDS: Final = {
    registry.WORKLOAD_GROUP: "workload",
    registry.ENGINE_GROUP: "engine",
    registry.INPUT_GROUP: "input pipeline",
    registry.POWER_GROUP: "power source",
    registry.METER_GROUP: "reader of external meters",
    registry.NETWORK_GROUP: "network",
    registry.FRAMEWORK_GROUP: "framework",
    registry.STUDY_GROUP: "kind of study",
    registry.ROUND_KIND_GROUP: "kind of round",
    registry.RULE_GROUP: "rules",
    registry.COMMAND_GROUP: "command",
    registry.OPTION_GROUP: "option",
    registry.SITE_GROUP: "kind of server",
    registry.SERVER_GROUP: "API",
    registry.PRICE_GROUP: "reader of prices",
    registry.TIME_STAMP_GROUP: "verifier of time stamps",
    registry.ROUND_GROUP: "rounds",
    registry.SCHEMA_GROUP: "schemas",
}
"""Group of entry points -> what each of them is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginProblem:
    """One entry point, or one part of it, that cannot be used."""

    package: str
    group: str
    name: str
    sentence: str
    misfit: Misfit | None = None
    """The part that does not fit; None if nothing could be loaded."""

    def describe_facts(self) -> Mapping[str, str | None]:
        """Return the facts as JSON has them."""
        return {
            "package": self.package,
            "group": self.group,
            "name": self.name,
            "part": self.misfit.part if self.misfit else None,
            "expected": self.misfit.expected if self.misfit else None,
            "found": self.misfit.found if self.misfit else None,
            "problem": self.sentence,
        }


def iterate_plugin_problems() -> Iterator[PluginProblem]:
    """Yield what is wrong with other packages' entry points. Each is loaded with the parts that
    import no framework; a Training or an Inference is checked when it is built.
    """
    for group in GROUP_KINDS:
        chosen = registry.map_entry_points(group)
        for point in plugins.select_entry_points(group):
            if plugins.is_own_entry_point(point):
                continue
            if chosen[point.name] is point:
                yield from find_point_problems(group, point.name, point)
            else:
                package = plugins.describe_package(chosen[point.name])
                yield build_problem(point, f"left out: {package} has that name, too")
    for point in plugins.list_unknown_points(GROUP_KINDS):
        error = build_unknown_name_error("group of entry points", point.group, GROUP_KINDS)
        yield build_problem(point, str(error))


def find_point_problems(group: str, name: str, point: EntryPoint) -> Iterator[PluginProblem]:
    try:
        LOADERS[group](name)
    except plugins.MisfitError as error:
        for misfit in error.misfits:
            yield build_problem(point, str(misfit), misfit)
    except PodiumError as error:
        yield build_problem(point, str(error))
    except (Exception, SystemExit) as error:  # another package's code may raise anything
        yield build_problem(point, plugins.describe_broken_package(point, error))


def build_problem(point: EntryPoint, sentence: str, misfit: Misfit | None = None) -> PluginProblem:
    return PluginProblem(
        package=plugins.describe_package(point),
        group=point.group,
        name=point.name,
        sentence=sentence,
        misfit=misfit,
    )


def load_whole_workload(name: str) -> None:
    load_light_parts(registry.WORKLOAD_GROUP, name, registry.load_workload(name))
    for group, check in (
        (registry.ROUND_GROUP, check_round_file),
        (registry.SCHEMA_GROUP, check_schema_file),
    ):
        for file in list_offered_files(
            registry.WORKLOAD_GROUP, name, registry.WORKLOAD_FILES[group]
        ):
            check(file)


def load_whole_network(name: str) -> None:
    load_light_parts(registry.NETWORK_GROUP, name, registry.load_network_record(name))


def load_light_parts(group: str, name: str, record: Any) -> None:
    for part, function in list_part_functions(type(record)).items():
        if function.is_light:
            registry.load_part(group, GROUP_KINDS[group], name, record, part)


def load_whole_framework(name: str) -> None:
    registry.load_record(WorkloadFramework, registry.FRAMEWORK_GROUP, "framework", name)


def load_rule_module(name: str) -> None:
    registry.load_record(ModuleType, registry.RULE_GROUP, "rules", name)


def load_files(group: str, pattern: str, check: Callable[[PackageFile], None], name: str) -> None:
    """Check the files that a package of a group brings; it has at least one."""
    files = list_offered_files(group, name, pattern)
    if not files:
        misfit = Misfit(part="package", expected=f"files {pattern}", found="none")
        plugins.require_fit(registry.map_entry_points(group)[name], GROUP_KINDS[group], [misfit])
    for file in files:
        check(file)


def list_offered_files(group: str, name: str, pattern: str) -> list[PackageFile]:
    point = registry.map_entry_points(group)[name]
    return read_package_files(point, find_point_package(point), pattern)


def check_round_file(file: PackageFile) -> None:
    """Raise what keeps a file from being a round, or from joining one."""
    if file.round == registry.COMPATIBILITY_STEM:
        return
    own = [
        each.text
        for each in registry.list_round_files()
        if each.round == file.round and plugins.is_own_entry_point(each.point)
    ]
    try:
        check_round(file.round, [*own, file.text])
    except (RequestError, TOMLDecodeError, RecursionError) as error:
        raise RequestError(f"{file.path}: {error}") from error
    if obstacle := find_round_obstacle(file.round):
        raise MissingError(obstacle)


def check_schema_file(file: PackageFile) -> None:
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(json.loads(file.text))
    except (ValueError, SchemaError) as error:
        raise RequestError(f"{file.path}: {' '.join(str(error).split())}") from error


LOADERS: Final[Mapping[str, Callable[[str], Any]]] = {
    registry.WORKLOAD_GROUP: load_whole_workload,
    registry.ENGINE_GROUP: registry.load_engine,
    registry.INPUT_GROUP: registry.load_input_pipeline,
    registry.POWER_GROUP: registry.load_power_source,
    registry.METER_GROUP: registry.load_external_meters,
    registry.NETWORK_GROUP: load_whole_network,
    registry.FRAMEWORK_GROUP: load_whole_framework,
    registry.STUDY_GROUP: registry.load_study_kind,
    registry.ROUND_KIND_GROUP: registry.load_kind,
    registry.RULE_GROUP: load_rule_module,
    registry.COMMAND_GROUP: registry.load_click_command,
    registry.OPTION_GROUP: load_added_options,
    registry.SITE_GROUP: registry.load_site_builder,
    registry.SERVER_GROUP: registry.load_server_starter,
    registry.PRICE_GROUP: registry.load_price_reader,
    registry.TIME_STAMP_GROUP: registry.load_time_stamp_verifier,
    registry.ROUND_GROUP: partial(load_files, registry.ROUND_GROUP, "*.toml", check_round_file),
    registry.SCHEMA_GROUP: partial(load_files, registry.SCHEMA_GROUP, "*.json", check_schema_file),
}
"""Group of entry points -> what loads one, and raises what is wrong with it."""
