"""Exports of jobs on several racks or slices say how many devices of each they take."""

import pytest

from planner.export.run import export_plan


@pytest.mark.parametrize("name", ["maxtext", "megatron", "torchtitan", "jax"])
def test_a_launch_file_asks_for_the_segment(new_plan, name):
    plan = new_plan("llama3.1-8b", "gb200-nvl72x2", seq=8192, batch=256, fsdp=128, segment=64)
    script = export_plan(plan, name).files["launch.sh"]
    assert "64 devices (16 of 18 hosts) of each of 2 nvlink5 domains" in script
    assert "--nodes=32 --segment=16 (topology/block); with topology/tree --switches=2" in script
    assert "kueue.x-k8s.io/podset-slice-size: 16" in script


def test_a_job_of_one_process_per_device_is_submitted_with_it(new_plan):
    plan = new_plan("llama3.1-8b", "gb200-nvl72x2", seq=65536, batch=64, fsdp=16, context=8, segment=64, backend="nvshmem")
    script = export_plan(plan, "jax").files["launch.sh"]
    assert "#SBATCH --nodes=32\n#SBATCH --segment=16\n#SBATCH --ntasks-per-node=4" in script


def test_slices_are_replicated_jobs_and_dcn_axes(new_plan):
    plan = new_plan("llama3.1-8b", "tpu-v5e-16x2", seq=8192, batch=64, data=2, fsdp=16)
    export = export_plan(plan, "maxtext")
    assert "Placement: 2 slices of 16 devices each" in export.files["launch.sh"]
    assert "dcn_data_parallelism: 2" in export.files[export.translation.trainer.file]


@pytest.mark.parametrize(
    ("hw", "mesh"), [("gb200-nvl72", {"fsdp": 64}), ("dgx-h100x4", {"fsdp": 32}), ("tpu-v5e-16", {"fsdp": 16})]
)
def test_one_domain_and_single_hosts_need_no_word(new_plan, hw, mesh):
    script = export_plan(new_plan("llama3.1-8b", hw, seq=8192, batch=64, **mesh), "jax").files["launch.sh"]
    assert "Placement" not in script
    assert "segment" not in script
