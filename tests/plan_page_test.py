"""Tests of the page that `forethought plan --html` writes, in headless Chromium: what it draws, keys, search, no network."""
import json
import os
import pathlib
import random
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMAND = pathlib.Path(os.environ.get("FORETHOUGHT_BUILD", ROOT / "build" / "release")) / "tools" / "forethought"
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not BROWSER or not DRIVER:
    pytest.skip("chromium and chromedriver are not installed", allow_module_level=True)
from selenium import webdriver  # noqa: E402 (only where a browser is)
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

NET = """graph net(%x: f32[2,8,16,16]) {
  const %w: f32[8,8,3,3]
  %a: f32[2,8,16,16] = Relu(%x) "/first"
  %b: f32[2,8,16,16] = Sigmoid(%a) "/side"
  %c: f32[2,8,8,8] = MaxPool<kernel_shape=[2,2], strides=[2,2]>(%a) "/pool"
  %d: f32[2,8,8,8] = Tanh(%c) "/small"
  %e: f32[2,512] = Reshape(%d, [2,512]) "/flat"
  %f: f32[2,2048] = Reshape(%b, [2,2048]) "/wide"
  %g: f32[2,2560] = Concat<axis=1>(%e, %f) "/join"
  %h: f32[2,2560] = Softmax<axis=1>(%g) "/weigh"
  %y: f32[2,5120] = Concat<axis=1>(%h, %g) "/out"
  return %y
}
"""

# A drawing in a canvas that is made for reading pixels back.
COPIED = """
  const copied = (canvas) => {
    const c = Object.assign(document.createElement("canvas"), {width: canvas.width, height: canvas.height}).getContext("2d", {willReadFrequently: true});
    c.drawImage(canvas, 0, 0);
    return c;
  };"""


def write_page(folder: pathlib.Path, text: str, *argv, name: str = "net") -> tuple[str, dict]:
    """The address of the page of a graph in text form, and what `plan --json` says of the same graph."""
    (folder / f"{name}.graph").write_text(text)
    base = [str(COMMAND), "plan", str(folder / f"{name}.graph"), "--level", "disabled", *argv]
    page = folder / f"{name}.html"
    subprocess.run([*base, "--html", str(page)], check=True, capture_output=True)
    plan = json.loads(subprocess.run([*base, "--json"], check=True, capture_output=True, text=True).stdout)
    return page.as_uri(), plan


def large_graph(nodes: int) -> str:
    pick, names, lines = random.Random(1), ["x"], []
    for i in range(nodes):
        a, b = names[-1], names[-1 - pick.randrange(min(len(names), 30))]
        lines.append(f'  %v{i}: f32[4,64] = Add(%{a}, %{b}) "/block{i // 10}/add{i}"')
        names.append(f"v{i}")
    return "graph large(%x: f32[4,64]) {\n" + "\n".join(lines) + f"\n  return %{names[-1]}\n}}\n"


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("page"), NET.replace("  const %w: f32[8,8,3,3]\n", ""))


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("page"), large_graph(10_000), name="large")


@pytest.fixture(scope="module")
def chromium():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_script_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium):
    """A quiet browser: each test ends without a message on the console, and without a request beside the page itself."""
    chromium.get_log("browser"), chromium.get_log("performance")
    look(chromium, 1280, 900)
    yield chromium
    assert chromium.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert asked and [url for url in asked if not url.startswith(("file:///", "data:"))] == []
    assert len({url for url in asked if url.startswith("file:")}) == 1


def look(browser, width: int, height: int, scale: float = 1, scheme: str = "light") -> None:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})


def facts(browser) -> dict[str, str]:
    """The terms and texts of the details."""
    return browser.execute_script("return Object.fromEntries([...document.querySelectorAll('#facts dt')]"
                                  ".map((t) => [t.textContent, t.nextElementSibling.textContent]))")


def choice(browser) -> str | None:
    """The name of the option that the list has as its active one."""
    return browser.execute_script("const o = document.getElementById(document.getElementById('list').getAttribute("
                                  "'aria-activedescendant')); return o && o.querySelector('span').textContent")


def by_name(plan: dict) -> dict[str, dict]:
    return {v["name"]: v for v in plan["values"]}


# --- what it holds and draws


def test_the_page_holds_the_plan_that_the_command_prints(browser, net):
    url, plan = net
    browser.get(url)
    assert json.loads(browser.execute_script("return document.getElementById('plan').textContent")) == plan
    assert browser.title == "net.graph" == browser.find_element("tag name", "h1").text


@pytest.mark.parametrize("scale,scheme", ((1, "light"), (2, "dark")))
def test_the_picture_has_the_boxes_where_the_plan_has_the_values(browser, net, scale, scheme):
    """Samples the drawing at each step between all borders of addresses: a role's colour just where a value lies."""
    url, plan = net
    look(browser, 1280, 900, scale, scheme)
    browser.get(url)
    frame = browser.execute_script("const p = plots[0]; return [kLeft, plotWidth, p.bottom, p.height, p.band.arena]")
    left, width, bottom, height, arena = frame
    assert arena == "slab"
    values = [v for v in plan["values"] if v["arena"] == "slab"]
    edges = sorted({e for v in values for e in (v["offset"], v["offset"] + v["bytes"])} | {0, plan["peak"]})
    per_step, per_byte = width / len(plan["steps"]), height / plan["peak"]
    samples, expected = [], []
    for step in range(len(plan["steps"])):
        for low, high in zip(edges, edges[1:]):
            if (high - low) * per_byte < 10:
                continue
            inside = [v for v in values if v["first_step"] <= step <= v["last_step"] and v["offset"] <= low < v["offset"] + v["bytes"]]
            samples.append([left + (step + 0.5) * per_step, bottom - low * per_byte - 4])  # below the names, off the edges
            expected.append(None if not inside else "view" if any(v["place"] == "view" for v in inside) else inside[-1]["role"])
    seen = browser.execute_script(COPIED + """
      const c = copied(base), scale = devicePixelRatio;
      return arguments[0].map(([x, y]) => [...c.getImageData(Math.round(x * scale), Math.round(y * scale), 1, 1).data]);""", samples)
    colours = browser.execute_script("""
      const c = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
      return Object.fromEntries(kRoles.map((r) => { c.fillStyle = css(r); c.fillRect(0, 0, 1, 1); return [r, [...c.getImageData(0, 0, 1, 1).data]]; }));""")
    assert {"view", None, "execution"} <= set(expected) and len(samples) > 20
    for at, want, got in zip(samples, expected, seen):
        if want is None:
            assert got not in colours.values(), at
        elif want != "view":  # hatched: its pixels have one of two colours
            assert got == colours[want], (at, want)


def test_boxes_of_every_arena_span_their_steps(browser, net):
    url, plan = net
    browser.get(url)
    left, width = browser.execute_script("return [kLeft, plotWidth]")
    boxes = browser.execute_script("return plots.flatMap((p) => p.band.values.map((v) => [v.id, boxOf(p, v).x, boxOf(p, v).w]))")
    per_step = width / len(plan["steps"])
    touched = {v["id"]: v for v in plan["values"] if v["first_step"] >= 0 and v["arena"] != "none"}
    assert {b[0] for b in boxes} == set(touched)
    for number, x, w in boxes:
        v = touched[number]
        assert x == pytest.approx(left + v["first_step"] * per_step)
        assert w == pytest.approx((v["last_step"] + 1 - v["first_step"]) * per_step)


def test_arenas_of_devices_have_bands_of_their_own(browser, net, tmp_path):
    url, plan = net
    text = pathlib.Path(url.removeprefix("file://")).read_text()
    value = by_name(plan)["b"]
    here = f'"arena":"slab","index":-1,"offset":{value["offset"]},"bytes":{value["bytes"]},"first_step":{value["first_step"]},'
    assert text.count(here) == 1
    (tmp_path / "far.html").write_text(text.replace(here, here.replace("-1", "0", 1)))
    browser.get((tmp_path / "far.html").as_uri())
    assert ["arena of device 0", 1] in browser.execute_script("return plots.map((p) => [arenaName(p.band.arena), p.band.values.length])")
    browser.execute_script(f"select(model.byId.get({value['id']}))")
    assert facts(browser)["Place"].startswith("arena of device 0, ")


def test_the_curve_follows_the_live_bytes(browser, net):
    url, plan = net
    assert max(plan["live"]) == plan["lower_bound"]
    browser.get(url)
    heights = browser.execute_script(COPIED + """
      const c = copied(curve), fill = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
      fill.fillStyle = css("curve-fill"); fill.fillRect(0, 0, 1, 1);
      const want = fill.getImageData(0, 0, 1, 1).data.join();
      return model.plan.live.map((_, s) => {
        const x = Math.round(kLeft + (s + 0.5) / model.steps * plotWidth), column = c.getImageData(x, 0, 1, 104).data;
        return Array.from({length: 104}, (_, y) => column.slice(4 * y, 4 * y + 4).join()).filter((p) => p === want).length;
      });""")
    for live, height in zip(plan["live"], heights):
        assert height == pytest.approx(84 * live / plan["peak"], abs=3)


def test_the_figures_are_those_of_the_plan(browser, net):
    url, plan = net
    browser.get(url)
    shown = dict(browser.execute_script("return [...document.querySelectorAll('#figures div')].map((d) => [d.firstChild.textContent, d.title])"))
    assert shown["Peak (arena)"] == f"{plan['peak']:,} B" and shown["Lower bound"] == f"{plan['lower_bound']:,} B"
    assert shown["A buffer for each value"] == f"{plan['naive']:,} B"


def test_values_of_unknown_size_tell_their_bound(browser, tmp_path):
    url, plan = write_page(tmp_path, """graph late(%x: f32[100]) {
  %n = NonZero(%x) "/find"
  %k = ArgMax<axis=0, keepdims=0>(%x)
  %r = Range(i64 0, %k, i64 1) "/range"
  return %n, %r
}
""")
    browser.get(url)
    shown = dict(browser.execute_script("return [...document.querySelectorAll('#figures div')].map((d) => [d.firstChild.textContent, d.lastChild.textContent])"))
    assert shown["Sized at run"] == "2, at most 800 B, 1 without a bound"
    assert plan["unplanned"] == {"values": 2, "most_bytes": 800, "unbounded": [by_name(plan)["r"]["id"]]}
    for name, told in {"n": "known at run, at most 800 B (800 B)", "r": "known at run, nothing bounds it"}.items():
        browser.execute_script(f"select(model.byId.get({by_name(plan)[name]['id']}))")
        assert facts(browser)["Bytes"] == told


# --- hover, search, keys


def test_hover_tells_all_about_a_value(browser, net):
    url, plan = net
    browser.get(url)
    value = by_name(plan)["b"]
    x, y, w, h = browser.execute_script(f"const v = model.byId.get({value['id']}), b = boxOf(plots[0], v); return [b.x, b.y, b.w, b.h]")
    box = browser.find_element("id", "map")
    size = box.size
    ActionChains(browser).move_to_element_with_offset(box, int(x + w / 2 - size["width"] / 2), int(y + h / 2 - size["height"] / 2)).perform()
    told = facts(browser)
    assert told["Name"] == "b" and told["Role"] == "execution" and told["Shape"] == "f32[2,8,16,16]"
    assert f"{value['bytes']:,} B" in told["Bytes"] and f"{value['offset']:,} to" in told["Place"]
    assert told["Why there"] == value["reason"] and told["Life"] == f"steps {value['first_step']} to {value['last_step']}"
    assert "/side (Sigmoid)" in told["Written by"] and "/wide (Reshape)" in told["Read by"] and told["Kernel"]
    assert browser.find_element("id", "readout").text.startswith("Step ")


def test_aliases_name_their_root_and_their_sharers(browser, net):
    url, plan = net
    browser.get(url)
    values, names = by_name(plan), {v["id"]: v["name"] for v in plan["values"]}
    view = values["f"]
    assert view["root"] != view["id"] and view["sharers"]
    browser.find_element("id", "search").send_keys("f", Keys.ENTER)
    told = facts(browser)
    assert names[view["root"]] in told["Alias root"]
    assert all(names[s] in told["Shares with"] for s in view["sharers"])
    browser.find_element("css selector", "#facts .link").click()
    assert facts(browser)["Name"] == names[view["root"]]


def test_search_finds_values_and_nodes_and_focuses_them(browser, net):
    url, _ = net
    browser.get(url)
    field = browser.find_element("id", "search")
    field.send_keys("/JOIN")
    assert browser.find_element("id", "count").text.startswith("1 of ") and choice(browser) == "g"
    field.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("id") == "list" and facts(browser)["Name"] == "g"
    field.clear()
    field.send_keys("nowhere")
    assert "No value" in browser.find_element("id", "count").text
    field.send_keys(Keys.ESCAPE)
    assert field.get_attribute("value") == "" and "values" in browser.find_element("id", "count").text


def test_the_keyboard_alone_is_enough(browser, net):
    """From the top of the page: Tab reaches all controls, arrows walk the values in both of their homes."""
    url, plan = net
    browser.get(url)
    reached = []
    for _ in range(24):
        ActionChains(browser).send_keys(Keys.TAB).perform()
        focus = browser.switch_to.active_element
        reached.append(focus.get_attribute("id") or focus.tag_name)
        assert browser.execute_script("return getComputedStyle(arguments[0]).outlineStyle", focus) != "none"
        if reached[-1] == "list":
            break
    assert {"map", "search", "sort", "list", "in"} <= set(reached)
    order = browser.execute_script("return list.map((v) => v.label)")
    ActionChains(browser).send_keys(Keys.HOME).perform()
    assert choice(browser) == order[0]
    ActionChains(browser).send_keys(Keys.ARROW_DOWN * 3).perform()
    assert choice(browser) == order[3] == facts(browser)["Name"]
    ActionChains(browser).send_keys(Keys.END).perform()
    assert choice(browser) == order[-1]

    browser.find_element("id", "map").send_keys(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert choice(browser) == order[2]
    told = browser.execute_script("return document.getElementById('announce').textContent")
    assert told.startswith(f"{order[2]}, ") and by_name(plan)[order[2]]["reason"] in told
    browser.find_element("id", "map").send_keys(Keys.ESCAPE)
    assert choice(browser) is None


def test_up_and_down_follow_the_addresses(browser, net):
    url, plan = net
    browser.get(url)
    values = by_name(plan)
    live = [v for v in plan["values"] if v["arena"] == "slab" and v["place"] != "view" and v["first_step"] <= values["b"]["first_step"] <= v["last_step"]]
    lowest, highest = min(live, key=lambda v: v["offset"]), max(live, key=lambda v: v["offset"])
    assert lowest["offset"] < highest["offset"]
    browser.execute_script(f"select(model.byId.get({lowest['id']}))")
    browser.find_element("id", "map").send_keys(Keys.ARROW_UP)
    assert values[choice(browser)]["offset"] > lowest["offset"]
    browser.find_element("id", "map").send_keys(Keys.ARROW_DOWN)
    assert values[choice(browser)]["offset"] <= lowest["offset"]


def test_zoom_shows_the_value_and_goes_back(browser, large):
    url, plan = large
    browser.get(url)
    browser.find_element("id", "search").send_keys("v5000", Keys.ENTER)
    box = browser.find_element("id", "map")
    box.send_keys("z")
    x0, x1 = browser.execute_script("return [view.x0, view.x1]")
    value = by_name(plan)["v5000"]
    assert x0 <= value["first_step"] and value["last_step"] < x1 and x1 - x0 < 100
    box.send_keys(Keys.SHIFT, Keys.ARROW_RIGHT)
    assert browser.execute_script("return view.x0") > x0
    box.send_keys("0")
    assert browser.execute_script("return [view.x0, view.x1]") == [0, 10_000]
    assert not browser.find_element("id", "fit").is_enabled()


def test_roles_can_be_hidden(browser, net):
    url, plan = net
    browser.get(url)
    before = browser.execute_script("return list.length")
    browser.find_element("css selector", "#legend input").click()
    after = browser.execute_script("return list.map((v) => v.role)")
    assert 0 < len(after) < before and "execution" not in after


# --- large plans, small screens, both schemes


def test_ten_thousand_values_load_and_are_found(browser, large):
    url, plan = large
    browser.get(url)
    assert len(plan["values"]) == 10_001
    assert browser.find_element("id", "count").text == "10,001 values"
    options = browser.find_elements("css selector", "[role=option]")
    assert 0 < len(options) < 100 and options[0].get_attribute("aria-setsize") == "10001"
    browser.find_element("id", "search").send_keys("/add9876", Keys.ENTER)
    assert choice(browser) == "v9876"
    browser.find_element("id", "search").send_keys(Keys.ESCAPE)
    browser.find_element("id", "list").send_keys(Keys.END, Keys.ARROW_UP)
    assert choice(browser) == "v9998"


@pytest.mark.parametrize("width,height,scale", ((360, 740, 3), (640, 450, 2), (1280, 900, 1), (2560, 1300, 1)))
def test_nothing_is_cut_off(browser, net, width, height, scale):
    """Phone width, 200 % zoom of a small window, a desktop, a large screen: no scrolling sideways, all in reach."""
    url, _ = net
    look(browser, width, height, scale)
    browser.get(url)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    wide = browser.execute_script("return [...document.querySelectorAll('button, input, select, section, canvas')].filter((e) => {"
                                  " const b = e.getBoundingClientRect(); return b.width && (b.left < 0 || b.right > innerWidth + 0.5); }).map((e) => e.id || e.tagName)")
    assert wide == []


@pytest.mark.parametrize("scheme", ("light", "dark"))
def test_contrast(browser, net, scheme):
    """Text has a contrast of 4.5 with what it stands on, edges of boxes and controls 3 (WCAG 2.2 AA)."""
    url, _ = net
    look(browser, 1280, 900, 1, scheme)
    browser.get(url)
    colours = browser.execute_script("const s = getComputedStyle(document.documentElement); return Object.fromEntries(arguments[0].map((n) => [n, s.getPropertyValue('--' + n).trim()]))",
                                     ["page", "card", "soft", "text", "muted", "accent", "peak", "bound", "curve",
                                      *(r + e for r in ("execution", "scratch", "output", "input", "weight", "data_dependent") for e in ("", "-edge"))])

    def light(name: str) -> float:
        channels = [int(colours[name][i:i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(a: str, b: str) -> float:
        high, low = sorted((light(a), light(b)), reverse=True)
        return (high + 0.05) / (low + 0.05)

    roles = [c[:-5] for c in colours if c.endswith("-edge")]
    pairs = [(a, b, 4.5) for a in ("text", "muted") for b in ("page", "card", "soft")] + [(a, "card", 4.5) for a in ("accent", "peak", "bound")]
    pairs += [("text", r, 4.5) for r in roles] + [(r + "-edge", "card", 3) for r in roles] + [("curve", "card", 3), ("accent", "page", 3)]
    assert [(a, b, round(contrast(a, b), 2)) for a, b, least in pairs if contrast(a, b) < least] == []


def test_everything_that_takes_keys_has_a_name(browser, net):
    url, _ = net
    browser.get(url)
    nodes = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    taking = [n for n in nodes if n.get("role", {}).get("value") in
              ("button", "checkbox", "searchbox", "combobox", "listbox", "option", "application", "image")]
    assert len(taking) > 15
    assert [n["role"] for n in taking if not n.get("ignored") and not n.get("name", {}).get("value")] == []


# --- notebooks


@pytest.fixture
def forethought():
    return pytest.importorskip("forethought")


def test_notebooks_show_the_page_in_a_frame(forethought, browser, tmp_path):
    """What a notebook puts into its output area: the page, closed in a frame that may run scripts and nothing else."""
    from onnx import TensorProto, helper, save
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    save(helper.make_model(helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:]),
                           ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "a&b.onnx")
    plan = forethought.InferenceSession(tmp_path / "a&b.onnx").memory_plan()
    (tmp_path / "cell.html").write_text(f"<!doctype html><title>cell</title><link rel=icon href='data:,'>{plan._repr_html_()}")
    browser.get((tmp_path / "cell.html").as_uri())
    frame = browser.find_element("tag name", "iframe")
    assert frame.get_attribute("sandbox") == "allow-scripts" and frame.get_attribute("title") == "a&b.onnx"
    browser.switch_to.frame(frame)
    assert browser.find_element("tag name", "h1").text == "a&b.onnx"
    assert json.loads(browser.execute_script("return document.getElementById('plan').textContent")) == dict(plan)
    assert browser.execute_script("return plots.length") > 0
    browser.switch_to.default_content()


# --- hostile names, bodies


def test_names_from_the_model_are_text(browser, tmp_path):
    name = "</script><script>document.title='taken'</script><!--<img src=x onerror=document.title='taken'>"
    text = f'graph g(%x: f32[2]) {{ %y: f32[2] = Relu(%x) "{name}" return %y }}'
    url, plan = write_page(tmp_path, text, name="<b>&amp;")
    browser.get(url)
    assert browser.title == "<b>&amp;.graph"
    browser.find_element("id", "search").send_keys("y", Keys.ENTER)
    assert name in facts(browser)["Written by"] and name in plan["steps"][0]["name"]


def test_bodies_are_graphs_of_their_own(browser, tmp_path):
    text = """graph g(%c: bool[], %x: f32[4,4]) {
  %y: f32[4,4] = If(%c; %x) "/choose" {
    then_branch: graph(%t: f32[4,4]) {
      %p: f32[4,4] = Exp(%t)
      %q: f32[4,4] = Transpose<perm=[1, 0]>(%p)
      %r: f32[4,4] = Relu(%q)
      return %r
    }
    else_branch: graph(%t: f32[4,4]) {
      %r: f32[4,4] = Relu(%t)
      return %r
    }
  }
  return %y
}
"""
    url, plan = write_page(tmp_path, text)
    assert [b["name"] for b in plan["bodies"]] == ["/choose (If)"] * 2
    browser.get(url)
    chooser = browser.find_element("css selector", "#graphs select")
    assert chooser.is_displayed()
    browser.execute_script("arguments[0].value = 1; arguments[0].onchange({target: arguments[0]})", chooser)
    assert "/choose" in browser.find_element("tag name", "h1").text
    assert browser.execute_script("return model.plan.peak") == plan["bodies"][0]["plan"]["peak"]
