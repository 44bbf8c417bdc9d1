"""MkDocs hook: formulas become MathML while the site is built, so that pages need no script.

`pymdownx.arithmatex` finds them in Markdown; browsers draw MathML by themselves, and offline.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', flags=re.S)
FUNCTION = re.compile(r"(<mi>(?:log|exp|sin|cos|det)</mi>)(?!<mo[^>]*>(?:\(|&#x00028;)</mo>)")
"""A named function before anything but a bracket, which TeX sets off by a thin space."""
SPACED = r'<mrow>\1<mspace width="0.167em"></mspace></mrow>'


def on_page_content(content: str, **_: Any) -> str:
    """The page with each formula as MathML: blocks for $$, inline for $."""

    def mathml(found: re.Match[str]) -> str:
        tag, bracket, formula = found.groups()
        display = "block" if bracket == "[" else "inline"
        upright = html.unescape(formula).replace("\\operatorname{", "\\mathrm{")
        made = FUNCTION.sub(SPACED, convert(upright, display=display))
        return f'<{tag} class="math">{made}</{tag}>'

    return FORMULA.sub(mathml, content)
