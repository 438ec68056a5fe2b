"""Memory of a MaxText run beyond or below the cost model, by keys that lcplan has no knob for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cost_models.inputs.program import STEP, Program
from lcplan.strategy.attention_kernel import attention_kernel
from planner.trainers import Difference, Job
from planner.trainers.maxtext.read_remat import Kept, own_program, priced_bytes
from planner.trainers.maxtext.reading.needs import head_in_fp32, predicted_tokens

MOMENTS = {"adamw": (1, 1), "adam_pax": (1, 1), "sgd": (0, 0), "muon": (1, 0)}
"""Copies of the first and of the second moment; Muon keeps one of matrices (``optimizers/optimizers.py``)."""


@dataclass(frozen=True)
class Beyond:
    """The differences of one configuration."""

    values: Mapping[str, Any]
    tensors: Kept

    def __call__(self, job: Job) -> list[Difference]:
        """List the differences of the job that the file describes."""
        exact = self.tensors.priced == (job.strategy.remat, True)
        program, own = (STEP, job) if exact else (own_program(self.tensors), job.with_strategy(remat="full"))
        priced, kept = (priced_bytes(*way) for way in ((job, STEP), (own, program)))
        tile = max(1, job.local_tokens // int(self.values["num_vocab_tiling"]))
        tiled = _with_logits(own, tile, program=program)
        found = [*self._remat(job, kept - priced), *self._scores(job)]
        found += self._loss(job, tile=tile, extra=tiled - kept)
        return [*found, *self._state(job), *predicted_tokens(self.values, job), *head_in_fp32(self.values, job, tile=tile)]

    def of_any_strategy(self, job: Job) -> list[Difference]:
        """List the differences that hold for other strategies of the file too: scores of plain attention, and the state."""
        return [*self._scores(job), *self._state(job)]

    def _scores(self, job: Job) -> list[Difference]:
        """Plain attention has a layer's weights and their cotangent in memory, of each query with every key of its sequence."""
        why = self._unfused(job)
        if not why:
            return []
        size = 4 if self.values.get("float32_logits") else 2
        weights = job.local_tokens * job.workload.seq_len * job.model.heads / job.strategy.mesh.tensor
        return [
            Difference(
                name="attention",
                plan="a fused kernel",
                trainer=f"{job.workload.seq_len} weights a query and head in memory, and their cotangent",
                why=why,
                extra_bytes=round(2 * size * weights),
            )
        ]

    def _unfused(self, job: Job) -> str:
        """The reason why attention is not fused; empty where it is.

        Transformer Engine warns, and runs products and a softmax, where cuDNN has no kernel (transformer_engine/jax, flax).
        """
        asked, device = str(self.values["attention"]), job.hardware.device
        if asked == "dot_product":
            return "attention: dot_product is plain products and a softmax; their time is not counted"
        if asked != "cudnn_flash_te" or device.gpu is None or job.hardware.vendor == "amd":
            return ""
        chunk, capability = job.workload.seq_len, device.gpu.compute_capability
        kernel = attention_kernel(job.model, kind="gpu", precision="bf16", shortest_chunk=chunk, capability=capability)
        if kernel == "cudnn":
            return ""
        return (
            f"cuDNN trains no heads of {job.model.head_dim} on {device.name}, so Transformer Engine falls back to "
            "plain products and a softmax; their time is not counted"
        )

    def _remat(self, job: Job, extra: int) -> list[Difference]:
        if extra == 0:
            return []
        places = {"the device": self.tensors.device, "the host": self.tensors.away}
        return [
            Difference(
                name="remat",
                plan=job.strategy.remat,
                trainer="; ".join(f"{', '.join(names) or 'nothing'} on {place}" for place, names in places.items()),
                why="memory is that of the file's own set, time that of lcplan's nearest policy",
                extra_bytes=extra,
            )
        ]

    def _loss(self, job: Job, *, tile: int, extra: int) -> list[Difference]:
        """A tile spans the sequences of a microbatch; the largest chunk of a strategy is one sequence's share."""
        if extra == 0 and tile == job.strategy.loss_chunk_tokens:
            return []
        tiles = self.values["num_vocab_tiling"]
        return [
            Difference(
                name="loss",
                plan=f"logits of {job.strategy.loss_chunk_tokens} tokens at a time",
                trainer=f"logits of {tile} tokens at a time",
                why=f"num_vocab_tiling={tiles} divides the {job.local_tokens} tokens of a microbatch",
                extra_bytes=extra,
            )
        ]

    def _state(self, job: Job) -> list[Difference]:
        """Parameters, moments, gradients and cast weights, where they are not all as lcplan has them."""
        weights = _bytes(self.values["weight_dtype"])
        first = _bytes(self.values["mu_dtype"] or self.values["weight_dtype"])
        copies = MOMENTS[str(self.values["opt_type"])]
        moments = copies[0] * first + copies[1] * weights
        all_bytes = weights + moments
        parameters = weights * (not self.values.get("parameter_memory_host_offload"))
        moments *= not self.values.get("optimizer_memory_host_offload")
        extra, away = parameters + moments - 12, all_bytes - parameters - moments
        if extra == 0:
            return []
        if weights == 2:  # gradients leave bf16 weights in bf16 (train.py), and nothing is cast before the loops
            extra -= 2 + 2 * (job.hardware.kind == "tpu")
        return [
            Difference(
                name="state",
                plan="12 bytes a parameter: fp32 weights and moments",
                trainer=f"{parameters + moments:g} bytes a parameter on the device",
                why="weight_dtype, mu_dtype, opt_type and the state offloaded to the host; gradients are in the weights' dtype",
                extra_bytes=round(extra * job.state_elements),
                host_bytes=round(away * job.state_elements),
            )
        ]


def _with_logits(job: Job, tile: int, *, program: Program) -> int:
    """Memory of the job with the logits of ``tile`` tokens at once [bytes per device].

    On TPU MaxText never holds the cotangent of its logits, which the cost model counts for one chunk: Gemma 2's and Llama
    3.1's Trillium scripts (configs/tpu/v6e; AI-Hypercomputer/tpu-recipes) run 24576 tokens per device in one tile, whose fp32
    logits already are 25 and 13 of 33 GB. Its train_compile for v6e-8 (0.2.5, Llama 3.1 8B cut to one layer) takes 7.24 GB of
    temporaries with one sequence of 8192 tokens and 17.88 with three: 5.1 bytes a logit, all streams among them.
    """
    total = priced_bytes(job.with_strategy(loss_chunk_tokens=tile), program)
    if job.hardware.kind != "tpu" or tile != job.local_tokens:
        return total
    elsewhere = priced_bytes(job.with_strategy(loss_chunk_tokens=1), program)
    cotangent = round(2 * tile * job.model.vocab / job.strategy.mesh.tensor)
    return max(elsewhere, total - cotangent)


def _bytes(dtype: Any) -> int:
    return 2 if str(dtype) in ("bfloat16", "float16") else 4
