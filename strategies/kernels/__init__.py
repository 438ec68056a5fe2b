"""Attention inside one chunk, by the kernel that suits the device."""

from __future__ import annotations

from lcplan.strategy import ATTENTION_BLOCK
from strategies.inputs.step_spec import KernelName
from strategies.kernels.interface import ChunkKernel


def default_kernel(platform: str) -> KernelName:
    """The best kernel for a platform as jax names it: ``gpu`` or ``cuda``, ``tpu``, ``cpu``."""
    if platform in {"gpu", "cuda"}:
        return "cudnn"
    return "splash" if platform == "tpu" else "blockwise"


def chunk_kernel(name: KernelName, *, block: int = 0, window: int | None = None) -> ChunkKernel:
    """The kernel by name; ``block`` is the most queries of a tile where it has tiles, 0 leaves that to the kernel.

    With ``window`` a causal mask leaves a query its own key and as many before it as make ``window``.
    """
    block = block or ATTENTION_BLOCK
    if name == "cudnn":
        from strategies.kernels.cudnn import CudnnKernel  # imports jax's private module

        return CudnnKernel(window)
    if name == "splash":
        from strategies.kernels.splash import SplashKernel  # as the other

        return SplashKernel(block, window=window)
    from strategies.kernels.blockwise import BlockwiseKernel

    return BlockwiseKernel(block, 2 * block, window)
