"""Durability in a power cut: the order of the agent's writes, as the kernel recorded them, while a cell is created and destroyed."""

import re
from typing import NamedTuple

import snapshot
from own_agent import OwnAgent
from world import eventually, web

CHANGES = ("execve", "mkdir", "mkdirat", "mount", "move_mount", "rename", "renameat", "renameat2", "rmdir", "umount2",
           "unlink", "unlinkat")
CALLS = (*CHANGES, "fdatasync", "fsync", "openat", "sendto", "write", "writev")
LINE = re.compile(r"(\d+) +(.*)")
CALL = re.compile(r"(\w+)\((.*)")
FAILED = re.compile(r"\) += -1 E[A-Z]+ \(")
# How a piece of TLS that carries data begins, as strace writes it.
DATA = r'"\27\3\3'
FENCES = "/.fences.json.new"
# The runtime's commands in each of the two tasks.
TOLD = {"cell_create": ("create", "start"), "cell_destroy": ("delete",)}


class Call(NamedTuple):
    """A call that succeeded, and the lines at which it began and ended; that of a program ends with the program."""

    began: int
    ended: int
    name: str
    words: str


def run(world):
    trace = world.folder / "trace"
    with OwnAgent(world) as agent:
        project = world.project()
        project.allocate("a", gpus="1")
        agent.end()
        # With -D the agent stays our own child, and ending that ends the agent.
        only = f"trace={','.join(CALLS)}"
        agent.start(under=("strace", "-D", "-f", "-y", "-s", "4096", "-o", str(trace), "-e", only))
        cell = project.cell("a", "a", world.spec(**web("a")))["id"]
        project.said("cell", "destroy", "a", "--wait", "--timeout", "60s")
        agent.end()
        eventually(lambda: is_over(trace))
        agent.start()
        project.release("a")
    calls = read(trace.read_text(errors="replace").splitlines())
    found = faults(calls, cell)
    assert not found, found
    the_judge_sees_what_is_out_of_order(calls, cell)


def is_over(trace):
    writers = [line for line in snapshot.processes().values() if line.startswith("strace ") and str(trace) in line]
    assert not writers, writers


def read(lines):
    """The calls, in the order in which they ended."""
    calls, unfinished, programs = [], {}, {}
    for number, line in enumerate(lines):
        thread, rest = LINE.fullmatch(line).groups()
        began = number
        if rest.startswith("+++ ") and thread in programs:
            at = programs.pop(thread)
            calls[at] = calls[at]._replace(ended=number)
        if rest.endswith(" <unfinished ...>"):
            unfinished[thread] = number, rest.removesuffix(" <unfinished ...>")
            continue
        if rest.startswith("<... "):
            began, start = unfinished.pop(thread)
            rest = start + rest.partition(" resumed>")[2]
        call = CALL.fullmatch(rest)
        if call and not FAILED.search(rest):
            if call[1] == "execve":
                programs[thread] = len(calls)
            calls.append(Call(began, number, *call.groups()))
    return calls


def faults(calls, cell):
    """Returns the violations of the order, a sentence each."""
    found = []
    effects = [call for call in calls if changes(call, cell)]
    for kind, verbs in TOLD.items():
        runs = [call for call in effects if tells(call, verbs)]
        fence = fenced(calls, cell, kind == "cell_destroy")
        begun, done = noted(calls, kind, "begun"), noted(calls, kind, "done")
        if not (fence and begun and done and len(runs) == len(verbs)):
            found.append(f"{kind}: not seen: fence {fence}, begun {begun}, done {done}, the runtime {runs}")
            continue
        if fence.ended > begun.began:
            found.append(f"{kind}: begun before the fence was on the disk")
        # A running cell is supervised outside of tasks; but only a task creates or removes it.
        ours = effects if kind == "cell_create" else [call for call in effects if call.name == "rmdir" or call in runs]
        if ours[0].began < begun.ended:
            found.append(f"{kind}: something was done before it was on the disk that it was begun: {ours[0]}")
        ours = runs if kind == "cell_create" else effects
        if max(call.ended for call in ours) > done.began:
            found.append(f"{kind}: something was done after it was said to be done: {ours[-1]}")
        if any(begun.began < call.began < done.ended for call in reports(calls)):
            found.append(f"{kind}: reported before it was on the disk that it was done")
        if not any(call.began > done.ended for call in reports(calls)):
            found.append(f"{kind}: never reported")
    return found


def changes(call, cell):
    """Whether a call does something to the cell, or has a program do it."""
    if call.name == "openat":
        path, flags = call.words.split(", ")[1:3]
        return cell in path and re.search(r"O_WRONLY|O_RDWR|O_CREAT", flags) is not None
    return call.name in CHANGES and cell in call.words


def tells(call, verbs):
    """Whether a call has the runtime do one of these things."""
    return call.name == "execve" and any(f'/runc.log", "{verb}"' in call.words for verb in verbs)


def file(call):
    """The open file that a call is about."""
    return call.words.partition(">")[0]


def reports(calls):
    """Returns the reports of tasks. Of the agent's connections the first polls for work, and another reports the status of cells; after a
    cell is destroyed only the report is left to send, which identifies the connection."""
    sent = [call for call in calls if call.name in ("write", "writev", "sendto") and DATA in call.words]
    done = noted(calls, "cell_destroy", "done")
    last = [call for call in sent if file(call) != file(sent[0]) and done and call.began > done.ended]
    return [call for call in sent if last and file(call) == file(last[0])]


def noted(calls, kind, what):
    """Writing a line of the journal, from the write until it is durable, which is the next call for the file."""
    text = f'\\"what\\":\\"{what}\\",\\"kind\\":\\"{kind}\\"'
    own = [call for call in calls if call.name in ("write", "fdatasync") and file(call).endswith("/journal.jsonl")]
    written = next((at for at, call in enumerate(own) if text in call.words), None)
    after = own[written + 1:written + 2] if written is not None else []
    return own[written]._replace(ended=after[0].ended) if after and after[0].name == "fdatasync" else None


def fenced(calls, cell, destroyed):
    """Writing the cell's fence, from the write until its name is on the disk too."""
    text = f'\\"{cell}\\":{{\\"incarnation\\":1,\\"destroyed\\":{str(destroyed).lower()}'
    steps = [("write", f"{FENCES}>", text), ("fsync", f"{FENCES}>", ""), ("rename", FENCES, "/fences.json"),
             ("fsync", "/n1>", "")]
    rest, taken = iter(calls), []
    for name, one, other in steps:
        fits = (call for call in rest if call.name == name and one in call.words and other in call.words)
        taken.append(next(fits, None))
    return taken[0]._replace(ended=taken[-1].ended) if all(taken) else None


def the_judge_sees_what_is_out_of_order(calls, cell):
    """Pairs of calls that change places, each of which could lose something in a power cut."""
    at = {call.ended: call for call in calls}
    effects = [call for call in calls if changes(call, cell)]
    for kind in TOLD:
        fence = fenced(calls, cell, kind == "cell_destroy")
        begun, done = noted(calls, kind, "begun"), noted(calls, kind, "done")
        synced, told = at[done.ended], next(call for call in reports(calls) if call.began > done.ended)
        swaps = {"the fence": (at[fence.ended], at[begun.ended]), "the report": (synced, told)}
        if kind == "cell_create":
            swaps["the first effect"] = at[begun.ended], effects[0]
        else:
            swaps["the last effect"] = effects[-1], synced
        for name, (one, other) in swaps.items():
            moved = {one: one._replace(began=other.began, ended=other.ended),
                     other: other._replace(began=one.began, ended=one.ended)}
            wrong = sorted((moved.get(call, call) for call in calls), key=lambda call: call.ended)
            assert faults(wrong, cell), f"{kind}: nobody notices that {name} is out of order"
