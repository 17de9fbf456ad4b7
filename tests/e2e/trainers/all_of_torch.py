#!/usr/bin/python3
"""What PyTorch asks of a sandbox: compiled code, oneDNN's own, data loaders' processes and their
shared memory, threads, sockets between processes; and a result, for a trainer that ended well."""

import mmap
import os
import pathlib
import socket

import torch

torch.manual_seed(1)


@torch.jit.script
def activate(x, scale: float):
    for _ in range(3):
        x = torch.tanh(x * scale) + x
    return x


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.look = torch.nn.Conv2d(1, 8, 3)
        self.tell = torch.nn.Linear(8 * 26 * 26, 10)

    def forward(self, images):
        return self.tell(activate(self.look(images), 0.5).flatten(1))


def tell(**fields):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.sendto("\n".join(f"{name}={value}" for name, value in fields.items()).encode(),
                    os.environ["NOTIFY_SOCKET"])


def main():
    storage = pathlib.Path(os.environ["SPOTTER_STORAGE"])
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()
    torch.distributed.init_process_group("gloo", init_method=f"file://{storage}/result/rendezvous",
                                         rank=0, world_size=1)
    images, labels = torch.randn(256, 1, 28, 28), torch.randint(0, 10, (256,))
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels),
                                       batch_size=32, num_workers=2, persistent_workers=True)
    network = Network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for epoch in range(1, 4):
        for seen, wanted in data:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(network(seen), wanted)
            loss.backward()
            torch.distributed.all_reduce(loss.detach())
            optimizer.step()
        torch.save(network.state_dict(), storage / "checkpoints/network.pt")
        tell(X_SPOTTER_STEP=epoch, X_SPOTTER_LOSS=loss.item())
    torch.jit.script(network).save(str(storage / "result/weights.bin"))
    tell(X_SPOTTER_FINISHED=1)


if __name__ == "__main__":
    main()
