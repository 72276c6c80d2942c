"""What the scripts that make tiny models share: weights that matter, and the oracle's logits."""

import pathlib

import numpy
import torch

GOLDEN = pathlib.Path(__file__).resolve().parent.parent


def randomise(model, seed):
    """Weights large enough that every part of the model moves the logits.

    Transformers starts norms at one, biases at zero and matrices so small that attention is uniform.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                parameter.copy_(0.3 * noise)
            elif "embed" in name:
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(1.3 * noise / parameter.shape[1] ** 0.5)


def round_to(model, dtype):
    """Rounds the weights to what will be stored, so that the oracle has them too."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(dtype).to(parameter.dtype))


def write_logits(model, name, vocab_size, num_tokens, seed):
    """Runs random ids through the model in double and stores every position's logits.

    <name>.tokens: the ids as text. <name>.f32: [num_tokens, vocab_size], little-endian.
    """
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, vocab_size, (1, num_tokens), generator=generator)
    with torch.no_grad():
        logits = model.double().eval()(ids).logits[0]
    assert logits.shape == (num_tokens, vocab_size)
    folder = GOLDEN / "logits"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.tokens").write_text(" ".join(map(str, ids[0].tolist())) + "\n")
    logits.numpy().astype("<f4").tofile(folder / f"{name}.f32")
    print(f"{name}: logits spread {logits.std():.2f}, largest {logits.abs().max():.2f}")
