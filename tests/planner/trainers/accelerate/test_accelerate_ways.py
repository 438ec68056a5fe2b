"""How Accelerate's YAML splits the state: by FSDP2's mesh, FSDP1's strategy, DeepSpeed's stage, or not at all."""

import pytest
import yaml

from lcplan.formats.errors import BadInputError
from planner.trainers.accelerate import read as accelerate


@pytest.fixture
def says(tmp_path):
    def _says(**keys):
        data = {"mixed_precision": "bf16", "num_processes": 16, **keys}
        (tmp_path / "a.yaml").write_text(yaml.safe_dump(data))
        return accelerate.read(str(tmp_path / "a.yaml"))

    return _says


FIRST = {"fsdp_version": 1}


@pytest.mark.parametrize(
    ("keys", "mesh", "whole"),
    [
        ({"distributed_type": "FSDP"}, "data=1,fsdp=16,context=1,tensor=1", False),
        ({"distributed_type": "MULTI_GPU"}, "data=16,fsdp=1,context=1,tensor=1", False),
        ({"fsdp_config": FIRST | {"fsdp_sharding_strategy": "FULL_SHARD"}}, "data=1,fsdp=16,context=1,tensor=1", False),
        ({"fsdp_config": FIRST | {"fsdp_sharding_strategy": 3}}, "data=16,fsdp=1,context=1,tensor=1", False),
        (
            {"fsdp_config": FIRST | {"fsdp_sharding_strategy": "HYBRID_SHARD"}, "num_machines": 2},
            "data=2,fsdp=8,context=1,tensor=1",
            False,
        ),
        ({"distributed_type": "DEEPSPEED"}, "data=1,fsdp=16,context=1,tensor=1", True),  # stage 2, its default
        ({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 3}}, "data=1,fsdp=16,context=1,tensor=1", False),
        ({"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 0}}, "data=16,fsdp=1,context=1,tensor=1", False),
        (
            {
                "distributed_type": "DEEPSPEED",
                "deepspeed_config": {"zero_stage": 3},
                "parallelism_config": {"parallelism_config_sp_size": 4},
            },
            "data=1,fsdp=4,context=4,tensor=1",
            False,
        ),
    ],
)
def test_the_mesh_and_whether_weights_lie_whole(says, keys, mesh, whole):
    imported = says(**keys)
    assert (imported.options["mesh"], imported.whole_weights) == (mesh, whole)


def test_gathered_weights_that_stay_are_priced(says):
    strategy = FIRST | {"fsdp_sharding_strategy": "SHARD_GRAD_OP"}
    assert says(fsdp_config=strategy).program.weights_gathered == "once"
    assert says(fsdp_config=FIRST).program.weights_gathered == "each-pass"
    assert says(fsdp_config=FIRST | {"fsdp_sharding_strategy": "FULL_SHARD"}).notes == ()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"distributed_type": "MEGATRON_LM"}, "give Megatron's arguments with --from-megatron"),
        ({"distributed_type": "FDSP"}, "lcplan does not read distributed_type 'FDSP'; did you mean 'FSDP'"),
        ({"fsdp_config": FIRST | {"fsdp_sharding_strategy": "FULL_SHART"}}, "fsdp_sharding_strategy 'FULL_SHART'"),
        (
            {"distributed_type": "DEEPSPEED", "deepspeed_config": {"deepspeed_config_file": "ds.json"}},
            "give that file with --from-deepspeed",
        ),
        (
            {"distributed_type": "DEEPSPEED", "deepspeed_config": {"zero_stage": 4}},
            "zero_stage 4 is not a stage; use 0, 1, 2 or 3",
        ),
        ({"distributed_type": "DEEPSPEED", "deepspeed_config": 3}, "deepspeed_config is not a mapping"),
        (
            {"fsdp_config": FIRST | {"fsdp_sharding_strategy": "HYBRID_SHARD"}, "num_machines": 3},
            "3 replicas do not divide 16 processes",
        ),
    ],
)
def test_ways_that_are_none(says, keys, message):
    with pytest.raises(BadInputError, match=message):
        says(**keys)


def test_precision_is_the_scripts_where_the_launcher_mixes_none(says):
    """huggingface/open-r1#579: Qwen2.5-32B trains on 8 GPUs of 80 GB at 10k tokens, loaded in bf16 alone: 8 bytes each."""
    assert any("keeps all of its state so, in 8" in note for note in says(mixed_precision="no").notes)
    assert any("16 bytes" in note and "in 8" not in note for note in says(mixed_precision="fp16").notes)


def test_later_yamls_name_fsdp_ones_strategy_by_another_key(says):
    """Accelerate writes ``fsdp_reshard_after_forward: HYBRID_SHARD`` for FSDP1 since it has both versions."""
    keys = FIRST | {"fsdp_reshard_after_forward": "HYBRID_SHARD"}
    assert says(fsdp_config=keys, num_machines=2).options["mesh"] == "data=2,fsdp=8,context=1,tensor=1"
    again = says(fsdp_config=FIRST | {"fsdp_reshard_after_forward": "SHARD_GRAD_OP"})
    assert again.program.weights_gathered == "once"


def test_what_earlier_releases_checkpoint_with_fsdp_two_is_told(says):
    """huggingface/accelerate#3897 and #4172: children of a layer each, at 131k tokens of Qwen3-0.6B 29 of 40.8 GB."""
    second = {"fsdp_version": 2, "fsdp_activation_checkpointing": True}
    assert any("huggingface/accelerate#4172" in note for note in says(fsdp_config=second).notes)
    assert says(fsdp_config=second | {"fsdp_activation_checkpointing": False}).notes == ()
    whole = FIRST | {"fsdp_sharding_strategy": "FULL_SHARD", "fsdp_activation_checkpointing": True}
    assert says(fsdp_config=whole).notes == ()


@pytest.mark.parametrize(("offload", "remat"), [(True, "offload-layer-in"), (False, "full")])
def test_layer_inputs_on_the_host(says, offload, remat):
    keys = {"fsdp_version": 2, "activation_checkpointing": True, "activation_checkpointing_offload": offload}
    assert says(fsdp_config=keys).options["remat"] == (remat,)
