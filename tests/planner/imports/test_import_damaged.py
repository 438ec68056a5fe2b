"""Files with values that no trainer takes: the key and the value in one message, never a traceback."""

from importlib import import_module

import pytest

from lcplan.formats.errors import BadInputError

MAXTEXT = "model_name: llama3-8b\nici_fsdp_parallelism: 8\ndcn_data_parallelism: 1\nper_device_batch_size: 1\n"
MEGATRON = "--tensor-model-parallel-size 2 --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --vocab-size 128256 \
--normalization RMSNorm --position-embedding-type rope --swiglu "
BUILT = """
from torchtitan.models.llama3 import model_registry
def mine():
    config.training = TrainingConfig(local_batch_size=1, seq_len=8192)
    config.parallelism = ParallelismConfig(data_parallel_shard_degree=8)
    config.model_spec = model_registry("8B", attn_backend="flex")
    """
CASES = [
    ("maxtext", "a.yml", MAXTEXT.replace("size: 1", "size: .inf"), "per_device_batch_size: inf is not a number"),
    ("maxtext", "a.yml", MAXTEXT + "num_slices: two\n", "num_slices: 'two' is not a whole number above zero"),
    ("maxtext", "a.yml", MAXTEXT + "decoder_block: [llama2]\n", "decoder_block ['llama2'] is not one that lcplan models"),
    (
        "maxtext",
        "a.yml",
        MAXTEXT + "rope_max_timescale: 10000\nrope_linear_scaling_factor: auto\n",
        "rope_linear_scaling_factor: 'auto' is not a number",
    ),
    ("megatron", "a.txt", MEGATRON + '--tokenizer-model "unclosed', "not words as a shell reads them: No closing quotation"),
    ("megatron", "a.txt", MEGATRON + "--rotary-base 5e5x", "--rotary-base 5e5x: not a number"),
    ("megatron", "a.txt", MEGATRON + "--ffn-hidden-size 14k", "--ffn-hidden-size 14k: not a whole number above zero"),
    (
        "deepspeed",
        "a.json",
        '{"zero_optimization": {"stage": "auto"}}',
        "zero_optimization.stage 'auto' is not a stage",
    ),
    ("deepspeed", "a.json", '{"zero_optimization": {"stage": true}}', "zero_optimization.stage True is not a stage"),
    ("deepspeed", "a.json", '{"train_batch_size": NaN}', "train_batch_size: nan is not a whole number above zero"),
    ("accelerate", "a.yaml", "fsdp_config: {1: true}\n", "fsdp_config is not a mapping of keys to values"),
    ("accelerate", "a.yaml", "num_processes: .inf\n", "num_processes: inf is not a whole number above zero"),
    (
        "torchtitan",
        "a.py",
        BUILT + 'config.loss = ChunkedLossWrapper.Config(num_chunks="all")\n',
        "num_chunks: 'all' is not a whole number above zero",
    ),
    ("torchtitan", "a.py", BUILT + "rope = CosSinRoPE.Config(theta=-1.0)\n", "theta: Input should be greater than 0"),
    ("torchtitan", "a.py", BUILT + "x = _build_llama3_layers(dim=64, n_heads=2)\n", "no literal n_layers and hidden_dim"),
    (
        "torchtitan",
        "a.py",
        BUILT + "x = _build_llama3_layers(n_layers=2, dim=64, hidden_dim=0, n_heads=2)\n",
        "d_ff: Input should be greater than 0",
    ),
]


@pytest.mark.parametrize(("trainer", "name", "text", "says"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_what_is_wrong_is_told(tmp_path, trainer, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInputError) as caught:
        import_module(f"planner.trainers.{trainer}.read").read(str(tmp_path / name), 8)
    assert says in str(caught.value)


def test_slices_that_maxtext_finds_by_itself_are_one(tmp_path):
    (tmp_path / "a.yml").write_text(MAXTEXT + "num_slices: -1\n")
    assert import_module("planner.trainers.maxtext.read").read(str(tmp_path / "a.yml"), 8).options["devices"] == 8
