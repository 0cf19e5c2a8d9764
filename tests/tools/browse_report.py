#!/usr/bin/env python3
"""browse_report.py PAGE: opens a report in headless Chromium, clicks, and looks for script errors.

Speaks WebDriver (https://www.w3.org/TR/webdriver2/) to Debian's chromedriver. The page must be of 4 ranks whose last
one becomes slow. Exit code 77: there is no Chromium here.
"""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that the standard gives
SECONDS_TO_OPEN = 3

failures = 0


def check(what, holds, seen=""):
    global failures
    print("{}: {}{}".format("ok" if holds else "FAILED", what, "" if holds else " (seen: {})".format(seen)))
    failures += not holds


class Browser:
    def __init__(self, port):
        self.base = "http://127.0.0.1:{}".format(port)
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                            "--window-size=1200,1000", "--disable-background-networking"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        self.session = "/session/" + self.call("/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def call(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + self.session + path, data, {"Content-Type": "application/json"},
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError("{}: {}".format(path, error.read().decode())) from error

    def run(self, script):
        return self.call("/execute/sync", {"script": script, "args": []})

    def find(self, selector):
        found = self.call("/element", {"using": "css selector", "value": selector})
        return found[ELEMENT]

    def click(self, selector):
        self.run("document.querySelector({}).scrollIntoView({{block: 'center'}})".format(json.dumps(selector)))
        self.call("/element/{}/click".format(self.find(selector)), {})

    def errors(self):
        entries = self.call("/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def close(self):
        self.call("", method="DELETE")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start_driver():
    port = free_port()
    driver = subprocess.Popen(["chromedriver", "--port={}".format(port)], stdout=subprocess.DEVNULL,
                              start_new_session=True)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return driver, port
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("chromedriver does not answer")


def look(browser, page):
    times = []
    while len(times) < 3 and min(times, default=SECONDS_TO_OPEN) >= SECONDS_TO_OPEN:  # others may use the cores
        begin = time.monotonic()
        browser.call("/url", {"url": pathlib.Path(page).resolve().as_uri()})
        drawn = browser.run("return document.body.dataset.drawn")
        times.append(time.monotonic() - begin)
    print("opened in {:.2f} s".format(min(times)))
    check("all is drawn", drawn == "yes", drawn)
    check("within {} s".format(SECONDS_TO_OPEN), min(times) < SECONDS_TO_OPEN, times)
    # What stands for data: axes and grids are drawn without any, too.
    for chart, marks, least in (("split", ".barlayer .point", 16), ("steps", ".scatterlayer .js-fill", 4),
                                ("late", ".heatmaplayer image", 1), ("tensors", ".barlayer .point", 42),
                                ("speed", ".scatterlayer .point", 2)):
        seen = browser.run("return document.querySelectorAll('#{} {}').length".format(chart, marks))
        check("there is a picture: " + chart, seen >= least, seen)
    loaded = browser.run("return performance.getEntriesByType('resource').map(e => e.name)")
    check("nothing is fetched", loaded == [], loaded)
    text = browser.run("return document.getElementById('findings').innerText")
    check("the slow rank is named", "Rank 3 on node2 is slow, since step 601" in text, text)
    shown = browser.run("return document.getElementById('tensor-table').innerText")
    check("names are shown as they are", "layer19</script><b>.weight" in shown, shown)

    # The slow rank does not wait for others; the first one does.
    waiting = "return document.getElementById('steps').data.find(t => t.name === 'waiting').y.at(-1)"
    check("rank 0 waits at the end", abs(browser.run(waiting) - 2) < 0.2, browser.run(waiting))
    browser.run("document.getElementById('rank').scrollIntoView({block: 'center'})")
    browser.click("#rank option:nth-child(4)")
    check("another rank can be chosen", browser.run("return document.getElementById('rank').value") == "3")
    check("and its steps are drawn", browser.run(waiting) < 0.2, browser.run(waiting))

    hidden = "return document.getElementById('split')._fullData.map(t => t.visible).join()"
    check("all parts are shown", browser.run(hidden) == "true,true,true,true", browser.run(hidden))
    browser.click("#split .legendtoggle")
    time.sleep(0.6)  # plotly waits for a second click
    check("a click on a part hides it", browser.run(hidden) == "legendonly,true,true,true", browser.run(hidden))
    errors = browser.errors()
    check("no script complained", errors == [], errors)
    pdf = browser.call("/print", {})
    check("it can be printed", len(pdf) > 10000, len(pdf))


def main():
    if shutil.which("chromedriver") is None or shutil.which("chromium") is None:
        print("SKIPPED: no chromium and chromedriver here (Debian: chromium, chromium-driver)")
        return 77
    driver, port = start_driver()
    try:
        browser = Browser(port)
        try:
            look(browser, sys.argv[1])
        finally:
            browser.close()
    finally:
        os.killpg(driver.pid, signal.SIGTERM)
        driver.wait(30)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
