# SPDX-License-Identifier: MIT OR Apache-2.0
"""nex-box on the kernels of distributions: every row of cases.py on each of them."""

import json
import re

import cases
import pytest

NUMBERED = list(enumerate(cases.CASES))


def value_of(document, dotted):
    for name in dotted.split("."):
        document = document[name]
    return document


def wanted_of(guest, case, wanted):
    """What a word of the table stands for, there."""
    level = guest.kernel.landlock if case.place.tier == cases.LANDLOCK else cases.LANDLOCK_GIVES_ALL
    if wanted is cases.FS_WRITE:
        return level >= 3
    if wanted is cases.PROCESSES:
        return level >= 6
    if wanted is cases.STRATEGY:
        return case.place.strategy
    return case.place.tier if wanted is cases.TIER else wanted


def release_of(guest):
    return tuple(int(n) for n in guest.fact("release").split(".")[:2])


def skip_if_to_come(case, strategies):
    if strategies[case.place.strategy]:
        pytest.skip(strategies[case.place.strategy])


@pytest.mark.parametrize("number, case", NUMBERED, ids=lambda x: str(x).replace(" ", "_"))
def test_case(guest, strategies, number, case):
    skip_if_to_come(case, strategies)
    if release_of(guest) < case.place.since:
        pytest.skip(f"{case.place} is to be had since Linux {case.place.since[0]}.{case.place.since[1]}")
    answer = guest.answer(number)
    if answer.lacking:
        pytest.skip(f"this kernel has no {case.needs}")
    if case.because:
        check_without_namespaces(guest, answer, case.because)
    else:
        check(guest, case, answer)


def check(guest, case, answer):
    words = f"{answer.out}\n{answer.err}"
    assert case.status is None or answer.status == case.status, f"status {answer.status}:\n{words}"
    for pattern in case.says:
        assert re.search(pattern, words), f"no /{pattern}/ in:\n{words}"
    for text in case.never:
        assert text not in words, words
    if case.document:
        document = json.loads(answer.out)
        found = {name: value_of(document, name) for name in case.document}
        assert found == {name: wanted_of(guest, case, wanted) for name, wanted in case.document.items()}, words


def check_without_namespaces(guest, answer, because):
    document = json.loads(answer.out)
    if guest.kernel.landlock >= cases.LANDLOCK_GIVES_ALL:
        assert (answer.status, document["tier"], document["stdout"]) == (0, cases.LANDLOCK, "in-the-box\n"), document
        assert all(document["guarantees"][name] for name in cases.DEFAULT_GUARANTEES), document
    else:
        assert (answer.status, document["stdout"]) == (125, ""), document
        assert re.search("needs Landlock of level", document["error"]["message"]), document
    reasons = [entry["reason"] for entry in document["passed_over"] if entry["tier"] == cases.NAMESPACES]
    assert any(re.search(because, reason) for reason in reasons), document


def test_the_kernel_is_the_one_it_should_be(guest):
    assert guest.fact("landlock") == str(guest.kernel.landlock)
    assert guest.fact("release").startswith(guest.kernel.name.split("-")[1] + ".")


def test_every_strategy_of_the_program_has_a_place(strategies):
    assert set(strategies) - {"auto"} == {place.strategy for place in cases.PLACES}
