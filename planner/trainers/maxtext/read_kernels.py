"""Keys without a knob in lcplan that MaxText's attention kernels refuse or run wrongly.

Read in 0.2.5: ``configs/types.py``, ``layers/attention_op.py`` (``cudnn_flash_attention``, ``apply_attention``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.trainers import Job

_SPLASH = {"attention": "flash", "use_tokamax_splash": True, "use_jax_splash": False}
"""Attention types whose kernels carry a ring or an all-to-all on TPU."""
_NOT_OVER_CONTEXT = {
    "use_ragged_attention": "ragged attention",
    "use_chunked_prefill": "chunked prefill",
    "use_multimodal": "multimodal attention",
    "use_qk_clip": "QK-Clip",
    "moba": "MoBA",
}
_WHOLE_SEQUENCES = ("flash", "autoselected", "cudnn_flash_jax")
"""Kernels on GPU that know no context axis."""


def strategy_of(values: Mapping[str, Any]) -> str:
    """``context_parallel_strategy`` in small letters."""
    return str(values["context_parallel_strategy"]).lower()


def has_sinks(values: Mapping[str, Any], job: Job) -> bool:
    """Whether attention has sinks, by the file or by its model."""
    return bool(values["attention_sink"]) or job.model.attention_sinks


def has_windows(job: Job) -> bool:
    """Whether MaxText gives some layers a window: its mistral block has no window, whatever the model's own file states."""
    return job.model.sliding_window is not None and job.model.family != "mistral"


def on_tpu(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    """List problems of a ring or an all-to-all on TPU; an all-gather of keys runs with every kernel."""
    strategy = strategy_of(values)
    if values["use_tokamax_splash"] and values["use_jax_splash"]:
        yield "use_tokamax_splash and use_jax_splash are both true, and at most one may be; set use_jax_splash: false"
    if strategy not in ("ring", "ulysses"):
        return
    if job.strategy.mesh.context == 1:
        yield f"context_parallel_strategy: {strategy} on TPU needs a context axis above 1; use all_gather, or split context"
        return
    if any(values[key] != wanted for key, wanted in _SPLASH.items()):
        said = ", ".join(f"{key}: {_yaml(values[key])}" for key, wanted in _SPLASH.items() if values[key] != wanted)
        needed = ", ".join(f"{key}: {_yaml(wanted)}" for key, wanted in _SPLASH.items())
        yield f"{strategy} on TPU is a Tokamax splash kernel, and the file has {said}; set {needed}, or use all_gather"
    if values["dq_reduction_steps"] not in (0, 3):
        yield f"dq_reduction_steps={values['dq_reduction_steps']} with {strategy} on TPU; use 0 or 3"
    yield from _unsupported(values, job, strategy=strategy)


def _unsupported(values: Mapping[str, Any], job: Job, *, strategy: str) -> Iterator[str]:
    found = [name for key, name in _NOT_OVER_CONTEXT.items() if values.get(key)]
    found += ["attention sinks"] * has_sinks(values, job) + ["layers with a sliding window"] * has_windows(job)
    found += ["latent attention"] * (strategy == "ulysses" and job.model.latent is not None)
    found += ["dropout"] * bool(values["enable_dropout"] and values["dropout_rate"])
    if found:
        yield f"{strategy} on TPU has no {', no '.join(found)}; use context_parallel_strategy: all_gather"
    if strategy != "ring":
        return
    if values["mtp_num_layers"] and values["context_parallel_load_balance"]:
        yield "a load-balanced ring on TPU has no multi-token prediction; set context_parallel_load_balance: false"
    if job.model.latent is not None and values["packing"]:
        yield "packing (true unless set) with a ring of latent attention is refused; set packing: false"


def on_gpu(values: Mapping[str, Any], job: Job) -> Iterator[str]:
    """List problems of sinks and of a context axis on GPU."""
    attention, sinks = values["attention"], has_sinks(values, job)
    if sinks and attention in _WHOLE_SEQUENCES:
        yield f"attention sinks on GPU run only with cudnn_flash_te or dot_product, not with attention: {attention}"
    if job.strategy.mesh.context == 1:
        return
    if attention in _WHOLE_SEQUENCES:
        yield (
            f"attention: {attention} on GPU takes whole sequences in their order (jax's cuDNN call refuses a split one, a "
            "Pallas kernel masks a reordered one wrongly); context parallelism on GPU is Transformer Engine's: set attention: "
            "cudnn_flash_te"
        )
    elif attention == "cudnn_flash_te":
        yield from _transformer_engine(values, job, sinks=sinks)


def _transformer_engine(values: Mapping[str, Any], job: Job, *, sinks: bool) -> Iterator[str]:
    if sinks:
        yield "Transformer Engine has no attention sinks over context; use ici_context_parallelism: 1"
    ring = strategy_of(values) == "ring" and bool(values["context_parallel_load_balance"])
    packed = bool(values["packing"]) and values["dataset_type"] != "synthetic"
    if has_windows(job) and not (ring and packed):
        yield (
            f"layers of {job.model.name} have a window of {job.model.sliding_window} tokens, which over context on GPU runs "
            "only as a balanced ring with packing: true and real data; use ici_context_parallelism: 1, or these"
        )


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
