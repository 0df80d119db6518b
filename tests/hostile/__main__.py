"""Runs cases by hand: all of a group, other samples, or one case by its name."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from hostile.suite import GROUPS, Suite, opened


def main() -> None:
    """Run what is asked for; a failure ends with status 1."""
    parser = argparse.ArgumentParser(prog="python -m hostile", description=__doc__)
    parser.add_argument("--case", help="the name of one case")
    parser.add_argument("--group", choices=GROUPS, action="append", help="unset: all")
    parser.add_argument("--count", type=int, help="cases of each group; unset: as make test-long")
    parser.add_argument("--part", default="1/1", help="2/4: the second of four parts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, help="a file for one line of JSON a case")
    asked = parser.parse_args()
    with opened(asked.seed) as suite:
        if asked.case:
            found = suite.problems(suite.named(asked.case))
            print("\n".join(found) or "ok")
            sys.exit(bool(found))
        failed = [_group(suite, name, asked) for name in asked.group or GROUPS]
    sys.exit(bool(sum(failed)))


def _group(suite: Suite, name: str, asked: argparse.Namespace) -> int:
    """Run the cases of a group; how many failed."""
    part, parts = map(int, asked.part.split("/"))
    cases = suite.cases(name, asked.count or GROUPS[name].long)[part - 1 :: parts]
    failed, began = 0, time.monotonic()
    for case in cases:
        start = time.monotonic()
        found = suite.problems(case)
        if asked.report:
            seconds = time.monotonic() - start
            with asked.report.open("a") as file:
                row = {"case": case.name, "problems": found, "seconds": round(seconds, 2)}
                file.write(json.dumps(row) + "\n")
        if found:
            failed += 1
            print(f"{case.name}\n  " + "\n  ".join(found), flush=True)
    seconds = time.monotonic() - began
    print(f"{name}: {len(cases)} cases, {failed} failed, {seconds:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    main()
