"""Which backend is real under which jax, and the options and flags that follow."""

from __future__ import annotations

import pytest

from lcplan import catalog
from lcplan.strategy import Mesh, Strategy
from planner.measure.targets.backends import (
    backend_verdict,
    compiler_options,
    devices_per_process,
    environment,
    version_of,
    xla_flags,
)

GB200 = catalog.hardware("gb200-nvl72")
TPU = catalog.hardware("tpu-v5p-64")
PERMUTE = {"xla_gpu_collective_permute_mode": "COLLECTIVES_SYMMETRIC_MEMORY"}
GATHER = {"xla_gpu_all_gather_mode": "COLLECTIVES_SYMMETRIC_MEMORY"}


def strategy(backend: str) -> Strategy:
    return Strategy(mesh=Mesh(context=8), backend=backend)


@pytest.mark.parametrize(
    ("jax", "nvshmem", "symmetric"),
    [
        ("0.8.2", False, False),
        ("0.9.2", True, False),
        ("0.10.0", True, False),
        ("0.10.1", True, True),
        ("0.10.2", False, True),
        ("0.11.2", False, True),
        ("0.12.0.1", False, True),
    ],
)
def test_the_table_of_versions(jax: str, nvshmem: bool, symmetric: bool) -> None:
    assert (backend_verdict("nvshmem", jax) is True) == nvshmem
    assert (backend_verdict("symmetric", jax) is True) == symmetric
    assert backend_verdict("nccl", jax) is True


def test_a_backend_that_is_gone_says_what_newer_versions_do() -> None:
    assert backend_verdict("nvshmem", "0.11.2") == (
        "jax 0.11.2 has no real nvshmem: 0.9.2 to 0.10.1 have it; "
        "0.10.2 accepts the flag and ignores it, 0.11 and newer abort on it"
    )


@pytest.mark.parametrize("jax", ["0.6.2", "0.7.2", "0.8.2", "0.9.1"])
def test_a_jax_that_compiles_for_no_absent_gpu_was_not_tried(jax: str) -> None:
    for backend in ("nvshmem", "symmetric"):
        verdict = backend_verdict(backend, jax)
        assert str(verdict).startswith(f"jax {jax} was not tried with {backend}, as it compiles only for a GPU")


@pytest.mark.parametrize(
    ("backend", "jax", "options"),
    [
        ("nccl", "0.10.1", {}),
        ("nvshmem", "0.10.1", {"xla_gpu_experimental_enable_nvshmem": True}),
        ("nvshmem", "0.11.2", {}),  # XLA_FLAGS with it would abort the process
        ("symmetric", "0.10.1", PERMUTE),
        ("symmetric", "0.12.0", PERMUTE | GATHER),
        ("symmetric", "0.9.2", {}),
    ],
)
def test_compiler_options_know_only_what_this_jax_knows(backend: str, jax: str, options: dict[str, object]) -> None:
    assert compiler_options(strategy(backend), GB200, jax=jax) == options
    assert len(xla_flags(strategy(backend), GB200, jax=jax)) == len(options)


def test_flags_take_short_words_where_options_take_proto_names() -> None:
    assert xla_flags(strategy("symmetric"), GB200, jax="0.10.1") == ("--xla_gpu_collective_permute_mode=symmetric",)
    assert xla_flags(strategy("nvshmem"), GB200, jax="0.10.1") == ("--xla_gpu_experimental_enable_nvshmem=true",)


def test_environment_of_a_job() -> None:
    """The pool leaves room for NCCL's buffers, which lie outside it."""
    ratio = f"{GB200.pool_ratio(strategy('nccl').mesh.communicators):.3f}"
    assert float(ratio) < GB200.allowance.usable_ratio.value
    assert environment(strategy("nvshmem"), GB200, jax="0.10.1") == {
        "XLA_FLAGS": "--xla_gpu_experimental_enable_nvshmem=true",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": ratio,
    }
    assert environment(strategy("nccl"), GB200, jax="0.10.1") == {"XLA_PYTHON_CLIENT_MEM_FRACTION": ratio}
    assert environment(strategy("ici"), TPU, jax="0.10.1") == {}


def test_nvshmem_runs_one_device_a_process() -> None:
    assert devices_per_process(strategy("nvshmem"), GB200) == 1
    assert devices_per_process(strategy("nccl"), GB200) == 4
    assert devices_per_process(Strategy(mesh=Mesh(context=2)), GB200) == 2


@pytest.mark.parametrize(("text", "version"), [("0.10.1", (0, 10, 1)), ("0.12.0.1.dev3", (0, 12, 0, 1)), ("what", (0,))])
def test_versions_compare_as_numbers(text: str, version: tuple[int, ...]) -> None:
    assert version_of(text) == version
