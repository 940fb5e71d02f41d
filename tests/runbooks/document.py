"""The commands of a runbook: its fenced blocks, and the `muster …` between single ticks.

The convention, documented in docs/runbooks/README.md:

- A block fenced as `sh` is run, line by line, on a platform with that fault. Its first line, `# as …`, names the user.
- Each query of a block fenced as `sql` is prepared against a fresh database.
- A block without a language is not run, because it needs a machine or a fault that no test has; its commands are parsed anyway.
- `op_…`, `alc_…` and similar stand for the one id that is meant, CAPITALS for a word that the reader has to fill in.
- A line with a comment that begins with `ends with N` must end with that exit code, every other with 0.
"""

import dataclasses
import re

PLACEHOLDER = re.compile(r"\b[a-z]{2,3}_…|(?<![\w$-])[A-Z][A-Z_]{2,}(?![\w-])")


@dataclasses.dataclass
class Command:
    """A line to type."""

    text: str
    comment: str
    number: int

    @property
    def ends_with(self):
        said = re.match(r"ends with (\d+)", self.comment)
        return int(said[1]) if said else 0


@dataclasses.dataclass
class Block:
    """The lines between two fences."""

    language: str
    who: str
    commands: list


def commands(lines):
    """Returns the commands of a block; lines continued with a backslash or a pipe, and loops, are one."""
    found, held, first = [], "", 0
    for number, line in lines:
        text, comment = split_comment(line)
        if not text.strip() and not held:
            continue
        first = first if held else number
        whole = held + text
        if text.rstrip().endswith(("\\", "|")):
            held += text.rstrip().removesuffix("\\") + " "
            continue
        if re.search(r"\bdo\s", whole + " ") and not re.search(r"^done", text.strip()):
            held += text + "\n"
            continue
        found.append(Command((held + text).strip(), comment, first))
        held = ""
    return found


def split_comment(line):
    """Splits a line into the command and its comment. A # inside quotes starts no comment."""
    quote = None
    for at, letter in enumerate(line):
        if quote:
            quote = None if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (at == 0 or line[at - 1].isspace()):
            return line[:at], line[at + 1:].strip()
    return line, ""


def blocks(text):
    """The fenced blocks of a document, in order."""
    found, inside, language = [], None, ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            if inside is None:
                inside, language = [], line.strip()[3:].strip()
            else:
                who = next((comment[3:] for _, line in inside for comment in [split_comment(line)[1]]
                            if comment.startswith("as ") and not split_comment(line)[0].strip()), "")
                found.append(Block(language, who, commands(inside)))
                inside = None
        elif inside is not None:
            inside.append((number, line))
    assert inside is None, "a fence is not closed"
    return found


def inline(text):
    """Yields (line, command) of each `muster …` between single ticks, also across a line break."""
    outside = re.sub(r"^\s*```.*?^\s*```", lambda block: "\n" * block[0].count("\n"), text, flags=re.S | re.M)
    for match in re.finditer(r"`(muster [^`]*)`", outside):
        yield outside[:match.start()].count("\n") + 1, " ".join(match[1].split())


def calls(text):
    """Each call of `muster` in a line of shell: after a semicolon, a pipe or a parenthesis too, but not inside quotes."""
    parts, quote = [""], None
    for letter in text:
        if quote:
            quote = None if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in ";|()&\n":
            parts.append("")
            continue
        parts[-1] += letter
    return [part.strip() for part in parts if part.strip().startswith("muster ")]


def queries(text):
    """Yields (line, query) of each statement in a block fenced as `sql`, without comments."""
    for match in re.finditer(r"^```sql\n(.*?)^```", text, flags=re.S | re.M):
        for number, line in statements(re.sub(r"--[^\n]*", "", match[1])):
            yield text[:match.start(1)].count("\n") + 1 + number, line


def statements(sql):
    """Yields (line, statement) of each statement that ends with a semicolon; the first line is 0."""
    *whole, rest = sql.split(";")
    assert not rest.strip(), f"no semicolon after: {rest.strip()}"
    number = 0
    for statement in whole:
        yield number + statement[:len(statement) - len(statement.lstrip())].count("\n"), statement.strip()
        number += statement.count("\n")
