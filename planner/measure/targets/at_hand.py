"""Which of a hardware's devices this machine has. A look at the driver's own list; imports no jax and is over in a blink."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import lru_cache

from lcplan.spec.hardware import HardwareSpec

LOOK_S = 10.0
"""A driver that does not answer for so long has no devices for us."""


def devices_at_hand(hardware: HardwareSpec) -> int:
    """Devices of the hardware's kind in this machine: for a CPU the requested number, for a TPU 0 (never looked for)."""
    if hardware.kind == "cpu":
        return hardware.devices
    if hardware.kind != "gpu" or hardware.device.gpu is None:
        return 0
    return sum(is_same(name, hardware.device.gpu.description) for name in gpu_names())


def is_same(name: str, description: str) -> bool:
    """Whether a driver's name of a GPU means the device that the spec describes, which may add its memory.

    >>> is_same("NVIDIA H200", "NVIDIA H200 141GB HBM3e"), is_same("NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3")
    (True, False)
    """
    words = name.split()
    return bool(words) and description.split()[: len(words)] == words


@lru_cache(maxsize=1)
def gpu_names() -> tuple[str, ...]:
    """Names of the GPUs that this process may use, as the driver lists them; empty without a driver."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return ()
    query = [command, "--query-gpu=name", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=LOOK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    names = tuple(line.strip() for line in answer.stdout.splitlines() if line.strip()) if answer.returncode == 0 else ()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return names if visible is None else names[: len([one for one in visible.split(",") if one.strip() not in ("", "-1")])]
