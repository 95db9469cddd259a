"""Writes two wheels: `baton-server`, which has the program, its libraries and the Python SDK, and `baton-server-cuda`, the GPU engine.
A wheel is a zip with a list of its files, so this needs no build backend (https://packaging.python.org/specifications/binary-distribution-format)."""
import base64
import hashlib
import time
import tomllib
import zipfile

SERVER = "baton_server"  # "baton" is another project's name on PyPI; the SDK alone is baton-client
ENGINE = "baton_server_cuda"
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

README_OF_ENGINE = """\
The GPU engine of Baton, for NVIDIA GPUs: `devices = ["cuda:0"]` in nodes.toml. It needs a driver for CUDA 13. torch brings CUDA's
libraries.

    pip install baton-server-cuda
    cluster doctor
"""


def metadata(name, version, python, summary, fields, readme):
    """METADATA: the fields that both wheels have, then `fields`."""
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", f"Summary: {summary}", "License: Apache-2.0",
             "Classifier: License :: OSI Approved :: Apache Software License", "Classifier: Operating System :: POSIX :: Linux",
             f"Requires-Python: {python}", "Description-Content-Type: text/markdown", *fields]
    return "\n".join([*lines, "", readme])


def metadata_of_server(project, version):
    """`project`: the [project] table of the SDK, whose requirements are extras here."""
    extras = {"sdk": project["dependencies"], **project["optional-dependencies"]}
    extras.pop("test")
    fields = []
    for extra, requirements in extras.items():
        fields.append(f"Provides-Extra: {extra}")
        # A worker's process speaks to the server by the SDK.
        needed = requirements if extra == "sdk" else [*project["dependencies"], *requirements]
        fields += [f'Requires-Dist: {requirement}; extra == "{extra}"' for requirement in needed]
    return metadata("baton-server", version, project["requires-python"], "Distributed LLM server whose streams do not break", fields, README)


def files_of_sdk(root):
    """-> [path] of the packages that pyproject.toml names"""
    folders = tomllib.loads((root / "sdk/python/pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    return [file for name in folders for file in sorted((root / "sdk/python" / name.replace(".", "/")).glob("*.py"))]


def project_of_sdk(root):
    return tomllib.loads((root / "sdk/python/pyproject.toml").read_text())["project"]


def libraries_of(prefix):
    """-> {name in the wheel: (bytes, is executable)} of the prefix's lib, which is below baton_server in both wheels"""
    return {f"{SERVER}/{file.relative_to(prefix).as_posix()}": (file.read_bytes(), False) for file in (prefix / "lib").rglob("*") if file.is_file()}


def complete(name, version, root, files, description, licences):
    """-> `files` and those of the wheel's own folder, in order. `licences`: {name: file} of the libraries in it"""
    info = f"{name}-{version}.dist-info"
    found = dict(files)
    for place, file in {"LICENSE": root / "LICENSE", "NOTICE": root / "NOTICE", **{f"libraries/{of}": file for of, file in licences.items()}}.items():
        found[f"{info}/licenses/{place}"] = (file.read_bytes(), False)
    found[f"{info}/METADATA"] = (description.encode(), False)
    found[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: baton packages/wheel.py\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode(), False)
    return dict(sorted(found.items(), key=lambda one: (one[0].startswith(info), one[0])))


def contents_of_server(root, prefix, version):
    """-> {name in the wheel: (bytes, is executable)}"""
    own = root / "packages" / SERVER
    found = {f"{SERVER}/{file.name}": (file.read_bytes(), False) for file in own.glob("*.py")}
    found |= {file.relative_to(root / "sdk/python").as_posix(): (file.read_bytes(), False) for file in files_of_sdk(root)}
    found[f"{SERVER}/bin/cluster"] = ((prefix / "bin/cluster").read_bytes(), True)
    found |= libraries_of(prefix)
    found |= {f"{SERVER}-{version}.data/data/{place}/{file.name}": (file.read_bytes(), False)
              for folder, place in SHARED.items() for file in (prefix / folder).iterdir()}
    entries = "".join(f"{command} = {SERVER}:main\n" for command in COMMANDS)
    found[f"{SERVER}-{version}.dist-info/entry_points.txt"] = (f"[console_scripts]\n{entries}".encode(), False)
    licences = {file.name: file for file in (prefix / "share/doc/baton/licenses").iterdir()}
    return complete(SERVER, version, root, found, metadata_of_server(project_of_sdk(root), version), licences)


def contents_of_engine(root, prefix, version, torch, licences):
    """-> {name in the wheel: (bytes, is executable)}. `torch`: the version that the engine was built with"""
    fields = [f"Requires-Dist: baton-server=={version}", f"Requires-Dist: torch=={torch}"]
    description = metadata("baton-server-cuda", version, ">=3.10", "The GPU engine of Baton", fields, README_OF_ENGINE)  # torch's own bound
    return complete(ENGINE, version, root, libraries_of(prefix), description, licences)


def record(found, name):
    """RECORD: each file's digest and size; of itself, neither."""
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "".join(f"{file},sha256={digest(data)},{len(data)}\n" for file, (data, _) in found.items()) + f"{name},,\n"


def write(out, name, version, found, seconds):
    """Writes the wheel of the files `found`, with their list. -> the file"""
    list_name = f"{name}-{version}.dist-info/RECORD"
    found |= {list_name: (record(found, list_name).encode(), False)}
    path = out / f"{name}-{version}-{TAG}.whl"
    part = path.with_name(path.name + ".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as whole:
        for file, (data, is_executable) in found.items():
            entry = zipfile.ZipInfo(file, time.gmtime(max(seconds, 315532800))[:6])  # a zip knows no time before 1980
            entry.external_attr = (0o100755 if is_executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            whole.writestr(entry, data)
    return part.rename(path)
