"""Sums up the steps of a test command: a table, the tests that failed, and those that were flaky.

    tests/report.py [--rounds] STEPS FLAKY

STEPS is the folder of the run. `steps.tsv` in it has a line for each step: name, seconds, exit code. `NAME.xml`
beside it is the JUnit report of a step, if its runner makes one. The flaky tests are written to FLAKY, each with
the reason of its first failure. The exit code is 1 if a step failed, or if more than three tests were flaky. With
`--rounds` each step is one more round of the same tests, and what fails the run is a test that was flaky in two.
"""

import collections
import sys
import xml.etree.ElementTree
from pathlib import Path

FLAKY_AT_MOST = 3


def reason(failure):
    """The line of a failure that says most: the first one behind the place of a panic, or else the first one."""
    text = failure.get("message") or failure.text or ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for place, line in enumerate(lines):
        if "panicked at" in line and place + 1 < len(lines):
            return f"{line.split('panicked at ', 1)[1]} {lines[place + 1]}"
    return lines[0] if lines else "no reason was printed"


def read(path):
    """The counts of passed, and the names with their reasons of failed and flaky tests of a JUnit report."""
    passed, failed, flaky = 0, [], []
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname')} {case.get('name')}"
        broken = case.find("failure")
        if broken is None:
            broken = case.find("error")
        first = case.find("flakyFailure")
        if first is None:
            first = case.find("flakyError")
        if broken is not None:
            failed.append((name, reason(broken)))
        elif case.find("skipped") is None:
            passed += 1
            if first is not None:
                flaky.append((name, reason(first)))
    return passed, failed, flaky


def main():
    """Prints the table, and exits with what the run comes to."""
    rounds = sys.argv[1] == "--rounds"
    folder, flaky_file = map(Path, sys.argv[-2:])
    rows, all_failed, all_flaky, passed_in_all = [], [], [], 0
    failed_steps = 0
    for line in (folder / "steps.tsv").read_text().splitlines():
        name, seconds, code = line.split("\t")
        report = folder / f"{name.replace(' ', '-')}.xml"
        row = [name, seconds, "passed" if code == "0" else "FAILED" if code.isdigit() else code, "", "", ""]
        if report.exists():
            passed, failed, flaky = read(report)
            row[3:] = [str(passed), str(len(failed)), str(len(flaky))]
            passed_in_all += passed
            all_failed += failed
            all_flaky += flaky
        if code != "0":
            failed_steps += 1
        rows.append(row)
    header = ["step", "seconds", "result", "tests passed", "failed", "flaky"]
    widths = [max(len(row[place]) for row in [header, *rows]) for place in range(len(header))]
    for row in [header, *rows]:
        cells = [cell.ljust(width) if place in (0, 2) else cell.rjust(width)
                 for place, (cell, width) in enumerate(zip(row, widths, strict=True))]
        print("  ".join(cells).rstrip())
    for title, tests in (("failed", all_failed), ("flaky, and passed when tried again", all_flaky)):
        if tests:
            print(f"\n{title}:")
            for name, why in tests:
                print(f"  {name}\n    {why}")
    flaky_file.write_text("".join(f"{name}: {why}\n" for name, why in all_flaky))
    if rounds:
        times = collections.Counter(name for name, _ in all_flaky)
        too_many = [name for name, count in times.items() if count > 1]
        for name in too_many:
            print(f"\n{name} was flaky in {times[name]} rounds, which fails the run")
    else:
        too_many = len(all_flaky) > FLAKY_AT_MOST
        if too_many:
            print(f"\nmore than {FLAKY_AT_MOST} tests were flaky, which fails the run")
    print(f"\n{passed_in_all} passed, {len(all_failed)} failed")
    if failed_steps:
        print(f"{failed_steps} of {len(rows)} steps failed")
    sys.exit(1 if failed_steps or all_failed or too_many else 0)


main()
