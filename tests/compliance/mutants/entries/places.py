"""Mutants of inference entries: folders, settings files and audits."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from ..kinds import Kinds
from .kinds import DETAIL, SUMMARY, Entry, field, of_scenarios, to

PLACED: Kinds[Entry] = Kinds()
SCENARIOS: Final = ("SingleStream", "MultiStream", "Server", "Offline")
MODELS: Final = ("resnet", "mobilenet", "ssd-small", "ssd-large", "gnmt")


def renamed(entry: Entry, system: str, model: str, scenario: str) -> bool:
    """Move an entry with its measurements to another name."""
    folder = entry.home / "results" / system / model / scenario
    measurements = entry.home / "measurements" / system / model / scenario
    if folder.exists() or measurements.exists():
        return False
    entry.undo.rename(entry.measurements, measurements)
    entry.undo.rename(entry.folder, folder)
    entry.folder = folder
    return True


@PLACED.add("the folder's scenario")
def scenario_folder_of_another(entry: Entry) -> bool:
    return any(
        renamed(entry, entry.system, entry.model, name)
        for name in SCENARIOS
        if name != entry.scenario
    )


@PLACED.add("the four scenarios")
def scenario_folder_unknown(entry: Entry) -> bool:
    return renamed(entry, entry.system, entry.model, "Streaming")


@PLACED.add("the folder's benchmark")
def model_folder_of_another(entry: Entry) -> bool:
    other = "gnmt" if entry.model != "gnmt" else "resnet"
    return renamed(entry, entry.system, other, entry.scenario)


@PLACED.add("the round's benchmarks")
def model_folder_unknown(entry: Entry) -> bool:
    return entry.closed and renamed(entry, entry.system, "vgg16", entry.scenario)


@PLACED.add("a system that is described")
def system_folder_unknown(entry: Entry) -> bool:
    return renamed(entry, "another_machine", entry.model, entry.scenario)


@PLACED.add("code/<model>/")
def code_of_another_model(entry: Entry) -> bool:
    folder = entry.home / "code" / entry.model
    return entry.undo.rename(folder, folder.with_name(entry.model + "-old"))


@PLACED.add("performance/run_1")
def run_folder_of_another_name(entry: Entry) -> bool:
    return entry.undo.rename(entry.runs[0], entry.runs[0].with_name("trial"))


@PLACED.add("the folder's division")
def division_folder_of_another(entry: Entry) -> bool:
    home = entry.home.parent.with_name("open" if entry.closed else "closed") / entry.home.name
    folder = home / entry.folder.relative_to(entry.home)
    entry.undo.rename(entry.home, home)
    entry.home, entry.folder = home, folder
    return True


def conf(name: str, change: Callable[[str, str], str]) -> Callable[[Entry], bool]:
    """Change a settings file; the scenario is the second argument."""
    return lambda entry: (
        entry.closed
        and entry.undo.edit(entry.measurements / name, lambda text: change(text, entry.scenario))
    )


def asking(name: str, value: object) -> Callable[[str, str], str]:
    """Put a setting of the scenario in at the end, for every model."""
    return lambda text, scenario: f"{text.rstrip()}\n*.{scenario}.{name} = {value}\n"


def in_rules(name: str, value: object) -> Callable[[str, str], str]:
    """Change a setting of the scenario wherever it stands."""
    return lambda text, scenario: re.sub(
        rf"(?m)^(\S+\.(?:{scenario}|\*)\.{name} = ).*$", rf"\g<1>{value}", text
    )


MANY: Final = ("SingleStream", "MultiStream", "Server")
BOUND: Final = ("MultiStream", "Server")
for name in ("mlperf.conf", "user.conf"):
    short = name.partition(".")[0]
    PLACED.put(f"{short}_asks_for_ten_seconds", conf(name, asking("min_duration", 10000)), "60 s")
    PLACED.put(
        f"{short}_asks_for_few_queries",
        of_scenarios(MANY, conf(name, asking("min_query_count", 100))),
        "the scenario's number of queries",
    )
    PLACED.put(
        f"{short}_asks_for_a_wider_bound",
        of_scenarios(BOUND, conf(name, asking("target_latency", 1000))),
        "the benchmark's bound",
    )
    PLACED.put(
        f"{short}_asks_for_a_lower_percentile",
        of_scenarios(BOUND, conf(name, asking("target_latency_percentile", 50))),
        "the benchmark's percentile",
    )
    for seed in ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"):
        PLACED.put(
            f"{short}_asks_for_another_{seed}", conf(name, asking(seed, 11)), "the round's seeds"
        )
PLACED.put(
    "mlperf_rules_for_ten_seconds", conf("mlperf.conf", in_rules("min_duration", 10000)), "60 s"
)
PLACED.put(
    "mlperf_rules_for_few_queries",
    of_scenarios(MANY, conf("mlperf.conf", in_rules("min_query_count", 100))),
    "the scenario's number of queries",
)
PLACED.put(
    "mlperf_rules_for_a_wider_bound",
    of_scenarios(BOUND, conf("mlperf.conf", in_rules("target_latency", 1000))),
    "the benchmark's bound",
)
PLACED.put(
    "mlperf_rules_for_a_lower_percentile",
    of_scenarios(BOUND, conf("mlperf.conf", in_rules("target_latency_percentile", 50))),
    "the benchmark's percentile",
)
PLACED.put(
    "mlperf_rules_for_another_seed",
    conf("mlperf.conf", in_rules("schedule_rng_seed", 11)),
    "the round's seeds",
)


PLACED.put(
    "user_conf_of_another_rate",
    of_scenarios(("Server", "Offline"), conf("user.conf", in_rules("target_qps", 777777))),
    "the settings that were used",
)
PLACED.put(
    "user_conf_of_other_queries",
    of_scenarios(("MultiStream",), conf("user.conf", in_rules("samples_per_query", 777))),
    "the settings that were used",
)


@PLACED.add("closed or open")
def division_unknown(entry: Entry) -> bool:
    home = entry.home.parent.with_name("ajar") / entry.home.name
    if not entry.undo.rename(entry.home, home):
        return False
    entry.folder = home / entry.folder.relative_to(entry.home)
    entry.home = home
    return True


@PLACED.add("the test's own seeds")
def test05_with_the_seeds_of_the_result(entry: Entry) -> bool:
    logs = sorted(entry.audit.rglob(f"TEST05/performance/*/{DETAIL}"))
    return bool(logs) and entry.undo.edit(
        logs[0], lambda text: re.sub(r"(\bqsl_rng_seed : )\d+", r"\g<1>3133965575612453542", text)
    )


def verifications(entry: Entry, part: str) -> Iterator[Path]:
    """Yield the files that say that an audit test passed."""
    yield from (
        path
        for path in sorted(entry.audit.rglob("*verify*.txt"))
        if part in path.name and re.search(r"PASS", path.read_text("latin-1"))
    )


def verified(part: str, change: Callable[[str], str]) -> Callable[[Entry], bool]:
    """Change the first such file."""
    return lambda entry: (
        (path := next(verifications(entry, part), None)) is not None
        and entry.undo.edit(path, change)
    )


def scored(name: str) -> Callable[[Entry], bool]:
    """Give a score of the first performance test whose own run is filed another value."""

    def change(entry: Entry) -> bool:
        path = next(
            (
                path
                for path in verifications(entry, "performance")
                if name in path.read_text("latin-1")
                and any(path.parent.glob(f"performance/*/{SUMMARY}"))
            ),
            None,
        )
        return path is not None and entry.undo.edit(
            path,
            lambda text: re.sub(
                rf"({name} = )(\S+)", lambda match: f"{match[1]}{float(match[2]) * 9:.6g}", text
            ),
        )

    return change


for part in ("performance", "accuracy"):
    PLACED.put(
        f"audit_{part}_failed",
        verified(part, lambda text: text.replace("TEST PASS", "TEST FAIL").replace("PASS", "FAIL")),
        "audit tests pass",
    )
    PLACED.put(
        f"audit_{part}_without_an_end",
        verified(
            part,
            lambda text: "".join(
                line for line in text.splitlines(keepends=True) if "PASS" not in line
            ),
        ),
        "audit tests say how they ended",
    )
    PLACED.put(
        f"audit_{part}_empty", verified(part, lambda text: ""), "audit tests say how they ended"
    )
PLACED.put("audit_test_much_slower", scored("test score"), "10 % at most between the runs")
PLACED.put(
    "audit_of_another_result", scored("reference score"), "the reference is this entry's result"
)
PLACED.put(
    "audit_of_differing_answers",
    verified(
        "accuracy",
        lambda text: text.replace(
            "num_perf_log_data_mismatch = 0", "num_perf_log_data_mismatch = 4000"
        ),
    ),
    "no mismatch",
)


def audited(change: Callable[[str], str], name: str) -> Callable[[Entry], bool]:
    """Change the first such log of the audit."""
    return lambda entry: (
        (path := next(iter(sorted(entry.audit.rglob(f"TEST01/performance/*/{name}"))), None))
        is not None
        and entry.undo.edit(path, change)
    )


PLACED.put(
    "audit_run_invalid", audited(field("Result is", to("INVALID")), SUMMARY), "audit runs are valid"
)
