"""HardwareSpec: budgets, the pool of a launch, and what is refused."""

import pytest

from lcplan.catalog import hardware
from lcplan.formats.errors import BadInputError
from lcplan.spec.hardware import HardwareSpec


def changed(**changes):
    return HardwareSpec.read({**hardware("dgx-h100x4").model_dump(mode="json"), **changes}, "hw.yaml")


def test_devices_and_backends():
    assert changed().devices == 32
    assert changed().backends == ("nccl", "nvshmem", "symmetric")
    assert hardware("tpu-v5p-64").backends == ("ici",)
    assert hardware("cpu-host").backends == ("host",)


def test_usable_bytes_is_the_named_share_of_the_memory():
    # H100: 84942979072 bytes * 0.92 = 78147540746.24
    assert changed().usable_bytes == 78147540746


def test_the_pool_leaves_room_for_communicators():
    spec = changed()
    # (78147540746 - 3 * 721420288) / 84942979072 = 75983279882 / 84942979072
    assert spec.pool_ratio(3) == pytest.approx(0.894521, abs=1e-6)
    assert spec.pool_ratio(0) == pytest.approx(0.92, abs=1e-9)
    assert spec.pool_ratio(10**6) == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_size": 3}, "hw.yaml: node_size=3 does not divide domain_size=8"),
        ({"network_link": None}, "hw.yaml: domains=4 need a network_link between them"),
        ({"torus": [2, 2], "torus_wrap": [True]}, "hw.yaml: torus=2x2 with devices_per_chip=1 is not domain_size=8; "
         "torus_wrap has 1 dims, torus has 2"),
        ({"domains": 0}, "hw.yaml: domains: Input should be greater than 0 (got 0)"),
        ({"kind": "npu"}, "hw.yaml: kind: Input should be 'gpu', 'tpu' or 'cpu' (got 'npu')"),
    ],
)  # fmt: skip
def test_what_is_refused(changes, message):
    with pytest.raises(BadInputError) as error:
        changed(**changes)
    assert str(error.value) == message


@pytest.mark.parametrize("ratio", [0.0, 1.01])
def test_usable_ratio_is_a_share(ratio):
    allowance = hardware("dgx-h100").allowance.model_dump(mode="json")
    allowance["usable_ratio"]["value"] = ratio
    with pytest.raises(BadInputError, match=rf"allowance: usable_ratio={ratio:g} is not in \(0, 1\]"):
        changed(allowance=allowance)


@pytest.mark.parametrize("value", [-1.0, float("inf")])
def test_figures_are_finite_and_not_below_zero(value):
    device = hardware("dgx-h100").device.model_dump(mode="json")
    device["hbm_bytes"]["value"] = value
    with pytest.raises(BadInputError, match=r"hw\.yaml: device\.hbm_bytes\.value: "):
        changed(device=device)
