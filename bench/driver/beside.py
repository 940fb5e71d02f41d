"""Figure 3: the same questions to our server and to dstack's, both on their embedded database."""

from . import load
from .durability import judged, trace
from .muster import make_targets
from .peer import TUNED, Dstack

# figure → our request, theirs; lists first, while both have the same number of projects
PAIRS = {
    "list": ("project_list", "dstack: projects/list"),
    "small": ("service_account_create", "dstack: secrets/create_or_update"),
    "project": ("project_create", "dstack: projects/create"),
}


def beside(bench, group, blocks):
    """Both servers run all the while; the one that is not asked stands idle."""
    tuned = group == "tuned"
    peer = bench.keep(Dstack(bench.tmp / group, tuned)).wait()
    server = bench.server(f"beside-{group}")
    ours, theirs = make_targets(server, 1, load.PAGE), peer.make_projects(load.PAGE)
    bench.settings[group] = TUNED if tuned else "defaults"
    for figure, (our_request, their_request) in PAIRS.items():
        seconds = bench.plan.seconds
        bench.measure(f"{group}-{figure}",
                      lambda: load.ask(server, ours, our_request, seconds=seconds),
                      lambda: load.ask(peer, theirs, their_request, seconds=seconds),
                      {"muster": server, "dstack": peer}, blocks)
    if not tuned:
        bench.say_durability()
        write = lambda: load.ask(peer, theirs, PAIRS["small"][1], requests=50, clients=1)
        # Not held against it: whether it flushes less than we do is for the reader to know.
        bench.durability["dstack on SQLite"] = judged({"one client": trace(peer.pid, bench.tmp, write)})
    server.stop()
    peer.stop()
