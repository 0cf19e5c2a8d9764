#!/usr/bin/env python3
"""browse_report.py PAGE: opens a report in headless Chromium, clicks, and looks for script errors.

The page must be of 4 ranks whose last one becomes slow. Exit code 77: there is no Chromium here.
"""
import pathlib
import re
import sys
import time

import browser as chromium
from browser import check

SECONDS_TO_OPEN = 3


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

    job = browser.run("return document.getElementById('job').innerText + ' / ' + document.title")
    check("the job is named", job == "train, started 2025-11-25 21:44 UTC, 4 ranks on node1, node2 / "
          "train: where the time of a step goes", job)
    on_time = browser.run("return document.getElementById('late')._fullData[0].colorscale[0][1]")
    check("what is on time is white", on_time in ("#ffffff", "rgb(255, 255, 255)"), on_time)
    rates = browser.run("return [...document.querySelectorAll('#speed .ytick text')].map(t => t.textContent)")
    check("rates have units", len(rates) >= 2 and all(re.fullmatch(r"[1-9]\d* (B|kB|MB|GB)/s", one) for one in rates), rates)
    shown = browser.run("return document.body.innerText")
    check("no number has many zeros", not re.search(r"0\.000", shown), re.findall(r".*0\.000.*", shown))
    for width in (1400, 500):
        browser.call("/window/rect", {"width": width, "height": 1000})
        browser.call("/url", {"url": pathlib.Path(page).resolve().as_uri()})
        for chart in ("split", "tensors"):
            room = browser.run("""
                const of = (selector) => [...document.querySelectorAll('#{0} ' + selector)].map(e => e.getBoundingClientRect());
                return Math.min(...of('.barlayer .point path').map(r => r.top)) - of('.legend')[0].bottom;""".format(chart))
            check("{} px: the legend covers no bar of {}".format(width, chart), room >= 0, room)
        beyond = browser.run("return document.documentElement.scrollWidth - window.innerWidth")
        check("{} px: the page is no wider".format(width), beyond <= 0, beyond)
    browser.call("/window/rect", {"width": 1200, "height": 1000})
    browser.call("/url", {"url": pathlib.Path(page).resolve().as_uri()})

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
    # Without its pictures it has less than a tenth of that.
    check("it can be printed, with its pictures", len(pdf) > 500000, len(pdf))


if __name__ == "__main__":
    chromium.run(lambda browser: look(browser, sys.argv[1]))
