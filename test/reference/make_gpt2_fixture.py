"""Makes gpt2_fixture/: a small random GPT-2 as transformers saves it, and what PyTorch computes from it.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python test/reference/make_gpt2_fixture.py test/reference/gpt2_fixture

The weights are float32; all figures are computed from them in float64. Names in figures.json have no
`transformer.` prefix; tensors are flat, in row-major order.
"""

import json
import pathlib
import sys

import torch
import transformers

SEQUENCES, LENGTH = 4, 11
IGNORED = -1
# The norm of the gradients of the first step exceeds max_norm, so clipping takes part.
ADAMW = {"steps": 3, "learning_rate": 0.01, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8,
         "weight_decay": 0.1, "max_norm": 0.5}


def random_model():
    config = transformers.GPT2Config(
        vocab_size=37, n_positions=16, n_embd=12, n_layer=2, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
        attn_implementation="eager")
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():  # as initialised, biases are zero and gains are one: mistakes would not show
        for name, parameter in model.named_parameters():
            gain = ".ln_" in name and name.endswith(".weight")
            parameter.normal_(mean=1.0 if gain else 0.0, std=0.25)
    return model


def random_batch(vocabulary):
    text = torch.randint(vocabulary, (SEQUENCES, LENGTH + 1))
    tokens, targets = text[:, :-1], text[:, 1:].clone()
    # Sequences differ in how many targets count: 11, 8, 1 and 7.
    targets[1, 8:] = IGNORED
    targets[2, 1:] = IGNORED
    targets[3, ::3] = IGNORED
    return tokens, targets


def loss_of(model, tokens, targets):
    logits = model(tokens).logits
    # Not the model's own loss, which rounds the logits to float32.
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
    return loss, logits


def trained(model, tokens, targets):
    """Weights after some steps of AdamW on the same batch, and each step's loss and norm."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": ADAMW["weight_decay"]},
         {"params": vectors, "weight_decay": 0.0}],
        lr=ADAMW["learning_rate"], betas=(ADAMW["beta1"], ADAMW["beta2"]), eps=ADAMW["epsilon"])
    losses, norms = [], []
    for _ in range(ADAMW["steps"]):
        optimizer.zero_grad()
        loss, _ = loss_of(model, tokens, targets)
        loss.backward()
        gradients = [p.grad for p in model.parameters()]
        norm = torch.nn.utils.get_total_norm(gradients)
        for gradient in gradients:  # clip_grad_norm_ would add 1e-6 to the norm
            gradient.mul_(min(1.0, ADAMW["max_norm"] / norm.item()))
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return losses, norms


def flat(tensor):
    return [float(f"{x:.11e}") for x in tensor.detach().flatten().tolist()]


def by_name(model, tensor_of):
    return {name.removeprefix("transformer."): flat(tensor_of(parameter))
            for name, parameter in model.named_parameters()}


def main(folder):
    torch.manual_seed(20)
    torch.use_deterministic_algorithms(True)
    model = random_model()
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    (folder / "model.safetensors").chmod(0o644)

    model.double().eval()
    tokens, targets = random_batch(model.config.vocab_size)
    loss, logits = loss_of(model, tokens, targets)
    loss.backward()
    figures = {
        "made_by": f"PyTorch {torch.__version__}, transformers {transformers.__version__}",
        "sequences": SEQUENCES,
        "length": LENGTH,
        "tokens": tokens.flatten().tolist(),
        "targets": targets.flatten().tolist(),
        "loss": loss.item(),
        "logits": flat(logits),
        "gradients": by_name(model, lambda p: p.grad),
    }
    losses, norms = trained(model, tokens, targets)
    figures["adamw"] = ADAMW | {"losses": losses, "norms": norms,
                                "weights": by_name(model, lambda p: p)}
    # A line for each figure or tensor, so that a change of one shows as one.
    text = json.dumps(figures, separators=(",", ":")).replace('],"', '],\n"').replace('{"', '{\n"')
    (folder / "figures.json").write_text(text + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
