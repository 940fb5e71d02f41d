"""The registry's invariants, checked on its disk alone: the database by SQLite's own reader, the blobs by hashing each file.

No manifest without everything it needs, each with its right bytes; and, once everything has settled, no unneeded
byte. The references of a manifest are read from its own document, not from the rows that the server wrote about it.
"""

import hashlib
import json
import sqlite3


def hashed(path):
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def needs(content):
    """The blobs and the manifests that a document names."""
    document = json.loads(content)
    blobs = [part["digest"] for part in [document.get("config"), *document.get("layers", [])] if part]
    return blobs, [child["digest"] for child in document.get("manifests", [])]


class Shelf:
    """All registry state in a data folder, while no server writes to it."""

    def __init__(self, data):
        self.folder = data / "registry"
        database = sqlite3.connect(f"file:{data / 'muster.db'}?mode=ro", uri=True, timeout=30)
        try:
            def rows(query):
                return database.execute(query).fetchall()

            self.blobs = {digest: (size, file) for digest, size, file in rows("SELECT digest, size, file FROM blobs")}
            self.names = dict(rows("SELECT id, name FROM repositories"))
            self.links = set(rows("SELECT repository_id, digest FROM repository_blobs"))
            self.manifests = {(repository, digest): content for repository, digest, content in rows(
                "SELECT repository_id, digest, content FROM manifests")}
            self.needs = set(rows("SELECT repository_id, manifest, blob FROM manifest_blobs"))
            self.tags = rows("SELECT repository_id, name, digest FROM tags")
        finally:
            database.close()
        self.files = {path.name: path for path in (self.folder / "blobs").rglob("*") if path.is_file()}
        self.uploads = [path for path in (self.folder / "uploads").rglob("*") if path.is_file()]

    def lost(self):
        """Returns needed content that is missing or damaged."""
        faults, good = [], {}
        for digest, (size, file) in self.blobs.items():
            path = self.files.get(file)
            if path is None:
                faults.append(f"the row of {digest} names a file that is not there")
            elif path.stat().st_size != size:
                faults.append(f"{digest} has {path.stat().st_size} bytes, not {size}")
            elif hashed(path) != digest:
                faults.append(f"the bytes of {digest} are others")
            else:
                good[digest] = path
        for (repository, digest), content in self.manifests.items():
            if "sha256:" + hashlib.sha256(content).hexdigest() != digest:
                faults.append(f"the manifest {digest} is another")
            blobs, children = needs(content)
            for blob in blobs:
                if blob not in good:
                    faults.append(f"the manifest {digest} needs {blob}, which is not there whole")
                if (repository, blob) not in self.links:
                    faults.append(f"the manifest {digest} needs {blob}, which its repository does not have")
                if (repository, digest, blob) not in self.needs:
                    faults.append(f"nothing is written down of {digest} needing {blob}")
            faults += [f"the index {digest} needs {child}" for child in children if (repository, child) not in self.manifests]
        faults += [f"the tag {name} names {digest}, which is gone" for repository, name, digest in self.tags
                   if (repository, digest) not in self.manifests]
        faults += [f"a repository has {digest}, of which there is no row" for _, digest in self.links if digest not in self.blobs]
        return faults

    def wasted(self):
        """Returns stored content without a reference."""
        needed = {(repository, blob) for (repository, _), content in self.manifests.items() for blob in needs(content)[0]}
        known = {file for _, file in self.blobs.values()}
        faults = [f"the file {name} belongs to no row" for name in self.files if name not in known]
        faults += [f"{digest} is kept, and no repository has it" for digest in self.blobs
                   if digest not in {digest for _, digest in self.links}]
        faults += [f"{digest} is kept for a repository that does not need it" for link in self.links - needed
                   for digest in link[1:]]
        return faults + [f"the upload {path.name} is left" for path in self.uploads]

    def bytes(self):
        """How much disk the rows speak of."""
        return sum(size for size, _ in self.blobs.values())
