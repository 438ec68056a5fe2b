"""Choices that a compile without an AMD GPU makes and that a run makes again, read from the executable's text."""

from __future__ import annotations

import re

_PRODUCT = re.compile(r'"kind":"__triton_(?:nested_)?gemm(?:_fusion)?"')
_LIBRARY = re.compile(r'custom_call_target="__cublas\$(?:lt\$)?(?:matmul|gemm)')
_SORT = re.compile(r"\bsort\(")
WORKSPACE_MIB = 76
"""Workspace of hipBLASLt in XLA's executables for gfx942 and gfx950: 79691776 bytes (jax-rocm7-pjrt 0.10.1 and 0.12.0, compiled
with ``xla_gpu_enable_triton_gemm=false``)."""
STAND_INS = "compiled without ROCm: stand-ins took the place of its libraries, and nothing of them ran"
ATTENTION = "attention is plain JAX: jax has no fused attention for AMD GPUs (MIOpen, Composable Kernel, AITER)"


def differences(text: str, *, replaced: bool) -> tuple[str, ...]:
    """Return one sentence for each choice that a device would make again, and one where ``replaced`` libraries were linked.

    XLA picks kernels by timing candidates on the device. Without one it takes the first that its own model prefers.
    """
    found = [STAND_INS] if replaced else []
    if _PRODUCT.search(text):
        found.append(
            "matrix products are Triton kernels with untimed tiles; a run also times hipBLASLt's, which take up to "
            f"{WORKSPACE_MIB} MiB of workspace (within the allowance for the runtime)"
        )
    if _LIBRARY.search(text):
        found.append("matrix products are hipBLASLt's, with its first algorithm; a run times the others")
    if _SORT.search(text):
        found.append("sorts are XLA's slower fallback; a run may take a library's, with a workspace of its own")
    return (*found, ATTENTION)
