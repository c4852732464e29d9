"""For each rule one small result that keeps it and one that breaks it.

The tests write them to tests/examples (tests/shared/judged_examples.py). After a change of a rule
or an example, `PYTHONPATH=tests/compliance/builders:tests/shared python
tests/compliance/builders/examples.py` writes the findings that `podium explain` shows, too. A valid
example that is a base as it stands is a link to it.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import making
from kinds.audits import BASES as AUDIT_BASES
from kinds.audits import INVALID as AUDIT_INVALID
from kinds.audits import KINDS as AUDIT_KINDS
from kinds.audits import VALID as AUDIT_VALID
from kinds.calibration import BASES as CALIBRATION_BASES
from kinds.calibration import INVALID as CALIBRATION_INVALID
from kinds.calibration import VALID as CALIBRATION_VALID
from kinds.endpoints import BASES as ENDPOINTS_BASES
from kinds.endpoints import INVALID as ENDPOINTS_INVALID
from kinds.endpoints import KINDS as ENDPOINTS_KINDS
from kinds.endpoints import VALID as ENDPOINTS_VALID
from kinds.endpoints_curves import BASES as CURVE_BASES
from kinds.endpoints_curves import INVALID as CURVE_INVALID
from kinds.endpoints_curves import VALID as CURVE_VALID
from kinds.history import BASES as HISTORY_BASES
from kinds.history import INVALID as HISTORY_INVALID
from kinds.history import KINDS as HISTORY_KINDS
from kinds.inference import (
    INFERENCE_BASES,
    INFERENCE_INVALID,
    INFERENCE_KEPT,
    INFERENCE_KINDS,
    INFERENCE_VALID,
)
from kinds.ledger import BASES as LEDGER_BASES
from kinds.ledger import INVALID as LEDGER_INVALID
from kinds.ledger import KINDS as LEDGER_KINDS
from kinds.ledger import VALID as LEDGER_VALID
from kinds.network import BASES as NETWORK_BASES
from kinds.network import INVALID as NETWORK_INVALID
from kinds.network import KINDS as NETWORK_KINDS
from kinds.network import VALID as NETWORK_VALID
from kinds.power import POWER_BASES, POWER_INVALID, POWER_KINDS
from kinds.power_session import SESSION_BASES, SESSION_INVALID, SESSION_VALID
from kinds.powered_training import TRAINED_BASES, TRAINED_INVALID, TRAINED_VALID
from kinds.rates import BASES as RATE_BASES
from kinds.rates import INVALID as RATE_INVALID
from kinds.rates import KINDS as RATE_KINDS
from kinds.records import RECORD_BASES, RECORD_INVALID, RECORD_KINDS, RECORD_VALID
from kinds.sides import BASES as SIDE_BASES
from kinds.sides import INVALID as SIDE_INVALID
from kinds.sides import KINDS as SIDE_KINDS
from kinds.study import BASES as STUDY_BASES
from kinds.study import INVALID as STUDY_INVALID
from kinds.study import KINDS as STUDY_KINDS
from kinds.tokens import BASES as TOKEN_BASES
from kinds.tokens import INVALID as TOKEN_INVALID
from kinds.tokens import KINDS as TOKEN_KINDS
from kinds.tokens import VALID as TOKEN_VALID
from kinds.training import TRAINING_BASES, TRAINING_INVALID, TRAINING_KINDS, TRAINING_VALID
from making import RISING, Event, changed, training_events
from spoiling import (
    ACCURATE,
    FULL,
    LOG,
    MULTI,
    OFF,
    PERFORMANCE,
    RUN,
    SRV,
    SYSTEM,
    Builder,
    add,
    at_one_moment,
    bundle,
    disclosed,
    doubled,
    dropped,
    edit_member,
    entry,
    first_answer,
    in_tree,
    linked,
    log,
    logs,
    missed,
    moved,
    no_first_answer,
    no_record,
    put,
    relabelled,
    remove,
    rename,
    resumed,
    run,
    same_run,
    sealed_note,
    second_scenario,
    setting,
    smoke,
    squeezed,
    swap,
    text,
    then,
    trained,
    tree,
    twice,
    two_ceilings,
    whole_seconds,
    with_offline_of_ten,
)
from system_records import put_system

from compliance.judge import Judge
from compliance.rules import example_findings
from compliance.token_counter import load_token_counter
from compliance.verdict import PathJudgement
from suite.files.layout import ACCURACY_LOG, DETAIL_LOG, SUMMARY_LOG
from suite.terms import Profile

sys.path.insert(0, str(Path(__file__).parents[2] / "shared"))
from judged_examples import EXAMPLES, ensure_examples  # noqa: E402 - from that folder

SEEN: Final = Path(example_findings.__file__).with_name(example_findings.EXAMPLE_FINDINGS_FILE)
BASES: Final[Mapping[str, Builder]] = {
    "log": log(training_events()),
    "full": log(FULL),
    "set": logs(
        *(training_events(number, Profile.FULL, scores=(*RISING, 0.77)) for number in range(5))
    ),
    "accuracy": run(mode="accuracy"),
    "multi-stream-accuracy": run(MULTI, "accuracy"),
    "single-stream": run(),
    "multi-stream": run(MULTI),
    "server": run(SRV),
    "offline": run(OFF),
    "tree": tree,
    "bundle": bundle(),
    **LEDGER_BASES,
    **HISTORY_BASES,
    **CALIBRATION_BASES,
    **RECORD_BASES,
    **POWER_BASES,
    **TRAINED_BASES,
    **SESSION_BASES,
    **TRAINING_BASES,
    **INFERENCE_BASES,
    **STUDY_BASES,
    **SIDE_BASES,
    **AUDIT_BASES,
    **RATE_BASES,
    **NETWORK_BASES,
    **TOKEN_BASES,
    **ENDPOINTS_BASES,
    **CURVE_BASES,
}
"""What keeps all rules; a name in VALID means one of these."""
KINDS: Final = {
    **TRAINING_KINDS,
    **INFERENCE_KINDS,
    **LEDGER_KINDS,
    **HISTORY_KINDS,
    **RECORD_KINDS,
    **POWER_KINDS,
    **STUDY_KINDS,
    **SIDE_KINDS,
    **AUDIT_KINDS,
    **RATE_KINDS,
    **NETWORK_KINDS,
    **TOKEN_KINDS,
    **ENDPOINTS_KINDS,
    "file": "log",
    "round": "log",
    "training": "log",
    "set": "set",
    "loadgen": "single-stream",
    "bundle": "bundle",
}
"""First word of a rule's id -> its usual base; the others have a tree."""
SEARCHED: Final = {"invalid_qps": 103.0, "runs": 4, "probes": 5, "tolerance": 0.02}
"""What `podium infer --peak` writes of a search."""


def by_instances(*samples: int) -> Builder:
    """A Server run that instances with a core each answered, in two batches each."""
    told = [
        {"cores": [number], "batches": 2, "samples": count} for number, count in enumerate(samples)
    ]
    asked = then(run(SRV), SYSTEM, put_system(**{"settings__sut.instances": len(told)}))
    return then(asked, "**/run.json", put(instances=told))


def by_gpus(*samples: int) -> Builder:
    """The same run by GPUs with one instance each, which no setting asks for."""
    told = [
        {"device": f"cuda:{number}", "cores": [number], "batches": 2, "samples": count}
        for number, count in enumerate(samples)
    ]
    served = then(run(SRV), SYSTEM, put_system(device=f"cuda:0-{len(told) - 1}"))
    return then(served, "**/run.json", put(instances=told))


VALID: Final[Mapping[str, str | Builder]] = {
    "answers.coverage": "multi-stream-accuracy",
    "answers.sequence": "accuracy",
    "answers.sampled": "single-stream",
    "answers.loaded": "single-stream",
    "loadgen.bound": "server",
    "loadgen.early_stopping": "server",
    "loadgen.headline": "server",
    "loadgen.last": "server",
    "loadgen.clocks": "offline",
    "loadgen.draws": "server",
    "loadgen.keys": "server",
    "loadgen.instances": by_gpus(230, 229),
    "loadgen.rate": "offline",
    "loadgen.searched": then(run(SRV), "**/run.json", put(searched=SEARCHED)),
    "loadgen.samples": "offline",
    "loadgen.queries": "multi-stream",
    "loadgen.target": "multi-stream",
    "loadgen.warnings": "multi-stream",
    "loadgen.binding": "accuracy",
    "training.legality": "full",
    "training.losses": "full",
    "training.command": "full",
    "training.disclosure": log(disclosed()),
    "training.schedule": "full",
    "training.cache": "full",
    "training.resumed": resumed(training_events(), epoch=1),
    "training.repeated": resumed(training_events(), epoch=1),
    "training.pace": resumed(training_events(), epoch=1),
    **LEDGER_VALID,
    **ENDPOINTS_VALID,
    **CURVE_VALID,
    **CALIBRATION_VALID,
    **RECORD_VALID,
    **TRAINED_VALID,
    **SESSION_VALID,
    **TRAINING_VALID,
    **INFERENCE_VALID,
    **AUDIT_VALID,
    **NETWORK_VALID,
    **TOKEN_VALID,
}
"""Where it is not the usual base."""

INVALID: Final[Mapping[str, Builder]] = {
    "round.known": text(
        lambda content: re.sub(
            "podium_(round)?", "", content.replace("campaign_nonce", "nonce")
        ).replace('"resnet"', '"mind_reading"')
    ),
    # files
    "file.present": then(entry, RUN, remove),
    "file.readable": then(
        entry,
        RUN,
        lambda path: (
            path.unlink(),
            path.mkdir(),
            (path / "keep").write_text("a folder in a file's place\n"),
        ),
    ),
    "file.encoding": text(lambda content: content.replace('"cpu"', '"c\udcffpu"')),
    "file.record": text(lambda content: content.replace('"init_stop"', '"init_stop')),
    "file.shape": text(
        lambda content: content.replace('"event_type": "INTERVAL_END"', '"event_type": "END"', 1)
    ),
    "file.number": text(lambda content: content.replace('"value": 0.875', '"value": NaN')),
    "file.duplicate": text(
        lambda content: content.replace('"value": 0.875', '"value": 0.1, "value": 0.875')
    ),
    "file.glued": text(
        lambda content: content.replace(
            '\n:::MLLOG {"time_ms": 1700000000', ' :::MLLOG {"time_ms": 1700000000', 1
        )
    ),
    "file.cut": text(lambda content: content[:-1]),
    "file.foreign": text(lambda content: content.replace("\n", "\nEpoch 1: 100%\n", 1)),
    # training: frame
    "training.once": log(doubled("run_stop", after_ms=5000)),
    "training.finished": log(dropped("run_stop")),
    "training.event_type": text(
        lambda content: content.replace("INTERVAL_START", "POINT_IN_TIME", 1)
    ),
    "training.order": log(moved("global_batch_size", "run_start")),
    "training.nesting": log(dropped("epoch_stop")),
    "training.epochs": log(
        [
            event
            for event in training_events()
            if event.key not in ("epoch_start", "epoch_stop")
            or (event.metadata or {})["epoch_num"] != 1
        ]
    ),
    "training.unknown": log([*training_events(), Event("momentun", 0.9)]),
    # training: quality
    "training.schedule": log(training_events(0, Profile.FULL, scores=(0.5, 0.77), every=2)),
    "training.evaluated": log(dropped("eval_accuracy")),
    "training.accuracy": log(smoke(eval_accuracy=1.0)),
    "training.target": log(smoke(eval_accuracy=0.7589)),
    "training.converged": log(missed()),
    "training.status": log(changed(training_events(), "run_stop", metadata={"status": "done"})),
    "training.stopped": log(training_events(scores=(0.78125, 0.875))),
    "training.epoch_limit": log(
        training_events(scores=(*(0.125,) * 40, 0.875))[:20]
        + training_events(scores=(*(0.125,) * 9, 0.875))[20:]
    ),
    "training.fewest_epochs": log(training_events(scores=(0.875,))),
    "training.reference": log(
        changed(training_events(), "reference_accuracy", metadata={"checkpoint_sha256": "7b" * 32})
    ),
    "training.reference_level": log(smoke(reference_accuracy={"top1": 0.7})),
    "training.grain": log(smoke(eval_accuracy=0.8751)),
    "training.pace": log(squeezed()),
    "training.resumed": resumed(training_events(), epoch=1, offset=100),
    "training.repeated": resumed(training_events(), epoch=1, again=0.4),
    "training.throughput": log(smoke(tracked_stats={"throughput": 5330.0, "loss": 1.25})),
    "training.waiting": log(
        smoke(tracked_stats={"throughput": 533.0, "loss": 1.25, "waited_for_data": 0.84})
    ),
    "training.stats": log(smoke(tracked_stats={"throughput": 533.0, "loss": None})),
    "training.losses": then(
        log(FULL),
        LOG,
        lambda path: path.write_text(re.sub(r'"loss": [0-9.]+', '"loss": 1.25', path.read_text())),
    ),
    # training: stamps and hyper-parameters
    "training.stamps": log(smoke(podium_profile="full")),
    "training.nonce": log(smoke(campaign_nonce="0123")),
    "training.environment": log(smoke(precision="fp33")),
    "training.command": log(smoke(command_line=["podium", "train", "ssd"])),
    "training.disclosure": log(disclosed(micro_batch_size=48)),
    "training.run_index": log(smoke(run_index=3)),
    "training.place": trained(
        "**/resnet/result_0.txt",
        swap(
            '"key": "submission_org", "value": "acme"', '"key": "submission_org", "value": "other"'
        ),
    ),
    "training.cache": log(smoke(cache_clear=False)),
    "training.clock": log(changed(training_events(), "eval_accuracy", after_ms=-5000)),
    "training.rounded": logs(whole_seconds(training_events()), start_ms=1_700_000_000_000),
    "training.init": log(changed(training_events(), "run_start", after_ms=1_300_000)),
    "training.quality_target": log(smoke(quality_target={"top1": 0.5})),
    "training.constancy": log(doubled("global_batch_size", value=128)),
    "training.hyperparameters": log(dropped("lars_opt_momentum")),
    "training.types": log(smoke(global_batch_size="32")),
    "training.legality": log(changed(FULL, "lars_opt_weight_decay", value=0.0003)),
    "training.settings": log(smoke(lars_opt_momentum=0.8)),
    "training.samples": log(smoke(eval_samples=504)),
    "training.shuffled": text(
        lambda content: content.replace(
            '"data.shuffle_labels": false', '"data.shuffle_labels": true'
        )
    ),
    # sets
    "set.runs": logs(*(training_events(index, Profile.FULL) for index in range(6))),
    "set.numbers": then(
        logs(training_events(0), training_events(2)), "result_1.txt", rename("result_2.txt")
    ),
    "set.unfinished": then(
        logs(training_events(0), training_events(1)), "result_1.txt", rename("result_1.txt.partial")
    ),
    "set.distinct": logs(
        training_events(0), changed(training_events(0), "run_index", value=1), gap_ms=0
    ),
    "set.seeds": logs(training_events(0), changed(training_events(1), "seed", value=100)),
    "set.hyperparameters": logs(
        training_events(0), changed(training_events(1), "train_samples", value=4000)
    ),
    "set.stamps": logs(
        training_events(0), changed(training_events(1), "campaign_nonce", value="ab" * 16)
    ),
    "set.converged": logs(missed(0), missed(1)),
    "set.schema": logs(changed(training_events(0), "train_samples", value=0), training_events(1)),
    "set.strays": trained("**/resnet", add("result_0.txt.orig", "as it was\n")),
    "set.overlap": logs(training_events(0), training_events(1), gap_ms=1000),
    # LoadGen runs
    "loadgen.keys": run(result_query_count=...),
    "loadgen.effective": run(requested_min_duration_ms=9000),
    "loadgen.mode": run(effective_scenario="Offline"),
    "loadgen.seeds": run(effective_qsl_rng_seed=1),
    "loadgen.binding": run(effective_accuracy_log_rng_seed=1),
    "loadgen.settings": run(effective_performance_issue_same=True),
    "loadgen.sampling": run(effective_accuracy_log_sampling_target=0),
    "loadgen.minimums": run(effective_min_duration_ms=100),
    "loadgen.target": run(requested_single_stream_target_latency_percentile=0.5),
    "loadgen.version": run(loadgen_git_status_message=" M loadgen.cc"),
    "loadgen.errors": run(num_errors=1),
    "loadgen.warnings": then(
        run(), f"**/{DETAIL_LOG}", swap('"metadata": {}', '"metadata": {"is_warning": true}')
    ),
    "loadgen.strays": then(run(), "**/performance/run_1", add("notes.txt", "the second try\n")),
    "loadgen.clock": then(run(), f"**/{DETAIL_LOG}", swap('"time_ms": 0.2,', '"time_ms": 0.05,')),
    "loadgen.samples": run(qsl_reported_total_count=1007),
    "loadgen.library": run(loaded_qsl_set=list(range(making.SAMPLES))),
    "loadgen.draws": run(SRV, generated_query_duration=5_000_000_000),
    "loadgen.valid": then(
        run(result_validity="INVALID"),
        f"**/{SUMMARY_LOG}",
        swap("Result is : VALID", "Result is : INVALID"),
    ),
    "loadgen.summary": then(
        run(SRV), f"**/{SUMMARY_LOG}", swap(r"per second    : 8(\d)", r"per second    : 9\1")
    ),
    "loadgen.parameters": then(
        run(), f"**/{SUMMARY_LOG}", swap("min_query_count : 64", "min_query_count : 640")
    ),
    "loadgen.headline": then(
        run(), f"**/{SUMMARY_LOG}", swap("90.0th percentile", "50.0th percentile")
    ),
    "loadgen.percentiles": run(**{"result_97p_00_percentile_latency_ns": 1}),
    "loadgen.duration": then(
        run(OFF),
        f"**/{DETAIL_LOG}",
        swap('"time_ms": 5520.0, (.*)result_validity', r'"time_ms": 4000.0, \1result_validity'),
    ),
    "loadgen.queries": run(result_query_count=63),
    "loadgen.rate": run(OFF, result_samples_per_second=14.5),
    "loadgen.span": run(result_qps_with_loadgen_overhead=40.0),
    "loadgen.last": run(SRV, result_completed_samples_per_sec=83.9),
    "loadgen.clocks": then(
        run(OFF), f"**/{DETAIL_LOG}", swap('"time_ms": 5520.0', '"time_ms": 9520.0')
    ),
    "loadgen.instances": by_instances(230, 129),
    "loadgen.searched": then(
        run(SRV), "**/run.json", put(searched={**SEARCHED, "invalid_qps": 80.0})
    ),
    "loadgen.streams": run(MULTI, result_mean_query_latency_ns=9_700_000),
    "loadgen.early_stopping": run(early_stopping_latency_ss=7_000_001),
    "loadgen.bound": run(SRV, **{"result_99p_00_percentile_latency_ns": 500_000_000}),
    # answers and accuracy
    "answers.coverage": then(run(mode="accuracy"), f"**/{ACCURACY_LOG}", no_first_answer),
    "answers.sequence": then(
        run(mode="accuracy"), f"**/{ACCURACY_LOG}", swap('"seq_id" : 1,', '"seq_id" : 0,')
    ),
    "answers.sampled": then(run(), f"**/{ACCURACY_LOG}", lambda path: path.write_text("[\n]\n")),
    "answers.loaded": run(loaded_qsl_set=list(range(5))),
    "answers.same": then(
        entry,
        f"{PERFORMANCE}{ACCURACY_LOG}",
        first_answer(lambda line: line.replace("000000", "000001")),
    ),
    "accuracy.score": in_tree("**/accuracy.txt", swap("top1=0.875000", "top1=0.900000")),
    "accuracy.packed": in_tree("**/truth", remove),
    "accuracy.unscored": in_tree("**/truth", remove),
    "accuracy.hash": then(
        entry, f"{ACCURATE}{ACCURACY_LOG}", first_answer(lambda line: line.replace(" }", "  }"))
    ),
    "accuracy.truth": in_tree(
        "**/labels.txt", lambda path: path.write_text(path.read_text().replace("1", "3", 1))
    ),
    "accuracy.pinned": relabelled,
    "accuracy.reference": in_tree(
        "**/resnet/result_0.txt",
        swap(r'y", "value": {"top1": 0\.875}', 'y", "value": {"top1": 0.89}'),
    ),
    "accuracy.excess": in_tree(
        "**/resnet/result_0.txt",
        swap(r'y", "value": {"top1": 0\.875}', 'y", "value": {"top1": 0.8640873015873016}'),
    ),
    "accuracy.threshold": then(
        in_tree(SYSTEM, put_system(profile="full")),
        "**/labels.txt",
        lambda path: path.write_text("9\n" * 1008),
    ),
    # entries
    "entry.runs": then(entry, "**/performance/run_1", rename("run_2")),
    "entry.unfinished": then(entry, "**/performance", add("run_2.partial", "")),
    "entry.strays": then(entry, "**/performance", add("run_1.old", "")),
    "entry.scenario": then(entry, SYSTEM, put_system(profile="tiny")),
    "entry.stamps": then(entry, SYSTEM, put(profile="quick")),
    "entry.command": in_tree(
        "**/run.json",
        put(command=["podium", "infer", "resnet50", "--set", "loadgen.min_queries=9000"]),
    ),
    "entry.place": in_tree(SYSTEM, put_system(org="other")),
    "entry.precision": then(entry, SYSTEM, put_system(precision="fp33")),
    "entry.distinct": then(entry, "**/performance/run_1", twice),
    "entry.version": then(
        entry, f"{PERFORMANCE}{DETAIL_LOG}", setting("loadgen_version", "6.0.16 @ d6147c7eb7")
    ),
    "entry.settings": then(entry, RUN, put(**{"changed__loadgen.min_queries": 65})),
    "entry.agreement": in_tree(SYSTEM, put_system(settings__global_batch_size=128)),
    "entry.batches": then(entry, RUN, put(batches__count=5.0)),
    "entry.ceiling": then(entry, RUN, put(ceiling=-1.0)),
    "entry.checkpoint": in_tree("**/resnet", remove),
    "entry.evaluated": in_tree(
        "**/resnet/result_0.txt",
        swap('"key": "eval_samples", "value": 1008', '"key": "eval_samples", "value": 504'),
    ),
    "entry.untraced": entry,
    "entry.measurements": in_tree("**/*_podium_SingleStream.json", put(retraining="yes")),
    "facts.agree": in_tree("**/*_podium_SingleStream.json", put(reference_accuracy__top1=0.5)),
    "entry.engine": in_tree(
        "**/*_podium_SingleStream.json", put(engine_description__resnet50={"onnxruntime": "1.30.0"})
    ),
    "entry.profile": in_tree(SYSTEM, put_system(profile="full")),
    "entry.legality": in_tree(
        SYSTEM,
        put_system(
            profile="full", settings={**making.settings(Profile.FULL), "data.picture_size": 192}
        ),
    ),
    # systems, trees, bundles
    "system.place": trained("**/box-torch-bf16.json", put(system_name="other")),
    "system.stamps": trained("**/box-torch-bf16.json", put(division="ajar")),
    "system.counts": trained("**/box-torch-bf16.json", put(host_processor_core_count=-2)),
    "system.unknown": trained(
        "**/box-torch-bf16.json", put(podium__profile="full", accelerator_model_name=None)
    ),
    "checkpoint.weights": trained("checkpoints/resnet50/*", add("model.safetensors", "garbage\n")),
    "checkpoint.record": trained("**/record.json", put(reference_accuracy__top1=0.5)),
    "tree.contents": trained("open/acme/results/*", remove),
    "tree.folders": in_tree("**/resnet50/SingleStream", rename("SingleSteam")),
    "tree.installed": log(smoke(podium_workload="toy")),
    "tree.strays": in_tree("open/acme", add("README.md", "what we did\n")),
    "tree.ceiling": two_ceilings,
    "tree.profile": in_tree(
        "**/resnet/result_0.txt",
        swap('"podium_profile", "value": "smoke"', '"podium_profile", "value": "quick"'),
    ),
    "tree.checkpoint": second_scenario,
    "tree.distinct": same_run,
    "tree.chronology": in_tree(
        "**/performance/run_1/mlperf_log_detail.txt", swap('"11-14-2023 23', '"11-12-2023 23')
    ),
    "tree.overlap": at_one_moment,
    "tree.devices": in_tree(SYSTEM, put_system(device="cuda:0")),
    "tree.threads": in_tree(SYSTEM, put_system(threads=64)),
    "tree.pace": with_offline_of_ten,
    "tree.links": in_tree("**/performance/run_1", linked),
    "tree.systems": trained("**/box-torch-bf16.json", remove),
    "bundle.archive": bundle(cut=20),
    "bundle.files": bundle(edit_member("labels.txt", b"7\n", b"8\n")),
    "bundle.strays": bundle(sealed_note),
    "bundle.checkpoint": bundle(no_record),
    "bundle.manifest": bundle(
        edit_member("manifest.json", b'"profile": "smoke"', b'"profile": "full"')
    ),
    **LEDGER_INVALID,
    **HISTORY_INVALID,
    **CALIBRATION_INVALID,
    **RECORD_INVALID,
    **POWER_INVALID,
    **TRAINED_INVALID,
    **SESSION_INVALID,
    **TRAINING_INVALID,
    **INFERENCE_INVALID,
    **STUDY_INVALID,
    **SIDE_INVALID,
    **AUDIT_INVALID,
    **RATE_INVALID,
    **NETWORK_INVALID,
    **TOKEN_INVALID,
    **ENDPOINTS_INVALID,
    **CURVE_INVALID,
}


def write(root: Path) -> None:
    """Write all examples below a folder that is not there yet."""
    for name, build in {**BASES, **INFERENCE_KEPT}.items():
        build(fresh(root / "base" / name))
    for rule in INVALID:
        INVALID[rule](fresh(root / "invalid" / rule))
        made = VALID.get(rule, KINDS.get(rule.partition(".")[0], "tree"))
        place = root / "valid" / rule
        if isinstance(made, str):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(os.path.relpath(root / "base" / made, place.parent))
        else:
            made(fresh(place))
    for folder in [path for path in root.rglob("*") if path.is_dir() and not any(path.iterdir())]:
        (folder / ".keep").touch()  # as in published repositories: git has no empty folders


def fresh(folder: Path) -> Path:
    """Make a folder."""
    folder.mkdir(parents=True)
    return folder


def path_of(folder: Path) -> Path:
    """Say which PATH of an example is judged: the only thing in its folder, and so on down; a
    results tree is a folder with a division.
    """
    while (
        folder.is_dir()
        and not (folder / "open").exists()
        and len(below := [each for each in folder.iterdir() if each.name != "system.json"]) == 1
    ):
        folder = below[0]
    return folder


def result_of(folder: Path) -> PathJudgement:
    """Judge an example, by the labels and the tokenizer that lie in it where it has some."""
    labels, tokenizer = folder / "labels", folder / "tokenizer.json"
    judge = Judge(
        truth=labels if labels.is_dir() else None,
        counter=load_token_counter(tokenizer) if tokenizer.is_file() else None,
    )
    return judge.judge_path(str(path_of(folder)))


def seen(root: Path, judged: Callable[[Path], PathJudgement] = result_of) -> dict[str, str]:
    """What each rule finds in its invalid example, for `podium explain`."""
    found: dict[str, str] = {}
    for folder in sorted((root / "invalid").iterdir()):
        path = path_of(folder)
        for finding in judged(folder).findings:
            if finding.rule == folder.name and folder.name not in found:
                below = (
                    path.name
                    if Path(finding.file) == path
                    else os.path.relpath(finding.file, path if path.is_dir() else path.parent)
                )
                place = f"{below}:{finding.line}" if finding.line else below
                found[folder.name] = f"{place}: found {finding.found}; expected {finding.required}"
    return found


def write_seen(root: Path) -> None:
    """Keep it where the judge finds it."""
    SEEN.write_text(json.dumps(seen(root), indent=1, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(Path(sys.argv[1]))
    else:
        ensure_examples()
        write_seen(EXAMPLES)
