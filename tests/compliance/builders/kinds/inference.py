"""For each rule about published inference results one small result that keeps it and one that
breaks it.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kinds.served import SERVED_BASES, SERVED_INVALID, SERVED_VALID
from making_inference import (
    LOADS,
    MULTI,
    OFF,
    REVISION,
    SINGLE,
    SRV,
    SYSTEM,
    Load,
    write_entry,
    write_run,
)
from spoiling import Builder, put, remove, swap, then

from suite.files.layout import ACCURACY_LOG, ACCURACY_TEXT, DETAIL_LOG, SUMMARY_LOG

CLOSED_SAMPLES: Final = 3003
V07: Final = "inference-v0.7"


def served(load: Load = LOADS[SINGLE], mode: str = "Performance") -> Builder:
    """A LoadGen run on its own."""
    return lambda folder: write_run(
        folder / load.scenario.folder / ("accuracy" if mode == "Accuracy" else "performance/run_1"),
        load,
        mode,
    )


def broken(
    pattern: str, old: str, new: str, load: Load = LOADS[SINGLE], mode: str = "Performance"
) -> Builder:
    """A LoadGen run with text changed in one of its files."""
    return then(served(load, mode), f"**/{pattern}", swap(old, new))


def both(old: str, new: str, load: Load = LOADS[SINGLE]) -> Builder:
    """A LoadGen run with text changed in its detail log, wherever it stands, and in its summary."""

    def change(path: Path) -> None:
        content = path.read_text()
        assert old in content, f"{old} in {path}"
        path.write_text(content.replace(old, new))

    return then(then(served(load), f"**/{DETAIL_LOG}", change), f"**/{SUMMARY_LOG}", change)


def filed(load: Load = LOADS[OFF], **told: Any) -> Builder:
    """An organisation with one entry."""
    return lambda folder: write_entry(folder, load, **told)


def spoilt(
    pattern: str, change: Callable[[Path], object], load: Load = LOADS[OFF], **told: Any
) -> Builder:
    """An organisation with one entry, some of its files changed."""
    return then(filed(load, **told), f"**/{pattern}", change)


def sampled(data: str) -> Callable[[Path], object]:
    """Write TEST01 beside another test, with two answers; the accuracy run's are 4A61."""

    def write(beside: Path) -> None:
        test = beside.with_name("TEST01")
        write_run(test / "performance" / "run_1", LOADS[OFF])
        rows = [
            f'{{ "seq_id" : {number}, "qsl_idx" : {17 * number}, "data" : "{data}" }}'
            for number in range(2)
        ]
        (test / "performance" / "run_1" / ACCURACY_LOG).write_text(
            "[\n" + ",\n".join(rows) + "\n]\n"
        )
        (test / "verify_accuracy.txt").write_text("num_perf_log_data_mismatch = 0\nTEST PASS\n")

    return write


def whole(load: Load) -> Load:
    """A run over GNMT's own data set."""
    return replace(load, samples=CLOSED_SAMPLES, loaded=3_903_900)


def later(load: Load) -> Load:
    """A run of the later round, of which accuracy logs are filed cut short."""
    seconds = load.latencies
    return replace(load, round=V07, latencies=seconds)


def inferred() -> Builder:
    """A closed edge system of the later round, whose SingleStream logs stand for Offline too."""

    def make(folder: Path) -> None:
        load = replace(later(LOADS[SINGLE]), samples=67)
        entry = write_entry(
            folder,
            load,
            division="closed",
            model="3d-unet-99",
            claim="Accuracy: mean = 0.85300",
            hashed=True,
        )
        home = entry.parents[3]
        for kind in ("results", "measurements", "compliance"):
            place = home / kind / SYSTEM / "3d-unet-99"
            shutil.copytree(place / "SingleStream", place / "Offline")
        for path in (home / "measurements").rglob("Offline/*_SingleStream.json"):
            path.rename(path.with_name(path.name.replace("SingleStream", "Offline")))

    return make


def labelled(build: Builder) -> Builder:
    """What a builder makes, with labels beside it: class 42 for three of four samples."""

    def make(folder: Path) -> None:
        build(folder)
        (folder / "labels" / "imagenet").mkdir(parents=True)
        lines = [f"{sample}.jpg {42 if sample % 4 else 7}\n" for sample in range(40)]
        (folder / "labels" / "imagenet" / "val_map.txt").write_text("".join(lines))

    return make


def twice(path: Path) -> None:
    """Put a run in another's place."""
    shutil.rmtree(path)
    shutil.copytree(path.parent / "run_1", path)


INFERENCE_BASES: Final[Mapping[str, Builder]] = {
    "served-single-stream": served(),
    "served-multi-stream": served(LOADS[MULTI]),
    "served-server": served(LOADS[SRV]),
    "served-offline": served(LOADS[OFF]),
    "served-submission": served(LOADS[SINGLE], "Submission"),
    "served-accuracy": served(LOADS[OFF], "Accuracy"),
    "served-multi-stream-accuracy": served(LOADS[MULTI], "Accuracy"),
    "served-later": served(later(LOADS[SINGLE])),
    **SERVED_BASES,
}
"""What keeps all rules, and has nothing to be said about."""
INFERENCE_KEPT: Final[Mapping[str, Builder]] = {
    "filed-open": filed(),
    "filed-server": filed(LOADS[SRV]),
    "filed-closed": filed(whole(LOADS[OFF]), division="closed"),
    "filed-inferred": inferred(),
    "filed-later": filed(
        later(LOADS[OFF]), model="bert-99", claim='{"exact_match": 83.6, "f1": 90.8}', hashed=True
    ),
}
"""What keeps all rules, with remarks: what could not be recomputed, and what the open division may
choose.
"""
INFERENCE_KINDS: Final = {
    "served": "served-single-stream",
    "filed": "filed-open",
    "later": "since-v5.1",
}
INFERENCE_VALID: Final[Mapping[str, str | Builder]] = {
    **SERVED_VALID,
    "inference-text.answers": "served-multi-stream-accuracy",
    "inference-text.bound": "served-server",
    "inference-text.data": "filed-open",
    "inference-text.data_set": "served-accuracy",
    "inference-text.mode": "served-submission",
    "inference-text.multi_stream": "served-multi-stream",
    "inference-text.offline": "served-offline",
    "inference-text.layout": "served-accuracy",
    "inference-text.sequence": "served-accuracy",
    "inference-text.server": "served-server",
    "inference-text.truncated": "served-later",
    "inference-text.version": "filed-closed",
    "inference-text.alike": "filed-server",
    "inference-text.benchmark": "filed-closed",
    "inference-text.closed": "filed-closed",
    "inference-text.distinct": "filed-server",
    "inference-text.hash": "filed-later",
    "inference-text.inferred": "filed-later",
    "inference-text.runs": "filed-server",
    "inference-text.used": "filed-closed",
    "inference-text.threshold": "filed-closed",
    "inference-text.top1": labelled(
        filed(model="resnet", claim="accuracy=75.000%, good=30, total=40", data=["2A000000"] * 40)
    ),
    "inference-text.unscored": "served-accuracy",
    "inference-text.audit_answers": spoilt("TEST05", sampled("4A61")),
    "inference-text.system_fields": "filed-open",
    "inference-text.results_folders": "filed-open",
    "inference-text.system_position": "filed-open",
    "inference-text.required_scenarios": "filed-closed",
    "inference-text.system_status": "filed-later",
    "inference-text.described_systems": "filed-open",
}


def objected(path: Path) -> None:
    """Have the script that compares the answers object, not the one that compares the speed."""
    text = path.read_text().replace("TEST PASS", "TEST FAIL")
    path.rename(path.with_name("verify_accuracy.txt")).write_text(text)


AUDITED: Final = "TEST05/verify_performance.txt"
INFERENCE_INVALID: Final[Mapping[str, Builder]] = {
    **SERVED_INVALID,
    # LoadGen runs
    "inference-text.mode": then(
        served(LOADS[SINGLE], "Accuracy"),
        f"**/{DETAIL_LOG}",
        swap("Test mode : Accuracy", "Test mode : Performance"),
    ),
    "inference-text.scenario": broken(
        SUMMARY_LOG, "Scenario : Single Stream", "Scenario : Offline"
    ),
    "inference-text.valid": broken(SUMMARY_LOG, "Result is : VALID", "Result is : INVALID"),
    "inference-text.headline": broken(SUMMARY_LOG, "90th percentile", "50th percentile"),
    "inference-text.errors": broken(
        DETAIL_LOG, "Ending naturally:", "ERROR : Ending early: Too many outstanding queries."
    ),
    "inference-text.version": spoilt(
        f"performance/run_1/{DETAIL_LOG}",
        swap("git_status :\n", "git_status :\n\n M loadgen.cc\n"),
        division="closed",
    ),
    "inference-text.date": broken(
        DETAIL_LOG, "Date . time of test: 2020", "Date + time of test: 2008"
    ),
    "inference-text.clock": broken(DETAIL_LOG, '"ts": 20000ns', '"ts": 2000ns'),
    "inference-text.whole": broken(DETAIL_LOG, ".*GeneratedQueries.*\n", ""),
    "inference-text.parameters": broken(
        SUMMARY_LOG, "min_query_count : 1024", "min_query_count : 2048"
    ),
    "inference-text.effective": broken(
        DETAIL_LOG, "min_duration_ms : 60000", "min_duration_ms : 90000"
    ),
    "inference-text.seeds": both("3133965575612453542", "3133965575612453543"),
    "inference-text.special": both("max_query_count : 0", "max_query_count : 900"),
    "inference-text.minimums": both("min_query_count : 1024", "min_query_count : 100"),
    "inference-text.generated": broken(DETAIL_LOG, '"queries" : 2401', '"queries" : 1001'),
    "inference-text.samples": broken(DETAIL_LOG, r'"\[0,17,', '"[17,17,'),
    "inference-text.bound": broken(
        SUMMARY_LOG,
        "97.00 percentile latency (.*) : .*",
        r"97.00 percentile latency \1 : 255000000",
        LOADS[SRV],
    ),
    "inference-text.percentiles": broken(
        SUMMARY_LOG, "95.00 percentile latency (.*) : .*", r"95.00 percentile latency \1 : 49000000"
    ),
    "inference-text.single_stream": broken(
        SUMMARY_LOG, "overhead        : 21.65", "overhead        : 31.65"
    ),
    "inference-text.multi_stream": broken(
        SUMMARY_LOG, "Samples per query : 8", "Samples per query : 9", LOADS[MULTI]
    ),
    "inference-text.server": broken(SUMMARY_LOG, "second : 499.79", "second : 520.1", LOADS[SRV]),
    "inference-text.offline": broken(SUMMARY_LOG, "per second: 400", "per second: 450", LOADS[OFF]),
    "inference-text.duration": broken(
        DETAIL_LOG, "POWER_END: (.*)08:01:0", r"POWER_END: \g<1>08:00:3"
    ),
    "inference-text.data_set": broken(DETAIL_LOG, r',\d+,\d+\]"', ']"', LOADS[OFF], "Accuracy"),
    "inference-text.answers": broken(
        ACCURACY_LOG, r'\n\{ "seq_id" : 3, .*', "", LOADS[OFF], "Accuracy"
    ),
    "inference-text.layout": broken(
        ACCURACY_LOG,
        r'"seq_id" : 3, ("qsl_idx" : \d+, )("data" : "4A61") ',
        r'\1\2, "seq_id" : 3 ',
        LOADS[OFF],
        "Accuracy",
    ),
    "inference-text.sequence": broken(
        ACCURACY_LOG, '"seq_id" : 3,', '"seq_id" : 2,', LOADS[OFF], "Accuracy"
    ),
    "inference-text.data": spoilt(
        f"accuracy/{ACCURACY_LOG}",
        swap('"4A61"', '"4A6100"'),
        model="resnet",
        claim="accuracy=76.1%",
    ),
    "inference-text.unsampled": broken(
        ACCURACY_LOG, r"\[\n", '[\n{ "seq_id" : 0, "qsl_idx" : 0, "data" : "4A61" }\n'
    ),
    "inference-text.truncated": served(replace(later(LOADS[OFF]), samples=300), "Accuracy"),
    # entries
    "inference-text.benchmark": filed(division="closed", model="translator"),
    "inference-text.division": then(
        filed(), "open", lambda path: path.rename(path.with_name("ajar"))
    ),
    "inference-text.used": then(
        filed(whole(LOADS[OFF]), division="closed"),
        "**/user.conf",
        swap("target_qps = 400", "target_qps = 900"),
    ),
    "inference-text.runs": spoilt("performance/run_3", remove, LOADS[SRV]),
    "inference-text.distinct": spoilt("performance/run_3", twice, LOADS[SRV]),
    "inference-text.claimed_version": spoilt(
        f"results/**/accuracy/{DETAIL_LOG}", swap(REVISION, "413dbabcb3")
    ),
    "inference-text.alike": spoilt(
        f"performance/run_2/{DETAIL_LOG}",
        swap("min_query_count : 90112", "min_query_count : 90113"),
        LOADS[SRV],
        division="closed",
    ),
    "inference-text.strays": spoilt(
        "results/**/performance/run_1",
        lambda path: shutil.copytree(path, path.with_name("first try")),
    ),
    "inference-text.system": spoilt(f"systems/{SYSTEM}.json", remove),
    "inference-text.audit": spoilt("audit", remove),
    "inference-text.score": spoilt(f"accuracy/{ACCURACY_TEXT}", swap("BLEU", "Quality")),
    "inference-text.threshold": filed(division="closed", claim="BLEU: 23.1"),
    "inference-text.counts": filed(model="resnet", claim="accuracy=77.500%, good=30, total=40"),
    "inference-text.table": filed(
        model="ssd-small",
        claim=(
            " Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] ="
            " 0.211\nmAP=23.100%"
        ),
    ),
    "inference-text.top1": labelled(
        filed(model="resnet", claim="accuracy=80.000%, good=32, total=40", data=["2A000000"] * 40)
    ),
    "inference-text.unscored": filed(),
    "inference-text.inferred": then(
        inferred(), f"**/systems/{SYSTEM}.json", put(system_type="datacenter")
    ),
    "inference-text.hash": filed(
        later(LOADS[OFF]), model="bert-99", claim='{"exact_match": 83.6, "f1": 90.8}'
    ),
    "inference-text.measurements": spoilt("mlperf.conf", remove),
    "inference-text.fields": spoilt("measurements/**/*.json", put(weight_data_types=None)),
    "inference-text.closed": spoilt(
        "measurements/**/*.json", put(retraining="yes"), division="closed"
    ),
    "inference-text.code": spoilt("code/*/ours", remove),
    "inference-text.configuration": spoilt(
        "user.conf", lambda path: path.write_text("*.Offline.min_duration = 1000\n")
    ),
    "inference-text.audit_passed": spoilt(AUDITED, objected),
    "inference-text.audit_outcome": spoilt(AUDITED, remove),
    "inference-text.audit_settings": spoilt(
        f"TEST05/performance/run_1/{DETAIL_LOG}", swap("qsl_rng_seed : 195", "qsl_rng_seed : 196")
    ),
    "inference-text.audit_score": spoilt(AUDITED, swap("test score = 400", "test score = 300")),
    "inference-text.audit_speed": spoilt(
        f"TEST05/performance/run_1/{SUMMARY_LOG}",
        swap("Samples per second: ", "Samples per second: 1"),
    ),
    "inference-text.audit_answers": spoilt("TEST05", sampled("4A62")),
    # systems and organisations
    "inference-text.system_fields": spoilt(f"systems/{SYSTEM}.json", put(framework=None)),
    "inference-text.system_position": spoilt(
        f"systems/{SYSTEM}.json", put(submitter="somebody else")
    ),
    "inference-text.system_status": spoilt(f"systems/{SYSTEM}.json", put(status="wished for")),
    "inference-text.described_systems": spoilt(
        f"systems/{SYSTEM}.json", lambda path: path.rename(path.with_name("other.json"))
    ),
    "inference-text.results_folders": spoilt(
        "results/*/*/Offline", lambda path: path.rename(path.with_name("Ofline"))
    ),
    "inference-text.required_scenarios": filed(
        later(LOADS[OFF]),
        division="closed",
        model="bert-99",
        claim='{"exact_match": 83.6, "f1": 90.8}',
        hashed=True,
    ),
}
