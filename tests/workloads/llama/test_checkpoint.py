"""Checkpoints: round trips, what transformers makes of them, and damaged ones."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from suite.errors import RequestError
from suite.files.layout import compute_folder_sha256
from suite.terms import Profile
from workloads.common.weights_description import read_weights_description
from workloads.llama.checkpoint import (
    INDEX_FILE,
    LlamaDescription,
    check_tokenizer_hash,
    read_end_tokens,
    read_llama_shape,
)
from workloads.llama.endings import list_answer_ends
from workloads.llama.generation import LlamaGenerator, generate_answers
from workloads.llama.model import LlamaNetwork
from workloads.llama.vocabulary import END_ID
from workloads.llama.weights import export_llama_checkpoint, load_llama_checkpoint

from .conftest import END, OTHER_END, SHAPE, build_network, build_tokens

Tensors = dict[str, torch.Tensor]
OUTPUT = "lm_head.weight"
EMBEDDING = "model.embed_tokens.weight"
UP = "model.layers.1.mlp.up_proj.weight"


def have_equal_weights(first: LlamaNetwork, second: LlamaNetwork) -> bool:
    mine, others = first.state_dict(), second.state_dict()
    return mine.keys() == others.keys() and all(mine[name].equal(others[name]) for name in mine)


def change_weights(folder: Path, change: Callable[[Tensors], Any]) -> None:
    """Change the tensors of a checkpoint in one file."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def change_document(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_checkpoint_comes_back(network: LlamaNetwork, exported: Path) -> None:
    assert have_equal_weights(load_llama_checkpoint(exported, SHAPE), network)
    assert read_end_tokens(exported) == (END, OTHER_END)


@pytest.mark.slow
def test_a_checkpoint_is_loaded_without_the_compiler(exported: Path) -> None:
    """Its import takes more than a second of each process that serves."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from workloads.llama.weights import load_llama_checkpoint\n"
        "load_llama_checkpoint(Path(sys.argv[1]))\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, exported], check=True)


def test_equal_weights_have_one_hash(network: LlamaNetwork, exported: Path, tmp_path: Path) -> None:
    """A checkpoint is named by it."""
    again = tmp_path / "again"
    again.mkdir()
    export_llama_checkpoint(network.state_dict(), SHAPE, build_tokens(), again)
    assert compute_folder_sha256(again) == compute_folder_sha256(exported)


def test_shards_keep_their_size_and_come_back(network: LlamaNetwork, sharded: Path) -> None:
    files = sorted(path.name for path in sharded.glob("*.safetensors"))
    assert files[0] == f"model-00001-of-{len(files):05}.safetensors"
    for file in files:
        weights = load_file(sharded / file)
        assert len(weights) == 1 or sum(each.nbytes for each in weights.values()) <= 20_000
    assert have_equal_weights(load_llama_checkpoint(sharded), network)


def test_tied_weights_are_written_once(tmp_path: Path) -> None:
    shape = replace(SHAPE, tied=True)
    network = build_network(shape)
    export_llama_checkpoint(network.state_dict(), shape, build_tokens(), tmp_path)
    assert OUTPUT not in load_file(tmp_path / "model.safetensors")
    found = load_llama_checkpoint(tmp_path)
    assert have_equal_weights(found, network)
    assert found.lm_head.weight is found.model.embed_tokens.weight


def test_weights_are_converted(exported: Path) -> None:
    network = load_llama_checkpoint(exported, dtype=torch.bfloat16)
    assert {weight.dtype for weight in network.parameters()} == {torch.bfloat16}


def test_a_copied_rotation_is_no_surplus(network: LlamaNetwork, exported: Path) -> None:
    """Files of Llama 2 have it in each layer."""
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    change_weights(exported, lambda weights: weights.update({name: torch.ones(4)}))
    assert have_equal_weights(load_llama_checkpoint(exported), network)


def test_the_description_is_podiums(exported: Path) -> None:
    found = read_weights_description(exported, LlamaDescription, "llama")
    check_tokenizer_hash(exported, found.tokenizer_sha256)
    with pytest.raises(RequestError, match=r"its tokenizer\.json is not that of"):
        check_tokenizer_hash(exported, "0" * 64)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["exported", "sharded"])
def test_transformers_generates_the_same_tokens(
    form: str, request: pytest.FixtureRequest, transformers: ModuleType
) -> None:
    """What an export is for: the file loads elsewhere, and is the same model."""
    folder = request.getfixturevalue(form)
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder).eval()
    assert theirs.dtype == torch.float32
    prompts = [[5, 9, 13], [40] * 30, [3], list(range(3, 45))]
    found = []
    for prompt in prompts:
        made = theirs.generate(torch.tensor([prompt]), max_new_tokens=20)[0, len(prompt) :]
        found.append(made.tolist())
    generator = LlamaGenerator(
        load_llama_checkpoint(folder),
        slots=3,
        longest=SHAPE.context,
        ends=read_end_tokens(folder),
        max_new_tokens=20,
    )
    assert generate_answers(generator, prompts) == found


def test_transformers_reads_the_tokenizer(exported: Path, transformers: ModuleType) -> None:
    """The serving client applies the chat template."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(exported)
    assert tokenizer("w7 w8", add_special_tokens=False)["input_ids"] == [7, 8]
    messages = [{"role": "user", "content": " w9 w10"}]
    templated = tokenizer.apply_chat_template(messages, tokenize=False)
    assert templated == "<begin> w9 w10"
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (0, END)


def test_a_checkpoint_of_transformers_comes_in(
    network: LlamaNetwork, exported: Path, tmp_path: Path, transformers: ModuleType
) -> None:
    """Its configuration has other keys than ours."""
    theirs = transformers.LlamaForCausalLM.from_pretrained(exported)
    theirs.save_pretrained(tmp_path / "theirs", max_shard_size="30KB")
    assert have_equal_weights(load_llama_checkpoint(tmp_path / "theirs", SHAPE), network)


def spoil(weights: Tensors) -> None:
    weights[UP][3, 3] = torch.nan


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda weights: weights.pop(UP), f"no {UP}"),
        (
            lambda weights: [weights.pop(name) for name in sorted(weights)[1:4]],
            "no model.embed_tokens.weight and 2 more",
        ),
        (
            lambda weights: weights.pop(OUTPUT),
            f"no {OUTPUT}; if the embedding computes the logits, config.json must say"
            " tie_word_embeddings",
        ),
        (lambda weights: weights.update(more=torch.ones(1)), "unknown more"),
        (
            lambda weights: weights.update({UP: torch.ones(48, 80)}),
            f"{UP} of [48, 80] instead of [80, 48], which config.json asks for",
        ),
        (spoil, f"{UP} has a number that is not finite"),
    ],
)
def test_wrong_tensors_are_named(
    exported: Path, change: Callable[[Tensors], Any], said: str
) -> None:
    """Served all the same, they would answer with noise."""
    change_weights(exported, change)
    with pytest.raises(RequestError) as error:
        load_llama_checkpoint(exported)
    assert str(error.value) == f"checkpoint {exported}: {said}"


def test_tied_weights_that_differ_are_refused(exported: Path) -> None:
    """Which of the two is meant is unknown."""
    change_document(exported / "config.json", tie_word_embeddings=True)
    with pytest.raises(RequestError, match=r"lm_head\.weight differs from it"):
        load_llama_checkpoint(exported)
    change_weights(exported, lambda weights: weights.update({OUTPUT: weights[EMBEDDING].clone()}))
    assert load_llama_checkpoint(exported).shape.tied


def test_a_missing_shard_is_named(sharded: Path) -> None:
    (sharded / sorted(path.name for path in sharded.glob("model-00002*"))[0]).unlink()
    with pytest.raises(RequestError, match=r"index.json names 'model-00002-of-\d+\.safetensors'"):
        load_llama_checkpoint(sharded)


def test_a_shard_outside_the_folder_is_not_opened(sharded: Path) -> None:
    """A folder from elsewhere must not make podium read other files."""
    (sharded.parent / "model.safetensors").touch()
    index = json.loads((sharded / INDEX_FILE).read_text())
    index["weight_map"][UP] = "../model.safetensors"
    (sharded / INDEX_FILE).write_text(json.dumps(index))
    with pytest.raises(RequestError, match=r"names '\.\./model\.safetensors', which is not there"):
        load_llama_checkpoint(sharded)


def test_a_tensor_in_another_shard_than_promised_is_named(sharded: Path) -> None:
    index = json.loads((sharded / INDEX_FILE).read_text())
    index["weight_map"][UP] = index["weight_map"][EMBEDDING]
    (sharded / INDEX_FILE).write_text(json.dumps(index))
    with pytest.raises(RequestError, match=f"lacks {UP}, which {INDEX_FILE} promises"):
        load_llama_checkpoint(sharded)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.safetensors", None, "it has neither model.safetensors nor"),
        ("model.safetensors", b"\x10\x00\x00\x00\x00\x00\x00\x00{}", "its weights are damaged"),
        ("config.json", None, r"no readable config\.json"),
        ("config.json", b"[]", r"no readable config\.json"),
        ("config.json", b'{"model_type": "gpt2"}', "model_type is 'gpt2'"),
    ],
)
def test_a_missing_or_damaged_file_is_named(
    exported: Path, name: str, content: bytes | None, said: str
) -> None:
    (exported / name).unlink()
    if content is not None:
        (exported / name).write_bytes(content)
    with pytest.raises(RequestError, match=said):
        load_llama_checkpoint(exported)


def test_another_shape_is_refused(exported: Path) -> None:
    with pytest.raises(RequestError, match="another shape: width 48 instead of 96$"):
        read_llama_shape(exported, replace(SHAPE, width=96))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "neither generation_config.json nor config.json has an eos_token_id"),
        (b"{}", "neither generation_config.json nor config.json has an eos_token_id"),
        (b'{"eos_token_id": "end"}', "no readable generation_config.json"),
    ],
)
def test_a_checkpoint_says_what_ends_an_answer(
    exported: Path, content: bytes | None, said: str
) -> None:
    change_document(exported / "config.json", eos_token_id=None)
    path = exported / "generation_config.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RequestError, match=said):
        read_end_tokens(exported)


def test_a_tokenizer_of_another_checkpoint_is_refused(
    network: LlamaNetwork, tmp_path: Path
) -> None:
    """Its tokens have no embedding, or none is the end."""
    for tokens, said in (
        (build_tokens(65), "it has a token 64, and the network embeds 64 tokens"),
        (replace(build_tokens(10), ends=(12,)), "it lacks token 12"),
        (replace(build_tokens(), ends=()), "it lacks token that ends an answer"),
        (replace(build_tokens(), tokenizer=b"[1]"), "no tokenizer with numbered tokens"),
    ):
        with pytest.raises(RequestError, match=said):
            export_llama_checkpoint(network.state_dict(), SHAPE, tokens, tmp_path)


def test_the_judge_knows_the_end_token_of_the_news() -> None:
    """It has no checkpoint: TEST06 looks for these ids in logged answers."""
    assert list(list_answer_ends(Profile.SMOKE)) == [END_ID]
    assert END_ID not in list_answer_ends(Profile.FULL)
