"""TorchServe archives: unpacking, rejected archives, and the handlers in them."""
import io
import json
import stat
import tarfile
import threading
import zipfile
from pathlib import Path

import pytest
from test_shims import context, made, read, run  # noqa: F401 (a fixture)

from baton_worker import archive, torchserve

MODELS = Path(__file__).parent / "models"


def mar(path, handler="handler.py", files=(), **model):
    """As made by torch-model-archiver."""
    manifest = {"runtime": "python", "model": {"modelName": "words", "modelVersion": "1.0", "handler": handler, **model}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(archive.MANIFEST, json.dumps(manifest))
        for name, content in files:
            made.writestr(name, content)
    return path


def tgz(path, files=(), top="words/", mode="w:gz", **model):
    """As made by torch-model-archiver --archive-format tgz: in one directory, with the manifest last."""
    manifest = {"runtime": "python", "model": {"modelName": "words", "modelVersion": "1.0", "handler": "handler.py", **model}}
    with tarfile.open(path, mode) as made:
        for name, content in [*files, (archive.MANIFEST, json.dumps(manifest))]:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(top + name)
            content = content.encode() if isinstance(content, str) else content
            info.size = len(content)
            made.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("BATON_WORKER_FILES", str(tmp_path / "run" / "7"))
    return tmp_path / "run" / "7"


CLASS_HANDLER = ("handler.py", (MODELS / "ts_class_handler.py").read_text())


def ask(*options):
    handler = made(torchserve.make, *options)
    return [piece for _, piece in run(handler, {"body": b"one two", "content_type": "text/plain"})]


def test_a_handler_of_an_archive_is_asked(tmp_path, place):
    file = mar(tmp_path / "words.mar", files=[CLASS_HANDLER, ("weights/w.bin", b"w" * 1000)])
    answered = ask(str(file))
    assert json.loads(answered[0].body)["words"] == 2
    assert (place / "weights" / "w.bin").read_bytes() == b"w" * 1000
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert not place.with_name("7.part").exists()


def test_a_directory_of_the_layout_is_served_where_it_lies(tmp_path, place):
    (tmp_path / "words" / "MAR-INF").mkdir(parents=True)
    (tmp_path / "words" / archive.MANIFEST).write_text(json.dumps({"model": {"modelName": "words", "modelVersion": "1.0", "handler": "handler"}}))
    (tmp_path / "words" / "handler.py").write_text(CLASS_HANDLER[1])
    assert json.loads(ask(str(tmp_path / "words"))[0].body)["words"] == 2
    assert not place.exists()


CONFIGURED = """
def handle(data, context):
    if data is None:
        return None
    return [context.model_yaml_config["handler"]["word"] + context.manifest["model"]["serializedFile"] + context.system_properties["model_dir"]]
def other(data, context):
    return None if data is None else ["other"]
"""


def test_the_context_has_manifest_settings_and_files(tmp_path, place):
    files = [("own.py", CONFIGURED), ("my.yaml", "handler: {word: hello}")]
    file = mar(tmp_path / "m.mar", handler="own.py", files=files, configFile="my.yaml", serializedFile="w.pt")
    assert ask(str(file))[0].body.decode() == f"hellow.pt{place}"
    assert ask(str(file), "--handler", "own:other")[0].body == b"other"
    with pytest.raises(ValueError, match="has no function neither"):
        torchserve.make(context(str(file), "--handler", "own:neither"))


def test_it_is_unpacked_once_and_again_when_it_has_changed(tmp_path, place):
    file = mar(tmp_path / "m.mar", files=[CLASS_HANDLER, ("a", "1")])
    archive.open_archive(str(file))
    (place / "a").write_text("kept")
    archive.open_archive(str(file))
    assert (place / "a").read_text() == "kept"
    file.unlink()
    assert archive.open_archive(str(file)).directory == place  # unpacked files stay usable
    mar(file, files=[CLASS_HANDLER, ("a", "22")])
    archive.open_archive(str(file))
    assert (place / "a").read_text() == "22"


def test_workers_that_come_together_unpack_it_once(tmp_path, place, monkeypatch):
    file = mar(tmp_path / "m.mar", files=[CLASS_HANDLER])
    times, own = [], archive.unpack_into
    monkeypatch.setattr(archive, "unpack_into", lambda *a: (times.append(1), own(*a)))
    threads = [threading.Thread(target=archive.open_archive, args=(str(file),)) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(times) == 1


@pytest.mark.parametrize("name", ["../escape", "/escape", "a/../../escape", "a\\..\\escape"])
def test_a_file_outside_of_it_is_refused(tmp_path, place, name):
    info = zipfile.ZipInfo("x")
    info.filename = name
    file = mar(tmp_path / "m.mar", files=[CLASS_HANDLER, (info, "x")])
    with pytest.raises(archive.ArchiveError, match="outside of it"):
        archive.open_archive(str(file))
    assert not place.exists() and not (tmp_path / "escape").exists()


def test_a_link_is_refused(tmp_path, place):
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    file = mar(tmp_path / "m.mar", files=[CLASS_HANDLER, (info, "/etc/passwd")])
    with pytest.raises(archive.ArchiveError, match="link"):
        archive.open_archive(str(file))


def test_bombs_are_refused(tmp_path, place, monkeypatch):
    file = mar(tmp_path / "m.mar", files=[CLASS_HANDLER, ("zeros", b"\0" * (1 << 20))])
    monkeypatch.setattr(archive, "RATIO_FREE", 1000)
    with pytest.raises(archive.ArchiveError, match="200 times"):
        archive.open_archive(str(file))
    monkeypatch.setattr(archive, "ENTRIES_MAX", 2)
    with pytest.raises(archive.ArchiveError, match="more than 2 files"):
        archive.open_archive(str(file))
    monkeypatch.setattr(archive, "ENTRIES_MAX", 100)
    monkeypatch.setattr(archive, "UNPACKED_MAX", 1000)
    with pytest.raises(archive.ArchiveError, match="room for 1000"):
        archive.open_archive(str(file))
    assert not place.exists()


def test_a_file_that_is_no_archive_is_rejected(tmp_path, place):
    (tmp_path / "m.mar").write_bytes(b"no archive")
    with pytest.raises(archive.ArchiveError, match="no archive that can be read"):
        archive.open_archive(str(tmp_path / "m.mar"))
    with zipfile.ZipFile(tmp_path / "n.mar", "w") as made:
        made.writestr("a", "1")
    with pytest.raises(archive.ArchiveError, match="has no MAR-INF/MANIFEST.json"):
        archive.open_archive(str(tmp_path / "n.mar"))
    with pytest.raises(archive.ArchiveError, match="is no file"):
        archive.open_archive(str(tmp_path / "gone.mar"))


def test_a_handler_that_is_torchserves_own_needs_torchserve(tmp_path, place):
    file = mar(tmp_path / "m.mar", handler="text_classifier")
    with pytest.raises(ValueError, match="pip install torchserve"):
        torchserve.make(context(str(file)))


@pytest.mark.parametrize("name, mode", [("words.tar.gz", "w:gz"), ("words.tgz", "w:gz"), ("words.mar", "w:gz"), ("words.tar", "w"), ("words", "w:gz")])
@pytest.mark.parametrize("top", ["words/", "", "./"])
def test_a_tar_is_unpacked_whatever_its_name_and_its_directory(tmp_path, place, name, mode, top):
    file = tgz(tmp_path / name, [CLASS_HANDLER, ("weights/w.bin", b"w" * 1000)], top, mode)
    assert archive.is_archive(str(file))
    assert json.loads(ask(str(file))[0].body)["words"] == 2
    assert (place / "weights" / "w.bin").read_bytes() == b"w" * 1000
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert sorted(p.name for p in place.parent.iterdir()) == ["7", "7.lock"]


def test_a_zip_may_have_any_name_and_lie_in_one_directory(tmp_path, place):
    with zipfile.ZipFile(tmp_path / "words.model", "w") as made:
        made.writestr("words/" + archive.MANIFEST, json.dumps({"model": {"modelName": "words", "modelVersion": "1.0", "handler": "handler.py"}}))
        made.writestr("words/handler.py", CLASS_HANDLER[1])
    assert json.loads(ask(str(tmp_path / "words.model"))[0].body)["words"] == 2


def entry(kind, name="words/x", target="/etc/passwd"):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("bad, words", [
    (tarfile.TarInfo("../escape"), "outside of it"), (tarfile.TarInfo("/escape"), "outside of it"), (tarfile.TarInfo("words/../../escape"), "outside of it"),
    (entry(tarfile.SYMTYPE), "a link"), (entry(tarfile.LNKTYPE, target="words/handler.py"), "a link"), (entry(tarfile.CHRTYPE), "no file"),
    (entry(tarfile.FIFOTYPE), "no file"), (tarfile.TarInfo("other/file"), "other beside"), (tarfile.TarInfo("words/handler.py"), "cannot? be read|can be read"),
])
def test_a_tar_with_forbidden_entries_is_rejected(tmp_path, place, bad, words):
    file = tgz(tmp_path / "m.tar.gz", [CLASS_HANDLER, (bad, b"")])
    with pytest.raises(archive.ArchiveError, match=words):
        archive.open_archive(str(file))
    assert not place.exists() and not (tmp_path / "escape").exists()


def test_bounds_hold_for_a_tar(tmp_path, place, monkeypatch):
    file = tgz(tmp_path / "m.tgz", [CLASS_HANDLER, ("zeros", b"\0" * (1 << 20))])
    monkeypatch.setattr(archive, "RATIO_FREE", 1000)
    with pytest.raises(archive.ArchiveError, match="200 times"):
        archive.open_archive(str(file))
    monkeypatch.setattr(archive, "ENTRIES_MAX", 2)
    monkeypatch.setattr(archive, "RATIO_FREE", 1 << 30)
    with pytest.raises(archive.ArchiveError, match="more than 2 files"):
        archive.open_archive(str(file))
    monkeypatch.setattr(archive, "ENTRIES_MAX", 100)
    monkeypatch.setattr(archive, "UNPACKED_MAX", 1000)
    with pytest.raises(archive.ArchiveError, match="room for 1000"):
        archive.open_archive(str(file))


def test_a_damaged_tar_is_refused(tmp_path, place):
    whole = tgz(tmp_path / "m.tgz", [CLASS_HANDLER, ("w", bytes(range(256)) * 4000)]).read_bytes()
    for number, bytes_ in enumerate([whole[:200], whole[:-40], b"\x1f\x8b" + b"x" * 500, b"\x1f\x8b"]):
        file = tmp_path / f"{number}.tar.gz"
        file.write_bytes(bytes_)
        with pytest.raises(archive.ArchiveError):
            archive.open_archive(str(file))
