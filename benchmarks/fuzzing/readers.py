"""Every reader of outside bytes, each with real seed files: podium's and LoadGen's own, from one
small campaign.
"""

import datetime
import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from compliance import hyperparameter_check, waivers
from compliance.bundle import archive, manifest
from compliance.kinds.inference_text.documents import entry_files
from compliance.kinds.inference_text.logs import legacy_detail, legacy_summary
from compliance.kinds.podium.documents import checkpoint, inference
from compliance.kinds.podium.documents.system_description import read_podium_system
from compliance.kinds.podium.reader import SCORER_EXCEPTIONS
from compliance.kinds.podium.results import log_values
from compliance.kinds.training.logs import published
from compliance.logs.loadgen import accuracy_counts, accuracy_log, summary
from compliance.logs.mllog import mllog_lines
from compliance.logs.source_file import read_json_document
from compliance.recognition.path_kind import recognise_path
from compliance.recognition.round import recognise_path_round
from extras.cost import prices as cost_prices
from extras.tensorrt import prebuilt
from fuzzing import ledgers
from fuzzing.archives import bundles
from fuzzing.contracts import contracts
from fuzzing.endpoints import answered_runs, audited_entries, client_runs, curves
from fuzzing.histories import histories
from fuzzing.language_models import language_models
from fuzzing.onnx_files import onnx_files
from fuzzing.power_and_signatures import behind_the_seal, powered, sessions
from fuzzing.reading import Reader, each, judged, parsed, shaped
from fuzzing.run_records import beside, likelihoods
from fuzzing.seeds import (
    DESCRIBED,
    EXAMPLES,
    JSON,
    LARGEST_SEED,
    OBJECTS,
    TOML,
    WORKLOAD,
    contents,
    named,
)
from harness import data_manifest as looked
from harness.distributed import SingleRank
from harness.machine import system_description
from harness.serving import checkpoint_selection, harness_ceiling, run_record, staging
from harness.serving.loadgen import result_files as loadgen
from harness.training import export
from harness.training.mllog_writer import MllogWriter
from harness.training.state import checkpointing, set_state
from submissions import published_rows
from submissions.campaign import replacement as campaign_replacement
from submissions.campaign import state as campaign_state
from submissions.compare import compared_results, comparison
from submissions.pack import bundle as package
from submissions.publish import references as published_references
from submissions.score import score
from suite import registry
from suite.files.layout import (
    ACCURACY_LOG,
    ACCURACY_TEXT,
    CHECKPOINT_RECORD,
    DETAIL_LOG,
    MANIFEST_FILE,
    RUN_RECORD,
    STATE_FOLDER,
    SUMMARY_LOG,
)
from suite.files.untrusted_files import read_untrusted_file
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.logged_answers import read_logged_answers
from suite.process.signals import UnheardSignals
from suite.records import RUN_RECORD_DECODER
from suite.rounds.settings import collect_workload_settings, read_chosen_settings
from workloads.common import calibration, weights_description
from workloads.common.detection import coco
from workloads.common.text import parallel_text, references
from workloads.gnmt import scoring as gnmt
from workloads.gnmt.subwords import GNMTSubwords
from workloads.resnet50 import scoring as resnet50
from workloads.resnet50.model import ResNet50Description
from workloads.ssd import scoring as ssd
from workloads.transformer import subwords

TREES: Final = 0.001
"""How often one file of one tree is spoilt, against a reader of a single file."""
ROUND: Final = registry.load_round()
SETTINGS: Final = collect_workload_settings(ROUND, ROUND.benchmark("resnet50"))
FUZZED_DAY: Final = datetime.date(2026, 11, 28)
"""The day on which fuzzed waivers are read."""


class Weights:
    """A training that a checkpoint brings nothing back of."""

    def restore(self, folder: Path) -> None:
        """Do nothing."""


def restored(log: MllogWriter, path: Path) -> object:
    """Go on from a checkpoint."""
    return checkpointing.CheckpointKeeper(
        path.parent.parent, log, SingleRank(), UnheardSignals(), 1e9
    ).restore(Weights())  # type: ignore[arg-type]


def joined(path: Path) -> object:
    """Take up a kept ceiling."""
    kept = harness_ceiling.read_cached_ceiling(path)
    return kept and kept.merge_with_earlier(kept)


def assigned(path: Path) -> object:
    """Take the file for what is typed behind `--set`."""
    return read_chosen_settings(
        SETTINGS, None, [f"lr={path.read_bytes().decode('utf-8', 'replace')}"]
    )


def unpacked(path: Path) -> object:
    """Unpack a bundle into the one folder that may be written to."""
    inside = path.with_name("inside")
    shutil.rmtree(inside, ignore_errors=True)
    inside.mkdir()
    return archive.unpack_bundle(path, inside)


def verified(path: Path) -> object:
    """Verify a bundle and score it."""
    problems = package.list_packed_bundle_problems(path)
    assert all(problem and "\n" not in problem for problem in problems)
    return score.score_paths([path], [])


def compared(root: Path, path: Path) -> object:
    """Score a tree, and hold it against itself."""
    found = compared_results.judge_compared_results([root, root], [])
    return score.score_paths([root], []), comparison.compare_results(found, [str(root)])


def documents(results: Path, work: Path) -> Iterator[Reader]:
    """Records, states and settings."""
    seeds, log = partial(named, results), MllogWriter(work / "position" / "log.txt")
    whole = json.dumps(
        {
            "epoch": 3,
            "step": 7,
            "phase": "inside",
            "log_offset": 0,
            "run_start_ms": 1,
            "scores": {"top1": 0.5},
        }
    ).encode()
    yield Reader(
        name="position",
        file=work / "position" / "at_1" / checkpointing.POSITION_FILE,
        seeds=[whole],
        read=partial(restored, log),
    )
    over = export.StoppedRun(
        outcome=export.TrainingOutcome(
            ending=export.RunEnding.REACHED, scores={"top1": 0.5}, minutes=1.5, epoch=3
        ),
        log_offset=7,
        sha256="ab" * 32,
    )
    at = work / "stopped" / export.STOPPED_RUN_FILE
    yield Reader(
        name="stopped",
        file=at,
        seeds=[msgspec.json.encode(over)],
        read=lambda path: export.read_stopped_run(path.parent),
    )
    kept = harness_ceiling.HostCeiling(
        measured="2026-01-01T00:00:00+00:00",
        busy=0.1,
        samples_per_second={"offline": 1e6, "server": None},
    )
    yield Reader(
        name="ceiling", file=work / "ceiling.json", seeds=[msgspec.json.encode(kept)], read=joined
    )
    place = looked.FolderStamp(files=2, bytes=17, stamp="ab" * 32)
    told = {
        "samples": {"train": 3},
        "hashes": {"a": "ab" * 32},
        "places": {"a": place},
        "found": {"classes": ["x"], "train": {"broken": [1]}},
    }
    noted = looked.DataManifest(
        workload=WORKLOAD, root="/data", settings={"data.merges": 8}, **told
    )  # type: ignore[arg-type]
    sealed = msgspec.json.encode(msgspec.structs.replace(noted, sha256=noted.seal))
    yield Reader(
        name="data-set",
        file=work / "data.json",
        seeds=[sealed],
        read=lambda path: looked.find_data_manifest(path, WORKLOAD),
    )
    built = prebuilt.PrebuiltEngine(
        network="net",
        precision="int8",
        target="sm75",
        file="net-int8-sm75.engine",
        sha256="ab" * 32,
        file_bytes=17,
        weights_bytes=9,
        activation_bytes=None,
        layers=3,
        build_s=0.5,
        profiles="[1, 6]",
        description={"exporter": "dynamo", "range.x": (-1.0, 1.0)},
    )
    plans = prebuilt.PrebuiltManifest(
        workload=WORKLOAD,
        round="podium-v1",
        profile="smoke",
        checkpoint_sha256="ab" * 32,
        library="TensorRT for RTX",
        library_version="1.7.1.116",
        podium_version="0.1.0",
        engines=(built,),
        refused=(prebuilt.RefusedEngine(precision="bf16", target="sm75", reason="lacks it"),),
    )
    yield Reader(
        name="plans",
        file=work / "plans" / prebuilt.MANIFEST_FILE,
        seeds=[msgspec.json.encode(plans)],
        read=lambda path: prebuilt.read_manifest(path.parent),
    )
    at = work / "results" / STATE_FOLDER / f"run-{WORKLOAD}.json"
    yield Reader(
        name="campaign",
        file=at,
        seeds=seeds(at.name),
        read=lambda path: campaign_state.read_campaign_state(work / "results", WORKLOAD),
    )
    at = work / "results" / STATE_FOLDER / WORKLOAD / set_state.SET_STATE_FILE
    states = each(
        lambda path: set_state.read_set_state(work / "results", WORKLOAD),
        lambda path: campaign_state.list_training_states(work / "results", WORKLOAD),
    )
    yield Reader(name="training-state", file=at, seeds=seeds(set_state.SET_STATE_FILE), read=states)
    way = json.dumps(
        {
            "home": "open/acme",
            "standing": ["open/acme/results/box", STATE_FOLDER],
            "displaced": False,
        }
    ).encode()
    ways = each(
        lambda path: read_untrusted_file(path, staging.COMPLETE_RUNS_DECODER.decode),
        lambda path: campaign_replacement.read_campaign_move(path.parent),
    )
    yield Reader(
        name="on-its-way",
        file=work / "way" / campaign_replacement.CAMPAIGN_MOVE_FILE,
        seeds=[way],
        read=ways,
    )
    folder = work / "record"
    exported = each(
        lambda path: checkpoint_selection.read_exported_checkpoint(path.parent),
        parsed(lambda source: checkpoint.read_checkpoint_file(source, [], ROUND)),
    )
    yield Reader(
        name="checkpoint",
        file=folder / CHECKPOINT_RECORD,
        seeds=seeds(CHECKPOINT_RECORD),
        read=each(exported, partial(shaped, "checkpoint.json")),
    )
    runs = each(
        lambda path: run_record.find_served_run(path.parent),
        lambda path: log_values.read_loadgen_run_record(path.parent),
        parsed(lambda source: read_json_document(source, RUN_RECORD_DECODER)),
        partial(shaped, "run.json"),
    )
    yield Reader(name="run", file=work / "run" / RUN_RECORD, seeds=seeds(RUN_RECORD), read=runs)
    measured = each(
        lambda path: log_values.read_reference_accuracy(path.parent),
        parsed(lambda source: read_json_document(source, inference.MEASUREMENTS_DECODER)),
    )
    at = (
        work
        / "open"
        / "acme"
        / "measurements"
        / "box"
        / "resnet50"
        / "Offline"
        / "box_podium_Offline.json"
    )
    measured = each(measured, partial(shaped, "measurements.json"))
    yield Reader(name="measurements", file=at, seeds=seeds("*_podium_*.json"), read=measured)
    described = each(
        manifest.read_run_environment,
        parsed(lambda source: read_podium_system(source, None, ROUND)),
        partial(shaped, "system-description.json"),
    )
    yield Reader(
        name="system",
        file=work / "system.json",
        seeds=contents(results.rglob("systems/*.json")),
        read=described,
    )
    given = each(
        lambda path: read_chosen_settings(SETTINGS, path, []),
        lambda path: hyperparameter_check.judge_config(path, "resnet50", None),
        assigned,
    )
    yield Reader(name="config", file=work / "settings.toml", seeds=[TOML, DESCRIBED], read=given)
    yield Reader(
        name="config-json",
        file=work / "settings.json",
        seeds=[JSON],
        read=lambda path: hyperparameter_check.judge_config(path, None, None),
    )
    rows = (published_rows.PUBLISHED_ROWS_FOLDER / "training-v0.5.csv").read_bytes()
    yield Reader(
        name="published-rows",
        file=work / "rows.csv",
        seeds=[rows],
        read=lambda path: published_rows.read_published_rows(str(path)),
    )
    prices = (
        b'currency = "USD"\ndate = "2026-11-01"\n[[system]]\nmatch = "*"\nhourly = { value = 36.0,'
        b' source = "quote" }\n'
    )
    yield Reader(
        name="prices", file=work / "prices.toml", seeds=[prices], read=cost_prices.read_prices
    )
    table_seed = json.dumps(
        [
            {
                "ID": "5.1-0001",
                "Location": "closed/acme/results/box/resnet50/Offline",
                "Performance_Result": 100.5,
                "Performance_Units": "Samples/s",
                "version": "v5.1",
            }
        ]
    )
    yield Reader(
        name="reference-table",
        file=work / "table.json",
        seeds=[table_seed.encode()],
        read=lambda path: published_references.read_published_references([], [path]),
    )
    waivers_seed = (
        b'[[waiver]]\nrule = "training.target"\npath = "."\nby = "us"\nuntil = 2099-01-31\n'
        b'why = "known"\n'
    )
    yield Reader(
        name="waivers",
        file=work / "waivers.toml",
        seeds=[waivers_seed],
        read=lambda path: waivers.read_waivers(path, FUZZED_DAY),
    )
    fields = dict.fromkeys(
        ("hw_notes", "number_of_nodes", "host_processor_core_count", "accelerator_memory_capacity")
    )
    yield Reader(
        name="system-file",
        file=work / "system.toml",
        seeds=[DESCRIBED, TOML],
        read=lambda path: system_description.read_system_file(path, fields),
    )


def logs(results: Path, work: Path) -> Iterator[Reader]:
    """LoadGen's files and training logs."""
    seeds = partial(named, results)
    for name, patterns, parsers in (
        (
            "training-log",
            ("result_*.txt",),
            (mllog_lines.read_mllog_records, published.read_published_records),
        ),
        (
            "detail-log",
            (DETAIL_LOG,),
            (mllog_lines.read_mllog_records, legacy_detail.read_legacy_detail),
        ),
        (
            "summary",
            (SUMMARY_LOG,),
            (summary.read_loadgen_summary, legacy_summary.read_legacy_summary),
        ),
        (
            "accuracy-log",
            (ACCURACY_LOG,),
            (accuracy_log.index_accuracy_log, accuracy_counts.count_accuracy_answers),
        ),
    ):
        yield Reader(
            name=name,
            file=work / name / "log.txt",
            seeds=seeds(*patterns),
            read=each(*map(parsed, parsers)),
            share=2,
        )
    for name in (DETAIL_LOG, ACCURACY_LOG):
        run = shutil.copytree(
            next(results.rglob(f"accuracy/{name}")).parent, work / f"whole-{name}"
        )
        yield Reader(
            name=f"harness-{name}",
            file=run / name,
            seeds=contents(results.rglob(name)),
            read=partial(whole, run),
        )
    told = each(parsed(inference.read_accuracy_scores), entry_files.read_claims)
    yield Reader(
        name="accuracy-text", file=work / ACCURACY_TEXT, seeds=seeds(ACCURACY_TEXT), read=told
    )
    seen = seeds("result_0.txt", DETAIL_LOG, RUN_RECORD)
    yield Reader(
        name="round-of",
        file=work / "any" / RUN_RECORD,
        seeds=seen,
        read=lambda path: recognise_path_round(recognise_path(path)),
    )


def whole(run: Path, path: Path) -> object:
    """Read a LoadGen run as the harness does."""
    count = "result_query_count"
    return each(
        lambda _: loadgen.check_loadgen_files(run),
        lambda _: read_detail_log(run).require_number(count),
        lambda _: dict(read_logged_answers(run)),
    )(path)


def data(work: Path) -> Iterator[Reader]:
    """What workloads read: lists, annotations, vocabularies and truths."""
    table = json.dumps(OBJECTS).encode()
    samples = {0: b"", 1: b"\0" * 28, 2: b"\xff" * 56}
    yield Reader(
        name="calibration",
        file=work / "list.txt",
        seeds=[b"a/b.jpg\nc.jpg\n\xc3\xa9.jpg\n"],
        read=calibration.read_calibration_list,
    )
    at = work / "coco" / "annotations" / "instances_val2017.json"
    yield Reader(
        name="annotations",
        file=at,
        seeds=[table],
        read=lambda path: coco.read_coco_split(work / "coco", "val"),
    )
    at = work / "truth" / coco.TRUTH_ANNOTATIONS_FILE
    yield Reader(
        name="truth-boxes",
        file=at,
        seeds=[table],
        read=lambda path: ssd.score(samples, path.parent),
        raises=SCORER_EXCEPTIONS,
        share=0.1,
    )
    at = work / "truth" / references.REFERENCES_FILE
    yield Reader(
        name="references",
        file=at,
        seeds=[b"one sentence\nanother one\n"],
        read=lambda path: references.read_references(path.parent),
        raises=SCORER_EXCEPTIONS,
    )
    at = work / "truth" / resnet50.RESNET50_LABELS_FILE
    yield Reader(
        name="labels",
        file=at,
        seeds=[b"1\n0\n7\n"],
        read=lambda path: resnet50.score(samples, path.parent),
        raises=SCORER_EXCEPTIONS,
    )
    at, tokens = (
        work / "words" / gnmt.GNMT_VOCABULARY_FILE,
        "\n".join((*gnmt.GNMT_SPECIAL_TOKENS, "a", "b", "c", "")).encode(),
    )
    yield Reader(
        name="vocabulary",
        file=at,
        seeds=[tokens],
        read=lambda path: gnmt.read_gnmt_vocabulary(path.parent),
        raises=SCORER_EXCEPTIONS,
    )
    merges = work / "merges"
    merges.mkdir()
    (merges / gnmt.GNMT_VOCABULARY_FILE).write_bytes(tokens)
    codes = [b"#version: 0.2\na b\nb c</w>\n"]
    yield Reader(
        name="merges",
        file=merges / "bpe.codes",
        seeds=codes,
        read=lambda path: GNMTSubwords.read_subwords(path.parent),
        share=0.3,
    )
    quoted = "".join(
        f"'{word}'\n"
        for word in (*subwords.RESERVED_SUBTOKENS, *sorted(subwords.ESCAPE_CHARACTERS), "ab", "c_")
    ).encode()
    yield Reader(
        name="subtokens",
        file=work / "vocab.txt",
        seeds=[quoted],
        read=subwords.read_subtoken_vocabulary,
    )
    at = work / "text" / "val.en"
    at.parent.mkdir()
    (at.parent / "val.de").write_bytes(b"ein Satz\nnoch einer\n")
    for skip in (False, True):
        pairs = partial(parallel_text.read_parallel_text, at.parent, "val", skip=skip)
        yield Reader(
            name=f"sentences-{skip}",
            file=at,
            seeds=[b"a sentence\nanother one\n"],
            read=lambda path, pairs=pairs: pairs(),
        )
    at = work / "model" / weights_description.DESCRIPTION_FILE
    model = [
        json.dumps(
            {"workload": "resnet50", "width": 8, "classes": 12, "framework": "torch"}
        ).encode()
    ]
    yield Reader(
        name="description",
        file=at,
        seeds=model,
        read=lambda path: weights_description.read_weights_description(
            path.parent, ResNet50Description, "resnet50"
        ),
    )


def sealed(results: Path, work: Path) -> Iterator[Reader]:
    """Bundles, and the manifest in them."""
    (bundle,) = results.rglob("*.tar.zst")
    archive.unpack_bundle(bundle, work / "bundle")
    told = each(
        manifest.read_unpacked_manifest_or_none,
        lambda folder: list(manifest.check_bundle_manifest(folder)),
    )
    seeds = [(work / "bundle" / MANIFEST_FILE).read_bytes()]
    yield Reader(
        name="manifest",
        file=work / "bundle" / MANIFEST_FILE,
        seeds=seeds,
        read=lambda path: told(path.parent),
        share=0.2,
    )
    lines = each(parsed(ledgers.judged), ledgers.gone_on_with)
    yield Reader(
        name="ledger",
        file=ledgers.place(work, WORKLOAD),
        seeds=named(results, "ledger/*.jsonl"),
        read=lines,
        share=0.5,
    )
    packed = [bundle.read_bytes(), *contents(EXAMPLES.rglob("*.tar.zst"))]
    yield Reader(
        name="archive",
        file=work / "x.tar.zst",
        seeds=packed,
        read=unpacked,
        share=0.1,
        make=bundles,
    )
    yield Reader(
        name="verify",
        file=work / "y.tar.zst",
        seeds=packed,
        read=verified,
        share=0.02,
        make=bundles,
    )


def trees(results: Path, work: Path) -> Iterator[Reader]:
    """Whole results, of which one file is spoilt."""
    for number, tree in enumerate(
        [results, *sorted(path for path in EXAMPLES.iterdir() if path.is_dir())]
    ):
        root = shutil.copytree(
            tree, work / f"tree-{number}", ignore=shutil.ignore_patterns("bundles", STATE_FOLDER)
        )
        files = [
            path
            for path in sorted(root.rglob("*"))
            if path.is_file() and path.stat().st_size <= LARGEST_SEED
        ]
        for path in files[:: max(1, len(files) // 12)]:
            calls = each(
                partial(judged, root),
                partial(compared, root),
                lambda _, root=root: package.pack_results(root, work / "packed.tar.zst"),
            )
            yield Reader(
                name=f"judge/{tree.name}/{path.relative_to(root)}",
                file=path,
                seeds=[path.read_bytes()],
                read=calls,
                share=TREES,
            )


def readers(results: Path, work: Path) -> list[Reader]:
    """Name them all, with a place for each in a folder."""
    runs = [*logs(results, work), *beside(results, work), *powered(results, work), *sessions(work)]
    found = [
        *documents(results, work),
        *runs,
        *likelihoods(work),
        *behind_the_seal(work),
        *contracts(work),
        *histories(work),
        *data(work),
        *language_models(work),
        *onnx_files(work),
        *sealed(results, work),
        *client_runs(work),
        *answered_runs(work),
        *audited_entries(work),
        *curves(work),
        *trees(results, work),
    ]
    for reader in found:
        reader.file.parent.mkdir(parents=True, exist_ok=True)
        assert reader.seeds, f"{reader.name} has nothing to begin with"
    return found
