"""libspotter.so by ctypes: spotter.h, declaration for declaration."""

import ctypes
import ctypes.util
import os
import pathlib
from ctypes import (POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint64,
                    c_void_p)

NAME = "libspotter.so.1"


class SpotterError(RuntimeError):
    """A failure of libspotter; says what to do about it."""


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("directory", c_char_p), ("faster", c_char_p),
                ("keep_last", c_uint64), ("keep_every", c_uint64), ("keep_best", c_uint64),
                ("lower_is_better", c_int), ("every_seconds", c_double),
                ("resumed_later", c_int)]


class Part(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("size", c_size_t)]


class Progress(ctypes.Structure):
    _fields_ = [("step", c_uint64), ("steps_total", c_uint64), ("epoch", c_uint64),
                ("epochs_total", c_uint64), ("loss", c_double), ("accuracy", c_double)]


class Metric(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class ChannelOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("folder", c_char_p), ("format", c_int),
                ("record_bytes", c_size_t)]


class Position(ctypes.Structure):
    _fields_ = [("epoch", c_uint64), ("bytes", c_uint64), ("records", c_uint64)]


# Name of each function: result type, argument types.
FUNCTIONS = {
    "error": (c_char_p, []),
    "open": (c_void_p, [POINTER(Options)]),
    "close": (None, [c_void_p]),
    "catch_signal": (c_int, [c_int]),
    "restore": (c_int, [c_void_p, POINTER(c_void_p)]),
    "torn": (c_char_p, [c_void_p]),
    "checkpoint_step": (c_uint64, [c_void_p]),
    "checkpoint_meta": (c_char_p, [c_void_p]),
    "checkpoint_path": (c_char_p, [c_void_p]),
    "checkpoint_count": (c_size_t, [c_void_p]),
    "checkpoint_name": (c_char_p, [c_void_p, c_size_t]),
    "checkpoint_part": (c_int, [c_void_p, c_char_p, POINTER(c_void_p), POINTER(c_size_t)]),
    "checkpoint_drop": (None, [c_void_p, c_char_p]),
    "checkpoint_free": (None, [c_void_p]),
    "begin_save": (None, [c_void_p]),
    "save": (c_int, [c_void_p, c_uint64, POINTER(Part), c_size_t, c_char_p, c_double]),
    "place": (c_int, [c_void_p, c_uint64, c_uint64, POINTER(c_void_p)]),
    "flush": (c_int, [c_void_p]),
    "resumed": (None, [c_void_p, c_uint64]),
    "can_save": (c_int, [c_void_p]),
    "saved": (c_int, [c_void_p, c_uint64, c_char_p]),
    "is_writer": (c_int, [c_void_p]),
    "sync": (c_int, [c_char_p]),
    "channel_open": (c_void_p, [c_void_p, POINTER(ChannelOptions)]),
    "channel_close": (None, [c_void_p]),
    "channel_next": (c_int, [c_void_p, c_uint64, POINTER(c_void_p), POINTER(c_size_t)]),
    "channel_position": (None, [c_void_p, POINTER(Position)]),
    "channel_move": (c_int, [c_void_p, POINTER(Position)]),
    "should_checkpoint": (c_int, [c_void_p]),
    "should_stop": (c_int, [c_void_p]),
    "deadline": (c_double, [c_void_p]),
    "has_time": (c_int, [c_void_p, c_double]),
    "durable_step": (c_int64, [c_void_p]),
    "progress": (None, [c_void_p, POINTER(Progress)]),
    "progress_with": (c_int, [c_void_p, POINTER(Progress), POINTER(Metric), c_size_t]),
    "progress_due": (c_int, [c_void_p, c_uint64, c_uint64]),
    "status": (None, [c_void_p, c_char_p]),
    "leave": (c_int, [c_void_p]),
    "finished": (c_int, [c_void_p]),
}


def candidates():
    """Candidates for the library: $SPOTTER_LIBRARY, beside this file, as the agent's package has
    it, in a build, installed."""
    if given := os.environ.get("SPOTTER_LIBRARY"):
        return [given]
    here = pathlib.Path(__file__).resolve().parent
    build = here.parents[3] / "build/release/lib" if len(here.parents) > 3 else here
    package = here.parents[1] if here.parent.name == "python" else here
    folders = (here, package, build)
    return [*(str(folder / NAME) for folder in folders if (folder / NAME).exists()), NAME]


def load():
    problems = []
    for name in candidates():
        try:
            library = ctypes.CDLL(name)
        except OSError as error:
            problems.append(str(error))
            continue
        for function, (result, arguments) in FUNCTIONS.items():
            entry = getattr(library, f"spotter_{function}")
            entry.restype, entry.argtypes = result, arguments
        return library
    raise ImportError(f"{NAME} was not found; set SPOTTER_LIBRARY to its path "
                      f"({'; '.join(problems)})")


__all__ = ["ChannelOptions", "Metric", "Options", "Part", "Position", "Progress", "SpotterError",
           "byref", "c_size_t", "c_void_p", "load"]
