"""vLLM's side of benchmarks/generation.py, run by the Python of the environment that vLLM is
installed in: loads a network once, then answers each line of standard input and says how long that
took, as one line of JSON. Nothing of podium is imported.
"""

import argparse
import json
import os
import sys
import time


def main() -> None:
    """Answer lines with prompts of token ids until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--max-model-len", type=int, required=True)
    parser.add_argument("--max-num-seqs", type=int, required=True)
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what vLLM prints is no reply

    import vllm

    engine = vllm.LLM(
        model=given.model,
        dtype=given.dtype,
        max_model_len=given.max_model_len,
        max_num_seqs=given.max_num_seqs,
        enforce_eager=not given.compile,
        skip_tokenizer_init=True,
        enable_prefix_caching=False,
        generation_config="vllm",
    )
    print(json.dumps({"version": vllm.__version__}), file=replies)
    for line in sys.stdin:
        asked = json.loads(line)
        prompts = [{"prompt_token_ids": prompt} for prompt in asked["prompts"]]
        settings = vllm.SamplingParams(
            temperature=0.0, max_tokens=asked["answer"], ignore_eos=True, detokenize=False
        )
        began = time.perf_counter()
        found = engine.generate(prompts, settings, use_tqdm=False)
        seconds = time.perf_counter() - began
        answers = [list(each.outputs[0].token_ids) for each in found]
        print(json.dumps({"seconds": seconds, "answers": answers}), file=replies)


if __name__ == "__main__":
    main()
