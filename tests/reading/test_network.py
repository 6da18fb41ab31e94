"""The reading network: what is seen apart, what together, and that padding changes nothing."""

from __future__ import annotations

import pytest
import torch

from benchmarks.reader.network import LAYERS, Inputs, forward, initial, read_apart, score_cheaply
from shared_core.reading.features import QUESTION_FEATURES, TOKEN_FEATURES

WIDTH, WORDS = 48, 60


@pytest.fixture(scope="module")
def network() -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) * 0.2

    base = {"words.w": normal(WORDS, WIDTH), "positions.w": normal(64, WIDTH), "types.w": normal(2, WIDTH)}
    norms = ["embed_norm"]
    for i in range(LAYERS):
        for part, (outside, inside) in {
            "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH), "value": (WIDTH, WIDTH), "mix": (WIDTH, WIDTH),
            "up": (2 * WIDTH, WIDTH), "down": (WIDTH, 2 * WIDTH),
        }.items():  # fmt: skip
            base[f"layer{i}.{part}.w"], base[f"layer{i}.{part}.b"] = normal(outside, inside), normal(outside)
        norms += [f"layer{i}.mix_norm", f"layer{i}.down_norm"]
    for name in norms:
        base[f"{name}.w"], base[f"{name}.b"] = torch.ones(WIDTH), torch.zeros(WIDTH)
    parameters = initial(base, seed=2)
    for name, value in parameters.items():
        if name.startswith(("token", "asked", "sides", "heads")):
            parameters[name] = value + normal(*value.shape)  # as if trained
    return parameters, base["words.w"]


def inputs(
    network: tuple[dict[str, torch.Tensor], torch.Tensor], sizes: list[tuple[int, int]], claim: bool = False
) -> Inputs:
    """Pairs of so many question and window tokens, padded to one batch; the same tokens at any padding."""
    p, words = network
    m, n = max(a for a, _ in sizes), max(b for _, b in sizes)
    generator = torch.Generator().manual_seed(7)
    ids = [torch.randint(1, WORDS, (40,), generator=generator) for _ in range(4)]
    features = torch.rand(40, TOKEN_FEATURES, generator=generator), torch.rand(40, QUESTION_FEATURES)
    question, window = torch.zeros(len(sizes), m, dtype=torch.long), torch.zeros(len(sizes), n, dtype=torch.long)
    asked, real = torch.zeros(len(sizes), m, dtype=torch.bool), torch.zeros(len(sizes), n, dtype=torch.bool)
    body = real.clone()
    of_token, of_question = torch.zeros(len(sizes), n, TOKEN_FEATURES), torch.zeros(len(sizes), m, QUESTION_FEATURES)
    for i, (a, b) in enumerate(sizes):
        question[i, :a], window[i, :b] = ids[i][:a], ids[i + 1][:b]
        asked[i, :a], real[i, :b], body[i, 1 : b - 1] = True, True, True
        of_token[i, 1 : b - 1] = features[0][1 : b - 1]
    return Inputs(
        read_apart(p, words, window, real), read_apart(p, words, question, asked), real, asked, body, of_token,
        of_question, torch.full((len(sizes),), claim),
    )  # fmt: skip


def test_padding_changes_nothing(network: tuple[dict[str, torch.Tensor], torch.Tensor]) -> None:
    sizes = [(5, 20), (9, 12), (4, 31)]
    together = forward(network[0], inputs(network, sizes))
    cheap = score_cheaply(network[0], inputs(network, sizes))
    for i, size in enumerate(sizes[:1]):
        alone_inputs = inputs(network, [size])
        alone = forward(network[0], alone_inputs)
        for name in ("start", "end", "sentence"):
            padded, plain = getattr(together, name)[i], getattr(alone, name)[0]
            torch.testing.assert_close(padded[: size[1]], plain, atol=1e-4, rtol=1e-4)
            assert torch.isneginf(padded[size[1] :]).all()
        torch.testing.assert_close(together.window[i], alone.window[0], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(together.support[i], alone.support[0], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(cheap[i], score_cheaply(network[0], alone_inputs)[0], atol=1e-4, rtol=1e-4)


def test_only_the_text_s_own_tokens_can_answer(network: tuple[dict[str, torch.Tensor], torch.Tensor]) -> None:
    x = inputs(network, [(5, 20)])
    out = forward(network[0], x)
    for logits in out[:3]:
        assert torch.isneginf(logits[~x.body]).all()
        assert torch.isfinite(logits[x.body]).all()


def test_the_lower_layers_see_a_window_apart_and_the_upper_ones_with_the_question(
    network: tuple[dict[str, torch.Tensor], torch.Tensor],
) -> None:
    one, other = inputs(network, [(5, 20)]), inputs(network, [(9, 20)])
    torch.testing.assert_close(one.window, other.window)
    assert not torch.allclose(forward(network[0], one).start, forward(network[0], other).start)


def test_a_claim_is_read_otherwise_than_a_question(network: tuple[dict[str, torch.Tensor], torch.Tensor]) -> None:
    asked, claimed = inputs(network, [(5, 20)]), inputs(network, [(5, 20)], claim=True)
    assert not torch.allclose(forward(network[0], asked).support, forward(network[0], claimed).support)


def test_what_is_added_says_nothing_before_it_is_trained(network: tuple[dict[str, torch.Tensor], torch.Tensor]) -> None:
    fresh = initial(
        {name: v for name, v in network[0].items() if not name.startswith("sides")} | {"words.w": network[1]}
    )
    x = inputs(network, [(5, 20)])
    blind = x._replace(
        token_features=torch.zeros_like(x.token_features), question_features=torch.zeros_like(x.question_features)
    )
    torch.testing.assert_close(forward(fresh, x).start, forward(fresh, blind).start)
