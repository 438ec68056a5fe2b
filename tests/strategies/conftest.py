"""Eight host devices for this process, and for no process that other tests start.

jax reads its settings when it makes its backend, once; so that is done here, and the environment is put back.
"""

import os
from unittest import mock

import jax
import pytest

_FLAGS = (
    "--xla_force_host_platform_device_count=8",
    # The programs are tiny and run once: compiling them is what takes the time.
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
)

with mock.patch.dict(os.environ, XLA_FLAGS=" ".join((os.environ.get("XLA_FLAGS", ""), *_FLAGS)).strip()):
    jax.config.update("jax_platforms", "cpu")
    assert len(jax.devices()) == 8


@pytest.fixture(autouse=True)
def executables_of_a_grid_do_not_pile_up(request):
    """jax keeps what it compiled; of some hundred programs the kernel runs out of maps, and XLA's compiler for CPU dies."""
    yield
    if request.node.get_closest_marker("slow"):
        jax.clear_caches()
