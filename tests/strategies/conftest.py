"""Eight host devices for this process, and for no process that other tests start.

jax reads its settings when it makes its backend, once; so that is done here, and the environment is put back.
"""

import os
from unittest import mock

import jax

_FLAGS = (
    "--xla_force_host_platform_device_count=8",
    # The programs are tiny and run once: compiling them is what takes the time.
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
)

with mock.patch.dict(os.environ, XLA_FLAGS=" ".join((os.environ.get("XLA_FLAGS", ""), *_FLAGS)).strip()):
    jax.config.update("jax_platforms", "cpu")
    assert len(jax.devices()) == 8
