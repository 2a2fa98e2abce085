// One dashboard as a page, of Grafana's React components. Grafana has none for state
// timelines outside of itself: those are drawn here.
import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import {
  FieldConfigOptionsRegistry, FieldType, applyFieldOverrides, cacheFieldDisplayNames, createTheme, dateTime, getDisplayProcessor, getFieldDisplayName, standardTransformers,
  standardTransformersRegistry, ThemeContext, toDataFrame, transformDataFrame,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

const { title, values, panels, from, to, width, cell } = window.data;
const theme = createTheme({ colors: { mode: 'light' } });
const range = { from: dateTime(from), to: dateTime(to), raw: { from: dateTime(from), to: dateTime(to) } };

// Some transformers are there under two names.
const transformers = new Map(Object.values(standardTransformers).map((t) => [t.id, t]));
standardTransformersRegistry.setInit(() =>
  [...transformers.values()].map((t) => ({ id: t.id, name: t.name, transformation: () => Promise.resolve(t) })));

// The options of fields, as the panels of Grafana declare them.
const registry = new FieldConfigOptionsRegistry(() => [
  ...['unit', 'decimals', 'min', 'max', 'mappings', 'thresholds', 'color', 'noValue', 'links', 'displayName'].map((id) => ({ id, path: id, isCustom: false })),
  ...['width', 'cellOptions', 'filterable', 'fillOpacity', 'lineWidth', 'showPoints', 'stacking', 'drawStyle', 'lineInterpolation', 'axisPlacement', 'hideFrom', 'align', 'inspect', 'axisSoftMax', 'axisSoftMin']
    .map((path) => ({ id: `custom.${path}`, path, isCustom: true })),
].map((o) => ({ ...o, name: o.id, process: (value) => value, shouldApply: () => true, getDefault: () => undefined, override: undefined, editor: undefined })));

// The defaults of panels.
const defaults = {
  timeseries: { color: { mode: 'palette-classic' }, custom: { drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, axisPlacement: 'auto', hideFrom: {} } },
  table: { color: { mode: 'thresholds' }, thresholds: { mode: 'absolute', steps: [{ value: null, color: 'text' }] }, custom: { cellOptions: { type: 'auto' }, align: 'auto', hideFrom: {} } },
  stat: { color: { mode: 'thresholds' } },
  'state-timeline': { color: { mode: 'thresholds' } },
};

const number = (text) => (text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : Number(text));

// frames makes data frames of answers, as Grafana's data source does.
function frames(answers) {
  return answers.flatMap(({ refId, instant, legend, result }) => {
    if (!instant) {
      return result.map(({ metric, values }) => toDataFrame({
        refId,
        fields: [
          { name: 'Time', type: FieldType.time, values: values.map(([t]) => t * 1000), config: {} },
          {
            name: 'Value', type: FieldType.number, values: values.map(([, v]) => number(v)), labels: metric,
            config: { displayNameFromDS: legend.replace(/\{\{(\w+)\}\}/g, (_, l) => metric[l] ?? '') },
          },
        ],
      }));
    }
    if (result.length === 0) return [];
    const labels = [...new Set(result.flatMap(({ metric }) => Object.keys(metric)))].sort();
    return [toDataFrame({
      refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: result.map(({ value }) => value[0] * 1000), config: {} },
        ...labels.map((name) => ({ name, type: FieldType.string, values: result.map(({ metric }) => metric[name] ?? ''), config: {} })),
        { name: answers.length > 1 ? `Value #${refId}` : 'Value', type: FieldType.number, values: result.map(({ value }) => number(value[1])), config: {} },
      ],
    })];
  });
}

// prepared applies transformations and field options.
async function prepared(panel, answers) {
  const context = { interpolate: (s) => s };
  const data = await new Promise((resolve) => transformDataFrame(panel.transformations ?? [], frames(answers), context).subscribe(resolve));
  const own = defaults[panel.type];
  const config = panel.fieldConfig;
  const merged = { ...own, ...config.defaults, custom: { ...own.custom, ...config.defaults.custom } };
  const steps = merged.thresholds?.steps.map((s) => ({ ...s, value: s.value ?? -Infinity }));
  const shown = applyFieldOverrides({
    data, theme, timeZone: 'utc', replaceVariables: (s) => s, fieldConfigRegistry: registry,
    fieldConfig: { defaults: { ...merged, ...(steps && { thresholds: { mode: 'absolute', steps } }) }, overrides: config.overrides },
  });
  cacheFieldDisplayNames(shown);
  return shown;
}

function Panel({ panel, answers }) {
  const [data, setData] = useState();
  useEffect(() => { prepared(panel, answers).then(setData); }, []);
  const w = (width - 24) / 24 * panel.gridPos.w - 8;
  const h = cell * panel.gridPos.h - 8;
  return (
    <div style={{ position: 'absolute', left: 16 + (width - 24) / 24 * panel.gridPos.x, top: 52 + cell * panel.gridPos.y }}>
      <PanelChrome title={panel.title} width={w} height={h} padding={panel.type === 'table' ? 'none' : 'md'}>
        {(innerWidth, innerHeight) => data && <Content {...{ panel, data, width: innerWidth, height: innerHeight }} />}
      </PanelChrome>
    </div>
  );
}

function Content({ panel, data, width, height }) {
  const value = data[0]?.fields.find((f) => f.type === FieldType.number);
  if (!data.some((f) => f.length > 0)) {
    return <div style={{ display: 'flex', height, alignItems: 'center', justifyContent: 'center' }}>{panel.fieldConfig.defaults.noValue ?? 'No data'}</div>;
  }
  switch (panel.type) {
    case 'stat': {
      const { colorMode, graphMode, justifyMode, textMode } = panel.options;
      return <BigValue {...{ theme, width, height, colorMode, graphMode, justifyMode, textMode }} value={value.display(value.values.at(-1))} />;
    }
    case 'table':
      return <TableNG {...{ width, height, data: data[0], sortBy: panel.options.sortBy, cellHeight: panel.options.cellHeight, timeRange: range }} />;
    case 'timeseries':
      return <TimeSeries {...{ frames: data, width, height, timeRange: range, timeZone: 'utc', legend: panel.options.legend, replaceVariables: (s) => s }} />;
    case 'state-timeline':
      return <Bands data={data} width={width} />;
  }
}

// Bands is a state timeline.
function Bands({ data, width }) {
  const names = Math.min(300, width * 0.55);
  const x = (t) => (t - from) / (to - from) * (width - names);
  return data.slice(0, 20).map((frame, i) => {
    const [time, value] = frame.fields;
    const step = Math.min(...time.values.slice(1).map((t, j) => t - time.values[j]), to - from);
    const display = value.display ?? getDisplayProcessor({ field: value, theme });
    return (
      <div key={i} style={{ position: 'relative', height: 22, fontSize: 11 }}>
        <span style={{ position: 'absolute', width: names - 8, textAlign: 'right', overflow: 'hidden', whiteSpace: 'nowrap' }}>{getFieldDisplayName(value, frame, data)}</span>
        {time.values.map((t, j) => (
          <i key={t} style={{ position: 'absolute', left: names + x(t), width: x(from + step) + 1, top: 2, height: 16, background: display(value.values[j]).color }} />
        ))}
      </div>
    );
  });
}

function Page() {
  const chosen = Object.entries(values).map(([name, value]) => `${name}: ${value === '.*' ? 'All' : value}`).join('   ');
  return (
    <div style={{ position: 'relative', width, background: theme.colors.background.canvas, minHeight: '100vh' }}>
      <div style={{ padding: '12px 16px', fontSize: 18 }}>{title} <span style={{ fontSize: 12, whiteSpace: 'pre', marginLeft: 24 }}>{chosen}</span></div>
      {panels.map((p) => <Panel key={p.panel.id} {...p} />)}
    </div>
  );
}

createRoot(document.getElementById('root')).render(<ThemeContext.Provider value={theme}><GlobalStyles /><Page /></ThemeContext.Provider>);
