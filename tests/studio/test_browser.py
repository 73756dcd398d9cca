"""The page in a real browser: load, controls, keyboard, hover, link, downloads, runs, pilot."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from fedcell import (
    GivenLaw,
    Limits,
    Region,
    load_pilot,
    load_plan,
    load_scenario,
    plan_training,
    run,
)
from fedcell.network.policies.names import NAMED
from support.browsers import Page, browser
from support.studios import LAW, MARKUP, Asking, served

pytestmark = pytest.mark.studio

PILOT = Path("benchmarks/results/planning/pilot-digits.json").resolve()


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def page(saved) -> Iterator[Page]:
    with browser(saved) as each:
        yield each


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    with served("digits", PILOT) as each:
        yield each


@pytest.fixture
def planned(page, asking) -> Iterator[Page]:
    """The page of digits with its pilot, freshly opened; its console says nothing meanwhile."""
    page.faults()
    page.open(asking.server.address)
    yield page
    assert page.faults() == []
    assert page.hosts() <= {f"127.0.0.1:{asking.server.port}"}


def chosen(page: Page) -> tuple[int, int]:
    k, e = re.findall(r"\d+", page.text("#chosen"))[:2]
    return int(k), int(e)


def of_library(**asked: Any) -> tuple[int, int]:
    plan = plan_training(load_scenario("digits"), load_pilot(PILOT), **asked)
    return plan.cohort, plan.local_steps


def test_it_loads_with_the_plan_and_its_pictures(planned):
    assert chosen(planned) == of_library()
    for name in ("surface", "front", "law"):
        assert planned.one(f"#fig-{name} canvas").size["height"] > 100
    for name in ("round", "parts"):
        assert planned.every(f"#fig-{name} svg rect")
    shades = planned.driver.execute_script(
        "const c = document.querySelector('#fig-surface canvas');"
        "const d = c.getContext('2d').getImageData(60, 20, c.width - 150, c.height - 80).data;"
        "return new Set(Array.from({length: d.length / 4}, (_, i) => d[4*i] + d[4*i+1] * 256)).size"
    )
    assert shades > 5
    assert "optimal-staged" in planned.text("#fig-policies")


NUMBERS = [
    ("cell.bandwidth", "2", {"cell.bandwidth": 2e6}),
    ("clients.power", "40", {"clients.power": 4e-8}),
    ("cell.distance", "100", {"cell.distance": 100}),
    ("cell.path_loss_exponent", "3.9", {"cell.path_loss_exponent": 3.9}),
    ("cell.loss_rate", "0.3", {"cell.loss_rate": 0.3}),
    ("task.energy_weight", "0.1", {"task.energy_weight": 0.1}),
]


@pytest.mark.parametrize(("key", "typed", "changes"), NUMBERS, ids=str)
def test_every_number_of_the_world_changes_the_plan(planned, asking, key, typed, changes):
    planned.fill(f"[data-id='{key}'] input[type=number]", typed)
    assert planned.settled() == "exact"
    answer = asking("view", asked={"changes": changes}, page="x", number=1)["plan"]
    assert chosen(planned) == (answer["cohort"], answer["local_steps"])
    state = json.loads(
        planned.driver.execute_script("return decodeURIComponent(location.hash.slice(1))")
    )
    assert state["changes"] == pytest.approx(changes)
    planned.click(f"[data-id='{key}'] button")
    planned.settled()
    assert planned.driver.execute_script("return location.hash") == ""


def test_limits_and_settings_by_hand(planned):
    planned.fill("#n-deadline", "45")
    planned.settled()
    assert chosen(planned) == of_library(limits=Limits(deadline=45.0))
    assert "keeps the deadline with a chance of" in planned.text("#sure")
    planned.fill("#n-deadline", "0.1")
    assert planned.settled() == "no plan"
    assert "no plan keeps the deadline of 0.1 s: the least is" in planned.text("#refused")
    planned.fill("#n-deadline", "")
    planned.fill("#n-energy", "30")
    planned.fill("#n-confidence", "0.6")
    planned.settled()
    wanted = of_library(limits=Limits(energy=30.0, confidence=0.6))
    assert chosen(planned) == wanted
    planned.fill("#n-energy", "")
    planned.fill("#n-energy_per_client", "1.2")
    planned.fill("#n-confidence", "")
    planned.settled()
    assert chosen(planned) == of_library(limits=Limits(energy_per_client=1.2))
    planned.fill("#n-energy_per_client", "")
    planned.fill("#n-cohort", "6")
    planned.fill("#n-local_steps", "48")
    planned.settled()
    assert chosen(planned) == (6, 48)
    planned.fill("#n-cohort", "")
    planned.fill("#n-local_steps", "")
    planned.fill("#n-target", "0.4")
    planned.settled()
    assert "one run to training loss 0.4" in planned.text("#sure")


def test_policies_and_objectives_can_be_chosen(planned):
    options = [each.text for each in planned.every("#policy option")]
    assert options == ["best", *NAMED]
    for policy in ("even", "optimal"):
        planned.one(f"#policy option[value='{policy}']").click()
        planned.settled()
        assert f"policy {policy}" in planned.text("#sure")
        assert chosen(planned) == of_library(region=Region(policy=policy))
    planned.one("#policy option[value='']").click()
    planned.one("#minimise option[value='energy']").click()
    planned.settled()
    assert chosen(planned) == of_library(region=Region(minimise="energy"))
    assert "Energy over clients" in planned.text("#fig-surface figcaption")


def test_a_law_by_hand_replaces_the_pilot(planned):
    planned.click("[value=law]")
    planned.settled()
    plan = plan_training(load_scenario("digits"), GivenLaw(**LAW))
    assert chosen(planned) == (plan.cohort, plan.local_steps)
    planned.fill("#n-mixing", "500")
    planned.fill("#n-clients\\.count", "30".replace("30", "30"))
    planned.settled()
    many = load_scenario("digits").using(clients={"count": 30})
    plan = plan_training(many, GivenLaw(**LAW | {"mixing": 500.0}))
    assert chosen(planned) == (plan.cohort, plan.local_steps)


def test_sliders_and_the_surface_are_used_by_keyboard(planned):
    from selenium.webdriver.common.keys import Keys

    before = planned.one("#c-cell\\.loss_rate").get_attribute("aria-valuetext")
    planned.press("#c-cell\\.loss_rate", *[Keys.ARROW_RIGHT] * 20)
    planned.settled()
    after = planned.one("#c-cell\\.loss_rate").get_attribute("aria-valuetext")
    assert float(after) > float(before) == 0.1
    planned.press("#fig-surface canvas", Keys.ARROW_UP, Keys.ARROW_RIGHT)
    words = planned.text("#fig-surface .readout")
    k, e = re.match(r"K = (\d+), E_l = (\d+): [\d.]+ rounds", words).groups()  # type: ignore[union-attr]
    planned.press("#fig-surface canvas", Keys.ENTER)
    planned.settled()
    assert planned.one("#n-cohort").get_attribute("value") == k
    assert planned.one("#n-local_steps").get_attribute("value") == e
    planned.press("#tab-plan", Keys.ARROW_RIGHT)
    assert planned.one("#tab-runs").get_attribute("aria-selected") == "true"
    planned.press("#tab-runs", Keys.ARROW_LEFT)
    assert planned.one("#plan").is_displayed()


def test_the_pointer_reads_numbers(planned):
    from selenium.webdriver import ActionChains

    ActionChains(planned.driver).move_to_element(planned.one("#fig-surface canvas")).perform()
    assert re.match(
        r"K = \d+, E_l = \d+: .* rounds, .* J, cost", planned.text("#fig-surface .readout")
    )
    bar = planned.every("#fig-round rect.swatch-train")[0]
    planned.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", bar)
    ActionChains(planned.driver).move_to_element(bar).perform()
    assert re.search(r"client \d+: train .*\n.*of the band", planned.text("#tip"))
    place = planned.one("#fig-front .u-over")
    planned.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
    ActionChains(planned.driver).move_to_element(place).perform()
    assert re.search(r"time:?\s*[\d.]+ s", planned.text("#fig-front .u-legend"))
    planned.click("#fig-parts summary")
    planned.until(lambda: len(planned.every("#fig-parts tbody tr")) == 50)


def test_a_link_holds_the_question(planned, asking):
    planned.fill("#n-deadline", "45")
    planned.fill("[data-id='cell.bandwidth'] input[type=number]", "8")
    planned.settled()
    link, here = planned.driver.current_url, chosen(planned)
    planned.open(asking.server.address)
    assert planned.one("#n-deadline").get_attribute("value") == ""
    planned.open(link)
    assert chosen(planned) == here
    assert planned.one("#n-deadline").get_attribute("value") == "45"
    state = json.dumps({"changes": {"cell.loss_kind": "<script>alert(1)"}, "policy": MARKUP})
    planned.open(f"{asking.server.address}#{quote(state)}")
    assert planned.text("#chip") == "no plan"
    assert "cell.loss_kind = '<script>alert(1)'" in planned.text("#refused")
    planned.open(f"{asking.server.address}#nonsense")
    assert chosen(planned) == of_library()


def test_everything_can_be_taken_along(planned, saved):
    planned.fill("[data-id='cell.bandwidth'] input[type=number]", "8")
    planned.settled()
    here = chosen(planned)
    planned.click("#take")
    planned.until(lambda: "fedcell plan" in planned.text("#command"))
    assert "plan_training" in planned.text("#python")
    files = {
        "toml": "digits-changed.toml",
        "plan": "plan.json",
        "svg": "plan.svg",
        "png": "plan.png",
    }
    for what, name in files.items():
        planned.click(f"[data-what={what}]")
        planned.until(lambda name=name: (saved / name).exists())
    assert load_scenario(saved / files["toml"]).cell.bandwidth == 8e6
    plan = load_plan(saved / "plan.json")
    assert (plan.cohort, plan.local_steps) == here
    planned.click("#close-taken")


def test_pins_are_compared(planned):
    planned.click("#pin")
    planned.fill("#n-deadline", "45")
    planned.settled()
    planned.click("#pin")
    planned.fill("#n-deadline", "")
    planned.one("#policy option[value='even']").click()
    planned.settled()
    table = planned.text("#pins")
    assert "pin 1" in table
    assert re.search("deadline\\s+\u2013\\s+45 s\\s+\u2013", table)
    assert re.search("[+\u2212][\\d.]+ %", table)
    planned.click("[aria-label='Go to pin 2']")
    planned.settled()
    assert planned.one("#n-deadline").get_attribute("value") == "45"
    planned.click("[aria-label='Remove pin 2']")
    planned.click("[aria-label='Remove pin 1']")
    assert not planned.one("#pins").is_displayed()


def test_every_key_is_in_the_side_panel_with_the_words_of_the_documentation(planned):
    from selenium.webdriver.common.keys import Keys

    planned.click("#all-keys")
    keys = [each.text for each in planned.every("#key-list label")]
    text = Path("docs/reference/scenario.md").read_text()
    assert {"cell.noise", "learning.partition.kind", "task.batch_size", "plan.selection"} <= set(
        keys
    )
    assert "noise density" in text
    assert "noise density" in planned.text("#key-list")
    planned.fill("#key-search", "noise")
    assert 0 < sum(each.is_displayed() for each in planned.every(".key")) < 5
    planned.fill("#k-cell\\.noise", "1e-19")
    planned.settled()
    state = json.loads(
        planned.driver.execute_script("return decodeURIComponent(location.hash.slice(1))")
    )
    assert state["changes"] == {"cell.noise": 1e-19}
    planned.fill("#k-cell\\.noise", "-1")
    assert planned.settled() == "no plan"
    assert "cell.noise = -1: expected a number above 0" in planned.text("#refused")
    planned.press("#key-search", Keys.ESCAPE)
    assert not planned.one("#keys").is_displayed()
    planned.click("#reset")
    assert planned.settled() == "exact"


def test_dark_and_light(planned):
    def paper() -> str:
        return str(
            planned.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        )

    first = paper()
    planned.click("#theme")
    assert paper() != first
    planned.click("#theme")
    assert paper() == first


def test_controls_have_names_for_screen_readers(planned):
    nameless = planned.driver.execute_script(
        "return [...document.querySelectorAll('input,select,button,canvas,[role=img]')].filter(e =>"
        "!e.getAttribute('aria-label') && !e.labels?.length && !e.textContent.trim()"
        "&& !e.closest('[role=img]'))"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert nameless == []


def test_a_slow_answer_is_a_draft_first_and_then_exact(planned, monkeypatch):
    monkeypatch.setattr("fedcell.studio.planning.DRAFT_FROM", 0.0)
    kinds = (
        "const chip = document.getElementById('chip'); window.kinds = [];"
        "new MutationObserver(() => kinds.push(chip.textContent)).observe(chip, {childList: true})"
    )
    planned.driver.execute_script(kinds)
    from selenium.webdriver.common.keys import Keys

    planned.press("#c-cell\\.bandwidth", *[Keys.ARROW_LEFT] * 3)
    planned.until(lambda: planned.driver.execute_script("return kinds.at(-1)") == "exact")
    seen = planned.driver.execute_script("return kinds")
    assert "draft" in seen
    assert seen.index("draft") < len(seen) - 1


@pytest.mark.parametrize("width", ["phone", "desktop"])
def test_nothing_is_wider_than_the_screen(asking, tmp_path, width):
    with browser(tmp_path, phone=width == "phone", width=1100) as page:
        page.open(asking.server.address)
        wide = page.driver.execute_script(
            "return [document.documentElement.scrollWidth, innerWidth]"
        )
        assert wide[0] <= wide[1] + 1
        page.driver.execute_script(
            "document.querySelectorAll('details').forEach(d => d.open = true)"
        )
        time.sleep(0.1)
        wide = page.driver.execute_script(
            "return [document.documentElement.scrollWidth, innerWidth]"
        )
        assert wide[0] <= wide[1] + 1
        assert page.faults() == []


NAMES = f'<img src=x onerror="alert(1)">, {MARKUP}, "'.split(", ")


def test_names_with_markup_are_text(page, tmp_path):
    rows = "\n".join(f'"{name.replace(chr(34), chr(34) * 2)}",300' for name in NAMES)
    (tmp_path / "fleet.csv").write_text(f"name,samples\n{rows}\n")
    scenario = '[clients]\ntable = "fleet.csv"\n[plan]\ncohort = 2\n'
    file = tmp_path / "<b>bold.toml"
    file.write_text(scenario)
    run(load_scenario("digits"), ["even"], rounds=2, folder=tmp_path / MARKUP.replace("/", "_"))
    with served(str(file), folders=(tmp_path,)) as asking:
        page.faults()
        page.open(asking.server.address)
        assert "<b>bold.toml" in page.text("#world")
        assert {NAMES[0][:12], NAMES[1][:12]} <= {
            each.text[:12] for each in page.every("#fig-parts svg text")
        }
        page.click("#tab-runs")
        page.until(lambda: "<script>" in page.text("#run-list"))
        page.until(lambda: page.every("#run-view figure"))
        assert page.every("img") == []
        assert page.every("b:not(#chosen b), #world *, #run-list script") == []
        assert page.faults() == []


def test_a_run_in_progress_is_followed(page, tmp_path):
    go_on = threading.Event()

    def train() -> None:
        from fedcell import Observer

        pause = Observer(round=lambda report: go_on.wait(30) if report.round == 3 else None)
        run(load_scenario("digits"), ["even"], rounds=6, folder=tmp_path / "live", observer=pause)

    thread = threading.Thread(target=train)
    thread.start()
    try:
        with served(None, folders=(tmp_path,)) as asking:
            page.driver.get(asking.server.address)
            page.until(lambda: "running: 3 of 6 rounds" in page.text("#run-view"))
            assert page.one("[data-part='score train_loss'] canvas").size["height"] > 100
            go_on.set()
            page.until(lambda: "complete after 6 rounds" in page.text("#run-view"))
            page.until(lambda: page.every("[data-part=joules] rect"))
            assert page.faults() == []
    finally:
        go_on.set()
        thread.join()


def test_a_pilot_is_run_and_cancelled_from_the_page_and_outlives_it(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with served() as asking:
        page.open(asking.server.address)
        assert page.text("#chip") == "no plan"
        assert "There is no pilot yet" in page.text("#pilot-box")
        page.fill("#budget", "90s")
        page.click("#start-pilot")
        page.until(lambda: "Running a pilot" in page.text("#pilot-box"))
        page.driver.get("about:blank")  # the tab is closed
        time.sleep(0.5)
        page.driver.get(asking.server.address)
        page.until(
            lambda: re.search(r"Running a pilot: (\d\d+) trials", page.text("#pilot-box")), 80
        )
        page.click("#cancel-pilot")
        page.until(lambda: "finished trials are kept" in page.text("#pilot-box"), 60)
        page.until(lambda: page.text("#chip") == "exact", 30)
        assert chosen(page)[0] >= 1


def test_a_studio_that_has_ended_is_said(page):
    words = ["studio", "digits", "--pilot", str(PILOT), "--no-browser", "--port", "0"]
    command = [sys.executable, "-u", "-m", "fedcell", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        page.open(process.stdout.readline().split()[-1])
        process.terminate()
    page.fill("#n-deadline", "45")
    page.until(lambda: "The studio does not answer" in page.text("#refused"))
    assert all("ERR_CONNECTION_REFUSED" in fault for fault in page.faults())
