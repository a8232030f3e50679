"""How long an example of a property takes says more of the machine than of the code."""

from hypothesis import settings


def test_no_example_of_a_property_is_judged_by_how_long_it_takes() -> None:
    assert settings().deadline is None
