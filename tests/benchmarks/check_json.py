"""check_json.py FILE BENCHMARK CONTENDERS WORK... [CONTENDERS WORK...]...: whether FILE has the form
of kolo bench's JSON. A work has slashes; contenders, which those behind them have, have none."""
import json
import re
import sys

MODEL_BYTES = {"resnet50": 4 * 25_557_032, "mnist": 4 * 1_200_138, "tiny1000": 1000 * 1024}
ROW_TYPES = {
    "work": str, "contender": str, "median_us": float, "min_us": float, "p90_us": float,
    "samples": int, "bytes": int, "placement": str,
}


def check_row(row):
    assert set(row) == set(ROW_TYPES), row
    for name, kind in ROW_TYPES.items():
        assert isinstance(row[name], kind), (name, row)
    assert 0 < row["min_us"] <= row["median_us"] <= row["p90_us"], row
    assert row["samples"] > 0 and row["placement"], row
    kind, what = row["work"].split("/")[:2]
    if kind in ("reduction", "gradients", "sgd", "adam", "adamw"):
        assert row["bytes"] == MODEL_BYTES[what], row
    elif kind == "check-in-sync":  # each parameter has two of Adam's tensors
        assert row["bytes"] == 3 * MODEL_BYTES[what], row
    elif kind == "negotiate":
        assert row["bytes"] == 4 * int(what), row
    elif kind == "loading":
        assert row["bytes"] == {"idx": 16384 * 28 * 28}.get(what, 8192 * 3 * 32 * 32), row
    elif kind == "small":  # a network 8 -> 64 -> 64 -> 1
        assert row["bytes"] == 4 * (9 * 64 + 65 * 64 + 65), row
    elif kind == "delivery":  # batches of 8 samples of 16 bytes
        assert row["bytes"] % (8 * 16) == 0, row
    elif kind == "idle":  # less than a hundredth of a core
        assert row["bytes"] == 0 and row["median_us"] < 10_000, row
    elif kind != "train":
        assert row["bytes"] == int(what), row


def expected_rows(words):
    contenders, rows = [], []
    for word in words:
        if "/" in word:
            rows += [(word, who) for who in contenders]
        else:
            contenders = word.split(",")
    return rows


def main():
    path, benchmark, *words = sys.argv[1:]
    expected = expected_rows(words)
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    assert set(report) == {"benchmark", "command", "date", "machine", "rows"}, report.keys()
    assert report["benchmark"] == benchmark
    ranks = max(int(work.split("/")[-1]) for work, _ in expected)
    assert f"kolo bench {benchmark} -np {ranks} " in report["command"], report["command"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", report["date"]), report["date"]
    assert re.search(r"\d+ cores?, Linux ", report["machine"]), report["machine"]
    for row in report["rows"]:
        check_row(row)
    # One row for each distance of the cores that there was.
    found = [(row["work"], row["contender"]) for row in report["rows"]]
    assert list(dict.fromkeys(found)) == expected, found
    each = [(row["work"], row["contender"], row["placement"]) for row in report["rows"]]
    assert len(set(each)) == len(each), each


main()
