"""The cells of an experiment, the deployments on which they are measured, and their order."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import product
from typing import Final

from lmi_deploy.bench.load import LOADS, Load, with_ramp
from lmi_deploy.bench.report import Factor
from lmi_deploy.bench.report_points import point_name
from lmi_deploy.domain.recipe_bench_keys import WORKLOAD, Bench, BenchVariant
from lmi_deploy.errors import UsageRefused

MOST_CELLS: Final = 4096
_NUMBER: Final = re.compile(r"(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One load and workload on one deployment. `factors` are its place in the design."""

    factors: Mapping[str, Factor]
    load: Load
    input_tokens: int | None
    output_tokens: int | None
    batch: int | None

    @property
    def name(self) -> str:
        return point_name(self.factors, self.load)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignedDeployment:
    """`overrides`: of the variant's recipe, as `--set` takes them. `label` is its part of its cells' names."""

    variant: BenchVariant
    overrides: tuple[str, ...]
    cells: tuple[Cell, ...]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """A deployment from its creation to its deletion: its place in the design, and the cells with their repeat in the
    order in which they are measured.
    """

    number: int
    cells: tuple[tuple[Cell, int], ...]


def design(bench: Bench) -> tuple[DesignedDeployment, ...]:
    """Each variant on each instance type with each combination of recipe keys. UsageRefused of a design that
    contradicts itself.
    """
    matrix = dict(bench.matrix)
    keys = {name: values for name, values in matrix.items() if name not in WORKLOAD}
    found = []
    for variant in bench.variants or (BenchVariant(name=""),):
        for instance in bench.instance_types or ("",):
            for values in product(*keys.values()):
                chosen = dict(zip(keys, values, strict=True))
                found.append(_deployment(bench, variant, instance, chosen))
    _check(bench, found)
    return tuple(found)


def _deployment(
    bench: Bench, variant: BenchVariant, instance: str, chosen: Mapping[str, str]
) -> DesignedDeployment:
    own = {name: _typed(value) for name, value in variant.factors}
    factors: dict[str, Factor] = own or ({"variant": variant.name} if variant.name else {})
    factors |= {"instance": instance} if instance else {}
    factors |= {name.rpartition(".")[2]: _typed(value) for name, value in chosen.items()}
    sets = [f"{key}={value}" for key, value in variant.sets]
    sets += [f"instance_type={instance}"] if instance else []
    sets += [f"{key}={value}" for key, value in chosen.items()]
    place = {name: value for name, value in factors.items() if name not in WORKLOAD}
    return DesignedDeployment(
        variant=variant,
        overrides=tuple(sets),
        cells=tuple(_cells(bench, factors)),
        label=", ".join(_words(name, value) for name, value in place.items()) or "this recipe",
    )


def _words(name: str, value: Factor) -> str:
    return value if isinstance(value, str) else f"{name}={value}"


def _cells(bench: Bench, factors: Mapping[str, Factor]) -> Iterator[Cell]:
    """All combinations of the workload; a variant's own factor takes the place of the experiment's."""
    given = {name: (getattr(bench, name),) for name in WORKLOAD if getattr(bench, name) is not None}
    swept = {name: tuple(map(_typed, values)) for name, values in bench.matrix if name in WORKLOAD}
    fixed = {name: (factors[name],) for name in WORKLOAD if name in factors}
    levels = {**given, **swept, **fixed}
    if "rate" in swept or ("rate" in levels and "concurrency" not in swept):
        levels.pop("concurrency", None)
    elif "rate" not in levels:
        levels.setdefault("concurrency", (1,))
    for values in product(*levels.values()):
        chosen = dict(zip(levels, values, strict=True))
        load = _load(chosen, bench)
        always = () if load.ramp else LOADS
        shown = {name: chosen[name] for name in chosen if name in swept or name in fixed or name in always}
        yield Cell(
            factors={**factors, **shown},
            load=load,
            input_tokens=_count("input_tokens", chosen),
            output_tokens=_count("output_tokens", chosen),
            batch=_count("batch", chosen),
        )


def _load(chosen: Mapping[str, Factor], bench: Bench) -> Load:
    steady = _steady_load(chosen, bench)
    if bench.ramp_to is None:
        return steady
    try:
        return with_ramp(steady, bench.ramp_to, bench.ramp_steps, seconds=bench.duration)
    except UsageRefused as error:
        raise _refused("ramp_to", error.message, error.hint) from None


def _steady_load(chosen: Mapping[str, Factor], bench: Bench) -> Load:
    if "rate" not in chosen:
        return Load(kind="closed", concurrency=_count("concurrency", chosen))
    rate = chosen["rate"]
    if isinstance(rate, str) or not 0 < rate <= 100_000:
        raise _refused("matrix.rate", f"{rate} is no rate", "write requests a second, such as 2.5")
    return Load(kind="open", rate=float(rate), arrivals=bench.arrivals)


def _count(name: str, chosen: Mapping[str, Factor]) -> int | None:
    value = chosen.get(name)
    if value is None:
        return None
    most = 1_000_000 if name.endswith("_tokens") else 4096
    if not isinstance(value, int) or not 1 <= value <= most:
        raise _refused(name, f"{value} is not a whole number from 1 to {most}", "correct the value")
    return value


def _typed(text: str) -> Factor:
    """Numbers as such: tables order and average them."""
    if not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def _check(bench: Bench, found: Sequence[DesignedDeployment]) -> None:
    cells = [cell for deployment in found for cell in deployment.cells]
    if len(cells) * bench.repeats > MOST_CELLS:
        what = f"{len(cells)} cells x {bench.repeats} repeats"
        raise _refused("matrix", what, f"use at most {MOST_CELLS}")
    if bench.rate is not None and bench.concurrency is not None:
        raise _refused("rate", "cannot be combined with concurrency", "use one of them")
    swept = {name for name, _ in bench.matrix}
    if {*LOADS} <= swept:
        raise _refused("matrix", "concurrency and rate cannot be combined", "use one kind of load")
    if bench.exact and any(cell.output_tokens is None for cell in cells):
        raise _refused("exact", "needs a length", "add output_tokens")
    _check_ramp(bench, swept)
    names = [cell.name for cell in cells]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise _refused("variants", f"two cells are called {twice}", "give them different factors")
    values = dict.fromkeys(str(value) for cell in cells for value in cell.factors.values())
    if bench.baseline is not None and bench.baseline not in values:
        hint = f"use one of {', '.join(values)}" if len(values) < 20 else "name a variant"
        raise _refused("baseline", f"{bench.baseline} is no value of a factor", hint)


def _check_ramp(bench: Bench, swept: AbstractSet[str]) -> None:
    """A ramp is one run of many loads."""
    if bench.ramp_to is None:
        if bench.ramp_steps is not None:
            raise _refused("ramp_steps", "has no effect without ramp_to", "add ramp_to")
        return
    others = [("objectives", bench.objectives), ("requests", bench.requests), ("repeats", bench.repeats > 1)]
    used = [name for name, value in others if value] + sorted({*LOADS} & swept)
    if used:
        what = f"cannot be combined with {used[0]}: a ramp is one run of many loads, as long as duration"
        raise _refused("ramp_to", what, "omit one of them")


def _refused(key: str, what: str, hint: str) -> UsageRefused:
    return UsageRefused(f"bench.{key}: {what}", hint=hint)


def stays(bench: Bench, deployments: Sequence[DesignedDeployment]) -> tuple[Stay, ...]:
    """The same seed has the same order. Interleaved, a repeat is a round of all deployments: what changes with time (a
    busy network, a warmer machine) is not taken for an effect of a variant.
    """
    if bench.order == "blocked":
        rounds = range(bench.repeats)
        return tuple(
            Stay(number=number, cells=tuple((cell, turn) for turn in rounds for cell in one.cells))
            for number, one in enumerate(deployments)
        )
    chance = random.Random(bench.seed)
    found = []
    for turn in range(bench.repeats):
        numbers = chance.sample(range(len(deployments)), len(deployments))
        for number in numbers:
            cells = chance.sample(deployments[number].cells, len(deployments[number].cells))
            found.append(Stay(number=number, cells=tuple((cell, turn) for cell in cells)))
    return tuple(found)
