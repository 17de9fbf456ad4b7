"""A data set in MNIST's format, small enough for tests; as small_mnist.hpp."""

import random
import struct


def write_set(folder, name, count, seed):
    """Each class has a bright patch of its own."""
    chance = random.Random(seed)
    labels = bytes(chance.randrange(10) for _ in range(count))
    images = b"".join(bytes(chance.randrange(55) + (200 if pixel // 79 == label else 0)
                            for pixel in range(784)) for label in labels)
    (folder / f"{name}-images-idx3-ubyte").write_bytes(
        struct.pack(">IIII", 0x803, count, 28, 28) + images)
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + labels)


def write_small_mnist(folder, training, tests):
    folder.mkdir()
    write_set(folder, "train", training, 1)
    write_set(folder, "t10k", tests, 2)
