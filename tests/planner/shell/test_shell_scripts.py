"""Commands of scripts: inside quoted words, here-documents and other scripts, and the devices that they are started on."""

import pytest

from planner.shell.launch import launch_of
from planner.shell.script import chosen, read_script


def found(text, file="run.sh"):
    """The command with the most words that begin with ``--my-``."""
    return chosen(read_script(text, str(file)), lambda word: word.startswith("--my-"))[0]


@pytest.mark.parametrize(
    "text",
    [
        "python train.py --my-size 8",
        "torchrun --nproc_per_node 8 \\\n  train.py \\\n  --my-size 8 | tee log",
        "CMD='python train.py --my-size 8'\neval $CMD",
        'srun bash -c "python train.py --my-size 8"',
        "xpk workload create --cluster=c --command=\"export A='b' && python3 -m x.train --my-size 8\"",
        "CMD=\"xpk workload create --command='python train.py --my-size 8'\"\neval ${CMD}",
        "cat > run2.sh <<EOF\npython train.py --my-size 8\nEOF\nsbatch run2.sh",
        "sbatch <<'EOF'\n#SBATCH -N 2\nsrun python train.py --my-size 8\nEOF",
        "bash <<< 'python train.py --my-size 8'",
        "docker run image bash -c 'cd x; python train.py --my-size 8'",
        'run() { python train.py "$@"; }\nrun --my-size 8',
        "nohup env X=1 python3 train.py --my-size 8 > log 2>&1 &",
        "if python train.py --my-size 8; then echo done; fi",
        "set -euo pipefail; trap 'kill $!' EXIT\n(cd x && python train.py --my-size 8)",
    ],
)
def test_a_trainers_command_is_found_wherever_it_is(text):
    command = found(text)
    assert command.texts[-2:] == ("--my-size", "8")
    assert command.program.endswith(("train.py", "x.train"))


def test_a_script_beside_it_is_followed(tmp_path):
    (tmp_path / "model.sh").write_text("MODEL_ARGS=(--my-layers 4)\n")
    file = tmp_path / "run.sh"
    text = 'DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"\nsource "$DIR/model.sh"\npython train.py ${MODEL_ARGS[@]}'
    assert found(text, file).texts[-1] == "4"
    assert read_script("source other.sh\n. venv/bin/activate", str(file)).notes == (
        "other.sh: a script that is not in this folder was not read",
    )


def test_of_several_commands_the_last_with_the_most_words_is_chosen():
    text = "python prepare.py --my-a 1\nfor n in 1 2; do python train.py --my-a $n --my-b 1; done\npython eval.py --my-a 3"
    command, equal = chosen(read_script(text, "run.sh"), lambda word: word.startswith("--my-"))
    assert (command.texts[-3:], equal) == (("2", "--my-b", "1"), 2)


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("torchrun --nproc_per_node 8 --nnodes=4 t.py --my-a", 32),
        ("GPUS=8\nNODES=2\npython -m torch.distributed.run --nproc-per-node $GPUS --nnodes $NODES t.py --my-a", 16),
        ("torchrun --nproc_per_node 8 t.py --my-a", 8),
        ("torchrun --nproc_per_node 8 --nnodes $NODES t.py --my-a", None),
        ("accelerate launch --num_processes 16 --num_machines 2 t.py --my-a", 16),
        ("deepspeed --num_gpus 4 --num_nodes 2 t.py --my-a", 8),
        ("mpirun -np 64 python t.py --my-a", 64),
        (
            "#SBATCH --nodes=4\n#SBATCH --gpus-per-node=8\nsrun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 t.py --my-a",
            32,
        ),
        ("#SBATCH -N 2\n#SBATCH --ntasks-per-node=8\nsrun python t.py --my-a", 16),
        ("srun -N 4 --ntasks-per-node 4 bash -c 'python t.py --my-a'", 16),
        ("CUDA_VISIBLE_DEVICES=0,1,2,3 python t.py --my-a", 4),
        ("NNODES=2 NPROC_PER_NODE=8 python t.py --my-a", 16),
        ("python t.py --my-a", None),
    ],
)
def test_devices_are_those_of_the_launcher(text, devices):
    assert launch_of(found(text)).devices == devices


def test_a_tpu_slice_is_that_of_the_launcher():
    launch = launch_of(found("xpk workload create --device-type=tpu7x-4x4x8 --num-slices=2 --command='python t.py --my-a'"))
    assert (launch.hardware, launch.slices) == ("tpu-7x-4x4x8", 2)
    launch = launch_of(found('xpk workload create --tpu-type v5p-128 --command "python t.py --my-a"'))
    assert launch.hardware == "tpu-v5p-128"
