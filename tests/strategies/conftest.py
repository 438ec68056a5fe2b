"""Eight host devices: set before jax is imported anywhere in this process."""

import os
import sys

_FLAGS = (
    "--xla_force_host_platform_device_count=8",
    # The programs are tiny and run once: compiling them is what takes the time.
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
)

if "jax" not in sys.modules:
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = " ".join((os.environ.get("XLA_FLAGS", ""), *_FLAGS)).strip()
