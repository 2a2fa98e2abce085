// node types.mjs: checks the types of dashboards/*.json against @grafana/schema: a key that
// Grafana does not know, or a value that it does not take, is an error.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const folder = resolve(import.meta.dirname, '../../dashboards');
const modules = join(import.meta.dirname, 'node_modules');
const dir = mkdtempSync(join(tmpdir(), 'types'));
symlinkSync(modules, join(dir, 'node_modules'));

const raw = `${modules}/@grafana/schema/dist/types/raw`;
const kinds = { stat: 'stat', table: 'table', timeseries: 'timeseries', 'state-timeline': 'statetimeline' };
const lines = [
  `import type { Dashboard } from '${raw}/dashboard/x/types.gen';`,
  `import type * as schema from '@grafana/schema';`,
  ...Object.entries(kinds).map(([, k]) => `import type * as ${k} from '${raw}/composable/${k}/panelcfg/x/types.gen';`),
  // JSON has an enum's values, not its names.
  'type Plain<T> = T extends string ? `${T}` : T extends number ? (`${T}` extends `${infer N extends number}` ? N : number) : T extends boolean | null | undefined ? T',
  '  : unknown extends T ? T : T extends Array<infer E> ? Array<Plain<E>> : { [K in keyof T]: Plain<T[K]> };',
  `type Table = Omit<table.Options, 'frameIndex'> & Partial<Pick<table.Options, 'frameIndex'>>;`,
];
let n = 0;
const check = (type, value, where) => lines.push(`// ${where}`, `export const v${n++}: Plain<${type}> = ${JSON.stringify(value)};`);
for (const file of readdirSync(folder).filter((f) => f.endsWith('.json'))) {
  const dashboard = JSON.parse(readFileSync(join(folder, file)));
  // The fields of Prometheus in annotations are not in the schema.
  const list = dashboard.annotations.list.map(({ expr, step, titleFormat, textFormat, tagKeys, ...rest }) => rest);
  check('Dashboard', { ...dashboard, annotations: { list } }, file);
  for (const panel of dashboard.panels) {
    const kind = kinds[panel.type];
    if (!kind) throw new Error(`${file}: ${panel.title}: what are the options of ${panel.type}?`);
    const where = `${file}: ${panel.title}`;
    check(kind === 'table' ? 'Table' : `${kind}.Options`, panel.options, where);
    const custom = kind === 'table' ? 'Partial<schema.TableFieldOptions & { filterable: boolean }>' : `Partial<${kind}.FieldConfig>`;
    if (kind !== 'stat') check(custom, panel.fieldConfig.defaults.custom ?? {}, where);
  }
}
try {
  writeFileSync(join(dir, 'check.ts'), lines.join('\n'));
  execFileSync(join(modules, '.bin', 'tsc'), ['--noEmit', '--strict', '--skipLibCheck', '--module', 'esnext', '--moduleResolution', 'bundler', '--target', 'es2022', 'check.ts'], { cwd: dir });
  console.log(`types: ${n} parts of the dashboards match Grafana's types`);
} catch (error) {
  const shown = String(error.stdout).replace(/^check\.ts\((\d+),(\d+)\)/gm, (all, line) => lines[line - 2]?.startsWith('// ') ? lines[line - 2].slice(3) : all);
  console.error(shown);
  process.exitCode = 1;
} finally {
  rmSync(dir, { recursive: true });
}
