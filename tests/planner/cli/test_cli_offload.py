"""A host link of unknown bandwidth leaves the time without transfers; memory of the device and of the host is judged."""

import pytest

JOB = ("--model", "llama3-8b", "--hw", "tpu7x-4x4x4", "--mesh", "fsdp=128", "--global-batch", "128")
UNPRICED = "no bandwidth of tpu-7x's link to its host is known: memory has the offloaded tensors"


def test_memory_is_judged_without_the_link(lcplan):
    answers = [
        lcplan("estimate", *JOB, "--seq", "64k", "--remat", name, "--format", "json").json
        for name in ("offload-layer-in", "full")
    ]
    offloaded, plain = (answer["candidate"] for answer in answers)
    assert offloaded["best"]["fits"]
    streams = 32 * 65536 * 4096 * 2  # layers, tokens, features, bf16
    assert offloaded["estimate"]["host_bytes"] == streams
    assert plain["estimate"]["memory_bytes"]["total"] > offloaded["estimate"]["memory_bytes"]["total"]
    assert [any(UNPRICED in note for note in answer["notes"]) for answer in answers] == [True, False]


def test_the_host_is_judged_too(lcplan):
    answer = lcplan("estimate", *JOB, "--seq", "1m", "--remat", "offload-layer-in")
    assert answer.code == 2
    assert "256.0 GiB a device in the host's memory, of which one device's share is 111.8 GiB" in answer.err


@pytest.mark.parametrize(("asked", "found"), [(("--remat", "offload-layer-in,offload-attention"), True), ((), False)])
def test_a_search_compares_offloading_plans_only_with_each_other(lcplan, asked, found):
    job = ("--model", "llama3-8b", "--seq", "64k", "--hw", "tpu7x-2x2x2", "--stages", "modelled", "--out", "run")
    answer = lcplan("search", *job, *asked, "--format", "json")
    remats = {candidate["strategy"]["remat"] for candidate in answer.json["candidates"]}
    assert (remats <= {"offload-layer-in", "offload-attention"}) == found
    assert ("host-link" in answer.json["space"]["rejected"]) != found
