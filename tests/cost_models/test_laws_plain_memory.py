import numpy as np
import pytest

from cost_models.estimate import memory_model
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import PROGRAMS
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.memory.plain_jax import DEVICE_WORKSPACE, PlainMemory, device_gap_bytes
from lcplan.catalog import hardware, model
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy

SMALL = model("llama3-8b").model_copy(update={"layers": 2})
LAYER = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
HEAD = 128256 * 4096


def law_of(remat="full", *, seq_len=16384):
    spec = hardware("dgx-h100")
    setting = Setting(SMALL, spec, Workload(seq_len=seq_len, global_batch=1), spec.usable_bytes, PROGRAMS["plain-jax"])
    strategy = Strategy(mesh=Mesh(), remat=remat, loss_chunk_tokens=seq_len // 8)
    return memory_model(Layout(setting, StrategyTable.from_strategies([strategy])))


def test_the_loss_binds_with_the_layers_gradients_beside_it():
    law = law_of()
    assert isinstance(law, PlainMemory)
    held = {name: size[0] for name, size in dict(law.phases())["loss"].items()}
    assert held["grads"] == pytest.approx(4 * (2 * LAYER + HEAD), rel=1e-3)  # fp32; vectors are the rest
    assert held["saved_activations"] == 2 * 2 * 16384 * 4096  # two layers' inputs, bf16
    assert held["working_set"] == 3 * 2 * 16384 * 4096
    assert held["logits_loss"] == 2 * 4 * 2048 * 128256 + 3 * 2 * HEAD


def test_nothing_rematerialised_keeps_what_xla_showed_and_no_early_zeros():
    law = law_of("none")
    # of a token and layer: 6 F, 2 D, 3 N H and 2 K H in bf16, 4 D in fp32; and each layer's weights in bf16
    token = 2 * (6 * 14336 + 2 * 4096 + 3 * 4096 + 2 * 1024) + 4 * 4 * 4096
    assert law.saved_activations[0] == 2 * (16384 * token + 2 * LAYER)
    assert dict(law.phases())["loss"]["grads"][0] == pytest.approx(4 * HEAD)


def test_remat_orders_memory_and_length_raises_it():
    totals = [law_of(name).parts()[1][0] for name in ("full", "save-attention", "save-qkv", "none")]
    assert totals == sorted(totals)
    assert np.diff([law_of(seq_len=n).parts()[1][0] for n in (8192, 16384, 65536)]).min() > 0


def test_parts_add_up_to_the_total():
    parts, total, _ = law_of().parts()
    assert sum(part[0] for part in parts.values()) == pytest.approx(total[0])


def test_the_gap_is_a_cast_of_the_head_and_workspaces():
    assert device_gap_bytes(100, 10) == 2000 + DEVICE_WORKSPACE.value


def test_two_layers_on_an_h100():
    # lcplan's own measurement, jax 0.11.2: 28 024 735 744 bytes in use at the peak
    assert law_of().parts()[1][0] == pytest.approx(28024735744, rel=0.02)
