"""Workloads with a rollout: sampling, and an iteration of reinforcement learning on the same devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, Tag

from lcplan.formats.frozen import Frozen
from lcplan.spec.workload import Workload
from lcplan.spec.workload_facts import WorkloadFacts
from lcplan.strategy import KvDtype

Tokens = Annotated[int, Field(gt=0, le=2**30)]
Sequences = Annotated[int, Field(gt=0, le=2**40)]
Temperature = Annotated[float, Field(ge=0, le=100)]
WorkloadKind = Literal["train", "sample", "rl"]
DEFAULT_KIND: WorkloadKind = "train"
"""The kind that a request asks about where it does not name one."""


OldLogProbs = Literal["rollout", "recomputed"]
_POLICY = ("old_log_probs", "kl_coefficient")
"""Options of the policy update."""
_TRAIN_SIZES = {
    "seq": "takes --prompt and --generate",
    "global_batch": "takes --batch",
    "document_len": "takes one prompt per sequence, unpacked",
}


class SampleWorkload(Frozen):
    """One rollout: ``batch`` prompts of ``prompt`` tokens, ``generate`` more tokens each, one at a time."""

    facts: ClassVar[WorkloadFacts] = WorkloadFacts(
        label="a rollout",
        unit="rollout",
        options=("prompt", "generate", "batch", "kv_dtype", "temperature", "no_donate"),
        needs=("prompt", "generate", "batch"),
        example="--prompt 256 --generate 1024 --batch 512",
        instead={
            **_TRAIN_SIZES,
            "trainer": "runs under no trainer",
            **dict.fromkeys(_POLICY, "updates no policy"),
            "rollout_mesh": "has one mesh, --mesh",
        },
        sizes=("prompt", "generate"),
        batch_field="batch",
        trained=False,
        figures=("decode_step_s", "seconds_per_sequence"),
    )

    kind: Literal["sample"] = "sample"
    prompt: Tokens
    generate: Tokens
    batch: Sequences
    """Sequences that are sampled at a time, over all devices."""
    precision: Literal["bf16", "fp32"] = "bf16"
    kv_dtype: KvDtype = "bf16"
    """The dtype of keys and values in the cache."""
    temperature: Temperature = 1.0
    """Divides the logits before a token is drawn from them; 0 takes the most likely token."""
    donate: bool = True
    """Whether a decode step writes into the given cache; else it makes a second one."""

    @staticmethod
    def fields_of(options: Mapping[str, Any], default_batch: Callable[[int], int]) -> dict[str, Any]:
        """Fields from command line options; the batch of a rollout has no default."""
        sizes = {name: options[name] for name in ("prompt", "generate", "batch")}
        asked = {name: options[name] for name in ("kv_dtype", "temperature") if options[name] is not None}
        return sizes | asked | {"donate": not options["no_donate"]}

    @property
    def seq_len(self) -> int:
        """Positions of the cache: prompt and generated."""
        return self.prompt + self.generate

    @property
    def global_batch(self) -> int:
        """Sequences, under the name that they have in training."""
        return self.batch

    @property
    def document_len(self) -> None:
        """Sequences of a rollout are not packed."""
        return None

    @property
    def global_batch_given(self) -> bool:
        """The batch of a rollout is always asked for."""
        return True

    def resized(self, *, seq_len: int | None = None, global_batch: int | None = None, given: bool | None = None) -> Self:
        """The same with another number of sequences, or of positions: the prompt stays, more or fewer tokens follow it."""
        generate = self.generate if seq_len is None else max(1, seq_len - self.prompt)
        return self.model_copy(update={"generate": generate, "batch": global_batch or self.batch})

    @property
    def tokens(self) -> int:
        """Tokens that a rollout generates."""
        return self.generate * self.batch

    @property
    def train(self) -> Workload | None:
        """The train step of the workload: a rollout has no train step."""
        return None

    @property
    def sample(self) -> SampleWorkload:
        """The rollout of the workload: all of it."""
        return self

    @property
    def description(self) -> str:
        """The sizes in one line of a report: ``512 x 256 + 1024 tokens a rollout, cache in bf16``."""
        sizes = f"{self.batch} x {self.prompt} + {self.generate} tokens"
        return f"{sizes} {self.facts.label}, cache in {self.kv_dtype}"

    def train_view(self, seq_len: int) -> Workload:
        """The same batch as sequences of ``seq_len`` tokens that go through the train step's forward pass."""
        return Workload(seq_len=seq_len, global_batch=self.batch, precision=self.precision)


class RlWorkload(SampleWorkload):
    """One iteration: a rollout, then a policy update on all its tokens; the optimizer's state stays while sampling."""

    facts: ClassVar[WorkloadFacts] = replace(
        SampleWorkload.facts,
        label="an iteration",
        unit="iteration",
        options=(*SampleWorkload.facts.options, *_POLICY, "rollout_mesh", "trainer"),
        instead=_TRAIN_SIZES,
        trained=True,
        figures=("train_step_s", "rollout_s", "train_bytes", "rollout_bytes"),
    )

    kind: Literal["rl"] = "rl"  # type: ignore[assignment]  # another kind of the union, not another rollout
    temperature: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Divides the logits before a token is drawn, and in the policy; at 0 all samples of a prompt would be one."""
    old_log_probs: OldLogProbs = "rollout"
    """The source of old log-probabilities: the rollout, or a forward pass on the train step's mesh before the update."""
    kl_coefficient: Annotated[float, Field(ge=0, le=100)] = 0.0
    """Weight of the KL divergence to a reference model, whose parameters stay in memory; 0: no reference model."""

    @staticmethod
    def fields_of(options: Mapping[str, Any], default_batch: Callable[[int], int]) -> dict[str, Any]:
        """Fields from command line options."""
        own = {name: options[name] for name in _POLICY if options[name] is not None}
        return SampleWorkload.fields_of(options, default_batch) | own

    @property
    def scorings(self) -> tuple[str, ...]:
        """Forward passes over the sampled sequences before the update, by the name of their program."""
        old = ("old_log_probs",) if self.old_log_probs == "recomputed" else ()
        return (*old, *(("reference_log_probs",) if self.kl_coefficient else ()))

    @property
    def description(self) -> str:
        """The sizes in one line of a report, with the policy's options that are not the default."""
        old = "; old log-probabilities recomputed" if self.old_log_probs == "recomputed" else ""
        return f"{super().description}{old}{f'; KL {self.kl_coefficient:g}' if self.kl_coefficient else ''}"

    @property
    def sample(self) -> SampleWorkload:
        """The rollout of the iteration."""
        shared = {name: getattr(self, name) for name in SampleWorkload.model_fields if name != "kind"}
        return SampleWorkload(**shared)

    @property
    def train(self) -> Workload:
        """The train step of the iteration."""
        return self.train_view(self.seq_len)


def _kind(value: Any) -> str:
    return str(value.get("kind", DEFAULT_KIND) if isinstance(value, dict) else getattr(value, "kind", DEFAULT_KIND))


AnyWorkload = Annotated[
    Annotated[Workload, Tag("train")] | Annotated[SampleWorkload, Tag("sample")] | Annotated[RlWorkload, Tag("rl")],
    Discriminator(_kind),
]
"""The workload of a request, a plan or a job; ``kind`` selects the type."""
WORKLOAD_TYPES: Mapping[WorkloadKind, type[Workload | SampleWorkload]] = MappingProxyType(
    {"train": Workload, "sample": SampleWorkload, "rl": RlWorkload}
)
"""The type of each kind of workload."""
