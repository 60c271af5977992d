"""Holds Headlight's models against transformers' GPT2LMHeadModel: logits, loss, attention weights, gradients.

Both sides compute in float64, so that what is compared is the model and not the rounding; the float32 results of the
adapter are compared with a wider tolerance. Exit code 1 on any difference beyond it.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy
import torch
from safetensors.numpy import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from transformers.utils import logging

TOLERANCE = {"f64": 1e-9, "f32": 2e-4}
failures = 0
logging.set_verbosity_error()
logging.disable_progress_bar()


def report(what, found, expected, dtype):
    """Compares relative to the largest value of the tensor."""
    global failures
    found, expected = numpy.asarray(found, numpy.float64), numpy.asarray(expected, numpy.float64)
    if found.shape != expected.shape:
        print(f"  FAILED {what}: shape {found.shape} against {expected.shape}")
        failures += 1
        return
    error = numpy.abs(found - expected).max() / max(numpy.abs(expected).max(), 1e-30)
    good = bool(error <= TOLERANCE[dtype])
    failures += not good
    print(f"  {'ok' if good else 'FAILED':<6} {what:<44} {dtype}  largest difference {error:.1e} of the largest value")


def reference(model, tokens, targets):
    """What transformers computes, under Headlight's names."""
    model = model.double().eval()
    output = model(torch.tensor(tokens, dtype=torch.long), output_attentions=True)
    flat = output.logits.reshape(-1, output.logits.shape[-1])
    loss = torch.nn.functional.cross_entropy(flat, torch.tensor(targets, dtype=torch.long).reshape(-1), ignore_index=-1)
    loss.backward()
    named = {"logits": output.logits.detach().numpy(), "loss": loss.detach().numpy().reshape(1)}
    named |= {f"attn.{layer}": weights.detach().numpy() for layer, weights in enumerate(output.attentions)}
    named |= {f"grad.{name}": p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}
    return named


def compare(program, directory, arguments, tokens, room):
    """Traces the model in `directory` with Headlight and compares with transformers."""
    model = GPT2LMHeadModel.from_pretrained(directory, attn_implementation="eager", dtype=torch.float32)
    for dtype, device in [("f64", "cpu"), ("f32", "auto")]:
        out = room / "trace.safetensors"
        command = [program, "trace", "--model", directory, "--out", out, "--grads", "--dtype", dtype, "--device", device]
        subprocess.run([*command, *arguments], check=True, capture_output=True)
        traced = load_file(out)
        if tokens is not None and not numpy.array_equal(traced["tokens"], tokens):
            print(f"  FAILED tokens: {traced['tokens']} against {tokens}")
            globals()["failures"] += 1
        model.zero_grad()
        expected = reference(model, traced["tokens"], traced["targets"])
        model.float()
        for name in ["logits", "loss"]:
            report(name, traced[name], expected[name], dtype)
        layers = sorted(name for name in expected if name.startswith("attn."))
        report("attention weights of all layers", *(numpy.stack([of[n] for n in layers]) for of in (traced, expected)), dtype)
        names = sorted(name for name in expected if name.startswith("grad."))
        missing = set(names) ^ {name for name in traced if name.startswith("grad.")}
        if missing:
            print(f"  FAILED gradients that only one side has: {sorted(missing)}")
            globals()["failures"] += 1
        report(f"gradients of all {len(names)} parameters", *(
            numpy.concatenate([of[n].reshape(-1) for n in names]) for of in (traced, expected)), dtype)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--room", required=True, type=Path)
    parser.add_argument("--text", default="Balesdo\nTimrasuk\n", help="in the model's own vocabulary")
    options = parser.parse_args()
    torch.manual_seed(1337)

    directory = next(d for d in [options.model, options.model / "best", options.model / "last"] if (d / "config.json").exists())
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"))
    print(f"{directory} (Headlight's) in transformers")
    tokens = numpy.array([tokenizer.encode(options.text)], numpy.int32)
    compare(options.program, directory, ["--text", options.text], tokens, options.room)

    written = options.room / "written"
    config = GPT2Config(vocab_size=53, n_positions=24, n_embd=40, n_layer=3, n_head=5, bos_token_id=None, eos_token_id=None)
    GPT2LMHeadModel(config).save_pretrained(written)
    file = options.room / "tokens.safetensors"
    for model, vocabulary in [(written, 53), (Path("tests/golden/gpt_tiny_hf"), 65)]:
        tokens = numpy.random.default_rng(7).integers(0, vocabulary, (3, 24), dtype=numpy.int32)
        save_file({"tokens": tokens}, file)
        print(f"{model} (transformers') in Headlight")
        compare(options.program, model, ["--tokens", file], tokens, options.room)

    print("all agree" if failures == 0 else f"{failures} comparisons failed")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
