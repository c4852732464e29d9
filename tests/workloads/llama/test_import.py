"""`podium import llama DIR`: a published checkpoint comes in as it is, or is refused in a
sentence.
"""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file

from harness.commands.import_weights import import_command
from suite.errors import RequestError
from workloads.llama.checkpoint import read_end_tokens
from workloads.llama.vocabulary import format_tokenizer, list_tokens
from workloads.llama.weights import load_llama_checkpoint

pytestmark = pytest.mark.usefixtures("registered")
SETTINGS = (
    "model.layers=2",
    "model.width=32",
    "model.heads=4",
    "model.key_value_heads=2",
    "model.feed_forward=48",
)
ENDS = [1, 2]
TEMPLATE = "{{ messages[0]['content'] }}"


@pytest.fixture
def theirs(transformers: ModuleType, tmp_path: Path) -> Path:
    """A checkpoint as transformers publishes it: bf16, in shards, with the news' tokenizer."""
    config = transformers.LlamaConfig(
        num_hidden_layers=2,
        hidden_size=32,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        vocab_size=len(list_tokens()),
        max_position_embeddings=256,
        rms_norm_eps=1e-5,
        rope_theta=500_000.0,
        bos_token_id=0,
        eos_token_id=ENDS,
    )
    torch.manual_seed(3)
    network = transformers.LlamaForCausalLM(config).to(torch.bfloat16).eval()
    network.generation_config.eos_token_id = ENDS
    folder = tmp_path / "theirs"
    network.save_pretrained(folder, max_shard_size="20KB")
    (folder / "tokenizer.json").write_text(format_tokenizer())
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    return folder


@pytest.fixture
def run_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Run the command; return the checkpoint that it wrote."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    results = tmp_path / "results"

    def run(source: Path, *more: str) -> Path:
        chosen = [word for each in SETTINGS for word in ("--set", each)]
        result = CliRunner().invoke(
            import_command,
            ["llama", str(source), "--results", str(results), *chosen, *more],
            catch_exceptions=False,
        )
        assert result.exit_code == 0, result.output
        (record,) = results.glob("checkpoints/llama/*/record.json")
        return record.parent

    return run


def test_a_published_checkpoint_comes_in(
    theirs: Path, run_import: Callable[..., Path], transformers: ModuleType
) -> None:
    """The same numbers in the same format, with its own ends and template; transformers generates
    the same tokens from both folders.
    """
    folder = run_import(theirs)
    source = transformers.AutoModelForCausalLM.from_pretrained(theirs).eval()
    ours = load_llama_checkpoint(folder, dtype=torch.bfloat16)
    for name, tensor in source.state_dict().items():
        assert torch.equal(ours.state_dict()[name], tensor)
    assert load_file(folder / "model.safetensors")["lm_head.weight"].dtype is torch.bfloat16
    assert read_end_tokens(folder) == tuple(ENDS)
    told = json.loads((folder / "tokenizer_config.json").read_text())
    assert told["chat_template"] == TEMPLATE
    record = json.loads((folder / "record.json").read_text())
    assert record["origin"].startswith("imported from a published checkpoint, SHA-256 ")
    assert not record["target_reached"] and record["sha256"] == folder.name
    again = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    prompt = torch.tensor([[0, 9, 30, 60]])
    made, wanted = (
        each.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20).tolist()
        for each in (again, source)
    )
    assert made == wanted


def change_config(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def drop_output(folder: Path) -> None:
    """Take lm_head out of the shards and their index."""
    index = folder / "model.safetensors.index.json"
    document = json.loads(index.read_text())
    shard = document["weight_map"].pop("lm_head.weight")
    index.write_text(json.dumps(document))
    tensors = load_file(folder / shard)
    del tensors["lm_head.weight"]
    save_file(tensors, folder / shard, {"format": "pt"})


def delete_shard(folder: Path) -> None:
    sorted(folder.glob("model-*.safetensors"))[1].unlink()


def replace_tokenizer(folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.write_text(path.read_text().replace("Anna", "Annika"))


def pickle_weights(folder: Path) -> None:
    """A checkpoint of the older form, which would have to be unpickled."""
    for path in folder.glob("model*"):
        path.unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))


class Trap:
    """Ends the process if it is unpickled."""

    def __reduce__(self) -> Any:
        return exit, (1,)


def delete_document(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def cut_shard(folder: Path) -> None:
    path = sorted(folder.glob("model-*.safetensors"))[0]
    path.write_bytes(path.read_bytes()[:100])


def retype_weights(folder: Path) -> None:
    for path in folder.glob("model-*.safetensors"):
        tensors = {name: tensor.to(torch.int8) for name, tensor in load_file(path).items()}
        save_file(tensors, path, {"format": "pt"})


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (change_config(num_key_value_heads=4), "another shape .* key_value_heads 4 instead of 2"),
        (change_config(vocab_size=999), "another shape .* vocabulary 999 instead of 377"),
        (change_config(tie_word_embeddings=True), "another shape .* tied True instead of False"),
        (change_config(model_type="mistral"), "model_type is 'mistral'; supported: llama"),
        (change_config(num_hidden_layers="two"), "num_hidden_layers is 'two', not a number"),
        (change_config(rope_theta=10**400), "rope_theta is 'too large', not a number"),
        (drop_output, r"no lm_head\.weight; .* config\.json must say tie_word_embeddings"),
        (delete_shard, r"model-00002-of-\d+.safetensors', which is not there"),
        (cut_shard, "its weights are damaged"),
        (retype_weights, "model.embed_tokens.weight is in the format I8; supported: F32"),
        (replace_tokenizer, r"its tokenizer\.json is not that of the data"),
        (pickle_weights, "it has neither model.safetensors nor model.safetensors.index.json"),
        (delete_document("config.json"), "no readable config.json"),
        (delete_document("tokenizer.json"), "no readable tokenizer.json"),
        (delete_document("generation_config.json"), "no readable generation_config.json"),
    ],
)
def test_what_does_not_fit_is_refused(
    theirs: Path,
    run_import: Callable[..., Path],
    tmp_path: Path,
    damage: Callable[[Path], None],
    said: str,
) -> None:
    """In one sentence, with exit code 2, and nothing that looks like a checkpoint is left."""
    damage(theirs)
    with pytest.raises(RequestError, match=said):
        run_import(theirs)
    assert not list((tmp_path / "results").glob("checkpoints/llama*/*"))


def test_a_file_is_refused(run_import: Callable[..., Path], tmp_path: Path) -> None:
    """It has neither a shape nor a tokenizer."""
    (tmp_path / "model.safetensors").write_bytes(b"")
    for name in ("model.safetensors", "nothing"):
        with pytest.raises(RequestError, match="is imported from the folder of a published"):
            run_import(tmp_path / name)
