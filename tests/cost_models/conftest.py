"""Settings shared by the laws' tests: a toy with round numbers, and the seed's Llama 3 8B on a GB200 rack."""

import pytest

from cost_models.inputs.setting import Setting
from lcplan.catalog import hardware, model
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload


@pytest.fixture(scope="session")
def toy_model():
    """L 2, D 8, F 16, N 4, K 2, H 2, V 32: q 64, k and v 32 each, o 64, gate, up, down 128 each."""
    return ModelSpec(name="toy", layers=2, d_model=8, d_ff=16, heads=4, kv_heads=2, head_dim=2, vocab=32)


@pytest.fixture(scope="session")
def toy(toy_model):
    """The toy on two 8-GPU H100 nodes: 4 sequences of 64 tokens."""
    machine = hardware("dgx-h100x2")
    return Setting(toy_model, machine, Workload(seq_len=64, global_batch=4), machine.usable_bytes)


@pytest.fixture(scope="session")
def llama():
    """Llama 3 8B on GB200 NVL72: 16 sequences of 256k tokens."""
    machine = hardware("gb200-nvl72")
    return Setting(model("llama3-8b"), machine, Workload(seq_len=262144, global_batch=16), machine.usable_bytes)
