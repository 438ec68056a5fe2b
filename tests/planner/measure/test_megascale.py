"""Sends between TPU slices, as libtpu writes them."""

import pytest

from planner.measure.hlo.groups import MeshView
from planner.measure.hlo.megascale import transfer

HANDLER = '_xla_host_transfer_handler_name="xla_megascale_runtime"'
PAIRS = "_xla_megascale_target={{100007->200000},{200007->100000}},_xla_megascale_transfer_type="
PLACES = '_xla_megascale_target="{1,2}x{0:7}",_xla_megascale_transfer_type='


@pytest.mark.parametrize(
    ("mesh", "attributes", "found"),
    [
        ((1, 16), f'{HANDLER},{PAIRS}"ONE_TO_ONE"', ("collective-permute", "context")),
        ((2, 8), f'{HANDLER},{PLACES}"ALL_GATHER"', ("all-gather", "data")),
        ((1, 16), f'{HANDLER},{PLACES}"ALL_REDUCE"', ("all-reduce", "context")),
        ((2, 8), f'{HANDLER},{PLACES}"SOMETHING_NEW"', None),
        ((2, 8), "is_host_transfer=true", None),
    ],
)
def test_a_send_between_slices_has_an_op_and_an_axis(mesh, attributes, found):
    assert transfer(attributes, MeshView(("data", "context"), mesh, segment=8)) == found
