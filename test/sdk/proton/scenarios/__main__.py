"""Runs the scenarios one after another; each takes a second."""

import faulthandler
import json
import os
import time
import traceback

from .bus import Bus
from .transactions import scenarios

LIMIT = 60  # seconds


def attempt(id: str) -> str:
    """Shows a scenario and returns the error, which is empty if there was none."""
    bus = None
    try:
        bus = Bus(id)
        scenarios[id](bus)
        return ""
    except Exception as e:
        traceback.print_exc()
        where = [f for f in traceback.extract_tb(e.__traceback__) if f.filename.endswith("transactions.py")]
        line = f"transactions.py:{where[-1].lineno}: " if where else ""
        return f"{line}{e if isinstance(e, AssertionError) else repr(e)}"
    finally:
        if bus:
            bus.close()


def main() -> None:
    with open(os.environ["LEDGERBUS_SCENARIOS"], encoding="utf-8") as file:
        ids = [s["id"] for s in json.load(file)["scenarios"]]
    only = [id for id in os.environ.get("LEDGERBUS_ONLY", "").split(",") if id]
    for id in ids:
        if only and id not in only:
            continue
        began = time.monotonic()
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        error = attempt(id) if id in scenarios else "the suite has no function for it"
        faulthandler.cancel_dump_traceback_later()
        result = {"id": id, "result": "fail" if error else "pass", "error": error, "seconds": round(time.monotonic() - began, 3)}
        with open(os.environ["LEDGERBUS_RESULTS"], "a", encoding="utf-8") as results:
            results.write(json.dumps(result, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
