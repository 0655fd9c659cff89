"""The HTML report: whole in one file, readable without eyes, and as a browser lays it out."""

import re
import subprocess
from xml.etree import ElementTree

import pytest
from made_nagle import nagle_run
from made_rounds import made_round, made_run, made_state
from made_states import KERNELS, STATES, many_states_report

from testbed.analysis.report import make_report
from testbed.reports import svg
from testbed.reports.html import html_report

# Run in the page: what overflows, what is not drawn, and how it looks.
PROBE = """<script>
const right = element => element.getBoundingClientRect().right;
const wide = document.documentElement.scrollWidth - window.innerWidth;
const images = [...document.querySelectorAll('figure svg')];
const empty = images.filter(image => image.getBoundingClientRect().height < 40).length;
const outside = images.flatMap(image => [...image.querySelectorAll('text')]
  .filter(text => right(text) > right(image) + 1)).length;
const back = getComputedStyle(document.body).backgroundColor;
document.title = `wide=${wide} empty=${empty} outside=${outside} back=${back}`;
</script>"""


@pytest.fixture(scope="module")
def page():
    return html_report(make_report(*nagle_run()))


@pytest.fixture(scope="module")
def many():
    """The page of 24 states on two kernels."""
    return html_report(many_states_report())


def test_the_page_asks_for_nothing_from_outside(page):
    assert not re.search(r"""(src|href)\s*=|@import|url\(|https?://""", page)


def test_every_figure_is_well_formed_and_has_a_text_alternative(page):
    images = re.findall(r"<figure>.*?(<svg.*?</svg>)", page, flags=re.DOTALL)
    assert len(images) == 5
    for image in images:
        element = ElementTree.fromstring(image)
        assert element.get("role") == "img"
        assert len(element.get("aria-label") or "") > 40


def test_every_round_is_a_mark_and_every_invalid_one_a_cross(page):
    throughput = page[page.index("Throughput of each round") : page.index("Throughput by state")]
    assert throughput.count("Gbit/s</title>") == 24
    assert throughput.count('class="invalid"') == 2


def test_many_states_are_coloured_by_kernel_and_each_has_a_narrow_row(many):
    legend = many[many.index('aria-label="Kernels"') : many.index("<h2>Figures")]
    assert [name for name in KERNELS if f"</svg>{name}</li>" in legend] == [*KERNELS]
    effects, *others = re.findall(r"<figure>.*?</figure>", many, flags=re.DOTALL)
    assert all(f">{state}</text>" in effects for state in STATES)
    sizes = next(one for one in others if "Packet sizes at server:veth0 rx" in one)
    assert sizes.count("65226 bytes, ") == len(STATES) * len(KERNELS)
    heights = [float(height) for height in re.findall(r'<svg viewBox="0 0 760 ([\d.]+)"', many)]
    assert max(heights) < 30 * len(STATES) * len(KERNELS)


def test_names_cannot_break_the_page():
    name = '<script>alert("x")</script>&'
    page = html_report(make_report(made_run({name: made_state()}), [made_round(0, name, 0)]))
    assert "<script>" not in page


def test_a_run_without_rounds_has_a_page_too():
    page = html_report(make_report(made_run({"a": made_state()}, status="interrupted"), []))
    assert "No valid round" in page
    assert "interrupted after 0 valid rounds" in page


def test_ticks_are_round_and_inside_the_scale():
    assert svg.Scale(46.2, 54.9, 0, 100).ticks() == [48, 50, 52, 54]
    assert svg.Scale(0, 100, 0, 1).ticks() == [0, 20, 40, 60, 80, 100]
    assert svg.scale([5.0], 0, 10)(5.0) == pytest.approx(5.0)


@pytest.mark.requires("chromium")
@pytest.mark.parametrize(
    ("which", "width", "flags", "back"),
    [
        ("page", 1000, [], "rgb(255, 255, 255)"),
        ("page", 500, ["--blink-settings=preferredColorScheme=0"], "rgb(20, 24, 29)"),
        ("many", 1000, [], "rgb(255, 255, 255)"),
    ],
    ids=["wide and light", "narrow and dark", "many states"],
)
def test_a_browser_lays_it_out_within_the_window(request, tmp_path, which, width, flags, back):
    file = tmp_path / "report.html"
    file.write_text(request.getfixturevalue(which).replace("</body>", PROBE + "</body>"))
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--window-size={width},900",
        *flags,
    ]
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    dom = subprocess.run(
        [*command, profile, "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    ).stdout
    title = re.search(r"<title>(wide=[^<]*)</title>", dom)
    assert title is not None
    wide, empty, outside, found = re.fullmatch(
        r"wide=(-?\d+) empty=(\d+) outside=(\d+) back=(.*)", title[1]
    ).groups()
    assert (int(wide) <= 0, empty, outside, found) == (True, "0", "0", back)
