"""An image for the tests' cells: static busybox, its applets, and a page to serve. The same bytes whenever it is made.

`python3 tests/cells/image.py FOLDER` writes an OCI layout and prints the digest of its manifest.
"""

import hashlib
import io
import json
import platform
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

BUSYBOX = Path("/bin/busybox")
FOLDERS = {"bin": 0o755, "dev": 0o755, "etc": 0o755, "proc": 0o755, "sys": 0o755, "tmp": 0o1777, "var": 0o755, "www": 0o755}
FILES = {
    "etc/group": "root:x:0:\nnobody:x:65534:\n",
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n",
    "www/index.html": "it works\n",
}
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def is_static(program):
    """Whether the kernel starts it without a loader: no segment of an ELF file names one."""
    header = program[:64]
    if header[:5] != b"\x7fELF\x02":
        return False
    start, = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    return all(struct.unpack_from("<I", program, start + index * size)[0] != 3 for index in range(count))


def entry(name, kind, mode, data=b"", target=""):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.linkname = kind, mode, len(data), target
    return info, data


def layer(program, applets, files):
    """A tar archive: everything sorted, of user 0, and as old as time."""
    entries = [entry(name, tarfile.DIRTYPE, mode) for name, mode in FOLDERS.items()]
    entries += [entry(name, tarfile.REGTYPE, 0o644, text.encode()) for name, text in files.items()]
    entries.append(entry("bin/busybox", tarfile.REGTYPE, 0o755, program))
    entries += [entry(f"bin/{name}", tarfile.SYMTYPE, 0o777, target="busybox") for name in applets]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for info, data in sorted(entries, key=lambda pair: pair[0].name):
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


class Layout:
    """A folder of blobs by digest."""

    def __init__(self, folder):
        self.folder = Path(folder)
        (self.folder / "blobs" / "sha256").mkdir(parents=True)

    def add(self, media_type, data):
        digest = hashlib.sha256(data).hexdigest()
        (self.folder / "blobs" / "sha256" / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def add_document(self, media_type, document):
        return self.add(media_type, json.dumps(document, sort_keys=True, separators=(",", ":")).encode())


def make(folder, files=None):
    """Writes the layout and gives the digest of the image's manifest."""
    program = BUSYBOX.read_bytes()
    if not is_static(program):
        raise RuntimeError(f"{BUSYBOX} is not static, and would find no libraries in a cell: install busybox-static")
    applets = subprocess.run([BUSYBOX, "--list"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    tree = layer(program, sorted(set(applets) - {"busybox"}), FILES if files is None else files)
    layout = Layout(folder)
    content = layout.add("application/vnd.oci.image.layer.v1.tar", tree)
    config = layout.add_document("application/vnd.oci.image.config.v1+json", {
        "architecture": MACHINES[platform.machine()],
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [content["digest"]]},
    })
    manifest = layout.add_document("application/vnd.oci.image.manifest.v1+json", {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [content],
    })
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]}
    (layout.folder / "index.json").write_text(json.dumps(index))
    (layout.folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    return manifest["digest"]


if __name__ == "__main__":
    print(make(sys.argv[1]))
