"""``--from-torchtitan``: the old TOML, and Python read as syntax and never executed."""

import pytest

from lcplan.formats.errors import BadInputError
from lcplan.strategy import Mesh, Strategy
from planner.trainers import Job
from planner.trainers.torchtitan.read import read

TOML = """
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 1
global_batch_size = 8
seq_len = 131072
[parallelism]
data_parallel_replicate_degree = 1
data_parallel_shard_degree = 2
tensor_parallel_degree = 1
context_parallel_degree = 8
context_parallel_rotate_method = "alltoall"
[activation_checkpoint]
mode = "full"
"""
PYTHON = """
import os
from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.config_registry import llama3_8b
from torchtitan.components.loss import ChunkedLossWrapper
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC

SEQ = 131072
raise SystemExit("a module that is read is not run")


def mine():
    config = llama3_8b()
    config.model_spec = model_registry("8B", attn_backend="flex")
    config.training = TrainingConfig(local_batch_size=1, global_batch_size=8, seq_len=SEQ)
    config.parallelism = ParallelismConfig(data_parallel_shard_degree=2, context_parallel_degree=8)
    config.activation_checkpoint = FullAC.Config()
    config.loss = ChunkedLossWrapper.Config(num_chunks=16)
    return config
"""


@pytest.fixture
def says(tmp_path):
    def _says(text: str, name: str = "run.py", devices: int | None = None):
        file, _, function = name.partition(":")
        (tmp_path / file).write_text(text)
        return read(str(tmp_path / file) + (f":{function}" if function else ""), devices)

    return _says


def test_the_toml(says):
    imported = says(TOML, "run.toml")
    options = imported.options
    assert (options["model"].name, options["seq"], options["devices"]) == ("llama3.1-8b", 131072, 16)
    assert options["mesh"] == "data=1,fsdp=2,context=8,tensor=1"
    assert (options["global_batch"], options["microbatches"]) == (8, (4,))
    assert (options["scheme"], options["remat"]) == (("ring-zigzag",), ("full",))
    assert imported.unknown == ()


def test_attention_is_timed_as_the_kernel_that_the_file_names(says):
    """SDPA takes cuDNN's kernel first (models/common/attention.py of 0.3.0)."""
    kernels = [says(PYTHON.replace('"flex"', f'"{name}"'), "run.py:mine").program.attention for name in ("sdpa", "flex")]
    assert kernels == ["cudnn-2025", "flash2"]


def test_old_places_of_toml_keys(says):
    text = """
[training]
batch_size = 2
seq_len = 8192
tensor_parallel_degree = 4
data_parallel_shard_degree = 2
[experimental]
context_parallel_degree = 2
[activation_checkpoint]
mode = "selective"
"""
    imported = says(text, "run.toml")
    assert imported.options["mesh"] == "data=1,fsdp=2,context=2,tensor=4"
    assert imported.options["scheme"] == ("all-gather",)
    assert (imported.options["global_batch"], imported.options["remat"]) == (4, ("save-all",))
    assert any("selective checkpointing (2)" in note for note in imported.notes)


def test_unknown_keys_of_the_toml_are_listed(says):
    assert says(TOML.replace("tensor_parallel_degree", "tensor_paralel_degree"), "run.toml").unknown == (
        "parallelism.tensor_paralel_degree",
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('mode = "full"', 'mode = "fulll"', "activation_checkpoint.mode 'fulll'; did you mean 'full'"),
        ('"alltoall"', '"ring"', "context_parallel_rotate_method 'ring'"),
        ("context_parallel_degree = 8", "context_parallel_degree = 8\npipeline_parallel_degree = 2", "lcplan has no such axis"),
        ("global_batch_size = 8", "global_batch_size = 7", "global_batch_size 7 is no multiple of"),
        (
            "data_parallel_shard_degree = 2",
            "data_parallel_shard_degree = -1",
            "is -1, which torchtitan fills from the launcher",
        ),
        ("[model]", "[model", "not valid TOML"),
    ],
)
def test_what_lcplan_cannot_read_in_the_toml_is_refused(says, old, new, message):
    with pytest.raises(BadInputError, match=message):
        says(TOML.replace(old, new), "run.toml")


def test_the_python_module_is_read_and_not_run(says):
    imported = says(PYTHON)
    options = imported.options
    assert (options["model"].name, options["seq"], options["mesh"]) == (
        "llama3.1-8b",
        131072,
        "data=1,fsdp=2,context=8,tensor=1",
    )
    assert (options["scheme"], options["remat"], options["microbatches"]) == (("all-gather",), ("full",), (4,))
    assert options["loss_chunk_tokens"] == (131072 // 8 // 16,)
    assert imported.notes == ()


def test_attributes_that_are_set_one_by_one(says):
    lines = "    config.training.seq_len = 65536\n    config.parallelism.tensor_parallel_degree = 2\n"
    text = PYTHON.replace("    config.activation_checkpoint", f"{lines}    config.activation_checkpoint")
    assert says(text).options["seq"] == 65536
    assert says(text).options["mesh"] == "data=1,fsdp=2,context=8,tensor=2"


def test_what_is_computed_is_named_and_not_guessed(says):
    imported = says(PYTHON.replace("seq_len=SEQ", 'seq_len=int(os.environ["SEQ"])'))
    assert "seq" not in imported.options
    assert any("training.seq_len is computed in" in note for note in imported.notes)


def test_a_function_is_chosen_by_name_where_there_are_two(says):
    two = PYTHON + PYTHON[PYTHON.index("def mine") :].replace("mine", "other").replace(
        "context_parallel_degree=8", "context_parallel_degree=4"
    )
    with pytest.raises(BadInputError, match="mine, other build configurations: write FILE:function"):
        says(two)
    assert says(two, "run.py:other").options["mesh"] == "data=1,fsdp=2,context=4,tensor=1"
    with pytest.raises(BadInputError, match="no function 'othr'; did you mean 'other'"):
        says(two, "run.py:othr")


def test_what_is_the_bases_is_left_open(says):
    lines = [line for line in PYTHON.splitlines() if "activation_checkpoint =" not in line and "config.loss" not in line]
    imported = says("\n".join(lines))
    assert "remat" not in imported.options
    assert "loss_chunk_tokens" not in imported.options
    assert sum("was not read" in note for note in imported.notes) == 2


@pytest.mark.parametrize(("text", "message"), [("def (", "not a Python module"), ("x = 1", "no function builds one")])
def test_what_is_no_configuration_is_refused(says, text, message):
    with pytest.raises(BadInputError, match=message):
        says(text)


def test_unknown_fields_are_listed(says):
    unknown = says(PYTHON.replace("context_parallel_degree=8", "context_parallel_degree=8, ring=True")).unknown
    assert unknown == ("parallelism.ring",)


def test_whose_step_is_priced(says):
    """Compiled or not; what selective checkpointing keeps; the loss in chunks, unless the command sets it whole."""
    assert (says(TOML, "run.toml").program.dispatch, says(TOML, "run.toml").program.saved) == ("eager", None)
    assert says(TOML + "[compile]\nenable = true\n", "run.toml").program.dispatch == "compiled"
    selective = says(TOML.replace('mode = "full"', 'mode = "selective"'), "run.toml")
    assert selective.program.saved == ("attention_output", "lse", "query", "attention_out", "gate")
    assert says(PYTHON.replace("FullAC", "SelectiveAC")).program.saved == selective.program.saved
    assert says(PYTHON).program.loss == "chunked"
    assert (says(PYTHON).program.dispatch, says(TOML, "run.toml").program.deterministic) == ("graphs", False)
    launched = says(PYTHON.replace("seq_len=SEQ", "seq_len=SEQ, disable_cuda_graphs=True"))
    assert launched.program.dispatch == "eager"
    fixed = says(TOML.replace("seq_len = 131072", "seq_len = 131072\ndeterministic = true"), "run.toml")
    assert fixed.program.deterministic


def test_a_state_on_the_host_is_counted(says, ask):
    request = ask()
    job = Job(request.model, request.hardware, request.workload, Strategy(mesh=Mesh(fsdp=2, context=8), loss_chunk_tokens=1024))
    imported = says(TOML.replace("seq_len = 131072", "seq_len = 131072\nenable_cpu_offload = true"), "run.toml")
    [offload] = imported.more(job)
    assert offload.extra_bytes == -round(16 * request.model.parameters / 16)
    assert says(TOML, "run.toml").more(job) == []


@pytest.mark.parametrize("more", ["[float8]\nenable_fsdp_float8_all_gather = true\n", None])
def test_products_of_eight_bits_are_told(says, more):
    text = TOML + more if more else TOML.replace('flavor = "8B"', 'flavor = "8B"\nconverters = ["float8"]')
    assert any("lcplan prices products in bf16" in note for note in says(text, "run.toml").notes)
    assert says(TOML, "run.toml").notes == ()


REGISTRY = """
from torchtitan.distributed.activation_checkpoint import FullAC
from . import model_registry


def mine():
    return Trainer.Config(
        model_spec=model_registry("14B"),
        training=TrainingConfig(local_batch_size=4, seq_len=4 * 4096),
        parallelism=ParallelismConfig(data_parallel_shard_degree=8),
        activation_checkpoint=FullAC.Config(),
    )
"""


def test_a_configuration_of_torchtitans_own_registries(tmp_path):
    """Its registries import the model from their own package, and give every setting as a keyword."""
    file = tmp_path / "qwen3" / "config_registry.py"
    file.parent.mkdir()
    file.write_text(REGISTRY)
    options = read(f"{file}:mine", 8).options
    assert (options["model"].name, options["remat"]) == ("qwen3-14b", ("full",))
    assert (options["seq"], options["global_batch"]) == (16384, 32)


def test_async_tensor_parallelism_hides_the_stream_and_needs_the_compiler(says, ask):
    text = TOML.replace("tensor_parallel_degree = 1", "tensor_parallel_degree = 2\nenable_async_tensor_parallel = true")
    eager, compiled = says(text, "run.toml"), says(text + "[compile]\nenable = true\n", "run.toml")
    assert compiled.program.stream == "beside-products"
    request = ask()
    job = Job(request.model, request.hardware, request.workload, Strategy(mesh=Mesh(fsdp=2, context=8, tensor=2)))
    assert compiled.refuses(job) == []
    assert any("without compile" in reason for reason in eager.refuses(job))


CHAINED = """
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from . import model_registry

def base():
    return Trainer.Config(
        model_spec=model_registry("14B"),
        training=TrainingConfig(local_batch_size=4, seq_len=4 * 4096),
        parallelism=ParallelismConfig(data_parallel_shard_degree=-1),
        activation_checkpoint=SelectiveAC.Config(),
    )

def longer():
    config = base()
    config.training.seq_len = 65536
    config.training.local_batch_size = 1
    config.activation_checkpoint = FullAC.Config()
    return config

def later():
    config = base()
    config.training = TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192)
    return config
"""


def test_a_function_that_changes_another_ones_configuration_has_both(tmp_path):
    """pytorch/torchtitan, models/*/config_registry.py: most functions begin so."""
    folder = tmp_path / "torchtitan" / "models" / "qwen3"
    folder.mkdir(parents=True)
    file = folder / "config_registry.py"
    file.write_text(CHAINED)
    base, longer = read(f"{file}:base", 8), read(f"{file}:longer", 8)
    assert (base.options["model"].name, base.options["seq"], base.options["remat"]) == ("qwen3-14b", 16384, ("save-all",))
    assert (longer.options["model"].name, longer.options["seq"], longer.options["remat"]) == ("qwen3-14b", 65536, ("full",))
    assert longer.options["global_batch"] == 8


def test_products_in_fewer_bits_are_noted(tmp_path):
    file = tmp_path / "registry.py"
    file.write_text(CHAINED.replace('"14B"', '"14B", converters=[MXFP8LinearConverter.Config()]'))
    assert any(note == "MXFP8LinearConverter: lcplan prices bf16" for note in read(f"{file}:base", 8).notes)


def test_lengths_of_a_later_release_are_read(tmp_path):
    file = tmp_path / "registry.py"
    file.write_text(CHAINED.replace("seq_len=4 * 4096", "").replace("local_batch_size=4, ", ""))
    imported = read(f"{file}:later", 8)
    assert (imported.options["seq"], imported.options["global_batch"]) == (8192, 16)
    assert any("of a later torchtitan" in note for note in imported.notes)
