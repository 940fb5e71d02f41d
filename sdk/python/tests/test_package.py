"""The package as `pip install ./sdk/python` would install it, away from the sources and without a network."""

import shutil
import subprocess
import tempfile
import unittest
import venv
from pathlib import Path

SOURCES = Path(__file__).resolve().parent.parent
# The pip of a fresh venv needs the package `wheel` for a build without a network; setuptools alone installs without it.
SETUP = "import setuptools; setuptools.setup()"
INSTALL = ("install", "--single-version-externally-managed", "--record", "installed")
IMPORT = """
import importlib, importlib.metadata, muster, pathlib, pkgutil
for module in pkgutil.walk_packages(muster.__path__, "muster."):
    importlib.import_module(module.name)
print(importlib.metadata.version("muster"), pathlib.Path(muster.__file__).parent)
"""


class PackageTest(unittest.TestCase):
    def test_the_package_installs_and_every_module_of_it_imports(self):
        with tempfile.TemporaryDirectory(prefix="muster-package-") as name:
            folder = Path(name)
            copy, elsewhere, python = folder / "copy", folder / "elsewhere", folder / "venv/bin/python"
            # A build leaves folders beside the sources.
            shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("tests", "build", "*.egg-info", "__pycache__"))
            elsewhere.mkdir()
            venv.create(folder / "venv", with_pip=True)
            self.run_isolated(python, copy, "-W", "ignore", "-c", SETUP, "--quiet", *INSTALL)
            version, installed = self.run_isolated(python, elsewhere, "-c", IMPORT).split()
            self.assertEqual(version, "0.1.0")
            self.assertTrue(Path(installed).is_relative_to(folder / "venv"), installed)
            self.assertEqual(files(Path(installed)), files(copy / "muster"))

    def run_isolated(self, python, folder, *arguments):
        done = subprocess.run([python, "-I", *arguments], cwd=folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")


if __name__ == "__main__":
    unittest.main()
