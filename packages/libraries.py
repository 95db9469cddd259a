"""The shared libraries that a package carries beside the program: all that it needs, except glibc's own.

libstdc++ and libgcc_s are carried. The other C++ libraries share types with them, and a machine's own may be older. glibc is not
carried. The kernel starts the machine's loader, which fits its own glibc alone.
"""
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
OF_GLIBC = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libmvec|libdl|libpthread|librt|libresolv|libutil|libanl|libnsl|libBrokenLocale)\.so(\.|$)")
ICU_DATA = re.compile(r"libicudata\.so\.(\d+)$")


def ldd(program):
    """-> {name: path or None} of all that the loader would load, at any depth"""
    out = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    return {name: None if path == "not" else pathlib.Path(path) for name, path in re.findall(r"^\s*(\S+) => (\S+)", out, re.M)}


def needed_by(programs):
    """-> {name: path} without glibc. Ends the program where one is missing."""
    found = {}
    for program in programs:
        for name, path in ldd(program).items():
            if path is None:
                sys.exit(f"{program} needs {name}, which is not installed")
            if not OF_GLIBC.match(name):
                found[name] = path
    return dict(sorted(found.items()))


def copy(carried, folder):
    """ICU's data is 31 MB of tables for character sets and languages. Only libxml2 refers to it, and only libarchive to
    libxml2, for the xar archives that Baton does not read. An empty table takes its place."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in carried.items():
        if data := ICU_DATA.match(name):
            subprocess.run(["gcc", "-O2", "-shared", "-nostdlib", f"-DDATA=icudt{data[1]}_dat", f"-Wl,-soname,{name}", "-s", "-o", str(folder / name),
                            str(HERE / "empty_icu_data.c")], check=True)
        else:
            shutil.copy(path, folder / name)  # of a link, what it points to
        (folder / name).chmod(0o644)


def names_in_dpkg(path):
    """A file's possible names there: some are of before /lib was a link to /usr/lib."""
    real = str(path.resolve())
    return [real, real.removeprefix("/usr")]


def owners(paths):
    """-> the Debian packages of the files"""
    names = [name for path in paths for name in names_in_dpkg(path)]
    out = subprocess.run(["dpkg-query", "-S", *names], capture_output=True, text=True, check=False).stdout
    found = {name: package.split(":")[0] for package, name in (line.rsplit(": ", 1) for line in out.splitlines())}
    of_none = [path for path in paths if not set(names_in_dpkg(path)) & set(found)]
    if of_none:
        sys.exit(f"{of_none[0]} is of no Debian package: its licence is unknown")
    return sorted(set(found.values()))


def copy_licences(carried, folder):
    """Debian's copyright file of each library's package."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in owners([path for name, path in carried.items() if not ICU_DATA.match(name)]):
        source = pathlib.Path("/usr/share/doc", package, "copyright")
        if not source.exists():
            sys.exit(f"{source} is missing: a package cannot be made without the licences of what it carries")
        shutil.copy(source, folder / package)
        (folder / package).chmod(0o644)
