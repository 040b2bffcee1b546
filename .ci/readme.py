#!/usr/bin/env python3
"""Runs the commands that a README shows, as it shows them.

Every ```sh block is run by `bash -euo pipefail` in the repository's root, in the order of the page. An HTML
comment on the line before a block says what is special about it:

  <!-- run: background until URL -->   left running until the page ends, once URL answers 200
  <!-- run: no, REASON -->             not run here, and why
  <!-- expect: TEXT -->                the output must contain TEXT (may be given several times)
"""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

FENCE = re.compile(r"^```(\w*)\s*$")
NOTE = re.compile(r"^<!--\s*(run|expect):\s*(.*?)\s*-->$")


def blocks(text):
    """Yields (line number, notes, command) of each sh block."""
    notes, language, body, start = [], None, [], 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if language is not None:
            if fence and not fence.group(1):
                if language == "sh":
                    yield start, notes, "\n".join(body)
                notes, language = [], None
            else:
                body.append(line)
        elif fence:
            language, body, start = fence.group(1) or "text", [], number + 1
        elif note := NOTE.match(line):
            notes.append(note.groups())
        elif line.strip():
            notes = []


def shell(command, **options):
    return subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", command],
        stdin=subprocess.DEVNULL, start_new_session=True, text=True, **options)


def wait_for(url, process, seconds=600):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return f"ended with {process.returncode} before {url} answered"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return None
        except OSError:
            pass
        time.sleep(0.1)
    return f"{url} did not answer in {seconds} s"


def stop(process):
    """Ends the block's whole process group, kindly at first."""
    for sign, seconds in ((signal.SIGINT, 20), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, sign)
            process.wait(seconds)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            pass


def run(path):
    with open(path, encoding="utf-8") as file:
        page = list(blocks(file.read()))
    running, failures, done, left = [], 0, 0, 0
    for line, notes, command in page:
        how = next((value for kind, value in notes if kind == "run"), "")
        expected = [value for kind, value in notes if kind == "expect"]
        print(f"\n{path}:{line}: {how or 'run'}\n  " + command.replace("\n", "\n  "), flush=True)
        problem = None
        if how.startswith("no,"):
            left += 1
            continue
        if how.startswith("background until "):
            process = shell(command)
            running.append(process)
            problem = wait_for(how.split()[-1], process)
        else:
            process = shell(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            try:
                output, _ = process.communicate(timeout=600)
            except subprocess.TimeoutExpired:
                stop(process)
                output, problem = "", "did not end in 600 s"
            print(output, flush=True)
            if process.returncode and not problem:
                problem = f"exit code {process.returncode}"
            missing = [text for text in expected if text not in output]
            if missing and not problem:
                problem = f"output lacks {missing}"
        done += 1
        if problem:
            failures += 1
            print(f"FAILED {path}:{line}: {problem}", flush=True)
    for process in running:
        stop(process)
    print(f"\n{path}: {done} blocks run, {failures} failed, {left} not for this test")
    return 1 if failures or not done else 0


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    sys.exit(run(sys.argv[1]))
