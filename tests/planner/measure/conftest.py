"""Toolchains and jobs as fixtures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from measuring import MakeJob, MemoryStore, odd_program, ring_job

from planner.measure.targets.toolchain import Toolchain, probe
from planner.measure.workers.job import Program


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """This Python."""
    return probe()


@pytest.fixture
def gpu_toolchain(toolchain: Toolchain) -> Toolchain:
    if toolchain.targets["gpu"] is not True:
        pytest.skip(f"no GPU target: {toolchain.targets['gpu']}")
    return toolchain


@pytest.fixture
def tpu_toolchain(toolchain: Toolchain) -> Toolchain:
    if toolchain.targets["tpu"] is not True:
        pytest.skip(f"no TPU target: {toolchain.targets['tpu']}")
    return toolchain


@pytest.fixture
def make_job() -> MakeJob:
    return ring_job


@pytest.fixture
def odd() -> Callable[[str], Program]:
    return odd_program


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()
