#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_vsix.py [-o FILE.vsix]: packages the extension, with nothing but Python. The same files give
the same bytes. `code --install-extension FILE.vsix` installs it."""

import argparse
import json
import pathlib
import xml.sax.saxutils
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
FILES = ["package.json", "language-configuration.json", "extension.js", "connection.js",
         "convert.js", "syntaxes/tile.tmLanguage.json", "README.md"]
LICENSE = HERE.parents[1] / "LICENSE"
TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension=".json" ContentType="application/json"/>
<Default Extension=".js" ContentType="application/javascript"/>
<Default Extension=".md" ContentType="text/markdown"/>
<Default Extension=".txt" ContentType="text/plain"/>
<Default Extension=".vsixmanifest" ContentType="text/xml"/>
</Types>
"""
MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
<Metadata>
<Identity Language="en-US" Id="{name}" Version="{version}" Publisher="{publisher}"/>
<DisplayName>{displayName}</DisplayName>
<Description xml:space="preserve">{description}</Description>
<Categories>{categories}</Categories>
<License>extension/LICENSE.txt</License>
<Properties>
<Property Id="Microsoft.VisualStudio.Code.Engine" Value="{engine}"/>
<Property Id="Microsoft.VisualStudio.Code.ExtensionKind" Value="workspace"/>
</Properties>
</Metadata>
<Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
<Dependencies/>
<Assets>
<Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" \
Addressable="true"/>
<Asset Type="Microsoft.VisualStudio.Services.Content.Details" Path="extension/README.md" \
Addressable="true"/>
<Asset Type="Microsoft.VisualStudio.Services.Content.License" Path="extension/LICENSE.txt" \
Addressable="true"/>
</Assets>
</PackageManifest>
"""


def manifest(package):
    escape = xml.sax.saxutils.escape
    words = {key: escape(package[key]) for key in
             ("name", "version", "publisher", "displayName", "description")}
    return MANIFEST.format(engine=escape(package["engines"]["vscode"]),
                           categories=escape(",".join(package["categories"])), **words)


def contents():
    """(name in the archive, bytes), in a fixed order."""
    package = json.loads((HERE / "package.json").read_text())
    yield "[Content_Types].xml", TYPES.encode()
    yield "extension.vsixmanifest", manifest(package).encode()
    for name in FILES:
        yield f"extension/{name}", (HERE / name).read_bytes()
    yield "extension/LICENSE.txt", LICENSE.read_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", default="tessera-tile.vsix", type=pathlib.Path)
    output = parser.parse_args().output
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents():
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    print(output)


if __name__ == "__main__":
    main()
