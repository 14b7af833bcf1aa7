# SPDX-License-Identifier: Apache-2.0
"""The page of `explain --html` by keys alone, in Chromium: Tab goes through all that can be used in
the order of the page and out of it again, shows where it is, and what it reaches does its work. And
pictures of the page, for those who look at it."""

import browser

TAB, ENTER, ESCAPE, RIGHT, HOME = ("Tab", 9), ("Enter", 13), ("Escape", 27), ("ArrowRight", 39), \
    ("Home", 36)
WIDTHS = {"wide": 1280, "phone": 375, "narrow": 320}  # 320: WCAG 1.4.10

PLACES = {"compare": "#compare", "launch": "#launch0", "order": "#launch0 ~ div svg.order",
          "timeline": "#launch0 ~ div svg.timeline", "roofline": "#roofline", "diff": "#diff"}

# All that Tab should reach, in the order of the page: numbered, so that a stop has a number.
NUMBER = """(() => {
  const all = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")]
    .filter((e) => e.tabIndex >= 0 && e.checkVisibility());
  all.forEach((e, i) => { e.dataset.stop = i; });
  document.activeElement.blur();
  return all.length;
})()"""

# Where the focus is, whether it can be seen, and whether the window shows it.
STOP = """(() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const style = getComputedStyle(at), box = at.getBoundingClientRect();
  return { stop: +at.dataset.stop, what: `${at.tagName} ${at.textContent.slice(0, 30)}`,
    ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    inside: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth };
})()"""


def focus(tab, which):
    tab.value(f"document.querySelector({which!r}).focus()")


def check_order(tab):
    """Every stop once, in order, visibly; then the page is left."""
    n = tab.value(NUMBER)
    assert n > 50, f"only {n} stops"
    for want in range(n):
        tab.press(*TAB)
        at = tab.value(STOP)
        assert at, f"the page is left after {want} of {n} stops"
        assert at["stop"] == want, f"stop {want} is {at}"
        assert at["ring"], f"nothing shows the focus: {at}"
        assert at["inside"], f"out of the window: {at}"
    tab.press(*TAB)
    at = tab.value(STOP)
    assert not at or at["stop"] == 0, f"no way out of {at}"


def check_skip(tab):
    """The first stop is a link to the schedule, which shows itself only then."""
    tab.value("document.activeElement.blur()")
    tab.press(*TAB)
    box = "document.querySelector('.skip').getBoundingClientRect().left"
    assert tab.value(box) >= 0, "the first link does not show itself"
    tab.press(*ENTER)
    assert tab.value("location.hash") == "#schedule"
    tab.press(*TAB)
    assert tab.value(box) < 0


def check_use(tab):
    """A fold opens, the slider moves, a word is explained, other listings are compared."""
    focus(tab, "#compare ~ details summary")
    tab.press(*ENTER)
    assert tab.value("document.querySelector('#compare ~ details').open"), "the fold stays closed"
    focus(tab, ".step input")
    tab.press(*HOME)
    tiles = "document.querySelector('.step').nextElementSibling"
    hidden = f"{tiles}.querySelectorAll('g[hidden]').length"
    shown = "document.querySelector('.step output').value"
    before = tab.value(hidden)
    assert tab.value(shown) == "0" and before > 0, "the slider does not begin"
    tab.press(*RIGHT)
    assert tab.value(shown) == "1" and tab.value(hidden) == before - 1, "the slider does not move"
    focus(tab, "a.term")
    assert not tab.value("document.getElementById('tip').hidden"), "the word is not explained"
    tab.press(*ESCAPE)
    assert tab.value("document.getElementById('tip').hidden"), "the words stay"
    differs = tab.value("document.getElementById('diff').textContent")
    focus(tab, "#before")
    tab.press(*ENTER)
    assert tab.value("document.getElementById('diff').textContent") != differs, \
        "the same differences"


def check_scroll(tab):
    """On a phone the picture of the pipeline is wider than the window, and arrows move it."""
    tab.value("document.querySelector('svg.timeline').closest('details')?.setAttribute('open', '')")
    tab.value("document.querySelector('svg.timeline').parentElement.focus()")
    tab.press(*RIGHT)
    tab.wait("document.querySelector('svg.timeline').parentElement.scrollLeft > 0")


def check_reflow(tab):
    wide, window = tab.value("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window, f"{wide} pixels wide in {window}"


CHECKS = [("order of the keys", "wide", False, check_order),
          ("skip link", "wide", False, check_skip),
          ("use by keys", "wide", True, check_use),
          ("order on a phone", "phone", True, check_order),
          ("scrolling by keys", "phone", False, check_scroll),
          ("320 pixels", "narrow", False, check_reflow)]


def attempt(tab, check):
    try:
        check(tab)
    except AssertionError as problem:
        return str(problem)[:400]
    complaints = tab.complaints()
    return complaints[0] if complaints else None


def take_pictures(tab, page, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for width in WIDTHS:
        for dark in (False, True):
            tab.open(page.as_uri(), WIDTHS[width], 1500, dark)
            for name, at in PLACES.items():
                tab.value(f"document.querySelector({at!r}).scrollIntoView()")
                tab.picture(folder / f"{width}-{'dark' if dark else 'light'}-{name}.png")


def run(chromium, page, profile, pictures=None):
    """Yields (what, problem or None)."""
    with browser.Browser(chromium, profile) as tab:
        for what, width, dark, check in CHECKS:
            tab.open(page.as_uri(), WIDTHS[width], 900, dark)
            yield what, attempt(tab, check)
        if pictures:
            take_pictures(tab, page, pictures)
