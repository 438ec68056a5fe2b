"""Scripts and YAML of verl: the step of the model that is trained, and what is not in its price."""

import pytest

from lcplan.formats.errors import BadInputError
from planner.trainers.verl.read import read

GRPO = """
set -x
N=5
python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo data.train_files=$HOME/a.parquet data.train_batch_size=1024 \\
    data.max_prompt_length=1024 data.max_response_length=$((8 * 1024 - 1024)) \\
    actor_rollout_ref.model.path=Qwen/Qwen3-8B actor_rollout_ref.model.enable_gradient_checkpointing=True \\
    actor_rollout_ref.actor.ppo_mini_batch_size=64 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \\
    actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 actor_rollout_ref.actor.fsdp_config.param_offload=True \\
    actor_rollout_ref.rollout.n=$N trainer.n_gpus_per_node=8 trainer.nnodes=2 $@
"""
SFT = """
torchrun --standalone --nnodes=1 --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer \\
    data.train_batch_size=64 data.micro_batch_size_per_gpu=2 data.max_length=16384 +data.x=1 \\
    model.partial_pretrain=meta-llama/Llama-3.1-8B-Instruct ulysses_sequence_parallel_size=4 trainer.project_name=$P
"""


@pytest.fixture
def says(tmp_path):
    def _says(text, name="run.sh", devices=None):
        (tmp_path / name).write_text(text)
        return read(str(tmp_path / name), devices)

    return _says


def test_the_update_of_an_actor_is_priced_and_has_no_verdict(says):
    imported = says(GRPO)
    options = imported.options
    assert (options["model"].name, options["seq"], options["devices"]) == ("qwen3-8b", 8192, 16)
    assert (options["global_batch"], options["microbatches"]) == (64 * 5, (20,))
    assert (options["mesh"], options["scheme"]) == ("data=1,fsdp=8,context=2,tensor=1", ("ulysses",))
    assert any("rollout engine" in reason for reason in imported.unpriced)
    assert any("param_offload: on the device during the update" in note for note in imported.notes)


def test_supervised_fine_tuning_is_priced_whole(says):
    imported = says(SFT)
    options = imported.options
    assert (options["model"].name, options["seq"], options["remat"]) == ("llama3.1-8b", 16384, ("full",))
    assert (options["mesh"], options["global_batch"]) == ("data=1,fsdp=2,context=4,tensor=1", 64)
    assert imported.unpriced == ()


def test_a_yaml_has_the_same_settings(says):
    text = "data: {max_length: 4096, train_batch_size: 32}\nmodel: {path: Qwen/Qwen3-4B, fsdp_config: {fsdp_size: 4}}\n"
    options = says(text, "a.yaml", 8).options
    assert (options["model"].name, options["mesh"]) == ("qwen3-4b", "data=2,fsdp=4,context=1,tensor=1")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("actor.ulysses_sequence_parallel_size=2", "actor.ulysses_sequence_parallel_size=$SP", r"\$SP in line 9"),
        ("actor.ulysses_sequence_parallel_size=2", "actor.ulysses_sequence_parallel_size=3", "does not divide 16 devices"),
        ("actor.ppo_mini_batch_size=64", "actor.ppo_mini_batch_size=3", "15 sequences is no multiple of 8"),
        ("actor.ppo_mini_batch_size=64", "actor.strategy=megatron", "trained with FSDP"),
    ],
)
def test_what_does_not_hold_is_refused(says, old, new, message):
    with pytest.raises(BadInputError, match=message):
        says(GRPO.replace(old, new))
