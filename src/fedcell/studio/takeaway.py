"""Take an answer along: files, the command line, and the Python lines that give the same plan."""

import io
import shlex
from pathlib import Path
from typing import Any

from fedcell.core.errors import BadInput
from fedcell.core.files.checksums import sealed
from fedcell.core.files.formats import as_json
from fedcell.scenario.save import commented, plain_tables
from fedcell.scenario.scenario import Scenario
from fedcell.show.drawing import figure
from fedcell.show.figures import style

from .asked import Asked, changed, completed
from .planning import PlanningView

PICTURES = {"png": "image/png", "svg": "image/svg+xml"}


class Download:
    """Bytes with a type and a name."""

    def __init__(self, content: bytes, kind: str, name: str) -> None:
        self.content, self.kind, self.name = content, kind, name


def take(view: PlanningView, asked: Asked, what: str) -> Download | dict[str, Any]:
    """Return one form of an answer: toml, plan, png, svg, or the words of `words`."""
    if what == "words":
        return words(view, asked)
    if what == "toml":
        text = scenario_text(changed(view.world.scenario, asked.changes))
        return Download(text.encode(), "application/toml", scenario_file(view))
    if what == "plan":
        text = as_json(sealed(view.plan(asked).to_dict()))
        return Download(text.encode(), "application/json", "plan.json")
    if what in PICTURES:
        return Download(drawn(view.plan(asked), what), PICTURES[what], f"plan.{what}")
    raise BadInput("what: expected toml, plan, png, svg or words")


def drawn(result: Any, ending: str, **options: Any) -> bytes:
    """Return the figure of a result as a file's bytes."""
    content = io.BytesIO()
    with style.drawing():
        figure(result, **options).savefig(
            content,
            format=ending,
            dpi=style.DPI,
            metadata={"Date": None} if ending == "svg" else {},
        )
    return content.getvalue()


def scenario_text(scenario: Scenario) -> str:
    """Return a scenario as commented TOML."""
    if scenario.cell.recorded is not None:
        raise BadInput(
            "this scenario has measured gains, which are a file of their own: copy its file, and "
            "change the keys there"
        )
    return commented(scenario)


def scenario_file(view: PlanningView) -> str:
    """Return the name of the file of a changed scenario."""
    return f"{Path(view.world.name).stem}-changed.toml"


def words(view: PlanningView, asked: Asked) -> dict[str, Any]:
    """Return the command line and the Python lines that give the same plan."""
    others = {k: v for k, v in asked.changes.items() if k != "cell.loss_rate"}
    return {
        "command": shlex.join(command(view, asked)),
        "python": python(view, asked),
        "needs": scenario_file(view) if _changed_file(view, others) else None,
    }


def _changed_file(view: PlanningView, others: dict[str, Any]) -> bool:
    """Tell whether the scenario must be saved to be named on a command line."""
    return bool(others) or not view.world.is_named


def command(view: PlanningView, asked: Asked) -> list[str]:
    """Return the words of the command line."""
    others = {k: v for k, v in asked.changes.items() if k != "cell.loss_rate"}
    name = scenario_file(view) if _changed_file(view, others) else view.world.name
    said = ["fedcell", "plan", name]
    law = asked.given_law
    if law is None:
        said += ["--pilot", str(view.pilot_path(asked))]
    else:
        said += [w for n, v in law.to_dict().items() if n != "form" for w in (f"--{n}", _text(v))]
    options: dict[str, Any] = {
        "policy": asked.policy,
        "minimise": asked.minimise if asked.minimise != "cost" else None,
        "target": None if asked.target is None else f"{asked.metric}={_text(asked.target)}",
        "loss-rate": asked.changes.get("cell.loss_rate"),
        "deadline": None if asked.deadline is None else f"{_text(asked.deadline)}s",
        "energy-budget": None if asked.energy is None else f"{_text(asked.energy)}J",
        "confidence": asked.limits.confidence,
        "clients": None if asked.cohort is None else f"{asked.cohort}..{asked.cohort}",
        "steps": None if asked.local_steps is None else f"{asked.local_steps}..{asked.local_steps}",
        "seed": asked.seed or None,
    }
    if asked.energy is not None and asked.energy_per_client is not None:
        raise BadInput("the command line takes one energy budget: of all clients, or of one")
    if asked.energy_per_client is not None:
        options["energy-budget"] = f"{_text(asked.energy_per_client)}J/client"
    return said + [
        word for n, v in options.items() if v is not None for word in (f"--{n}", _text(v))
    ]


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def python(view: PlanningView, asked: Asked) -> str:
    """Return the lines of Python that give the same plan."""
    law, limits = asked.given_law, asked.limits.given()
    shown = {
        "clients": None if asked.cohort is None else (asked.cohort, asked.cohort),
        "steps": None if asked.local_steps is None else (asked.local_steps, asked.local_steps),
        "minimise": asked.minimise if asked.minimise != "cost" else None,
        "policy": asked.policy,
        "other_loss_rate": asked.loss_rate_changed or None,
    }
    region = ", ".join(f"{n}={v!r}" for n, v in shown.items() if v is not None)
    imports = ["GivenLaw"] if law else []
    imports += (["Limits"] if limits else []) + (["Region"] if region else [])
    imports += ["Target"] if asked.target is not None else []
    imports += [*([] if law else ["load_pilot"]), "load_scenario", "plan_training"]
    lines = [f"from fedcell import {', '.join(imports)}", ""]
    named = view.world.is_named
    lines.append(f"scenario = load_scenario({view.world.name if named else scenario_file(view)!r})")
    if named and (using := _using(view, asked.changes)):
        lines.append(f"scenario = scenario.using({', '.join(using)})")
    if law is None:
        lines.append(f"source = load_pilot({str(view.pilot_path(asked))!r})")
    else:
        given = {n: v for n, v in law.to_dict().items() if n != "form"}
        lines.append(f"source = GivenLaw({', '.join(f'{n}={v!r}' for n, v in given.items())})")
    more = [f"    region=Region({region}),"] if region else []
    if limits:
        more.append(f"    limits=Limits({', '.join(f'{n}={v!r}' for n, v in limits.items())}),")
    if asked.target is not None:
        held = view.source(asked)[2]
        goal = f"metric={held.metric!r}, level={held.level!r}, hold={held.hold}"
        more.append(f"    target=Target({goal}),")
    more += [f"    seed={asked.seed},"] if asked.seed else []
    end = f".named({view.world.name!r})"
    if not more:
        return "\n".join([*lines, f"plan = plan_training(scenario, source){end}"])
    return "\n".join(
        [*lines, "plan = plan_training(", "    scenario,", "    source,", *more, f"){end}"]
    )


def _using(view: PlanningView, changes: dict[str, Any]) -> list[str]:
    """Return the arguments of `Scenario.using`, a table each; tables in tables are whole."""
    lines = []
    every, after = completed(view.world.scenario, changes), changed(view.world.scenario, changes)
    for table in dict.fromkeys(path.partition(".")[0] for path in every):
        keys = dict.fromkeys(p.split(".")[1] for p in every if p.startswith(f"{table}."))
        values = {key: plain_tables(getattr(getattr(after, table), key)) for key in keys}
        lines.append(f"{table}={values!r}")
    return lines
