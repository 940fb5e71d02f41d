"""The project's people use a cluster under their own logins, the same in every cell, for as long as they may."""

import json

from cluster import cells


def run(world):
    world.ready(1)
    cluster = world.cluster("lab", 1, {})
    ada = Person(world, cluster, "tenant_admin")
    here, there = ada.said("id"), ada.said("srun", "id")
    assert ada.login in here and here == there, (here, there)
    assert ada.said("sbatch", "--wait", "--parsable", "--wrap", "id -un; pwd").isdigit()
    # A job's output is in the home that all cells share.
    wrote = ada.said("sh", "-c", "cat ~/slurm-*.out")
    assert wrote.split() == [ada.login, f"/home/{ada.login}"], wrote
    cells.eventually(lambda: accounted(cluster, f"{ada.login}|people|COMPLETED"), seconds=60)

    bob = Person(world, cluster, "project_viewer")
    refused = bob.exec("srun", "true")
    assert refused.returncode != 0 and "stream.create" in refused.stderr, refused
    binding = bob.promote()
    cells.eventually(lambda: is_(bob.login, bob.exec("srun", "id", "-un")), seconds=90)
    assert bob.said("id", "-u") != ada.said("id", "-u")
    cluster.said("role-binding", "delete", binding)
    cells.eventually(lambda: unknown(cluster, bob.login), seconds=30)
    assert ada.said("srun", "id", "-un") == ada.login
    cluster.gone()
    print(f"    {there}", flush=True)


def accounted(cluster, row):
    """Every job is in the accounting with this row. slurmctld reports the end of a job some time after the job ended."""
    found = cluster.slurm("sacct", "-X", "-n", "-P", "-o", "user,account,state")
    assert set(found.split()) == {row}, found


class Person:
    """A person with their own token, who passes no user names or numbers."""

    def __init__(self, world, cluster, actor):
        self.world, self.cluster, self.token = world, cluster, world.at.tokens[actor]
        me = json.loads(world.said("-o", "json", "whoami", token=self.token))
        self.user = json.loads(world.said("-o", "json", "user", "get", me["id"]))
        self.login = self.user["login"]

    def exec(self, *command):
        return self.world.muster("exec", self.cluster.controller, "--", *command, token=self.token,
                                 project=self.world.at.project["id"], timeout=60)

    def said(self, *command):
        ran = self.exec(*command)
        assert ran.returncode == 0, (ran, self.world.logs())
        return ran.stdout.strip()

    def promote(self):
        """Makes an administrator of a viewer; returns the binding's id."""
        made = self.cluster.json("role-binding", "create", "--user", self.user["email"], "--role", "project_admin", "--project",
                                 self.world.at.project["id"])
        return made["id"]


def is_(word, ran):
    assert ran.returncode == 0 and ran.stdout.strip() == word, ran


def unknown(cluster, login):
    assert cluster.exec("id", login).returncode != 0
