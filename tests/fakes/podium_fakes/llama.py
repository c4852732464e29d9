"""A checkpoint of llama without a training."""

from pathlib import Path

from podium_fakes.kept import NONCE
from suite.files.layout import compute_folder_sha256, locate_checkpoint_folder
from suite.records import CheckpointRecord, write_record


def keep_llama_checkpoint(results: Path) -> Path:
    """Export a tiny network with random weights, as a training would."""
    import torch

    from workloads.llama.checkpoint import LlamaTokens
    from workloads.llama.model import LlamaNetwork
    from workloads.llama.shape import LlamaShape
    from workloads.llama.survey import NEWS_CHAT_TEMPLATE
    from workloads.llama.vocabulary import BEGIN_ID, END_ID, format_tokenizer, list_tokens
    from workloads.llama.weights import export_llama_checkpoint

    shape = LlamaShape(
        layers=2,
        width=32,
        heads=4,
        key_value_heads=2,
        feed_forward=48,
        vocabulary=len(list_tokens()),
        context=128,
        rope_theta=500_000.0,
    )
    torch.manual_seed(3)
    tokens = LlamaTokens(
        tokenizer=format_tokenizer().encode(),
        begin=BEGIN_ID,
        ends=(END_ID,),
        chat_template=NEWS_CHAT_TEMPLATE,
    )
    folder = results / "made"
    folder.mkdir(parents=True)
    export_llama_checkpoint(LlamaNetwork(shape, 0.3).state_dict(), shape, tokens, folder)
    record = CheckpointRecord(
        workload="llama",
        round="podium-v1",
        profile="smoke",
        framework="torch",
        sha256=compute_folder_sha256(folder),
        nonce=NONCE,
        seed=1,
        run_index=0,
        training_log="open/tests/results/testbed/llama31_8b/result_0.txt",
        target_reached=True,
        scores={"loss": 1.0},
        reference_accuracy={"rouge1": 1.0},
        settings={},
        version="0",
    )
    place = locate_checkpoint_folder(results, "llama", record.sha256)
    place.parent.mkdir(parents=True)
    folder.rename(place)
    write_record(place / "record.json", record)
    return place
