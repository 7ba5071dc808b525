"""Networks of PyTorch; skipped where it is not installed."""

import flipcast
import numpy as np
import pytest

torch = pytest.importorskip("torch")
SIDE = 32


class Block(torch.nn.Module):
    """A residual block, as torchvision writes it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn = torch.nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)) + x)


def network():
    torch.manual_seed(0)
    stem = [torch.nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), torch.nn.BatchNorm2d(8), torch.nn.ReLU()]
    head = [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 5)]
    net = torch.nn.Sequential(*stem, Block(8), *head)
    with torch.no_grad():
        net(torch.randn(64, 3, SIDE, SIDE))  # Running statistics that are not 0 and 1.
    return net


def test_a_module_gives_its_own_logits_and_stays_as_it_was():
    net = network()
    net[6].eval()
    model = flipcast.Model.from_torch(net, torch.zeros(2, 3, SIDE, SIDE), mean=0.5, std=0.25, crop=SIDE)
    assert net.training and net[3].training and not net[6].training
    images = np.random.default_rng(0).integers(0, 256, (7, SIDE, SIDE, 3), dtype=np.uint8)
    batch = torch.from_numpy((images / 255 - 0.5) / 0.25).permute(0, 3, 1, 2).float()
    with torch.no_grad():
        expected = net.eval()(batch).numpy()
    assert np.allclose(model.predict(images), expected, rtol=1e-4, atol=1e-5)
    assert np.allclose(flipcast.Adapter(model, "source", batch_size=8)(batch), expected, rtol=1e-4, atol=1e-5)


def test_a_loader_gives_images_and_labels():
    net = network()
    model = flipcast.Model.from_torch(net, torch.zeros(2, 3, SIDE, SIDE), mean=0.5, std=0.25, crop=SIDE)
    images = torch.randint(0, 256, (40, 3, SIDE, SIDE), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    labels = torch.arange(40) % 5
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=16)
    assert np.array_equal(model.predict(loader), model.predict(images.permute(0, 2, 3, 1).numpy()))
    calibration = model.calibrate(loader, protocol="statistics", shifts="fog:3,contrast:3")
    assert model.estimate(loader, calibration).truth == calibration.clean_accuracy
