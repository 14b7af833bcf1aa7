#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The extension for Visual Studio Code: its package, and, where there is Node.js, itself against
the language server (extension_test.js). Prints `N passed, N failed`."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
EXTENSION = HERE.parents[1] / "editors/vscode"
sys.path.insert(0, str(HERE.parent))
import patience  # noqa: E402
import suite  # noqa: E402


def check_package(options):
    """The archive holds all that the manifest and the sources name, twice with the same bytes."""
    with tempfile.TemporaryDirectory() as folder:
        made = [pathlib.Path(folder) / name for name in ("a.vsix", "b.vsix")]
        for path in made:
            subprocess.run([sys.executable, EXTENSION / "make_vsix.py", "-o", path], check=True,
                           capture_output=True)
        assert made[0].read_bytes() == made[1].read_bytes(), "two packages differ"
        archive = zipfile.ZipFile(made[0])
        names = set(archive.namelist())
        package = json.loads(archive.read("extension/package.json"))
        needed = {f"extension/{path}" for path in
                  [package["main"].removeprefix("./"), "LICENSE.txt", "README.md"] +
                  [g["path"].removeprefix("./") for g in package["contributes"]["grammars"]] +
                  [g["configuration"].removeprefix("./")
                   for g in package["contributes"]["languages"]]}
        for name in names:
            if name.endswith(".js"):
                found = re.findall(r"require\('\./(\w+)'\)", archive.read(name).decode())
                needed |= {f"extension/{module}.js" for module in found}
        assert needed <= names, f"not in the package: {needed - names}"
        suffixes = {re.search(r"\.\w+$", name)[0] for name in names - {"[Content_Types].xml"}}
        types = xml.etree.ElementTree.fromstring(archive.read("[Content_Types].xml"))
        assert suffixes <= {t.get("Extension") for t in types}, suffixes
        manifest = xml.etree.ElementTree.fromstring(archive.read("extension.vsixmanifest"))
        identity = manifest.find(".//{*}Identity")
        assert (identity.get("Id"), identity.get("Version")) == \
            (package["name"], package["version"])
        for asset in manifest.findall(".//{*}Asset"):
            assert asset.get("Path") in names, asset.get("Path")


def check_extension(options):
    """None, what went wrong, or SKIPPED; and the counts of the tests."""
    node = shutil.which("node")
    if not node:
        return 0, 0, 1
    done = subprocess.run([node, HERE / "extension_test.js", options.tessera], text=True,
                          capture_output=True, timeout=patience.seconds(120))
    counts = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.M)
    print(re.sub(r"^\d+ passed, \d+ failed\n", "", done.stdout, flags=re.M) + done.stderr, end="")
    return (int(counts[1]), int(counts[2]), 0) if counts else (0, 1, 0)


def main():
    options = suite.options_of(suite.parser(__doc__))
    passed, failed, skipped = check_extension(options)
    try:
        check_package(options)
        passed += 1
    except AssertionError as error:
        failed += 1
        print(f"package: {error}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
