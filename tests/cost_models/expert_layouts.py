"""A toy mixture of experts and its layouts, for the tests of its laws."""

from dataclasses import replace

from cost_models.collectives.step import terms_of
from cost_models.estimate import estimate
from cost_models.experts.buffers import ExpertLayout
from cost_models.inputs.layout import Layout
from cost_models.inputs.program import PROGRAMS
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.catalog import hardware, model
from lcplan.spec.experts import Experts
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy

TOY = ModelSpec(
    name="toy",
    layers=2,
    d_model=8,
    d_ff=8,
    heads=2,
    kv_heads=1,
    head_dim=4,
    vocab=16,
    experts=Experts(count=4, active=2, d_ff=16),
)
# attention: query and out 2 * 8*8, key and value 2 * 8*4; one expert: 3 * 8*16; router: 8*4
ATTENTION, EXPERT, ROUTER = 192, 384, 32


def layout(*, spec=TOY, machine="gb200-nvl72", seq=4096, batch=8, **fields):
    mesh = Mesh(**{axis: fields.pop(axis) for axis in ("data", "fsdp", "context", "tensor", "expert") if axis in fields})
    hw = hardware(machine)
    setting = Setting(spec, hw, Workload(seq_len=seq, global_batch=batch), hw.usable_bytes)
    return Layout(setting, StrategyTable.from_strategies([Strategy(mesh=mesh, **fields)]))


def maxtext(**fields):
    made = layout(machine="tpu-v6e-256", backend="ici", **fields)
    return Layout(replace(made.setting, program=PROGRAMS["maxtext"]), made.table)


def part(**fields):
    return ExpertLayout(layout(**fields))


def terms(**fields):
    return {(term.op, term.purpose): term for term in terms_of(layout(**fields)) if term.used.any()}


def priced(*strategies, spec="qwen3-30b-a3b", seq=131072, batch=32):
    hw = hardware("gb200-nvl72")
    setting = Setting(model(spec), hw, Workload(seq_len=seq, global_batch=batch), hw.usable_bytes)
    return estimate(setting, StrategyTable.from_strategies(strategies))
