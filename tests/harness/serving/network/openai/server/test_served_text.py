"""Chat templates as transformers applies them, and text as its tokens come."""

import json
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.token_server import END, write_echo_checkpoint
from tokenizers import Tokenizer

from harness.serving.network.openai.server.served_text import PromptTextError, ServedText
from suite.errors import RequestError

MESSAGES = [
    {"role": "system", "content": " Be brief.\n"},
    {"role": "user", "content": "Who is <Ann> & 'Bob'?"},
    {"role": "assistant", "content": "Ann"},
    {"role": "user", "content": "And ä?"},
]
TEMPLATES = [
    "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    # as Llama 3's: trimmed, with special tokens, and an opening for the answer
    "{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>\n\n' + m.content | trim }}"
    "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}",
    # lines of blocks disappear, loops are left and continued
    "{%- for m in messages %}\n    {% if m.role == 'system' %}\n        {% continue %}\n    {% endif %}"
    "\n{{ loop.index }}: {{ m.content }}\n    {% if loop.index == 3 %}{% break %}{% endif %}\n"
    "{% endfor %}",
    # JSON without HTML's escapes; what the model said is marked
    "{{ messages | tojson }}{% for m in messages %}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.content }}{% endgeneration %}{% endif %}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}"
    "{{ ns.n }}{{ strftime_now('%Y') }}{{ tools is none }}{{ documents is none }}",
]


def encode_messages(served: ServedText) -> list[int]:
    return served.encode_rendered(served.render_chat(MESSAGES))


UNKNOWN_MERGE = '{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}}'
"""The library answers it with a panic, which is no Exception."""


def write_special_tokens(folder: Path, template: Any) -> Path:
    """Write a checkpoint whose tokens are named as text and as an object."""
    write_echo_checkpoint(folder, template)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens(["<begin>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "chat_template": template,
        "bos_token": {"__type": "AddedToken", "content": "<begin>", "special": True},
        "eos_token": "<end>",
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("template", TEMPLATES)
def test_templates_are_applied_as_transformers_applies_them(tmp_path: Path, template: str):
    """Another prompt is another question, and its answer another model's."""
    transformers = pytest.importorskip("transformers", reason="the extra test is not installed")
    served = ServedText(write_special_tokens(tmp_path, template))
    reference = transformers.AutoTokenizer.from_pretrained(tmp_path)
    asked = {"add_generation_prompt": True}
    text = reference.apply_chat_template(MESSAGES, tokenize=False, **asked)
    ids = reference.apply_chat_template(MESSAGES, tokenize=True, return_dict=False, **asked)
    assert encode_messages(served) == ids
    assert served.tokenizer.decode(ids, skip_special_tokens=False) == text


def test_of_several_templates_the_default_is_taken_and_a_file_of_its_own_first(tmp_path: Path):
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    folder = write_echo_checkpoint(tmp_path, named)  # type: ignore[arg-type]
    assert encode_messages(ServedText(folder)) == [ord("d")]
    (folder / "chat_template.jinja").write_text("own")
    assert encode_messages(ServedText(folder)) == [*b"own"]


@pytest.mark.parametrize(
    "template, why",
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[9]['content'] }}", "refuses these messages"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ messages.append(1) }}", "'append' of 'list' object is unsafe"),
        (None, "no chat template"),
    ],
)
def test_what_a_template_refuses_is_told(tmp_path: Path, template: str | None, why: str):
    """It comes from whoever made the checkpoint: neither a crash nor a way out of the sandbox."""
    served = ServedText(write_echo_checkpoint(tmp_path, template))
    with pytest.raises(PromptTextError, match=why):
        encode_messages(served)


@pytest.mark.parametrize(
    "name, content, why",
    [
        ("tokenizer.json", None, "no readable tokenizer.json"),
        ("tokenizer.json", "{}", "no usable tokenizer"),
        ("tokenizer.json", UNKNOWN_MERGE, "no usable tokenizer"),
        ("tokenizer_config.json", '{"chat_template": 5}', "no readable chat template"),
        ("tokenizer_config.json", '{"chat_template": "{% for"}', "chat template is broken"),
        ("generation_config.json", None, "no tokens that end an answer"),
        ("generation_config.json", "{}", "no tokens that end an answer"),
    ],
)
def test_a_checkpoint_without_its_files_is_refused(
    tmp_path: Path, name: str, content: str | None, why: str
):
    folder = write_echo_checkpoint(tmp_path)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    with pytest.raises(RequestError, match=why):
        ServedText(folder)


@pytest.mark.parametrize("text", ["plain", "ä€𝄞 x", "\x00\n"])
def test_the_parts_of_a_stream_are_the_whole_text(tmp_path: Path, text: str):
    """Cut behind any token, too: the rest is the sign for half a letter."""
    served = ServedText(write_echo_checkpoint(tmp_path))
    ids = [*text.encode(), END]
    for stop in range(len(ids) + 1):
        stream = served.open_stream()
        parts = [stream.add_token(token) for token in ids[:stop]]
        whole = served.tokenizer.decode(ids[:stop])
        assert "".join((*parts, stream.finish_text())) == whole
        assert all("\ufffd" not in part for part in parts)
