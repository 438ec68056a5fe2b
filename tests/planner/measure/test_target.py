"""Targets: topology, target config, sub-slices, host stand-ins."""

from __future__ import annotations

import pytest

from lcplan import catalog
from lcplan.formats.errors import BadInputError
from lcplan.strategy import Mesh, Strategy
from planner.measure.targets.target import gpu_target_config, gpu_topology, target_for
from planner.measure.targets.toolchain import Toolchain

FULL = Toolchain(
    python="python",
    jax="0.10.1",
    versions={"jax": "0.10.1", "cuda12_plugin": "0.10.1", "cudnn": "9.28.0.42"},
    targets={"gpu": True, "tpu": True, "cpu": True},
    backends={},
)
BARE = FULL.model_copy(update={"targets": {"gpu": "no CUDA plugin", "tpu": "no libtpu", "cpu": True}})


def strategy(devices: int, backend: str = "nccl") -> Strategy:
    return Strategy(mesh=Mesh(context=devices), backend=backend)


@pytest.mark.parametrize(
    ("hardware", "devices", "topology"),
    [
        ("gb200-nvl72", 1, "1x1x1"),
        ("gb200-nvl72", 6, "1x2x3"),  # more than a host of four holds
        ("gb200-nvl72", 72, "1x18x4"),
        ("gb200-nvl72x2", 128, "2x16x4"),
        ("dgx-h100x4", 8, "1x1x8"),
        ("dgx-h100x4", 32, "4x1x8"),  # an NVLink domain, here one node, is a partition
        ("dgx-h100x4", 24, "3x1x8"),
        ("dgx-h100x4", 12, "2x1x6"),
    ],
)
def test_gpu_topologies(hardware: str, devices: int, topology: str) -> None:
    assert gpu_topology(devices, catalog.hardware(hardware)) == topology


def test_gpu_target_holds_the_devices_facts_and_the_toolchains_cudnn() -> None:
    target = target_for(strategy(8, "nvshmem"), catalog.hardware("dgx-h100"), toolchain=FULL)
    assert (target.platform, target.topology, target.rung) == ("cuda", "1x1x8", "compiled:target")
    assert target.compiler_options == {"xla_gpu_experimental_enable_nvshmem": True}
    assert target.target_config is not None
    for line in (
        "core_count: 132",
        "cuda_compute_capability { major: 9 minor: 0 }",
        "dnn_version_info { major: 9 minor: 28 patch: 0 }",
        'platform_name: "CUDA"',
    ):
        assert line in target.target_config


def test_quotes_in_a_devices_name_stay_inside_it() -> None:
    hardware = catalog.hardware("dgx-h100")
    assert hardware.device.gpu is not None
    gpu = hardware.device.gpu.model_copy(update={"description": 'odd " name \\'})
    device = hardware.device.model_copy(update={"gpu": gpu})
    text = gpu_target_config(hardware.model_copy(update={"device": device}), dnn=(9, 8), runtime=(12, 9, 0))
    assert 'device_description_str: "odd \\" name \\\\"' in text
    assert "dnn_version_info { major: 9 minor: 8 patch: 0 }" in text


def test_hardware_without_facts_is_compiled_on_the_host_with_a_note() -> None:
    gpu, tpu = catalog.hardware("dgx-h100"), catalog.hardware("tpu-v5p-64")
    bare = gpu.model_copy(update={"device": gpu.device.model_copy(update={"gpu": None})})
    target = target_for(strategy(8), bare, toolchain=FULL)
    assert (target.platform, target.rung) == ("cpu", "compiled:host")
    assert target.note == "compiled for host devices: hardware dgx-h100 has no device.gpu facts; add them to its spec"
    nameless = target_for(strategy(8, "ici"), tpu.model_copy(update={"topology_name": None}), toolchain=FULL)
    assert nameless.note is not None
    assert "no topology_name or torus" in nameless.note


def test_tpu_target_of_a_part_of_a_slice() -> None:
    target = target_for(strategy(8, "ici"), catalog.hardware("tpu-v5p-64"), toolchain=FULL)
    assert (target.topology, target.rung, target.devices) == ("v5p:2x2x2", "compiled:target", 8)
    assert target.topology_options["chips_per_host_bounds"] == (2, 2, 1)
    one = target_for(strategy(1, "ici"), catalog.hardware("tpu-v5e-8"), toolchain=FULL)
    assert one.topology_options["chips_per_host_bounds"] == (1, 1, 1)


def test_a_count_that_is_no_block_says_so() -> None:
    with pytest.raises(BadInputError, match=r"7 devices are no block of the .* torus of tpu-v5p-64"):
        target_for(strategy(7, "ici"), catalog.hardware("tpu-v5p-64"), toolchain=FULL)


def test_without_a_plugin_host_devices_stand_in() -> None:
    target = target_for(strategy(8), catalog.hardware("gb200-nvl72"), toolchain=BARE)
    assert (target.platform, target.rung, target.name) == ("cpu", "compiled:host", "cpu x8")
    assert target.note == "compiled for host devices: no CUDA plugin"
    assert target.environment["XLA_FLAGS"] == "--xla_force_host_platform_device_count=8"


def test_the_host_is_its_own_target() -> None:
    assert target_for(strategy(8, "host"), catalog.hardware("cpu-host"), toolchain=FULL).rung == "compiled:target"
