"""Certificates for a test, made by openssl as an administrator would."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


class Authority:
    """Signs certificates; its files and theirs lie in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("no openssl, which makes the certificates: install it")
        self.certificate = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        self._folder = folder
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def sign(self, name: str, address: str = "127.0.0.1") -> tuple[Path, Path]:
        """Certificate and key of a server at ``address``, or of a client."""
        files = [self._folder / f"{name}.{kind}" for kind in ("crt", "key", "csr", "ext")]
        certificate, key, request, extensions = files
        extensions.write_text(f"subjectAltName=IP:{address}\n")
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-days", "1", "-CAcreateserial"),
            *("-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-extfile", str(extensions), "-out", str(certificate)),
        )
        return certificate, key


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
