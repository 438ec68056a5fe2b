"""``lcplan compare`` and ``--vary hw``: the same job on several clusters, and finished runs."""

import pytest

JOB = ("--model", "llama3.1-70b", "--seq", "8k", "--devices", "64", "--global-batch", "128")
CLUSTERS = "dgx-h100x8,dgx-b200x8,gb200-nvl72"


def compared(lcplan, *options):
    return lcplan("compare", *JOB, "--hw", CLUSTERS, "--format", "json", *options).json


def test_device_seconds_of_a_token_fall_from_h100_to_b200_to_gb200(lcplan):
    """NVIDIA's dgxc recipes, Llama 3.1 405B in bf16 (nvidia-dgxc-llama31): 512 H100 take 19.81 s for 256 sequences of 8k, and
    128 GB200 take 9.347 s for 64: 4,837 and 2,282 device-seconds a million tokens, a ratio of 2.12."""
    document = compared(lcplan)
    h100, b200, gb200 = (cluster["device_s_per_token"] for cluster in document["clusters"])
    assert h100 > b200 > gb200
    assert h100 / gb200 == pytest.approx(2.12, rel=0.2)
    assert document["best"]["device-seconds"] == "gb200-nvl72"


def test_figures_are_those_of_a_search_with_its_price(lcplan):
    document = compared(lcplan, "--price", "2.5,4,6")
    one = document["clusters"][1]
    searched = lcplan("search", *JOB, "--hw", "dgx-b200x8", "--stages", "modelled", "--price", "4", "--format", "json").json
    assert one["candidate"]["strategy"] == searched["winner"]["strategy"]
    assert one["cost"] == searched["cost"]
    hours = one["cost"]["device_hours_per_1b_tokens"]
    assert one["device_s_per_token"] == pytest.approx(hours * 3600 / 1e9)
    assert one["hours_per_1b_tokens"] == pytest.approx(hours / 64)
    assert one["cost"]["usd_per_1b_tokens"] == pytest.approx(4 * hours)


def test_one_job_has_one_batch_on_every_cluster(lcplan):
    """256 H100 have 4 Mi tokens by default, and 512 have 8 Mi: both get the larger."""
    hardware = ("--hw", "dgx-h100x32,dgx-h100x64")
    document = lcplan(
        "compare", "--model", "llama3-8b", "--seq", "8k", *hardware, "--mesh", "context=1", "--format", "json"
    ).json
    assert [one["request"]["workload"]["global_batch"] for one in document["clusters"]] == [1024, 1024]


def test_table_and_page_hold_the_same_figures(lcplan, tmp_path):
    pytest.importorskip("jinja2")
    answer = lcplan("compare", *JOB, "--hw", "dgx-h100x8,gb200-nvl72", "--price", "3", "--page", "both.html")
    assert all(len(line) <= 100 for line in answer.out.splitlines())
    page = (tmp_path / "both.html").read_text()
    for name in ("step", "tokens/s", "device-s/M tokens", "USD", "kWh", "free"):
        (line,) = [line for line in answer.out.splitlines() if line.startswith(f"{name} ")]
        for cell in line.removeprefix(name).split("  "):
            assert not cell.strip() or cell.strip() in page
    assert "http" not in page.replace("http-equiv", "")


def test_two_runs(lcplan):
    small = ("--model", "llama3-8b", "--seq", "8k", "--mesh", "fsdp=8", "--stages", "modelled")
    for hardware in ("dgx-h100", "dgx-b200"):
        lcplan("search", *small, "--hw", hardware, "--out", hardware)
    document = lcplan("compare", "dgx-h100", "dgx-b200", "--price", "2,4", "--format", "json").json
    assert [one["name"] for one in document["clusters"]] == ["dgx-h100", "dgx-b200"]
    assert document["clusters"][0]["device_s_per_token"] > document["clusters"][1]["device_s_per_token"]
    assert document["clusters"][0]["cost"]["usd_per_1b_tokens"] > 0


def test_a_cluster_without_a_plan_says_what_is_missing(lcplan):
    answer = lcplan("compare", *JOB, "--hw", "dgx-h100x8,dgx-b200x8", "--budget", "20GiB", "--remat", "save-all")
    assert answer.code == 1
    assert "nothing fits. Nearest miss" in answer.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*JOB, "--hw", "dgx-h100"), "needs two sides or more, and 1 is given"),
        (("--hw", "dgx-h100,dgx-b200"), "compare needs --model and --hw a,b"),
        ((*JOB, "--hw", "dgx-h100,dgx-h100"), "dgx-h100 is given twice"),
        ((*JOB, "--hw", CLUSTERS, "--price", "1,2"), "2 prices for 3 sides"),
        ((*JOB, "--hw", CLUSTERS, "--price", "x"), "not dollars per device-hour"),
        ((*JOB, "--hw", "dgx-h100x8,nothing"), "unknown hardware 'nothing'"),
        (("a", "b", *JOB), "compare takes runs, or --model and --hw"),
        (("a", "b"), "a: no such file or folder"),
    ],
)
def test_bad_input(lcplan, arguments, words):
    answer = lcplan("compare", *arguments)
    assert answer.code == 2
    assert words in answer.err


def test_a_sweep_over_hardware_keeps_the_job(lcplan):
    sweep = ("whatif", "sweep", "--model", "llama3-8b", "--hw", "dgx-h100", "--seq", "8k", "--vary")
    points = lcplan(*sweep, "hw=dgx-h100,dgx-b200", "--format", "json").json["points"]
    assert [point["hw"] for point in points] == ["dgx-h100", "dgx-b200"]
    steps = [point["candidate"]["estimate"]["step_s"] for point in points]
    assert steps[0] > 1.5 * steps[1]
    refused = lcplan(*sweep, "hw=dgx-h100,dgx-h10")
    assert refused.code == 2
    assert "unknown hardware 'dgx-h10'" in refused.err
