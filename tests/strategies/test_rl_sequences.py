"""Sampled sequences as a batch: targets of generated tokens only, values where they are predicted."""

import numpy as np

from strategies.rl.sequences import Sequences

PROMPTS = np.array([[1, 2, 3], [4, 5, 0]])
GENERATED = np.array([[7, 8, 9], [6, 9, 7]])


def test_prompts_of_one_length():
    made = Sequences.of(PROMPTS, GENERATED)
    assert made.tokens.tolist() == [[1, 2, 3, 7, 8, 9], [4, 5, 0, 6, 9, 7]]
    assert made.targets.tolist() == [[-1, -1, 7, 8, 9, -1], [-1, -1, 6, 9, 7, -1]]


def test_a_shorter_prompt_is_followed_by_its_tokens_and_padding():
    made = Sequences.of(PROMPTS, GENERATED, lengths_B=np.array([3, 2]))
    assert made.tokens.tolist() == [[1, 2, 3, 7, 8, 9], [4, 5, 6, 9, 7, 0]]
    assert made.targets.tolist() == [[-1, -1, 7, 8, 9, -1], [-1, 6, 9, 7, -1, -1]]
    values = made.at_predictions(np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]))
    np.testing.assert_allclose(values, [[0, 0, 0.1, 0.2, 0.3, 0], [0, 0.4, 0.5, 0.6, 0, 0]])


def test_tokens_after_the_stop_token_do_not_count():
    made = Sequences.of(PROMPTS, GENERATED, stop_token=9)
    assert made.counts_BG.tolist() == [[True, True, True], [True, True, False]]
    assert made.targets.tolist() == [[-1, -1, 7, 8, 9, -1], [-1, -1, 6, 9, -1, -1]]
