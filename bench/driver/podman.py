"""podman, with its own storage, networks and locks: other containers of podman on this machine are not affected."""

import http.client
import os
import pathlib
import shutil
import time

from .processes import Broken, output_of

PORT = 8080
SERVICE = ["/bin/busybox", "httpd", "-f", "-p", str(PORT), "-h", "/www"]
# Without these, podman requests limits that root may not set without CAP_SYS_RESOURCE.
LIMITS = ["--ulimit", "nofile=1024:4096", "--ulimit", "nproc=1024:2048"]
# The default keeps its locks in one place for all storages of the machine, and a fresh storage would free all of them.
CONF = '[engine]\nlock_type = "file"\n'
READY_SECONDS, PAUSE = 30, 0.001


def missing():
    return [name for name in ("podman", "runc", "conmon", "catatonit") if not shutil.which(name)]


class Podman:
    """Containers of one image, each with a service and an address on podman's own bridge."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        conf = self.folder / "containers.conf"
        conf.write_text(CONF)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "CONTAINERS_CONF": str(conf)}
        self.image, self.stopped = "", False

    def command(self, *words):
        places = {"root": "storage", "runroot": "run", "tmpdir": "tmp", "network-config-dir": "networks"}
        flags = [word for flag, place in places.items() for word in (f"--{flag}", self.folder / place)]
        return ["podman", "--runtime", "runc", *flags, *words]

    def said(self, *words):
        return output_of(self.command(*words), env=self.env).strip()

    def load(self, layout):
        """Takes the image of an OCI layout: the same bytes that our cells have."""
        self.image = self.said("pull", "--quiet", f"oci:{layout}").splitlines()[-1]
        return self

    def make(self, slot):
        """`podman run` until the service answers over HTTP, in seconds."""
        began = time.perf_counter()
        self.said("run", "--detach", "--init", "--name", f"c{slot}", "--ip", address(slot), *LIMITS, self.image, *SERVICE)
        while not answers(address(slot)):
            if time.perf_counter() - began > READY_SECONDS:
                raise Broken(f"a container of podman did not answer within {READY_SECONDS} s")
            time.sleep(PAUSE)
        return {"seconds": time.perf_counter() - began}

    def remove(self, slot):
        """`podman rm --force` until it returns, in seconds: SIGTERM, and then everything goes."""
        began = time.perf_counter()
        self.said("rm", "--force", f"c{slot}")
        return {"seconds": time.perf_counter() - began}

    def must_run(self, slots):
        running = self.said("ps", "--format", "{{.Names}}").split()
        if sorted(running) != sorted(f"c{slot}" for slot in slots):
            raise Broken(f"podman runs {running}, not one container for each of {list(slots)}")

    def must_be_empty(self):
        left = self.said("ps", "--all", "--external", "--quiet").split()
        if left:
            raise Broken(f"podman still lists {len(left)} containers after it removed all")

    def stop(self):
        """Nothing of it is left, whatever happened."""
        if not self.stopped:
            self.stopped = True
            self.said("rm", "--all", "--force", "--time", "0")


def address(slot):
    return f"10.88.1.{slot + 1}"  # in podman's own network; chosen here, so that it need not be queried


def answers(host):
    connection = http.client.HTTPConnection(host, PORT, timeout=1)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
