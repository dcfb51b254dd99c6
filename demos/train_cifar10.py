"""Train the CIFAR-10 classifier that ships with gpunn and write it as a TFLite file.

    pip install torch==2.13.0 numpy pillow flatbuffers tflite ai-edge-litert
    python demos/train_cifar10.py --data cifar10_jpg_all.tar.gz --minutes 90

The archive holds CIFAR-10 (Krizhevsky 2009) as 32x32 JPEG files, train/<class>/*.jpg with 50,000
pictures and test/<class>/*.jpg with 10,000.  The schedule is a budget of minutes, not a number of
epochs: the learning rate follows the share of the budget that is used up, so training always ends
in time, and a slower machine makes fewer epochs.  For that reason two runs differ a little.  The
test pictures choose nothing: the weights written are the moving average at the end of the budget.

The shipped model took 90 minutes (54 epochs) on two CPU cores that had other work to do as well,
with PyTorch 2.13.0, and names 89.5 % of the test pictures rightly.  An interrupted run goes on
from its checkpoint; where the cores are busy, --threads 1 is faster than 2.
"""

from __future__ import annotations

import argparse
import copy
import io
import math
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from pictures import open_archive, run
from PIL import Image
from tflite_writer import ModelWriter, write_with_labels

try:
    import torch
    from ai_edge_litert.interpreter import Interpreter, OpResolverType
    from torch import Tensor, nn
    from torch.nn import functional
except ImportError as error:
    raise SystemExit(f"the training needs {error.name}: pip install torch ai-edge-litert") from None

LABELS = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
SIZE = 32
DESCRIPTION = "gpunn CIFAR-10 MobileNet-like classifier, float32, input [1,32,32,3] in [-1,1]"
BATCH = 128
PEAK_RATE = 0.15
WARM_UP = 0.1
WEIGHT_DECAY = 4e-4
SMOOTHING = 0.05
AVERAGE_DECAY = 0.999
PAD = 4
CUTOUT = 8
Pictures = tuple[NDArray[np.uint8], NDArray[np.int64]]


class ConvNorm(nn.Module):
    """Convolution with TFLite's SAME padding, batch normalisation, ReLU6 if `active`."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
        active: bool = True,
    ) -> None:
        super().__init__()
        self.stride, self.groups, self.active = stride, groups, active
        padding = kernel // 2 if stride == 1 else 0
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map x [N, C, H, W] to [N, outputs, H / stride, W / stride]."""
        if self.stride == 2:
            x = functional.pad(x, (0, 1, 0, 1))
        x = self.norm(self.conv(x))
        return functional.relu6(x) if self.active else x

    def folded(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return weights [out, in, height, width] and bias [out] with the normalisation folded in."""
        norm = self.norm
        assert norm.running_mean is not None and norm.running_var is not None
        scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
        weights = self.conv.weight.double() * scale[:, None, None, None]
        bias = norm.bias.double() - norm.running_mean.double() * scale
        return weights.detach().float().numpy(), bias.detach().float().numpy()


class Residual(nn.Sequential):
    """A chain of layers whose result is added to its input."""

    def forward(self, x: Tensor) -> Tensor:
        """Map x [N, C, H, W] to the same shape."""
        return x + super().forward(x)


def plain(width: int) -> Residual:
    """Make a residual block of two full 3x3 convolutions."""
    return Residual(ConvNorm(width, width, 3), ConvNorm(width, width, 3, active=False))


def inverted(width: int, expanded: int) -> Residual:
    """Make MobileNetV2's inverted residual: 1x1 to `expanded` channels, 3x3 depthwise, 1x1 back."""
    return Residual(
        ConvNorm(width, expanded, 1),
        ConvNorm(expanded, expanded, 3, groups=expanded),
        ConvNorm(expanded, width, 1, active=False),
    )


class Classifier(nn.Module):
    """Pictures [N, 3, 32, 32] in [-1, 1] to logits [N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            ConvNorm(3, 32, 3),
            ConvNorm(32, 64, 3, stride=2),
            plain(64),
            ConvNorm(64, 96, 3, stride=2),
            *(inverted(96, 288) for _ in range(5)),
            ConvNorm(96, 256, 1),
        )
        self.head = nn.Linear(256, len(LABELS))

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits [N, 10] of x [N, 3, 32, 32]."""
        return self.head(self.features(x).mean((2, 3)))


def read_archive(path: Path) -> dict[str, Pictures]:
    """Decode the archive to {"train" | "test": (pictures [N, 32, 32, 3] uint8, classes [N])}."""
    found: dict[str, list[tuple[str, NDArray[np.uint8], int]]] = {"train": [], "test": []}
    with open_archive(path) as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            if name.suffix == ".jpg" and (file := archive.extractfile(member)):
                picture = np.asarray(Image.open(io.BytesIO(file.read())).convert("RGB"))
                part, label = name.parts[-3:-1]
                found[part].append((member.name, picture, LABELS.index(label)))
    result = {}
    for part, rows in found.items():
        rows.sort(key=lambda row: row[0])
        result[part] = np.stack([row[1] for row in rows]), np.array([row[2] for row in rows])
    return result


def to_input(pictures: Tensor) -> Tensor:
    """Convert pictures [N, 32, 32, 3] uint8 to float32 [N, 3, 32, 32] in [-1, 1], channels last."""
    return ((pictures.float() - 127.5) / 127.5).permute(0, 3, 1, 2)


def batches(pictures: Tensor, classes: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield one epoch of shuffled, augmented batches; `pictures` are padded to [N, 40, 40, 3].

    Random crop, random horizontal flip, and one grey square of 8x8 pixels in each picture.
    """
    steps = torch.arange(SIZE)
    for chosen in torch.randperm(len(classes)).split(BATCH)[: len(classes) // BATCH]:
        count = len(chosen)
        rows = torch.randint(0, 2 * PAD + 1, (count, 1)) + steps
        columns = torch.randint(0, 2 * PAD + 1, (count, 1)) + steps
        columns = torch.where(torch.rand(count, 1) < 0.5, columns.flip(1), columns)
        crop = pictures[chosen[:, None, None], rows[:, :, None], columns[:, None, :]]
        y, x = (torch.randint(1 - CUTOUT // 2, SIZE - CUTOUT // 2, (2, count, 1)) - steps).neg()
        inside = ((y >= 0) & (y < CUTOUT))[:, :, None] & ((x >= 0) & (x < CUTOUT))[:, None, :]
        yield to_input(crop).masked_fill(inside[:, None], 0.0), classes[chosen]


def learning_rate(progress: float) -> float:
    """Return the rate at `progress` 0..1 through the budget: linear warm-up, then a half cosine to 0."""
    if progress < WARM_UP:
        return PEAK_RATE * (0.05 + 0.95 * progress / WARM_UP)
    return PEAK_RATE * 0.5 * (1 + math.cos(math.pi * (progress - WARM_UP) / (1 - WARM_UP)))


def train(data: Pictures, minutes: float, checkpoint: Path) -> Classifier:
    """Train for `minutes` (resuming from `checkpoint` if it exists); return the averaged model."""
    edge = ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0))
    pictures = torch.from_numpy(np.pad(data[0], edge, mode="reflect"))
    classes = torch.from_numpy(data[1])
    model = Classifier().to(memory_format=torch.channels_last)
    average = copy.deepcopy(model).eval().requires_grad_(False)
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim == 1]
    groups = [
        {"params": matrices, "weight_decay": WEIGHT_DECAY},
        {"params": others, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.SGD(groups, lr=PEAK_RATE, momentum=0.9, nesterov=True)
    before, epoch, step = 0.0, 0, 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        average.load_state_dict(saved["average"])
        optimizer.load_state_dict(saved["optimizer"])
        before, epoch, step = saved["seconds"], saved["epoch"], saved["step"]
    start, budget = time.monotonic() - before, 60 * minutes
    pairs = [
        (a, b)
        for a, b in zip(average.state_dict().values(), model.state_dict().values(), strict=True)
        if a.is_floating_point()
    ]
    model.train()
    while (elapsed := time.monotonic() - start) < budget:
        torch.manual_seed(epoch)
        total, correct, seen = 0.0, 0, 0
        for x, target in batches(pictures, classes):
            if (elapsed := time.monotonic() - start) >= budget:
                break
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(elapsed / budget)
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(x).float()
            loss = functional.cross_entropy(logits, target, label_smoothing=SMOOTHING)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            rate = 1 - min(AVERAGE_DECAY, step / (step + 10))
            with torch.no_grad():
                torch._foreach_lerp_([a for a, _ in pairs], [b for _, b in pairs], rate)
            total += float(loss.detach()) * len(target)
            correct += int((logits.argmax(1) == target).sum())
            seen += len(target)
        epoch += 1
        print(
            f"epoch {epoch}: {elapsed / 60:.1f} min, loss {total / max(seen, 1):.4f}, "
            f"train accuracy {correct / max(seen, 1):.4f}",
            flush=True,
        )
        state = {"seconds": elapsed, "epoch": epoch, "step": step}
        parts = {"model": model, "average": average, "optimizer": optimizer}
        torch.save(state | {k: part.state_dict() for k, part in parts.items()}, checkpoint)
    return average


def export(model: Classifier) -> bytes:
    """Return the TFLite flatbuffer: [1, 32, 32, 3] in [-1, 1] to probabilities [1, 10]."""
    writer = ModelWriter(DESCRIPTION)

    def chain(layers: nn.Sequential, x: int, prefix: str) -> int:
        for number, layer in enumerate(layers):
            name = f"{prefix}{number}"
            if isinstance(layer, Residual):
                x = writer.add(x, chain(layer, x, f"{name}/"), f"{name}/add")
                continue
            assert isinstance(layer, ConvNorm)
            weights, bias = layer.folded()
            active = "relu6" if layer.active else "none"
            if layer.groups > 1:
                weights = weights.transpose(1, 2, 3, 0)
                x = writer.depthwise_conv2d(x, weights, bias, layer.stride, active, f"{name}/dw")
            else:
                weights = weights.transpose(0, 2, 3, 1)
                x = writer.conv2d(x, weights, bias, layer.stride, active, f"{name}/conv")
        return x

    x = chain(model.features, writer.input("image", (1, SIZE, SIZE, 3)), "block")
    x = writer.mean(x, "pool")
    head = model.head
    x = writer.fully_connected(x, head.weight.detach().numpy(), head.bias.detach().numpy(), "logits")
    return writer.finish([writer.softmax(x, "probabilities")])


def check(model: Classifier, path: Path, data: Pictures, compared: int = 256) -> None:
    """Print LiteRT's difference from PyTorch, and its accuracy and recall over all of `data`."""
    runtime = Interpreter(
        model_path=str(path),
        num_threads=1,
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    runtime.allocate_tensors()
    source = runtime.get_input_details()[0]["index"]
    result = runtime.get_output_details()[0]["index"]
    pictures, classes = data
    found = np.zeros((len(classes), len(LABELS)), np.float32)
    for index, picture in enumerate(pictures):
        runtime.set_tensor(source, ((picture[None].astype(np.float32) - 127.5) / 127.5))
        runtime.invoke()
        found[index] = runtime.get_tensor(result)[0]
    sample = np.linspace(0, len(classes) - 1, compared).astype(int)
    with torch.no_grad():
        wanted = model(to_input(torch.from_numpy(pictures[sample]))).softmax(1).numpy()
    print(f"largest difference from PyTorch: {np.abs(found[sample] - wanted).max():.2e}")
    right = found.argmax(1) == classes
    print(f"test accuracy {right.mean():.4f} ({int(right.sum())} of {len(right)})")
    for number, label in enumerate(LABELS):
        print(f"| {label} | {100 * right[classes == number].mean():.1f} % |")


def main() -> None:
    """Train, write the TFLite file, and measure it with LiteRT."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="archive of JPEG pictures")
    parser.add_argument("--minutes", type=float, default=90.0, help="training time (default 90)")
    parser.add_argument("--output", type=Path, default=Path("cifar10_mobilenet.tflite"))
    parser.add_argument("--checkpoint", type=Path, default=Path("train_cifar10.pt"))
    parser.add_argument("--threads", type=int, default=2, help="CPU threads (default 2)")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    data = read_archive(options.data)
    model = train(data["train"], options.minutes, options.checkpoint)
    write_with_labels(options.output, export(model), LABELS)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters} parameters, {options.output.stat().st_size} bytes")
    check(model, options.output, data["test"])


if __name__ == "__main__":
    run(main)
