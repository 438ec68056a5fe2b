"""Each rule on a case where it must reject and on its nearest neighbour where it must not, messages included."""

from dataclasses import replace

import pytest

from cost_models.table import StrategyTable
from lcplan.strategy import AXES, Mesh, Strategy
from planner.analyse import analyse, setting_of
from planner.filters import Filters
from planner.rules import ALL_RULES, KNOB_RULES, MESH_RULES
from planner.screen import broken_rules, screen


def _strategy(scheme="ring", loss_chunk_tokens=1024, **fields):
    mesh = Mesh(**{axis: fields.pop(axis) for axis in AXES if axis in fields})
    return Strategy(mesh=mesh, scheme=scheme, loss_chunk_tokens=loss_chunk_tokens, **fields)


CASES = [
    # rule, request, strategy that breaks it, part of the message, strategy that does not
    ("devices", {}, {"context": 128}, "takes 128 devices; gb200-nvl72 has 72", {"context": 64}),
    ("whole-hosts", {"seq": 6 * 1024}, {"context": 6}, "6 devices are not whole hosts of 4", {"context": 2}),
    ("whole-domains", {"hw": "dgx-h100x4", "seq": 3 * 2**16, "batch": 12}, {"fsdp": 12}, "12 devices fill", {"fsdp": 4}),
    ("tensor-in-domain", {"hw": "dgx-h100x4"}, {"tensor": 16}, "tensor=16 would cross the", {"tensor": 8}),
    (
        "backend-unused",
        {},
        {"fsdp": 8, "backend": "nvshmem"},
        "no collective-permute to carry",
        {"context": 8, "backend": "nvshmem"},
    ),
    (
        "backend-unused",
        {},
        {"context": 4, "tensor": 2, "scheme": "ulysses", "backend": "nvshmem"},
        "with scheme=ulysses has no collective-permute to carry",
        {"context": 4, "tensor": 2, "scheme": "ulysses", "backend": "nvshmem", "collective_matmul": "one-way"},
    ),
    (
        "backend-unused",
        {},
        {"fsdp": 8, "backend": "symmetric", "collective_matmul": "two-way"},
        "use backend=nccl, a ring scheme with context above 1, or collective_matmul with tensor above 1",
        {"fsdp": 4, "tensor": 2, "backend": "symmetric", "collective_matmul": "two-way"},
    ),
    ("heads", {"model": "qwen2.5-7b"}, {"tensor": 8}, "tensor=8 does not divide heads=28", {"tensor": 4}),
    ("kv-heads", {"model": "qwen2.5-7b", "hw": "gb200-nvl72"}, {"tensor": 14}, "neither divides kv_heads=4", {"tensor": 28}),
    (
        "latent-shards",
        {"model": "deepseek-v3", "hw": "dgx-h100x128", "batch": 1024},
        {"fsdp": 256, "expert": 4},
        "fsdp x context x expert = 1024 does not divide query_rank=1536 and kv_rank=512 of deepseek-v3",
        {"fsdp": 256, "expert": 2},
    ),
    (
        "window-balance",
        {"model": "mistral-7b-v0.1", "seq": 65536},
        {"context": 8, "scheme": "ring-zigzag"},
        "every layer of mistral-7b-v0.1 attends in a window of 4096 tokens",
        {"context": 8, "scheme": "ring"},
    ),
    (
        "window-balance",
        {"model": "mistral-7b-v0.1", "seq": 65536},
        {"context": 8, "scheme": "ring", "bidirectional": "on"},
        "bidirectional=on: every layer",
        {"context": 8, "scheme": "ulysses"},
    ),
    (
        "layer-kinds",
        {"model": "gemma-2-9b", "seq": 65536},
        {"context": 8, "sharding_mode": "auto"},
        "sharding_mode=auto: layers of gemma-2-9b are of several kinds; use manual",
        {"context": 8},
    ),
    (
        "window-groups",
        {"model": "gemma-2-9b", "seq": 65536},
        {"context": 8, "scheme": "ulysses-ring", "ulysses": 4},
        "scheme=ulysses-ring has no halo for the window of 4096 tokens of gemma-2-9b",
        {"context": 8, "scheme": "all-gather"},
    ),
    (
        "window-reach",
        {"model": "gemma-2-9b", "seq": 65536},
        {"context": 16, "scheme": "ring-zigzag"},
        "half chunk of 2048 tokens that context=16 leaves scheme=ring-zigzag; use context up to 8, or scheme=ring",
        {"context": 8, "scheme": "ring-zigzag"},
    ),
    (
        "collective-matmul",
        {},
        {"tensor": 4, "collective_matmul": "one-way", "sharding_mode": "auto"},
        "written out in sharding_mode=manual only",
        {"tensor": 4, "collective_matmul": "one-way"},
    ),
    (
        "host-link",
        {"hw": "tpu-7x-128", "batch": 1},
        {"context": 16, "backend": "ici", "remat": "offload-layer-in"},
        "no bandwidth of",
        {"context": 16, "backend": "ici", "remat": "save-attention"},
    ),
    (
        "host-memory",
        {"hw": "dgx-h100", "seq": 2**22, "batch": 1},
        {"context": 8, "remat": "offload-attention"},
        "a device in the host's memory, of which one device's share is 232.8 GiB",
        {"context": 8, "remat": "offload-layer-in"},
    ),
    (
        "host-memory",
        {"hw": "tpu-v4-32", "batch": 1},
        {"context": 16, "backend": "ici", "remat": "offload-layer-in"},
        "its size is not known for tpu-v4; state host_memory_bytes",
        {"context": 16, "backend": "ici", "remat": "save-attention"},
    ),
    (
        "offload-mode",
        {"batch": 1},
        {"context": 16, "remat": "offload-layer-in", "sharding_mode": "explicit"},
        "offloads, and XLA does not compile that in sharding_mode=explicit; use sharding_mode=manual or auto",
        {"context": 16, "remat": "offload-layer-in", "sharding_mode": "auto"},
    ),
    (
        "state-shards",
        {"seq": 3 * 2**16, "batch": 12},
        {"fsdp": 3, "context": 4},
        "fsdp x context = 12 does not divide d_model=4096",
        {"fsdp": 4},
    ),
    ("experts", {"batch": 64}, {"expert": 2}, "expert=2: llama3-8b is dense and has no experts to split", {"expert": 1}),
    (
        "experts",
        {"model": "mixtral-8x7b", "batch": 64},
        {"expert": 16},
        "expert=16 does not divide the 8 experts",
        {"expert": 8},
    ),
    (
        "expert-step",
        {"model": "mixtral-8x7b", "batch": 64},
        {"expert": 8, "sharding_mode": "auto"},
        "mixtral-8x7b has experts, which are built for sharding_mode=manual",
        {"expert": 8},
    ),
    (
        "batch",
        {"model": "mixtral-8x7b", "batch": 4},
        {"fsdp": 2, "expert": 4},
        "data x fsdp x expert = 8 does not divide global_batch=4",
        {"fsdp": 2, "expert": 2},
    ),
    ("sequence", {"seq": 1000}, {"context": 16}, "context=16 does not divide seq_len=1000 tokens", {"context": 8}),
    (
        "sequence",
        {"seq": 1000},
        {"context": 4, "tensor": 4},
        "context x tensor = 16 does not divide",
        {"context": 4, "tensor": 2},
    ),
    (
        "zigzag-chunks",
        {"seq": 1000},
        {"context": 8, "scheme": "ring-zigzag"},
        "2 x context = 16 chunks",
        {"context": 4, "scheme": "ring-zigzag"},
    ),
    (
        "zigzag-chunks",
        {"seq": 1000},
        {"context": 8, "scheme": "ulysses-ring", "ulysses": 1},
        "ulysses-ring cuts the sequence into 2 x context = 16 chunks",
        {"context": 8, "scheme": "ulysses-ring", "ulysses": 2},
    ),
    (
        "exchange",
        {},
        {"context": 8, "scheme": "ulysses-ring", "ulysses": 8},
        "ulysses=8 must divide context=8 into more than one group of more than one rank",
        {"context": 16, "scheme": "ulysses-ring", "ulysses": 8},
    ),
    (
        "exchange",
        {"model": "qwen2.5-7b"},
        {"context": 16, "scheme": "ulysses-ring", "ulysses": 8},
        "divide the 28 query heads of a tensor rank, and divide or be a multiple of its 4 key/value heads; use 2, 4",
        {"context": 16, "scheme": "ulysses-ring", "ulysses": 4},
    ),
    (
        "exchange",
        {},
        {"context": 8, "scheme": "ring", "ulysses": 2},
        "ulysses=2 with scheme=ring: only ulysses-ring exchanges heads among a part of context; use ulysses=1",
        {"context": 8, "scheme": "ring"},
    ),
    (
        "bidirectional",
        {},
        {"context": 4, "tensor": 8, "bidirectional": "on"},
        "of 8 heads tensor=8, ulysses=1 leave it 1; use bidirectional=off",
        {"context": 4, "tensor": 4, "bidirectional": "on"},
    ),
    (
        "bidirectional",
        {},
        {"context": 4, "scheme": "all-gather", "bidirectional": "on"},
        "bidirectional=on with scheme=all-gather: only a ring has two directions",
        {"context": 4, "scheme": "ring-zigzag", "bidirectional": "on"},
    ),
    (
        "attention-block",
        {},
        {"context": 4, "attention_block": 256},
        "attention_block=256: kernel cudnn chooses its own tiles; use attention_block=0",
        {"context": 4},
    ),
    (
        "attention-block",
        {"hw": "tpu-v5p-64"},
        {"context": 4, "attention_block": 200},
        "attention_block=200 is no multiple of the 128 lanes",
        {"context": 4, "attention_block": 1024},
    ),
    (
        "ulysses-heads",
        {},
        {"context": 64, "scheme": "ulysses"},
        "a tensor rank has 32 query and 8 key/value heads",
        {"context": 32, "scheme": "ulysses"},
    ),
    (
        "ulysses-heads",
        {"model": "qwen2.5-14b"},
        {"context": 16, "scheme": "ulysses"},
        "40 query and 8 key/value",
        {"context": 8, "scheme": "ulysses"},
    ),
    (
        "batch",
        {"batch": 6},
        {"fsdp": 4},
        "data x fsdp = 4 does not divide global_batch=6 sequences; use 1, 2, 3, 6",
        {"data": 2},
    ),
    (
        "microbatches",
        {"batch": 16},
        {"fsdp": 4, "microbatches": 3},
        "microbatches=3 does not divide the 4 sequences",
        {"fsdp": 4, "microbatches": 2},
    ),
    (
        "loss-chunk",
        {},
        {"context": 64, "loss_chunk_tokens": 3000},
        "must divide the 4096 tokens",
        {"context": 64, "loss_chunk_tokens": 4096},
    ),
]


@pytest.mark.parametrize(
    ("name", "request_fields", "bad", "message", "good"), CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)]
)
def test_rule(ask, name, request_fields, bad, message, good):
    setting = setting_of(ask(**request_fields))
    rule = next(rule for rule in ALL_RULES if rule.name == name)
    rejects = lambda fields: bool(rule.broken(setting, StrategyTable.from_strategies([_strategy(**fields)]))[0])  # noqa: E731
    assert rejects(bad)
    assert not rejects(good)
    assert message in rule.explain(setting, _strategy(**bad))


def test_all_broken_rules_of_one_strategy_are_told(ask):
    problems = broken_rules(setting_of(ask(seq=1000, batch=6)), _strategy(fsdp=4, context=16))
    assert [problem.rpartition("(rule ")[2].rstrip(")") for problem in problems] == ["sequence", "batch", "loss-chunk"]


def test_every_rule_has_a_case():
    assert {case[0] for case in CASES} | {"vocabulary", "feed-forward", "window-documents"} == {rule.name for rule in ALL_RULES}
    assert not set(MESH_RULES) & set(KNOB_RULES)


@pytest.mark.parametrize(
    ("rule", "field", "value", "message"),
    [
        ("vocabulary", "vocab", 50257, "tensor=2 does not divide vocab=50257"),
        ("vocabulary", "vocab", 50257, "pad the vocabulary to 50258"),
        ("feed-forward", "d_ff", 13653, "tensor=2 does not divide d_ff=13653"),
    ],
)
def test_dims_that_tensor_must_divide(ask, rule, field, value, message):
    setting = setting_of(ask())
    odd = replace(setting, model=setting.model.model_copy(update={field: value}))
    found = next(r for r in ALL_RULES if r.name == rule)
    table = StrategyTable.from_strategies([_strategy(tensor=2)])
    assert found.broken(odd, table)[0]
    assert not found.broken(setting, table)[0]
    assert message in found.explain(odd, _strategy(tensor=2))


def test_windows_inside_documents_are_refused(ask):
    setting = setting_of(ask("mistral-7b-v0.1", seq=65536))
    packed = replace(setting, workload=setting.workload.model_copy(update={"document_len": 4096}))
    one = _strategy(context=8, scheme="ring")
    assert broken_rules(setting, one) == []
    assert broken_rules(packed, one) == [
        "the window of 4096 tokens of mistral-7b-v0.1 inside packed documents is not built; leave --document-len out "
        "(rule window-documents)"
    ]


def test_rejected_counts_add_up_and_have_an_example_each(ask):
    analysis = analyse(ask(), ("nccl", "nvshmem"))
    counts = analysis.rejected.counts
    assert sum(counts.values()) == analysis.rejected.total == analysis.enumerated - len(analysis.table)
    for name in counts:
        assert len(analysis.rejected.example(analysis.setting, name)) > 40
    with pytest.raises(KeyError):
        analysis.rejected.example(analysis.setting, "no-such-rule")


def test_what_was_estimated_breaks_no_rule(ask):
    analysis = analyse(ask("qwen2.5-7b", "dgx-h100x2", seq=32768, batch=32), ("nccl",))
    assert (screen(analysis.setting, ALL_RULES, analysis.table) < 0).all()


def test_a_mesh_rejected_early_is_counted_as_all_its_points(ask):
    """Rules on meshes before the product, or on every point of it: the same counts."""
    request = ask("llama-tiny", "dgx-h100", seq=1024, batch=8)
    analysis = analyse(request, ("nccl", "nvshmem"))
    from planner.space import Knobs, expand, mesh_sizes

    every = expand(request, Knobs.of(Filters(), ("nccl", "nvshmem"), kind="gpu"), mesh_sizes(request))
    assert analysis.enumerated == len(every)
    broken = screen(analysis.setting, ALL_RULES, every)
    assert {ALL_RULES[i].name: int((broken == i).sum()) for i in set(broken.tolist()) if i >= 0} == analysis.rejected.counts
