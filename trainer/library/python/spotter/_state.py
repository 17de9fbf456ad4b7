"""Serializes a state without copying it: tensors and arrays stay in place (those on a GPU are
fetched by _staging.py), and a small pickle describes their structure.

Each named value becomes the parts `name.pickle` and `name.0`, `name.1`, ...: buffers end to end, a
new part begun after PART bytes, so that those that do not change (frozen layers) are found to be
the same. Frameworks are never imported here, only recognised when they are loaded already.

Memory that several tensors share (tied weights, views of one storage) is written once, and they
share it again when they are restored. In the pickles tensors are persistent ids, first of all where
their bytes are; in checkpoints of older versions all are of the first kind:

    ("torch", part, at, size, dtype, shape, parameter, gradient)
    ("torch-view", the same..., strides or None, offset, device)     of what lies there
    ("numpy", part, at, size, dtype, shape); ("bytes" or "bytearray", part, at, size)
"""

import ctypes
import io
import math
import os
import pathlib
import pickle
import sys

from ._library import SpotterError

ALIGNMENT = 64          # of each buffer in its part, for vector instructions
PART = 64 << 20         # bytes: small enough to tell frozen layers from others, large for any disk
PADDING = b"\0" * ALIGNMENT
# Classes and functions that do nothing but make data, by their modules; torch's dtypes and NumPy's
# beside them. A skeleton that another process has sent may name no others.
PLAIN = {"builtins": {"bool", "bytearray", "complex", "dict", "float", "frozenset", "int", "list",
                      "range", "set", "slice", "str", "tuple"},
         "collections": {"OrderedDict", "defaultdict", "deque"}, "torch": {"Size", "device"}}
SMALL = 1 << 20         # bytes: what is restored of fewer has memory of its own, and keeps no part


class Piece:
    """Memory that must not change until it is copied: `owner` keeps it alive. `source`: a flat
    tensor of bytes on a GPU, which have no address yet."""

    def __init__(self, address, size, owner, source=None):
        self.address, self.size, self.owner, self.source = address, size, owner, source


def _bytes_piece(data):
    view = memoryview(data).cast("B")
    if not view.nbytes:
        return Piece(None, 0, data)
    if view.readonly:
        text = data if isinstance(data, bytes) else bytes(view)
        return Piece(ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value, len(text), text)
    array = (ctypes.c_char * view.nbytes).from_buffer(view)
    return Piece(ctypes.addressof(array), view.nbytes, (array, data))


class _Shelf:
    """Where the memory of all values goes. By home, a storage: the views that were seen of it,
    which are (begin, end, shape, strides), and the range of addresses that is written `whole`."""

    def __init__(self, whole):
        self.parts, self.seen, self.placed, self.views, self.whole = {}, {}, {}, {}, whole

    def shared(self):
        """The ranges that are better written whole, as several views need them."""
        ranges = {home: (min(view[0] for view in views), max(view[1] for view in views))
                  for home, views in self.views.items() if len(views) > 1}
        return {home: (begin, end) for home, (begin, end) in ranges.items()
                if end - begin <= sum(self.views[home].values())}


class _Pickler(pickle.Pickler):
    def __init__(self, file, name, staging, shelf):
        super().__init__(file, protocol=4)
        self.name, self.used, self.index = name, 0, 0
        self.staging, self.shelf = staging, shelf
        self.torch, self.numpy = sys.modules.get("torch"), sys.modules.get("numpy")

    def place(self, piece):
        if self.used >= PART:
            self.used, self.index = 0, self.index + 1
        part = f"{self.name}.{self.index}"
        pieces = self.shelf.parts.setdefault(part, [])
        gap = -self.used % ALIGNMENT
        if gap:
            pieces.append(_bytes_piece(PADDING[:gap]))
        at = self.used + gap
        pieces.append(piece)
        self.used = at + piece.size
        return part, at, piece.size

    # An object that occurs twice is written once, and restored as one.
    def persistent_id(self, obj):
        seen = self.shelf.seen
        if id(obj) in seen:
            return seen[id(obj)][0]
        where = self._where(obj)
        if where:
            seen[id(obj)] = (where, obj)
        return where

    def _where(self, obj):
        torch, numpy = self.torch, self.numpy
        if torch and type(obj) in (torch.Tensor, torch.nn.Parameter) and \
                obj.layout == torch.strided and not obj.is_quantized:
            return self._tensor(obj)
        if torch and isinstance(obj, torch.Tensor) and hasattr(obj, "to_local"):
            # DTensor, ShardedTensor: rank 0 has only its own part.
            raise SpotterError("a tensor of the state lies on several ranks, of which one saves: "
                               "take spotter.dcp, or gather it (full_tensor())")
        if numpy and type(obj) is numpy.ndarray and not obj.dtype.hasobject:
            return self._array(obj)
        if isinstance(obj, (bytes, bytearray)) and len(obj) >= PART >> 10:
            return (type(obj).__name__, *self.place(_bytes_piece(obj)))
        return None

    def _tensor(self, obj):
        # Conjugates and negatives are lazy views of other tensors until they are resolved.
        tensor = obj.detach().resolve_conj().resolve_neg()
        staged = self.staging.takes(tensor)
        tensor = tensor if staged else tensor.cpu()
        shape, strides, item = tuple(obj.shape), tensor.stride(), tensor.element_size()
        begin, size = tensor.data_ptr(), tensor.numel() * item
        last = sum((length - 1) * stride for length, stride in zip(shape, strides))
        view = (begin, begin + (last + 1) * item if size else begin, shape, strides)
        kept = (str(obj.dtype), shape, isinstance(obj, self.torch.nn.Parameter),
                bool(obj.requires_grad))
        home = (str(tensor.device), kept[0], begin - tensor.storage_offset() * item)
        self.shelf.views.setdefault(home, {})[view] = size
        whole = self.shelf.whole.get(home, (0, 0))
        low, high = whole if whole[0] <= begin and view[1] <= whole[1] else view[:2]
        dense = (low, high) == whole or high - low == size
        key = (home, low, high) if dense else (home, view)
        if key not in self.shelf.placed:
            tensor = tensor if dense else tensor.contiguous()
            first = low if dense else tensor.data_ptr()
            length = high - low if dense else size
            piece = Piece(first, length, tensor)
            if staged and length:
                at = tensor.storage_offset() + (first - tensor.data_ptr()) // item
                flat = tensor.as_strided((length // item,), (1,), at)
                piece = Piece(None, length, tensor, flat.view(self.torch.uint8))
            self.shelf.placed[key] = self.place(piece)
        where = self.shelf.placed[key]
        if not staged and (not dense or where[2] == size and tensor.is_contiguous()):
            return ("torch", *where, *kept)
        return ("torch-view", *where, *kept, strides if dense else None,
                (begin - low) // item if dense else 0, str(tensor.device))

    def _array(self, obj):
        key = (obj.ctypes.data, obj.dtype.str, obj.shape, obj.strides)
        if key not in self.shelf.placed:
            array = self.numpy.ascontiguousarray(obj)
            self.shelf.placed[key] = self.place(Piece(array.ctypes.data, array.nbytes, array))
        return ("numpy", *self.shelf.placed[key], obj.dtype, obj.shape)


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
    def __init__(self, file, part, seen, device_of, plain=False):
        super().__init__(file)
        self.part, self.seen, self.device_of, self.plain = part, seen, device_of, plain

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
        memory = self.part(part)
        if at < 0 or size < 0 or at + size > len(memory):
            raise ValueError(f"{part} has {len(memory)} bytes, not those from {at} to {at + size}")
        if kind in ("bytes", "bytearray"):
            data = ctypes.string_at(ctypes.addressof(memory) + at, size)
            return data if kind == "bytes" else bytearray(data)
        if kind == "numpy":
            import numpy
            dtype = numpy.dtype(getattr(rest[0], "text", rest[0]))
            if dtype.hasobject or dtype.itemsize * math.prod(rest[1]) != size:
                raise ValueError(f"{size} bytes are no array of {dtype} and {rest[1]}")
            array = numpy.ndarray(rest[1], dtype, memory, at)
            return array if size >= SMALL else array.copy()
        import torch
        dtype, shape, parameter, gradient, *view = rest
        strides, offset, device = view or (None, 0, "cpu")
        key = (part, at, size, dtype)
        if key not in self.seen:
            element = getattr(torch, dtype.removeprefix("torch."), None)
            if not isinstance(element, torch.dtype):
                raise ValueError(f"{dtype} is no type of a tensor")
            flat = torch.empty(0, dtype=torch.uint8)
            if size:
                flat = torch.frombuffer(memory, dtype=torch.uint8, count=size, offset=at)
            flat = (flat if size >= SMALL else flat.clone()).view(element)
            self.seen[key] = flat if device == "cpu" else flat.to(self.device_of(device))
        flat = self.seen[key]
        tensor = flat.view(shape) if strides is None else flat.as_strided(shape, strides, offset)
        tensor = tensor.data  # to autograd it is no view of a flat one
        if parameter:
            return torch.nn.Parameter(tensor, requires_grad=gradient)
        return tensor.requires_grad_(gradient)


def pack(values, staging):
    """{name: value} -> [(part's name, [Piece, ...]), ...]"""
    def packed(shelf):
        pickles = []
        for name, value in values.items():
            skeleton = io.BytesIO()
            _Pickler(skeleton, name, staging, shelf).dump(value)
            pickles.append((f"{name}.pickle", [_bytes_piece(skeleton.getvalue())]))
        return [*pickles, *shelf.parts.items()]
    shelf = _Shelf({})
    parts = packed(shelf)
    whole = shelf.shared()  # mostly none
    return packed(_Shelf(whole)) if whole else parts


def unpack(names, part, device_of=lambda device: "cpu", plain=False):
    """The inverse; `part(name)` is the memory of a part, a ctypes array. A tensor that was on a GPU
    goes to device_of(that GPU). `plain`: another process has sent it: raises NotPlain where it has
    more in it than data."""
    values, seen = {}, {}
    for name in names:
        if name.endswith(".pickle"):
            skeleton = io.BytesIO(bytes(part(name)))
            unpickler = _Unpickler(skeleton, part, seen, device_of, plain)
            values[name.removesuffix(".pickle")] = unpickler.load()
    return values


def read(folder, device_of):
    """The same of a checkpoint of libspotter's on the storage."""
    files = {path.name: memory_of(path.read_bytes()) for path in pathlib.Path(folder).iterdir()}
    return unpack(files, files.__getitem__, device_of)


def memory_of(data):
    """A part, as unpack() takes it."""
    return (ctypes.c_char * len(data)).from_buffer_copy(data)


def check_plain(packed):
    """Raises NotPlain where another process would not take what pack() has returned."""
    for name, pieces in packed:
        if name.endswith(".pickle"):
            text = ctypes.string_at(pieces[0].address, pieces[0].size)
            _Classes(io.BytesIO(text), None, {}, None, True).load()


class _Classes(_Unpickler):
    def persistent_load(self, where):
        return None


def fill(found, into):
    """Copies each tensor to that of the same place, type and shape in `into`, and returns `found`
    with these in its place."""
    torch = sys.modules.get("torch")
    if torch and isinstance(found, torch.Tensor) and isinstance(into, torch.Tensor):
        if (found.dtype, found.shape) != (into.dtype, into.shape):
            return found
        with torch.no_grad():
            return into.copy_(found)
    if isinstance(found, dict) and isinstance(into, dict):
        for name in found.keys() & into.keys():
            found[name] = fill(found[name], into[name])
    elif isinstance(found, list) and isinstance(into, list):
        found[:len(into)] = map(fill, found, into)
    return found
