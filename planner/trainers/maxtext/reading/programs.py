"""Programs of MaxText other than a train step over tokens, and attention that lcplan does not price: bad input."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cost_models.inputs.program import STEP, Program
from lcplan.formats.errors import BadInputError

GLOBAL = "global"
LATENT = "mla"
_NOT_MODELLED = ("compressed", "block_diffusion")
"""Attention types over other keys than those of the sequence."""
_MODULE = re.compile(r"post_train\W(dpo|rl|distillation)\b")
_OF_MODULE = {"dpo": "use_dpo", "rl": "use_grpo", "distillation": "its distillation"}
_WHY = {
    "use_dpo": "a pair is two sequences, and a reference model comes on top; price the update with use_dpo left out, at twice "
    "the per_device_batch_size, and add the reference's weights",
    "use_grpo": "an iteration samples too; plan it with --workload rl, whose export is such a file",
    "its distillation": "a teacher's weights and forward pass come on top; price the student with the pre-training program",
}


def program_of(values: Mapping[str, Any]) -> Program:
    """The step with MaxText's own attention kernel on TPU.

    Its splash kernel takes keys of any size with values of 128 (``kernels/attention/splash_attention_kernel.py`` of 0.2.5),
    as latent attention has them; jax's takes one size of both. Tokamax's splash attention, or MaxText's own on request, has one
    backward kernel in place of two. An all-gather is one call on all keys.
    """
    own = str(values["attention"]) in ("flash", "autoselected") and not values["use_jax_splash"]
    if not own:
        return STEP
    fused = values["use_tokamax_splash"] or values.get("sa_use_fused_bwd_kernel")
    return STEP.model_copy(update={"attention": "tokamax" if fused else "flash", "gathered_calls": "once"})


def refuse_other_programs(values: Mapping[str, Any], *, program: str, file: str) -> None:
    """lcplan prices a step that trains every parameter on tokens.

    Parameters
    ----------
    values
        Settings of the file over base.yml's.
    program
        The module or file that a command line runs; empty where the file names no program.
    file
        For messages.

    Raises
    ------
    BadInputError
        The file asks for another program, for adapters, or for attention that lcplan does not model.
    """
    problems = [f"{file}: {problem}" for problem in (*_programs(values, program), *_attention(values))]
    if problems:
        raise BadInputError(problems)


def _programs(values: Mapping[str, Any], program: str) -> Iterator[str]:
    module = _MODULE.search(program)
    asked = {key: bool(values.get(key)) for key in ("use_dpo", "use_grpo")}
    if module:
        asked[_OF_MODULE[module[1]]] = True
    yield from (f"{name}: lcplan prices plain train steps, and here {_WHY[name]}" for name, wanted in asked.items() if wanted)
    adapters = values.get("lora")
    if isinstance(adapters, Mapping) and adapters.get("enable_lora"):
        yield (
            "lora.enable_lora: lcplan prices training of every parameter, and adapters hold state only for themselves; "
            "leave it out to see the full fine-tune"
        )


def _attention(values: Mapping[str, Any]) -> Iterator[str]:
    kind = str(values.get("attention_type") or GLOBAL)
    if kind in _NOT_MODELLED or values.get("training_objective") == "block_diffusion":
        name = f"attention_type: {kind}" if kind in _NOT_MODELLED else "training_objective: block_diffusion"
        yield f"{name}: lcplan prices causal attention over the keys of a sequence; use attention_type: {GLOBAL}"


def attention_notes(values: Mapping[str, Any]) -> list[str]:
    """List a note on an attention type that the decoder blocks do not read."""
    kind = str(values.get("attention_type") or GLOBAL)
    if kind in (GLOBAL, LATENT):
        return []
    return [
        f"attention_type {kind}: the decoder blocks that lcplan reads have the attention of their model, which is priced; "
        "windows are those of a model with a name"
    ]
