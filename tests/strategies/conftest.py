"""Eight host devices: set before jax is imported anywhere in this process."""

import os
import sys

_FLAG = "--xla_force_host_platform_device_count=8"

if "jax" not in sys.modules:
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAG}".strip()
