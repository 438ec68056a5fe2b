"""Toolchains and jobs as fixtures."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from measuring import MakeJob, MemoryStore, odd_program, ring_job

from planner.measure.targets.toolchain import Toolchain, probe
from planner.measure.workers.job import Program

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """This Python."""
    return probe()


@pytest.fixture
def gpu_toolchain(toolchain: Toolchain) -> Toolchain:
    if toolchain.targets["gpu"] is not True:
        pytest.skip(f"no GPU target: {toolchain.targets['gpu']}")
    return toolchain


@pytest.fixture(scope="session")
def rocm_toolchain(toolchain: Toolchain) -> Toolchain:
    """This Python, or the one of ``.toolchains/rocm``, which CI makes."""
    folder = Path(os.environ.get("LCPLAN_ROCM", ROOT / ".toolchains" / "rocm"))
    if toolchain.targets["rocm"] is not True and folder.is_dir():
        toolchain = probe(folder)
    if toolchain.targets["rocm"] is not True:
        pytest.skip(f"no AMD target: {toolchain.targets['rocm']}; LCPLAN_ROCM or .toolchains/rocm may be a Python that has it")
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
