"""A submission to MLPerf Endpoints from a curve of podium's: one point for each number of requests
in flight, with the summary computed from LoadGen's and podium's records of its run.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from compliance.results.submission_forms import CurveForm
from submissions.curves.podium_curve import is_podium_curve
from submissions.submit.tree import (
    Submission,
    WritingOptions,
    copy_files,
    copy_given_folder,
    load_form,
    read_stated_tables,
    refuse_stated_facts,
    write_submission,
)
from suite import registry
from suite.errors import JudgedError, RequestError
from suite.files.json_files import write_json
from suite.files.layout import DETAIL_LOG, RUN_RECORD, SUMMARY_LOG, SYSTEM_RECORD
from suite.rounds.endpoints_curve import EndpointsRound
from suite.served_identity import drop_unstated
from suite.studies.client_summary import (
    CONCURRENCY_PATTERN,
    describe_client_run,
    select_client_seeds,
)
from suite.studies.concurrency_curve import DURATION_SETTING
from suite.studies.kind import StudiedRow
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.run_facts import RunFacts, read_run_facts

KNOWN_TABLES: Final = ("system", "point", "power")
"""Of `--system-file`: system_desc.json, point.yaml, system_power.json."""
SHARED_FIELDS: Final = ("division", "max_supported_concurrency")
"""Fields that stand in the description of the system and in each point."""
MAXIMUM_FIELD: Final = "max_supported_concurrency"
EVIDENCE_FILES: Final = (
    SUMMARY_LOG,
    DETAIL_LOG,
    "mlperf_log_accuracy.json",
    RUN_RECORD,
    SYSTEM_RECORD,
    "point.json",
    "queries.npy",
    "tokens.npy",
    "starts.npy",
    "usage.npy",
    "arrivals.npy",
    "gaps.npy",
    "rooms.npy",
    "telemetry.jsonl",
)
CODE_FOLDER: Final = "src/podium"
DOCS_FOLDER: Final = "docs"
POINT_SEEDS: Final[Mapping[str, str]] = {
    "scheduler_rng_seed": "scheduler_random_seed",
    "sample_index_rng_seed": "dataloader_random_seed",
}
"""Seed of a set -> its name in the client's configuration."""
CONFIG_HEADER: Final = "# The settings of podium's LoadGen run, in the client's fields.\n"
HINTS: Final[Mapping[str, str]] = {
    "endpoints.disclosure": "state them in [point] of --system-file (division and"
    " max_supported_concurrency in [system]).",
    "endpoints.system_fields": "state them in [system] of --system-file, those of a node in"
    " [[system.node_types]].",
    "endpoints.system_status": "state it in [system] of --system-file.",
    "endpoints.warm_up": "state it in [point.warmup] of --system-file.",
    "endpoints.regions": "trace the missing points, and state max_supported_concurrency in [system]"
    " of --system-file.",
    "endpoints.offline_present": "state max_supported_concurrency in [system] of --system-file:"
    " the point with as many requests in flight is elected as Offline.",
    "endpoints.points": "podium curve --points with more numbers; podium keeps the measured ones.",
    "endpoints.point_duration": "podium curve --profile full with --seconds 600, above 32 requests"
    " in flight 1200.",
    "endpoints.whole_passes": "podium curve issues what fills its time; the round asks for whole"
    " passes over its own data set.",
    "endpoints.seed_set": "podium-v1 has LoadGen's seeds, not those of a published set: measure the"
    " point with the client of the round.",
    "endpoints.accuracy_points": "podium curve makes no accuracy runs: score the points with the"
    " client of the round, and add accuracy_results.json.",
    "endpoints.tree": "name the folder of your documents with --docs.",
    "endpoints.shared_paths": "name the folder of your documents with --docs.",
    "endpoints.power": "state it in [power] of --system-file.",
    "endpoints.data_set": "podium curve --profile full with the benchmark's data set.",
    "file.present": "state the power of the system in [power] of --system-file.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveOptions:
    """What `podium submit endpoints` is told beside the curve."""

    round: str
    org: str
    name: str | None
    """Of the submission; the system's, if nobody says another."""
    system: str | None
    system_file: Path | None
    code: Path | None
    docs: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSource:
    """A curve with all that its submission is made of."""

    folder: Path
    study: MeasuredStudy
    form: CurveForm
    options: CurveOptions
    tables: Mapping[str, Mapping[str, Any]]
    """What the user states."""
    benchmark: str
    """Name of the round."""
    system: str

    @property
    def round(self) -> EndpointsRound:
        """Return the round."""
        return self.form.round

    @property
    def rows(self) -> Sequence[StudiedRow]:
        """Return the points that were measured."""
        return [each for each in self.study.rows if each.studied.runs]


def submit_curve(folder: Path, options: CurveOptions, writing: WritingOptions) -> None:
    """Write the submission of a curve."""
    source = read_curve_source(folder, options)
    root = f"{options.org}/{options.name or source.system}"
    write_submission(
        Submission(
            round=options.round,
            title=f"{source.benchmark} on {source.system}, {len(source.rows)} points",
            root=root,
            build=lambda tree: build_curve_tree(source, tree / root),
            notes=describe_choices(source),
            hints=HINTS,
        ),
        writing,
    )


def read_curve_source(folder: Path, options: CurveOptions) -> CurveSource:
    """Read a curve and what is told of it; RequestError for what is no curve of a benchmark."""
    if not is_podium_curve(folder):
        raise RequestError(f"{folder}: is no curve of podium's; see podium curve")
    form: CurveForm = load_form(options.round, CurveForm)
    study = read_measured_study(folder)
    subject = study.subject
    if subject.prompts:
        raise RequestError(f"{folder}: a curve of own prompts is of no benchmark of the round")
    if not any(each.studied.runs for each in study.rows):
        raise JudgedError(f"{folder}: no point was measured")
    name = registry.load_round().benchmark(subject.workload).inference_name
    benchmark = form.round.find_model_name(name)
    if benchmark is None:
        known = ", ".join(form.round.models)
        raise RequestError(f"{folder}: {name} is no benchmark of {options.round}: {known}")
    tables = read_stated_tables(options.system_file, KNOWN_TABLES)
    for field in SHARED_FIELDS:
        if field in tables["point"]:
            raise RequestError(f"--system-file: [point] {field}: state it in [system]")
    return CurveSource(
        folder=folder,
        study=study,
        form=form,
        options=options,
        tables=tables,
        benchmark=benchmark,
        system=options.system or subject.system,
    )


def describe_choices(source: CurveSource) -> list[str]:
    """Say what podium chose, and what a submission of a curve of podium's is not."""
    repeated = [each for each in source.rows if len(each.studied.runs) > 1]
    lines = [
        "measured by podium with LoadGen, not by the client of the round:"
        " result_summary.json is computed from the records beside it"
    ]
    if repeated:
        lines.append(f"{len(repeated)} points have several runs: the first run of each is used")
    return lines


def build_curve_tree(source: CurveSource, root: Path) -> None:
    """Write a submission."""
    description = describe_submitted_system(source)
    for row in source.rows:
        write_point(source, row, root, description)
    if source.tables["power"]:
        home = source.form.locate_system(root, source.system)
        write_json(home / source.form.power_file, dict(source.tables["power"]))
    write_code(source, root)
    if source.options.docs:
        copy_given_folder("--docs", source.options.docs, root / DOCS_FOLDER)


def describe_submitted_system(source: CurveSource) -> dict[str, Any]:
    """Describe the system: its name, and what the user states."""
    return {"system_name": source.system, **source.tables["system"]}


def write_point(
    source: CurveSource, row: StudiedRow, root: Path, description: Mapping[str, Any]
) -> None:
    """Write one point: its first run, what is disclosed of it, and its system."""
    concurrency = row.point.concurrency
    home = source.folder / row.studied.runs[0].folder
    run = read_run_facts(home)
    form = source.form
    folder = form.locate_point(root, source.system, source.benchmark, concurrency)
    folder.mkdir(parents=True)
    summary = json.dumps(describe_client_run(run, concurrency), indent=1, allow_nan=False)
    (folder / form.summary_file).write_text(summary + "\n")
    config = yaml.safe_dump(describe_client_settings(source, run, concurrency), sort_keys=False)
    (folder / form.config_file).write_text(CONFIG_HEADER + config)
    disclosed = yaml.safe_dump(disclose_point(source, run, concurrency), sort_keys=False)
    (folder / form.point_file).write_text(disclosed)
    write_json(folder / form.system_file, dict(description))
    copy_files(home, EVIDENCE_FILES, folder / form.records_folder)


def describe_client_settings(
    source: CurveSource, run: RunFacts, concurrency: int
) -> dict[str, Any]:
    """Describe the settings of a run in the client's fields."""
    network, settings = run.record.network, run.record.system.settings
    streamed = network is None or bool(network.streamed)
    return {
        "model_params": {
            "name": source.benchmark,
            "max_new_tokens": settings.get("decode.max_new_tokens"),
            "streaming": "on" if streamed else "off",
            **({"tokenizer_name": network.tokenizer} if network and network.tokenizer else {}),
        },
        "datasets": [{"name": name_data_set(source), "type": "performance"}],
        "settings": {
            "runtime": {
                "min_duration_ms": run.record.changed.get(DURATION_SETTING),
                **select_client_seeds(run),
            },
            "load_pattern": {"type": CONCURRENCY_PATTERN, "target_concurrency": concurrency},
        },
    }


def name_data_set(source: CurveSource) -> str:
    """Return the name of the data set that a curve was measured with: `full` has the benchmark's
    own, other profiles their own.
    """
    subject = source.study.subject
    row = source.round.find_model(source.benchmark)
    if subject.profile == "full" and row is not None and row.data_set:
        return row.data_set
    return f"podium-{subject.workload}-{subject.profile}"


def disclose_point(source: CurveSource, run: RunFacts, concurrency: int) -> dict[str, Any]:
    """Describe what is disclosed of a point: what podium knows, then what the user states."""
    seeds = select_client_seeds(run)
    stated = dict(source.tables["point"])
    runtime = {name: seeds[theirs] for name, theirs in POINT_SEEDS.items() if theirs in seeds}
    system = source.tables["system"]
    found: dict[str, Any] = {
        "concurrency": concurrency,
        "region": name_region(source, concurrency),
        "offline": "elected" if concurrency == system.get(MAXIMUM_FIELD) else "none",
        "model_name": source.benchmark,
        "model_precision": drop_unstated(source.study.subject.precision),
        "dataset": name_data_set(source),
        "shared_src": CODE_FOLDER,
        "shared_docs": DOCS_FOLDER,
        "runtime_settings": {
            "load_pattern": CONCURRENCY_PATTERN,
            "min_duration_ms": run.record.changed.get(DURATION_SETTING),
            "runtime": runtime,
        },
        **{name: system.get(name) for name in SHARED_FIELDS},
    }
    known = {name: value for name, value in found.items() if value is not None}
    refuse_stated_facts(stated, known, "point")
    return {**known, **stated}


def name_region(source: CurveSource, concurrency: int) -> str | None:
    """Return the region of a point by the highest concurrency that the user states; None without
    one.
    """
    most = source.tables["system"].get(MAXIMUM_FIELD)
    if not isinstance(most, int):
        return None
    least = min(row.point.concurrency for row in source.rows)
    limit = source.round.regions.ultra_low_concurrency
    regions = source.round.compute_regions(min(least, limit), most)
    return regions.find_region(concurrency) if regions else None


def write_code(source: CurveSource, root: Path) -> None:
    """Write the folder of the code: the user's, with the commands that measured the curve."""
    target = root / CODE_FOLDER
    if source.options.code:
        copy_given_folder("--code", source.options.code, target)
    target.mkdir(parents=True, exist_ok=True)
    readme = target / "README.md"
    if not readme.exists():
        readme.write_text(describe_commands(source))


def describe_commands(source: CurveSource) -> str:
    """Describe how the curve was measured: podium's version, and the commands as they were
    given.
    """
    subject = source.study.subject
    commands = "\n".join(
        shlex.join((Path(each[0]).name, *each[1:])) for each in source.study.record.machine.commands
    )
    return (
        f"# {subject.workload} by podium {subject.version}\n\n"
        "Install podium (`podium-suite` of this version), and start the server. Then:\n\n"
        f"```\n{commands}\n```\n"
    )
