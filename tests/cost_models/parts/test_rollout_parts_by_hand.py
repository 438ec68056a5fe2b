"""Every part of a rollout's memory and time, worked by hand: 64 prompt and 64 generated tokens of 4 sequences."""

from dataclasses import replace

import pytest
from hand_cases import COMPUTE, HAND, LINK, RATES, layout, rate

from cost_models.inputs.setting import Setting
from cost_models.rates.rate import CollectiveRate
from cost_models.rollout.estimate import estimate_rollout, rollout_flop
from cost_models.rollout.iteration import IterationTable, estimate_iteration
from cost_models.rollout.layout import Rollout, mean_read_positions
from cost_models.rollout.memory import RolloutMemory
from cost_models.rollout.reshard import reshard_cost
from cost_models.rollout.table import RolloutTable
from cost_models.rollout.time import RolloutTime
from cost_models.time.forward import ForwardTime, forward_seconds
from cost_models.time.step import StepTime
from lcplan.catalog import hardware
from lcplan.spec.experts import Experts
from lcplan.spec.rollout_workloads import RlWorkload, SampleWorkload
from lcplan.spec.windows import WindowPattern
from lcplan.strategy import Mesh, Sampling, Strategy

FLOOR_S = 3e-6


FREE = CollectiveRate(0.0, 0.0, 1e30, True, "a test")


def near(value):
    return pytest.approx([value], rel=1e-9)


def rollout(parameters="gathered-per-step", *, machine="dgx-h100x2", cache="whole", work=None, model=None, **axes):
    found, gather_dtype = hardware(machine), axes.pop("gather_dtype", "bf16")
    workload = SampleWorkload(prompt=64, generate=64, batch=4).model_copy(update=work or {})
    mesh = Mesh(**(axes or {"fsdp": 2}))
    sampling = Sampling(mesh=mesh, parameters=parameters, cache=cache)
    strategy = Strategy(mesh=mesh, sampling=sampling, gather_dtype=gather_dtype)
    setting = Setting(HAND.model_copy(update=model or {}), found, workload, found.usable_bytes)
    return Rollout(setting, RolloutTable.from_strategies([strategy]))


def time(*arguments, rates=None, **fields):
    return RolloutTime(rollout(*arguments, **fields), rates or RATES)


def memory(*arguments, **fields):
    return RolloutMemory(rollout(*arguments, **fields))


def test_parameters_are_shards_or_whole_matrices():
    # matrices 2 x 768 + 2 x 256 = 2048 elements, vectors 40; fp32 shards of two, or bf16 whole
    assert memory().params == near(4 * 2048 / 2 + 4 * 40)
    assert memory("gathered-once").params == near(4 * 2048 / 2 + 4 * 40)
    assert memory("gathered-once").gathered_params == near(2 * 2048)
    assert memory().gathered_params == near(0)
    assert memory("tensor-sharded", tensor=2).params == near(2 * 2048 / 2 + 4 * 40)


def test_the_cache_has_keys_and_values_of_every_position():
    # 2 bytes x keys and values x 2 layers x 2 sequences x 8 features x 128 positions
    assert rollout().cache_bytes == near(2 * 2 * 2 * 2 * 8 * 128)
    assert rollout(work={"kv_dtype": "fp32"}).cache_bytes == near(4 * 2 * 2 * 2 * 8 * 128)
    assert memory().second_cache == near(0)
    assert memory(work={"donate": False}).second_cache == near(16384)
    # programs for powers of two read 128 of 128 positions from the start: 64 is one already
    assert mean_read_positions(64, 64) == 128


def test_moments_of_a_rollouts_memory():
    held = memory().phases()
    # activations of a token: 2 bytes x (4 x 8 + 3 x 16 + 2 x 16); two sequences' next tokens, or two prompts of 64
    assert held["embedding"]["working_set"] == near(2 * 2 * 112)
    assert held["prefill"]["working_set"] == near(2 * 2 * 64 * 112)
    # the gathered table and its bf16 shard; a layer's matrices; a layer's half of the cache where it is copied; fp32 logits
    assert held["embedding"]["gathered_weights"] == near(2 * 256 * 1.5)
    assert held["layers"]["gathered_weights"] == near(2 * 768)
    assert held["layers"]["layer_cache"] == near(16384 / 2)
    assert memory(machine="tpu-v5e-8").phases()["layers"]["layer_cache"] == near(0)
    # new keys and values of both layers: 2 bytes x 2 x 2 x 2 sequences x 8 features
    assert held["layers"]["working_set"] == near(2 * 2 * 112 + 2 * 2 * 2 * 2 * 8)
    assert held["head"]["logits"] == near(4 * 2 * 32)


def test_prefill_takes_2048_tokens_of_a_device_at_a_time():
    # 64 sequences of 64 tokens on one rank: 32 at a time
    held = memory(work={"batch": 128}).phases()
    assert held["prefill"]["working_set"] == near(2 * 2048 * 112)


def test_prefill_is_a_forward_pass_with_its_gathers():
    # 128 tokens: products 2 x 128 x 768, attention 4 x 128 x 32 x 16, 43008 bytes; two layers
    layers = 2 * (2 * 128 * 768 + 4 * 128 * 32 * 16 + 43008) / COMPUTE
    # half of 2 x 768 bytes a layer and of 2 x 256 of the embedding: prefill has no logits
    assert time().prefill == near(layers + (2 * 768 + 256) / LINK)
    assert time("gathered-once").prefill == near(layers)


def test_prefill_over_tensor_moves_the_stream_four_times_a_layer():
    # half of 2 x 256 x 8 bytes; half of the columns, half of the heads; one key/value head on each
    found = time("tensor-sharded", tensor=2)
    work = found._work
    layer = (work.layer_forward_gemm + work.forward_attention.total_s + work.layer_forward_memory)[0]
    assert found.prefill == near(2 * (layer + 4 * 2.048))


def test_weights_are_read_once_a_step_or_multiplied():
    # gathered: written and read, 4 bytes of 2 x 768 + 2 x 256 elements; else 2 x 2 sequences x (2 x 768 + 256) FLOP
    assert time().weights == near(64 * 4 * 2048 / COMPUTE)
    assert time("gathered-once", machine="tpu-v5e-8").weights == near(64 * 4 * 1792 / COMPUTE)
    slow = RATES.__class__(**{**vars(RATES), "hbm": rate(1e3)})
    assert time("gathered-once", machine="tpu-v5e-8", rates=slow).weights == near(64 * 2 * 1792 / 1e3)
    # on GPU each layer's matrices are copied out of their stack first: 2 x 768 elements written and read again
    assert time("gathered-once", rates=slow).weights == near(64 * (2 * 1792 + 4 * 1536) / 1e3)
    # fp32 weights are cast: 4 bytes read, and a bf16 copy written and read
    assert time("gathered-once", machine="tpu-v5e-8", rates=slow, gather_dtype="fp32").weights == near(64 * 8 * 1792 / 1e3)


def test_logits_are_passed_over_three_times_a_step():
    # fp32 logits of 2 sequences and 32 tokens of the vocabulary
    assert time().sampling == near(64 * 3 * 4 * 2 * 32 / COMPUTE)
    assert time("tensor-sharded", tensor=2).sampling == near(64 * 3 * 4 * 4 * 16 / COMPUTE)


def test_decode_multiplies_all_experts_with_all_sequences():
    # 2 layers of 4 experts of width 6: router 8 x 4, experts 3 x 4 x 8 x 6; attention as in the dense model, whose F is 16
    experts = {"experts": Experts(count=4, active=2, d_ff=6)}
    dense, mixture = 3 * 8 * 16, 8 * 4 + 3 * 4 * 8 * 6
    held = rollout("gathered-once", model=experts)
    assert held.stack_elements == near(2 * (768 - dense + mixture))
    slow = RATES.__class__(**{**vars(RATES), "hbm": rate(1e3)})
    found = time("gathered-once", machine="tpu-v5e-8", rates=slow, model=experts).weights
    # 2 sequences, a row for each of 4 experts and 2 layers: 4 passes over D, 6 over F, in bf16
    rows = 2 * 2 * 2 * 4 * (4 * 8 + 6 * 6)
    assert found == near(64 * (2 * (2 * (768 - dense + mixture) + 256) + rows) / 1e3)


def test_the_cache_is_read_once_a_step_or_copied_first():
    # heads of 8 features are smaller than the tiles of the GPU's kernel
    assert time(machine="tpu-v5e-8").kv_cache == near(64 * 16384 / COMPUTE)
    assert time(model={"head_dim": 16, "heads": 1}).kv_cache == near(64 * 2 * 16384 / COMPUTE)
    assert time().kv_cache == near(64 * 3 * 16384 / COMPUTE)
    assert time(work={"donate": False}).kv_cache == near(64 * (3 + 2) * 16384 / COMPUTE)


def test_a_window_shortens_the_cache_of_its_layers():
    # windows of 16 in one of the two layers: 16 + 128 slots
    turns = {"sliding_window": 16, "window_pattern": WindowPattern(windowed=1, full=1)}
    assert rollout(model=turns).cache_bytes == near(2 * 2 * 2 * 8 * (16 + 128))
    assert rollout(model={"sliding_window": 16}).cache_bytes == near(2 * 2 * 2 * 2 * 8 * 16)
    # programs for powers of two read 16 slots of 16, and all of 96 + 32 in the other
    assert mean_read_positions(64, 64, slots=16) == 16
    assert mean_read_positions(96, 32, slots=500) == 128


def test_fp8_has_a_byte_per_element_and_a_factor_per_row():
    # 8 features and 4 bytes
    assert rollout(work={"kv_dtype": "fp8"}).cache_bytes == near(2 * 2 * 2 * (8 + 4) * 128)


def test_gathers_each_step_or_once():
    assert time().comm_fsdp == near(64 * (2 * 768 + 2 * 256) / LINK)
    assert time("gathered-once").comm_fsdp == near(2048 / LINK)
    assert time("tensor-sharded", tensor=2).comm_fsdp == near(0)


def test_an_open_torus_gathers_at_a_fitted_share():
    closed, opened = time(machine="tpu-v5p-128", fsdp=64), time(machine="tpu-v5p-64", fsdp=32)
    wraps = [found.rollout.setting.hardware.torus_wrap for found in (closed, opened)]
    shares = [0.62 if not all(wrap or (False,)) else 1.0 for wrap in wraps]
    for found, share in zip((closed, opened), shares, strict=True):
        whole = found._call("all-gather", ("fsdp",), 2 * found.rollout.layer_elements)
        assert found._gather(found.rollout.layer_elements) == pytest.approx(whole / share)


def test_collectives_over_tensor_of_a_decode_step():
    # 4 rows of 16 bytes: 0.032 s a call, four a layer; keys' and values' weights, 2 x 2 x 8 x 8 bytes, where tensor exceeds
    # the one head; a scatter and a gather at the ends
    assert time("tensor-sharded", tensor=2).comm_tensor == near(64 * (2 * (4 * 0.032 + 0.128) + 2 * 0.032))


def test_overhead_is_28_kernels_a_layer():
    assert time().overhead == near(64 * 2 * 28 * FLOOR_S)


def iteration(parameters, mesh):
    machine = hardware("dgx-h100x2")
    sampling = Sampling(mesh=mesh, parameters=parameters, cache="whole")
    table = IterationTable.from_strategies([Strategy(mesh=Mesh(fsdp=2), sampling=sampling)])
    return machine, table


def moved(parameters, mesh, figure="seconds"):
    machine, table = iteration(parameters, mesh)
    work = SampleWorkload(prompt=64, generate=64, batch=4)
    return float(getattr(reshard_cost(Setting(HAND, machine, work, machine.usable_bytes), table), figure)[0])


def test_resharding_gathers_or_exchanges_matrices(monkeypatch):
    monkeypatch.setattr("cost_models.rollout.reshard.rates_for", lambda setting: RATES)
    # fsdp=2 to whole matrices: half of 2 x 2048 bytes
    assert moved("replicated", Mesh(data=2)) == pytest.approx(2048 / LINK)
    # to half of each matrix: a device exchanges half of its 2 x 1024 bytes
    assert moved("tensor-sharded", Mesh(tensor=2)) == pytest.approx(1024 / LINK)
    # the same shards are gathered where they are; other ones move in fp32
    assert moved("gathered-once", Mesh(fsdp=2)) == 0.0


def test_resharding_copies_a_table():
    # a gathered table of 256 elements; rounded and exchanged halves of two tables; nothing
    assert moved("replicated", Mesh(data=2), "copied_bytes") == 2 * 256
    assert moved("tensor-sharded", Mesh(tensor=2), "copied_bytes") == 2 * 2 * (2 * 128)
    assert moved("gathered-once", Mesh(fsdp=2), "copied_bytes") == 0


def test_a_scoring_is_the_forward_part_of_the_step(monkeypatch):
    monkeypatch.setattr("cost_models.time.forward.rates_for", lambda setting: RATES)
    found = layout()
    step, seconds = StepTime(found, RATES), forward_seconds(found.setting, found.table)
    attention = found.setting.model.layers * step.forward_attention.total_s
    # one of three products of layers and head; the norms' share is what remains
    assert seconds == pytest.approx(step.gemm / 3 + attention + 2 * step.layer_forward_memory + step.loss / 3)
    # over fsdp: each of two tables of 256 elements once in bf16, half of it received; layers' gathers are behind products
    shared = layout(fsdp=2)
    alone = ForwardTime(shared, replace(RATES, collectives={**RATES.collectives, "all-gather": FREE}))
    tables = 2 * (2 * 256 / 2) / LINK
    weights = 2 * max(0.0, 2 * 768 / 2 / LINK - float(alone.layer_forward_gemm[0] + alone.layer_forward_memory[0]))
    assert forward_seconds(shared.setting, shared.table) == pytest.approx(alone.seconds + tables + weights)


@pytest.mark.parametrize(("options", "passes"), [({}, 0), ({"kl_coefficient": 0.1}, 1), ({"old_log_probs": "recomputed"}, 1)])
def test_scorings_of_an_iteration(options, passes):
    machine, table = iteration("gathered-once", Mesh(fsdp=2))
    work = RlWorkload(prompt=64, generate=64, batch=4, **options)
    setting = Setting(HAND, machine, work, machine.usable_bytes)
    row = estimate_iteration(setting, table).row(0)
    forward = float(forward_seconds(replace(setting, workload=work.train), table.trained)[0])
    assert row["time_s"]["scoring"] == pytest.approx(passes * forward)
    # shards of 2048 elements in bf16 over two devices, and 40 whole ones in fp32
    assert row["memory_bytes"]["reference"] == (2 * 1024 + 4 * 40 if "kl_coefficient" in options else 0)


def test_the_values_of_each_token_count_as_batch():
    machine, table = iteration("gathered-once", Mesh(fsdp=2))
    for options, arrays in (({}, 4), ({"kl_coefficient": 0.1}, 5)):
        work = RlWorkload(prompt=4, generate=4, batch=4, **options)
        row = estimate_iteration(Setting(HAND, machine, work, machine.usable_bytes), table).row(0)
        assert row["memory_bytes"]["batch"] == 4 * arrays * 16  # ids, targets, advantages, old and reference of 16 tokens


def test_a_move_that_needs_more_than_the_rollout_binds():
    machine, table = iteration("replicated", Mesh(data=2))
    work = RlWorkload(prompt=1, generate=1, batch=2)
    wide = HAND.model_copy(update={"vocab": 2**20})
    row = estimate_iteration(Setting(wide, machine, work, machine.usable_bytes), table).row(0)
    assert row["rollout_bytes"] < row["train_bytes"]
    table_bytes = 2 * 2**20 * 8
    shards, vectors = (1536 + 2 * 2**20 * 8) / 2, 40
    assert row["rollout_bytes"] == pytest.approx(12 * (shards + vectors) + 2 * 2 * shards + 4 * vectors + table_bytes, rel=1e-6)


def test_an_iteration_is_rollout_resharding_and_step():
    machine, table = iteration("tensor-sharded", Mesh(data=2))
    work = RlWorkload(prompt=64, generate=64, batch=4)
    row = estimate_iteration(Setting(HAND, machine, work, machine.usable_bytes), table).row(0)
    assert row["step_s"] == pytest.approx(row["train_step_s"] + row["rollout_s"] + row["time_s"]["reshard"])
    assert row["step_s"] == pytest.approx(sum(row["time_s"].values()))
    assert row["tokens_per_s"] == pytest.approx(4 * 64 / row["step_s"])
    assert row["memory_bytes"]["total"] == max(row["train_bytes"], row["rollout_bytes"])


def test_a_rollouts_rate_counts_forward_passes_only():
    found = rollout("gathered-once")
    priced = estimate_rollout(found.setting, found.table)
    # 2 FLOP x 512 tokens x (1536 + 256) elements, 4 x 16 x 128^2 / 2 of attention for each of 4 sequences and 2 layers
    work = 2 * 512 * 1792 + 4 * 2 * 4 * 16 * 128**2 / 2
    assert rollout_flop(found.setting) == pytest.approx(work)
    assert priced.tflop_per_s_per_device == pytest.approx(work / 1e12 / priced.step_s / 2)
    peak = found.setting.hardware.device.peak_flop_per_s.value
    assert priced.mfu_ratio == pytest.approx(work / priced.step_s / 2 / peak)
    row = priced.row(0)
    assert row["decode_step_s"] == pytest.approx((row["step_s"] - row["time_s"]["prefill"]) / 64)
    assert row["seconds_per_sequence"] == pytest.approx(row["step_s"] / 4)


def test_an_iteration_whose_rollout_binds_holds_state_and_the_rollout():
    machine, table = iteration("gathered-once", Mesh(fsdp=2))
    work = RlWorkload(prompt=64, generate=8192, batch=64, kv_dtype="fp32", donate=False)
    wide = HAND.model_copy(update={"kv_heads": 2})
    row = estimate_iteration(Setting(wide, machine, work, machine.usable_bytes), table).row(0)
    assert row["rollout_bytes"] > row["train_bytes"]
    held = {name: size for name, size in row["memory_bytes"].items() if size and name != "total"}
    # the rollout gathers from the step's own shards; gradients and activations of the step are gone
    assert {name for name in held if not name.startswith("rollout_")} == {"params", "optimizer"}
    assert "rollout_params" not in held
    assert sum(held.values()) == pytest.approx(row["rollout_bytes"], rel=1e-6)


def test_a_tpu_has_experts_twice_in_prefill():
    # bf16 copies of 3 matrices x 2 layers x 4 experts x 8 rows, whose 6 features fill 128 lanes
    experts = {"experts": Experts(count=4, active=2, d_ff=6)}
    held = memory("gathered-once", machine="tpu-v5e-8", model=experts).phases()
    assert held["prefill"]["expert_copies"] == near(2 * 3 * 2 * 4 * 8 * 128)
    assert memory(machine="tpu-v5e-8", model=experts).phases()["prefill"]["expert_copies"] == near(0)
    assert memory("gathered-once", model=experts).phases()["prefill"]["expert_copies"] == near(0)
