"""Time of one step by part: the device's own work on the slowest rank, plus exposed communication."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from cost_models.collectives.collective_matmul import RingMatmul
from cost_models.collectives.contention import (
    by_nccl,
    hidden_contention_seconds,
    hop_contention_seconds,
    tensor_contention_seconds,
    transit_bytes,
)
from cost_models.collectives.network import Network
from cost_models.collectives.overlap import behind_backward_seconds, stream_beside_products
from cost_models.collectives.ring_hops import exposed_ring_seconds, is_hop
from cost_models.collectives.step import STREAM_RING, UPDATES, terms_of
from cost_models.compute.flops import recomputes_attention
from cost_models.compute.host_time import host_wait_seconds, shares_cores
from cost_models.compute.launches import layer_launches
from cost_models.inputs.collective_term import Term
from cost_models.inputs.layout import Floats
from cost_models.inputs.stages import Stages
from cost_models.memory.saved_tensors import offload_seconds, offloading_layers
from cost_models.parts.part import keys
from cost_models.parts.time import EXPERT_ROWS, IN_TICKS, PIPELINE, STEP_TIME, WEIGHTS
from cost_models.time.device_work import StepWork


@dataclass(frozen=True)
class StepTime(StepWork):
    """Time parts of each candidate; columns of shape ``[n]`` in seconds per step.

    Except for ``parts``, all properties assume layers of one kind.

    Source: docs/step.md; ``cost_models.collectives`` for the collectives and their overlap.
    """

    shared: Network | None = None
    """The table's network, if it already exists; otherwise it is created here."""

    @cached_property
    def terms_with_seconds(self) -> list[tuple[Term, Floats]]:
        """Collectives of at least one row, with the time of one call [s]."""
        return [(term, self._network.seconds(term)) for term in terms_of(self.layout) if term.used.any()]

    @cached_property
    def _network(self) -> Network:
        return self.shared or Network.of(self.layout, self.rates)

    @cached_property
    def _by_purpose(self) -> dict[str, Floats]:
        """A step's time in the collectives of each purpose, including hidden time."""
        totals: dict[str, Floats] = {}
        for term, seconds in self.terms_with_seconds:
            spent = term.calls * seconds
            totals[term.purpose] = totals[term.purpose] + spent if term.purpose in totals else spent
        return totals

    @property
    def _overlaps(self) -> float:
        """1 where a collective overlaps a device's own work; 0 where it takes the cores that the work needs."""
        return 0.0 if shares_cores(self.layout.setting.hardware) else 1.0

    def _of(self, *purposes: str) -> Floats:
        """Return the sum of ``_by_purpose`` over these purposes."""
        found = [self._by_purpose[name] for name in purposes if name in self._by_purpose]
        return sum(found[1:], start=found[0]) if found else np.zeros(len(self.layout.table))

    @cached_property
    def comm_fsdp(self) -> Floats:
        """Exposed time of the weights' collectives [s per step].

        A layer's products hide its weights' gathers and scatters, except for the first matrix. The collectives of embedding
        and head are exposed in full.
        """
        model = self.layout.setting.model
        gathered = model.layer_matrix_parameters if model.routed is None else model.attention_matrix_parameters
        first = model.attention_products["query"] / gathered
        total = self._of("tables")
        forward = self.layer_forward_gemm + self.layer_forward_memory
        windows = {"prefetch": self._overlaps * forward, "behind-backward": self._overlaps * self.layer_backward_gemm}
        for term, seconds in self.terms_with_seconds:
            if term.purpose in WEIGHTS:
                # Experts' matrices come after attention's: they have no first matrix, and overlap the remaining work.
                own = first if term.purpose in WEIGHTS[:3] else 0.0
                exposed = own * seconds + np.maximum((1 - own) * seconds - windows.get(term.schedule, 0.0), 0.0)
                total = total + term.calls * exposed
                if model.routed is not None and term.schedule in windows:
                    windows[term.schedule] = np.maximum(windows[term.schedule] - seconds * term.used, 0.0)
        return total

    @cached_property
    def comm_tensor(self) -> Floats:
        """Exposed time of the collectives over tensor [s per step].

        Gathers and scatters of the residual stream and the loss's collectives precede and follow products, so they are
        exposed. A program that runs them during products exposes the remainder, and the first and last chunk of each.
        """
        exposed = self._of("loss", "loss-maximum", "loss-sums") + self.ring_matmul
        if not np.any(stream_beside_products(self.layout)[1]):
            return exposed + self._of("stream")
        return exposed + self.stream_forward + self.stream_backward

    @cached_property
    def ring_matmul(self) -> Floats:
        """Extra time of collective matmuls over their products [s per step]."""
        rows = self.layout.ring_matmuls
        for term, hop in self.terms_with_seconds:
            if term.purpose == STREAM_RING:
                ring = RingMatmul(self.layout, self.rates, hop)
                return np.where(rows, self.passes * (ring.forward + self.repeats * ring.again + ring.backward), 0.0)
        return np.zeros(len(rows))

    @cached_property
    def _stream_calls(self) -> tuple[Floats, Floats]:
        """Seconds of the stream's collectives in the forward pass, including repetitions, and in the backward pass."""
        total = self._of("stream")
        first = np.zeros_like(total)
        for term, seconds in self.terms_with_seconds:
            if term.purpose == "stream":
                first = first + np.minimum(2.0 * self.passes, term.calls) * seconds
        again = first * self.repeats
        return first + again, np.maximum(total - first - again, 0.0)

    @cached_property
    def stream_forward(self) -> Floats:
        """Exposed part of the stream's collectives in the forward pass and its repetition [s per step]."""
        stream = self._stream_calls[0]
        products = self.passes * (self.layer_forward_gemm + np.where(self.repeats > 0, self.layer_again_gemm, 0.0))
        rest = np.maximum(stream - products, stream / self.layout.tensor)
        return np.where(stream_beside_products(self.layout)[0], rest, stream)

    @cached_property
    def stream_backward(self) -> Floats:
        """Exposed part of the stream's collectives in the backward pass [s per step].

        Only the products of the weights' gradients, half of the backward products, hide them.
        """
        stream = self._stream_calls[1]
        products = self.passes * self.layer_backward_gemm / 2.0
        rest = np.maximum(stream - products, stream / self.layout.tensor)
        return np.where(stream_beside_products(self.layout)[1], rest, stream)

    @property
    def hidden_stream(self) -> tuple[Floats, Floats]:
        """Part of the stream's collectives that products hide: forward with its repetition, and backward [s per step]."""
        first, last = self._stream_calls
        return first - self.stream_forward, last - self.stream_backward

    @cached_property
    def comm_context(self) -> Floats:
        """Exposed time of the collectives over context [s per step].

        A ring's messages are exposed as far as they outlast the concurrent attention kernel. Halos, gathers, all-to-alls and
        document ids are exposed in full.
        """
        total = self._of("kv-gather", "kv-halo", "ulysses-query", "ulysses-key-value", "documents")
        for term, seconds in self.terms_with_seconds:
            if is_hop(term):
                total = total + self._unhidden(term, seconds)
            elif term.purpose == "kv-gradients":
                total = total + term.calls * seconds
        kernels = {
            "forward_s": self._overlaps * self.forward_attention.later_s,
            "backward_s": self._overlaps * self.backward_attention.later_s,
        }
        return total + sum(exposed_ring_seconds(self.layout, self.terms_with_seconds, **kernels))

    def _steps(self, term: Term) -> Floats:
        """Return the ring steps that run during the calls of ``term``; two directions make their calls at the same time."""
        return term.calls / self.layout.directions

    def _unhidden(self, term: Term, hop: Floats) -> Floats | float:
        """Return the time of the second direction's messages, as XLA for GPU runs one permute at a time; 0 on a torus."""
        return 0.0 if self.layout.setting.hardware.torus is not None else (term.calls - self._steps(term)) * hop

    @cached_property
    def comm_expert(self) -> Floats:
        """Dispatch and combine, which are exposed since they precede and follow the experts' products [s per step]."""
        return self._of(*EXPERT_ROWS)

    @cached_property
    def comm_data(self) -> Floats:
        """Reductions of gradients over data and of vectors and scalars over every axis [s per step]."""
        return self.gradients + self._of(UPDATES, "vectors", "scalars")

    @cached_property
    def comm_pipe(self) -> Floats:
        """Messages between stages, and the rows and tables that stages share; exposed in full [s per step]."""
        return self._of(*PIPELINE)

    @property
    def bubble(self) -> Floats:
        """Ticks in which a stage of a pipeline has no microbatch; other properties include them [s per step]."""
        stages = Stages(self.layout)
        if not stages.any:
            return np.zeros(len(self.layout.table))
        return np.asarray(stages.idle * reduce(np.add, [getattr(self, name) for name in IN_TICKS]))

    @cached_property
    def gradients(self) -> Floats:
        """Exposed part of the gradients' reduction over the axes that replicate matrices [s per step]."""
        total = self._of("gradients")
        if self.layout.setting.program.data_gradients == "exposed" or not self._overlaps:
            return total
        kinds = self._kinds if self.layout.outside is None else StepTime(self.layout.outside, self.rates, self._network)._kinds
        backward = reduce(np.add, [kind.layout.setting.model.layers * kind.layer_backward for kind in kinds])
        return behind_backward_seconds(total, backward, layers=float(sum(kind.layout.setting.model.layers for kind in kinds)))

    @cached_property
    def _hidden(self) -> Floats:
        """Time of collectives other than ring hops that a device's own work hides."""
        program = self.layout.setting.program
        hidden = self._of("tables", *WEIGHTS) - self.comm_fsdp
        if program.data_gradients != "exposed":
            hidden = hidden + self._of("gradients") - self.gradients
        if np.any(stream_beside_products(self.layout)[1]):
            hidden = hidden + sum(self.hidden_stream)
        return hidden

    @cached_property
    def contention(self) -> Floats:
        """Time that collectives take from concurrent kernels [s per step].

        With NCCL, hidden collectives slow all kernels and permutes slow attention. On a torus, hidden collectives use memory
        bandwidth.
        """
        kind = self.layout.setting.hardware.kind
        if kind == "tpu":
            return self._transit
        total = hidden_contention_seconds(self.layout, self._hidden) if kind == "gpu" else 0.0
        if not np.any(by_nccl(self.layout)):
            return total + np.zeros(len(self.layout.table))
        forward, backward = self.forward_attention, self.backward_attention
        passes = 1.0 + recomputes_attention(self.layout)
        lost = passes * tensor_contention_seconds(self.layout, forward) + tensor_contention_seconds(self.layout, backward)
        total = total + self.passes * lost
        for term, hop in self.terms_with_seconds:
            if is_hop(term):
                kernel = forward.later_s * term.steps
                total = total + self._steps(term) * hop_contention_seconds(self.layout, hop_s=hop, kernel_s=kernel)
        return total

    @property
    def _transit(self) -> Floats:
        """Time in which hidden gathers and scatters of weights on a torus use the memory of concurrent products."""
        overlapped = [pair for pair in self.terms_with_seconds if pair[0].purpose in WEIGHTS and pair[0].schedule != "exposed"]
        zero = np.zeros(len(self.layout.table))
        moved = sum((t.calls * transit_bytes(t.op, t.bytes) for t, _ in overlapped), start=zero)
        total = sum((t.calls * seconds for t, seconds in overlapped), start=zero)
        apart = self._of("tables", *WEIGHTS) - total
        hidden = np.maximum(total - (self.comm_fsdp - apart), 0.0) / np.maximum(total, 1e-30)
        return hidden * moved / self.rates.hbm.value

    @cached_property
    def overhead(self) -> Floats:
        """Least times of dependent kernels, and waits for the host [s per step].

        A kernel of the ring starts only after the previous one, which adds one least kernel time per ring step and pass. The
        host adds launches of eager programs and exposed transfers to its memory.
        """
        again = recomputes_attention(self.layout)
        ring = self.floor_s * self.passes * self.layout.directions * (self.forward_attention.later + 1.0) * (2.0 + again)
        program = self.layout.setting.program
        if self.layout.offloaded:
            offloading = offloading_layers(self.layout) / self.layout.setting.model.layers
            ring = ring + offloading * self.passes * self._host_transfers
        return ring + self._host_wait if program.runtime == "torch" or program.dispatch == "eager" else ring

    @property
    def _host_transfers(self) -> Floats:
        """Exposed transfers of the tensors that a layer offloads.

        XLA for GPU overlaps writes with the forward pass, but issues a layer's reads when the layer needs them (docs/step.md).
        """
        both, setting = offload_seconds(self.layout), self.layout.setting
        if setting.program.runtime == "xla" and setting.hardware.kind == "gpu":
            return np.maximum(both / 2.0 - self.layer_forward, 0.0) + both / 2.0
        return np.maximum(both - self.layer_forward - self.layer_backward, 0.0)

    @property
    def _host_wait(self) -> Floats:
        """Time in which the device waits for the host, where a layer's work is shorter than its launches."""
        device = self.layer_forward + self.layer_backward + self._of("stream") / self.passes
        launches = layer_launches(self.layout)
        seconds = launches * self.layout.setting.constants.launch_host_s
        return np.where(launches > 0, self.passes * host_wait_seconds(device, self.repeats, forward_host_s=seconds), 0.0)

    @property
    def _kinds(self) -> tuple[StepTime, ...]:
        """Times of each kind of layers, the first including all work outside layers; this one if there is a single kind."""
        parts = self.layout.parts
        return (self,) if len(parts) == 1 else tuple(StepTime(part, self.rates, self._network) for part in parts)

    def parts(self) -> dict[str, Floats]:
        """Return the seconds by ``STEP_TIME``, summed over kinds of layers; the step is their sum [s per step]."""
        kinds, stages = self._kinds, Stages(self.layout)
        parts = {name: reduce(np.add, [getattr(kind, name) for kind in kinds]) for name in keys(STEP_TIME)}
        if not stages.any:
            return parts
        return {name: size * (1.0 - stages.idle) if name in IN_TICKS else size for name, size in parts.items()}
