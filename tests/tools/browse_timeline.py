#!/usr/bin/env python3
"""browse_timeline.py UI MERGED STEPS CUT [REAL]: opens timelines in Perfetto, and in Chrome's older tracing viewer.

UI: the folder of Perfetto's pages. MERGED: of 4 ranks and so many steps. CUT: of rank 0 alone, cut off somewhere.
REAL: of two ranks, merged, whatever they did.
Exit code 77: there is no Chromium here.
"""
import functools
import http.server
import json
import pathlib
import sys
import threading
import time

import browser as chromium
from browser import check

RANKS = ["rank 0 on node1", "rank 1 on node1", "rank 2 on node2", "rank 3 on node2"]


class Pages(http.server.SimpleHTTPRequestHandler):
    """The viewers' pages, and the files to be opened."""

    def __init__(self, *arguments, traces, **options):
        self.traces = traces
        super().__init__(*arguments, **options)

    def translate_path(self, path):
        return self.traces.get(path) or super().translate_path(path)

    def log_message(self, *arguments):
        pass


def serve(ui, traces):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Pages, traces=traces, directory=ui))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return "http://127.0.0.1:{}".format(server.server_address[1])


def wait_for(browser, condition, what):
    deadline = time.monotonic() + 60
    while not browser.run("return Boolean({})".format(condition)):
        if time.monotonic() > deadline:
            raise RuntimeError("{} did not come within 60 s".format(what))
        time.sleep(0.2)


def query(browser, sql):
    """Of Perfetto's trace processor, rows of texts."""
    return browser.run("""const rows = await window.app.trace.engine.query({});
        const columns = rows.columns(), found = [];
        for (const row = rows.iter({{}}); row.valid(); row.next()) found.push(columns.map(c => String(row.get(c))));
        return found;""".format(json.dumps(sql)))


def open_in_perfetto(browser, base, name):
    browser.call("/url", {"url": "about:blank"})  # else the page stays, and the trace
    browser.call("/url", {"url": "{0}/#!/?url={0}/{1}".format(base, name)})
    wait_for(browser, "window.app && window.app.trace", "the trace in Perfetto")
    complaints = query(browser, "select name, value from stats where severity != 'info' and value > 0")
    check("Perfetto does not complain of " + name, complaints == [], complaints)


def look_at_perfetto(browser, base, steps):
    open_in_perfetto(browser, base, "merged.json")
    names = [row[0] for row in query(browser, "select name from process where pid > 0 order by pid")]
    check("Perfetto knows the ranks", names == RANKS, names)
    count = query(browser, "select count(*) from slice where name glob 'STEP *'")
    check("Perfetto has all steps of all ranks", count == [[str(4 * steps)]], count)
    nested = query(browser, "select distinct child.name from slice child join slice parent on child.parent_id = parent.id"
                            " where parent.name = 'ALLREDUCE'")
    check("phases lie in their operation", ["SHM_ALLREDUCE"] in nested, nested)
    count = query(browser, "select count(*) from counter join counter_track on track_id = counter_track.id"
                           " where name glob 'bandwidth*'")
    check("Perfetto has the counters", int(count[0][0]) > 0, count)
    wait_for(browser, "document.body.innerText.includes({})".format(json.dumps(RANKS[3])), "the picture")

    open_in_perfetto(browser, base, "cut.json")
    count = query(browser, "select count(*) from slice where name glob 'STEP *'")
    check("Perfetto opens what a killed rank has left", 0 < int(count[0][0]) < steps, count)


def look_at_old_viewer(browser, base, page, steps):
    browser.call("/url", {"url": base + page})
    wait_for(browser, "window.tr && window.tr.Model", "the viewer")
    processes, count, warnings = browser.run("""const text = await (await fetch('/merged.json')).text();
        const model = new tr.Model();
        await new tr.importer.Import(model).importTraces([text]);
        await document.querySelector('x-profiling-view').setActiveTrace('a trace', text);
        const slices = model.getAllThreads().flatMap(thread => thread.sliceGroup.slices);
        return [Object.values(model.processes).map(process => process.name),
                slices.filter(slice => slice.title.startsWith('STEP ')).length,
                model.importWarnings.map(warning => warning.message)];""")
    check("the old viewer knows the ranks", processes == RANKS, processes)
    check("the old viewer has all steps of all ranks", count == 4 * steps, count)
    # What is kolo's own it says that it does not know.
    others = [warning for warning in warnings if not warning.startswith("Unrecognized metadata name: kolo")]
    check("the old viewer does not complain", others == [], others)
    wait_for(browser, "document.body.innerText.includes({})".format(json.dumps(RANKS[0])), "the picture")


def main():
    ui, merged, steps, cut = sys.argv[1:5]
    real = sys.argv[5] if len(sys.argv) > 5 else None
    base = serve(ui, {"/merged.json": merged, "/cut.json": cut, "/real.json": real})
    old = next(pathlib.Path(ui).glob("*/assets/catapult_trace_viewer.html"))

    def look(browser):
        look_at_perfetto(browser, base, int(steps))
        if real is not None:
            open_in_perfetto(browser, base, "real.json")
            ranks = query(browser, "select count(*) from process where name glob 'rank *'")
            check("Perfetto knows the ranks of a training", ranks == [["2"]], ranks)
        look_at_old_viewer(browser, base, "/" + str(old.relative_to(ui)), int(steps))

    chromium.run(look)


if __name__ == "__main__":
    main()
