"""Scripts with ``accelerate launch`` and ``deepspeed``: the launcher's options, and the files that they name."""

import json

import pytest

from lcplan.formats.errors import BadInputError
from planner.trainers.accelerate.read import read as read_accelerate
from planner.trainers.deepspeed.read import read as read_deepspeed


def test_options_of_a_launch_win_over_its_file(tmp_path):
    (tmp_path / "fsdp.yaml").write_text(
        "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\nfsdp_config: {fsdp_version: 2}\n"
    )
    file = tmp_path / "run.sh"
    file.write_text(
        "N=16\naccelerate launch --config_file conf/fsdp.yaml --num_processes $N --fsdp_activation_checkpointing true \\\n"
        "  --fsdp_reshard_after_forward=true train.py --lr 1e-5 --num_processes 99\n"
    )
    imported = read_accelerate(str(file))
    assert (imported.options["devices"], imported.options["remat"]) == (16, ("full",))
    assert imported.options["mesh"] == "data=1,fsdp=16,context=1,tensor=1"


def test_a_launch_without_a_file(tmp_path):
    file = tmp_path / "run.sh"
    file.write_text(
        "srun bash -c 'accelerate launch --use_deepspeed --zero_stage 3 --num_processes 8 --mixed_precision bf16 t.py'\n"
    )
    assert read_accelerate(str(file)).options["mesh"] == "data=1,fsdp=8,context=1,tensor=1"


def test_a_deepspeed_script_names_its_json(tmp_path):
    (tmp_path / "z3.json").write_text(json.dumps({"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}))
    file = tmp_path / "run.sh"
    file.write_text("deepspeed --num_gpus 8 --num_nodes 2 train.py --model x --deepspeed configs/z3.json\n")
    assert read_deepspeed(str(file)).options["mesh"] == "data=1,fsdp=16,context=1,tensor=1"


@pytest.mark.parametrize(
    ("reader", "text", "message"),
    [
        (read_accelerate, "python train.py", "no accelerate launch in it"),
        (read_accelerate, "accelerate launch --use_fsdp --num_processes $N t.py", r"\$N in line 1 \(not set in this file\)"),
        (read_accelerate, "accelerate launch --config_file a.yaml t.py", "a.yaml of accelerate launch is not in its folder"),
        (read_deepspeed, "deepspeed t.py", "no --deepspeed or --deepspeed_config"),
        (read_deepspeed, "deepspeed t.py --deepspeed a.json", "a.json is not in its folder"),
    ],
)
def test_a_script_without_its_parts_is_refused(tmp_path, reader, text, message):
    (tmp_path / "run.sh").write_text(text)
    with pytest.raises(BadInputError, match=message):
        reader(str(tmp_path / "run.sh"), 8)
