"""`podium import llama DIR`: a published checkpoint comes in as it is, or is refused in a
sentence.
"""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from podium_fakes.drive import options
from safetensors.torch import load_file, save_file

from harness.commands.import_weights import import_command
from harness.request import resolve_request
from harness.serving.checkpoint_selection import (
    describe_missing_training_set,
    read_exported_checkpoint,
)
from harness.serving.weights.importing import WrittenImport, print_next_step
from suite import registry
from suite.errors import RequestError
from suite.rounds import Round
from suite.terms import Profile
from workloads.llama.checkpoint import read_end_tokens
from workloads.llama.published import importing
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


@pytest.mark.parametrize(
    ("published", "told", "choice"),
    [
        ("", "never trained here, so it is no result", "--weights"),
        (
            "acme/News",
            "serves acme/News, and that these are its weights is your word",
            "--checkpoint",
        ),
    ],
)
def test_published_weights_are_served_where_the_row_says_so(
    published: str,
    told: str,
    choice: str,
    theirs: Path,
    run_import: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The next command measures a result, and no training is missed."""
    load_round = registry.load_round

    def load_changed_round(name: str = "podium-v1") -> Round:
        found = load_round(name)
        row = found.benchmark("llama")
        half = replace(row.inference[Profile.SMOKE], published_weights=published)
        row = replace(row, inference={**row.inference, Profile.SMOKE: half})
        return replace(found, benchmarks={**found.benchmarks, "llama": row})

    monkeypatch.setattr(registry, "load_round", load_changed_round)
    folder = run_import(theirs)
    request = resolve_request(options(folder.parents[2]), "llama")
    print_next_step(WrittenImport(request=request, name="theirs", sha256=""), "DIR")
    printed = "".join(capsys.readouterr())
    assert told in printed and f"{choice} DIR" in printed
    missing = describe_missing_training_set(request, read_exported_checkpoint(folder))
    assert bool(missing) is not bool(published)


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


def change_shards(folder: Path, change: Callable[[str, torch.Tensor], Any]) -> None:
    """Write each tensor under the name and in the form that `change` returns; the index, too."""
    index = folder / "model.safetensors.index.json"
    places = {}
    for path in folder.glob("model-*.safetensors"):
        tensors = dict(change(*each) for each in load_file(path).items())
        save_file(tensors, path, {"format": "pt"})
        places |= dict.fromkeys(tensors, path.name)
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))


def retype_weights(part: str, dtype: torch.dtype) -> Callable[[Path], None]:
    """Write the tensors with this part in their name in another number format."""
    return lambda folder: change_shards(
        folder, lambda name, tensor: (name, tensor.to(dtype) if part in name else tensor)
    )


def rename_weights(start: str, other: str) -> Callable[[Path], None]:
    return lambda folder: change_shards(
        folder,
        lambda name, tensor: (
            other + name.removeprefix(start) if name.startswith(start) else name,
            tensor,
        ),
    )


POINTER = (
    b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 16060556\n"
)


def replace_file(pattern: str, content: bytes) -> Callable[[Path], None]:
    def replace(folder: Path) -> None:
        found = next(folder.glob(pattern), folder / pattern)
        found.write_bytes(content)

    return replace


def forget_end_tokens(folder: Path) -> None:
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        document = json.loads(path.read_text())
        document.pop("eos_token_id", None)
        path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (change_config(num_key_value_heads=4), "another shape .* key_value_heads 4 instead of 2"),
        (change_config(vocab_size=999), "another shape .* vocabulary 999 instead of 377"),
        (
            change_config(tie_word_embeddings=True),
            "another shape .* tied true instead of false; --set model.tied=true takes them",
        ),
        (
            change_config(
                rms_norm_eps=1e-6,
                rope_scaling={
                    "rope_type": "llama3",
                    "factor": 32.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 64,
                },
                rope_parameters=None,
                rope_theta=500_000.0,
            ),
            r"rope_scaling factor 32 \(low 1, high 4, old context 64\) instead of none, norm_epsilon"
            r" 1e-06 instead of 1e-05; --set model\.rope_factor=32\.0 --set model\.norm_epsilon=1e-06"
            r" --set model\.rope_old_context=64 takes them",
        ),
        (change_config(model_type="mistral"), "model_type is 'mistral'; supported: llama"),
        (change_config(num_hidden_layers="two"), "num_hidden_layers is 'two', not a whole number"),
        (change_config(rope_theta=10**400), "rope_theta is 'too large', not a number"),
        (drop_output, r"no lm_head\.weight; .* config\.json must say tie_word_embeddings"),
        (delete_shard, r"model-00002-of-\d+.safetensors', which is not there"),
        (cut_shard, "its weights are damaged"),
        (retype_weights("embed", torch.int8), "model.embed_tokens.weight is in the format I8;"),
        (
            retype_weights("layers.1.mlp.down_proj", torch.int8),
            "model.layers.1.mlp.down_proj.weight is in the format I8; supported: F32, F16, BF16",
        ),
        (
            retype_weights("layers.0.mlp.up_proj", torch.float8_e4m3fn),
            "model.layers.0.mlp.up_proj.weight is in the format F8_E4M3; supported: F32, F16, BF16",
        ),
        (retype_weights("norm", torch.float64), "norm.weight is in the format F64"),
        (rename_weights("", "_orig_mod."), r"its tensors begin with _orig_mod\.; save the network"),
        (
            rename_weights("model.", "model.language_model."),
            r"its tensors begin with model\.language_model\.; save the network",
        ),
        (rename_weights("model.embed_tokens", "wte"), r"no model\.embed_tokens\.weight"),
        (
            replace_file("model-00002-*", POINTER),
            "safetensors is a Git LFS pointer of 133 bytes, not",
        ),
        (
            replace_file("model-00001-*", b"<!DOCTYPE html><html>"),
            "a web page; safetensors is wanted",
        ),
        (replace_file("tokenizer.json", POINTER), r"tokenizer\.json is a Git LFS pointer of 133"),
        (replace_file("config.json", POINTER), r"config\.json is a Git LFS pointer of 133 bytes"),
        (replace_file("chat_template.jinja", POINTER), r"jinja is a Git LFS pointer of 133 bytes"),
        (
            replace_file("chat_template.jinja", b"\xff\xfe{\x00"),
            r"no readable chat_template\.jinja",
        ),
        (replace_tokenizer, r"its tokenizer\.json is not that of the data"),
        (pickle_weights, "it has neither model.safetensors nor model.safetensors.index.json"),
        (delete_document("config.json"), "no readable config.json"),
        (delete_document("tokenizer.json"), "no readable tokenizer.json"),
        (forget_end_tokens, "neither generation_config.json nor config.json has an eos_token_id"),
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


OLD_TEMPLATE = "{{ bos_token }}OLD {{ messages[0].content }}"
NEW_TEMPLATE = "{{ bos_token }}NEW {{ messages[0].content }}"
NAMED = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": NEW_TEMPLATE}]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"chat_template.jinja": NEW_TEMPLATE}, None),
        ({"chat_template.jinja": NEW_TEMPLATE, "tokenizer_config.json": OLD_TEMPLATE}, None),
        ({"tokenizer_config.json": NAMED}, None),
        ({"tokenizer_config.json": NEW_TEMPLATE, "chat_template.json": OLD_TEMPLATE}, None),
        ({"tokenizer_config.json": None, "chat_template.json": NEW_TEMPLATE}, None),
        ({"tokenizer_config.json": None}, "no chat template: prompts are news articles"),
        ({}, "no chat template: prompts are news articles as the round has them"),
        ({"tokenizer_config.json": NAMED[:1]}, "no chat template named default, only tool_use"),
    ],
)
def test_a_newer_chat_template_is_not_overlooked(
    theirs: Path,
    run_import: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, Any],
    said: str | None,
) -> None:
    """Without it, the server would answer other prompts than the model was made for."""
    notes: list[str] = []
    monkeypatch.setattr(importing, "print_progress_note", notes.append)
    (theirs / "tokenizer_config.json").unlink()
    for name, template in files.items():
        raw = name.endswith(".jinja")
        (theirs / name).write_text(template if raw else json.dumps({"chat_template": template}))
    folder = run_import(theirs)
    told = json.loads((folder / "tokenizer_config.json").read_text())["chat_template"]
    assert (told == NEW_TEMPLATE) is (said is None)
    assert (said or "") in "".join(notes)


def test_a_stale_tensor_of_another_shard_is_left_out(
    theirs: Path, run_import: Callable[..., Path], transformers: ModuleType
) -> None:
    """The index says which shard has a tensor; merged checkpoints have leftovers in others, in
    shards before it and behind it.
    """
    source = transformers.AutoModelForCausalLM.from_pretrained(theirs).state_dict()
    index = json.loads((theirs / "model.safetensors.index.json").read_text())["weight_map"]
    first, last = min(index, key=index.__getitem__), max(index, key=index.__getitem__)
    for stale, place in ((first, index[last]), (last, index[first])):
        path = theirs / place
        tensors = load_file(path) | {stale: torch.zeros_like(source[stale])}
        save_file(tensors, path, {"format": "pt"})
    ours = load_llama_checkpoint(run_import(theirs), dtype=torch.bfloat16).state_dict()
    assert all(ours[name].equal(tensor) for name, tensor in source.items())


def test_a_tensor_of_two_shards_that_the_index_forgot_is_refused(
    theirs: Path, run_import: Callable[..., Path]
) -> None:
    """Which of the two is meant is unknown."""
    index = theirs / "model.safetensors.index.json"
    document = json.loads(index.read_text())
    place = document["weight_map"].pop("model.norm.weight")
    index.write_text(json.dumps(document))
    tensor = load_file(theirs / place)["model.norm.weight"]
    other = next(path for path in theirs.glob("model-*.safetensors") if path.name != place)
    save_file(load_file(other) | {"model.norm.weight": tensor + 1}, other, {"format": "pt"})
    with pytest.raises(RequestError, match=r"model\.norm\.weight is in two files"):
        run_import(theirs)


@pytest.mark.parametrize(
    ("part", "dtype", "kept"),
    [
        ("norm", torch.float32, torch.float32),
        ("embed", torch.float32, torch.float32),
        ("norm", torch.float16, torch.float32),
        ("weight", torch.float16, torch.float16),
    ],
)
def test_no_weight_loses_digits(
    theirs: Path,
    run_import: Callable[..., Path],
    part: str,
    dtype: torch.dtype,
    kept: torch.dtype,
) -> None:
    """Norms in fp32 beside bf16 were rounded to the embedding's format."""

    def refine(name: str, tensor: torch.Tensor) -> tuple[str, torch.Tensor]:
        return name, (tensor.float() + 2**-9).to(dtype) if part in name else tensor

    change_shards(theirs, refine)
    wanted = {
        name: tensor
        for path in theirs.glob("model-*.safetensors")
        for name, tensor in load_file(path).items()
    }
    found = load_file(run_import(theirs) / "model.safetensors")
    for name, tensor in wanted.items():
        assert found[name].dtype is kept
        assert found[name].equal(tensor.to(kept)), name


@pytest.mark.parametrize(
    "kind",
    [
        {"tie_word_embeddings": True},
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 10_000.0,
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            "rms_norm_eps": 1e-6,
        },
    ],
)
def test_tied_and_stretched_networks_compute_the_same_logits(
    run_import: Callable[..., Path],
    transformers: ModuleType,
    theirs: Path,
    tmp_path: Path,
    kind: dict[str, Any],
) -> None:
    """As in Llama 3.2, whose 1B and 3B are tied: not one bit differs from transformers."""
    config = transformers.LlamaConfig(**json.loads((theirs / "config.json").read_text()) | kind)
    torch.manual_seed(4)
    network = transformers.LlamaForCausalLM(config).float().eval()
    folder = tmp_path / "other"
    network.save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((theirs / name).read_bytes())
    with pytest.raises(RequestError, match="another shape .* takes them") as refused:
        run_import(folder)
    advice = str(refused.value).rpartition("; ")[2].removesuffix(" takes them")
    ours = load_llama_checkpoint(run_import(folder, *advice.split()))
    token_BT = torch.arange(180).reshape(2, 90)
    with torch.inference_mode():
        assert network(token_BT).logits.equal(ours(token_BT))


@pytest.mark.parametrize("content", [None, {}, {"eos_token_id": None}])
def test_end_tokens_are_those_of_the_config_where_nothing_else_has_them(
    theirs: Path, run_import: Callable[..., Path], content: dict[str, Any] | None
) -> None:
    """transformers takes them from there."""
    change_config(eos_token_id=ENDS)(theirs)
    path = theirs / "generation_config.json"
    if content is None:
        path.unlink()
    else:
        path.write_text(json.dumps(content))
    assert read_end_tokens(run_import(theirs)) == tuple(ENDS)


def test_a_file_is_refused(run_import: Callable[..., Path], tmp_path: Path) -> None:
    """It has neither a shape nor a tokenizer."""
    (tmp_path / "model.safetensors").write_bytes(b"")
    for name in ("model.safetensors", "nothing"):
        with pytest.raises(RequestError, match="is imported from the folder of a published"):
            run_import(tmp_path / name)
