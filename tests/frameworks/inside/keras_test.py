"""spotter.keras.Callback within Keras 3, on PyTorch."""

import os
import unittest
import unittest.mock

os.environ.setdefault("KERAS_BACKEND", "torch")

from exactly import Exactly, draw, skip_without  # noqa: E402

skip_without("keras")

import keras  # noqa: E402
import numpy  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import spotter.keras  # noqa: E402

EPOCHS, BATCHES, SAMPLES = 3, 8, 4  # SAMPLES a batch, BATCHES an epoch


class Noise(keras.layers.Layer):
    """Draws without a seed of its own."""

    def call(self, inputs, training=False):
        return inputs + keras.random.normal(inputs.shape) if training else inputs


class Noisy(keras.utils.PyDataset):
    """Each batch is another one whenever it is taken."""

    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        return (numpy.full((SAMPLES, 6), index / 10, "float32") + draw(),
                numpy.full((SAMPLES, 1), draw(), "float32"))


class At(keras.callbacks.Callback):
    """Calls once so many batches were trained on in all lives."""

    def __init__(self, batch, call, evaluating):
        super().__init__()
        self.batch, self.call, self.evaluating, self.epoch = batch, call, evaluating, 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.done = self.epoch * BATCHES + batch + 1
        if self.done == self.batch and not self.evaluating:
            self.call()

    def on_test_batch_end(self, batch, logs=None):
        if self.done == self.batch and self.evaluating:
            self.call()


def model():
    made = keras.Sequential([
        keras.layers.Input((6,)), keras.layers.Dense(12, activation="relu"),
        keras.layers.BatchNormalization(), keras.layers.Dropout(0.5), Noise(),
        keras.layers.GaussianNoise(0.1), keras.layers.Dense(1)])
    made.compile(keras.optimizers.Adam(0.01), "mse")
    return made


def data(kind):
    x = numpy.linspace(0, 1, BATCHES * SAMPLES * 6, dtype="float32").reshape(-1, 6)
    y = x.sum(1, keepdims=True)
    if kind == "arrays":
        return {"x": x, "y": y, "batch_size": SAMPLES}
    if kind == "loader":
        import torch
        return {"x": DataLoader(TensorDataset(torch.tensor(x), torch.tensor(y)), SAMPLES,
                                shuffle=True)}
    return {"x": Noisy()}


class Callback(Exactly):
    def train(self, seed, at=None, call=None, every=0, kind="arrays", evaluating=False):
        keras.utils.set_random_seed(seed)
        trained = model()
        draw()
        callback = spotter.keras.Callback(self.checkpoints, every=every)
        self.addCleanup(callback.run.close)
        trained.fit(**data(kind), epochs=EPOCHS, verbose=0,
                    initial_epoch=callback.restore(trained),
                    validation_data=(numpy.ones((8, 6)), numpy.ones((8, 1))),
                    callbacks=[At(at, call, evaluating), callback])
        callback.run.close()
        callback.exit_if_stopped()
        return trained.get_weights()

    def test_a_notice_costs_no_bits_at_any_batch(self):
        for kind in ("arrays", "loader", "generated"):
            whole = self.whole(kind=kind)
            for ends in ((1,), (5,), (BATCHES,), (BATCHES - 1, BATCHES + 1), (3, 4, 13, 20)):
                self.checkpoints = self.folder / f"after-{kind}-{ends}"
                with self.subTest(kind=kind, ends=ends):
                    self.assert_same(self.lives(*ends, kind=kind), whole)

    def test_nor_while_an_epoch_is_evaluated(self):
        whole = self.whole()
        self.assert_same(self.lives(BATCHES, 2 * BATCHES, evaluating=True), whole)

    def test_nor_does_a_kill(self):
        for at, weights, whole in self.killed(4, BATCHES, 2 * BATCHES + 3):
            with self.subTest(at=at):
                self.assert_same(weights, whole)

    def test_a_checkpoint_of_an_older_version_is_gone_on_from_with_a_warning(self):
        def older(run, step, exactly=None, **state):
            return save(run, step, **state)

        save = spotter.Run.save
        with unittest.mock.patch.object(spotter.Run, "save", older):
            with self.assertRaises(SystemExit):
                self.train(seed=3, at=5, call=self.notice)
        self.life_is_over()
        with self.warned():
            self.train(seed=3)


if __name__ == "__main__":
    unittest.main()
