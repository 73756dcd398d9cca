"""Fit a device to measurements, and write it as an entry of a file of devices."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedcell.core.errors import BadFile, BadInput, printable
from fedcell.core.estimates import NAN, Estimate
from fedcell.core.files.formats import check_target, naming, read_tables, write_text
from fedcell.core.showing import Showable
from fedcell.core.types import Array

from .measurements import Measurements, distinct
from .powers import HIGHEST_EXPONENT, LEAST_EXPONENT, LEVEL, MIN_CLOCKS, PowerLaw, fit_powers
from .times import TimeLaw, fit_times

NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
FLAT = "the watts do not rise with the clock"
NEVER = "the seconds do not shrink with the clock: it changes watts alone"
LARGE_MISS = 0.1  # of a law, relative: worth a sentence
UNITS = {
    "idle_power": "W",
    "busy_power": "W",
    "power_exponent": "",
    "freq_min": "cycle/s",
    "freq_max": "cycle/s",
    "cycles_per_step": "cycle",
    "memory_time": "s",
    "cycles_per_sample": "cycle",
    "top_power": "W",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedDevice(Showable):
    """A device with the numbers that its measurements tell, each with a 95 % interval.

    Attributes
    ----------
    name, source : str
        Name of its entry, and where the measurements are from.
    measured : Measurements
        What was measured.
    idle_power : Estimate or None
        P_i [W].
    times : TimeLaw or None
        Cycles and seconds of steps and samples.
    powers : PowerLaw or None
        P_b, kappa, alpha, and the energy-optimal clock.
    unknown : mapping of str to str
        Numbers that the measurements do not tell, and why.
    exponent_given : bool
        Whether alpha was given and not fitted.
    """

    name: str
    source: str
    measured: Measurements
    idle_power: Estimate | None
    times: TimeLaw | None
    powers: PowerLaw | None
    unknown: Mapping[str, str]
    exponent_given: bool = False

    @property
    def clocks(self) -> Array:
        """Return the measured clocks, rising [cycle/s]."""
        return distinct(self.measured.clock[~self.measured.idle])

    def estimates(self) -> dict[str, Estimate]:
        """Return the numbers that are known, by key."""
        found = {} if self.idle_power is None else {"idle_power": self.idle_power}
        if (law := self.powers) is not None:
            found |= {"busy_power": law.busy_power, "kappa": law.kappa}
            found |= {"power_exponent": law.exponent, "top_power": law.top_power}
        return found if self.times is None else found | dict(self.times.estimates)

    def unit(self, key: str) -> str:
        """Return the unit of a number."""
        if key != "kappa" or self.powers is None:
            return UNITS.get(key, "")
        alpha = float(self.powers.exponent)
        return "J s^2" if alpha == 3 else f"W s^{alpha:.4g}"

    def residuals(self) -> tuple[Array, Array]:
        """Return the relative residuals of the seconds of steps, and of the watts."""
        time = power = np.zeros(0)
        if self.times is not None:
            rows = self.measured[self.measured.timed]
            time = rows.step_time / self.times.step_time(rows.clock, rows.batch) - 1
        if self.powers is not None:
            rows = self.measured[self.measured.powered]
            power = rows.watts / self.powers.watts(rows.clock, _working(self.times, rows)) - 1
        return time, power

    def clock_advice(self) -> list[str]:
        """Return sentences on the energy-optimal clock, or on why there is none."""
        count, low, high = self.clocks.size, float(self.clocks[0]), float(self.clocks[-1])
        rows = self.measured[self.measured.powered]
        powered = distinct(rows.clock).size if rows.lines else 0
        if powered < MIN_CLOCKS:
            return [
                f"no energy-optimal clock: watts at {powered} of {count} clocks, and it takes at "
                f"least {MIN_CLOCKS}"
            ]
        if self.powers is None and not self.unknown["kappa"].startswith(FLAT):
            return [f"no energy-optimal clock: {self.unknown['kappa']}"]
        if self.powers is None:
            return [f"run flat out, at {high / 1e9:.3g} GHz or more: {FLAT}"]
        if self.powers.best_clock is None:
            return [
                "no energy-optimal clock: as many measurements as unknowns give no interval; "
                "repeat some"
            ]
        told = {"sleeps": self.powers.best_clock, "idles": self.powers.best_clock_idle}
        return [
            f"energy-optimal clock of a device that {state} when done: {_advice(best, low, high)}"
            for state, best in told.items()
            if best is not None
        ]

    def notes(self) -> list[str]:
        """Return sentences on fits that miss the measurements."""
        laws = {"seconds": self.times, "watts": self.powers}
        law, idle, notes = self.powers, self.idle_power, []
        if law is not None and idle is not None and law.free_busy_power is not None:
            notes.append(
                f"the watts tell busy_power = {law.free_busy_power:.4g} W, less than idle_power = "
                f"{idle.value:.4g} W, which no device has: check that both are of the whole device"
            )
        return notes + [
            f"the law misses the {what} by {100 * law.rms:.0f} %: look at its residuals"
            for what, law in laws.items()
            if law is not None and law.rms > LARGE_MISS
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each number."""
        return [
            {"key": key, "value": each.value, "low": each.low, "high": each.high}
            | {"unit": self.unit(key)}
            for key, each in self.estimates().items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; None in place of numbers that are not finite."""
        found: dict[str, Any] = {"name": self.name, "source": self.source, "rows": self.rows()}
        found |= {"clocks": self.clocks.tolist(), "unknown": dict(self.unknown)}
        laws = {"seconds": self.times, "watts": self.powers}
        found["fit"] = {w: {"rms": v.rms, "r2": v.r2} for w, v in laws.items() if v is not None}
        if (law := self.powers) is not None:
            best = {"sleeps": law.best_clock, "idles": law.best_clock_idle}
            found["best_clock"] = {w: asdict(v) for w, v in best.items() if v is not None}
        found["advice"] = self.clock_advice()
        plain: dict[str, Any] = _finite(found)
        return plain

    def save(self, path: str | Path) -> None:
        """Write it as a file of devices: `catalogue = "mine.toml"`, `device = "mine"`.

        Parameters
        ----------
        path : str or Path
            The file, .toml. One that holds other devices is refused.
        """
        path = Path(path)
        target = check_target(path, ("toml",))
        if target.exists():
            with naming(path):
                held = read_tables(target)
                others = [
                    name
                    for kind in held.values()
                    for name in (kind if isinstance(kind, dict) else {"": None})
                    if name != self.name
                ]
            if others:
                raise BadFile(f"{path}: holds other devices ({others[0]}): choose another file")
        write_text(target, self.toml())

    def toml(self) -> str:
        """Return the entry as TOML: `keys` for a scenario, `facts` for the user."""
        lines = [f"[device.{self.name}]", f"title = {_text(f'{self.name}, fitted')}", ""]
        facts = {"keys": self._keys(), "facts": self._facts()}
        for part, table in facts.items():
            lines.append(f"[device.{self.name}.{part}]")
            lines += [f"{key} = {_inline(fact)}" for key, fact in table.items()]
            lines.append("")
        return "\n".join(lines)

    def _keys(self) -> dict[str, dict[str, Any]]:
        keys, clocks = {}, self.measured.clock[~self.measured.idle]
        for key, each in self.estimates().items():
            if key in ("cycles_per_sample", "top_power"):
                continue
            keys[key] = self._fact(key, each.value, self._how(key), _interval(each))
        for key, clock in (("freq_min", clocks.min()), ("freq_max", clocks.max())):
            keys[key] = self._fact(key, float(clock), "measured", "outermost clock measured")
        return keys

    def _facts(self) -> dict[str, dict[str, Any]]:
        found = {}
        if self.times is not None and "cycles_per_sample" in self.times.estimates:
            each = self.times.estimates["cycles_per_sample"]
            note = f"{_interval(each)}; of the measured model: for task.cycles_per_sample"
            found["cycles_per_sample"] = self._fact(
                "cycles_per_sample", each.value, "derived", note
            )
        best = None if self.powers is None else self.powers.best_clock
        if best is not None and np.isfinite(best.value):
            note = "; ".join(self.clock_advice())
            found["best_clock"] = self._fact("freq_max", best.value, "derived", note)
        return found

    def _how(self, key: str) -> str:
        if key == "power_exponent" and self.exponent_given:
            return "assumed"
        return "measured" if key == "idle_power" else "derived"

    def _fact(self, key: str, value: float, mark: str, note: str) -> dict[str, Any]:
        unit = self.unit(key)
        value = float(f"{value:.7g}")
        return {"value": value, "unit": unit, "mark": mark, "source": self.source, "note": note}

    def __repr__(self) -> str:
        known = ", ".join(f"{key} {each.value:.4g}" for key, each in self.estimates().items())
        return f"<FittedDevice, {self.name}: {known}>"


def fit_device(
    source: str | Path | Mapping[str, Any], name: str = "mine", exponent: float | None = None
) -> FittedDevice:
    """Fit a device to measurements of seconds and of joules or watts.

    Parameters
    ----------
    source : str, Path or mapping
        A CSV file, or columns by heading: clock_hz, clock_mhz or clock_ghz; seconds or
        milliseconds; joules or watts; two of batch, steps and samples. Rows without a clock are of
        the idle device.
    name : str
        Name of the device in scenarios.
    exponent : float, optional
        alpha where it is known, from 1 to 6. Default: fitted, from three clocks or more.

    Returns
    -------
    FittedDevice
        The numbers that the measurements tell, with 95 % intervals, and the others with the reason.

    Raises
    ------
    BadInput
        If the table is wrong, in one sentence that names line and column.

    Examples
    --------
    >>> clock = [0.5, 1.0, 1.5, 2.0] * 2
    >>> watts = [2.0 + 0.5 * f**3 for f in clock]
    >>> fitted = fit_device({"clock_ghz": clock, "watts": watts})
    >>> round(fitted.powers.exponent.value, 3), round(fitted.powers.best_clock.value / 1e9, 3)
    (3.0, 1.26)
    """
    if not NAME.fullmatch(str(name)):
        raise BadInput(f"{name!r} is not the name of a device: letters, digits, - and _")
    if exponent is not None and not LEAST_EXPONENT <= exponent <= HIGHEST_EXPONENT:
        raise BadInput(f"`exponent` = {exponent}: expected a number from 1 to 6")
    columns = isinstance(source, Mapping)
    measured = Measurements.of(source) if columns else Measurements.load(source)  # type: ignore
    where = "measurements" if columns else Path(str(source)).name
    idle = _mean_power(measured.watts[measured.idle])
    times = fit_times(measured)
    unknown = {} if times is None else dict(times.unknown)
    if times is None:
        unknown["cycles_per_sample"] = "no row has seconds with batch and steps"
    if idle is None:
        unknown["idle_power"] = "no row without a clock, of the idle device"
    powers, why = _powers(measured, times, idle, exponent)
    if why:
        unknown |= dict.fromkeys(("busy_power", "kappa", "power_exponent"), why)
    return FittedDevice(
        name=str(name),
        source=f"fit of {printable(where)}, {len(measured.lines)} measurements",
        measured=measured,
        idle_power=idle,
        times=times,
        powers=powers,
        unknown=unknown,
        exponent_given=exponent is not None,
    )


def _powers(
    measured: Measurements, times: TimeLaw | None, idle: Estimate | None, exponent: float | None
) -> tuple[PowerLaw | None, str]:
    """Return the law of the watts, or why there is none."""
    rows = measured[measured.powered]
    clocks = distinct(rows.clock).size if rows.lines else 0
    if not rows.lines:
        return None, "no row of the working device has watts, or joules with seconds"
    if clocks < 2:
        at = f"{rows.clock[0] / 1e9:.4g} GHz: {rows.watts.mean():.4g} W there"
        return None, f"watts at one clock, {at}; measure at three or more"
    if clocks < MIN_CLOCKS and exponent is None:
        return None, "watts at two clocks fix two numbers of three; measure a third, or give alpha"
    done = None if idle is None else float(idle)
    working = _working(times, rows)
    if not working.any():
        return None, NEVER
    law = fit_powers(rows.clock, working, rows.watts, done, exponent)
    if law is None and done is not None and rows.watts.mean() < done:
        return None, "it draws less than when idle: check that both are of the whole device"
    return law, "" if law else f"{FLAT} by more than their errors: {rows.watts.mean():.4g} W"


def _working(times: TimeLaw | None, rows: Measurements) -> Array:
    """Return the part of the time in which the processor works, 1 where it is not known."""
    if times is None or times.value("memory_time") == 0:
        return np.ones(rows.clock.shape)
    return times.working(rows.clock, rows.batch) / times.step_time(rows.clock, rows.batch)


def _mean_power(watts: Array) -> Estimate | None:
    from scipy.stats import t as student

    if not watts.size:
        return None
    if watts.size == 1:
        return Estimate(float(watts[0]), NAN, NAN, LEVEL)
    mean = float(watts.mean())
    half = float(watts.std(ddof=1) / np.sqrt(watts.size))
    half *= float(student.ppf((1 + LEVEL) / 2, watts.size - 1))
    return Estimate(mean, mean - half, mean + half, LEVEL)


def _advice(best: Estimate, low: float, high: float) -> str:
    """Return what to do about a clock, and its interval."""

    def giga(clock: float) -> str:
        return f"{clock / 1e9:.3g}"

    to = "no limit" if np.isinf(best.high) else f"{giga(best.high)} GHz"
    from_ = "no limit" if np.isinf(best.low) else f"{giga(best.low)} GHz"
    span = f"95 %: {from_} to {to}"
    if best.value >= high:
        sure = "" if best.low >= high else ", though a lower clock is not excluded"
        return f"run flat out, at {giga(high)} GHz or more ({span}){sure}"
    if best.value <= low:
        return f"at or below the lowest measured, {giga(low)} GHz ({span})"
    also = "; flat out is not excluded" if best.high >= high else ""
    return f"{giga(best.value)} GHz ({span}){also}"


def _interval(each: Estimate) -> str:
    if np.isnan(each.low):
        return "no interval: as many measurements as unknowns, or a given number"
    return f"95 % interval {each.low:.4g} to {each.high:.4g}"


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _inline(fact: Mapping[str, Any]) -> str:
    cells = (f"{k} = {_text(v) if isinstance(v, str) else repr(v)}" for k, v in fact.items())
    return "{ " + ", ".join(cells) + " }"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
