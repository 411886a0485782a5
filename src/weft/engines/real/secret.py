"""The job's secret, from WEFT_SECRET or from a file that only its user can read (WEFT_SECRET_FILE).

Errors name the variable or file, never the value.
"""

import hmac
import os
import re
import stat
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes

from weft.core.errors import ConfigError
from weft.transports.handshake import SECRET_BYTES

VARIABLE = "WEFT_SECRET"
FILE_VARIABLE = "WEFT_SECRET_FILE"
DIGITS = 2 * SECRET_BYTES
WRITE_ONE = "Make one with 'weft secret new FILE', give every host a copy, and name it in WEFT_SECRET_FILE."
FILE_BYTES_MAX = 4096
PURPOSE = b"weft: the secret of one run"


def new_secret() -> bytes:
    """A fresh random secret of SECRET_BYTES."""
    return token_bytes(SECRET_BYTES)


def read_secret(environ: Mapping[str, str]) -> bytes | None:
    """The secret in WEFT_SECRET, or in the file that WEFT_SECRET_FILE names; None if neither is set."""
    given, named = environ.get(VARIABLE), environ.get(FILE_VARIABLE)
    if given and named:
        raise ConfigError(f"{VARIABLE} and {FILE_VARIABLE} are both set, but a job has one secret.\n  Unset one.")
    if named:
        return _decoded(_text_of(Path(named)), f"the file '{named}' of {FILE_VARIABLE}")
    return _decoded(given, VARIABLE) if given else None


def secret_of_run(secret: bytes, run: str, token: str) -> bytes:
    """Derive the secret of one run from the job's secret, the name of the run and its token.

    HKDF with SHA-256 and no salt (RFC 5869); one block of its output is as long as a secret. Every holder of the job's
    secret derives the same one, and no two runs share it.
    """
    about = b"\0".join([PURPOSE, run.encode(), token.encode()])
    key = hmac.digest(bytes(sha256().digest_size), secret, sha256)
    return hmac.digest(key, about + b"\1", sha256)[:SECRET_BYTES]


def write_secret(secret: bytes, path: Path) -> None:
    """Write `secret` to a new file with mode 0600; raises ConfigError if `path` exists already (O_EXCL)."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError as error:
        raise ConfigError(
            f"'{path}' is there already, and jobs may be using it.\n  Remove it first, or choose another name."
        ) from error
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be written: {error.strerror}.\n  Choose another place.") from error
    try:
        os.fchmod(file, 0o600)  # the umask may have cleared bits
        os.write(file, f"{secret.hex()}\n".encode())
        os.fsync(file)
    finally:
        os.close(file)


def _text_of(path: Path) -> str:
    """The text of the secret file `path`; refuses one that is not regular, not this user's, or readable by others."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(
            f"the file '{path}' of {FILE_VARIABLE} cannot be read: {error.strerror}.\n  {WRITE_ONE}"
        ) from error
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode):
            raise ConfigError(f"'{path}' of {FILE_VARIABLE} is no regular file.\n  {WRITE_ONE}")
        if about.st_uid != os.geteuid():
            raise ConfigError(
                f"the file '{path}' of {FILE_VARIABLE} belongs to user {about.st_uid}, not to {os.geteuid()}, who runs "
                "this.\n  Only a file of your own is believed: copy it."
            )
        if about.st_mode & 0o177:
            raise ConfigError(
                f"the file '{path}' of {FILE_VARIABLE} has mode {about.st_mode & 0o777:04o}, but wants 0600 or 0400: "
                f"others may have read it.\n  Make a new one, or: chmod 600 {path}"
            )
        return os.read(file, FILE_BYTES_MAX).decode("ascii", "replace")
    finally:
        os.close(file)


def _decoded(text: str, where: str) -> bytes:
    digits = text.strip()
    if re.fullmatch(rf"[0-9a-fA-F]{{{DIGITS}}}", digits) is None:
        raise ConfigError(
            f"{where} does not hold a secret of {DIGITS} hexadecimal digits (it has {len(digits)} characters).\n"
            f"  {WRITE_ONE}"
        )
    return bytes.fromhex(digits)
