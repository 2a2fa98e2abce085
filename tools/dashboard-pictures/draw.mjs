// node draw.mjs OUT [DASHBOARD.VARIABLE=VALUE...] ADDRESS: draws every dashboard into the folder
// OUT, in its default time range or from DASHBOARD.from on, with the data of the Prometheus at ADDRESS. It lists the panels
// without data and the number of annotations, and stops at a query that fails.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { build } from 'esbuild';
import { Prometheus } from './prometheus.mjs';

const [out, ...rest] = process.argv.slice(2);
const prometheus = new Prometheus(rest.pop());
const folder = resolve(import.meta.dirname, '../../dashboards');
const cell = 38; // Grafana's grid: a panel of height 8 is 296 pixels high
const width = 1500;

mkdirSync(out, { recursive: true });
await build({
  entryPoints: [join(import.meta.dirname, 'page.jsx')], outfile: join(out, 'page.js'), bundle: true, minify: true, jsx: 'automatic',
  define: { 'process.env.NODE_ENV': '"production"' }, loader: { '.svg': 'text', '.ttf': 'empty' }, logLevel: 'error',
});

// moment returns a time of Grafana in seconds: now, less a number of minutes, hours, days or months, rounded to the start of an hour or
// month, or to its end.
function moment(text, isEnd) {
  const [, number, unit, rounded] = text.match(/^now(?:-(\d+)([mhdM]))?(?:\/([hM]))?$/);
  const t = new Date();
  if (unit === 'M') t.setUTCMonth(t.getUTCMonth() - number, 1);
  else if (unit) t.setTime(t.getTime() - number * { m: 60e3, h: 3600e3, d: 86400e3 }[unit]);
  if (rounded) t.setUTCMinutes(0, 0, 0);
  if (rounded === 'M') t.setUTCHours(0);
  if (rounded && isEnd) rounded === 'M' ? t.setUTCMonth(t.getUTCMonth() + 1) : t.setUTCHours(t.getUTCHours() + 1);
  return Math.floor(t.getTime() / 1000);
}

for (const file of readdirSync(folder).filter((f) => f.endsWith('.json'))) {
  const name = basename(file, '.json');
  const dashboard = JSON.parse(readFileSync(join(folder, file)));
  const given = Object.fromEntries(rest.filter((g) => g.startsWith(`${name}.`)).map((g) => g.slice(name.length + 1).split('=')));
  const end = moment(dashboard.time.to, true), range = end - moment(given.from ?? dashboard.time.from, false);
  const values = await prometheus.variables(dashboard, given);
  const panels = [];
  for (const panel of dashboard.panels) {
    const answers = await prometheus.panel(panel, values, range, end);
    if (answers.every((a) => a.result.length === 0)) console.log(`${name}: ${panel.title}: ${panel.fieldConfig.defaults.noValue}`);
    panels.push({ panel, answers });
  }
  for (const a of dashboard.annotations.list) console.log(`${name}: ${a.name}: ${await prometheus.events(a, values, range, end)}`);
  const height = cell * Math.max(...dashboard.panels.map((p) => p.gridPos.y + p.gridPos.h)) + 60;
  const data = { title: dashboard.title, values, panels, from: (end - range) * 1000, to: end * 1000, width, cell };
  const page = join(out, `${name}.html`);
  writeFileSync(page, `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css"><style>body{margin:0;font-family:"DejaVu Sans",sans-serif}</style><div id="root"></div>
<script>window.data=${JSON.stringify(data).replaceAll('<', '\\u003c')}</script><script src="page.js"></script>`);
  execFileSync('chromium', [
    '--headless=new', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--allow-file-access-from-files', '--virtual-time-budget=15000',
    `--window-size=${width},${height}`, `--screenshot=${resolve(out, `${name}.png`)}`, `file://${resolve(page)}`,
  ], { stdio: ['ignore', 'ignore', process.env.VERBOSE ? 'inherit' : 'ignore'] });
  console.log(join(out, `${name}.png`));
}
