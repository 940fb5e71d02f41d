"""An app with fake drains, to test that the checks detect them.

Two faults are needed at once: the image's `await-drained` reports a node as drained whatever runs on it, and the manifest's
own witness trusts it. With the first alone the platform detects the running jobs itself, and waits.
"""

import hashlib
import io
import json
import os
import shutil
import tarfile

LIE = b"""#!/bin/sh
echo "NodeName=$1 State=IDLE+DRAIN+DYNAMIC_NORM Reason=muster op_lie [root@now]"
"""
BLIND = [{"in": "controller", "exec": ["/usr/bin/true"], "expect": {"exit": 0}, "within": "10s"}]


def plant(world):
    """Has the world publish a patched copy of the app instead of the app."""
    app, layout = world.folder / "lying-app", world.folder / "lying-layout"
    app.mkdir()
    shutil.copy(world.app / "publish", app)
    manifest = json.loads((world.app / "manifest.json").read_text())
    for component in manifest["components"]:
        if component["key"] == "worker":
            component["witnesses"]["drained"] = BLIND
    (app / "manifest.json").write_text(json.dumps(manifest))
    patch(world.layout, layout)
    world.app, world.layout = app, layout


def patch(source, target):
    """The same image with a layer on top, in which the script lies."""
    shutil.copytree(source, target, copy_function=os.link)
    blobs = target / "blobs" / "sha256"

    def put(data):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def get(part):
        return json.loads((blobs / part["digest"].split(":")[1]).read_text())

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        info = tarfile.TarInfo("usr/lib/muster-slurm/await-drained")
        info.mode, info.size = 0o755, len(LIE)
        archive.addfile(info, io.BytesIO(LIE))
    index = json.loads((target / "index.json").read_text())
    manifest = get(index["manifests"][0])
    config = get(manifest["config"])
    layer = {**manifest["layers"][-1], **put(packed.getvalue())}
    config["rootfs"]["diff_ids"].append(layer["digest"])
    manifest["layers"].append(layer)
    manifest["config"].update(put(json.dumps(config).encode()))
    index["manifests"][0].update(put(json.dumps(manifest).encode()))
    # The folder's files are the source's own, by another name.
    (target / "index.json").unlink()
    (target / "index.json").write_text(json.dumps(index))
