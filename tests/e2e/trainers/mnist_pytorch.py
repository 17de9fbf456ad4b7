#!/usr/bin/python3
"""A plain PyTorch training in the manner of pytorch/examples' mnist: a checkpoint by torch.save at
the end of each epoch, and a start from the highest one in the folder. It knows nothing of Spotter.

The images are made up (ten patterns with noise): no data set has to be fetched. The order of an
epoch depends only on the seed and its number, so each resumed run ends with the same weights.
"""

import argparse
import glob
import os
import re

import torch
import torch.nn.functional as F
from torch import nn, optim


class Net(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.fc1 = nn.Linear(784, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, 10)

    def forward(self, x):
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        x = F.dropout(F.relu(self.fc2(x)), 0.2, self.training)
        return F.log_softmax(self.fc3(x), dim=1)


def images(count, seed):
    generator = torch.Generator().manual_seed(seed)
    patterns = torch.rand(10, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(10, (count,), generator=generator)
    return patterns[labels] + 0.8 * torch.randn(count, 1, 28, 28, generator=generator), labels


def train(args, model, data, optimizer, epoch):
    model.train()
    torch.manual_seed(args.seed + epoch)
    order = torch.randperm(len(data[1]))
    for batch, chosen in enumerate(order.split(args.batch_size)):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data[0][chosen]), data[1][chosen])
        loss.backward()
        optimizer.step()
        if batch % 10 == 0:
            print(f"Train Epoch: {epoch} [{batch * args.batch_size}/{len(order)}]"
                  f"\tLoss: {loss.item():.6f}", flush=True)


def test(model, data):
    model.eval()
    with torch.no_grad():
        correct = (model(data[0]).argmax(1) == data[1]).sum().item()
    print(f"Test set: Accuracy: {correct}/{len(data[1])}", flush=True)


def checkpoint_name(args, epoch):
    return os.path.join(args.checkpoints, f"mnist_{epoch:03d}.pt")


def resume(args, model, optimizer):
    """The number of epochs that are done: the highest in the folder's names."""
    found = glob.glob(os.path.join(args.checkpoints, "*.pt"))
    if not found:
        return 0
    last = max(int(re.search(r"_(\d+)\.pt$", name)[1]) for name in found)
    state = torch.load(checkpoint_name(args, last))
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    print(f"resumed after epoch {last}", flush=True)
    return last


def main():
    parser = argparse.ArgumentParser(description="PyTorch MNIST example")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--images", type=int, default=6000)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoints", default="checkpoints")
    parser.add_argument("--save-model", default="mnist.pt")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    model = Net(args.hidden)
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    os.makedirs(args.checkpoints, exist_ok=True)
    done = resume(args, model, optimizer)
    data, held_out = images(args.images, 1), images(1000, 2)
    for epoch in range(done + 1, args.epochs + 1):
        train(args, model, data, optimizer, epoch)
        test(model, held_out)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()},
                   checkpoint_name(args, epoch))
    os.makedirs(os.path.dirname(os.path.abspath(args.save_model)), exist_ok=True)
    torch.save(model.state_dict(), args.save_model)


if __name__ == "__main__":
    main()
