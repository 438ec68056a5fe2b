"""Published rows on more than one rack of GB200 or GB300 keep the rules on devices: jobs use a part of each rack."""

import numpy as np
import pytest

from cost_models.inputs.setting import Setting
from lcplan.catalog import hardware, model
from lcplan.spec.segments import domains_of, segment_of
from lcplan.spec.workload import Workload
from planner.rules.devices import DEVICE_RULES
from planner.space.enumerate import PLACED
from planner.space.meshes import mesh_table
from planner.space.reject import screen
from planner.validate.sources.bundled import find_table, table_names
from planner.validate.sources.excuse import NotModelledError
from planner.validate.sources.specs import Specs

RULES = [rule for rule in DEVICE_RULES if rule.level == "mesh"]


def rows():
    for name in table_names():
        table, path = find_table(name)
        specs = Specs(table.name, path.parent)
        for row in table.rows:
            try:
                machine = specs.hardware(row)
            except NotModelledError:
                continue
            if machine.device.name in ("gb200", "gb300") and (row.devices or 0) > machine.domain_size:
                yield row, machine


def test_every_row_on_several_racks_keeps_the_rules_on_devices():
    found = list(rows())
    assert len(found) >= 4
    for row, machine in found:
        setting = Setting(model("llama3-8b"), machine, Workload(seq_len=2**17, global_batch=row.devices), 2**37)
        tensor = row.strategy.mesh.tensor if row.strategy is not None and row.strategy.mesh is not None else 1
        mesh = np.array([[1] * len(PLACED)])
        mesh[0, PLACED.index("data")], mesh[0, PLACED.index("tensor")] = row.devices // tensor, tensor
        mesh[0, PLACED.index("segment")] = 0
        assert screen(setting, RULES, mesh_table(mesh))[0] == -1, (row.id, row.devices)
        assert domains_of(machine, row.devices) * segment_of(machine, row.devices) == row.devices


@pytest.mark.parametrize("devices", [128, 256, 512, 1024, 2560, 5120])
def test_published_sizes_are_segments_of_64(devices):
    """Sizes of GB200 systems in MLPerf Training 5.0 and 5.1 and in NVIDIA's dgxc recipes."""
    racks = hardware("gb200-nvl72x142")
    assert (segment_of(racks, devices), domains_of(racks, devices)) == (64, devices // 64)
