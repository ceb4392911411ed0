// Looks at every page of the built site in Chromium: node scripts/node/site.mjs
//
// Each page is opened at the width of a phone and of a desktop, in light and in dark. It fails on errors of
// the console, on requests that fail or leave the site, on pages wider than the window, and on text
// that its background hides. The search must find a function. Pictures of some pages go to
// target/site-pictures. CHROMIUM names the browser; scripts/browser.sh sets it.
import { createReadStream, existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { chromium } from "playwright-core";

const root = new URL("../../", import.meta.url).pathname;
const site = join(root, "target", "site");
const pictures = join(root, "target", "site-pictures");
const WIDTHS = { phone: 390, desktop: 1280 };
const SHOWN = ["", "guide/python/", "guide/polars/", "guide/functions/", "reference/reductions/", "perf/report/"];
const TYPES = {
  ".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".json": "application/json",
  ".png": "image/png", ".svg": "image/svg+xml",
};

function serve() {
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, "http://site").pathname));
    let file = join(site, path);
    if (existsSync(file) && statSync(file).isDirectory()) file = join(file, "index.html");
    if (!existsSync(file)) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" });
    createReadStream(file).pipe(response);
  });
  return new Promise((ready) => server.listen(0, "127.0.0.1", () => ready(server)));
}

function pages(folder = "") {
  return readdirSync(join(site, folder), { withFileTypes: true }).flatMap((entry) => {
    if (entry.isDirectory()) return pages(`${folder}${entry.name}/`);
    return entry.name === "index.html" ? [folder] : [];
  });
}

/** What is wrong with the page that is open: in the page, so it sees the layout. */
function faults() {
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const found = wide > 0 ? [`${wide} px wider than the window`] : [];
  for (const image of document.images) {
    if (image.complete && image.naturalWidth === 0) found.push(`no picture: ${image.src}`);
  }
  const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => ((c /= 255) <= 0.04 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  for (const element of document.querySelectorAll(".md-content :is(p, li, td, th, h1, h2, h3, code)")) {
    if (!element.textContent.trim() || !element.checkVisibility()) continue;
    const colour = parse(getComputedStyle(element).color);
    const alpha = colour[3] ?? 1;
    const back = behind(element);
    const seen = colour.slice(0, 3).map((c, i) => c * alpha + back[i] * (1 - alpha));
    const [a, b] = [light(seen), light(back)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 3) found.push(`hard to read: ${element.textContent.trim().slice(0, 40)}`);
  }
  return found;
}

const server = await serve();
const home = `http://127.0.0.1:${server.address().port}/`;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"],
});
mkdirSync(pictures, { recursive: true });
const wrong = [];
const all = pages();
for (const [width, pixels] of Object.entries(WIDTHS)) {
  for (const colorScheme of ["light", "dark"]) {
    const context = await browser.newContext({ viewport: { width: pixels, height: 900 }, colorScheme });
    const page = await context.newPage();
    let path = "";
    const say = (what) => wrong.push(`${path || "home"} (${width}, ${colorScheme}): ${what}`);
    page.on("console", (message) => message.type() === "error" && say(`console: ${message.text()}`));
    page.on("pageerror", (error) => say(`error: ${error.message}`));
    page.on("response", (response) => response.ok() || say(`${response.status()}: ${response.url()}`));
    page.on("request", (request) => {
      if (!request.url().startsWith(home) && !request.url().startsWith("data:")) say(`leaves the site: ${request.url()}`);
    });
    for (path of all) {
      await page.goto(home + path, { waitUntil: "load" });
      for (const fault of await page.evaluate(faults)) say(fault);
      if (SHOWN.includes(path)) {
        const name = `${path.replaceAll("/", "-") || "home-"}${width}-${colorScheme}.png`;
        await page.screenshot({ path: join(pictures, name) });
      }
    }
    path = "search";
    await page.goto(home, { waitUntil: "load" });
    if (width === "phone") await page.click("label[for=__search]");
    // Typed as people do, once the index is there.
    await page.getByText("Type to start searching").waitFor({ state: "attached", timeout: 30000 });
    await page.locator("input[name=query]").pressSequentially("cosine_similarity");
    const hit = page.locator(".md-search-result__link[href*='row-by-row']").first();
    await hit.waitFor({ timeout: 30000 }).catch(() => say("the search does not find cosine_similarity"));
    await page.screenshot({ path: join(pictures, `search-${width}-${colorScheme}.png`) });
    await context.close();
  }
}
await browser.close();
server.close();
wrong.forEach((line) => console.error(line));
console.log(`${all.length} pages, 2 widths, 2 schemes: ${wrong.length} faults`);
process.exit(wrong.length ? 1 : 0);
