"""The model of Megatron arguments."""

from __future__ import annotations

from typing import Any

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from planner.trainers.common.imported import recognised
from planner.trainers.megatron.arguments import Arguments, numbers, real
from planner.trainers.megatron.read_experts import experts_of

VOCABULARY_STEP = 128
"""Default of ``--make-vocab-size-divisible-by``; times the tensor ranks (tokenizer's ``_vocab_size_with_padding``)."""


def model_of(arguments: Arguments, *, tensor: int, file: str) -> tuple[ModelSpec | None, list[str]]:
    """Return the model, or None if the arguments do not describe one; and notes on it.

    Raises
    ------
    BadInputError
        Something that lcplan does not model: another normalization or position embedding, a plain feed-forward.
    """
    if "multi-latent-attention" in arguments:
        return None, [f"--multi-latent-attention in {file}: lcplan reads no latent attention from arguments: give --model"]
    needed = ("num-layers", "hidden-size", "num-attention-heads", "vocab-size")
    missing = [name for name in needed if not arguments.get(name)]
    if missing:
        return None, [f"no --{', --'.join(missing)} in {file}: give --model"]
    problems = []
    if arguments.get("normalization", ["LayerNorm"]) != ["RMSNorm"]:
        problems.append(f"{file}: --normalization: lcplan models RMSNorm")
    if arguments.get("position-embedding-type", ["learned_absolute"]) != ["rope"]:
        problems.append(f"{file}: --position-embedding-type: lcplan models rope")
    if "swiglu" not in arguments:
        problems.append(f"{file}: without --swiglu the feed-forward is plain; give such a model with --model")
    if problems:
        raise BadInputError(problems)
    model = recognised(ModelSpec.read(_fields(arguments, file), file))
    if model.vocab % tensor == 0:
        return model, []
    step = (numbers(arguments, file)("make-vocab-size-divisible-by", None) or VOCABULARY_STEP) * tensor
    padded = -(-model.vocab // step) * step
    note = f"vocabulary {model.vocab} padded to {padded}, a multiple of {step}, as Megatron pads it"
    return model.model_copy(update={"vocab": padded}), [note]


def _fields(arguments: Arguments, file: str) -> dict[str, Any]:
    read = numbers(arguments, file)

    def number(name: str, default: int) -> int:
        return read(name, None) or default

    width, heads = number("hidden-size", 0), number("num-attention-heads", 1)
    biased = "disable-bias-linear" not in arguments
    qkv_bias = biased or "add-qkv-bias" in arguments
    qk_norm = "qk-layernorm" in arguments
    layers, d_ff = number("num-layers", 0), number("ffn-hidden-size", int(4 * width * 2 / 3 / 64) * 64)
    experts = experts_of(arguments, layers=layers, width=d_ff, file=file)
    return {
        "name": "imported",
        "source": file,
        "family": _family(qk_norm=qk_norm, qkv_bias=qkv_bias and not biased, experts=experts is not None),
        "layers": layers,
        "d_model": width,
        "d_ff": d_ff,
        "experts": experts,
        "heads": heads,
        "kv_heads": number("num-query-groups", 1) if "group-query-attention" in arguments else heads,
        "head_dim": number("kv-channels", width // max(heads, 1)),
        "vocab": number("vocab-size", 0),
        "tied_embeddings": "untie-embeddings-and-output-weights" not in arguments,
        "qkv_bias": qkv_bias,
        "out_bias": biased,
        "mlp_bias": biased,
        "qk_norm": qk_norm,
        "norm_eps": real(arguments, "norm-epsilon", default=1e-5, file=file),
        "rope": _rope(arguments, file),
    }


def _family(*, qk_norm: bool, qkv_bias: bool, experts: bool) -> str:
    """The family whose layers have these parts."""
    if experts:
        return "qwen3_moe" if qk_norm else "qwen2_moe" if qkv_bias else "mixtral"
    return "qwen3" if qk_norm else "qwen2" if qkv_bias else "llama"


def _rope(arguments: Arguments, file: str) -> dict[str, Any]:
    rope: dict[str, Any] = {"theta": real(arguments, "rotary-base", default=10000.0, file=file)}
    stretched = real(arguments, "rotary-seq-len-interpolation-factor", default=1.0, file=file)
    if "use-rope-scaling" in arguments:
        factor = real(arguments, "rope-scaling-factor", default=8.0, file=file)
        rope |= {"scaling": "llama3", "factor": factor, "original_max_position": 8192}
    elif stretched != 1.0:
        rope |= {"scaling": "linear", "factor": stretched}
    return rope
