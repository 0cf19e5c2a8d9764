"""Headless Chromium for tests, through WebDriver (https://www.w3.org/TR/webdriver2/) to Debian's chromedriver."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key that the standard gives

failures = 0


def check(what, holds, seen=""):
    global failures
    print("{}: {}{}".format("ok" if holds else "FAILED", what, "" if holds else " (seen: {})".format(seen)))
    failures += not holds


class Browser:
    def __init__(self, port):
        self.base = "http://127.0.0.1:{}".format(port)
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                            "--window-size=1200,1000", "--disable-background-networking",
                            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]}
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


def run(look):
    """Exits with 77 where there is no browser, else with 1 if a check failed in look(browser)."""
    if shutil.which("chromedriver") is None or shutil.which("chromium") is None:
        print("SKIPPED: no chromium and chromedriver here (Debian: chromium, chromium-driver)")
        sys.exit(77)
    driver, port = start_driver()
    try:
        browser = Browser(port)
        try:
            look(browser)
        finally:
            browser.close()
    finally:
        os.killpg(driver.pid, signal.SIGTERM)
        driver.wait(30)
    sys.exit(1 if failures else 0)
