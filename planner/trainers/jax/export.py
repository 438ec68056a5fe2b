"""The target ``jax``: a small module with the plan's mesh, shardings, remat policy and flags, and lcplan's step as example.

A plan of a rollout becomes a sampling loop (``rollout_loop``), the plan of an RL iteration a training loop (``rl_loop``).

The module is written as text: nothing here imports jax. A test compares its shardings with the step's own.
"""

from __future__ import annotations

from lcplan.evidence.plan import Plan
from lcplan.strategy import Strategy
from lcplan.strategy.remat import OFFLOAD_PERCENT, REMAT_POLICIES, RematPolicy
from planner.trainers import Job, Translation
from planner.trainers.common.export_files import Written
from planner.trainers.jax.facts import FILE
from planner.trainers.jax.module_text import ModuleText, written
from planner.trainers.jax.rl_loop import rl_module
from planner.trainers.jax.rollout_loop import rollout_module

_MODULE = '''"""{title}.

Mesh, shardings, remat policy and flags of the plan in the same folder, and lcplan's own step as an example:

    python {file} --steps 3
    python {file} --steps 5 --profile trace && lcplan inspect --profile trace {plan_file}
"""

{environment_text}
import argparse
import time
from pathlib import Path

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

PROCESSES = {processes}
AXES = {axes}
SHAPE = {shape}
TOKENS = P(("data", "fsdp", "expert"), "context")  # B T
PARAMETERS = {{
{parameters}
}}
SAVED = {saved}  # tensors of a layer that the backward pass finds saved, by checkpoint_name
KERNEL = "{kernel}"


{make_mesh}

def shardings(mesh):
    """NamedSharding of every parameter of a layer stack, by name."""
    return {{name: NamedSharding(mesh, spec) for name, spec in PARAMETERS.items()}}


{remat}


def example_step(mesh):
    """lcplan's own train step of this plan."""
    import lcplan
    from strategies.train.step import StepSpec, build_step

    plan = lcplan.Plan.load(Path(__file__).with_name("{plan_file}"))
    spec = StepSpec(model=plan.request.model, workload=plan.request.workload, strategy=plan.strategy, kernel=KERNEL)
    return build_step(spec, mesh)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--profile", metavar="DIR", help="trace all steps but the first into this folder")
    arguments = parser.parse_args()
    if PROCESSES > 1:
        jax.distributed.initialize()
    step = example_step(make_mesh())
    state, batch = step.init(jax.random.key(0)), step.example_batch(jax.random.key(1))
    for number in range(arguments.steps):
        if number == 1 and arguments.profile:
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0  # only the devices' operations
            jax.profiler.start_trace(arguments.profile, profiler_options=options)
        start = time.perf_counter()
        state, metrics = step.jitted(state, batch)
        print(f"step {{number}}: loss {{float(metrics.loss):.4f}}, {{time.perf_counter() - start:.3f}} s", flush=True)
    if arguments.profile and arguments.steps > 1:
        jax.profiler.stop_trace()


if __name__ == "__main__":
    main()
'''


_REMAT = '''def remat(layer):
    """A layer under the plan's policy; name its tensors with jax.ad_checkpoint.checkpoint_name."""
    return jax.checkpoint(layer, policy={policy}, prevent_cse=False)'''
_SHARED = '''def remat(layer, offloads):
    """A layer under the plan's policy; name its tensors with jax.ad_checkpoint.checkpoint_name.

    The first {percent} % of the layers have ``offloads``; the others keep the same tensors on the device.
    """
    policy = {policy} if offloads else {kept}
    return jax.checkpoint(layer, policy=policy, prevent_cse=False)'''


def export(translation: Translation, plan: Plan) -> Written:
    """Return the module of the plan's workload, the plan next to it, and the launch line."""
    work = plan.request.workload
    if work.train is None:
        return written(translation, plan, rollout_module(plan))
    if work.sample is not None:
        return written(translation, plan, rl_module(plan))
    return written(translation, plan, _train_module(translation.job))


def _train_module(job: Job) -> ModuleText:
    """The module with lcplan's own train step."""
    values = {
        "parameters": "\n".join(f'    "{name}": {spec},  # {dims}' for name, (spec, dims) in parameter_specs(job).items()),
        "saved": REMAT_POLICIES[job.strategy.remat].kept,
        "remat": _remat(job.strategy),
    }
    return ModuleText(FILE, _MODULE, values)


def _remat(strategy: Strategy) -> str:
    """The function that puts a layer under the policy, as source text."""
    policy, percent = REMAT_POLICIES[strategy.remat], strategy.offload_percent
    if percent == OFFLOAD_PERCENT:
        return _REMAT.format(policy=_policy(policy))
    kept = f"jax.checkpoint_policies.save_only_these_names(*{policy.on_device.kept})"
    return _SHARED.format(percent=percent, policy=_policy(policy), kept=kept)


def _policy(policy: RematPolicy) -> str:
    """The policy as an expression of ``SAVED``."""
    if not policy.offloaded:
        return "jax.checkpoint_policies.save_only_these_names(*SAVED)"
    names = f"names_which_can_be_saved=SAVED, names_which_can_be_offloaded={policy.offloaded}"
    places = 'offload_src="device", offload_dst="pinned_host"'
    return f"jax.checkpoint_policies.save_and_offload_only_these_names({names}, {places})"


def parameter_specs(job: Job) -> dict[str, tuple[str, str]]:
    """PartitionSpec and dims of every split parameter, as source text; L is the dim of layers that are
    scanned together (docs/step.md, layers of several kinds), and that the stages of a pipeline split.

    Vectors that are not named are whole on every device, or on every device of their stage.
    """
    specs = _whole_specs(job)
    if job.strategy.mesh.pipe == 1:
        return specs
    tables = 'P("tensor", ("fsdp", "context", "expert", "pipe"))'
    split = {name: (text.replace("P(None", 'P("pipe"', 1), dims) for name, (text, dims) in specs.items()}
    return split | {name: (tables, "V D") for name in ("embedding", "head") if name in specs}


def _whole_specs(job: Job) -> dict[str, tuple[str, str]]:
    """The same without a pipeline."""
    state, model = '("fsdp", "context", "expert")', job.model
    key_value = f'P(None, {state}, None, "tensor")'
    if job.strategy.mesh.tensor > model.kv_heads:
        key_value = 'P(None, ("fsdp", "context", "expert", "tensor"))'
    specs = {"embedding": (f'P("tensor", {state})', "V D")}
    specs |= {} if model.tied_embeddings else {"head": (f'P("tensor", {state})', "V D")}
    specs |= {
        "query": (f'P(None, {state}, "tensor")', "L D N H"),
        "key_value": (key_value, "L D 2 K H"),
        "out": (f'P(None, {state}, "tensor")', "L D N H"),
    }
    wide = f'P(None, {state}, "tensor")', "L D F"
    if model.expert_layers < model.layers:
        specs |= dict.fromkeys(("gate", "up", "down"), wide)
    if model.routed is None:
        return specs
    specs |= {"router": ('P(None, ("fsdp", "context", "expert", "tensor"))', "L D E")}
    expert = 'P(None, ("fsdp", "context"), "expert", "tensor")', "L D E F"
    specs |= dict.fromkeys(("expert_gate", "expert_up", "expert_down"), expert)
    shared = ("shared_gate", "shared_up", "shared_down") if model.routed.shared_d_ff else ()
    return specs | dict.fromkeys(shared, wide)
