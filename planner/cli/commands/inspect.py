"""``lcplan inspect``: the executable of a plan, a step file, or one part of a step; or a profile."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any, get_args

import click

from lcplan import catalog
from lcplan.formats.errors import BadInputError, StageFailedError
from lcplan.parts import KINDS, Part
from lcplan.parts.part import PartOp
from lcplan.strategy import AXES, COLLECTIVE_MATMULS, SCHEMES, Mesh, ShardingMode, Strategy
from planner.cli.commands.inspect_profile import show_profile
from planner.cli.options import Several, Tokens, toolchain_option
from planner.cli.output import print_json, print_view
from planner.cli.steps.inspect_options import foreign, given_of
from planner.inspect.part import Bench, Variant, parse_flags
from planner.measure.targets.toolchain import probe
from planner.request.filters import parse_mesh

EPILOG = """\b
Examples:
  lcplan inspect run/plan.yaml --flag xla_gpu_enable_latency_hiding_scheduler=true
  lcplan inspect my_step.py --hw dgx-h100 --mesh data=8,model=1 --knob remat=full --seq 8k --global-batch 8 --hlo step.hlo
  lcplan inspect part matmul --shape B=2368,D=2048,F=32768 --hw tpu-v5e-8 --mesh data=2,tensor=4 --collective-matmul off,one-way
  lcplan inspect part matmul --shape B=2048,D=8192,F=8192 --hw dgx-h100 --mesh tensor=8 --sharding "B D/tensor,D/tensor F->B F"
  lcplan inspect part attention --shape B=1,T=65536,N=32,K=8,H=128 --hw gb200-nvl72 --mesh context=8 --scheme ring,ulysses
  lcplan inspect --profile trace run
  lcplan inspect part collective --op all-reduce --axis tensor --shape B=4096,D=4096 --hw dgx-h100 --mesh tensor=8"""


@click.command("inspect", epilog=EPILOG)
@click.argument("what", metavar="PLAN|RUN|STEP | part KIND | --profile DIR [PLAN|RUN]", required=False)
@click.argument("kind", metavar="", required=False)
@click.option("--profile", metavar="DIR|FILE", help="Read the profile that jax.profiler wrote in this folder.")
@click.option("--program", metavar="NAME", help="--profile: the program. [default: the one with most time]")
@click.option("--shape", metavar="DIM=N,..", help="Global sizes by letter: B=1024,D=2048,F=8192.")
@click.option("--sharding", metavar="TEXT", help='matmul, ffn: arrays as "B/data D/tensor, D F/tensor -> B/data F/tensor".')
@click.option("--op", type=click.Choice(get_args(PartOp)), help="collective: its kind.")
@click.option("--axis", type=click.Choice(AXES), help="collective: its axis. [default: the last axis of --mesh above 1]")
@click.option("--dtype", type=click.Choice(["bf16", "fp32"]), default="bf16", show_default=True, help="Dtype of all arrays.")
@click.option("--hw", metavar="NAME|FILE", help="Hardware: catalogue name or YAML spec. [default: that of the plan]")
@click.option("--mesh", default="", metavar="AXIS=N,..", help="Axes that the program runs on: data=2,tensor=4.")
@click.option(
    "--sharding-mode",
    type=Several(get_args(ShardingMode), "--sharding-mode"),
    multiple=True,
    help="manual, auto, explicit; several are compared. [default: manual]",
)
@click.option(
    "--collective-matmul",
    type=Several(COLLECTIVE_MATMULS, "--collective-matmul"),
    multiple=True,
    help="off, one-way, two-way, over tensor; several are compared. [default: off]",
)
@click.option("--scheme", type=Several(SCHEMES, "--scheme"), multiple=True, help="attention: how context ranks exchange keys.")
@click.option("--flag", multiple=True, metavar="XLA_FLAG=VALUE,..", help="Compiler flags; each further --flag is compared.")
@click.option("--hlo", type=click.Path(path_type=Path), metavar="FILE", help="Whole step: write the executable's text.")
@click.option("--page", type=click.Path(path_type=Path), metavar="FILE", help="Whole step: write an HTML page with a timeline.")
@click.option("--step", metavar="FILE", help="Step file of a plan of a step of your own.")
@click.option("--knob", multiple=True, metavar="NAME=VALUE", help="Step file: value of a knob.")
@click.option("--devices", type=click.IntRange(min=1), help="Step file: number of devices. [default: the mesh's]")
@click.option("--seq", type=Tokens(), metavar="TOKENS", help="Step file: sequence length.")
@click.option("--global-batch", type=click.IntRange(min=1), metavar="SEQS", help="Step file: sequences per step.")
@toolchain_option
@click.option("--format", "output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output.")
def command(**options: Any) -> int:
    """Look inside the compiled step of a PLAN, RUN or STEP file, one part of a step, or the profile of a step that ran.

    Of a whole step the output has memory, the largest buffers at the peak with the source lines that made them, collectives
    by axis and level with their exposed time, kernels, arrays that are saved for the backward pass, and the step time by
    part; each further --flag is compared. --page writes all of it, with memory and both streams over the step, as HTML.

    A part is a matmul, ffn (a feed-forward), attention, or collective.
    The output has memory_analysis, collectives by axis and level, kernels, and the modelled time.
    Where the devices are at hand (cpu-host always), the part is timed too.

    A profile is the folder that jax.profiler.start_trace wrote.
    The output has the time of a step by part, exposed and hidden communication, and idle time.
    With the plan that ran, measured times are next to predicted ones.
    """
    if options["profile"]:
        return show_profile(options)
    if options["what"] not in (None, "part"):
        from planner.cli.steps.inspect_program import show_program

        return show_program(options)
    return _show_part(options)


def _show_part(options: dict[str, Any]) -> int:
    _check_words(options)
    hardware = catalog.hardware(options["hw"])
    mesh = _mesh(options["mesh"], hardware.devices)
    axis = options["axis"] or next((name for name in reversed(AXES) if getattr(mesh, name) > 1), None)
    rest = {"op": options["op"], "axis": axis} if options["kind"] == "collective" else {}
    rest = {"precision": options["dtype"], **rest}
    part = Part.of(options["kind"], shape=options["shape"], sharding=options["sharding"], mesh=mesh, rest=rest)
    variants = _variants(options, mesh, backend=hardware.backends[0])
    if any(one.strategy.collective_matmul != "off" for one in variants) and (problems := part.ring_problems(mesh)):
        raise BadInputError(problems)
    bench = Bench(part, hardware, probe(options["toolchain"]), variants[0].strategy)
    found = bench.inspected(variants)
    _print(bench, found, options["output"])
    errors = [one.compiled.error for one in found if one.compiled is not None and one.compiled.error]
    if errors:
        raise StageFailedError(f"the part could not be compiled: {errors[0]}")
    return 0


def _check_words(options: dict[str, Any]) -> None:
    """Check the words of a part.

    Raises
    ------
    BadInputError
        Another word than ``part``, an unknown kind, or an option that is missing or that no part takes.
    """
    if options["what"] is None:
        raise BadInputError("inspect: give a plan, a step file, 'part KIND' or --profile DIR; see lcplan inspect --help")
    whole = given_of(options, "step")
    if whole:
        raise BadInputError([f"{name}: for the step of a plan or a step file, not for a part" for name in whole])
    if options["kind"] not in KINDS:
        raise BadInputError(f"inspect part {options['kind'] or ''}: the kind of part is one of {', '.join(KINDS)}")
    problems = [f"{name}: a part does not take it" for name in foreign(options, "part")]
    missing = [f"--{name}: missing; every part needs it" for name in ("shape", "hw") if not options[name]]
    if problems or missing:
        raise BadInputError([*problems, *missing])


def _mesh(text: str, devices: int) -> Mesh:
    sizes = {axis: sizes.fixed for axis, sizes in parse_mesh(text).items()} if text else {}
    several = [axis for axis, size in sizes.items() if size is None]
    if several:
        raise BadInputError([f"--mesh {axis}: a part runs on one mesh; give one size" for axis in several])
    mesh = Mesh.model_validate(sizes)
    if mesh.devices > devices:
        raise BadInputError(f"--mesh {text} takes {mesh.devices} devices; the hardware has {devices}; use fewer or more of it")
    return mesh


def _variants(options: dict[str, Any], mesh: Mesh, *, backend: str) -> list[Variant]:
    """Return every combination; only the manual mode has collective matmuls."""
    modes, ways = _values(options, "sharding_mode", "manual"), _values(options, "collective_matmul", "off")
    found = []
    for mode, way, scheme, flags in product(modes, ways, _values(options, "scheme", "ring"), options["flag"] or ("",)):
        if way != "off" and mode != "manual":
            continue
        fields = {"sharding_mode": mode, "collective_matmul": way, "scheme": scheme, "backend": backend}
        found.append(Variant(Strategy.model_validate({"mesh": mesh, **fields}), parse_flags(flags) if flags else ()))
    if not found:
        raise BadInputError("--collective-matmul is written out in --sharding-mode manual only; add manual, or use off")
    return found


def _values(options: dict[str, Any], name: str, default: str) -> tuple[str, ...]:
    values: tuple[str, ...] = tuple(value for group in options[name] for value in group)
    return values or (default,)


def _print(bench: Bench, variants: tuple[Variant, ...], output: str) -> None:
    if output == "json":
        part = bench.part.model_dump(mode="json") | {"label": bench.part.label}
        shown = [one.to_json() for one in variants]
        for one in shown:
            for use in (one["compiled"] or {}).get("collectives", ()):
                use["level"] = bench.level(use["axis"])
        document = {
            "schema_version": 1,
            "part": part,
            "hardware": bench.hardware.name,
            "mesh": bench.strategy.mesh.model_dump(),
        }
        print_json(document | {"variants": shown})
    else:
        from planner.report.terminal.inspect.part import part_view

        print_view(part_view(bench, variants))
