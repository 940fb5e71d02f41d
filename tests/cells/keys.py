"""Keys of a project's users are in the cells that request them, for as long as their permission lasts."""

import json

from world import eventually

KEYS = "/etc/muster/authorized_keys"
PEOPLE = "/etc/muster/passwd"
# The private halves do not exist.
ADMINS = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA0E2h3L3HJv6cqCgJ2oHfRnvC4TfZyXh8Hbqz2yq1m7"
VIEWERS = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIC0E2h3L3HJv6cqCgJ2oHfRnvC4TfZyXh8Hbqz2yq1m7"


def run(world):
    world.up(1)
    project = world.project()
    for name, asks in (("asks", True), ("does-not", False)):
        project.allocate(name)
        project.cell(name, name, world.spec(people=asks))
    add(world, project, "tenant_admin", ADMINS)
    # A viewer's key does not grant access; after a promotion it does.
    refused = world.muster(*adding(VIEWERS), token=project.tokens["project_viewer"], project=project.project["id"])
    assert refused.returncode != 0 and "ssh_key.create" in refused.stderr, refused
    binding = promote(project)
    add(world, project, "project_viewer", VIEWERS)
    eventually(lambda: has(project, "asks", {ADMINS, VIEWERS}))
    assert project.exec("does-not", "cat", KEYS).returncode == 1, "a cell that did not ask has keys"
    # Only the platform can change the file.
    changed = project.exec("asks", "sh", "-c", f"echo x >>{KEYS} || rm {KEYS}")
    assert changed.returncode != 0, changed
    project.said("role-binding", "delete", binding)
    eventually(lambda: has(project, "asks", {ADMINS}))
    listed = json.loads(project.said("-o", "json", "ssh-key", "list"))["items"]
    mine = next(key for key in listed if key["public_key"] == ADMINS)
    project.said("ssh-key", "delete", mine["id"])
    eventually(lambda: has(project, "asks", set()))
    # A recreated cell has them from its start.
    add(world, project, "tenant_admin", ADMINS)
    project.said("cell", "restart", "asks", "--wait", "--timeout", "60s")
    eventually(lambda: has(project, "asks", {ADMINS}))
    for name in ("asks", "does-not"):
        project.release(name)


def add(world, project, actor, key):
    """Adds a person's own key."""
    world.said(*adding(key), token=project.tokens[actor], project=project.project["id"])


def adding(key):
    return "ssh-key", "create", "laptop", "--public-key", f"{key} somebody@somewhere"


def promote(project):
    """Makes an administrator of a viewer; returns the binding's id."""
    place = ("--project", project.project["id"])
    bindings = json.loads(project.said("-o", "json", "role-binding", "list", *place))["items"]
    viewer = next(binding for binding in bindings if binding["role"] == "project_viewer")
    made = project.said(
        "-o", "json", "role-binding", "create", "--user", viewer["user_email"], "--role", "project_admin", *place)
    return json.loads(made)["id"]


def has(project, cell, keys):
    """A line is the key and its owner; the owner of every key is a user in the cell."""
    said = project.exec(cell, "cat", KEYS)
    assert said.returncode == 0, said
    found = dict(line.rsplit(" ", 1) for line in said.stdout.splitlines())
    assert set(found) == keys, said
    people = {line.split(":")[0] for line in project.exec(cell, "cat", PEOPLE).stdout.splitlines()}
    assert set(found.values()) <= people, (found, people)
