"""Runs scenarios, each in a process of its own: what hangs is ended, and what computes holds up nobody else's clock."""

import collections
import faulthandler
import importlib
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import pkgutil
import sys
import time
import traceback

import scenarios
from scenarios.bus import Bus
from scenarios.scenario import scenarios as known

AT_ONCE = 8  # processes; most of their time is waiting, and the longest scenario takes over a minute anyhow

# A fork has the SDK imported already. The server of forks, unlike this process, never has more than one thread.
context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(["scenarios.runner"])

for module in pkgutil.iter_modules(scenarios.__path__):
    if module.name not in ("__main__", "runner"):
        importlib.import_module(f"scenarios.{module.name}")


def show(id: str, stubborn: bool, topic: bool, partitioned: bool, answer: multiprocessing.connection.Connection) -> None:
    """Shows a scenario, in its own process, and answers with the error, which is empty if there was none."""
    logging.getLogger("azure").setLevel(logging.CRITICAL)  # what it logs are the errors that it also raises
    faulthandler.dump_traceback_later(known[id].limit, exit=True)  # whatever hangs, and if nobody waits for it any more
    bus = Bus(id, os.environ["LEDGERBUS_CONNECTION_STRING"], os.environ["LEDGERBUS_CONTROL"], stubborn, topic, partitioned)
    error = ""
    try:
        known[id].show(bus)
    except Exception as e:
        where = [f for f in traceback.extract_tb(e.__traceback__) if "/scenarios/" in f.filename][0:2][-1]
        error = f"{os.path.basename(where.filename)}:{where.lineno}: {e if isinstance(e, AssertionError) else repr(e)}"
        traceback.print_exc()
    bus.close()
    faulthandler.cancel_dump_traceback_later()
    answer.send(error)
    sys.stderr.flush()
    os._exit(0)  # whatever threads of the SDK are still there


class Running:
    """A scenario on its way."""

    def __init__(self, listed: dict):
        self.id, self.began = listed["id"], time.monotonic()
        self.answer, theirs = multiprocessing.Pipe(duplex=False)
        partitioned = os.environ.get("LEDGERBUS_PARTITIONED", "") != "" and listed["group"] != "admin"  # those say themselves what they make
        args = (self.id, listed.get("exclusive", False), "topic" in listed, partitioned, theirs)
        self.process = context.Process(target=show, args=args)
        self.process.start()
        theirs.close()

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def error(self) -> str | None:
        """Why it failed; empty if it did not, None as long as it runs."""
        if not self.answer.poll():
            return None
        try:
            error = self.answer.recv()
        except EOFError:
            limit = known[self.id].limit
            error = f"not ended after {limit} s" if self.seconds() >= limit else "the process ended"
            error += "; the log says where it was"
        self.process.join()
        return error


def report(id: str, result: str, seconds: float = 0.0, error: str = "") -> None:
    line = json.dumps({"id": id, "result": result, "error": error, "seconds": round(seconds, 3)}, ensure_ascii=False)
    print(line, flush=True)
    with open(os.environ["LEDGERBUS_RESULTS"], "a", encoding="utf-8") as results:
        results.write(line + "\n")


def run(todo: list[dict], at_once: int) -> None:
    waiting, running = collections.deque(todo), []
    while waiting or running:
        while waiting and len(running) < at_once:
            running.append(Running(waiting.popleft()))
        multiprocessing.connection.wait([r.answer for r in running])
        for r in list(running):
            if (error := r.error()) is not None:
                running.remove(r)
                report(r.id, "fail" if error else "pass", r.seconds(), error)


def main() -> None:
    with open(os.environ["LEDGERBUS_SCENARIOS"], encoding="utf-8") as file:
        listed = json.load(file)["scenarios"]
    only = [id for id in os.environ.get("LEDGERBUS_ONLY", "").split(",") if id]
    todo = []
    for s in listed:
        if only and s["id"] not in only:
            continue
        if "python" in s.get("not", {}) or os.environ.get("LEDGERBUS_PARTITIONED") and "python" in s.get("notPartitioned", {}):
            report(s["id"], "n/a")
        elif s["id"] not in known:
            report(s["id"], "fail", error="the suite has no function for it")
        else:
            todo.append(s)
    todo.sort(key=lambda s: -known[s["id"]].limit)  # the long ones first
    run([s for s in todo if not s.get("exclusive")], AT_ONCE)
    run([s for s in todo if s.get("exclusive")], 1)
