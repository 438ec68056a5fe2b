"""Trainer: the strategies that one trainer can run. Exporters, importers and ``search --for`` share these facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from cost_models.inputs.layout import Floats
from cost_models.inputs.program import STEP, Program
from cost_models.inputs.setting import Setting
from cost_models.inputs.table import StrategyTable
from lcplan.formats.frozen import Frozen
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.model import ModelSpec
from lcplan.spec.rollout_workloads import RlWorkload, WorkloadKind
from lcplan.spec.workload import Workload
from lcplan.strategy import KNOBS, Strategy
from lcplan.strategy import Knob as StrategyKnob
from planner.rules.interface import Rule

Kind = Literal["gpu", "tpu", "cpu"]
Precision = Literal["bf16", "fp32"]
OWN_STEP = "jax"
"""The trainer that runs every model and strategy of lcplan: refusals of the others point to it."""
KnobName = str
"""A name of ``lcplan.strategy.KNOBS``."""


@dataclass(frozen=True)
class Job:
    """The model, hardware, workload and strategy of a job: the part of a plan that a trainer's files state."""

    model: ModelSpec
    hardware: HardwareSpec
    workload: Workload
    """The train step; of a plan without one, the forward pass over its whole sequences."""
    strategy: Strategy
    iteration: RlWorkload | None = None
    """The iteration of reinforcement learning that the train step is part of."""

    @property
    def replicas(self) -> int:
        """Data-parallel ranks: data x fsdp x expert."""
        return self.strategy.mesh.data * self.strategy.mesh.fsdp * self.strategy.mesh.expert

    @property
    def micro_sequences(self) -> int:
        """Sequences of one microbatch on one data-parallel rank."""
        return self.workload.global_batch // (self.replicas * self.strategy.microbatches)

    @property
    def expert_ranks(self) -> tuple[int, int]:
        """Ranks that share a layer's experts, and the tensor ranks that split each expert."""
        strategy = self.strategy
        return strategy.mesh.expert * strategy.expert_fold, 1 if strategy.expert_tensor == "whole" else strategy.mesh.tensor

    @property
    def devices_per_host(self) -> int:
        """Devices of one host that the job takes."""
        return min(self.hardware.node_size, self.strategy.devices)

    @property
    def hosts(self) -> int:
        """Hosts that the job is on."""
        return -(-self.strategy.devices // self.devices_per_host)

    @property
    def local_tokens(self) -> int:
        """Tokens of one microbatch on one context rank."""
        return self.micro_sequences * self.workload.seq_len // self.strategy.mesh.context

    @property
    def loss_chunks(self) -> int:
        """Pieces in which the loss of one microbatch is computed."""
        return max(1, self.local_tokens // self.strategy.loss_chunk_tokens)

    @property
    def state_elements(self) -> float:
        """Matrix parameters on one device."""
        model = self.model
        vectors = model.layers * model.layer_vector_parameters + model.d_model
        return (model.parameters - vectors) / self.strategy.state_shards

    def with_strategy(self, **fields: Any) -> Job:
        """The same job with some fields of its strategy replaced."""
        return replace(self, strategy=self.strategy.model_copy(update=fields))


class Difference(Frozen):
    """One deviation of the trainer from the plan."""

    name: str
    """The name of the deviation: a knob's name, or a short name of its own (``residual-stream``, ``parameters``)."""
    plan: str
    trainer: str
    why: str
    field: str | None = None
    """The strategy's field, or ``workload``, that changes with it and so is priced; None: the cost model has no such input."""
    with_fields: tuple[str, ...] = ()
    """Further fields that change with ``field``."""
    extra_bytes: int = 0
    """Bytes per device of the trainer beyond (or below) the cost model, counted by hand."""
    host_bytes: int = 0
    """Bytes of host memory per device, counted by hand."""


@dataclass(frozen=True)
class Knob:
    """A knob of a trainer. ``runs`` maps each of lcplan's values to the values that the trainer runs, first choice first.

    Several choices: the first that fits the budget and breaks no rule of the trainer is taken (a larger set of saved tensors,
    else full recomputation; an all-to-all where heads allow it, else a ring).
    """

    runs: Mapping[str, tuple[str, ...]]
    why: str = ""
    """Reason that is printed wherever the value changes."""

    def exact(self, value: str) -> bool:
        """Whether the trainer runs ``value`` itself (where its rules allow it)."""
        return self.runs[value][0] == value

    @property
    def values(self) -> tuple[str, ...]:
        """The values that the trainer runs exactly."""
        return tuple(value for value in self.runs if self.exact(value))


def not_masked(trainer: str) -> Callable[[Job], str | None]:
    """Build the reason of a trainer whose attention is not known to stay inside documents, for any job."""
    return lambda job: f"lcplan knows no key by which {trainer} keeps attention inside the documents of a packed sequence"


@dataclass(frozen=True)
class Format:
    """A trainer's configuration as ``lcplan estimate --from-TRAINER`` reads it."""

    metavar: str
    words: str
    """The file in words, with an article."""
    unsaid: tuple[str, ...] = ()
    """Options of ``lcplan estimate`` that the format has no word for: a launch script or the user's program has them."""
    takes_all: bool = False
    """Whether it runs on all devices of the hardware, unless ``--devices`` is given."""
    counts_slices: bool = False
    """Whether the trainer fills axes over the TPU slices that it finds, so that its reader takes ``slices``."""


@dataclass(frozen=True)
class FrontEnd:
    """A program that starts a trainer with settings of its own, whose files lcplan reads."""

    name: str
    title: str
    package: str
    version: str
    reads: Format


def builds_every_model(_: ModelSpec) -> list[str]:
    """No model is refused."""
    return []


def no_extras(_: Job) -> list[Difference]:
    """No difference beyond the knobs."""
    return []


def nothing_further(_: Setting, table: StrategyTable) -> Floats:
    """No bytes beyond the cost model, shape ``[n]``."""
    return np.zeros(len(table))


def documents_kept(_: Job) -> str | None:
    """The documents of a packed sequence do not attend to each other."""
    return None


@dataclass(frozen=True)
class MeasuredStep:
    """A published step time of a trainer in JAX, for its pace against the priced step."""

    model: str
    """The catalogue's name of the model, or of one of the same sizes."""
    hardware: str
    mesh: str
    """Axes as ``--mesh`` takes them."""
    seq_len: int
    global_batch: int
    step_s: float
    source: str


@dataclass(frozen=True)
class Trainer:
    """One version of one trainer: the strategies that it runs, and the files that lcplan writes and reads for it."""

    name: str
    title: str
    package: str
    version: str
    """Empty for lcplan's own step."""
    file: str
    """The exported file that the launch command takes, and the format that is read."""
    kinds: tuple[Kind, ...]
    knobs: Callable[[HardwareSpec, str], Mapping[KnobName, Knob]]
    """Knobs by hardware and the trainer's jax version (empty for torch)."""
    rules: tuple[Rule, ...]
    """Rules of the trainer, including rules that its validator misses."""
    model_problems: Callable[[ModelSpec], list[str]] = builds_every_model
    """Why the trainer cannot build a model; empty: it can."""
    extras: Callable[[Job], list[Difference]] = no_extras
    """Differences beyond the knobs, for a job as the trainer runs it."""
    further_bytes: Callable[[Setting, StrategyTable], Floats] = nothing_further
    """Bytes per device of ``extras`` for many strategies, where the cost model prices the step of docs/step.md."""
    documents_lost: Callable[[Job], str | None] = documents_kept
    """Reason why documents of a packed sequence attend to each other in an exported job; None: they do not."""
    reads: Format | None = None
    """The configuration that lcplan reads; None: lcplan reads no file of the trainer."""
    changes: str = ""
    """The module of its folder that changes settings of a file (``planner.trainers.changes``); empty: lcplan changes none."""
    compiles: Kind | None = None
    """The hardware that the trainer's own command compiles its step for, where that hardware is absent."""
    steps: tuple[Kind, ...] = ()
    """Hardware for which lcplan compiles the trainer's own step, in its own Python (``planner/measure/trainer_step``)."""
    own_step: bool = False
    """Whether it is lcplan's own step, which runs under the jax that the plan was made with."""
    experts: bool = False
    """Whether a mixture of experts is exported."""
    pipeline: bool = False
    """Whether a plan with stages of a pipeline is exported."""
    windows: bool = False
    """Whether layers with a sliding window shorter than the sequence are exported."""
    precisions: tuple[Precision, ...] = ("bf16",)
    """Precisions of a workload that are exported."""
    workloads: tuple[WorkloadKind, ...] = ("train",)
    """Kinds of workload whose plans are exported."""
    whole_loss: bool = False
    """Whether logits of all local tokens exist at once."""
    whole_policy_loss: bool = False
    """The same of a policy update's loss."""
    replicates: bool = True
    """Whether a data axis keeps whole replicas of the state; else its ranks shard the state too."""
    keys: frozenset[KnobName] = frozenset()
    """Knobs beyond ``knobs`` that its files or the environment of its launch have a key for."""
    folds_experts: bool = False
    """Whether expert ranks are folded over the ranks of context and fsdp, from the innermost, in place of an axis."""
    splits_experts: bool = True
    """Whether the tensor ranks of expert ranks split each expert; else they are expert ranks too, and hold whole ones."""
    any_axis_order: bool = False
    """Whether the mesh axes may be placed in any order; else data, fsdp, context, tensor from outside in."""
    program: Program = STEP
    """The step that it runs of an exported plan; the step of docs/step.md for a trainer in JAX."""
    fused_on_amd: bool = False
    """Whether it has a fused attention of its own on AMD GPUs, which jax lacks there."""
    measured: tuple[MeasuredStep, ...] = ()
    """Published steps that show its pace against the step of docs/step.md, which is priced in its place."""
    jax: str = ""
    """The jax that this version was verified with; empty for torch trainers."""

    @property
    def lacks(self) -> tuple[StrategyKnob, ...]:
        """Knobs that its files have no key for, so that it runs their defaults."""
        return tuple(knob for name, knob in KNOBS.items() if knob.needs_key and name not in self.keys and not self.own_step)

    def refusals(self, hardware: HardwareSpec, model: ModelSpec) -> list[str]:
        """Why this trainer can run no strategy at all of a model on a machine."""
        problems = self.model_problems(model)
        if model.mlp != "gated":
            problems.append(f"{model.name} has a {model.mlp} feed-forward; lcplan exports gated ones")
        if model.experts is not None and not self.experts:
            problems.append(f"{model.name} has experts, which lcplan does not export to {self.title}; --to {OWN_STEP} does")
        if model.not_built:
            problems.append(f"{model.name} has {', '.join(model.not_built)}, which lcplan prices but does not export")
        if hardware.kind not in self.kinds:
            kinds = " and ".join(self.kinds)
            problems.append(f"{self.title} runs on {kinds}; {hardware.name} is {hardware.kind}")
        return problems
