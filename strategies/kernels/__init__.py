"""Attention inside one chunk, by the kernel that suits the device."""

from __future__ import annotations

from strategies.kernels.interface import ChunkKernel
from strategies.spec import KernelName


def default_kernel(platform: str) -> KernelName:
    """The best kernel for a platform as jax names it: ``gpu`` or ``cuda``, ``tpu``, ``cpu``."""
    return "cudnn" if platform in {"gpu", "cuda"} else "blockwise"


def chunk_kernel(name: KernelName) -> ChunkKernel:
    """The kernel by name."""
    if name == "cudnn":
        from strategies.kernels.cudnn import CudnnKernel  # imports jax's private module

        return CudnnKernel()
    from strategies.kernels.blockwise import BlockwiseKernel

    return BlockwiseKernel()
