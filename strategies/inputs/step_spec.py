"""StepSpec: the model, workload and strategy to build a step for, and the dtypes that follow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import jax.numpy as jnp

from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import KvDtype, Strategy
from lcplan.strategy.attention_kernel import AttentionKernel
from strategies.inputs.policy import PolicyObjective

KernelName = AttentionKernel
Platform = Literal["gpu", "tpu", "cpu"]
_DTYPES = {"bf16": jnp.dtype("bfloat16"), "fp32": jnp.dtype("float32"), "fp8": jnp.dtype("float8_e4m3fn")}


def dtype_of(name: KvDtype) -> jnp.dtype:
    """The dtype that a field of a strategy or of a workload names."""
    return _DTYPES[name]


@dataclass(frozen=True)
class Numerics:
    """Dtypes of one step. Vectors, softmax statistics and every sum over tokens are fp32 besides."""

    compute: jnp.dtype
    """Activations, and both operands of every matrix product."""
    gather: jnp.dtype
    """Weights are rounded to this before they are gathered."""
    reduce: jnp.dtype
    """Gradients of matrices leave their product in this and are reduce-scattered in it."""
    stored: jnp.dtype
    """The dtype of the matrices that are differentiated, and so of their gradients' shards."""


@dataclass(frozen=True)
class StepSpec:
    """One train step: this model, this workload, laid out by this strategy, with this chunk kernel."""

    model: ModelSpec
    workload: Workload
    strategy: Strategy
    kernel: KernelName
    platform: Platform = "cpu"
    """The compiler's platform, which ``build_step`` reads from the mesh. It decides how a mixture of experts moves its rows."""
    objective: PolicyObjective | None = None
    """The policy objective in place of cross-entropy; its values of each token are the batch's ``policy``."""
    learning_rate: float = 3e-4
    """AdamW's learning rate, constant (Llama 2's peak, arXiv:2307.09288, section 2.2)."""

    @cached_property
    def numerics(self) -> Numerics:
        """Dtypes by the workload's precision and the strategy's gather and reduce dtypes."""
        return Numerics(
            compute=dtype_of(self.workload.precision),
            gather=dtype_of(self.strategy.gather_dtype),
            reduce=dtype_of(self.strategy.reduce_dtype),
            stored=dtype_of("fp32" if self.strategy.master_dtype == self.strategy.grad_dtype == "fp32" else "bf16"),
        )

    @property
    def local_seq_len(self) -> int:
        """T / context: positions of every sequence that one context rank holds."""
        return self.workload.seq_len // self.strategy.mesh.context

    @property
    def window(self) -> int | None:
        """Tokens that a query sees, where that is less than the sequence; of a model whose layers are all alike."""
        window = self.model.sliding_window
        return None if window is None or window >= self.workload.seq_len else window

    @property
    def piped(self) -> bool:
        """Whether stages of a pipeline share the layers."""
        return self.strategy.mesh.pipe > 1

    @property
    def stages(self) -> int:
        """Virtual stages of the pipeline; 1 without one."""
        return self.strategy.mesh.pipe * self.strategy.virtual_stages if self.piped else 1

    @property
    def kv_replicated(self) -> bool:
        """Whether tensor ranks outnumber the KV heads, so that ``tensor / K`` neighbours share one."""
        return self.strategy.mesh.tensor > self.model.kv_heads
