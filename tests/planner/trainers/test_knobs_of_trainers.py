"""Every knob of a plan reaches a trainer: its files have the value, or a difference names it, or the plan is refused."""

import pytest

from lcplan.formats.errors import BadInputError
from lcplan.strategy import STEP_KNOBS
from planner.export.run import export_plan
from planner.trainers import trainer, trainer_names

CASES = {
    "scheme": ({"context": 8, "scheme": "ring-zigzag"}, "all-gather"),
    "ulysses": ({"context": 8, "scheme": "ulysses-ring", "ulysses": 4}, 2),
    "bidirectional": ({"context": 8, "scheme": "ring-zigzag"}, "on"),
    "remat": ({"fsdp": 8}, "save-qkv"),
    "offload_percent": ({"fsdp": 8, "remat": "offload-layer-in"}, 50),
    "backend": ({"fsdp": 8}, "symmetric"),
    "microbatches": ({"fsdp": 8}, 2),
    "schedule": ({"pipe": 2, "fsdp": 4}, "gpipe"),
    "virtual_stages": ({"pipe": 2, "fsdp": 4, "schedule": "circular", "microbatches": 2}, 2),
    "loss_chunk_tokens": ({"fsdp": 8}, 512),
    "attention_block": ({"fsdp": 8}, 1024),
    "segment": ({"fsdp": 64}, 32),
    "sharding_mode": ({"fsdp": 8}, "auto"),
    "scheduler": ({"fsdp": 8}, "latency-hiding"),
    "collective_matmul": ({"fsdp": 4, "tensor": 2}, "one-way"),
    "gather_dtype": ({"fsdp": 8}, "fp32"),
    "reduce_dtype": ({"fsdp": 8}, "bf16"),
    "optimizer": ({"fsdp": 8}, "lion"),
    "master_dtype": ({"fsdp": 8}, "bf16"),
    "moments_dtype": ({"fsdp": 8}, "bf16"),
    "grad_dtype": ({"fsdp": 8}, "bf16"),
}
"""A strategy that does not set the knob, and another value that makes another program of it."""
OF_EXPERTS = {
    "moe_dispatch": ({"fsdp": 8}, "capacity"),
    "moe_capacity_percent": ({"fsdp": 8, "moe_dispatch": "capacity"}, 125),
    "expert_fold": ({"fsdp": 4, "context": 2}, 8),
    "expert_tensor": ({"fsdp": 4, "tensor": 2, "expert_fold": 4}, "whole"),
}
DIFFERENCES = {"ulysses": "scheme", "bidirectional": "scheme", "offload_percent": "remat", "loss_chunk_tokens": "loss"}
DIFFERENCES |= {"moe_capacity_percent": "expert-buffers", "expert_tensor": "expert-fold"}
"""Other names of a difference that covers the knob: of a knob that decides whether this one is active, or of a part."""
PAIRS = [(name, knob) for name in trainer_names() for knob in (*CASES, *(OF_EXPERTS if trainer(name).experts else ()))]


def test_every_knob_has_a_case():
    assert set(CASES) | set(OF_EXPERTS) == set(STEP_KNOBS)


@pytest.mark.parametrize(("name", "knob"), PAIRS)
def test_a_value_is_written_or_named_or_refused(new_plan, name, knob):
    base, value = (CASES | OF_EXPERTS)[knob]
    model = "mixtral-8x7b" if knob in OF_EXPERTS else "llama3.1-8b"
    machine = "gb200-nvl72x2" if knob == "segment" else "dgx-h100"
    plans = [new_plan(model, machine, seq=8192, batch=64, **strategy) for strategy in (base, base | {knob: value})]
    try:
        before, after = (export_plan(plan, name) for plan in plans)
    except BadInputError:
        return  # refused with a reason: tests of refusals are elsewhere
    differences = [difference for export in (before, after) for difference in export.translation.differences]
    named = {word for difference in differences for word in (difference.field, difference.name)}
    assert named & {knob, DIFFERENCES.get(knob, knob)} or after.files != before.files


def test_a_scheduler_that_torch_has_no_flags_for_is_named(new_plan):
    plan = new_plan("llama3.1-8b", "dgx-h100", seq=8192, batch=16, fsdp=8, scheduler="latency-hiding", sharding_mode="auto")
    found = {one.name: (one.plan, one.trainer, one.why) for one in export_plan(plan, "megatron").translation.differences}
    why = "lcplan knows no key of Megatron-LM (megatron-core 0.19.2) for it"
    assert found["scheduler"] == ("latency-hiding", "default", why)
    assert found["sharding-mode"] == ("auto", "manual", why)


def test_a_scheduler_goes_into_the_flags_of_a_trainer_in_jax(new_plan):
    plan = new_plan("llama3.1-8b", "dgx-h100", seq=8192, batch=16, fsdp=8, scheduler="latency-hiding")
    for name in ("maxtext", "levanter"):
        export = export_plan(plan, name)
        assert "--xla_gpu_enable_latency_hiding_scheduler=true" in export.launch.environment["XLA_FLAGS"]
        assert "scheduler" not in {one.name for one in export.translation.differences}
