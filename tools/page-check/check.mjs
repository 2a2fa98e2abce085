// node check.mjs OUT SIMNODE: opens two kinds of pages in Chromium: the exporter's page of a simulated node in each
// scenario, and each page in internal/status/testdata. It uses the sizes of a phone and a screen, in light and dark mode,
// and saves pictures in the folder OUT. Exits with status 1 if axe finds an accessibility violation, if an element
// is wider than the window, if a number is wrapped, or if the page requests another address.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { basename, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import puppeteer from 'puppeteer-core';

const [out, simnode] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const status = resolve(import.meta.dirname, '../../internal/status');
const together = 5; // number of simulated nodes at a time
const settled = 30; // seconds after which the page of every scenario has data
const readme = 'lost-1280-light'; // the upper part of this picture is docs/pictures/page.png

const chromium = process.env.CHROMIUM ?? '/usr/bin/chromium';
if (!existsSync(chromium)) {
  console.error(`page-check: there is no ${chromium}: install the Debian package chromium, or set CHROMIUM to the path of the browser`);
  process.exit(1);
}
mkdirSync(out, { recursive: true });
const browser = await puppeteer.launch({
  executablePath: chromium, args: ['--no-sandbox', '--disable-gpu', '--hide-scrollbars'],
});
let wrong = 0;
rmSync(join(out, 'page.png'), { force: true });
for (const [name, url] of goldens()) await look(name, url);
const nodes = scenarios().map((scenario) => ({ scenario }));
while (nodes.length > 0) await simulate(nodes.splice(0, together));
await browser.close();
if (!existsSync(join(out, 'page.png'))) complain(readme, 'there is no such view');
console.log(wrong === 0 ? `no faults found; the pictures are in ${out}` : `${wrong} faults found`);
process.exitCode = wrong === 0 ? 0 : 1;

// goldens lists the golden pages of the tests. It adds the style sheet to them, because the golden files do not contain
// the style sheet.
function goldens() {
  const css = readFileSync('internal/style/page.css', 'utf8');
  return readdirSync(join(status, 'testdata')).filter((f) => f.endsWith('.html')).map((f) => {
    const page = resolve(out, f);
    writeFileSync(page, readFileSync(join(status, 'testdata', f), 'utf8').replace('<style></style>', () => `<style>${css}</style>`));
    return [`golden-${basename(f, '.html')}`, pathToFileURL(page).href];
  });
}

function scenarios() {
  return execFileSync(simnode, ['--list'], { encoding: 'utf8' }).trim().split('\n').map((line) => line.split(' ')[0]);
}

// simulate runs some simulated nodes for a while and checks their pages.
async function simulate(batch) {
  for (const node of batch) {
    const address = `127.0.0.1:${await freePort()}`;
    node.url = `http://${address}/`;
    node.program = spawn(simnode, [`--scenario=${node.scenario}`, `--web.listen-address=${address}`], { stdio: 'ignore' });
    node.ended = new Promise((done) => node.program.on('exit', done));
  }
  try {
    await sleep(1000 * settled);
    for (const node of batch) await look(node.scenario, node.url);
  } finally {
    for (const node of batch) node.program.kill('SIGINT');
    await Promise.all(batch.map((node) => node.ended));
  }
}

function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

async function look(name, url) {
  const page = await browser.newPage();
  page.on('request', (r) => { if (r.url() !== url && r.url() !== 'data:,') complain(name, `asks for ${r.url()}`); });
  page.on('console', (m) => complain(name, m.text()));
  for (const width of [390, 1280]) {
    for (const theme of ['light', 'dark']) {
      const view = `${name}-${width}-${theme}`;
      await page.setViewport({ width, height: 1000 });
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }]);
      const answer = await page.goto(url);
      if (!answer.ok()) complain(view, `status ${answer.status()}`);
      await page.screenshot({ path: join(out, `${view}.png`), fullPage: true });
      if (view === readme) await page.screenshot({ path: join(out, 'page.png') });
      await page.evaluate(reveal);
      for (const what of await page.evaluate(tooWide)) complain(view, what);
      for (const what of await page.evaluate(wrapped)) complain(view, what);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run());
      for (const v of violations) complain(view, `${v.id}: ${v.help}: ${v.nodes.map((n) => n.target).join(', ')}`);
    }
  }
  await page.close();
}

// reveal runs in the page and shows elements that are hidden at first.
function reveal() {
  for (const e of document.querySelectorAll('details')) e.open = true;
  for (const a of document.getAnimations()) a.finish();
}

// tooWide runs in the page and lists elements that do not fit into the window or into their box.
function tooWide() {
  const width = document.documentElement.clientWidth;
  return [...document.querySelectorAll('body, body *:not(svg, svg *)')]
    .filter((e) => e.getBoundingClientRect().right > width + 1 || (e.clientWidth > 0 && e.scrollWidth > e.clientWidth + 1))
    .map((e) => `${e.localName} is too wide: ${e.textContent.trim().slice(0, 60)}`);
}

// wrapped runs in the page and lists numbers that are wrapped over several lines.
function wrapped() {
  return [...document.querySelectorAll('td.exact, td.num')].filter((e) => {
    const text = document.createRange();
    text.selectNodeContents(e);
    return /^[0-9.,]+$/.test(e.textContent.trim()) && new Set([...text.getClientRects()].map((r) => Math.round(r.top))).size > 1;
  }).map((e) => `a number has several lines: ${e.textContent.trim()}`);
}

function complain(view, what) {
  console.log(`${view}: ${what}`);
  wrong++;
}
