"""Recipes of Megatron-Bridge and NeMo: the literals of Python, YAML with references, and overrides of scripts."""

import pytest

from lcplan.formats.errors import BadInputError
from planner.trainers.bridge.read import read

BRIDGE = """
import torch
from megatron.bridge.recipes.common import _pretrain_common, _peft_common

LENGTH: int = 16 * 1024

def long_config():
    cfg = _pretrain_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-8B").get_model_config()
    cfg.dataset.seq_length = LENGTH
    cfg.model.tensor_model_parallel_size = 2
    cfg.model.context_parallel_size = 2
    cfg.model.sequence_parallel = True
    cfg.model.seq_length = LENGTH
    cfg.train.global_batch_size = 64
    cfg.train.micro_batch_size = 1
    cfg.model.recompute_granularity = None
    cfg.optimizer.exp_avg_dtype = torch.float32
    return cfg

def longer_config():
    cfg = long_config()
    cfg.model.seq_length = 2 * LENGTH
    cfg.dataset.seq_length = 2 * LENGTH
    cfg.model.recompute_granularity = "full"
    return cfg

def adapters_config():
    cfg = _peft_common()
    cfg.model = AutoBridge.from_hf_pretrained("meta-llama/Meta-Llama-3-8B").get_model_config()
    cfg.train.micro_batch_size = 1
    return cfg
"""
NEMO = """
@run.cli.factory
def model():
    return run.Config(LlamaModel, config=run.Config(Llama31Config8B))

def trainer(tensor_parallelism: int = 1, context_parallelism: int = 2, num_nodes: int = 1, num_gpus_per_node: int = 8):
    return run.Config(
        nl.MegatronStrategy,
        tensor_model_parallel_size=tensor_parallelism,
        context_parallel_size=context_parallelism,
        sequence_parallel=False,
    )

def pretrain_recipe(num_nodes: int = 2, num_gpus_per_node: int = 8):
    return run.Partial(
        fn,
        model=model(),
        trainer=trainer(num_nodes=num_nodes, num_gpus_per_node=num_gpus_per_node, context_parallelism=4),
        data=run.Config(MockDataModule, seq_length=8192, global_batch_size=512, micro_batch_size=1),
        optim=distributed_fused_adam_with_cosine_annealing(max_lr=3e-4),
    )
"""
YAML = """
trainer: {devices: 8, num_nodes: 2, precision: bf16}
model:
  micro_batch_size: 1
  global_batch_size: 32
  tensor_model_parallel_size: 4
  encoder_seq_length: 8192
  max_position_embeddings: ${.encoder_seq_length}
  num_layers: 32
  data: {seq_length: "${model.encoder_seq_length}", num_workers: 2}
  tokenizer: {model: "${oc.env:TOKENIZER}"}
"""


@pytest.fixture
def recipe(tmp_path):
    def _recipe(text, function, devices=16, name="recipe.py"):
        (tmp_path / name).write_text(text)
        return read(f"{tmp_path / name}:{function}" if function else str(tmp_path / name), devices)

    return _recipe


def test_a_recipe_of_bridge_is_megatron(recipe):
    imported = recipe(BRIDGE, "long_config")
    options = imported.options
    assert (imported.trainer, options["model"].name, options["seq"]) == ("megatron", "llama3-8b", 16384)
    assert (options["global_batch"], options["microbatches"]) == (64, (16,))
    assert options["mesh"].endswith("context=2,tensor=2")
    assert (imported.whole_weights, imported.unpriced, imported.unknown) == (True, (), ())


def test_a_recipe_that_changes_another_one_has_both(recipe):
    options = recipe(BRIDGE, "longer_config").options
    assert (options["seq"], options["remat"], options["model"].name) == (32768, ("full",), "llama3-8b")


def test_a_recipe_for_adapters_has_no_verdict(recipe):
    assert any("adapters" in reason for reason in recipe(BRIDGE, "adapters_config").unpriced)


def test_a_recipe_of_nemo_has_its_functions_keywords(recipe):
    imported = recipe(NEMO, None, devices=None)
    options = imported.options
    assert (options["model"].name, options["seq"], options["global_batch"]) == ("llama3.1-8b", 8192, 512)
    assert options["devices"] == 16
    assert options["mesh"].endswith("context=4,tensor=1")
    assert imported.whole_weights


def test_a_yaml_has_references(recipe):
    options = recipe(YAML, None, devices=None, name="a.yaml").options
    assert (options["seq"], options["devices"], options["global_batch"]) == (8192, 16, 32)


def test_overrides_alone_have_no_verdict(recipe):
    text = (
        "CONFIGS=('1,1' '2,4')\nfor C in ${CONFIGS[@]}; do\nIFS=',' read -r TP CP <<< $C\n"
        'CMD="python run_recipe.py --recipe llama3_8b model.tensor_model_parallel_size=$TP"\n'
        'CMD="$CMD model.context_parallel_size=$CP model.seq_length=65536 logger.project=$P"\n'
        'srun --ntasks-per-node 8 -N 2 bash -c "$CMD"\ndone\n'
    )
    imported = recipe(text, None, devices=None, name="run.sh")
    assert imported.options["mesh"].endswith("context=4,tensor=2")
    assert imported.options["devices"] == 16
    assert any("the recipe llama3_8b has further settings" in reason for reason in imported.unpriced)


@pytest.mark.parametrize(
    ("text", "function", "message"),
    [
        (BRIDGE, "long", "no function 'long'"),
        (BRIDGE, None, "write FILE:function"),
        ("def f(:", "f", "not a Python module"),
        (BRIDGE.replace("context_parallel_size = 2", "context_parallel_size = 3"), "long_config", "does not divide"),
        ("def f():\n    return 1\n", "f", "no setting of Megatron-core"),
    ],
)
def test_what_is_no_recipe_is_refused(recipe, text, function, message):
    with pytest.raises(BadInputError, match=message):
        recipe(text, function)
