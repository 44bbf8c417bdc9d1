"""Formulas of the pages as MathML, where the converter makes other than TeX."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
from pages import ROOT


@pytest.fixture(scope="module")
def mathml() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mathml", ROOT / "docs" / "mathml.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        (r"w \sim q", "<mi>w</mi><mo>\N{TILDE OPERATOR}</mo><mi>q</mi>"),
        (r"\lVert m \rVert^2", '<mo stretchy="false">‖</mo><mn>2</mn>'),
        (r"\Big\{ x \Big\}", ">{</mo><mi>x</mi>"),
        (r"q \log q", '<mspace width="0.167em"></mspace><mi>log</mi><mspace width="0.167em">'),
        (
            r"q(z) \log q",
            '<mo stretchy="false">)</mo><mspace width="0.167em"></mspace><mi>log</mi>',
        ),
        (r"\log (q)", '<mi>log</mi><mo stretchy="false">(</mo>'),
        (r"- \log q", "<mo>\N{MINUS SIGN}</mo><mi>log</mi>"),
        (r"\left[\sum_{n=1}^N x_n\right]", "<munderover><mo>∑</mo>"),
        (r"\operatorname{arg\,max}_w f", "</mrow><mi>w</mi></munder>"),
        (r"|m| = 2", '<mo stretchy="false" lspace="0" rspace="0">|</mo><mo>=</mo>'),
        (r"x_n", "<msub><mi>x</mi><mi>n</mi></msub>"),
    ],
)
def test_what_tex_makes_of_it(mathml: ModuleType, tex: str, expected: str) -> None:
    page = f'<div class="arithmatex">\\[{tex}\\]</div>'
    made = mathml.on_page_content(page)
    assert made.startswith('<div class="math"><math display="block">')
    assert expected in made


def test_a_stop_stays_with_its_formula(mathml: ModuleType) -> None:
    page = 'of <span class="arithmatex">\\(\\sum_n x_n &lt; 1\\)</span>, and'
    made = mathml.on_page_content(page)
    assert made.endswith("<mo>&lt;</mo><mn>1</mn></mrow></math>,</span> and")
    assert "<munder>" not in made  # in a line of text beside the sum
