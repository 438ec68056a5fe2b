"""Which attention kernel a step runs inside a chunk: the one decision that programs, cost model and rules share."""

from __future__ import annotations

from typing import Literal

from lcplan.spec.model import ModelSpec

AttentionKernel = Literal["cudnn", "splash", "blockwise"]

SPLASH_LANES = 128
"""jax's splash attention kernels take head dims and lengths that are multiples of a TPU's lanes."""

CUDNN_LARGEST_HEAD_DIM = 128
"""Limit of cuDNN's forward and backward pass on every architecture from Ampere on (cuDNN frontend,
docs/operations/Attention, support matrix of 9.18)."""

CUDNN_LARGEST_BY_CAPABILITY = {(9, 0): 256}
"""Largest head dim of both passes, where an architecture has more (the same matrix; jax 0.10.1 takes as many from 9.0 on,
_src/cudnn/fused_attention_stablehlo.py). On Blackwell the forward pass takes 256 and the backward pass 128."""

CUDNN_UNLIKE_HEADS_CAPABILITY, CUDNN_LARGEST_UNLIKE_HEAD_DIM = (9, 0), 192
"""Keys and values with heads of unlike size take cuDNN 9.10 and compute capability 9.0 (jax 0.10.1,
_src/cudnn/fused_attention_stablehlo.py); DeepSeek's 192 and 128 are the case that it was written for."""

LEAST_TRITON_DIM = 16
"""Smallest dimension of a product in Triton (``tl.dot``)."""


def attention_kernel(
    model: ModelSpec,
    *,
    kind: Literal["gpu", "tpu", "cpu"],
    precision: str,
    shortest_chunk: int,
    capability: tuple[int, int] | None = None,
    fused: bool = True,
) -> AttentionKernel:
    """The fused kernel of the device where it takes the model's heads and chunks, else blockwise JAX.

    Fused kernels take half precision. cuDNN's takes head dims that are multiples of 8 up to 128, on Hopper up to 256; from
    Hopper on also keys and values of unlike head dims up to 192. Splash takes head dims and lengths that are multiples of 128.

    Parameters
    ----------
    model : ModelSpec
        Model whose heads the kernel takes.
    kind : str
        Kind of device that the program runs on.
    precision : str
        Precision of the activations, ``bf16`` or ``fp32``.
    shortest_chunk : int
        Shortest length that the kernel meets: half a context rank's tokens of one sequence [tokens].
    capability : tuple of int, optional
        Compute capability of an NVIDIA GPU.
    fused : bool
        Whether jax has a fused kernel for the device, which it lacks for AMD's GPUs and the first TPUs.

    Returns
    -------
    str
        The kernel.
    """
    if precision != "bf16" or kind == "cpu" or not fused:
        return "blockwise"
    if kind == "tpu":
        whole_lanes = model.head_dim % SPLASH_LANES == 0 and shortest_chunk % SPLASH_LANES == 0
        return "splash" if whole_lanes and model.latent is None else "blockwise"
    dims: tuple[int, ...] = (model.head_dim,)
    largest = cudnn_largest_head_dim(capability)
    if model.latent is not None:
        if capability is None or capability < CUDNN_UNLIKE_HEADS_CAPABILITY:
            return "blockwise"
        dims, largest = (model.key_dim, model.value_dim), CUDNN_LARGEST_UNLIKE_HEAD_DIM
    return "cudnn" if all(dim % 8 == 0 and dim <= largest for dim in dims) else "blockwise"


def cudnn_largest_head_dim(capability: tuple[int, int] | None) -> int:
    """The largest head dim that cuDNN trains with on a GPU of this compute capability.

    >>> [cudnn_largest_head_dim(version) for version in ((8, 0), (9, 0), (10, 0), None)]
    [128, 256, 128, 128]
    """
    return CUDNN_LARGEST_HEAD_DIM if capability is None else CUDNN_LARGEST_BY_CAPABILITY.get(capability, CUDNN_LARGEST_HEAD_DIM)


def shortest_chunk(seq_len: int, context: int) -> int:
    """The shortest length that a step's attention kernels meet: the half chunk of a zigzag ring [tokens].

    >>> shortest_chunk(65536, 16)
    2048
    """
    return seq_len // (2 * context)


def reads_cache_in_place(kind: Literal["gpu", "tpu", "cpu"], head_dim: int, *, amd: bool = False) -> bool:
    """Whether a decode step reads a layer's keys and values where the stacked cache has them, in one pass.

    XLA for TPU reads a layer of a stack inside a product. XLA for GPU copies it first, so a Pallas kernel reads it there, whose
    tiles are powers of two. Elsewhere the layer is copied: read, written, and read again.

    >>> [reads_cache_in_place(*case) for case in (("tpu", 80), ("gpu", 128), ("gpu", 96), ("cpu", 128))]
    [True, True, False, False]
    """
    power = head_dim >= LEAST_TRITON_DIM and head_dim & (head_dim - 1) == 0
    return kind == "tpu" or (kind == "gpu" and power and not amd)
