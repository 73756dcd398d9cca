"""A real browser, Debian's or yours, driven by selenium; tests are skipped where there is none."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


class Page:
    """A page of the studio in a browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        """Open an address, also where only its fragment differs, and wait for an answer."""
        self.driver.get("about:blank")
        self.driver.get(address)
        self.settled()

    def one(self, selector: str) -> Any:
        """Return the element of a selector."""
        return self.driver.find_element("css selector", selector)

    def every(self, selector: str) -> list[Any]:
        """Return all elements of a selector."""
        found: list[Any] = self.driver.find_elements("css selector", selector)
        return found

    def text(self, selector: str) -> str:
        """Return the text of an element."""
        return str(self.one(selector).text)

    def until(self, wanted: Callable[[], Any], seconds: float = 20.0) -> Any:
        """Wait until something holds, and return it."""
        end = time.monotonic() + seconds
        while True:
            try:
                if found := wanted():
                    return found
            except Exception:  # the element is being replaced
                if time.monotonic() > end:
                    raise
            assert time.monotonic() < end, "the page did not come there in time"
            time.sleep(0.02)

    def settled(self) -> str:
        """Wait for the answer to the last question; return whether it is exact."""
        quiet = (
            "const busy = document.getElementById('answer').getAttribute('aria-busy');"
            "return busy === 'false' && document.getElementById('chip').textContent"
        )
        return str(self.until(lambda: self.driver.execute_script(quiet)))

    def press(self, selector: str, *keys: str) -> None:
        """Send keys to an element."""
        self.one(selector).send_keys(*keys)

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of a field, and leave it."""
        from selenium.webdriver.common.keys import Keys

        field = self.one(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text or Keys.BACKSPACE, Keys.TAB)

    def click(self, selector: str) -> None:
        """Click an element, wherever it is on the page."""
        found = self.one(selector)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    def faults(self) -> list[str]:
        """Return what the console has said since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def hosts(self) -> set[str]:
        """Return the hosts of all requests since the last call."""
        sent = (json.loads(e["message"])["message"] for e in self.driver.get_log("performance"))
        places = [
            e["params"]["request"]["url"]
            for e in sent
            if e["method"] == "Network.requestWillBeSent"
        ]
        return {place.split("/")[2] for place in places if place.startswith("http")}


@contextmanager
def browser(folder: Path, phone: bool = False, width: int = 1360) -> Iterator[Page]:
    """Open a browser that saves files in a folder; skip the test where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"there is no browser: install one of {', '.join(NAMES)}")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(word)
    options.add_argument(f"--window-size={width},1000")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    own = shutil.which("chromedriver")
    service = webdriver.ChromeService(executable_path=own) if own else webdriver.ChromeService()
    driver = webdriver.Chrome(options=options, service=service)
    try:
        places = {"behavior": "allow", "downloadPath": str(folder)}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", places)
        if phone:
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
        yield Page(driver)
    finally:
        driver.quit()
