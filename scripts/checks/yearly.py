"""Is each fact of yearly.txt where it says, and not older than its date?"""

import datetime

from checks.files import ROOT

TABLE = ROOT / "scripts/checks/yearly.txt"


def check_yearly():
    findings = []
    today = datetime.date.today()
    facts = 0
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("  "):
            file, _, text = line[2:].partition(": ")
            path = ROOT / file
            if not path.is_file() or text not in path.read_text():
                findings.append(f"{TABLE.name}:{number}: {file} does not say {text!r}")
            continue
        fact, date, source = line.split(" | ")
        facts += 1
        if datetime.date.fromisoformat(date) < today:
            findings.append(f"{TABLE.name}:{number}: {fact}: look at {source} again, mend what it "
                            "names, and set a new date")
    return findings if facts else [f"{TABLE.name} has no facts"]
