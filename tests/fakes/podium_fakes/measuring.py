"""Measures servers of OpenAI's API as podium infer does, with a checkpoint of llama that has no
weights.
"""

from pathlib import Path
from typing import Any

from harness.serving import infer
from harness.serving.network.site_choice import choose_remote_site
from podium_fakes.drive import options
from podium_fakes.kept import NONCE
from suite.files.layout import compute_folder_sha256, locate_checkpoint_folder
from suite.loadgen.scenario import Scenario
from suite.records import CheckpointRecord, write_record
from workloads.llama.checkpoint import LlamaTokens, write_llama_documents
from workloads.llama.shape import LlamaShape
from workloads.llama.vocabulary import BEGIN_ID, END_ID, format_tokenizer

# a rate that two busy cores hold too: the tests here are about words and records, not about speed
SHORT = ("loadgen.min_duration_ms=20", "server.target_qps=40", "endpoint.in_flight=8")
SHAPE = LlamaShape(
    layers=1,
    width=8,
    heads=2,
    key_value_heads=1,
    feed_forward=8,
    vocabulary=384,
    context=256,
    rope_theta=10_000.0,
)


def keep_llama(results: Path) -> Path:
    """A checkpoint without weights: LoadGen's side needs none."""
    made = results / "made"
    made.mkdir(parents=True)
    tokens = LlamaTokens(
        tokenizer=format_tokenizer().encode(), begin=BEGIN_ID, ends=(END_ID,), chat_template=""
    )
    write_llama_documents(SHAPE, "float32", tokens, made)
    record = CheckpointRecord(
        workload="llama",
        round="podium-v1",
        profile="smoke",
        framework="torch",
        sha256=compute_folder_sha256(made),
        nonce=NONCE,
        seed=1,
        run_index=0,
        training_log="",
        target_reached=True,
        scores={"loss": 1.0},
        reference_accuracy={},
        settings={},
        version="0",
    )
    place = locate_checkpoint_folder(results, "llama", record.sha256)
    place.parent.mkdir(parents=True)
    made.rename(place)
    write_record(place / "record.json", record)
    return place


def measure(
    results: Path,
    *urls: str,
    settings: tuple[str, ...] = (),
    scenario: Scenario = Scenario.SERVER,
    mode: str = "performance",
    **more: Any,
) -> None:
    """Measure servers as podium infer --endpoint does."""
    site = choose_remote_site(
        urls, (scenario,), ca=more.pop("ca", None), token_file=more.pop("token_file", None)
    )
    chosen = options(
        results, *SHORT, *settings, framework="torch", engine="torch", precision=None, **more
    )
    infer.serve_workload(
        "llama", chosen, scenarios=(scenario,), mode=mode, checkpoint=None, site=site
    )


def find_run(results: Path) -> Path:
    (place,) = results.glob("**/run.json")
    return place.parent


def nothing_left(results: Path) -> bool:
    """No run, finished or not."""
    return not [
        *results.rglob("run.json"),
        *results.rglob("*.partial"),
        *results.rglob("mlperf_log_*"),
    ]
