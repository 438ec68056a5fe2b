"""Attention inside one chunk, by the kernel that suits the device."""

from __future__ import annotations

from strategies.kernels.interface import ChunkKernel
from strategies.spec import KernelName


def default_kernel(platform: str) -> KernelName:
    """The best kernel for a platform as jax names it: ``gpu`` or ``cuda``, ``tpu``, ``cpu``."""
    if platform in {"gpu", "cuda"}:
        return "cudnn"
    return "splash" if platform == "tpu" else "blockwise"


def chunk_kernel(name: KernelName) -> ChunkKernel:
    """The kernel by name."""
    if name == "cudnn":
        from strategies.kernels.cudnn import CudnnKernel  # imports jax's private module

        return CudnnKernel()
    if name == "splash":
        from strategies.kernels.splash import SplashKernel  # as the other

        return SplashKernel()
    from strategies.kernels.blockwise import BlockwiseKernel

    return BlockwiseKernel()
