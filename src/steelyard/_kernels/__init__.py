"""The compiled code. Numba keeps it in a cache: next to the modules, else in the user's cache folder."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from numba.core import config
from numba.misc.appdirs import AppDirs

# Where Numba looks, in this order.
_USUAL = (Path(__file__).parent / "__pycache__", Path(AppDirs(appname="numba", appauthor=False).user_cache_dir))


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


# Without a folder for its cache Numba compiles nothing at all. A new folder of this process is safe in a way that a
# shared one under a known name would not be: what lies in a cache is run.
if not getattr(config, "CACHE_DIR", "") and not any(_is_writable(folder) for folder in _USUAL):
    _own = os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="steelyard-kernels-")
    setattr(config, "CACHE_DIR", _own)  # noqa: B010 - Numba sets its attributes at run time
    atexit.register(shutil.rmtree, _own, ignore_errors=True)
