"""Catalogue of hardware: figures with sources, names, counts of domains."""

import pytest

from lcplan.catalog import hardware, hardware_names
from lcplan.formats.errors import BadInputError
from lcplan.spec.hardware import Figure, GpuFacts, HardwareSpec

GPUS = (
    "dgx-a100-40",
    "dgx-a100-80",
    "hgx-a800",
    "dgx-h100",
    "dgx-h200",
    "dgx-b200",
    "gb200-nvl72",
    "gb300-nvl72",
    "gh200-quad",
)
OTHERS = ("dgx-b300", "gh200", "hgx-b300", "hgx-h20", "pcie-a40", "pcie-l40s")
"""GPUs whose peak is not the product of their clock and their units, or that have a network in place of a domain."""
AMD = ("mi300x", "mi325x", "mi350x", "mi355x")
SLICES = ("tpu-v2-8", "tpu-v3-32", "tpu-v4-32", "tpu-v5e-8", "tpu-v5p-64", "tpu-v6e-256", "tpu-7x-128")


def figures(value):
    if isinstance(value, Figure):
        yield value
    elif hasattr(value, "model_fields_set"):
        for name in type(value).model_fields:
            yield from figures(getattr(value, name))


def test_what_the_catalogue_has():
    families = ("tpu-7x-N", "tpu-v2-N", "tpu-v3-N", "tpu-v4-N", "tpu-v5e-N", "tpu-v5p-N", "tpu-v6e-N")
    assert hardware_names() == tuple(sorted(("cpu-host", *GPUS, *OTHERS, *AMD, *families)))


@pytest.mark.parametrize("name", [*GPUS, *OTHERS, *AMD, *SLICES, "cpu-host"])
def test_every_figure_has_a_source_and_none_is_a_users(name):
    found = list(figures(hardware(name)))
    assert len(found) >= 8
    assert all(len(figure.source) >= 15 and figure.kind in {"datasheet", "measured", "fitted", "stand-in"} for figure in found)


@pytest.mark.parametrize(
    ("name", "devices", "domain", "node"),
    [
        ("dgx-h100", 8, 8, 8),
        ("dgx-h100x4", 32, 8, 8),
        ("gb200-nvl72", 72, 72, 4),
        ("gb200-nvl72x2", 144, 72, 4),
        ("gb300-nvl72", 72, 72, 4),
        ("dgx-a100-40x2", 16, 8, 8),
        ("mi300x", 8, 8, 8),
        ("gh200x4", 4, 1, 1),
        ("gh200-quadx2", 8, 4, 4),
        ("hgx-h20", 8, 8, 8),
        ("mi355xx4", 32, 8, 8),
        ("tpu-v2-8", 8, 8, 8),
        ("tpu-v3-32", 32, 32, 8),
        ("tpu-v5p-64", 32, 32, 4),
        ("tpu-v4-32", 16, 16, 4),
        ("tpu-v5e-8", 8, 8, 4),
        ("tpu-v6e-256", 256, 256, 4),
        ("tpu-7x-128", 128, 128, 8),
        ("tpu-v5p-64x2", 64, 32, 4),
        ("cpu-host", 8, 8, 8),
        ("cpu-hostx2", 16, 16, 16),
    ],
)
def test_devices_domains_and_nodes(name, devices, domain, node):
    spec = hardware(name)
    assert (spec.name, spec.devices, spec.domain_size, spec.node_size) == (name, devices, domain, node)


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("h100", "dgx-h100"),
        ("H200x16", "dgx-h200x2"),
        ("b200", "dgx-b200"),
        ("gb200", "gb200-nvl72"),
        ("a100-40", "dgx-a100-40"),
    ],
)
def test_aliases(alias, name):
    assert hardware(alias).name == name


# GB200 of 186 GiB has shown 138 GiB usable at jax's default pool of 0.75 and 170 GiB at 0.92.
@pytest.mark.parametrize(
    ("name", "low_gib", "high_gib"),
    [
        ("gb200-nvl72", 138, 170),
        ("dgx-h100", 72, 74),
        ("dgx-h200", 128, 129),
        ("dgx-a100-40", 36, 37),
        ("tpu-v2-8", 7.47, 7.49),
        ("tpu-v3-8", 15.47, 15.49),
        ("tpu-v4-32", 30.74, 30.76),
        ("tpu-v5p-64", 95.7, 95.8),
        ("tpu-v5e-8", 15.7, 15.8),
        ("tpu-v6e-256", 31.2, 31.3),
        ("tpu-7x-128", 94.7, 94.8),
    ],
)
def test_usable_memory_is_what_jobs_have_seen(name, low_gib, high_gib):
    assert low_gib * 2**30 <= hardware(name).usable_bytes <= high_gib * 2**30


@pytest.mark.parametrize("name", GPUS)
def test_gpus_have_what_a_target_config_needs(name):
    spec = hardware(name)
    assert spec.kind == "gpu"
    assert spec.device.gpu is not None
    assert spec.device.gpu.description.startswith("NVIDIA ")
    assert spec.network_link is not None
    # An SM's dense bf16 rate: 1024 (A100), 2048 (H100) or 4096 (Blackwell) FLOP a clock and a bit less clock than the maximum.
    clocks = spec.device.gpu.core_count * spec.device.gpu.clock_rate_ghz * 1e9
    per_clock = {8: 2048, 9: 4096, 10: 8192}[spec.device.gpu.compute_capability[0]]
    assert spec.device.peak_flop_per_s.value == pytest.approx(clocks * per_clock, rel=0.11)
    assert spec.network_link.oneway_bytes_per_s.value < spec.domain_link.oneway_bytes_per_s.value


@pytest.mark.parametrize("name", AMD)
def test_amd_gpus_have_what_a_target_config_needs(name):
    spec = hardware(name)
    gpu = spec.device.gpu
    assert (spec.vendor, spec.compiler, spec.backends) == ("amd", "rocm", ("rccl",))
    assert gpu.description == f"AMD Instinct {name.upper()}"
    assert gpu.gcn_arch.startswith("gfx942" if name < "mi350" else "gfx950")
    # A compute unit's dense bf16 rate: 2048 FLOP a clock on CDNA 3, twice that on CDNA 4.
    per_clock = 2048 if name < "mi350" else 4096
    assert spec.device.peak_flop_per_s.value == pytest.approx(gpu.core_count * gpu.clock_rate_ghz * 1e9 * per_clock, rel=1e-3)
    # A link to each of the seven other GPUs of the node.
    assert 7 * spec.domain_link.peer_oneway_bytes_per_s.value == spec.domain_link.oneway_bytes_per_s.value


def test_a_gpu_has_one_instruction_set():
    facts = hardware("mi300x").device.gpu.model_dump()
    with pytest.raises(BadInputError, match=r"needs compute_capability \(NVIDIA\) or gcn_arch \(AMD\), and not both"):
        GpuFacts.read(facts | {"compute_capability": (9, 0)}, "gpu")
    with pytest.raises(BadInputError, match="and not both"):
        GpuFacts.read(facts | {"gcn_arch": None}, "gpu")


@pytest.mark.parametrize(
    ("name", "tflop_per_s", "gb_per_s", "link_gb_per_s"),
    [
        ("hgx-h20", 148, 4000, 450),
        ("hgx-a800", 312, 2039, 200),
        ("pcie-l40s", 362, 864, 31.5),
        ("pcie-a40", 149.7, 696, 31.5),
        ("gh200", 989, 4000, 450),
        ("gh200-quad", 989, 4000, 450),
        ("dgx-b300", 2250, 7936, 900),
        ("hgx-b300", 2250, 7936, 900),
        ("mi300x", 1307.4, 5300, 448),
        ("mi325x", 1307.4, 6000, 448),
        ("mi350x", 2306.9, 8000, 537.6),
        ("mi355x", 2516.6, 8000, 537.6),
    ],
)
def test_figures_of_more_gpus(name, tflop_per_s, gb_per_s, link_gb_per_s):
    spec = hardware(name)
    assert spec.device.peak_flop_per_s.value == pytest.approx(tflop_per_s * 1e12, rel=1e-3)
    assert spec.device.hbm_bytes_per_s.value == pytest.approx(gb_per_s * 1e9, rel=1e-3)
    assert spec.domain_link.oneway_bytes_per_s.value == link_gb_per_s * 1e9
    assert spec.network_link is not None
    assert spec.device.gpu is not None


def test_four_superchips_without_a_switch_share_no_links():
    link = hardware("gh200-quad").domain_link
    assert 3 * link.peer_oneway_bytes_per_s.value == link.oneway_bytes_per_s.value


def test_figures_as_published():
    gb200, h100 = hardware("gb200-nvl72"), hardware("dgx-h100")
    assert gb200.device.peak_flop_per_s.value == 2500e12
    assert gb200.domain_link.oneway_bytes_per_s.value == 900e9
    assert gb200.device.gpu.core_count == 152
    assert h100.device.peak_flop_per_s.value == 989e12
    assert h100.domain_link.oneway_bytes_per_s.value == 450e9
    assert h100.network_link.oneway_bytes_per_s.value == 50e9


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("gb200-nvl27", "unknown hardware 'gb200-nvl27'; did you mean 'gb200-nvl72' or "),
        ("dgx-h10x4", "unknown hardware 'dgx-h10x4'; did you mean 'dgx-h100' or "),
        ("zz", "unknown hardware 'zz'; known: a100, "),
        ("", "unknown hardware ''; known: a100, "),
        ("x4", "unknown hardware 'x4'; known: a100, "),
        ("dgx-h100x0", "hardware 'dgx-h100x0': 0 domains are not between 1 and 1048576"),
        ("dgx-h100x9999999", "hardware 'dgx-h100x9999999': 9999999 domains are not between 1 and 1048576"),
        ("dgx-h100x4x4", "unknown hardware 'dgx-h100x4x4'"),
        ("dgx-h100x-1", "unknown hardware 'dgx-h100x-1'; did you mean 'dgx-h100' or "),
        ("tpu-v5p", "hardware 'tpu-v5p' needs a slice size behind it, for example 'tpu-v5p-512'"),
        ("tpu-v5px2", "hardware 'tpu-v5p' needs a slice size behind it, for example 'tpu-v5p-512'"),
        (
            "tpu-v9-8",
            "hardware 'tpu-v9-8': no TPU generation 'v9'; known: tpu-7x, tpu-v2, tpu-v3, tpu-v4, tpu-v5e, tpu-v5p, tpu-v6e",
        ),
        (
            "tpu-v5e-24",
            "hardware 'tpu-v5e-24': no such slice; known: tpu-v5e-1, tpu-v5e-4, tpu-v5e-8, tpu-v5e-16, tpu-v5e-32, tpu-v5e-64, "
            "tpu-v5e-128, tpu-v5e-256",
        ),
        (
            "tpu-v5p-7",
            "hardware 'tpu-v5p-7': no such slice; known: tpu-v5p-8, tpu-v5p-16, tpu-v5p-32, tpu-v5p-64, tpu-v5p-128, "
            "tpu-v5p-256, tpu-v5p-512, then multiples of 128 (whole cubes of 4x4x4 chips) up to 12288",
        ),
    ],
)
def test_what_is_unknown_shows_a_way_out(name, start):
    with pytest.raises(BadInputError) as error:
        hardware(name)
    assert str(error.value).startswith(start)


@pytest.mark.parametrize("name", ["gb200-nvl72x2", "tpu-v4-32x2", "tpu-v5e-1", "cpu-host"])
def test_round_trip(name):
    spec = hardware(name)
    assert HardwareSpec.read(spec.model_dump(mode="json"), "again") == spec


def test_only_the_asked_file_is_read(monkeypatch):
    from lcplan.catalog import folder

    read = []
    original = folder.read_yaml
    monkeypatch.setattr(folder, "read_yaml", lambda path: read.append(path.name) or original(path))
    hardware("gb200-nvl72x2")
    hardware_names()
    assert read == ["gb200-nvl72.yaml"]
    read.clear()
    hardware("tpu-v5p-64")
    assert read == ["tpu-v5p.yaml"]
