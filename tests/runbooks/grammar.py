"""Every `muster …` that a runbook names exists: its noun, its verb, its flags; and a whole line parses as the program parses it."""

import os
import re
import shlex
import subprocess

from document import blocks, calls, inline
from platform_under_test import BINARY

# Commands that run for ever, or change the machine: only their words and flags are checked.
NOT_TYPED = ("server", "agent", "up", "down")
# The exit code of a command line that the program does not take, by docs/reference/cli.md.
USAGE = 2
# Nothing listens there.
NOWHERE = {"MUSTER_SERVER": "http://127.0.0.1:9", "MUSTER_TOKEN": "mst_none", "MUSTER_PROJECT": "acme.train", "PATH": os.environ["PATH"]}


class Grammar:
    """The program's own commands and flags, read from its help and cached."""

    def __init__(self, folder):
        self.environment = {**NOWHERE, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
        self.helps, self.judged = {}, 0

    def run(self, *words):
        return subprocess.run([BINARY, *words], env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=30)

    def help(self, *words):
        if words not in self.helps:
            said = self.run(*words, "--help")
            self.helps[words] = said.stdout if said.returncode == 0 else None
        return self.helps[words]

    def wrong(self, text, whole):
        """Returns the fault of a command, or None. A complete one must parse; of an excerpt, and of commands that are not run,
        only words and flags must exist."""
        self.judged += 1
        words = shlex.split(filled(calls(text)[0]))[1:]
        if whole and words[0] not in NOT_TYPED:
            said = self.run(*words)
            # A file that is not here, or a question that only a person can answer, is not a wrong word.
            wrong = said.returncode == USAGE and "For more information, try" in said.stderr
            return said.stderr.strip().splitlines()[0] if wrong else None
        path = self.path(words)
        if path is None:
            return f"there is no `muster {' '.join(words[:2])}`"
        typed = words[:words.index("--")] if "--" in words else words
        flags = [word.split("=")[0] for word in typed if re.match(r"--?[a-z]", word)]
        known = set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", self.help(*path)))
        unknown = [flag for flag in flags if flag not in known]
        return f"`muster {' '.join(path)}` has no {', '.join(unknown)}" if unknown else None

    def path(self, words):
        """The noun and, where it has verbs, the verb that a command begins with."""
        if not words or self.help(words[0]) is None:
            return None
        if "\nCommands:" not in self.help(words[0]) or len(words) == 1 or words[1].startswith("-"):
            return (words[0],)
        if self.help(words[0], words[1]) is None:
            # A noun that is itself a command takes a word that is no verb.
            return None if re.search(r"^Usage: .*<COMMAND>", self.help(words[0]), re.M) else (words[0],)
        return (words[0], words[1])


def filled(text):
    """With something in the place of each …"""
    text = re.sub(r"\b([a-z]{2,3})_…", r"\1_01m7fjvyj8emk9p4cab3ddwt0a", text)
    return text.replace("sha256:…", "sha256:" + "0" * 64).replace("…", "some")


def faults(name, text, grammar):
    """A sentence for each command of a document that is not there."""
    found = []
    for block in blocks(text):
        for command in block.commands:
            for part in calls(command.text):
                if why := grammar.wrong(part, whole=True):
                    found.append(f"{name}:{command.number}: {part}: {why}")
    for number, command in inline(text):
        if not command.startswith("muster …") and (why := grammar.wrong(command, whole=False)):
            found.append(f"{name}:{number}: `{command}`: {why}")
    return found
