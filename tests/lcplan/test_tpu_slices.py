"""TPU slices: published shapes, wraparound, links; and that libtpu builds what the specs say."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcplan.catalog import hardware, tpu
from lcplan.formats.errors import BadInputError

# Google Cloud TPU v4, v5e, v5p, v6e and TPU7x documentation; larger ones AI-Hypercomputer/maxtext accelerator_to_spec_map.py.
SHAPES = {
    "tpu-v4-8": (2, 2, 1),
    "tpu-v4-32": (2, 2, 4),
    "tpu-v4-64": (2, 4, 4),
    "tpu-v4-384": (4, 4, 12),
    "tpu-v4-4096": (8, 16, 16),
    "tpu-v5p-8": (2, 2, 1),
    "tpu-v5p-64": (2, 4, 4),
    "tpu-v5p-128": (4, 4, 4),
    "tpu-v5p-512": (4, 8, 8),
    "tpu-v5p-768": (4, 8, 12),
    "tpu-v5p-1024": (8, 8, 8),
    "tpu-v5p-1408": (4, 4, 44),
    "tpu-v5p-2048": (8, 8, 16),
    "tpu-v5p-3072": (8, 12, 16),
    "tpu-v5p-3200": (4, 20, 20),
    "tpu-v5p-4608": (12, 12, 16),
    "tpu-v5p-6912": (12, 12, 24),
    "tpu-v5p-7808": (4, 4, 244),
    "tpu-v5p-9216": (12, 16, 24),
    "tpu-v5p-11520": (12, 20, 24),
    "tpu-v5p-12288": (16, 16, 24),
    "tpu-v5e-1": (1, 1),
    "tpu-v5e-8": (2, 4),
    "tpu-v5e-128": (8, 16),
    "tpu-v6e-256": (16, 16),
    "tpu-7x-8": (2, 2, 1),
    "tpu-7x-128": (4, 4, 4),
    "tpu-7x-1536": (8, 8, 12),
}


@pytest.mark.parametrize("name", SHAPES)
def test_published_shapes(name):
    assert hardware(name).torus == SHAPES[name]


@pytest.mark.parametrize(
    ("name", "wrap", "links"),
    [
        # a line of chips gives one link a dim, a ring two, a dim of one chip none
        ("tpu-v5p-8", (False, False, False), 2),
        ("tpu-v5p-64", (False, False, False), 3),
        ("tpu-v5p-128", (True, True, True), 6),
        ("tpu-v4-256", (True, True, True), 6),
        ("tpu-v5e-8", (False, False), 2),
        ("tpu-v5e-128", (False, True), 3),
        ("tpu-v6e-256", (True, True), 4),
        ("tpu-v5e-1", (False, False), 1),
    ],
)
def test_wraparound_and_the_links_of_a_chip(name, wrap, links):
    spec = hardware(name)
    assert spec.torus_wrap == wrap
    assert spec.domain_link.oneway_bytes_per_s.value == links * spec.ici_link.oneway_bytes_per_s.value
    assert spec.domain_link.oneway_bytes_per_s.source.startswith(f"{links} usable links a chip, 1 devices a chip; one link: ")


def test_two_devices_of_a_chip_share_its_links():
    spec = hardware("tpu-7x-128")
    assert spec.devices_per_chip == 2
    assert spec.domain_link.oneway_bytes_per_s.value == 6 * spec.ici_link.oneway_bytes_per_s.value / 2


def test_other_spellings_of_a_generation():
    assert hardware("tpu-v5litepod-16") == hardware("tpu-v5e-16")
    assert hardware("TPU-7X-128").name == "tpu-7x-128"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("v5p-128", "tpu-v5p-128"),
        ("v5litepod-256", "tpu-v5e-256"),
        ("tpu7x-128", "tpu-7x-128"),
        ("v6e-256x2", "tpu-v6e-256x2"),
        ("tpu7x-4x4x4", "tpu-7x-128"),  # 64 chips of two devices
        ("v5p-4x8x4", "tpu-v5p-256"),
        ("tpu7x-4x4x4x2", "tpu-7x-128x2"),
    ],
)
def test_names_as_google_writes_them(text, name):
    """Cloud TPU's accelerator types, and GKE's topologies of three dims (AI-Hypercomputer/tpu-recipes)."""
    assert hardware(text).name == name


def test_a_topology_that_no_slice_of_its_size_has_is_refused():
    with pytest.raises(BadInputError, match="128 chips are tpu-v5p-256, a topology of 4x4x8 here"):
        hardware("v5p-2x2x32")
    with pytest.raises(BadInputError, match="unknown hardware 'h100-8'"):
        hardware("h100-8")


@given(st.integers(1, 144))
def test_the_compact_box_holds_the_cubes_and_none_is_more_compact(cubes):
    box = tpu.compact_box(cubes)
    assert box[0] * box[1] * box[2] == cubes
    assert list(box) == sorted(box)
    others = [
        (a, b, cubes // a // b)
        for a in range(1, cubes + 1)
        for b in range(1, cubes + 1)
        if cubes % a == 0 and (cubes // a) % b == 0
    ]
    assert box[2] == min(max(other) for other in others)


BUILT = (
    "tpu-v4-8",
    "tpu-v4-32",
    "tpu-v4-256",
    "tpu-v5e-1",
    "tpu-v5e-4",
    "tpu-v5e-8",
    "tpu-v5e-256",
    "tpu-v5p-8",
    "tpu-v5p-64",
    "tpu-v5p-64x2",
    "tpu-v5p-768",
    "tpu-v6e-1",
    "tpu-v6e-8",
    "tpu-v6e-256",
    "tpu-7x-2",
    "tpu-7x-128",
    "tpu-7x-128x2",
)
_BUILD = """
import json, sys
from jax.experimental.topologies import get_topology_desc
out = {}
for name, topology, options in json.loads(sys.argv[1]):
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    devices = get_topology_desc(platform="tpu", topology_name=topology, **options).devices
    out[name] = [len(devices), len({device.process_index for device in devices})]
print(json.dumps(out))
"""


@pytest.mark.tpu_target
@pytest.mark.skipif(find_spec("libtpu") is None, reason="needs the extra tpu (libtpu)")
def test_libtpu_builds_every_kind_of_slice_with_as_many_devices_and_hosts():
    specs = [hardware(name) for name in BUILT]
    jobs = json.dumps([(spec.name, spec.topology_name, spec.topology_options) for spec in specs])
    environment = {"TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "JAX_PLATFORMS": "cpu", "PATH": ""}
    run = subprocess.run([sys.executable, "-c", _BUILD, jobs], capture_output=True, text=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr[-2000:]
    built = json.loads(run.stdout.splitlines()[-1])
    assert built == {spec.name: [spec.devices, spec.devices // spec.node_size] for spec in specs}
