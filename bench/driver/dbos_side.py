"""Durable workflows of DBOS, run by its own interpreter. Each line of its input is a number of seconds, or `x` and a number of
workflows for one thread alone; it works for that long, and responds with a line of JSON.

A workflow has three steps and nothing around them: no HTTP, no queue, no tracing. Its durability is the commits of DBOS:
a row when it begins, one for each step, and that row again when it ends.
"""

import json
import os
import sys
import threading
import time
import uuid

from dbos import DBOS, DBOSConfig, SetWorkflowID


@DBOS.step()
def one(number):
    return number + 1


@DBOS.step()
def two(number):
    return number + 2


@DBOS.step()
def three(number):
    return number + 3


@DBOS.workflow()
def operation(number):
    return three(two(one(number)))


class Round:
    """This many threads that run workflows, one after the other each."""

    def __init__(self, seconds, count):
        self.until = time.monotonic() + seconds
        self.left = iter(range(count))
        self.taken, self.failed = [], []

    def work(self):
        # The iterator is shared; taking the next of it is one step of the interpreter.
        for number in self.left:
            began = time.monotonic()
            if began >= self.until or self.failed:
                return
            try:
                with SetWorkflowID(str(uuid.uuid4())):
                    found = operation(number)
                if found != number + 6:
                    raise ValueError(f"{found} instead of {number + 6}")
            except Exception as failure:  # ends the round; the driver gets the error
                self.failed.append(repr(failure))
                return
            self.taken.append(time.monotonic() - began)

    def run(self, threads):
        began = time.monotonic()
        workers = [threading.Thread(target=self.work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.monotonic() - began
        taken = sorted(self.taken) or [0]
        at = lambda share: taken[min(len(taken) - 1, int(len(taken) * share))] * 1000
        return {"ok": len(self.taken), "seconds": seconds, "per_second": len(self.taken) / seconds, "failed": self.failed[:1],
                "latency_ms": {"p50": at(0.5), "p99": at(0.99)}}


def main():
    threads = int(sys.argv[1])
    # Connections for all threads; the rest is as it comes.
    config: DBOSConfig = {"name": "bench", "system_database_url": os.environ["DBOS_SYSTEM_DATABASE_URL"],
                          "sys_db_pool_size": threads, "log_level": "WARNING", "application_version": "1"}
    DBOS(config=config)
    DBOS.launch()
    print("ready", flush=True)
    for line in sys.stdin:
        alone = line.startswith("x")
        count, seconds = (int(line[1:]), 600) if alone else (10**9, float(line))
        print(json.dumps(Round(seconds, count).run(1 if alone else threads)), flush=True)
    DBOS.destroy()


main()
