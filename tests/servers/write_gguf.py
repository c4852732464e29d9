"""Writes a checkpoint of llama as a GGUF file, for llama.cpp: `python write_gguf.py FOLDER FILE`.

Runs in the virtual environment of that server, with its own package gguf. The tokenizer looks whole
words up, which GGUF's unigram model (t5) does where each piece is a word with its space.
"""

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import load_file

MARKS = {",", ".", ":"}
"""Pieces that no space precedes."""
LAYER_PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""transformers' names of a layer's weights -> GGUF's."""
OUTER_PARTS = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def interleave_rotary_halves(weights: np.ndarray, heads: int) -> np.ndarray:
    """Reorder the rows of queries or keys: llama.cpp rotates neighbours, transformers halves."""
    rows, columns = weights.shape
    halves = weights.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows, columns))


def add_weights(writer: gguf.GGUFWriter, folder: Path, config: dict[str, Any]) -> None:
    """Add all weights, by GGUF's names."""
    weights = load_file(folder / "model.safetensors")
    for name, value in weights.items():
        if name in OUTER_PARTS:
            writer.add_tensor(OUTER_PARTS[name], value)
            continue
        _, _, layer, part = name.removesuffix(".weight").split(".", 3)
        heads = {
            "self_attn.q_proj": config["num_attention_heads"],
            "self_attn.k_proj": config["num_key_value_heads"],
        }.get(part)
        if heads is not None:
            value = interleave_rotary_halves(value, heads)
        writer.add_tensor(f"blk.{layer}.{LAYER_PARTS[part]}.weight", value)


def add_shape(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Add the network's shape."""
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def add_tokenizer(writer: gguf.GGUFWriter, folder: Path) -> None:
    """Add tokens and the chat template."""
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    special = {added["content"] for added in tokenizer["added_tokens"]}
    unknown = tokenizer["model"]["unk_token"]
    ids = tokenizer["model"]["vocab"]
    pieces, kinds = [], []
    for token in sorted(ids, key=ids.__getitem__):
        bare = token in special or token in MARKS
        pieces.append(token if bare else f"\u2581{token}")
        if token == unknown:
            kinds.append(gguf.TokenType.UNKNOWN)
        elif token in special:
            kinds.append(gguf.TokenType.CONTROL)
        else:
            kinds.append(gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    writer.add_token_scores([-1.0] * len(pieces))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(ids[settings["bos_token"]])
    writer.add_eos_token_id(ids[settings["eos_token"]])
    writer.add_unk_token_id(ids[unknown])
    writer.add_add_bos_token(False)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(True)
    writer.add_chat_template(settings["chat_template"])


def main(folder: Path, file: Path) -> None:
    """Write the file."""
    config = json.loads((folder / "config.json").read_text())
    writer = gguf.GGUFWriter(file, "llama")
    add_shape(writer, config)
    add_tokenizer(writer, folder)
    add_weights(writer, folder, config)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
