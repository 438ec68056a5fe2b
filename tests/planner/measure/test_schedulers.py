"""Scheduler presets: true names by jax, refusals, and what they become in a plan's environment."""

import pytest

from lcplan import catalog
from lcplan.strategy import SCHEDULERS, Mesh, Strategy
from planner.measure.targets.backends import compiler_options, environment, xla_flags
from planner.measure.targets.schedulers import scheduler_options, scheduler_verdict

H100, V5P, HOST = (catalog.hardware(name) for name in ("dgx-h100", "tpu-v5p-8", "cpu-host"))


def strategy(scheduler, backend="nccl"):
    return Strategy(mesh=Mesh(context=4), scheduler=scheduler, backend=backend)


def test_the_default_sets_nothing_anywhere():
    for hardware in (H100, V5P, HOST):
        assert compiler_options(strategy("default"), hardware, jax="0.10.1") == {}


def test_pipelining_was_renamed_in_0_11_1():
    old = [option.word for option in scheduler_options("pipelined", "gpu", jax="0.11.0")]
    new = [option.word for option in scheduler_options("pipelined", "gpu", jax="0.11.1")]
    assert old[0] == "--xla_gpu_enable_pipelined_all_gather=true"
    assert new[0] == "--xla_gpu_pipeline_all_gather=on"
    assert len(old) == len(new) == 3


def test_thresholds_are_those_of_the_presets_names():
    sizes = {"combined-64mib": 64, "combined": 256, "combined-1gib": 1024}
    for name, mib in sizes.items():
        options = compiler_options(strategy(name), H100, jax="0.10.1")
        assert options == {
            f"xla_gpu_{op}_combine_threshold_bytes": str(mib * 2**20) for op in ("all_gather", "reduce_scatter", "all_reduce")
        }


def test_thresholds_of_a_tpu_are_its_all_reduces():
    assert xla_flags(strategy("combined", "ici"), V5P, jax="0.10.1") == ("--xla_jf_crs_combiner_threshold_in_bytes=268435456",)


def test_a_backend_and_a_preset_add_up():
    both = compiler_options(strategy("latency-hiding", "nvshmem"), H100, jax="0.10.1")
    assert both == {"xla_gpu_experimental_enable_nvshmem": True, "xla_gpu_enable_latency_hiding_scheduler": True}


def test_tpu_flags_go_to_libtpu():
    off = strategy("no-latency-hiding", "ici")
    flag = "--xla_tpu_enable_latency_hiding_scheduler=false"
    assert xla_flags(off, V5P, jax="0.10.1") == (flag,)
    assert environment(off, V5P, jax="0.10.1") == {"LIBTPU_INIT_ARGS": flag}
    assert "XLA_FLAGS" in environment(strategy("combined"), H100, jax="0.10.1")


@pytest.mark.parametrize("scheduler", [name for name in SCHEDULERS if name != "default"])
def test_a_host_has_no_presets(scheduler):
    assert scheduler_verdict(scheduler, HOST, jax="0.10.1") == "it has no flags for cpu; there are default"
    assert scheduler_verdict(scheduler, H100, jax="0.10.1") is True


def test_cuda_graphs_record_collectives_and_loops_or_nothing():
    recorded = compiler_options(strategy("command-buffers"), H100, jax="0.10.1")["xla_gpu_enable_command_buffer"]
    assert {"FUSION", "CUBLAS", "COLLECTIVES", "WHILE"} <= set(recorded.split(","))
    assert xla_flags(strategy("no-command-buffers"), H100, jax="0.12.0") == ("--xla_gpu_enable_command_buffer=",)


def test_one_shot_all_reduces_were_renamed_in_0_11_1():
    assert compiler_options(strategy("one-shot-all-reduce"), H100, jax="0.10.1") == {
        "xla_gpu_unsupported_use_all_reduce_one_shot_kernel": True
    }
    assert xla_flags(strategy("one-shot-all-reduce"), H100, jax="0.11.2") == (
        "--xla_gpu_experimental_use_collective_kernels=ALL_REDUCE",
    )


@pytest.mark.parametrize("scheduler", ["command-buffers", "no-command-buffers", "one-shot-all-reduce"])
def test_this_xla_takes_the_flags_of_graphs_and_kernels(scheduler):
    import sys

    from planner.measure.targets.flags import FlagParser
    from planner.measure.targets.toolchain import probe

    words = xla_flags(strategy(scheduler), H100, jax=probe().jax or "0")
    assert FlagParser(sys.executable).verdicts("XLA_FLAGS", words) == dict.fromkeys(words, True)
