"""market_test.py SIMULATE TRACE...: a few runs on each trace; table, JSON and picture."""

import json
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

POLICIES = {"oracle", "spotter", "with fence", "periodic", "aws-script"}
simulate, traces = sys.argv[1], sys.argv[2:]

with tempfile.TemporaryDirectory() as folder:
    out, picture = pathlib.Path(folder, "rows.json"), pathlib.Path(folder, "rows.svg")
    done = subprocess.run([simulate, "--trace", *traces, "--runs", "2",
                           "--json", out, "--svg", picture])
    assert done.returncode == 0, "oracle >= spotter >= periodic, aws-script does not hold"
    rows = json.loads(out.read_text())
    xml.etree.ElementTree.parse(picture)

    for trace in traces:
        name = pathlib.Path(trace).stem
        of = {row["policy"]: row for row in rows if row["trace"] == name}
        assert set(of) == POLICIES, f"{name}: {sorted(of)}"
        for policy, row in of.items():
            assert 0 < row["goodput"] <= 1 and row["cost"] > 0 and row["hours"] >= 7 * 24, row
            assert (row["steps_repeated"] == 0) == (policy == "oracle"), row
            assert row["rates"] == 0, "no rate pays for a machine of a dollar an hour"
        assert of["spotter"]["steps_repeated"] < of["periodic"]["steps_repeated"], name

    # Whoever has a dear machine pays for the blocks of a copy; a script does not know how.
    subprocess.run([simulate, "--trace", traces[-1], "--runs", "1", "--price", "14",
                    "--json", out], check=True)
    pays = {row["policy"] for row in json.loads(out.read_text()) if row["rates"] > 0}
    assert pays == {"oracle", "spotter", "with fence"}, pays

    # Refused with words, not played: what is no trace.
    for text in ("", "1000,add\n", "x,add,node1\n", '{"data": [1]}',
                 '{"metadata": {"gap_seconds": 0}, "data": [1]}'):
        bad = pathlib.Path(folder, "bad.csv" if "{" not in text else "bad.json")
        bad.write_text(text)
        refused = subprocess.run([simulate, "--trace", bad], capture_output=True, text=True)
        assert refused.returncode == 2 and "bad." in refused.stderr, (text, refused)
