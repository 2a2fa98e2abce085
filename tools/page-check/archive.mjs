// node archive.mjs OUT URL PATH…: opens the archive's pages in Chromium with the sizes of a phone and a screen, in
// light and dark mode, and saves pictures of them in the folder OUT. Exits with status 1 if axe finds an accessibility
// violation, or if the keyboard cannot reach a link or a field. Also exits with status 1 if a page scrolls sideways,
// sends a request to another server, or writes to the console.
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import puppeteer from 'puppeteer-core';

const [out, site, ...paths] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
mkdirSync(out, { recursive: true });
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--hide-scrollbars'],
});
let wrong = 0;
const page = await browser.newPage();
page.on('request', (r) => { if (!r.url().startsWith(site) && !r.url().startsWith('data:')) complain('request', r.url()); });
page.on('console', (m) => complain('console', m.text()));
page.on('pageerror', (e) => complain('error', e.message));
for (const path of paths) await look(path);
await keyboard();
await browser.close();
console.log(wrong === 0 ? `no faults found; the pictures are in ${out}` : `${wrong} faults found`);
process.exitCode = wrong === 0 ? 0 : 1;

async function look(path) {
  const name = path.replace(/[^a-z0-9]+/gi, '-').replace(/^-|-$/g, '') || 'home';
  for (const width of [360, 1440]) {
    for (const theme of ['light', 'dark']) {
      const view = `${name}-${width}-${theme}`;
      await page.setViewport({ width, height: 1000 });
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: theme }]);
      const answer = await page.goto(site + path);
      if (!answer.ok()) complain(view, `status ${answer.status()}`);
      await page.screenshot({ path: join(out, `${view}.png`), fullPage: true });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) complain(view, `scrolls sideways by ${wide} px`);
      const styled = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
      if (styled === 'rgba(0, 0, 0, 0)') complain(view, 'has no style');
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run());
      for (const v of violations) complain(view, `${v.id}: ${v.help}: ${v.nodes.map((n) => n.target).join(', ')}`);
    }
  }
  await reach(name);
}

// reach presses the tab key until the focus either leaves the page or returns to an earlier element. It lists the
// elements that never had the focus.
async function reach(name) {
  const all = await page.evaluate(() => {
    window.missed = new Set(document.querySelectorAll('a[href], input, select, textarea, button, [tabindex="0"]'));
    document.activeElement.blur();
    return window.missed.size;
  });
  for (let i = 0; i <= all; i++) {
    await page.keyboard.press('Tab');
    const shown = await page.evaluate(() => {
      window.missed.delete(document.activeElement);
      return document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none';
    });
    if (!shown) complain(name, `focus is invisible: ${await page.evaluate(() => document.activeElement.outerHTML.slice(0, 80))}`);
  }
  for (const missed of await page.evaluate(() => [...window.missed].map((e) => e.outerHTML.slice(0, 80)))) complain(name, `no focus by the tab key: ${missed}`);
}

// keyboard finds a board by using only the keyboard.
async function keyboard() {
  await page.goto(`${site}/`);
  while (await page.evaluate(() => document.activeElement.id !== 'q')) await page.keyboard.press('Tab');
  await page.keyboard.type('1653924023101');
  await page.keyboard.press('Tab');
  await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')]);
  const title = await page.title();
  if (!title.startsWith('Board 1653924023101')) complain('keyboard', `the search leads to ${title}`);
}

function complain(view, what) {
  console.log(`${view}: ${what}`);
  wrong++;
}
