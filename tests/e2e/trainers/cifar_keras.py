#!/usr/bin/python3
"""Follows AWS's example for spot instances, ec2_spot_keras_training.py, step by step: a checkpoint
named after its epoch at the end of each (ModelCheckpoint, real HDF5), a CSV log that is appended
to, a start from the highest number in the folder, whatever else lies there. Before each batch it
asks the metadata service as version 1 does, without a token, and takes all but 404 for an
interruption: then it sleeps until the machine is gone. Not as there: Keras is not in Debian, the
model is a small one of numpy's; and the service's address may be another. It knows nothing of
Spotter, and catches no signal.
"""

import csv
import glob
import os
import sys
import time
import urllib.error
import urllib.request

import h5py
import numpy

METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")


class Model:
    def __init__(self, hidden):
        random = numpy.random.default_rng(1)
        self.weights = [random.normal(0, 0.05, shape) for shape in
                        ((3072, hidden), (hidden, hidden), (hidden, 10))]
        self.momenta = [numpy.zeros_like(weight) for weight in self.weights]

    def save(self, path):
        with h5py.File(path, "w") as file:
            for group, arrays in (("model_weights", self.weights), ("optimizer", self.momenta)):
                for number, array in enumerate(arrays):
                    file.create_dataset(f"{group}/{number}", data=array)

    def load(self, path):
        with h5py.File(path, "r") as file:
            self.weights = [file[f"model_weights/{number}"][...] for number in range(3)]
            self.momenta = [file[f"optimizer/{number}"][...] for number in range(3)]

    def train_on_batch(self, x, y):
        first = numpy.maximum(x @ self.weights[0], 0)
        second = numpy.maximum(first @ self.weights[1], 0)
        scores = second @ self.weights[2]
        scores = numpy.exp(scores - scores.max(1, keepdims=True))
        scores /= scores.sum(1, keepdims=True)
        loss = -numpy.log(scores[range(len(y)), y] + 1e-12).mean()
        scores[range(len(y)), y] -= 1
        back_2 = (scores @ self.weights[2].T) * (second > 0)
        back_1 = (back_2 @ self.weights[1].T) * (first > 0)
        for number, gradient in enumerate((x.T @ back_1, first.T @ back_2, second.T @ scores)):
            self.momenta[number] = 0.9 * self.momenta[number] + gradient / len(y)
            self.weights[number] = self.weights[number] - 0.01 * self.momenta[number]
        return loss


def images(count):
    random = numpy.random.default_rng(2)
    labels = random.integers(10, size=count)
    return random.random((10, 3072))[labels] - 0.5 + random.normal(0, 1, (count, 3072)), labels


def load_checkpoint_model(model, checkpoint_path, checkpoint_names):
    files = glob.glob(os.path.join(checkpoint_path, "*"))
    epoch_number = max(int(file.split(".")[-2]) for file in files)
    model.load(os.path.join(checkpoint_path, checkpoint_names.format(epoch=epoch_number)))
    print(f"resumed after epoch {epoch_number}", flush=True)
    return epoch_number


def spot_termination():
    """on_batch_begin of the example's callback. Where nothing answers, it dies, as there."""
    try:
        with urllib.request.urlopen(f"{METADATA}/latest/meta-data/spot/instance-action") as answer:
            status_code = answer.status
    except urllib.error.HTTPError as error:
        status_code = error.code
    if status_code != 404:
        print(f"status {status_code}: waiting for the end", flush=True)
        time.sleep(150)


def main():
    volume_mount_dir, epochs, hidden = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    batch_size = 64
    checkpoint_path = os.path.join(volume_mount_dir, "checkpoints")
    checkpoint_names = "cifar10_model.{epoch:03d}.h5"
    x_train, y_train = images(2000)
    model, initial_epoch = Model(hidden), 0
    if os.path.isdir(checkpoint_path) and any(glob.glob(os.path.join(checkpoint_path, "*"))):
        initial_epoch = load_checkpoint_model(model, checkpoint_path, checkpoint_names)
    os.makedirs(checkpoint_path, exist_ok=True)
    with open(os.path.join(volume_mount_dir, "training_log.csv"), "a", encoding="utf-8") as log:
        for epoch in range(initial_epoch + 1, epochs + 1):
            order = numpy.random.default_rng(epoch).permutation(len(y_train))
            for start in range(0, len(order), batch_size):
                spot_termination()
                chosen = order[start:start + batch_size]
                loss = model.train_on_batch(x_train[chosen], y_train[chosen])
            csv.writer(log).writerow([epoch, f"{loss:.6f}"])
            log.flush()
            model.save(os.path.join(checkpoint_path, checkpoint_names.format(epoch=epoch)))
            print(f"epoch {epoch} of {epochs}: loss {loss:.6f}", flush=True)
    os.makedirs(os.path.join(volume_mount_dir, "result"), exist_ok=True)
    model.save(os.path.join(volume_mount_dir, "result", "cifar10_model.h5"))


if __name__ == "__main__":
    main()
