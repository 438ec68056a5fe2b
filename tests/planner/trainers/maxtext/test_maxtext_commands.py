"""``--from-maxtext`` of a command line: its words, the file that they are over, and base.yml's defaults."""

import pytest

from lcplan.formats.errors import BadInputError
from planner.trainers.maxtext.read import read

SCRIPT = """
#!/bin/bash
export OUTPUT_PATH="gs://bucket"   # yours
export LIBTPU_INIT_ARGS="--xla_tpu_scoped_vmem_limit_kib=81920 --xla_enable_async_all_gather=true"
python3 -m maxtext.trainers.pre_train.$EXECUTABLE "${CONFIGS:-$PWD}"/base.yml model_name=llama3-8b\\
  per_device_batch_size=0.25 remat_policy='full' ici_fsdp_parallelism=-1 ici_context_parallelism=4\\
  max_target_length=65536 base_output_directory=$OUTPUT_PATH\\
  packing=False attention='flash' quantization=""
"""


def test_a_command_line_is_read_as_its_scripts_have_it(tmp_path):
    """AI-Hypercomputer/maxtext, configs/tpu: people report the command that they ran."""
    file = tmp_path / "run.sh"
    file.write_text(SCRIPT)
    imported = read(str(file), 16)
    options = imported.options
    assert (options["model"].name, options["seq"], options["global_batch"]) == ("llama3-8b", 65536, 4)
    assert (options["mesh"], options["scheme"]) == ("data=1,fsdp=4,context=4,tensor=1", ("all-gather",))
    assert imported.notes == (
        "--xla_enable_async_all_gather=true: no preset of --scheduler sets it so; its effect on the step is not priced",
    )
    assert imported.unknown == ()


def test_a_command_over_another_file_says_what_was_not_read(tmp_path):
    file = tmp_path / "run.txt"
    file.write_text("python3 -m maxtext.train configs/models/gpu/llama2_7b.yml dcn_data_parallelism=2 ici_fsdp_parallelism=8")
    imported = read(str(file))
    assert imported.options["mesh"] == "data=2,fsdp=8,context=1,tensor=1"
    assert any("llama2_7b.yml: its keys were not read" in note for note in imported.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("python3 train.py", "not a MaxText configuration.*or a command with key=value words"),
        ("a=1 'b", "not words as a shell reads them: No closing quotation"),
        ("x ici_fsdp_parallelism=[1", "not valid YAML"),
        ("--flag=1", "no key=value that MaxText's command line takes"),
    ],
)
def test_what_is_no_command_is_refused(tmp_path, text, message):
    file = tmp_path / "run.txt"
    file.write_text(text)
    with pytest.raises(BadInputError, match=message):
        read(str(file))


def test_what_is_not_said_is_base_ymls(tmp_path):
    """configs/tpu/v4/52b.sh of 0.2.5 says width, depth and heads; base.yml has the rest."""
    file = tmp_path / "52b.sh"
    file.write_text(
        "train.py base.yml ici_fsdp_parallelism=192 per_device_batch_size=7 remat_policy=full num_vocab_tiling=8 "
        "base_num_decoder_layers=32 base_emb_dim=12288 base_mlp_dim=49152 base_num_query_heads=32 base_num_kv_heads=32"
    )
    imported = read(str(file))
    model = imported.options["model"]
    assert (model.layers, model.head_dim, model.vocab, model.mlp) == (32, 128, 32000, "gated")
    assert "not given, so base.yml's: head_dim=128, vocab_size=32000" in imported.notes
    assert imported.defaults["seq"] == (2048, "max_target_length: 2048")
    assert imported.options["global_batch"] == 192 * 7


def test_bases_that_lead_round_are_told(tmp_path):
    (tmp_path / "a.yml").write_text("base_config: b.yml\n")
    (tmp_path / "b.yml").write_text("base_config: ./a.yml\n")
    with pytest.raises(BadInputError, match=r"b\.yml: base_config \./a\.yml leads round"):
        read(str(tmp_path / "a.yml"), 8)


RECIPE = r"""
#!/bin/bash
if ! pip show xpk &> /dev/null; then
    exit 1
fi
export OUT=""
export WORKLOAD_NAME="$(printf "%.26s" "${USER//_/-}-run")-$(date +%Y%m%d)"
XLA_FLAGS=" \
  --xla_tpu_scoped_vmem_limit_kib=65536 \
  --xla_enable_async_all_gather=true "
MAXTEXT_ARGS="\
model_name=llama3.1-8b \
per_device_batch_size=${BATCH:-0.125} \
ici_fsdp_parallelism=-1 \
ici_context_parallelism=$((4 * 2)) \
max_target_length=131072 \
attention=flash \
base_output_directory=${OUT} \
run_name=${WORKLOAD_NAME}"

xpk workload create \
  --cluster=$CLUSTER \
  --device-type=tpu7x-4x4x4 \
  --num-slices=1 \
  --command="set -e && export LIBTPU_INIT_ARGS='${XLA_FLAGS}' && \
python3 -m maxtext.trainers.pre_train.train maxtext/configs/base.yml ${MAXTEXT_ARGS} | tee train.log && \
gsutil cp train.log ${OUT}/logs/train-\${TPU_WORKER_ID}.log"
"""


def test_a_recipe_of_the_tpu_vendor_is_read(tmp_path):
    """The form of AI-Hypercomputer/tpu-recipes, training/ironwood: the arguments in a variable, the command in a word."""
    file = tmp_path / "run_recipe.sh"
    file.write_text(RECIPE)
    imported = read(str(file))
    options = imported.options
    assert (options["hw"], options["devices"], options["model"].name) == ("tpu-7x-4x4x4", 128, "llama3.1-8b")
    assert (options["seq"], options["global_batch"]) == (131072, 16)
    assert options["mesh"] == "data=1,fsdp=16,context=8,tensor=1"
    assert any(note.startswith("run_name=$(printf") and "a command's output" in note for note in imported.notes)
    assert any(note.startswith("--xla_enable_async_all_gather=true") for note in imported.notes)


def test_hardware_that_is_asked_for_wins_over_the_scripts(tmp_path):
    file = tmp_path / "run_recipe.sh"
    file.write_text(RECIPE)
    imported = read(str(file), 256)
    assert "hw" not in imported.options
    assert "the script asks for 128 devices (--device-type=tpu7x-4x4x4), and 256 are priced" in imported.notes


def test_what_only_the_shell_knows_is_an_error_where_it_is_needed(tmp_path):
    file = tmp_path / "run.sh"
    file.write_text("export CP=64\ntrain.py base.yml model_name=llama3.1-8b ici_fsdp_parallelism=1 ici_context_parallelism=$CP")
    assert read(str(file), 64).options["mesh"] == "data=1,fsdp=1,context=64,tensor=1"
    file.write_text("train.py base.yml model_name=llama3.1-8b ici_fsdp_parallelism=1 ici_context_parallelism=$CP")
    with pytest.raises(BadInputError, match=r"ici_context_parallelism=\$CP: \$CP in line 1 \(not set in this file\)"):
        read(str(file), 64)


def test_an_option_can_stand_in_for_what_only_the_shell_knows(tmp_path):
    file = tmp_path / "run.sh"
    file.write_text("train.py base.yml model_name=$MODEL max_target_length=$SEQ ici_fsdp_parallelism=8 per_device_batch_size=1")
    imported = read(str(file), 8)
    assert {"seq", "model"} == {*imported.unresolved}
    assert "seq" not in imported.options
    assert "model" not in imported.options


def test_a_program_of_another_trainer_is_refused(tmp_path):
    file = tmp_path / "run.sh"
    file.write_text("python src/maxdiffusion/train_wan.py base_wan_14b.yml ici_fsdp_parallelism=8 attention=flash")
    with pytest.raises(BadInputError, match="is MaxDiffusion's"):
        read(str(file), 8)
