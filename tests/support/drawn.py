"""Figures of every kind, also of awkward data: one point, zeros, gaps, huge ranges, many clients,
long names. Each is a function that draws when it is called."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fedcell import (
    GivenLaw,
    Limits,
    Region,
    Scenario,
    Target,
    compare,
    load_pilot,
    plan_training,
    schedule_round,
)
from fedcell.core.estimates import Estimate
from fedcell.deploy.exchanges import Exchange, ExchangeReport
from fedcell.deploy.testbed.uploads import MeasuredUpload, TestbedReport
from fedcell.experiments.league.league import Entry, EntryRun, League, Limit
from fedcell.experiments.table import SweepTable
from fedcell.network import (
    draw_fleet,
    draw_trace,
    fit_device,
    link_curve,
    load_round,
    simulate_network,
    sweep_costs,
)
from fedcell.network.ledger import Ledger
from fedcell.network.schedule import RoundOf
from fedcell.paper.reproduce import load_reproduction
from fedcell.planning.choice.plan import PlanOutcome, PredictionCheck
from fedcell.planning.constants import ConstantsReport, MeasuredConstants
from fedcell.planning.pilot.validation import SettingCheck
from fedcell.planning.setting import Setting
from fedcell.policies import make_problem
from fedcell.show.figures import (
    devices,
    exchanges,
    links,
    paper,
    partitions,
    plans,
    rounds,
    runs,
    sweeps,
    testbeds,
)
from fedcell.show.figures.curves import RunsDrawing
from support.piloted import PILOT, piloted_digits

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
LONG = "sensor-behind-the-boiler-in-the-north-wing-of-building-"
POLICIES = ["even", "distributed", "equal-finish", "optimal-staged", "optimal"]

Cases = Mapping[Callable[..., Any], Mapping[str, Callable[[], Any]]]


def ledger(loss: Any, accuracy: Any = None, slower: float = 1.0, each: float = 10.0) -> Ledger:
    """Rounds with given losses, in which each takes some seconds and joules."""
    loss = np.asarray(loss, float)
    t = each * slower * (1 + 0.2 * np.sin(np.arange(loss.size)))
    known = np.empty(0) if accuracy is None else np.asarray(accuracy, float)
    found = simulate_network(Scenario(), "even", loss.size)
    return replace(found, duration=t, energy=3 * t, train_loss=loss, accuracy=known)


def falling(count: int, high: float = 2.3, low: float = 0.2) -> Any:
    return np.geomspace(high, low, count) * (1 + 0.05 * np.sin(7 * np.arange(count)))


def one_run(loss: Any, accuracy: Any = None, policies: int = 3, **more: Any) -> dict[str, Ledger]:
    return {
        name: ledger(loss, accuracy, 1 + 0.3 * i, **more)
        for i, name in enumerate(POLICIES[:policies])
    }


def run_cases() -> dict[str, Callable[[], Any]]:
    gaps = falling(30)
    gaps[[3, 4, 10, 11, 12, 29]] = np.nan
    wild = falling(40, 1e6, 1e-9)
    diverged = np.r_[falling(10), 1e30, np.inf, np.nan]
    high = 1 - 0.8 * np.exp(-np.arange(30) / 10)
    draw = runs.run_figure
    return {
        "plain": lambda: draw(one_run(falling(30)), Target(loss=0.5)),
        "accuracy": lambda: draw(one_run(falling(30), high, 5), Target(loss=0.25)),
        "target accuracy": lambda: draw(one_run(falling(30), high), Target(accuracy=0.9)),
        "one round": lambda: draw(one_run([2.3], [0.1])),
        "one round, target": lambda: draw(one_run([2.3], [0.1]), Target(loss=0.01)),
        "two rounds": lambda: draw(one_run([2.3, 2.2])),
        "at once": lambda: draw(one_run(falling(200)), Target(loss=5.0, hold=1)),
        "narrow": lambda: draw(one_run(np.linspace(2.31, 2.29, 50)), Target(loss=2.3)),
        "flat": lambda: draw(one_run(np.full(20, 0.693))),
        "gaps": lambda: draw(one_run(gaps), Target(loss=0.4)),
        "no loss at all": lambda: draw(one_run(np.full(9, np.nan))),
        "zeros": lambda: draw(one_run(np.r_[falling(10), np.zeros(10)]), Target(loss=0.1)),
        "huge range": lambda: draw(one_run(wild), Target(loss=1e-3)),
        "diverged": lambda: draw(one_run(diverged), Target(loss=0.5)),
        "long": lambda: draw(one_run(falling(2000), each=1e5), Target(loss=0.3)),
        "fast": lambda: draw(one_run(falling(20), each=1e-7), Target(loss=0.3)),
        "far target": lambda: draw(one_run(falling(20)), Target(loss=1e-4)),
        "target above": lambda: draw(one_run(falling(20)), Target(loss=300.0, hold=1)),
        "adaptive": lambda: draw(one_run(falling(30)), Target(loss=0.3), changes=[6, 11, 16]),
        "long names": lambda: draw(
            {f"{LONG}{i}": ledger(falling(9), slower=i) for i in (1, 2, 3)}, Target(loss=0.3)
        ),
        "many policies": lambda: draw(
            {f"policy {i}": ledger(falling(9), slower=i) for i in range(1, 13)}
        ),
        "one column": lambda: draw(one_run(falling(30), high, 5), Target(loss=0.25), columns=1),
        "two columns": lambda: draw(one_run(falling(30), high, 5), Target(loss=0.25), columns=2),
    }


def seeds_cases() -> dict[str, Callable[[], Any]]:
    def several(count: int, lengths: Any, **more: Any) -> RunsDrawing:
        every = [
            one_run(falling(length) * (1 + 0.2 * i), 1 - falling(length) / 4)
            for i, length in zip(range(count), lengths, strict=True)
        ]
        return RunsDrawing(every, Target(loss=0.5), **more)

    return {
        "plain": lambda: runs.runs_figure(several(4, [30] * 4)),
        "two of other lengths": lambda: runs.runs_figure(several(2, [30, 9])),
        "many": lambda: runs.runs_figure(several(12, range(20, 32))),
        "one round": lambda: runs.runs_figure(several(3, [1, 1, 1])),
        "one column": lambda: runs.runs_figure(several(4, [30] * 4), columns=1),
    }


@cache
def costs(*policies: str, count: int = 3, spreads: Any = None, **changes: Any) -> Any:
    return sweep_costs(Scenario().using(**changes), list(policies), spreads, rounds=count)


def renamed(comparison: Any) -> Any:
    policies = [replace(p, policy=f"{LONG}{i}") for i, p in enumerate(comparison.policies)]
    return replace(comparison, policies=tuple(policies))


def with_long_names(sweep: Any) -> Any:
    points = [replace(p, comparison=renamed(p.comparison)) for p in sweep.points]
    return replace(sweep, points=tuple(points))


def cost_cases() -> dict[str, Callable[[], Any]]:
    draw = rounds.cost_figure
    return {
        "five policies": lambda: draw(costs(*POLICIES)),
        "cheapest first": lambda: draw(costs(*POLICIES[::-1])),
        "two spreads": lambda: draw(costs("distributed", "even", spreads=(0.1, 0.5))),
        "one policy": lambda: draw(costs("optimal")),
        "one round": lambda: draw(costs("optimal", "even", count=1)),
        "long names": lambda: draw(with_long_names(costs("optimal", "even", "distributed"))),
    }


def comparison_cases() -> dict[str, Callable[[], Any]]:
    def zeros(found: Any) -> Any:
        policies = [
            replace(p, mean={name: Estimate(0.0, 0.0, 0.0) for name in p.mean})
            for p in found.policies
        ]
        return replace(found, policies=tuple(policies))

    @cache
    def few() -> Any:
        return compare(Scenario(), ["even", "optimal"], rounds=3)

    draw = rounds.comparison_figure
    return {
        "five policies": lambda: draw(compare(Scenario(), POLICIES, rounds=3)),
        "one policy": lambda: draw(compare(Scenario(), ["even"], rounds=3)),
        "one round": lambda: draw(compare(Scenario(), ["even", "optimal"], rounds=1)),
        "long names": lambda: draw(renamed(few())),
        "zeros": lambda: draw(zeros(few())),
    }


def powered(clients: int) -> Any:
    """One round with powers over seven decades, or all the same."""
    found = scheduled(clients, "pump-")
    power = np.logspace(-6, 1, clients) if clients > 1 else np.array([0.2])
    return replace(found, schedule=replace(found.schedule, power=power))


def scheduled(clients: int, name: str = "") -> Any:
    world = Scenario().using(
        cell={"gain_threshold": 0.0},
        clients={"count": max(clients, 2), "min_samples": 0},
        plan={"cohort": clients},
    )
    fleet = draw_fleet(world)
    found = schedule_round(
        make_problem(world, fleet, draw_trace(world, fleet, rounds=1))[0], "even"
    )
    if not name:
        return found
    names = tuple(f"{name}{i}" for i in range(clients))
    of = RoundOf(round=1, seed=0, clients=tuple(range(clients)), names=names, broadcast_time=0.0)
    return replace(found, of=of)


def schedule_cases() -> dict[str, Callable[[], Any]]:
    draw = rounds.schedule_figure
    return {
        "plain": lambda: draw(schedule_round(load_round(ROOT / "docs" / "round.json"))),
        "powers": lambda: draw(
            schedule_round(load_round(ROOT / "docs" / "round.json"), "optimal-power")
        ),
        "powers of one client": lambda: draw(powered(1)),
        "powers of many clients": lambda: draw(powered(40)),
        "one client": lambda: draw(scheduled(1)),
        "one client, named": lambda: draw(scheduled(1, "pump-")),
        "many clients": lambda: draw(scheduled(150)),
        "long names": lambda: draw(scheduled(30, LONG)),
    }


def ledger_cases() -> dict[str, Callable[[], Any]]:
    def of(durations: Any) -> Any:
        found = simulate_network(Scenario(), "even", len(durations))
        t = np.asarray(durations, float)
        return rounds.ledger_figure(replace(found, duration=t, energy=7 * t))

    return {
        "plain": lambda: of(10 + np.sin(np.arange(40))),
        "one round": lambda: of([12.0]),
        "zeros": lambda: of(np.zeros(5)),
        "huge range": lambda: of(np.geomspace(1e-3, 1e9, 30)),
    }


def partition_cases() -> dict[str, Callable[[], Any]]:
    def of(clients: int, classes: int, name: str = "", spread: float = 0.3) -> Any:
        rng = np.random.default_rng(1)
        counts = np.rint(40 * rng.lognormal(0, 2, (clients, classes)) * spread).astype(int)
        counts[0, 0] += 5
        names = [f"{name}{i}" for i in range(clients)] if name else None
        return partitions.partition_figure(counts, "digits, dirichlet, even sizes", names)

    return {
        "plain": lambda: of(20, 10),
        "one client": lambda: of(1, 10),
        "one class": lambda: of(8, 1),
        "many clients": lambda: of(3000, 10),
        "many classes": lambda: of(12, 200),
        "named": lambda: of(8, 10, "pump-"),
        "long names": lambda: of(30, 10, LONG),
        "hardly any": lambda: of(6, 3, spread=0.0),
    }


@cache
def digits_plan(**more: Any) -> Any:
    return plan_training(piloted_digits(), load_pilot(PILOT), **more)


def by_law(clients: int = 100, start: float = 40.0, steps: Any = None, **more: Any) -> Any:
    law = GivenLaw(mixing=30, drift=0.5, start=start)
    world = Scenario().using(clients={"count": clients}, plan={"cohort": min(10, clients)})
    return plan_training(world, law, **more, region=Region(steps=steps, policy="even"))


def beyond_the_grid() -> Any:
    """A plan of few settings, beyond which the paper's choice lies."""
    plan = by_law(steps=(5, 40))
    return replace(plan, paper=replace(plan.paper, local_steps=90, cohort=120))


def plan_cases() -> dict[str, Callable[[], Any]]:
    draw = plans.plan_figure
    return {
        "far off": lambda: draw(beyond_the_grid()),
        "pilot": lambda: draw(digits_plan()),
        "limits": lambda: draw(digits_plan(limits=Limits(deadline=50.0))),
        "law": lambda: draw(by_law(steps=(1, 40))),
        "few clients": lambda: draw(by_law(2, steps=(1, 5))),
        "one client": lambda: draw(by_law(1, steps=(1, 5))),
        "many steps": lambda: draw(by_law(1000, start=1e9)),
    }


def check(measured: float, value: float, low: float, high: float) -> SettingCheck:
    return SettingCheck(
        setting=Setting(5, 10, 0.0),
        runs=3,
        missed=0,
        diverged=0,
        measured=measured,
        predicted=Estimate(value, low, high),
        runs_inside=1.0,
    )


def checks_cases() -> dict[str, Callable[[], Any]]:
    def of(*checks: SettingCheck) -> Any:
        return plans.checks_figure(checks, "digits: the law and the pilot's own runs")

    return {
        "pilot": lambda: load_pilot(PILOT).plot(),
        "one": lambda: of(check(30, 31, 25, 40)),
        "measured far below": lambda: of(check(1, 50, 45, 60), check(20, 21, 18, 25)),
        "huge range": lambda: of(check(1, 1, 1, 2), check(1e6, 9e5, 1e4, 1e8)),
        "narrow": lambda: of(check(30, 31, 30, 32), check(33, 31, 30.5, 31.5)),
    }


def law_cases() -> dict[str, Callable[[], Any]]:
    return {
        "plain": lambda: plans.law_figure(load_pilot(PILOT).fit()),
        "losses": lambda: plans.law_figure(load_pilot(PILOT).fit(), loss_rate=0.9),
    }


def prediction(policy: str, measure: str, predicted: Estimate, taken: float) -> PredictionCheck:
    return PredictionCheck(policy=policy, measure=measure, predicted=predicted, taken=taken)


def outcome_cases() -> dict[str, Callable[[], Any]]:
    def of(count: int, name: str = "optimal", taken: float = 1.1, low: float = 0.8) -> Any:
        checks = [
            prediction(f"{name}{i}", measure, Estimate(50.0, 50 * low, 65.0), 50 * taken ** (i + 1))
            for i in range(count)
            for measure in ("rounds", "duration", "energy", "cost")
        ]
        return plans.outcome_figure(PlanOutcome(measured=tuple(checks)))

    return {
        "plain": lambda: of(2),
        "one": lambda: plans.outcome_figure(
            PlanOutcome(measured=(prediction("even", "rounds", Estimate(3.0, 2, 4), 3.0),))
        ),
        "many": lambda: of(12, taken=1.02),
        "long names": lambda: of(2, LONG),
        "far off": lambda: of(1, taken=1e6),
        "no interval": lambda: of(1, low=float("nan")),
    }


def constants_cases() -> dict[str, Callable[[], Any]]:
    def of(at: Any, diversities: Any, ratios: Any) -> Any:
        measured: Any = MeasuredConstants(
            constants=None,  # type: ignore[arg-type]  # not drawn
            estimates=(),
            rounds=list(at),
            losses=list(diversities),
            diversities=list(diversities),
            pl_ratios=list(ratios),
        )
        return plans.constants_figure(
            ConstantsReport(
                name="digits", measured=measured, target=None, theorem_1=None, rounds_taken=None
            )
        )

    return {
        "plain": lambda: of([0, 1, 2, 4, 8, 16], [47, 24, 14, 6, 7, 10], np.geomspace(3e-3, 1, 6)),
        "one point": lambda: of([0], [3.0], [0.1]),
        "zeros": lambda: of([0, 1, 2], [3.0, 2.0, 1.0], [0.1, 0.0, 0.2]),
        "gaps": lambda: of([0, 1, 2], [3.0, np.nan, 1.0], [0.1, np.inf, 0.2]),
        "narrow": lambda: of([0, 1, 2], [1.0, 1.01, 1.02], [0.11, 0.12, 0.13]),
        "rounding": lambda: of([0, 1, 2], [1.25, 1.25 + 1e-15, 1.25 - 1e-15], [2.0] * 3),
        "huge range": lambda: of([0, 1, 2], [1.0, 1e9, 1e18], [1e-30, 1.0, 1e5]),
    }


def swept(axes: Mapping[str, Any], law: Callable[..., float], seeds: int = 3, **more: Any) -> Any:
    from itertools import product

    rng = np.random.default_rng(2)
    every = []
    for values in product(*axes.values()):
        labels = dict(zip(axes, values, strict=True))
        for seed in range(seeds):
            g = law(labels) * rng.lognormal(0, 0.1)
            reached = None if g > 150 else int(g) + 1
            row = {"seed": seed, "target": 0.5, "rounds_to_target": reached, "hold": 5}
            row |= {"rounds_to_hold": reached, "rounds": 150, "energy": g, "staged_cost": g}
            every.append(labels | row)
    title = "Rounds to the target over clients a round, " + "for several skews of the data, " * 2
    return SweepTable(
        title=title, axes=axes, seeds=range(seeds), rounds=150, hold=5, runs=every, **more
    )


def sweep_cases() -> dict[str, Callable[[], Any]]:
    def draw(table: SweepTable, **options: Any) -> Any:
        return sweeps.sweep_figure(table, **options)

    k = {"plan.cohort": [1, 5, 10, 20, 50]}
    named = {"variant": [f"{LONG}{i}" for i in range(4)]}
    many = {"variant": [f"skew {i}" for i in range(15)], "cell.loss_rate": [0.0, 0.1]}

    def g(p: Any) -> float:
        return 10 + 200 / p["plan.cohort"]

    return {
        "plain": lambda: draw(swept({"clients.count": [50, 100]} | k, g)),
        "cut": lambda: draw(swept({"clients.count": [50, 100]} | k, lambda p: 4 * g(p))),
        "none arrived": lambda: draw(swept(k, lambda _: 1e9)),
        "two points": lambda: draw(swept({"plan.cohort": [5, 10]}, g)),
        "one seed": lambda: draw(swept(k, g, seeds=1)),
        "long names": lambda: draw(swept(named | k, g)),
        "many lines": lambda: draw(swept(many | k, g)),
        "energy": lambda: draw(swept(k, g), by="energy"),
        "one column": lambda: draw(swept(named | k, g), columns=1),
        "two columns": lambda: draw(swept({"clients.count": [50, 100]} | k, g), columns=2),
        "one column, many lines": lambda: draw(swept(many | k, g), columns=1),
    }


def paper_cases() -> dict[str, Callable[[], Any]]:
    """The others are committed, and tested where they are compared with what is committed."""
    skew = cache(lambda: load_reproduction(RESULTS / "skew"))
    return {
        "skew": lambda: paper.panel_figure(skew()),
        "skew, two columns": lambda: paper.panel_figure(skew(), columns=2),
        "skew, energy": lambda: paper.panel_figure(skew(), by="train_loss"),
    }


def exchange(round: int, client: int, name: str, model: float, clock: float) -> Exchange:
    return Exchange(
        round=round,
        client=client,
        name=name,
        outcome="arrived",
        share=0.5,
        modelled_upload=model,
        measured_upload=clock,
        measured_waiting=2 * clock,
        measured_training=clock / 2,
    )


def exchange_cases() -> dict[str, Callable[[], Any]]:
    def of(devices: int, name: str = "pump-", model: float = 1.0, clock: float = 1.5) -> Any:
        lines = [
            exchange(t, j, f"{name}{j}", model * (1 + j / 7), clock * (1 + j / 5) * (1 + t / 9))
            for t in (1, 2, 3)
            for j in range(devices)
        ]
        return exchanges.exchanges_figure(ExchangeReport(exchanges=tuple(lines)))

    single = (exchange(1, 0, "pump", 1.0, 1.0),)
    far = tuple(exchange(1, j, f"pump-{j}", 10.0 ** (3 * j - 6), 10.0**-j) for j in range(4))
    return {
        "plain": lambda: of(6),
        "one upload": lambda: exchanges.exchanges_figure(ExchangeReport(exchanges=single)),
        "many devices": lambda: of(60),
        "long names": lambda: of(20, LONG),
        "same times": lambda: of(3, model=1e-9, clock=1e-9),
        "huge range": lambda: exchanges.exchanges_figure(ExchangeReport(exchanges=far)),
        "no upload": lambda: exchanges.exchanges_figure(
            ExchangeReport(exchanges=(replace(single[0], measured_upload=None),))
        ),
        "zeros": lambda: of(3, clock=0.0),
    }


def league(
    count: int, seeds: int = 4, name: str = "rule", loss: Any = None, same: bool = False
) -> League:
    """A league of entries with losses that fall, each a little faster than the one before."""
    curve = falling(30) if loss is None else np.asarray(loss, float)

    def run(place: int, seed: int) -> EntryRun:
        noise = 0.0 if same else 0.1 * np.sin(3 * seed + place)
        times = (1 + noise) * np.arange(1.0, curve.size + 1) * (1 + 0.2 * place)
        return EntryRun(
            seed=seed,
            rounds=curve.size,
            seconds=float(times[-1]),
            joules=2 * float(times[-1]),
            done=curve.size,
            total_seconds=float(times[-1]),
            total_joules=2 * float(times[-1]),
            accuracy=0.9,
            train_loss=float(curve[-1]),
            jain_calls=0.9,
            jain_joules=0.8,
            vain_joules=0.0,
            times=times,
            values=curve,
        )

    entries = tuple(
        Entry(select=f"{name}-{i}", policy="even", runs=tuple(run(i, s) for s in range(seeds)))
        for i in range(count)
    )
    target = Target(loss=max(float(curve[-1]), 1e-3))
    return League(entries=entries, seeds=tuple(range(seeds)), target=target, limit=Limit())


def league_cases() -> dict[str, Callable[[], Any]]:
    draw = sweeps.league_figure
    return {
        "plain": lambda: draw(league(4)),
        "two columns": lambda: draw(league(4), columns=2),
        "one column": lambda: draw(league(4), columns=1),
        "one entry": lambda: draw(league(1)),
        "one seed": lambda: draw(league(3, seeds=1)),
        "one round": lambda: draw(league(3, loss=[1.5])),
        "many": lambda: draw(league(20)),
        "long names": lambda: draw(league(5, name=LONG)),
        "all the same": lambda: draw(league(3, same=True)),
        "gaps": lambda: draw(league(2, loss=[2.0, np.nan, 1.0, np.nan, 0.5])),
        "zeros": lambda: draw(league(2, loss=np.zeros(4))),
    }


def device_cases() -> dict[str, Callable[[], Any]]:
    def of(clocks: Any, batches: Any = (1, 8), scale: float = 1.0, **kept: Any) -> Any:
        f, b = (x.ravel() for x in np.meshgrid(np.repeat(np.asarray(clocks, float), 2), batches))
        off = 1 + 0.01 * np.sin(7.0 * np.arange(f.size))
        columns: dict[str, Any] = {"clock_ghz": f, "batch": b, "steps": np.ones(f.size)}
        columns["seconds"] = scale * ((1 + 0.2 * b) / f + 0.05 * b) * off
        columns["watts"] = scale * (3 + 0.5 * f**3) * off[::-1]
        columns = {name: [*cells, None] for name, cells in columns.items()}
        columns["watts"][-1] = 2.0 * scale
        return devices.device_figure(
            fit_device({name: c for name, c in columns.items() if kept.get(name, True)})
        )

    return {
        "plain": lambda: of([0.6, 1.0, 1.4, 1.8]),
        "many clocks and batches": lambda: of(np.linspace(0.4, 2, 12), np.arange(1, 12)),
        "one clock": lambda: of([1.0]),
        "no seconds": lambda: of([0.6, 1.0, 1.4], seconds=False, batch=False, steps=False),
        "huge range": lambda: of([0.6, 1.0, 1.4], scale=1e9),
        "tiny": lambda: of([0.6, 1.0, 1.4], scale=1e-9),
        "flat out": lambda: of([0.3, 0.5, 0.7]),
        "as many as unknowns": lambda: devices.device_figure(
            fit_device({"clock_ghz": [1.0, 1.5, 2.0], "watts": [3.0, 4.0, 6.0]})
        ),
    }


def testbed_cases() -> dict[str, Callable[[], Any]]:
    def upload(modelled: float, link: float, flower: float, rate: float) -> MeasuredUpload:
        return MeasuredUpload(
            round=1,
            client=0,
            name="pump",
            rate=rate,
            cpu=0.5,
            modelled=modelled,
            link=link,
            bytes=250_000,
            flower=flower,
            modelled_training=1.0,
            training=1.1,
        )

    def of(*uploads: MeasuredUpload) -> Any:
        return testbeds.testbed_figure(
            TestbedReport(uploads=uploads, bits=2e6, policy="even", limited=True)
        )

    return {
        "plain": lambda: of(*(upload(t, 1.05 * t, 1 + 1.2 * t, 1e7 / t) for t in (0.5, 2, 9, 20))),
        "one": lambda: of(upload(2.0, 2.1, 3.0, 1e6)),
        "none": of,
        "far off": lambda: of(upload(1.0, 9.0, 90.0, 1e3), upload(1.0, 0.01, 0.02, 1e9)),
    }


def link_cases() -> Mapping[str, Callable[[], Any]]:
    worlds: dict[str, dict[str, Any]] = {
        "steps of NR": {"radio": {"rate_table": "nr-256qam"}},
        "tones": {"radio": {"rate_table": "nb-iot"}, "cell": {"bandwidth": 180e3}},
        "one step": {
            "radio": {"rate_table": "802.15.4", "access": "time"},
            "cell": {"bandwidth": 5e6},
        },
        "spreading factors": {
            "radio": {"rate_table": "lora", "access": "time"},
            "cell": {"bandwidth": 125e3},
        },
        "Shannon alone": {},
        "a gap and a cap": {"radio": {"gap_db": 3.0, "spectral_cap": 5.55}},
    }

    def draw(name: str) -> Any:
        return links.link_figure(link_curve(Scenario().using(**worlds[name])))

    return {name: partial(draw, name) for name in worlds}


def every_case() -> Cases:
    """By the function that draws it, and by name."""
    return {
        rounds.cost_figure: cost_cases(),
        rounds.comparison_figure: comparison_cases(),
        rounds.schedule_figure: schedule_cases(),
        rounds.ledger_figure: ledger_cases(),
        runs.run_figure: run_cases(),
        runs.runs_figure: seeds_cases(),
        partitions.partition_figure: partition_cases(),
        plans.plan_figure: plan_cases(),
        plans.checks_figure: checks_cases(),
        plans.law_figure: law_cases(),
        plans.outcome_figure: outcome_cases(),
        plans.constants_figure: constants_cases(),
        sweeps.sweep_figure: sweep_cases(),
        sweeps.league_figure: league_cases(),
        paper.panel_figure: paper_cases(),
        exchanges.exchanges_figure: exchange_cases(),
        links.link_figure: link_cases(),
        testbeds.testbed_figure: testbed_cases(),
        devices.device_figure: device_cases(),
    }
