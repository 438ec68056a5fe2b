"""Hardware in other words than the catalogue's: numbers of GPUs, makers, form factors, TPU node pools."""

import pytest

from lcplan.catalog import hardware, read_as
from lcplan.catalog.gpu_names import GPUS, SYSTEMS
from lcplan.formats.errors import BadInputError


@pytest.mark.parametrize(
    ("words", "name", "devices"),
    [
        ("8xh100", "dgx-h100", 8),
        ("h100x8", "dgx-h100", 8),
        ("8 x H100", "dgx-h100", 8),
        ("H100x32", "dgx-h100x4", 32),
        ("8xH100-80GB-HBM3", "dgx-h100", 8),
        ("NVIDIA H100 SXM5 80GB", "dgx-h100", 8),
        ("8xa100-sxm4-40gb", "dgx-a100-40", 8),
        ("a100-80gbx16", "dgx-a100-80x2", 16),
        ("72xGB200", "gb200-nvl72", 72),
        ("gb200x144", "gb200-nvl72x2", 144),
        ("16xgh200", "gh200x16", 16),
        ("hgx-h200x2", "dgx-h200x2", 16),
        ("2xdgx-h100", "dgx-h100x2", 16),
        ("8xmi300x", "mi300x", 8),
        ("mi300x8", "mi300x", 8),
        ("AMD Instinct MI355X", "mi355x", 8),
        ("32xmi325x", "mi325xx4", 32),
        ("l40s", "pcie-l40s", 8),
        ("8xh20", "hgx-h20", 8),
        ("b300", "dgx-b300", 8),
    ],
)
def test_words_mean_an_entry_and_have_a_reading(words, name, devices):
    spec = hardware(words)
    assert (spec.name, spec.devices) == (name, devices)
    assert read_as(words) == f"{words!r} is read as {name}, which has {devices} devices"


@pytest.mark.parametrize("name", ["dgx-h100x4", "mi300x", "mi300xx4", "v5p-64", "cpu-host", "mine.yaml", "folder/mine", "zz"])
def test_the_catalogues_own_names_files_and_unknown_words_have_no_reading(name):
    assert read_as(name) == ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("4xh100", "counts GPUs, and dgx-h100 has 8; use --hw dgx-h100 --devices 4 (dgx-h100xN is N times 8 GPUs)"),
        ("h200x2", "counts GPUs, and dgx-h200 has 8; use --hw dgx-h200 --devices 2 (dgx-h200xN is N times 8 GPUs)"),
        ("12xh100", "use --hw dgx-h100x2 --devices 12 "),
        ("64xgb200", "use --hw gb200-nvl72 --devices 64 "),
        ("0xh100", "use --hw dgx-h100 ("),
        ("tpu-v5p-slice", "needs a slice size behind it, for example 'tpu-v5p-512'"),
        ("trillium", "needs a slice size behind it, for example 'tpu-v6e-256'"),
        ("h100-pcie", "unknown hardware 'h100-pcie'; did you mean 'h100'?"),
        ("mi300a", "unknown hardware 'mi300a'; did you mean 'mi300' or 'mi300x'"),
    ],
)
def test_words_without_an_entry_show_what_to_write(words, says):
    with pytest.raises(BadInputError) as error:
        hardware(words)
    assert says in str(error.value)


@pytest.mark.parametrize("name", sorted(set(GPUS.values()) | set(SYSTEMS.values())))
def test_every_name_leads_to_an_entry_of_the_catalogue(name):
    assert hardware(name).name == name
