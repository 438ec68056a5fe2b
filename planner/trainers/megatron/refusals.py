"""Invalid combinations of Megatron's arguments, by ``validate_args`` and users' reports; and arguments that lcplan ignores."""

from __future__ import annotations

from lcplan.formats.errors import BadInputError
from planner.trainers import Difference, Job
from planner.trainers.common.imported import number
from planner.trainers.common.known_keys import notes_on
from planner.trainers.common.offload import OPTIMIZER_BYTES, in_host_memory
from planner.trainers.megatron.arguments import Arguments, real

FP32_LOGITS = 6.0
"""Bytes of a logit in Megatron's loss: fp32 and the bf16 of the product (``cost_models.inputs.program``, ``logit_bytes``)."""
FP8_ROWS = 16
"""Tokens of which a rank has a multiple where Transformer Engine multiplies in fp8."""
ROWS_OF_RECIPE = {"mxfp8": 32, "blockwise": 128}
"""The same by ``--fp8-recipe``, where its blocks are longer (modelscope/ms-swift#9723)."""
PARTS = ("lora-rank", "lora-alpha", "lora-dim", "target-modules", "peft", "adapter-type")
"""Prefixes of adapters' arguments; ``q-lora-rank`` and ``kv-lora-rank`` are sizes of latent attention."""
TUNERS = ("train-type", "tuner-type", "peft-scheme")


def refuse_adapters(arguments: Arguments, *, file: str) -> None:
    """lcplan trains every parameter.

    Raises
    ------
    BadInputError
        The arguments train adapters.
    """
    tuners = [f"--{name} {' '.join(arguments[name])}" for name in TUNERS if arguments.get(name, ["full"]) not in (["full"], [])]
    found = tuners + [f"--{name}" for name in PARTS if name in arguments]
    if found:
        raise BadInputError(
            f"{file}: {found[0]}: lcplan prices training of every parameter, and adapters hold state only for themselves; take "
            "its arguments out to see the full fine-tune"
        )


def notes_of(arguments: Arguments) -> list[str]:
    """List arguments that lcplan prices differently."""
    found = []
    if "fp8-format" in arguments:
        found.append(f"--fp8-format {' '.join(arguments['fp8-format'])}: lcplan prices bf16")
    if "fp16" in arguments:
        found.append("--fp16: priced as bf16, which takes as many bytes")
    optimizer = (arguments.get("optimizer") or ["adam"])[0]
    if optimizer != "adam":
        found.append(f"--optimizer {optimizer}: lcplan prices AdamW with two moments")
    if "window-size" in arguments:
        found.append("--window-size: priced as --model has it, with full attention unless that model has a window")
    found += [f"--{name}: lcplan keeps activations on the device" for name in OFFLOADED if name in arguments]
    unfused = (arguments.get("attention-backend") or ["auto"])[0]
    if "num-experts" in arguments and unfused in ("unfused", "local"):
        found.append(f"--attention-backend {unfused}: its scores take further memory, which is priced for dense models only")
    kind = (arguments.get("softmax-type") or ["vanilla"])[0]
    if kind != "vanilla":
        found.append(f"--softmax-type {kind}: its term of the sum is not priced")
    return [*found, *notes_on("megatron", arguments, option="--")]


OFFLOADED = ("cpu-offloading", "cpu-offloading-num-layers", "fine-grained-activation-offloading")


def predicted_tokens(arguments: Arguments, job: Job, *, whole: bool, file: str) -> list[Difference]:
    """``--mtp-num-layers``: each further layer has a projection of two streams, and logits of its own.

    ``whole``: whether every data-parallel rank holds weights and gradients, as with the distributed optimizer.
    """
    depth = int(real(arguments, "mtp-num-layers", default=0, file=file))
    if depth < 1:
        return []
    model, mesh = job.model, job.strategy.mesh
    parameters = depth * (model.layer_matrix_parameters + 2 * model.d_model**2) / mesh.tensor
    shards = (mesh.devices if whole else mesh.state_shards) / mesh.tensor
    state = 6.0 + OPTIMIZER_BYTES / shards if whole else (6.0 + OPTIMIZER_BYTES) / shards
    logits = depth * FP32_LOGITS * job.local_tokens * model.vocab / mesh.tensor
    return [
        Difference(
            name="multi-token-prediction",
            plan="one head on the last layer",
            trainer=f"{depth} further layers with logits of their own",
            why="--mtp-num-layers; the time of these layers is not priced",
            extra_bytes=round(parameters * state + logits),
        )
    ]


def offloaded(arguments: Arguments, job: Job, *, file: str) -> list[Difference]:
    """``--optimizer-cpu-offload``: a share of the masters and moments on the host."""
    if "optimizer-cpu-offload" not in arguments:
        return []
    text = (arguments.get("optimizer-offload-fraction") or ["1.0"])[0]
    try:
        fraction = number(float(text), "--optimizer-offload-fraction", file=file)
    except ValueError:
        raise BadInputError(f"{file}: --optimizer-offload-fraction {text!r:.40}: not a number from 0 to 1") from None
    moved = OPTIMIZER_BYTES * min(max(fraction, 0.0), 1.0)
    what = f"--optimizer-cpu-offload of {min(max(fraction, 0.0), 1.0):.0%}"
    return in_host_memory(job, bytes_per_parameter=moved, shards=job.strategy.devices, key=what)


def refusals_of(arguments: Arguments, job: Job) -> list[str]:
    """Why Megatron does not run these arguments, or stops in the first step."""
    found = [*_uneven_rows(arguments, job), *_parallel(arguments, job), *_attention(arguments, job)]
    return [*found, *_state(arguments, job), *_recompute(arguments)]


def _parallel(arguments: Arguments, job: Job) -> list[str]:
    tensor, sequence = job.strategy.mesh.tensor, "sequence-parallel" in arguments
    found = []
    if tensor > 1 and not sequence and job.model.experts is not None:
        found.append(f"experts next to tensor-model-parallel-size={tensor} need --sequence-parallel")
    if "tp-comm-overlap" in arguments and not sequence:
        found.append("--tp-comm-overlap needs --sequence-parallel: it overlaps gathers and scatters, not all-reduces")
    local = (arguments.get("transformer-impl") or ["transformer_engine"])[0] == "local"
    if job.strategy.mesh.context > 1 and local:
        found.append("--context-parallel-size runs only in Transformer Engine's attention; leave --transformer-impl local out")
    return found


def _attention(arguments: Arguments, job: Job) -> list[str]:
    """Transformer Engine's context parallelism by ``--cp-comm-type``: its ring has neither windows nor sinks
    (NVIDIA/Megatron-LM#1160, NVIDIA/TransformerEngine#2541)."""
    strategy, model = job.strategy, job.model
    if strategy.mesh.context == 1 or strategy.scheme == "ulysses":
        return []
    found = []
    asked = "window-size" in arguments
    if strategy.scheme == "ring-zigzag" and (asked or model.windows_within(job.workload.seq_len)):
        window = f"layers of {model.name} with a window of {model.sliding_window} tokens"
        window = f"layers with --window-size {' '.join(arguments['window-size'])}" if asked else window
        found.append(f"{window} have no attention under --cp-comm-type p2p; use all_gather or a2a")
    kind = (arguments.get("softmax-type") or ["vanilla"])[0]
    if model.attention_sinks or kind != "vanilla":
        sinks = f"--softmax-type {kind}" if kind != "vanilla" else f"attention sinks of {model.name}"
        found.append(f"{sinks} run over context only under --cp-comm-type a2a; use that")
    return found


def _state(arguments: Arguments, job: Job) -> list[str]:
    split = "use-distributed-optimizer" in arguments or "use-megatron-fsdp" in arguments
    found = []
    if "overlap-param-gather" in arguments and not split:
        found.append("--overlap-param-gather needs --use-distributed-optimizer: nothing is gathered without it")
    if "optimizer-cpu-offload" in arguments and "use-precision-aware-optimizer" not in arguments:
        found.append("--optimizer-cpu-offload needs --use-precision-aware-optimizer")
    if "use-torch-fsdp2" in arguments:
        wrong = {
            "--use-distributed-optimizer": "use-distributed-optimizer" in arguments,
            "expert-model-parallel-size": job.expert_ranks[0] > 1,
            "tied embeddings (give --untie-embeddings-and-output-weights)": job.model.tied_embeddings,
        }
        found += [f"--use-torch-fsdp2 does not go with {name}" for name, holds in wrong.items() if holds]
    return found


def _recompute(arguments: Arguments) -> list[str]:
    away = (arguments.get("cpu-offloading-num-layers") or ["0"])[0] not in ("0", "")
    recomputed = arguments.get("recompute-granularity") or "recompute-activations" in arguments
    offloads = ["--cpu-offloading-num-layers does not go with recomputation; leave one of them out"]
    if arguments.get("recompute-granularity") != ["full"]:
        return offloads if away and recomputed else []
    needed = [name for name in ("recompute-method", "recompute-num-layers") if not arguments.get(name)]
    found = [f"--recompute-granularity full needs --{name}" for name in needed] + (offloads if away else [])
    if "distribute-saved-activations" in arguments and "sequence-parallel" in arguments:
        found.append("--distribute-saved-activations does not go with --sequence-parallel, which splits them already")
    return found


def _uneven_rows(arguments: Arguments, job: Job) -> list[str]:
    """Transformer Engine's products in fp8 take rows by 16, or by a recipe's block."""
    tensor = job.strategy.mesh.tensor
    rows = job.local_tokens // tensor
    recipe = (arguments.get("fp8-recipe") or [""])[0]
    block = ROWS_OF_RECIPE.get(recipe, FP8_ROWS)
    if "fp8-format" not in arguments or rows % block == 0:
        return []
    named = f" of --fp8-recipe {recipe}" if recipe in ROWS_OF_RECIPE else ""
    return [
        f"products in fp8{named} take a multiple of {block} tokens, and a context and tensor rank has {rows}; pad --seq-length"
    ]
