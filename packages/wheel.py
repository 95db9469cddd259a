"""Writes the wheel `baton-server`: the program, its libraries, and the Python SDK. A wheel is a zip with a list of its files, so this
needs no build backend (https://packaging.python.org/specifications/binary-distribution-format)."""
import base64
import hashlib
import time
import tomllib
import zipfile

NAME = "baton_server"  # "baton" is another project's name on PyPI; the SDK alone is baton-client
TAG = "py3-none-manylinux_2_36_x86_64"  # Debian 12 has glibc 2.36
COMMANDS = ("cluster", "baton")
# Folder of the prefix -> its place below that of an installed wheel. Debian's folder for zsh is no other system's.
SHARED = {"share/man/man1": "share/man/man1", "share/bash-completion/completions": "share/bash-completion/completions",
          "share/zsh/vendor-completions": "share/zsh/site-functions"}
README = """\
Baton is a distributed LLM server whose streams do not break. This package has the whole server, and the Python SDK
(`baton_client`, `baton_worker`). Install it in place of `baton-client`.

    pip install baton-server
    cluster run model.gguf "Why is the sky blue?"

The SDK needs two packages more: `pip install baton-server[sdk]`.
"""


def metadata(project, version):
    """METADATA. `project`: the [project] table of the SDK, whose requirements are extras here."""
    extras = {"sdk": project["dependencies"], **project["optional-dependencies"]}
    extras.pop("test")
    lines = ["Metadata-Version: 2.1", "Name: baton-server", f"Version: {version}", "Summary: Distributed LLM server whose streams do not break",
             "License: Apache-2.0", "Classifier: License :: OSI Approved :: Apache Software License", "Classifier: Operating System :: POSIX :: Linux",
             f"Requires-Python: {project['requires-python']}", "Description-Content-Type: text/markdown"]
    for extra, requirements in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        # A worker's process speaks to the server by the SDK.
        needed = requirements if extra == "sdk" else [*project["dependencies"], *requirements]
        lines += [f'Requires-Dist: {requirement}; extra == "{extra}"' for requirement in needed]
    return "\n".join([*lines, "", README])


def files_of_sdk(root):
    """-> [path] of the packages that pyproject.toml names"""
    folders = tomllib.loads((root / "sdk/python/pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    return [file for name in folders for file in sorted((root / "sdk/python" / name.replace(".", "/")).glob("*.py"))]


def contents(root, prefix, version):
    """-> {name in the wheel: (bytes, is executable)}"""
    project = tomllib.loads((root / "sdk/python/pyproject.toml").read_text())["project"]
    own = root / "packages" / NAME
    found = {f"{NAME}/{file.name}": (file.read_bytes(), False) for file in own.glob("*.py")}
    found |= {file.relative_to(root / "sdk/python").as_posix(): (file.read_bytes(), False) for file in files_of_sdk(root)}
    found[f"{NAME}/bin/cluster"] = ((prefix / "bin/cluster").read_bytes(), True)
    found |= {f"{NAME}/{file.relative_to(prefix).as_posix()}": (file.read_bytes(), False) for file in (prefix / "lib").rglob("*") if file.is_file()}
    found |= {f"{NAME}-{version}.data/data/{place}/{file.name}": (file.read_bytes(), False)
              for folder, place in SHARED.items() for file in (prefix / folder).iterdir()}
    info = f"{NAME}-{version}.dist-info"
    for file in (root / "LICENSE", root / "NOTICE", *(prefix / "share/doc/baton/licenses").iterdir()):
        found[f"{info}/licenses/{file.name if file.parent == root else f'libraries/{file.name}'}"] = (file.read_bytes(), False)
    entries = "".join(f"{command} = {NAME}:main\n" for command in COMMANDS)
    for name, text in (("METADATA", metadata(project, version)), ("entry_points.txt", f"[console_scripts]\n{entries}"),
                       ("WHEEL", f"Wheel-Version: 1.0\nGenerator: baton packages/wheel.py\nRoot-Is-Purelib: false\nTag: {TAG}\n")):
        found[f"{info}/{name}"] = (text.encode(), False)
    return dict(sorted(found.items(), key=lambda one: (one[0].startswith(info), one[0])))


def record(found, name):
    """RECORD: each file's digest and size; of itself, neither."""
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "".join(f"{file},sha256={digest(data)},{len(data)}\n" for file, (data, _) in found.items()) + f"{name},,\n"


def write(out, root, prefix, version, seconds):
    """-> the file"""
    found = contents(root, prefix, version)
    name = f"{NAME}-{version}.dist-info/RECORD"
    found[name] = (record(found, name).encode(), False)
    path = out / f"{NAME}-{version}-{TAG}.whl"
    part = path.with_name(path.name + ".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as whole:
        for file, (data, is_executable) in found.items():
            entry = zipfile.ZipInfo(file, time.gmtime(max(seconds, 315532800))[:6])  # a zip knows no time before 1980
            entry.external_attr = (0o100755 if is_executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            whole.writestr(entry, data)
    return part.rename(path)
