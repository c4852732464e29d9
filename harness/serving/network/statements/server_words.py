"""What a server of OpenAI's API says of itself, as the properties of what serves.

Sources: vLLM 0.32, vllm/entrypoints/serve/utils/fingerprint.py, engine/protocol.py (ModelCard) and
instrumentator/basic.py (/version); llama.cpp, tools/server/server-context.cpp
(get_res_model_info); the others' lists of models.
"""

import re
from collections.abc import Mapping
from typing import Final

from suite.served_identity import ServedIdentity, Speaker, Statement

FINGERPRINT: Final = "system_fingerprint"
OWNER: Final = "owned_by"
ROOT: Final = "root"
MODEL: Final = "id"
CONTEXT: Final = "max_model_len"
FORMAT: Final = "meta.ftype"
VERSION_PAGE: Final = "/version"
SERVER_HEADER: Final = "Server"
"""The names of the words: fields of answers and of /v1/models, a route, a header."""

OWNER_ENGINES: Final = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "tensorrt_llm": "TensorRT-LLM",
    "lmdeploy": "LMDeploy",
}
"""`owned_by` of programs that put their own name there. Others put a person's or a vendor's."""
HEADER_ENGINES: Final = {"llama.cpp": "llama.cpp", "vllm": "vLLM", "sglang": "SGLang"}
"""Beginnings of the header `Server`, of programs that put their own name there. Most have the name
of an HTTP library (uvicorn), which is no engine.
"""
VLLM_FINGERPRINT: Final = re.compile(r"vllm-(?P<version>\d[^-]*)-.+")
LLAMA_CPP_FINGERPRINT: Final = re.compile(r"(?P<version>b\d+)-[0-9a-f]{7,}")
FINGERPRINT_FORMS: Final = {"vLLM": VLLM_FINGERPRINT, "llama.cpp": LLAMA_CPP_FINGERPRINT}
"""Engine -> how its fingerprint names its version."""


def identify_server(words: Mapping[str, str]) -> ServedIdentity:
    """Return what a server states of what serves, given its words by the names above; what none of
    them says stays unknown.
    """
    engine = find_stated_engine(words)
    return ServedIdentity(
        engine=engine,
        version=find_stated_version(words, engine.value),
        precision=quote_word(words, FORMAT),
        weights=quote_word(words, ROOT) if words.get(ROOT) else quote_word(words, MODEL),
    )


def find_stated_engine(words: Mapping[str, str]) -> Statement:
    """Return the engine that a server names."""
    if VLLM_FINGERPRINT.fullmatch(words.get(FINGERPRINT, "")):
        return state_word("vLLM", FINGERPRINT)
    if owned := OWNER_ENGINES.get(words.get(OWNER, "").casefold()):
        return state_word(owned, OWNER)
    header = words.get(SERVER_HEADER, "").casefold()
    named = (name for start, name in HEADER_ENGINES.items() if header.startswith(start))
    return state_word(next(named, ""), SERVER_HEADER)


def find_stated_version(words: Mapping[str, str], engine: str) -> Statement:
    """Return the version that a server names: on its page, in its fingerprint, or behind its name
    in the header.
    """
    if words.get(VERSION_PAGE):
        return quote_word(words, VERSION_PAGE)
    form = FINGERPRINT_FORMS.get(engine)
    if form and (match := form.fullmatch(words.get(FINGERPRINT, ""))):
        return state_word(match["version"], FINGERPRINT)
    name, _, version = words.get(SERVER_HEADER, "").partition("/")
    if name.casefold() in HEADER_ENGINES:
        return state_word(version, SERVER_HEADER)
    return Statement()


def quote_word(words: Mapping[str, str], name: str) -> Statement:
    """Return a server's word as it stands."""
    return state_word(words.get(name, ""), name)


def state_word(value: str, source: str) -> Statement:
    """Return what a server states, and in which of its words; nothing for an empty value."""
    if not value:
        return Statement()
    return Statement(value=value, said_by=Speaker.SERVER, source=source)
