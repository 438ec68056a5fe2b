"""The parts of a device's memory; a key that a train step and a rollout share is one record."""

from __future__ import annotations

from cost_models.parts.part import Part

_PARAMS = Part("params", "state", "parameters", "Master parameters in fp32; in a rollout as its parameter layout keeps them.")
_WORKING_SET = Part("working_set", "activations", "working set", "Activations that are live at the moment that needs most.")
_GATHERED_WEIGHTS = Part("gathered_weights", "communication", "gathered weights", "Weights that an all-gather has made whole.")

STEP_MEMORY: tuple[Part, ...] = (
    _PARAMS,
    Part("optimizer", "state", "optimizer state", "The two moments of AdamW."),
    Part("batch", "input", "batch", "Token ids, targets and document ids of all microbatches."),
    Part("grads", "gradients", "gradients", "Gradients in fp32, of earlier microbatches and of this one."),
    Part("saved_activations", "activations", "saved activations", "Tensors that the remat policy keeps on the device."),
    _WORKING_SET,
    Part("logits_loss", "activations", "logits and loss", "A chunk's logits with their cotangent, the head and its gradient."),
    Part("kv_ring", "communication", "keys and values", "Keys and values of attention, chunks that are in flight included."),
    _GATHERED_WEIGHTS,
    Part("collective_buffers", "communication", "collective buffers", "Gradients that are not reduced yet, and expert rows."),
)
"""Parts of a train step's memory, in the order of ``memory_bytes``."""

ROLLOUT_MEMORY: tuple[Part, ...] = (
    _PARAMS,
    Part("gathered_params", "state", "gathered parameters", "The copy that is gathered once for all decode steps."),
    Part("kv_cache", "cache", "KV cache", "Keys and values of prompts and generated tokens."),
    Part("second_cache", "cache", "second KV cache", "The copy that a step writes where its cache is not donated."),
    _GATHERED_WEIGHTS,
    Part("layer_cache", "cache", "KV cache of a layer", "The slice of the cache that the loop over layers works on."),
    Part("expert_copies", "state", "experts in another order", "A TPU's copy of all experts for the products of prefill."),
    Part("logits", "activations", "logits", "Logits of the next token of every sequence."),
    _WORKING_SET,
)
"""Parts of a rollout's memory, in the order of ``memory_bytes``."""

REFERENCE = Part(
    "reference", "state", "reference model", "Parameters of the reference model of a KL term, matrices in gather dtype."
)

TRAINER = Part(
    "trainer", "state", "differences of the trainer", "Bytes of an imported file's run beyond the modelled step, or below it."
)

ITERATION_MEMORY: tuple[Part, ...] = (*STEP_MEMORY, REFERENCE, *(part.of("rollout") for part in ROLLOUT_MEMORY))
"""Parts of an RL iteration's memory: those of the train step under their own keys, those of the rollout with a prefix."""
