"""The detector alone: its counts, and marked ids against others. With a server: tests/system/cluster/models/test_tgi_model.py."""

import random

import pytest

from baton_client.watermark import detect, is_green

GREEN = [(0, 3), (1, 2), (49151, 2), (49151, 4)]


def test_green_is_what_the_server_says():
    # tests/unit/engine/watermark_test.cpp has the same numbers.
    green = [(previous, token) for previous in (0, 1, 49151) for token in range(8) if is_green(previous, token, 0.25)]
    assert green == GREEN


def test_the_share_of_green_tokens_is_gamma():
    for gamma in (0.1, 0.25, 0.5):
        green = sum(is_green(7, token, gamma) for token in range(50000))
        assert abs(green - 50000 * gamma) < 5 * (50000 * gamma * (1 - gamma)) ** 0.5


def text_of(rng, length, gamma, prefers_green):
    ids = [rng.randrange(1000)]
    while len(ids) < length:
        token = rng.randrange(1000)
        if not prefers_green or is_green(ids[-1], token, gamma) or rng.random() < 0.3:
            ids.append(token)
    return ids


@pytest.mark.parametrize("gamma", [0.25, 0.5])
def test_marked_texts_are_distinguished_from_unmarked(gamma):
    rng = random.Random(5)
    for _ in range(50):
        assert detect(text_of(rng, 200, gamma, True), gamma).is_marked
        plain = detect(text_of(rng, 200, gamma, False), gamma)
        assert not plain.is_marked and plain.p_value > 1e-5


def test_a_pair_that_comes_again_counts_once():
    green = next(t for t in range(100) if is_green(1, t, 0.5) and is_green(t, 1, 0.5))
    ids = [1, green] * 50
    assert detect(ids).tokens == 2 and not detect(ids).is_marked
    assert detect(ids, counts_repeats=True).z > 9


def test_unscorable_input_is_an_error():
    for ids, gamma in (([], 0.5), ([1], 0.5), ([1, 2], 0), ([1, 2], 1)):
        with pytest.raises(ValueError):
            detect(ids, gamma)
