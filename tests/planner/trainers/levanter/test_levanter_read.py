"""``--from-levanter``: meshes of both forms, models by their sizes, and what counts against a verdict."""

import pytest
import yaml

from lcplan.formats.errors import BadInputError
from planner.trainers.levanter.read import read

RUN = {
    "data": {"tokenizer": "meta-llama/Meta-Llama-3-8B"},
    "model": {
        "type": "llama",
        "max_seq_len": 8192,
        "hidden_dim": 4096,
        "intermediate_dim": 14336,
        "num_layers": 32,
        "num_heads": 32,
        "num_kv_heads": 8,
        "rope": {"type": "default", "theta": 500000.0},
    },
    "trainer": {"mp": "p=f32,c=bf16", "train_batch_size": 128, "per_device_parallelism": 1},
}


@pytest.fixture
def says(tmp_path):
    def _says(devices=32, slices=1, **changes):
        data = {**RUN, **{name: value for name, value in changes.items() if not isinstance(value, dict)}}
        data |= {name: {**RUN.get(name, {}), **value} for name, value in changes.items() if isinstance(value, dict)}
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(data))
        return read(str(tmp_path / "run.yaml"), devices, slices=slices)

    return _says


def test_its_default_mesh_shards_over_data(says):
    imported = says()
    options = imported.options
    assert (options["model"].name, options["seq"], options["remat"]) == ("llama3-8b", 8192, ("full",))
    assert options["mesh"] == "data=1,fsdp=32,context=1,tensor=1"
    assert (options["global_batch"], options["microbatches"]) == (128, (4,))
    assert (imported.unknown, imported.unpriced) == ((), ())


@pytest.mark.parametrize(
    ("mesh", "found"),
    [
        ({"axes": {"model": 4}}, "data=1,fsdp=8,context=1,tensor=4"),
        ({"axes": {"replica": 2, "data": 16}}, "data=2,fsdp=16,context=1,tensor=1"),
        ({"axes": {"context": 8}, "compute_mapping": {"position": "context"}}, "data=1,fsdp=4,context=8,tensor=1"),
        ({"param_mapping": {}}, "data=32,fsdp=1,context=1,tensor=1"),
    ],
)
def test_axes_are_named_by_what_they_split(says, mesh, found):
    assert says(trainer={"mesh": mesh}).options["mesh"] == found


def test_axes_of_earlier_releases_are_read_and_named_as_unknown(says):
    imported = says(trainer={"model_axis_size": 2, "tensor_parallel_axes": ["mlp", "heads"], "fsdp_axis": "embed"})
    assert imported.options["mesh"] == "data=1,fsdp=16,context=1,tensor=2"
    assert any(key.startswith("trainer.model_axis_size") for key in imported.unknown)


def test_slices_are_replicas(says):
    assert says(devices=64, slices=2).options["mesh"] == "data=2,fsdp=32,context=1,tensor=1"


@pytest.mark.parametrize(
    ("policy", "remat"),
    [
        (True, "full"),
        (False, "save-all"),
        ("offload", "offload-layer-in"),
        ("nested", "full"),
        ({"save_block_internals": ["attn_out"]}, "save-all"),
        ({"save_carries": "offload"}, "offload-layer-in"),
    ],
)
def test_checkpointing(says, policy, remat):
    assert says(model={"gradient_checkpointing": policy}).options["remat"] == (remat,)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trainer": {"mp": "f32"}}, "products in f32"),
        ({"adapter": {"type": "lora", "r": 8}}, "adapter lora"),
        ({"model": {"hybrid_norm": True}}, "model.hybrid_norm"),
    ],
)
def test_what_has_no_price_is_named(says, changes, words):
    assert any(words in reason for reason in says(**changes).unpriced)


def test_parameters_in_bf16_have_state_of_half_the_size(says):
    assert says(trainer={"mp": "p=bf16,c=bf16"}).options["moments_dtype"] == ("bf16",)


def test_a_checkpoint_of_the_hub_has_its_own_sizes(says):
    imported = says(use_hf_model_config=True, initialize_from_hf="Qwen/Qwen3-8B")
    assert imported.options["model"].name == "qwen3-8b"


def test_a_schedule_is_priced_at_its_largest_batch(says):
    batch = [{"start": 0, "value": 64}, {"start": 1000, "value": 256}]
    assert says(trainer={"train_batch_size": batch}).options["global_batch"] == 256


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trainer": {"mesh": {"axes": {"model": 5}}}}, "multiply to 5, which does not make 32"),
        ({"trainer": {"mesh": {"axes": {"stage": 2}}}}, "mesh axis stage=2 splits neither"),
        ({"trainer": {"train_batch_size": 100}}, "no multiple of per_device_parallelism x data ranks = 32"),
        ({"model": {"gradient_checkpointing": "ful"}}, "did you mean 'full'"),
    ],
)
def test_what_does_not_hold_is_refused(says, changes, message):
    with pytest.raises(BadInputError, match=message):
        says(**changes)


def test_devices_are_asked_for(says):
    with pytest.raises(BadInputError, match="give --devices"):
        says(devices=None)
