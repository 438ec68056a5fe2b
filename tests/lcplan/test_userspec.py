"""Users' YAML specs: whole ones, and a catalogue entry with changes."""

import pytest

from lcplan.catalog import hardware, model
from lcplan.catalog.user_specs import hardware_from, model_from
from lcplan.formats.errors import BadInputError

TINY_GPU = """
kind: gpu
domain_size: 4
node_size: 4
device:
  name: toy
  peak_flop_per_s: 100TFLOP/s
  hbm_bytes: 16GiB
  hbm_bytes_per_s: 1.0e12
domain_link: {name: fast, oneway_bytes_per_s: 50GB/s, latency_s: 2us}
allowance:
  usable_ratio: 0.9
  runtime_bytes: {value: 512MiB, source: measured here, kind: measured}
  communicator_bytes: 0
"""


def load(read, tmp_path, text, name="mine.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return read(str(path))


def refusal(read, tmp_path, text):
    with pytest.raises(BadInputError) as error:
        load(read, tmp_path, text)
    return str(error.value).replace(f"{tmp_path}/", "")


def test_a_cluster_with_another_network_is_three_lines(tmp_path):
    spec = load(hardware, tmp_path, "base: dgx-h100x16\nnetwork_link:\n  oneway_bytes_per_s: 25GB/s\n", "my-cluster.yaml")
    base = hardware("dgx-h100x16")
    assert (spec.name, spec.devices, spec.source) == ("my-cluster", 128, "user file my-cluster.yaml, changes to dgx-h100x16")
    assert spec.network_link.oneway_bytes_per_s.model_dump() == {
        "value": 25e9,
        "source": "user file my-cluster.yaml",
        "kind": "user",
    }
    assert spec.network_link.latency_s == base.network_link.latency_s
    assert spec.device == base.device


def test_a_whole_spec_with_bare_numbers_and_sizes(tmp_path):
    spec = load(hardware, tmp_path, TINY_GPU)
    assert spec.name == "mine"
    assert spec.device.peak_flop_per_s.value == 100e12
    assert spec.device.hbm_bytes.value == 16 * 2**30
    assert spec.device.hbm_bytes_per_s.value == 1e12
    assert spec.domain_link.latency_s.value == 2e-6
    assert spec.allowance.runtime_bytes.value == 512 * 2**20
    assert (spec.allowance.runtime_bytes.source, spec.allowance.runtime_bytes.kind) == ("measured here", "measured")
    assert (spec.allowance.usable_ratio.source, spec.allowance.usable_ratio.kind) == ("user file mine.yaml", "user")
    assert spec.source == "user file mine.yaml"


def test_a_figure_with_a_value_only_gets_the_file_as_its_source(tmp_path):
    spec = load(hardware, tmp_path, "base: dgx-h100\ndevice: {hbm_bytes: {value: 94GiB}}\n")
    assert spec.device.hbm_bytes.model_dump() == {"value": 94 * 2**30, "source": "user file mine.yaml", "kind": "user"}


def test_a_tpu_slice_as_base(tmp_path):
    spec = load(hardware, tmp_path, "base: tpu-v5p-64\ndevice: {peak_flop_per_s: 400TFLOP/s}\n")
    assert (spec.devices, spec.topology_name, spec.device.peak_flop_per_s.value) == (32, "v5p:2x4x4", 4e14)


def test_a_models_changes(tmp_path):
    spec = load(model, tmp_path, "base: llama3-8b\nvocab: 131072\nrope: {theta: 1e6}\n", "wide.yml")
    assert (spec.name, spec.vocab, spec.rope.theta) == ("wide", 131072, 1e6)
    assert spec.source == "user file wide.yml, changes to llama3-8b"
    assert spec.parameters == model("llama3-8b").parameters + 2 * (131072 - 128256) * 4096


def test_a_whole_model(tmp_path):
    text = "layers: 2\nd_model: 8\nd_ff: 12\nheads: 4\nkv_heads: 2\nhead_dim: 4\nvocab: 10\n"
    spec = load(model, tmp_path, text)
    assert (spec.name, spec.source, spec.parameters) == ("mine", "user file mine.yaml", 2 * (672 + 16) + 160 + 8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: dgx-h10\n", "mine.yaml: base: unknown hardware 'dgx-h10'; did you mean 'dgx-h100' or "),
        ("base: ./other.yaml\n", "mine.yaml: base: unknown hardware './other.yaml'; "),
        ("base: tpu-v5p-7\n", "mine.yaml: base: hardware 'tpu-v5p-7': no such slice; known: "),
        ("base: 3\n", "mine.yaml: base: a catalogue name was expected (got 3)"),
        ("base: dgx-h100\nnam: x\n", "mine.yaml: unknown key 'nam'; did you mean 'name'?"),
        ("base: dgx-h100\nhbm_bites: 3\n", "mine.yaml: unknown key 'hbm_bites'; did you mean 'device.hbm_bytes'?"),
        ("base: dgx-h100\nnetwork_link: {bandwidth: 25GB/s}\n", "mine.yaml: unknown key 'network_link.bandwidth'; known: "),
        (
            "base: dgx-h100\nnetwork_link: {oneway_bytes_per_s: 200Gbit/s}\n",
            "mine.yaml: oneway_bytes_per_s '200Gbit/s' is not a number with an optional suffix (b, kb, mb, gb, tb, "
            "kib, mib, gib, tib); write for example 25GB/s",
        ),
        (
            "base: dgx-h100\ndevice: {hbm_bytes: -3}\n",
            "mine.yaml: device.hbm_bytes.value: Input should be greater than or equal to 0",
        ),
        (
            "base: dgx-h100\ndevice: {hbm_bytes: true}\n",
            "mine.yaml: device.hbm_bytes.value: Input should be a valid number (got True)",
        ),
        ("base: dgx-h100\ndevice: 3\n", "mine.yaml: device: Input should be an object (got 3)"),
        (
            "base: dgx-h100\ndevice: {rates: {gemm_flop_per_s: 0, copy_bytes_per_s: 0.5}}\n",
            "mine.yaml: device.rates: gemm_flop_per_s=0 is below 1; copy_bytes_per_s=0.5 is below 1",
        ),
        ("base: dgx-h100\ndevice: {power_w: 0}\n", "mine.yaml: device: power_w=0 is below 1"),
        ("base: dgx-h100\ndomains: 2\nnetwork_link: null\n", "mine.yaml: domains=2 need a network_link between them"),
        (
            "name: x\nhbm_bites: 3\n",
            "mine.yaml: unknown key 'hbm_bites'; did you mean 'device.hbm_bytes'?\nmine.yaml: missing key 'kind'",
        ),
        ("- 1\n", "mine.yaml: not a spec: a mapping of keys to values was expected"),
        ("", "mine.yaml: not a spec: a mapping of keys to values was expected"),
        ("3: 4\n", "mine.yaml: not a spec: a mapping of keys to values was expected"),
        ('!!python/object/apply:os.system ["touch pwned"]\n', "mine.yaml: not valid YAML: could not determine a constructor"),
    ],
)
def test_hardware_that_is_refused(tmp_path, text, message):
    assert refusal(hardware, tmp_path, text).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: llama3-8\n", "mine.yaml: base: unknown model 'llama3-8'; did you mean 'llama3-8b' or "),
        ("base: llama3-8b\nvocabs: 3\n", "mine.yaml: unknown key 'vocabs'; did you mean 'vocab'?"),
        ("base: llama3-8b\nkv_heads: 7\n", "mine.yaml: kv_heads=7 does not divide heads=32"),
        ("base: llama3-8b\nlayers: '3'\n", "mine.yaml: layers: Input should be a valid integer (got '3')"),
        ("model_type: olmo3\n", "mine.yaml: model_type 'olmo3' is not modelled; "),
        ('!!python/object/apply:os.system ["touch pwned"]\n', "mine.yaml: not valid YAML: could not determine a constructor"),
    ],
)
def test_models_that_are_refused(tmp_path, text, message):
    assert refusal(model, tmp_path, text).startswith(message)


def test_hardware_is_no_json(tmp_path):
    with pytest.raises(BadInputError, match=r"a hardware spec is a YAML file \(\.yaml or \.yml\)"):
        load(hardware, tmp_path, "{}", "mine.json")


def test_a_missing_file_is_named():
    with pytest.raises(BadInputError) as error:
        hardware("nowhere.yaml")
    assert str(error.value) == "nowhere.yaml: No such file or directory"


def test_an_inline_model_takes_a_base_and_the_name_of_where_it_stands():
    spec = model_from({"base": "llama3-8b", "layers": 4}, name="row-1", source="table t", where="t row-1")
    assert (spec.name, spec.layers, spec.d_model) == ("row-1", 4, 4096)
    assert spec.source == "table t, changes to llama3-8b"


def test_inline_hardware_gives_bare_figures_its_source():
    data = {"base": "dgx-h100x2", "network_link": {"oneway_bytes_per_s": 25e9}}
    spec = hardware_from(data, name="slow", source="table t", where="t row-1")
    assert spec.network_link.oneway_bytes_per_s.source == "table t"
    assert (spec.name, spec.devices, spec.network_link.oneway_bytes_per_s.value) == ("slow", 16, 25e9)


def test_rates_of_collectives_may_be_bare_numbers_and_sizes_too():
    call = {"latency_s": 1e-5, "member_latency_s": "2us", "oneway_bytes_per_s": "300GB/s"}
    rates = {"rates": {"collectives": {"all-gather": call}}}
    spec = hardware_from({"base": "dgx-h100", "device": rates}, name="ours", source="user file", where="ours.yaml")
    found = spec.device.rates.collectives["all-gather"]
    assert [found.latency_s.value, found.member_latency_s.value, found.oneway_bytes_per_s.value] == [1e-5, 2e-6, 3e11]
    assert {figure.kind for figure in (found.latency_s, found.member_latency_s, found.oneway_bytes_per_s)} == {"user"}
    broken = {"rates": {"collectives": {"all-gather": 3}}}
    with pytest.raises(BadInputError, match=r"collectives\.all-gather: Input should be an object"):
        hardware_from({"base": "dgx-h100", "device": broken}, name="ours", source="user file", where="ours.yaml")


def test_an_inline_spec_names_the_place_of_its_faults():
    with pytest.raises(BadInputError, match="t row-1: unknown key 'layer'; did you mean 'layers'"):
        model_from({"base": "llama3-8b", "layer": 4}, name="m", source="table t", where="t row-1")
    with pytest.raises(BadInputError, match="t row-1: base: unknown hardware 'dgx-h10'"):
        hardware_from({"base": "dgx-h10"}, name="m", source="table t", where="t row-1")
