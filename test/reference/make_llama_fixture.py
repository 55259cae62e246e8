"""Makes llama_fixture/: a small random Llama as transformers saves it, and what PyTorch computes from it.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python test/reference/make_llama_fixture.py test/reference/llama_fixture

The weights are float32; all figures are computed from them in float64. Tensors are flat, in row-major order.
"""

import json
import pathlib
import sys
from unittest import mock

import torch
import transformers

SEQUENCES, LENGTH = 3, 9
IGNORED = -1


def random_model():
    # No two extents are equal, and theta and epsilon are not the defaults: a mistake would show.
    config = transformers.LlamaConfig(
        vocab_size=19, hidden_size=8, intermediate_size=14, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=6, max_position_embeddings=16, rms_norm_eps=1e-3,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0}, tie_word_embeddings=False,
        bos_token_id=0, eos_token_id=0, attn_implementation="eager")
    model = transformers.LlamaForCausalLM(config)
    with torch.no_grad():  # as initialised, gains are one: mistakes would not show
        for name, parameter in model.named_parameters():
            parameter.normal_(mean=1.0 if "norm" in name else 0.0, std=0.25)
    return model


def random_batch(vocabulary):
    text = torch.randint(vocabulary, (SEQUENCES, LENGTH + 1))
    tokens, targets = text[:, :-1], text[:, 1:].clone()
    # Sequences differ in how many targets count: 9, 1 and 6.
    targets[1, 1:] = IGNORED
    targets[2, ::3] = IGNORED
    return tokens, targets


def in_float64():
    """The model computes norms, angles and softmax in float32, whatever its weights are: not within this."""
    return (mock.patch.multiple(torch, float32=torch.float64, float=torch.float64),
            mock.patch.object(torch.Tensor, "float", torch.Tensor.double))


def loss_of(model, tokens, targets):
    names, method = in_float64()
    with names, method:
        model.model.rotary_emb = type(model.model.rotary_emb)(model.config)
        logits = model(tokens).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
    return loss, logits


def flat(tensor):
    return [float(f"{x:.11e}") for x in tensor.detach().flatten().tolist()]


def main(folder):
    torch.manual_seed(21)
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
        "gradients": {name: flat(parameter.grad) for name, parameter in model.named_parameters()},
    }
    # A line for each figure or tensor, so that a change of one shows as one.
    text = json.dumps(figures, separators=(",", ":")).replace('],"', '],\n"').replace('{"', '{\n"')
    (folder / "figures.json").write_text(text + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
