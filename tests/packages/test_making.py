"""Goal: a package's name describes its content, and it starts on any x86-64 processor. Method: the rules of ./package by themselves; the kernels'
objects; an emulated processor, where there is qemu."""
import re
import shutil
import subprocess

import libraries
import make
import pytest
import wheel


def test_a_clean_tree_has_the_version_alone(monkeypatch):
    monkeypatch.setattr(make, "changes", list)
    assert re.fullmatch(r"\d+\.\d+\.\d+", make.version_of_tree())


def test_a_changed_tree_is_shown_and_is_no_release(monkeypatch, capsys):
    monkeypatch.setattr(make, "git", lambda *words: " M cluster/a.cpp\n?? b.cpp" if words[0] == "status" else "12ab34c")
    version = make.version_of_tree()
    assert version == f"{make.declared_version()}+12ab34c.changed"  # a local version of PEP 440, and one of Debian
    assert f"the tree has changes (cluster/a.cpp, b.cpp): this is version {version}" in capsys.readouterr().out


def test_sources_without_a_repository_have_the_version_alone(monkeypatch):
    monkeypatch.setattr(make, "git", lambda *words: None)
    assert make.version_of_tree() == make.declared_version() and make.time_of_tree() == 0


@pytest.mark.parametrize("name, is_of_glibc", [("libc.so.6", True), ("libm.so.6", True), ("libpthread.so.0", True), ("libresolv.so.2", True),
                                               ("libcrypto.so.3", False), ("libmd.so.0", False), ("libstdc++.so.6", False), ("libcurl.so.4", False)])
def test_glibc_alone_is_left_to_the_machine(name, is_of_glibc):
    assert bool(libraries.OF_GLIBC.match(name)) == is_of_glibc


def test_a_missing_library_ends_the_packaging(monkeypatch):
    monkeypatch.setattr(libraries, "ldd", lambda program: {"libgone.so.1": None})
    with pytest.raises(SystemExit, match="x needs libgone.so.1, which is not installed"):
        libraries.needed_by(["x"])


def test_a_library_of_no_package_ends_the_packaging(tmp_path):
    with pytest.raises(SystemExit, match="libown.so is of no Debian package: its licence is unknown"):
        libraries.owners([*libraries.needed_by(["/usr/bin/xz"]).values(), tmp_path / "libown.so"])
    assert "liblzma5" in libraries.owners(libraries.needed_by(["/usr/bin/xz"]).values())


def test_the_engines_wheel_has_the_engine_and_what_it_requires(tmp_path):
    engine = tmp_path / "lib/baton/engines/engine_torch.so"
    engine.parent.mkdir(parents=True)
    engine.write_bytes(b"code")
    found = wheel.contents_of_engine(make.ROOT, tmp_path, "1.2.3", "4.5.6", {"some": make.ROOT / "NOTICE"})
    info = "baton_server_cuda-1.2.3.dist-info"
    assert list(found) == ["baton_server/lib/baton/engines/engine_torch.so", *(f"{info}/{name}" for name in
                           ("METADATA", "WHEEL", "licenses/LICENSE", "licenses/NOTICE", "licenses/libraries/some"))]
    text = found[f"{info}/METADATA"][0].decode()
    assert "\nRequires-Dist: baton-server==1.2.3\n" in text and "\nRequires-Dist: torch==4.5.6\n" in text


def test_a_build_without_the_engine_is_refused(tmp_path):
    (tmp_path / "CMakeCache.txt").write_text("BATON_TORCH:STRING=cpu\n")
    with pytest.raises(SystemExit, match="has no GPU engine for CUDA: ./package engine builds one"):
        make.torch_of(tmp_path)
    (tmp_path / "CMakeCache.txt").write_text("BATON_TORCH:STRING=cuda\n")
    assert make.torch_of(tmp_path) == "2.11.0"


def test_kernels_of_newer_processors_define_nothing_that_other_code_could_get(build):
    """An inline function that a kernel's file compiles with AVX2 could be the copy that the linker keeps for the whole program. Initialisers
    run on every processor."""
    objects = sorted((build / "runtime/cpu/kernels/CMakeFiles/baton_cpu_kernels.dir").glob("kernels_a*.o"))
    assert len(objects) == 5
    for file in objects:
        symbols = subprocess.run(["nm", "-C", str(file)], capture_output=True, text=True, check=True).stdout
        shared = [line for line in symbols.splitlines() if re.search(r" [WVuB] ", line) and "DW.ref." not in line]
        assert shared == [] and "_GLOBAL__sub_I" not in symbols, (file.name, shared[:5])


@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="no qemu-x86_64 here")
@pytest.mark.parametrize("processor, kernels", [("Nehalem", "note  instruction set        portable"), ("Haswell", "ok    instruction set        avx2")])
def test_an_older_processor_runs_the_program(build, processor, kernels):
    """Nehalem has no AVX. `model inspect` measures with the kernels that would be used."""
    def run(*words):
        return subprocess.run(["qemu-x86_64", "-cpu", processor, build / "cluster/cluster", *words], capture_output=True, text=True, timeout=120, check=False)

    shown = run("doctor").stdout
    assert kernels in shown and ("lacks AVX2" in shown) == ("portable" in kernels)
    done = run("model", "inspect", make.ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    assert done.returncode == 0 and "tokens/s" in done.stdout, (done.returncode, done.stderr)
