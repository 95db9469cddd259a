"""Writes a folder as a .tar.xz that is the same each time: sorted, owned by root, of one time."""
import tarfile


def write_tar(path, folder, seconds):
    """The folder's own name is the first part of each name in it -> the file"""

    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = seconds
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    part = path.with_name(path.name + ".part")
    with tarfile.open(part, "w:xz", preset=6, format=tarfile.GNU_FORMAT) as tar:
        for file in [folder, *sorted(folder.rglob("*"))]:
            tar.add(file, file.relative_to(folder.parent), recursive=False, filter=plain)
    return part.rename(path)
