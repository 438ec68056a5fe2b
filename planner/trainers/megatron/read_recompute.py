"""Megatron's recomputation: the policy that it is priced as, and checkpoints of several layers."""

from __future__ import annotations

from cost_models.estimate import estimate
from cost_models.inputs.program import PROGRAMS
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.errors import BadInputError
from lcplan.formats.suggest import hint
from planner.trainers import Difference, Job
from planner.trainers.megatron.arguments import Arguments, Number, numbers

MODULES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "gdn_norm_out")


def remat_of(arguments: Arguments, number: Number, *, file: str) -> tuple[str, list[str]]:
    """Return the policy that the recomputation is priced as, and notes on it.

    Raises
    ------
    BadInputError
        A granularity or a module that Megatron does not have.
    """
    if "recompute-activations" in arguments:
        return "save-all", [
            "--recompute-activations recomputes attention's scores, which a flash kernel never keeps: priced as none"
        ]
    kind = (arguments.get("recompute-granularity") or ["none"])[0]
    if kind == "none":
        return "save-all", []
    if kind == "full":
        layers, every = number("recompute-num-layers", 1) or 1, number("num-layers", None)
        block = (arguments.get("recompute-method") or ["uniform"])[0] == "block"
        if block and (every is None or layers < every):
            return "save-all", [
                f"--recompute-method block recomputes {layers} layers a stage; priced without any, which takes more"
            ]
        return "full", []
    if kind != "selective":
        raise BadInputError(f"{file}: --recompute-granularity {kind!r}{hint(kind, ('full', 'selective'))}")
    modules = arguments.get("recompute-modules") or ["core_attn"]
    wrong = [module for module in modules if module not in MODULES]
    if wrong:
        raise BadInputError(f"{file}: --recompute-modules {wrong[0]!r}{hint(wrong[0], MODULES)}")
    fed = {"moe", "mlp"} if "moe-layer-freq" in arguments else {"moe"} if "num-experts" in arguments else {"mlp"}
    if fed <= set(modules):
        return "save-except-mlp", []
    return "save-all", [
        f"--recompute-modules {' '.join(modules)} is priced as save-all, the nearest that keeps at least as much"
    ]


def several_layers(arguments: Arguments, job: Job, *, file: str) -> list[Difference]:
    """Count a uniform checkpoint of several layers: fewer inputs are kept, and its layers' tensors exist at once."""
    layers = numbers(arguments, file)("recompute-num-layers", 1) or 1
    block = (arguments.get("recompute-method") or ["uniform"])[0] == "block"
    if layers == 1 or block or arguments.get("recompute-granularity") != ["full"]:
        return []
    layers = min(layers, job.model.layers)
    kept, everything = (_saved(job.with_strategy(remat=name)) / job.model.layers for name in ("full", "save-all"))
    further = (layers - 1) * (everything - kept) - (job.model.layers - job.model.layers / layers) * kept
    return [
        Difference(
            name="recomputation",
            plan="one checkpoint per layer",
            trainer=f"one checkpoint for {layers} layers",
            why=f"--recompute-num-layers {layers}: the backward pass holds all tensors of {layers} layers at once",
            extra_bytes=max(0, round(further)),
        )
    ]


def _saved(job: Job) -> float:
    """Bytes per device that all layers keep for the backward pass."""
    hardware = job.hardware
    setting = Setting(job.model, hardware, job.workload, hardware.usable_bytes, program=PROGRAMS["megatron"])
    return float(estimate(setting, StrategyTable.from_strategies([job.strategy])).memory_bytes["saved_activations"][0])
