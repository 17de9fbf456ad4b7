"""Serializes a state without copying it: tensors and arrays stay in place (those on a GPU are
staged in the host's memory), and a small pickle describes their structure.

Each named value becomes the parts `name.pickle` and `name.0`, `name.1`, ...: buffers end to end, a
new part begun after PART bytes, so that those that do not change (frozen layers) are found to be
the same. Frameworks are never imported here, only recognised when they are loaded already.
"""

import ctypes
import io
import os
import pathlib
import pickle
import sys

ALIGNMENT = 64          # of each buffer in its part, for vector instructions
PART = 64 << 20         # bytes: small enough to tell frozen layers from others, large for any disk
PADDING = b"\0" * ALIGNMENT
# Classes and functions that do nothing but make data, by their modules; torch's dtypes and NumPy's
# beside them. A skeleton that another process has sent may name no others.
PLAIN = {"builtins": {"bool", "bytearray", "complex", "dict", "float", "frozenset", "int", "list",
                      "range", "set", "slice", "str", "tuple"},
         "collections": {"OrderedDict", "defaultdict", "deque"}, "torch": {"Size", "device"}}


class Piece:
    """Memory that must not change until it is copied: `owner` keeps it alive."""

    def __init__(self, address, size, owner):
        self.address, self.size, self.owner = address, size, owner


def _bytes_piece(data):
    view = memoryview(data).cast("B")
    if not view.nbytes:
        return Piece(None, 0, data)
    if view.readonly:
        text = data if isinstance(data, bytes) else bytes(view)
        return Piece(ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value, len(text), text)
    array = (ctypes.c_char * view.nbytes).from_buffer(view)
    return Piece(ctypes.addressof(array), view.nbytes, (array, data))


class _Pickler(pickle.Pickler):
    def __init__(self, file, name, staging):
        super().__init__(file, protocol=4)
        self.name, self.pieces, self.used, self.index = name, {}, 0, 0
        self.staging = staging
        self.torch, self.numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        self.seen = {}

    def _place(self, *placed):
        if self.used >= PART:
            self.used, self.index = 0, self.index + 1
        part = f"{self.name}.{self.index}"
        pieces = self.pieces.setdefault(part, [])
        gap = -self.used % ALIGNMENT
        if gap:
            pieces.append(_bytes_piece(PADDING[:gap]))
        at, size = self.used + gap, sum(piece.size for piece in placed)
        pieces += placed
        self.used = at + size
        return part, at, size

    # An object that occurs twice (tied weights) is written once, and restored as one.
    def persistent_id(self, obj):
        if id(obj) in self.seen:
            return self.seen[id(obj)][0]
        where = self._where(obj)
        if where:
            self.seen[id(obj)] = (where, obj)
        return where

    def _where(self, obj):
        torch, numpy = self.torch, self.numpy
        if torch and isinstance(obj, torch.Tensor) and obj.layout == torch.strided and \
                not obj.is_quantized:
            # Conjugates and negatives are lazy views of other tensors until they are resolved.
            tensor = obj.detach().resolve_conj().resolve_neg().contiguous()
            staged = self.staging.place(tensor) if self.staging.takes(tensor) else [tensor.cpu()]
            pieces = [Piece(each.data_ptr(), each.numel() * each.element_size(), each)
                      for each in staged]
            parameter = isinstance(obj, torch.nn.Parameter)
            return ("torch", *self._place(*pieces), str(obj.dtype), tuple(obj.shape), parameter,
                    bool(obj.requires_grad))
        if numpy and type(obj) is numpy.ndarray and not obj.dtype.hasobject:
            array = numpy.ascontiguousarray(obj)
            piece = Piece(array.ctypes.data, array.nbytes, array)
            return ("numpy", *self._place(piece), array.dtype, obj.shape)
        if isinstance(obj, (bytes, bytearray)) and len(obj) >= PART >> 10:
            return (type(obj).__name__, *self._place(_bytes_piece(obj)))
        return None


class NotPlain(pickle.UnpicklingError):
    """A skeleton has more in it than data."""


class _Dtype:
    """NumPy's own would take any flags and offsets."""

    def __init__(self, name, *_):
        self.text = name

    def __setstate__(self, state):
        if len(state) > 8 or state[2:5] != (None, None, None):
            raise NotPlain("a structure or a date of NumPy, which no rank takes from another")
        self.text = state[1] + self.text


def _scalar(dtype, data):
    import numpy
    return numpy.frombuffer(data, numpy.dtype(dtype.text), 1)[0]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, part, plain):
        super().__init__(file)
        self.part, self.plain, self.seen = part, plain, {}

    def find_class(self, module, name):
        if not self.plain or name in PLAIN.get(module, ()):
            return super().find_class(module, name)
        if module.startswith("numpy") and name in ("dtype", "scalar"):
            return _Dtype if name == "dtype" else _scalar
        torch = sys.modules.get("torch")
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        raise NotPlain(f"{module}.{name}, which no rank takes from another: save plain values")

    def persistent_load(self, where):
        if where not in self.seen:
            self.seen[where] = self._load(*where)
        return self.seen[where]

    def _load(self, kind, part, at, size, *rest):
        begin, whole = self.part(part) if size else (0, 0)
        if at < 0 or size < 0 or (size and at + size > whole):
            raise ValueError(f"{part} has {whole} bytes, not those from {at} to {at + size}")
        address = begin + at if size else 0
        if kind in ("bytes", "bytearray"):
            data = ctypes.string_at(address, size)
            return data if kind == "bytes" else bytearray(data)
        if kind == "numpy":
            import numpy
            array = numpy.empty(rest[1], dtype=getattr(rest[0], "text", rest[0]))
            if array.dtype.hasobject or array.nbytes != size:
                raise ValueError(f"{size} bytes are no array of {rest[0]} and {rest[1]}")
            ctypes.memmove(array.ctypes.data, address, size)
            return array
        import torch
        dtype, shape, parameter, gradient = rest
        tensor = torch.empty(shape, dtype=getattr(torch, dtype.removeprefix("torch.")))
        if tensor.numel() * tensor.element_size() != size:
            raise ValueError(f"{size} bytes are no tensor of {dtype} and {shape}")
        ctypes.memmove(tensor.data_ptr(), address, size)
        if parameter:
            return torch.nn.Parameter(tensor, requires_grad=gradient)
        return tensor.requires_grad_(gradient)


def pack(values, staging):
    """{name: value} -> [(part's name, [Piece, ...]), ...]; valid until the next one with the same
    Staging."""
    parts = []
    staging.begin()
    for name, value in values.items():
        skeleton = io.BytesIO()
        pickler = _Pickler(skeleton, name, staging)
        pickler.dump(value)
        parts.append((f"{name}.pickle", [_bytes_piece(skeleton.getvalue())]))
        parts += pickler.pieces.items()
    staging.wait()
    return parts


def unpack(names, part, plain=False):
    """The inverse; `part(name)` is the (address, size) of a part. `plain`: another process has sent
    it: raises NotPlain where it has more in it than data."""
    values = {}
    for name in names:
        if name.endswith(".pickle"):
            skeleton = io.BytesIO(ctypes.string_at(*part(name)))
            values[name.removesuffix(".pickle")] = _Unpickler(skeleton, part, plain).load()
    return values


def read(folder):
    """The same of a checkpoint of libspotter's on the storage."""
    files = {name: pathlib.Path(folder, name).read_bytes() for name in os.listdir(folder)}
    return unpack(files, lambda name: (
        ctypes.cast(ctypes.c_char_p(files[name]), ctypes.c_void_p).value, len(files[name])))


def check_plain(packed):
    """Raises NotPlain where another process would not take what pack() has returned."""
    for name, pieces in packed:
        if name.endswith(".pickle"):
            text = ctypes.string_at(pieces[0].address, pieces[0].size)
            _Classes(io.BytesIO(text), None, True).load()


class _Classes(_Unpickler):
    def persistent_load(self, where):
        return None
