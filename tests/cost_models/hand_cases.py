"""A step small enough to work by hand: round rates, no latencies, and a model whose sizes are powers of two.

L 2, D 8, F 16, N 2, K 1, H 8, V 32. A layer has query 128, key 64, value 64, output 128 and gate, up, down 128 each: 768
elements. Two layers are 1536, embedding and head 256 each, norms 2 x 16 + 8 = 40: 2088. 4 sequences of 64 tokens are 256.
"""

from dataclasses import replace

from cost_models.inputs.layout import Layout
from cost_models.inputs.program import STEP
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from cost_models.rates.published import rates_of
from cost_models.rates.rate import CollectiveRate, Rate, Rates
from cost_models.time.step import StepTime
from lcplan.catalog import hardware
from lcplan.spec.experts import Experts
from lcplan.spec.model import ModelSpec
from lcplan.spec.workload import Workload
from lcplan.strategy import Mesh, Strategy

HAND = ModelSpec(name="hand", layers=2, d_model=8, d_ff=16, heads=2, kv_heads=1, head_dim=8, vocab=32)
MIXTURE = HAND.model_copy(update={"experts": Experts(count=4, active=2, d_ff=16)})
COMPUTE, LINK = 1e6, 1e3
"""FLOP/s and bytes/s of the device, bytes/s of its links."""
OPS = ("all-gather", "reduce-scatter", "all-reduce", "all-to-all", "collective-permute")


def rate(value):
    return Rate(value, measured=True, source="a test")


RATES = Rates(
    gemm=rate(COMPUTE),
    attention_forward=rate(COMPUTE),
    attention_backward=rate(COMPUTE),
    forward_half_tokens=0.0,
    backward_half_tokens=0.0,
    hbm=rate(COMPUTE),
    matrix_unit=0.0,
    exponential_share=0.0,
    collectives={op: CollectiveRate(0.0, 0.0, LINK, True, "a test") for op in OPS},
)


def layout(*, spec=HAND, machine="dgx-h100x2", program=None, workload=None, **strategy):
    """The layout of one strategy; axes of its mesh and knobs are keywords, ``program`` changes fields of the step."""
    found = hardware(machine)
    work = Workload(seq_len=64, global_batch=4).model_copy(update=workload or {})
    setting = Setting(spec, found, work, found.usable_bytes, program=STEP.model_copy(update=program or {}))
    mesh = Mesh(**{axis: strategy.pop(axis) for axis in Mesh.model_fields if axis in strategy})
    backend = {"gpu": "nvshmem", "tpu": "ici", "cpu": "host"}[found.kind]
    return Layout(setting, StrategyTable.from_strategies([Strategy(mesh=mesh, **{"backend": backend, **strategy})]))


def times(*, rates=None, **fields):
    """The time parts of one strategy at the round rates."""
    return StepTime(layout(**fields), replace(RATES, **(rates or {})))


def unmeasured(kind, peak=1e15):
    """A device of that kind that no table knows."""
    spec = hardware({"gpu": "dgx-h100", "tpu": "tpu-v5p-64", "cpu": "cpu-host"}[kind])
    figure = spec.device.peak_flop_per_s.model_copy(update={"value": peak, "kind": "datasheet"})
    device = spec.device.model_copy(update={"name": "unheard-of", "gpu": None, "peak_flop_per_s": figure, "rates": None})
    return rates_of(spec.model_copy(update={"device": device}))
