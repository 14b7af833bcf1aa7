# SPDX-License-Identifier: Apache-2.0
"""What the suite `playground` does with the page in Chromium, each check in a tab of its own."""

import json
import pathlib
import urllib.parse

import browser

PICTURES = None  # a folder for pictures of the page, or None
IDLE = ("document.documentElement.dataset.ready !== undefined && "
        "!document.body.hasAttribute('aria-busy')")
MAX_READY = 10_000  # milliseconds from the opening to the first schedule, on a busy machine
HERE = pathlib.Path(__file__).resolve().parent
SPIN = (HERE.parent / "cli/inputs/spin.tile").read_text()
# Backgrounds that are not opaque lie over what is behind them.
CONTRAST = """(() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const ground = (at) => {
    const layers = [];
    for (; at; at = at.parentElement) layers.push(numbers(getComputedStyle(at).backgroundColor));
    let under = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    for (const [r, g, b, a = 1] of layers.reverse())
      under = [r, g, b].map((part, i) => part * a + under[i] * (1 - a));
    return under;
  };
  const luminance = (parts) => parts.slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  let least = [99, "nothing"], n = 0;
  for (const element of document.querySelectorAll("body *")) {
    if (element.closest("script, textarea, option") || !element.getClientRects().length) continue;
    const own = element.matches("select, input") ||
      [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own) continue;
    const [low, high] = [numbers(getComputedStyle(element).color), ground(element)]
      .map(luminance).sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    n++;
    if (ratio < least[0]) least = [ratio, element.outerHTML.slice(0, 80)];
  }
  return [...least, n];
})()"""
NAMELESS = """[...document.querySelectorAll("input, select, button, textarea, pre, iframe")]
  .filter((e) => !(e.closest("label") || e.textContent.trim() || e.title || e.ariaLabel ||
                   e.ariaHidden === "true" || e.labels && e.labels.length))
  .map((e) => e.outerHTML.slice(0, 80))"""
UNREACHED = """[...document.querySelectorAll("pre, .wide")]
  .filter((e) => e.getClientRects().length && e.tabIndex !== 0 && e.ariaHidden !== "true" &&
                 (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1))
  .map((e) => e.id)"""


class Page:
    """The page in a tab."""

    def __init__(self, tab, address):
        self.tab, self.address = tab, address

    def open(self, fragment="", **how):
        self.tab.open(self.address + (f"#{fragment}" if fragment else ""), **how)
        self.idle()

    def idle(self, seconds=60):
        self.tab.wait(IDLE, seconds)

    def text(self, name):
        return self.tab.value(f"document.getElementById({json.dumps(name)}).textContent")

    def do(self, script):
        """Runs it, and waits for the compiler."""
        self.tab.value(f"{{ {script} }}")
        self.idle()

    def show(self, tab):
        self.do(f"by('tab-{tab}').click();")

    def write(self, source):
        """In the place of all that is in the editor, as one types."""
        rounds = self.tab.value("by('source').focus(); by('source').select(); state.rounds")
        self.tab.type(source)
        self.tab.wait(f"state.rounds > {rounds}", 60)
        self.idle()

    def paste(self, source):
        """The same at once: typing much takes long."""
        self.do(f"by('source').value = {json.dumps(source)}; paint(); refresh();")

    def picture(self, name):
        if PICTURES:
            PICTURES.mkdir(parents=True, exist_ok=True)
            self.tab.picture(PICTURES / f"{name}.png")


def check_opens(page):
    page.open()
    took = page.tab.value("performance.now()")
    print(f"the page is ready after {took:.0f} ms; {page.text('state')}")
    assert took < MAX_READY, f"ready after {took} ms"
    assert "schedule softmax on sm_90a {" in page.text("schedule"), page.text("schedule")
    page.picture("schedule")


def check_edits(page):
    """An error at its line, to which its place leads; mended with the keyboard alone."""
    page.open()
    page.write("kernel f(x: f32[M, N],\n    y: f32[N, M]) -> f32[M, N] =\n    x + y\n")
    assert "error[E0402]" in page.text("said"), page.text("said")
    wrong = page.tab.value(
        "[...document.querySelectorAll('.line.wrong')].map((e) => e.textContent)")
    assert wrong == ["    x + y"], wrong
    page.picture("error")
    page.tab.value("document.querySelector('#said button').click()")
    at = page.tab.value("[document.activeElement.id, by('source').selectionStart]")
    before = "kernel f(x: f32[M, N],\n    y: f32[N, M]) -> f32[M, N] =\n    x "
    assert at == ["source", len(before)], at
    page.tab.value("by('source').setSelectionRange(10000, 10000)")
    page.tab.press("Backspace", 8)
    page.tab.press("Backspace", 8)
    page.tab.type("y.T\n")
    page.tab.wait("by('said').textContent === '' && "
                  "by('schedule').textContent.includes('schedule f')")
    page.idle()
    assert "compiled in" in page.text("state"), page.text("state")
    assert not page.tab.value("document.querySelector('.line.wrong')"), "a line is still marked"


def check_ir(page):
    page.open("matmul")
    page.show("ir")
    names = page.tab.value("[...by('pass').options].map((one) => one.value)")
    assert names[0] == "frontend" and len(names) > 5, names
    assert page.text("ir").startswith("func matmul level staged"), page.text("ir")[:100]
    page.do("by('pass').value = 'frontend'; by('pass').dispatchEvent(new Event('change'));")
    assert page.text("ir").startswith("func matmul level tensor"), page.text("ir")[:100]
    page.do("by('later').click();")
    assert page.tab.value("by('pass').value") == names[1]
    page.do("by('target').value = 'gfx942'; by('target').dispatchEvent(new Event('change'));")
    page.do("by('pass').value = 'frontend'; by('pass').dispatchEvent(new Event('change'));")
    assert "target gfx942" in page.text("ir"), page.text("ir")[:100]


def check_explain(page):
    """The page of explain, in a frame: its pictures, its words, its own errors none."""
    page.open("linear")
    page.show("explain")
    frame = "document.querySelector('#panel-explain iframe')"
    assert page.tab.value(f"{frame}.srcdoc.includes('roofline')"), "no roofline"
    assert page.tab.value(f"{frame}.getAttribute('sandbox')") == "allow-scripts"
    inside = page.tab.in_frame()
    page.tab.wait("document.readyState === 'complete'", session=inside)
    assert page.tab.value("document.querySelectorAll('svg').length", inside) > 1, "no pictures"
    page.tab.value("document.querySelector('a[href=\"#roofline\"]').click()", inside)
    page.tab.wait("scrollY > 0", session=inside)
    page.do("chosen.sizes.M = '100'; showFields(kernelOf()); refresh();")
    assert page.tab.value(f"{frame}.srcdoc.includes('M=100')"), "not of the other size"
    page.picture("explain")


def check_runs(page):
    page.open("matmul")
    page.show("run")
    assert "on the interpreter" in page.text("ran"), page.text("ran")
    cells = "[...document.querySelectorAll('table.values td')].map((one) => one.textContent)"
    first = page.tab.value(cells)
    assert len(first) == 64 and all(float(cell) == float(cell) for cell in first), first
    page.do("by('again').click();")
    assert page.tab.value(cells) != first, "another seed gives the same"
    page.picture("run")
    page.write("kernel f(x: f32[N]) -> f32[N] = x - x + 3\n")
    assert set(page.tab.value(cells)) == {"3"}, page.tab.value(cells)


def check_examples(page):
    """Every example with the choices that the page makes."""
    page.open()
    for name in page.tab.value("data.examples.map((one) => one.name)"):
        for tab in ("schedule", "run"):
            page.do(f"showTab('{tab}'); by('example').value = '{name}';"
                    "by('example').dispatchEvent(new Event('change'));")
            state = page.text("state")
            assert "compiled" in state, f"{name}, {tab}: {state}: {page.text('said')[:300]}"
        assert page.text("ran"), name


def check_endless(page):
    """A program that does not end is ended; what follows is as before."""
    page.open()
    page.tab.value("{ limit = 200; showTab('run'); }")
    page.write(SPIN)
    assert "it was stopped after 0.2 seconds" in page.text("said"), page.text("said")
    page.tab.value("{ limit = 20000; }")
    page.write("kernel f(x: f32[N]) -> f32[N] = x + 1\n")
    assert "compiled and run" in page.text("state"), page.text("state")


def check_trap(page):
    """One that is too deep for the engine's stack ends the compiler, not the page; and one that
    wants more memory than there is is an error."""
    page.open()
    lines = "    y = sin(y)\n" * 1500
    page.paste("kernel f(x: f32[N]) -> f32[N] {\n    var y = x\n" + lines + "    return y\n}\n")
    assert "too deep" in page.text("said"), page.text("said")[:300]
    page.write("kernel f(x: f32[N]) -> f32[N] = x + 1\n")
    assert "compiled in" in page.text("state"), page.text("state")
    page.do("showTab('run'); chosen.small.N = '900000000'; showFields(kernelOf()); refresh();")
    assert "memory" in page.text("said"), page.text("said")
    page.do("chosen.small.N = '4'; showFields(kernelOf()); refresh();")
    assert "compiled and run" in page.text("state"), page.text("state")


def check_links(page):
    page.open()
    page.write("kernel häh(x: f32[N]) -> f32[N] = x * 7  # ü 漢\n".replace("häh", "h"))
    page.do("chosen.sizes.N = '77'; showTab('run'); by('share').click();")
    fragment = page.tab.value("location.hash.slice(1)")
    page.open(fragment)
    assert "# ü 漢" in page.tab.value("by('source').value"), "the program is another one"
    assert page.tab.value("[chosen.sizes.N, state.tab]") == ["77", "run"]
    assert "compiled and run" in page.text("state"), page.text("state")


def check_nonsense(page):
    for fragment in ("%%%", "AAAA", "__proto__", "e30", urllib.parse.quote("{'source': 1}")):
        page.open(fragment)
        assert "schedule softmax" in page.text("schedule"), fragment
    for source in ("\x01\x02", "kernel", "{" * 5000, "schedule x on sm_90a {", "import a.b.c", "#",
                   "kernel f() = 1", "fn f(x) = f(x)\nkernel g(x: f32[N]) -> f32[N] = f(x)\n"):
        page.paste(source)
        assert "bad" in page.tab.value("by('state').className"), source
    page.paste("")
    assert "no kernel" in page.text("state") or page.text("said"), page.text("state")
    page.paste("kernel f(x: T[N], c: const f32) -> T[N] where T: float = x + c\n")
    for value in ("x,y=1", "", "-1", "1e99", "N=3"):
        page.do(f"chosen.sizes.N = '{value}'; chosen.sets.c = '{value}'; showFields(kernelOf());"
                "refresh();")
        assert page.text("state"), value
    page.do("chosen.sizes.N = '64'; chosen.sets.c = '2'; showFields(kernelOf()); refresh();")
    assert "compiled in" in page.text("state"), page.text("said")


def check_keyboard(page):
    """Tabs by arrows; Enter keeps the indentation; Tab leaves the editor."""
    page.open()
    page.tab.value("by('tab-schedule').focus()")
    for tab in ("explain", "ir", "run", "schedule"):
        page.tab.press("ArrowRight", 39)
        page.idle()
        assert page.tab.value("document.activeElement.id") == f"tab-{tab}"
        assert not page.tab.value(f"by('panel-{tab}').hidden")
    page.tab.value("by('source').focus(); by('source').select()")
    page.tab.type("kernel f(x: f32[N]) -> f32[N] {")
    page.tab.press("Enter", 13)
    page.tab.type("return x")
    assert page.tab.value("by('source').value") == "kernel f(x: f32[N]) -> f32[N] {\n    return x"
    page.tab.press("Tab", 9)
    assert page.tab.value("document.activeElement.id") != "source", "Tab stays in the editor"


def check_format(page):
    page.open()
    page.write("kernel f(x:f32[N])->f32[N]=x+1\n")
    page.do("by('format').click();")
    page.tab.wait("by('source').value === 'kernel f(x: f32[N]) -> f32[N] = x+1\\n'", 10)
    page.idle()


def check_looks(page):
    """In both schemes and on a phone: contrast, names, width, what scrolls has the keyboard."""
    for name, how in {"light": {}, "dark": {"dark": True}, "phone": {"width": 375},
                      "dark-phone": {"width": 375, "dark": True}}.items():
        page.open("attention", **how)
        for tab in ("schedule", "explain", "ir", "run"):
            page.show(tab)
            if tab == "ir":
                page.write("kernel f(x: f32[N], y: f32[M]) -> f32[N] = x + y\n")
            ratio, where, n = page.tab.value(CONTRAST)
            assert ratio >= 4.5 and n > 20, f"{name}, {tab}: contrast {ratio:.2f} of {where}"
            wide, window = page.tab.value("[document.documentElement.scrollWidth, innerWidth]")
            assert wide <= window, f"{name}, {tab}: {wide} wide in {window}"
            assert not page.tab.value(NAMELESS), page.tab.value(NAMELESS)
            assert not page.tab.value(UNREACHED), page.tab.value(UNREACHED)
            page.picture(f"{name}-{tab}")
            if tab == "ir":
                page.do("by('example').value = 'attention';"
                        "by('example').dispatchEvent(new Event('change'));")


CHECKS = [check_opens, check_edits, check_ir, check_explain, check_runs, check_examples,
          check_endless, check_trap, check_links, check_nonsense, check_keyboard, check_format,
          check_looks]


def attempt(check, page):
    try:
        check(page)
    except (AssertionError, OSError, ValueError) as problem:
        return str(problem)[:600] or repr(problem)
    complaints = page.tab.complaints()
    return complaints[0] if complaints else None


def run(chromium, page, folder):
    """Yields (what, problem or None)."""
    with browser.Browser(chromium, folder / "profile") as tab:
        for check in CHECKS:
            yield check.__name__, attempt(check, Page(tab, page.as_uri()))
