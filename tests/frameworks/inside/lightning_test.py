"""spotter.lightning.Callback within Lightning."""

import logging
import unittest
import unittest.mock
import warnings

from exactly import Exactly, draw, skip_without

skip_without("lightning")

import lightning  # noqa: E402
import torch  # noqa: E402
from lightning.pytorch import seed_everything  # noqa: E402
from torch.utils.data import DataLoader, Dataset, IterableDataset  # noqa: E402

import spotter.lightning  # noqa: E402

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
logging.getLogger("lightning.fabric").setLevel(logging.ERROR)
EPOCHS, BATCHES, SAMPLES = 3, 8, 4  # SAMPLES a batch, BATCHES an epoch


class Noisy(Dataset):
    """Each sample is another one whenever it is taken."""

    def __len__(self):
        return BATCHES * SAMPLES

    def __getitem__(self, index):
        return torch.full((6,), float(index)) / 10 + draw()


class Endless(IterableDataset):
    """Nobody knows its length."""

    def __iter__(self):
        return (Noisy()[index] for index in range(BATCHES * SAMPLES))


class Resumable:
    """A loader with state, which Lightning saves and restores."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        first, self.at = self.at % BATCHES, self.at % BATCHES
        for _ in range(first, BATCHES):
            self.at += 1
            yield torch.full((SAMPLES, 6), float(self.at)) + draw()

    def __len__(self):
        return BATCHES

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def loader(kind):
    if kind == "resumable":
        return Resumable()
    if kind == "endless":
        return DataLoader(Endless(), batch_size=SAMPLES)
    return DataLoader(Noisy(), batch_size=SAMPLES, shuffle=True,
                      num_workers=2 if kind == "workers" else 0)


class Model(lightning.LightningModule):
    def __init__(self, hook):
        super().__init__()
        self.hook = hook
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Dropout(),
                                          torch.nn.ReLU(), torch.nn.Linear(12, 1))
        self.register_buffer("offset", torch.zeros(()))

    def on_train_start(self):
        draw()

    def on_train_epoch_start(self):
        if self.hook:
            self.offset.fill_(draw())

    def training_step(self, batch, _):
        return (self.layers(batch) - self.offset - draw()).square().mean()

    def validation_step(self, batch, _):
        self.log("val_loss", self.layers(batch).square().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]


class At(lightning.Callback):
    """Calls once so many batches were trained on in this process and those before it."""

    def __init__(self, batch, call):
        self.batch, self.call = batch, call

    def on_train_batch_end(self, trainer, *_):
        if trainer.fit_loop.total_batch_idx + 1 == self.batch:
            self.call()


class Callback(Exactly):
    def train(self, seed, at=None, call=None, every=0, kind="plain", hook=True, **options):
        seed_everything(seed)
        model = Model(hook)
        callback = spotter.lightning.Callback(self.checkpoints, every=every)
        self.addCleanup(callback.run.close)
        trainer = lightning.Trainer(
            accelerator="cpu", devices=1, max_epochs=EPOCHS, logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
            callbacks=[At(at, call), callback], **options)
        trainer.fit(model, loader(kind), loader("plain"), ckpt_path=callback.ckpt_path())
        callback.run.close()
        callback.exit_if_stopped()
        return [each.detach().numpy() for each in model.state_dict().values()]

    def test_a_notice_costs_no_bits_at_any_batch(self):
        whole = self.whole()
        for ends in ((1,), (5,), (BATCHES,), (BATCHES + 1,), (2 * BATCHES - 1,), (3, 4, 13, 20)):
            self.checkpoints = self.folder / f"after-{ends}"
            with self.subTest(ends=ends):
                self.assert_same(self.lives(*ends), whole)

    def test_nor_does_a_kill(self):
        for at, weights, whole in self.killed(4, BATCHES, 2 * BATCHES + 3):
            with self.subTest(at=at):
                self.assert_same(weights, whole)

    def test_workers_draw_the_same(self):
        whole = self.whole(kind="workers")
        self.assert_same(self.lives(5, BATCHES, 2 * BATCHES + 5, kind="workers"), whole)

    def test_a_loader_without_a_length(self):
        whole = self.whole(kind="endless")
        self.assert_same(self.lives(5, BATCHES + 2, kind="endless"), whole)

    def test_a_loader_with_state_is_lightning_s_matter(self):
        whole = self.whole(kind="resumable")
        self.assert_same(self.lives(5, BATCHES + 2, kind="resumable"), whole)

    def test_evaluations_within_an_epoch(self):
        options = {"val_check_interval": 3}
        whole = self.whole(**options)
        self.assert_same(self.lives(3, 5, BATCHES + 6, **options), whole)

    def test_where_steps_are_counted_and_not_epochs(self):
        # Where it goes on from an epoch's last batch Lightning leaves out the hook of the next one.
        options = {"max_steps": EPOCHS * BATCHES, "hook": False}
        whole = self.whole(**options)
        self.assert_same(self.lives(5, BATCHES, BATCHES + 3, 2 * BATCHES, **options), whole)

    def test_gradients_that_wait_are_computed_again(self):
        options = {"accumulate_grad_batches": 3}
        whole = self.whole(**options)
        # Batch 5 is the second of a step; 8 ends an epoch, and with it a step; 9 begins one.
        self.assert_same(self.lives(5, BATCHES, BATCHES + 3, BATCHES + 4, **options), whole)

    def test_a_checkpoint_of_an_older_version_is_gone_on_from_with_a_warning(self):
        class Older(spotter.lightning.Callback):
            def _checkpoint(self, trainer, at):
                state = super()._checkpoint(trainer, at)
                del state[spotter.lightning.OURS]
                return state

        with unittest.mock.patch.object(spotter.lightning, "Callback", Older):
            with self.assertRaises(SystemExit):
                self.train(seed=3, at=5, call=self.notice)
        self.life_is_over()
        with self.warned():
            self.assertEqual(len(self.train(seed=3)), 5)


if __name__ == "__main__":
    unittest.main()
