"""Automata count the occurrences of sequences as a search over the output does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from occurrences import CONTINUES, is_satisfied, occurrences
from regard.decoding.token_constraints import Automata, TokenConstraint

tokens = st.integers(4, 8)
outputs = st.lists(tokens, max_size=12)
constraints = st.builds(
    TokenConstraint,
    st.lists(st.lists(tokens, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(
        tuple
    ),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)


@given(outputs, constraints.filter(lambda constraint: not constraint.exactly))
def test_automata_match_a_search_over_the_output(
    output: list[int], constraint: TokenConstraint
) -> None:
    unsatisfied = Automata(CONTINUES).unsatisfied([constraint], output)
    assert (not unsatisfied) == is_satisfied(output, constraint)


@given(outputs, constraints.filter(lambda constraint: constraint.exactly))
def test_outputs_with_the_exact_number_have_no_other_occurrence(
    output: list[int], constraint: TokenConstraint
) -> None:
    if not Automata(CONTINUES).unsatisfied([constraint], output):
        assert is_satisfied(output, constraint)
        # Nor one that would be a word by another token after it.
        within = constraint._replace(occurrences=constraint.occurrences + 1, whole_word=False)
        others = sum(
            tuple(output[start : start + len(s)]) == s
            for s in constraint.sequences
            for start in range(len(output))
        )
        assert others >= occurrences(output, within) >= 0


@given(outputs, constraints)
def test_remaining_tokens_are_a_lower_bound_that_next_tokens_approach(
    output: list[int], constraint: TokenConstraint
) -> None:
    [automaton] = Automata(CONTINUES).of([constraint])
    assert automaton.remaining[0] == constraint.shortest
    state = 0
    for token in output:
        index = (
            automaton.alphabet.index(token)
            if token in automaton.alphabet
            else -2 + CONTINUES[token]
        )
        following = automaton.transitions[state][index]
        assert automaton.remaining[following] >= automaton.remaining[state] - 1
        state = following
    if automaton.remaining[state] and automaton.remaining[state] < 100:
        nearest = min(
            automaton.remaining[automaton.transitions[state][automaton.alphabet.index(token)]]
            for token in automaton.next_tokens[state]
        )
        assert nearest <= automaton.remaining[state]


def test_examples() -> None:
    automata = Automata(CONTINUES)
    haus = TokenConstraint(((4, 5),))
    assert not automata.unsatisfied([haus], [4, 4, 5])  # after a false start
    assert automata.unsatisfied([haus], [4, 5, 6]) == [haus]  # within a longer word
    assert not automata.unsatisfied([haus], [4, 5, 6, 4, 5, 8])
    assert not automata.unsatisfied([haus._replace(whole_word=False)], [4, 5, 6])
    twice = haus._replace(occurrences=2)
    assert automata.unsatisfied([twice], [4, 5, 8]) == [twice]
    assert not automata.unsatisfied([twice], [4, 5, 4, 5])
    once = haus._replace(exactly=True)
    assert automata.unsatisfied([haus, once], [4, 5, 4, 5]) == [once]
    impossible = TokenConstraint(())
    assert automata.unsatisfied([impossible], [4]) == [impossible]
