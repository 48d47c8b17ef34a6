"""GraphSAGE with mean aggregation on DGL, equal to Edgecut's `--model sage` without dropout."""

import dgl.nn.pytorch as dglnn
import torch
from torch.nn import functional


class Sage(torch.nn.Module):
    """`num_layers` layers with ReLU between them."""

    def __init__(self, in_channels: int, hidden_channels: int, num_classes: int, num_layers: int) -> None:
        super().__init__()
        widths = [in_channels] + [hidden_channels] * (num_layers - 1) + [num_classes]
        self.layers = torch.nn.ModuleList(
            dglnn.SAGEConv(width, next_width, "mean") for width, next_width in zip(widths, widths[1:])
        )

    def forward(self, blocks: list, x: torch.Tensor) -> torch.Tensor:
        """Maps `[input nodes, in_channels]` to `[seeds, num_classes]`."""
        for layer, block in zip(self.layers[:-1], blocks):
            x = functional.relu(layer(block, x))
        return self.layers[-1](blocks[-1], x)


class Trainer:
    """A model with its Adam optimizer."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

    def step(self, blocks: list, x: torch.Tensor, y: torch.Tensor) -> None:
        """Runs forward pass, backward pass and optimizer on one batch."""
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(blocks, x), y)
        loss.backward()
        self.optimizer.step()
