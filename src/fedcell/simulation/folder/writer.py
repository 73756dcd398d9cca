"""Write a run into its folder, round by round; or nowhere, where it has none."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fedcell.core.files.formats import write_csv
from fedcell.simulation.model import input_of
from fedcell.simulation.prepared import PreparedRun, Segments
from fedcell.simulation.state import State
from fedcell.simulation.summary import RunResult

from .checkpoint import Checkpoint
from .ledger_file import LedgerFile, check_known, check_same_prices, policies_before
from .run_folder import CHANGES, SUMMARY, RunFolder


class NoFolder:
    """The writer of a run without a folder: nothing is read or written."""

    state: State | None = None  # after the last round that the folder holds
    policies: tuple[str, ...] = ()  # that the folder holds prices of

    def check(self, segments: Segments) -> None:
        """Refuse to continue a folder whose rounds have other prices."""

    def begin(self, segments: Segments) -> None:
        """Write what the run is, before its first round."""

    def start(self, state: State, result: RunResult) -> None:
        """Write the rounds that are done, before the next."""

    def add(self, state: State, segments: Segments, result: Callable[[], RunResult]) -> None:
        """Write the last round of a state. `result` gives the result so far, where it is needed."""

    def change(self, segments: Segments) -> None:
        """Write that a new segment begins."""

    def finish(self, state: State, segments: Segments, result: RunResult) -> None:
        """Write the end of the run."""


LARGE_STATE = 2**22  # [byte] above which a state is not saved after every round
SAVING_SHARE = 0.1  # of the time of a run that is spent on saving large states, at most


class RunWriter(NoFolder):
    """Writes a run into its folder. Files that were removed meanwhile are written again."""

    def __init__(
        self, run: PreparedRun, home: RunFolder, hold_again: Callable[[], None], resume: bool
    ) -> None:
        self._run, self._home, self._hold_again = run, home, hold_again
        self._priced_before = policies_before(home.path) if resume else {}
        check_known(self._priced_before, run.policies, home.path)
        self.policies = tuple(self._priced_before)
        self._records: Checkpoint = home.checkpoint(run.start, run.rounds, resume)
        self.state = self._records.state
        self._saved, self._pause = time.perf_counter(), 0.0  # last save, and time to the next [s]

    def check(self, segments: Segments) -> None:
        check_same_prices(self._priced_before, dict(segments.ledgers), self._home.path)

    def begin(self, segments: Segments) -> None:
        self._home.begin(self._run.used, input_of(self._run.setup))
        if segments.changes:  # a run that was killed may not have written its last change
            self._write_changes(segments)
        metrics = self._run.start.history.metrics
        self._ledger_file = LedgerFile(self._home.path, segments.ledgers, metrics)
        self._ledgers = segments.ledgers

    def start(self, state: State, result: RunResult) -> None:
        self._home.write_outcome(result.outcome)
        self._ledger_file.begin(state)

    def add(self, state: State, segments: Segments, result: Callable[[], RunResult]) -> None:
        self._price(segments)
        self._hold_again()
        self._restore(segments, result)
        self._ledger_file.add(state)
        self._save(state)

    def _save(self, state: State) -> None:
        """Save a state; of a large one, only after rounds that took ten times as long as that."""
        now = time.perf_counter()
        if state.bytes > LARGE_STATE and now - self._saved < self._pause:
            return
        self._records.save(state)
        self._saved = time.perf_counter()
        self._pause = (self._saved - now) / SAVING_SHARE

    def change(self, segments: Segments) -> None:
        self._write_changes(segments)
        self._price(segments)

    def finish(self, state: State, segments: Segments, result: RunResult) -> None:
        if not result.ledgers:
            return
        self._hold_again()
        self._restore(segments, lambda: result)
        self._records.finish(state)
        self._ledger_file.finish(state)
        names, table = self._run.setup.client_names, self._run.first.scenario.clients.table
        self._home.finish(result.ledgers, result.outcome, names, table)

    def _price(self, segments: Segments) -> None:
        """Take over ledgers that changed, by a new segment or by uploads that did not arrive."""
        if segments.ledgers is not self._ledgers:
            self._ledger_file.price(segments.ledgers)
            self._ledgers = segments.ledgers

    def _restore(self, segments: Segments, result: Callable[[], RunResult]) -> None:
        """Write again what was removed from the folder and is not written after every round."""
        self._home.begin(self._run.used, input_of(self._run.setup), missing=True)
        if self._home.lacks(SUMMARY):
            self._home.write_outcome(result().outcome)
        if segments.changes and self._home.lacks(CHANGES):
            self._write_changes(segments)

    def _write_changes(self, segments: Segments) -> None:
        rows = [(c.round, c.cohort, c.local_steps, c.why) for c in segments.changes]
        write_csv(self._home.path / CHANGES, ["round", "clients", "steps", "why"], rows)


@contextmanager
def open_writer(run: PreparedRun, folder: str | Path | None, resume: bool) -> Iterator[NoFolder]:
    """Open the folder of a run, locked for other processes, or none."""
    if folder is None:
        yield NoFolder()
        return
    home = RunFolder(Path(folder), dict(run.identity), run.vector_width, run.code).validated(resume)
    with home.held() as hold_again:
        yield RunWriter(run, home, hold_again, resume)
