"""``--workload``: which noun the options make, and which options go with which."""

from __future__ import annotations

from collections.abc import Iterator

from lcplan.formats.errors import BadInputError
from lcplan.formats.frozen import Frozen
from lcplan.spec.hardware import HardwareSpec
from lcplan.spec.rollout_workloads import WORKLOAD_TYPES, AnyWorkload, OldLogProbs, WorkloadKind
from lcplan.strategy import KNOBS, Knob, KvDtype
from planner.request.request import default_global_batch


class WorkloadOptions(Frozen):
    """The values that ``workload_options`` parses, with the sizes of a train step."""

    kind: WorkloadKind = "train"
    seq: int | None = None
    global_batch: int | None = None
    document_len: int | None = None
    prompt: int | None = None
    generate: int | None = None
    batch: int | None = None
    kv_dtype: KvDtype | None = None
    temperature: float | None = None
    no_donate: bool = False
    old_log_probs: OldLogProbs | None = None
    kl_coefficient: float | None = None
    rollout_mesh: str | None = None


def check_workload(options: WorkloadOptions) -> None:
    """Refuse options of another kind of workload, and kinds that lack theirs.

    Raises
    ------
    BadInputError
        With every option that is missing or out of place.
    """
    problems = list(_problems(options))
    if problems:
        raise BadInputError(problems)


def workload_of(options: WorkloadOptions, hardware: HardwareSpec, devices: int | None) -> AnyWorkload:
    """The workload that checked options ask for.

    Raises
    ------
    BadInputError
        A length or a batch beyond a workload's limit.
    """
    made = WORKLOAD_TYPES[options.kind]
    fields = made.fields_of(options.model_dump(), lambda length: default_global_batch(length, hardware, devices))
    return made.read(fields, f"--workload {options.kind}")


def _problems(options: WorkloadOptions) -> Iterator[str]:
    facts = WORKLOAD_TYPES[options.kind].facts
    for name in facts.needs:
        if getattr(options, name) is None:
            yield f"--workload {options.kind} needs --{_dashed(name)}, for example {facts.example}"
    for name in dict.fromkeys(name for kind in WORKLOAD_TYPES.values() for name in kind.facts.options):
        if name not in facts.options and _is_given(getattr(options, name, None)):
            yield f"--{_dashed(name)} goes with --workload {_takers(name)}; --workload {options.kind} {facts.instead[name]}"
    yield from _sizes(options)
    yield from _knobs(options)


def _is_given(value: object) -> bool:
    """Whether an option was given; 0 is a value."""
    return value is not None and value is not False


def _takers(name: str) -> str:
    return " or ".join(kind for kind, made in WORKLOAD_TYPES.items() if name in made.facts.options)


def _knobs(options: WorkloadOptions) -> Iterator[str]:
    """Refuse every knob that the kind of workload does not have."""
    for name, knob in KNOBS.items():
        if getattr(options, name, None) and options.kind not in knob.workloads:
            yield no_such_knob(knob, options.kind)


def no_such_knob(knob: Knob, kind: str) -> str:
    """Name the kinds of workload that have a knob, where it was given to another kind."""
    return f"{knob.option} goes with --workload {' or '.join(knob.workloads)}; --workload {kind} has no such knob"


def _sizes(options: WorkloadOptions) -> Iterator[str]:
    """Refuse sizes that no sequence and no document can have."""
    if options.seq is not None and options.seq < 1:
        yield f"--seq {options.seq}: a sequence has at least one token"
    length = options.document_len
    if length is not None and length < 1:
        yield f"--document-len {length}: a document has at least one token; leave the option out for whole sequences"
    elif length is not None and options.seq is not None and length > options.seq:
        yield (
            f"--document-len {length}: sequences of {options.seq} tokens are packed with documents no longer than themselves;"
            " give at most --seq, or leave it out"
        )


def _dashed(name: str) -> str:
    return "for" if name == "trainer" else name.replace("_", "-")
