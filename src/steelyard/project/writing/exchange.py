"""Exchange: two paths swap their names in one step of the system, so that neither name is ever missing."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

# `renameat2(…, RENAME_EXCHANGE)` of Linux and `renamex_np(…, RENAME_SWAP)` of macOS.
_CURRENT_FOLDER, _EXCHANGE = -100, 2
_ABSENT = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def exchange(one: Path, other: Path) -> bool:
    """Swap two existing paths of one file system; False where the system or the file system cannot."""
    sys.audit("os.rename", str(one), str(other), -1, -1)  # as `os.rename` does: a write that can be watched
    name = "renameat2" if sys.platform.startswith("linux") else "renamex_np"
    call = getattr(ctypes.CDLL(None, use_errno=True), name, None) if os.name == "posix" else None
    if call is None:
        return False
    first, second = os.fsencode(one), os.fsencode(other)
    if name == "renameat2":
        failed = call(_CURRENT_FOLDER, first, _CURRENT_FOLDER, second, ctypes.c_uint(_EXCHANGE))
    else:
        failed = call(first, second, ctypes.c_uint(_EXCHANGE))
    if not failed:
        return True
    code = ctypes.get_errno()
    if code in _ABSENT:
        return False
    raise OSError(code, os.strerror(code), str(one))
