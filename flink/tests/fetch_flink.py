#!/usr/bin/env python3
"""Puts a distribution of Flink where the tests of real processes look for it, and prints that directory.

Flink's scripts and configuration come from the package apache-flink of PyPI, its jars from apache-flink-libraries; together
they are what a download of Flink holds, but for the SQL gateway, which the build takes from Maven. Both files are checked
against known hashes. Nothing is fetched if the directory is there already.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

VERSION = "2.2.1"
# The scripts are the same in the wheels for all versions of Python; this one is taken whatever Python runs here.
WHEELS = {
    "apache-flink": (
        ["--python-version", "3.11", "--only-binary", ":all:", "--platform", "manylinux2014_x86_64"],
        "a7e0e06e6e2a788b1e0c4f6225efe6a9bdcb6463db77080b99620c36c076cbab"),
    "apache-flink-libraries": (
        [],
        "74dc5546fbd9add8fbcdf1222a237e09491f9b80296241aef8676ec56f8e686e"),
}
ROOT = "pyflink/"
KEPT = ("bin/", "conf/", "lib/", "opt/")
EXECUTABLE = 0o755


def target_directory() -> pathlib.Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(cache) / "streamfusion" / f"flink-{VERSION}"


def sha256(file: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def download(package: str, scratch: pathlib.Path) -> pathlib.Path:
    options, expected = WHEELS[package]
    destination = scratch / package
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir",
               "--no-deps", *options, "--dest", str(destination), f"{package}=={VERSION}"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    (wheel,) = destination.iterdir()
    found = sha256(wheel)
    if found != expected:
        sys.exit(f"{wheel.name} has the SHA-256 {found}, expected {expected}")
    return wheel


def unpack(wheel: pathlib.Path, home: pathlib.Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            name = member.filename.removeprefix(ROOT)
            if member.is_dir() or name == member.filename or not name.startswith(KEPT):
                continue
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, file.open("wb") as copy:
                shutil.copyfileobj(source, copy)
            if name.startswith("bin/"):
                file.chmod(EXECUTABLE)


def main() -> None:
    target = target_directory()
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            home = pathlib.Path(scratch) / "flink"
            for package in WHEELS:
                unpack(download(package, pathlib.Path(scratch)), home)
            # Renamed when complete, so that an interrupted run leaves no half distribution behind.
            try:
                home.rename(target)
            except OSError:
                if not target.exists():  # else another run was first
                    raise
    print(target)


if __name__ == "__main__":
    main()
