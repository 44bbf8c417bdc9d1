"""MkDocs hook: formulas become MathML while the site is built, so that pages need no script.

`pymdownx.arithmatex` finds them in Markdown; browsers draw MathML by themselves, and offline.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert

FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>([.,;:!?)]*)', flags=re.S
)
FUNCTIONS = {"log", "exp", "sin", "cos", "det", "min", "max"}
LARGE = {"∑", "∏", "argmin", "argmax"}
"""Where a formula stands alone, what is below them is drawn there, and not at their side."""
SIMILAR, NORM = "~", "‖"
UNDER = {"msub": "munder", "msubsup": "munderover"}
XMLNS = ' xmlns="http://www.w3.org/1998/Math/MathML"'


def on_page_content(content: str, **_: Any) -> str:
    """The page with each formula as MathML, blocks for $$, inline for $.

    The comma or stop behind an inline formula stays in its line.
    """

    def mathml(match: re.Match[str]) -> str:
        tag, bracket, formula, stop = match.groups()
        upright = html.unescape(formula).replace("\\operatorname{", "\\mathrm{")
        made = of_tex(upright, "block" if bracket == "[" else "inline")
        return f'<{tag} class="math">{made}{stop}</{tag}>'

    return FORMULA.sub(mathml, content)


def of_tex(formula: str, display: str) -> str:
    """MathML of a formula, with what the converter makes other than TeX mended."""
    root = ElementTree.fromstring(convert(formula, display=display).replace(XMLNS, ""))
    for parent, node in list(children(root)):
        if node.text == SIMILAR:
            node.tag, node.text = (
                "mo",
                "\N{TILDE OPERATOR}",
            )  # with the space of a relation around it
        elif node.text == NORM and node.tag == "mo":
            node.set("stretchy", "false")
        elif node.tag == "mo" and node.text in ("\\{", "\\}"):
            node.text = node.text[1:]
        elif node.text == "|":
            node.attrib |= {"lspace": "0", "rspace": "0"}
        elif node.text in FUNCTIONS:
            node.tag = "mi"
            spaced(parent, node)
        elif node.tag in UNDER and display == "block" and "".join(node[0].itertext()) in LARGE:
            node.tag = UNDER[node.tag]
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


def children(root: Element) -> Iterator[tuple[Element, Element]]:
    """Each element with its parent."""
    for parent in root.iter():
        for node in parent:
            yield parent, node


def spaced(parent: Element, function: Element) -> None:
    """Sets a named function off by thin spaces, as TeX does, but not from operators."""
    if parent.tag not in ("mrow", "math"):
        return
    at = list(parent).index(function)
    if at + 1 < len(parent) and parent[at + 1].text not in ("(", "[", "|"):
        parent.insert(at + 1, thin_space())
    if at > 0 and (parent[at - 1].tag not in ("mo", "mspace") or parent[at - 1].text in (")", "]")):
        parent.insert(at, thin_space())


def thin_space() -> Element:
    """A space of a sixth of an em."""
    return Element("mspace", width="0.167em")
