"""``--from-accelerate`` and ``--from-deepspeed``: what the launcher's files say, and the keys that they drop unseen."""

import json

import pytest
import yaml

from lcplan.formats.errors import BadInputError
from planner.trainers import Job
from planner.trainers.accelerate import read as accelerate
from planner.trainers.deepspeed import read as deepspeed

LAUNCH = {
    "distributed_type": "FSDP",
    "mixed_precision": "bf16",
    "num_processes": 32,
    "fsdp_config": {"fsdp_version": 2, "fsdp_activation_checkpointing": True, "fsdp_reshard_after_forward": True},
    "parallelism_config": {
        "parallelism_config_dp_replicate_size": 1,
        "parallelism_config_dp_shard_size": 1,
        "parallelism_config_tp_size": 2,
        "parallelism_config_cp_size": 16,
        "parallelism_config_cp_comm_strategy": "alltoall",
    },
}
ZERO = {
    "train_batch_size": 8,
    "train_micro_batch_size_per_gpu": 1,
    "gradient_accumulation_steps": 2,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3},
    "sequence_parallel_size": 8,
}


@pytest.fixture
def launches(tmp_path):
    def _launches(change=None, devices=None):
        data = json.loads(json.dumps(LAUNCH))
        for path, value in (change or {}).items():
            *sections, key = path.split(".")
            at = data
            for section in sections:
                at = at[section]
            at[key] = value
        (tmp_path / "a.yaml").write_text(yaml.safe_dump(data))
        return accelerate.read(str(tmp_path / "a.yaml"), devices)

    return _launches


@pytest.fixture
def zeros(tmp_path):
    def _zeros(change=None, devices=None):
        (tmp_path / "d.json").write_text(json.dumps({**ZERO, **(change or {})}))
        return deepspeed.read(str(tmp_path / "d.json"), devices)

    return _zeros


def test_the_launcher_yaml(launches):
    imported = launches()
    assert (imported.options["devices"], imported.options["mesh"]) == (32, "data=1,fsdp=1,context=16,tensor=2")
    assert (imported.options["scheme"], imported.options["remat"]) == (("ring-zigzag",), ("full",))
    assert (imported.unknown, len(imported.notes)) == ((), 1)  # of releases before whole layers were checkpointed


def test_keys_without_the_prefix_mean_the_same(launches, tmp_path):
    data = {**LAUNCH, "parallelism_config": {"tp_size": 2, "cp_size": 16}, "fsdp_config": {"activation_checkpointing": False}}
    (tmp_path / "b.yaml").write_text(yaml.safe_dump(data))
    imported = accelerate.read(str(tmp_path / "b.yaml"))
    assert imported.options["mesh"] == "data=1,fsdp=1,context=16,tensor=2"
    assert (imported.options["scheme"], imported.options["remat"]) == (("all-gather",), ("save-all",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parallelism_config.parallelism_config_cp_backend": "te"}, "Accelerate has only torch and ignores others silently"),
        ({"parallelism_config.parallelism_config_cp_comm_strategy": "ring"}, "cp_comm_strategy 'ring'"),
        ({"parallelism_config.parallelism_config_sp_size": 2}, "cp_size and sp_size are both above 1"),
        ({"num_processes": 64}, "multiplies to 32, num_processes is 64"),
        ({"parallelism_config.parallelism_config_cp_size": 0}, "cp_size: 0 is not a whole number above zero"),
        ({"fsdp_config": [1]}, "fsdp_config is not a mapping"),
    ],
)
def test_what_the_launcher_would_only_refuse_later(launches, change, message):
    with pytest.raises(BadInputError, match=message):
        launches(change)


def test_nested_keys_that_accelerate_drops_are_listed(launches):
    assert launches({"parallelism_config.parallelism_config_cp_sise": 4, "fsdp_config.fsdp_zzz": 1}).unknown == (
        "parallelism_config.parallelism_config_cp_sise (did you mean 'parallelism_config_cp_size'?)",
        "fsdp_config.fsdp_zzz",
    )


def test_the_deepspeed_json(zeros):
    imported = zeros()
    # 8 = 1 x 2 x ranks: 4 ranks with a batch of their own, 8 devices to each
    assert (imported.options["devices"], imported.options["mesh"]) == (32, "data=1,fsdp=4,context=8,tensor=1")
    assert (imported.options["scheme"], imported.options["global_batch"], imported.options["microbatches"]) == (
        ("ulysses",),
        8,
        (2,),
    )
    assert "remat" not in imported.options


def test_auto_says_nothing(zeros):
    change = {"train_batch_size": "auto", "gradient_accumulation_steps": "auto"}
    with pytest.raises(BadInputError, match="its batch numbers do not give the number of devices; give --devices"):
        zeros(change)
    assert zeros(change, 16).options["mesh"] == "data=1,fsdp=2,context=8,tensor=1"


@pytest.mark.parametrize(
    ("change", "devices", "message"),
    [
        ({"train_batch_size": 7}, None, "train_batch_size 7 is no multiple of 1 x 2"),
        ({"train_batch_size": 16}, 32, "is not micro 1 x steps 2 x 4 ranks = 8; DeepSpeed refuses it too"),
        ({"zero_optimization": {"stage": 4}}, None, "stage 4 is not a stage; use 0, 1, 2 or 3"),
        ({"sequence_parallel_size": 8}, 20, "sequence_parallel_size x autotp_size = 8 does not divide --devices 20"),
        ({"zero_optimization": 3}, None, "zero_optimization is not an object"),
    ],
)
def test_numbers_that_do_not_go_together_are_refused(zeros, change, devices, message):
    with pytest.raises(BadInputError, match=message):
        zeros(change, devices)


def test_unknown_top_level_keys_which_deepspeed_ignores_are_listed(zeros):
    assert zeros({"zero_optimisation": {}, "mine": 1}).unknown == (
        "zero_optimisation (did you mean 'zero_optimization'?)",
        "mine",
    )


@pytest.mark.parametrize(("stage", "per_element"), [(1, 6 * 32 - 4), (2, 2 * 32)])
def test_lower_stages_are_counted_as_what_they_keep_whole(zeros, ask, stage, per_element):
    from lcplan.strategy import Mesh, Strategy

    imported = zeros({"zero_optimization": {"stage": stage}})
    request = ask()
    strategy = Strategy(mesh=Mesh(fsdp=4, context=8), scheme="ulysses", loss_chunk_tokens=1024)
    job = Job(request.model, request.hardware, request.workload, strategy)
    [sharding] = imported.more(job)
    assert sharding.extra_bytes == round(per_element * job.state_elements)


def test_stage_zero_replicates(zeros):
    assert zeros({"zero_optimization": {"stage": 0}}).options["mesh"] == "data=4,fsdp=1,context=8,tensor=1"


def test_a_file_of_something_else_is_none_of_these(tmp_path):
    """A LLaMA-Factory YAML names a DeepSpeed JSON; as a launcher's file it would say nothing, and be FSDP over all ranks."""
    (tmp_path / "train.yaml").write_text("stage: sft\nfinetuning_type: full\ndeepspeed: examples/ds_z3_config.json\n")
    with pytest.raises(BadInputError, match=r"Accelerate knows no key of it \(stage, finetuning_type, deepspeed\)"):
        accelerate.read(str(tmp_path / "train.yaml"), 8)
    (tmp_path / "train.json").write_text('{"stage": "sft", "cutoff_len": 8192}')
    with pytest.raises(BadInputError, match="DeepSpeed knows no key of it"):
        deepspeed.read(str(tmp_path / "train.json"), 8)
