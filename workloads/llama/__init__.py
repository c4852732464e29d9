"""Llama 3.1: a language model, pre-trained to a target loss and served token by token; Grattafiori
et al. 2024, arXiv:2407.21783. Imports no framework.
"""

from typing import Final

from suite.workload import Workload

WORKLOAD: Final = Workload(
    name="llama",
    frameworks=frozenset({"torch"}),
    hyperparameters="workloads.llama.recipe:select_llama_hyperparameters",
    check_run="workloads.common.run_request:check_run_without_input",
    training={"torch": "workloads.llama.training:LlamaTraining"},
    inference={"torch": "workloads.llama.inference:LlamaInference"},
    import_checkpoint="workloads.llama.published.importing:import_llama_checkpoint",
    prompts="workloads.llama.prompts:LlamaPrompts",
    data_set="workloads.llama.survey:LlamaDataSet",
    trial={"torch": "workloads.llama.trial:build_llama_trial"},
    score="workloads.llama.scoring:score_answers",
    force_answers="workloads.llama.forcing:force_llama_answers",
    sample_scores="workloads.llama.scoring:sample_llama_scores",
    end_tokens="workloads.llama.endings:list_answer_ends",
    agree="workloads.common.text.agreement:agree",
    examples="workloads.llama.examples:build_llama_examples",
    served_by={"torch": ("workloads.llama.inference",)},
)
