"""Segments of jobs on several domains, and hardware whose segment is stated in its name."""

import pytest

from lcplan.catalog import hardware
from lcplan.formats.errors import BadInputError
from lcplan.spec.segments import domains_for, domains_of, idle_devices, segment_of, segments_of


@pytest.mark.parametrize(
    ("hw", "devices", "segments"),
    [
        ("gb200-nvl72x16", 64, (64,)),  # one rack
        ("gb200-nvl72x16", 128, (64,)),  # 32, 16 and 4 of a rack divide 64
        ("gb200-nvl72x16", 1024, (64,)),
        ("gb200-nvl72x16", 1152, (72,)),
        ("gb200-nvl72x142", 1152, (72, 64, 48)),
        ("gb200-nvl72x2", 76, ()),  # 4 of each of 19 racks
        ("dgx-h100x4", 24, (8,)),
        ("dgx-h100x4", 12, ()),
        ("tpu-v5p-512x4", 512, (256,)),  # two whole slices
        ("tpu-v5p-512x4", 384, ()),
        ("tpu-v5p-512x4", 128, (128,)),
        ("gb200-nvl72x4:64", 128, (64,)),
        ("gb200-nvl72x4:64", 144, ()),
    ],
)
def test_segments_of_a_job(hw, devices, segments):
    assert segments_of(hardware(hw), devices) == segments


def test_a_job_has_domains_and_leaves_devices_idle():
    racks = hardware("gb200-nvl72x16")
    assert (segment_of(racks, 128), domains_of(racks, 128), idle_devices(racks, 128)) == (64, 2, 16)
    assert (segment_of(racks, 64, 32), domains_of(racks, 64, 32), idle_devices(racks, 64, 32)) == (32, 2, 80)
    assert (domains_of(racks, 64), idle_devices(racks, 64)) == (1, 0), "others share the rack"
    assert (domains_of(racks, 1152), idle_devices(racks, 1152)) == (16, 0)
    assert domains_for(hardware("gb200-nvl72"), 5120) == 80


def test_a_name_states_the_segment():
    racks = hardware("GB200-NVL72x16:64")
    assert (racks.name, racks.segment, racks.domains, racks.devices) == ("gb200-nvl72x16:64", 64, 16, 1024)
    assert hardware("gb200-nvl72x2:72") == hardware("gb200-nvl72x2")
    assert hardware("tpu-v5e-16x2:16") == hardware("tpu-v5e-16x2")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "gb200-nvl72x16:66",
            "whole hosts of 4 devices of the 18 hosts of a domain; use 64 or 68",
        ),
        ("gb200-nvl72x16:76", "use 72"),
        ("gb200-nvl72x16:0", "use 4"),
        ("tpu-v5e-16x2:8", "a job takes all 16 devices of a tpu domain; ask for tpu-v5e-16x2, or for a smaller slice"),
        ("gb200-nvl7x16:64", "did you mean 'gb200-nvl72'"),
        ("gb200-nvl72x16:", "unknown hardware"),
    ],
)
def test_a_wrong_segment_is_refused(name, message):
    with pytest.raises(BadInputError, match=message):
        hardware(name)
