"""The policy update: the train step of ``strategies.train.step`` under the objective of an iteration.

``jitted`` is (state, batch) -> (state, metrics); ``batch.policy`` has advantages, old log-probabilities and, with a KL term,
those of the reference model. Positions of the prompt and of padding have no target.
"""

from __future__ import annotations

from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import RlWorkload
from lcplan.strategy import Strategy
from strategies.inputs import step_spec
from strategies.inputs.policy import PolicyObjective
from strategies.train.step import TrainState, TrainStep, build_step

__all__ = ["StepSpec", "TrainState", "TrainStep", "build_step"]


def update_spec(
    *, model: ModelSpec, workload: RlWorkload, strategy: Strategy, kernel: step_spec.KernelName, learning_rate: float = 1e-6
) -> step_spec.StepSpec:
    """The step on all tokens of an iteration's sequences, under its objective."""
    objective = PolicyObjective(kl_coefficient=workload.kl_coefficient, temperature=workload.temperature)
    step = strategy.model_copy(update={"sampling": None})
    return step_spec.StepSpec(model, workload.train, step, kernel, objective=objective, learning_rate=learning_rate)


StepSpec = update_spec
"""The name under which a worker finds a program's spec."""
