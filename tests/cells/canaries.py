"""Secrets that are looked for afterwards: plain, in base64 at every alignment, in hexadecimal and URL-encoded."""

import base64
import os
import urllib.parse
import uuid
from pathlib import Path

MADE = []
# Longer files are read in parts that overlap by more than any form of a canary is long.
PART, OVERLAP = 64 << 20, 4096


def last():
    return MADE[-1]


def forms(text):
    """Every way in which a text may stand somewhere, as bytes, with a word for it."""
    data = text.encode()
    yield "plain", data
    yield "hex", data.hex().encode()
    yield "HEX", data.hex().upper().encode()
    yield "URL-encoded", "".join(f"%{byte:02X}" for byte in data).encode()
    yield "quoted", urllib.parse.quote(text, safe="").encode()
    for shift in range(3):
        # The preceding bytes shift the letters; the first and the last depend on the neighbours, and are left out.
        for encode, name in ((base64.b64encode, "base64"), (base64.urlsafe_b64encode, "base64url")):
            inner = encode(b"\0" * shift + data).rstrip(b"=")
            yield f"{name}+{shift}", inner[(shift * 8 + 5) // 6 + (1 if shift else 0):-2]


class Canaries:
    def __init__(self):
        self.text = {}

    def make(self, name):
        text = f"canary-{uuid.uuid4().hex}~{uuid.uuid4().hex}"
        self.add(name, text)
        return text

    def add(self, name, text):
        self.text[name] = text
        MADE.append(text)

    def search(self, places):
        """Where which secret stands; nothing, if all is well."""
        wanted = [(name, how, form) for name, text in self.text.items() for how, form in forms(text)]
        found = []
        for place, content in places.items():
            for part in parts(content):
                found += [f"{name} ({how}) in {place}" for name, how, form in wanted if form in part]
        return found


def parts(content):
    if isinstance(content, bytes):
        yield content
        return
    try:
        with open(content, "rb") as file:
            before = b""
            while part := file.read(PART):
                yield before + part
                before = part[-OVERLAP:]
    except OSError:
        # Gone meanwhile, or a socket.
        return


def files(folder):
    return {str(path): path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()}


def processes():
    """Command lines and environments of all processes but our own, which knows the canaries."""
    shown = {}
    for process in Path("/proc").glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        for name in ("cmdline", "environ"):
            try:
                shown[f"{process}/{name}"] = (process / name).read_bytes()
            except OSError:
                pass
    return shown
