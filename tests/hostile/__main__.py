"""Runs cases from the command line: groups, samples, or one case by its name."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from hostile.suite import GROUPS, Suite, opened


def main() -> None:
    """Run the selected cases; exit with status 1 if one fails."""
    parser = argparse.ArgumentParser(prog="python -m hostile", description=__doc__)
    parser.add_argument("--case", help="the name of one case")
    parser.add_argument("--group", choices=GROUPS, action="append", help="default: all")
    parser.add_argument("--count", type=int, help="cases of each group; default: as make test-long")
    parser.add_argument("--part", default="1/1", help="2/4: the second of four parts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", type=Path, help="file for one line of JSON per case")
    options = parser.parse_args()
    with opened(options.seed) as suite:
        if options.case:
            problems = suite.problems(suite.named(options.case))
            print("\n".join(problems) or "ok")
            sys.exit(bool(problems))
        failed = [_group(suite, name, options) for name in options.group or GROUPS]
    sys.exit(bool(sum(failed)))


def _group(suite: Suite, name: str, options: argparse.Namespace) -> int:
    """Run the cases of a group; returns the number of failures."""
    part, parts = map(int, options.part.split("/"))
    cases = suite.cases(name, options.count or GROUPS[name].long)[part - 1 :: parts]
    failed, group_start = 0, time.monotonic()
    for case in cases:
        start = time.monotonic()
        problems = suite.problems(case)
        if options.report:
            seconds = time.monotonic() - start
            with options.report.open("a") as file:
                row = {"case": case.name, "problems": problems, "seconds": round(seconds, 2)}
                file.write(json.dumps(row) + "\n")
        if problems:
            failed += 1
            print(f"{case.name}\n  " + "\n  ".join(problems), flush=True)
    seconds = time.monotonic() - group_start
    print(f"{name}: {len(cases)} cases, {failed} failed, {seconds:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    main()
